"""Presets: their names, what papers printed, their settings, and that they run."""

import ast
import hashlib
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import presets
from htfl_sim.choices import QUICKSTARTS
from presets import Reference
from simulator import methods, models
from simulator.base import rng
from simulator.base.nested import merged
from simulator.config import Config
from simulator.data import datasets, inputs
from simulator.data.samples import ArraySet, Images, ImageSet, Labels, SampleSet, joined
from simulator.data.specs import ImageSpec, InputSpec, SignalSpec, TokenSpec
from simulator.engine.builder import build
from simulator.models import ImageShape
from tests import federations
from tests.federations import built, run

# Which presets there are, what one is called, and what an unknown name is told.


ROOM = Path(presets.__file__).parent


def named(begin: str, *axes: tuple[str, ...]) -> set[str]:
    return {begin + "".join(parts) for parts in itertools.product(*axes)}


CIFAR_METHODS = (
    "fedlora", "fedssa", "fedgh", "standalone", "fedavg", "lg_fedavg", "fedclassavg", "fedproto", "fd", "fml", "fedkd",
)  # fmt: skip


def test_every_method_model_setting_dataset_and_scale_has_its_preset() -> None:
    experiments = named("", CIFAR_METHODS, ("_htm5", "_cnn1"), ("", "_cifar100"), ("", "_n50", "_n100"))
    ablations = named("fedssa", ("_a", "_b"), ("_htm5",), ("", "_cifar100"), ("", "_n50", "_n100"))
    listed = {name for name in presets.names() if "htm5" in name or "cnn1" in name}
    assert listed == experiments | ablations


@pytest.mark.parametrize(
    ("begin", "group", "spec", "classes", "count"),
    [
        pytest.param("htfllib", "htfe8", ImageShape(3, 32, 32), 100, 31, marks=pytest.mark.slow),
        ("htfllib_text", "htfe_txt6", TokenSpec(200, 32_000), 4, 30),
        ("htfllib_sensors", "htfe_sen8", SignalSpec(9, 128), 6, 30),
    ],
)
def test_htfllibs_setting_is_there_for_every_method_that_its_models_can_run(
    begin: str, group: str, spec: InputSpec, classes: int, count: int
) -> None:
    """HeteroFL, FedRolex, HeteroAvg and InCo need models of which one is a part of another. pFedES needs images.

    FedKWAZ has presets of its own.
    """
    members = models.members(group)
    federation = federations.federation(members, [40] * len(members), num_classes=classes, shape=spec)
    runs = {
        name
        for name in methods.names()
        if name != "fedkwaz"
        and methods.get(name)(methods.get(name).Config(name=name), federation).unmet_need() is None
    }
    listed = {preset.name for preset in presets.all() if preset.config["federation"]["group"] == group}
    assert {name for name in listed if name.startswith("htfllib")} == {f"{begin}_{name}" for name in runs}
    assert len(runs) == count
    for name in runs:
        set_up = Config.read(presets.load(f"{begin}_{name}").config).method
        assert methods.get(name)(set_up, federation).unmet_need() is None


def test_no_two_presets_share_a_name_or_a_title() -> None:
    titles = [preset.title for preset in presets.all()]
    assert len(presets.names()) == 4 + (11 * 2 + 2) * 2 * 3 + 150 + 105 + 166 + 31 + 2 * 30 + 6
    assert [presets.load(name).name for name in presets.names()] == presets.names()
    assert len({*presets.names()}) == len({*titles}) == len(presets.names())
    widths = named("widths", ("_heterofl", "_fedrolex", "_fiarse"), ("_iid", "_two_labels"))
    assert {name for name in presets.names() if name.startswith("widths")} == widths


def test_every_file_in_the_room_is_a_listed_family() -> None:
    assert {path.stem for path in ROOM.glob("*.toml")} == set(presets.FAMILIES)


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    for wrong, near in (
        ("fedlora_htm", " Did you mean 'fedlora_htm5'?"), ("fedssa_cnn1_n500", " Did you mean 'fedssa_cnn1_n50'?"),
        ("xyzzy", ""),
    ):  # fmt: skip
        with pytest.raises(presets.PresetError) as error:
            presets.load(wrong)
        assert str(error.value) == f"unknown preset '{wrong}'.{near} See `htfl-sim presets`."
        assert error.value.exit_code == 2


def test_changing_a_loaded_configuration_changes_no_later_one() -> None:
    presets.load("quickstart").config["training"]["epochs"] = 99
    assert presets.load("quickstart").config["training"]["epochs"] == 5


def test_the_room_imports_only_the_standard_library_and_itself() -> None:
    allowed = sys.stdlib_module_names | {"presets"}
    for path in ROOM.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            assert {module.partition(".")[0] for module in modules} <= allowed, path


def test_listing_every_preset_loads_no_torch() -> None:
    listing = "import presets, sys; presets.groups(), presets.all(); print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"


# The accuracies the papers printed, as each preset carries them and as the listing groups them.


SCALES = ("", "_n50", "_n100")
ROWS: list[tuple[str, str, str, list[float | None]]] = [
    ("fedlora", "htm5", "FedLoRA", [96.66, 73.58, 95.74, 64.06, 92.58, 53.95]),
    ("standalone", "htm5", "FedGH", [96.62, 72.34]),
    ("fedavg", "htm5", "FedGH", []),
    ("fml", "htm5", "FedLoRA", [30.48, 16.84, None, 21.96, None, 15.21]),
    ("fml", "htm5", "FedGH", [None, None]),
    ("fedssa_b", "htm5", "FedSSA", [93.01, 71.54, 82.42, 52.14, 80.41, 49.95]),
    ("fedssa", "cnn1", "FedSSA", [98.57, 74.81, 95.32, 64.38, 92.67, 58.54]),
    ("fd", "cnn1", "FedGH", [93.63, None, None, None, None, None]),
    ("fedkd", "cnn1", "FedSSA", [94.77, 70.04, 92.93, 57.56, 90.23, 50.99]),
    ("fedkd", "cnn1", "FedGH", [92.65, 58.35, 93.93, 57.36, 91.07, 51.9]),
]  # fmt: skip
"""Method, models, and paper with its numbers by scale, CIFAR-10 before CIFAR-100. None: no convergence."""
CELLS = {
    "FedL2G": {
        "fedproto_htm10_cifar100": 36.1, "fd_htfe8_cifar100_n100": 36.1, "fedl2g_f_htfe8_cifar100_e5": 43.7,
        "fedl2g_f_htfe8_cifar100_eta500": 41.4,
    },
    "FedKWAZ": {
        "kwaz_fd_n50": 40.64, "kwaz_fedgen_htfe9": 42.46, "kwaz_fedkd_htfe8_htc4": 40.3, "kwaz_fedkwaz_htm10": 48.35,
    },
    "InCo": {
        "fedprox_resnet_cinic10_a10": 19.8, "inco_nova_resnet_svhn_a10": 88.4, "moon_vit_svhn_a05": 92.5,
        "case_study_vit_noniid_homo": 54.8,
    },
}  # fmt: skip
"""Cells of other tables."""


def accuracies(name: str, paper: str) -> list[float | None]:
    """What that paper printed for the preset: once, though FedSSA repeats its own result in Table 3."""
    printed = [reference.accuracy for reference in presets.load(name).paper if reference.paper == paper]
    return list(dict.fromkeys(printed))


def test_accuracies_are_as_printed() -> None:
    found = [
        (method, group, paper, [
            accuracy
            for scale in SCALES
            for dataset in ("", "_cifar100")
            for accuracy in accuracies(f"{method}_{group}{dataset}{scale}", paper)
        ])
        for method, group, paper, _ in ROWS
    ]  # fmt: skip
    assert found == ROWS
    assert {paper: {name: accuracies(name, paper) for name in each} for paper, each in CELLS.items()} == {
        paper: {name: [accuracy] for name, accuracy in each.items()} for paper, each in CELLS.items()
    }


def test_a_reference_says_where_it_was_printed() -> None:
    assert presets.load("lg_fedavg_htm5_n100").paper == (
        Reference("FedLoRA", "Table 3", "LG-FedAvg", "N=100 C=10%, CIFAR-10", 91.27),
        Reference("FedSSA", "Table 2", "LG-FedAvg", "N=100 C=10%, CIFAR-10", 91.27),
    )
    for name, said in (
        ("kwaz_p2p_l_htfe8_flowers102", "FedKWAZ, Table 4, HtFE8, Flowers102, P2P-L: 56.87 %"),
        ("case_study_vit_iid_homo", "InCo, Table 1, IID with homo: 81.00 %"),  # a table of one column
    ):
        (reference,) = presets.load(name).paper
        assert f"{reference.place}: {reference.shown}" == said
    failed = presets.load("fml_htm5_n50").paper[0]
    assert (failed.accuracy, failed.shown) == (None, "failed to converge")
    assert presets.load("fedgh_cnn1_cifar100").paper[0].note == "the paper trained ResNet-18 here, not CNN-1"
    assert presets.load("fedgh_cnn1").paper[0].note == presets.load("fedgh_htm5_cifar100").paper[0].note == ""


def test_every_table_lists_the_presets_that_it_prints() -> None:
    assert {name for group in presets.groups() for name in group.presets} == set(presets.names())
    sizes = {(group.paper, group.table): len(group.presets) for group in presets.groups()}
    assert sizes == {
        # the quickstarts; FedAvg over CNN-1…5, which nobody prints; FedGH beyond N=10; HtFLlib's setting; five sizes
        ("", ""): 4 + 6 + 4 + 31 + 2 * 30 + 6,
        ("FedGH", "Table 1"): 8 * 6,
        ("FedGH", "Table 3"): 7 * 2,
        ("FedLoRA", "Table 2"): 7 * 6,
        ("FedLoRA", "Table 3"): 7 * 6,
        ("FedSSA", "Table 1"): 8 * 6,
        ("FedSSA", "Table 2"): 8 * 6,
        ("FedSSA", "Table 3"): 3 * 6,
        ("FedL2G", "Table 1"): 8 * 2 * 4,
        ("FedL2G", "Table 2"): 8 * 7 - 2,
        ("FedL2G", "Table 3"): 8 * 3,
        ("FedL2G", "Table 4"): 2 * 5,
        ("FedKWAZ", "Table 2"): 11 * 9 - 3 * 2,
        ("FedKWAZ", "Table 4"): 4 * 3,
        ("InCo", "Table 1"): 2 * 3,
        ("InCo", "Table 2"): 10 * 2 * 4 * 2,
    }


# What the presets set: what siblings share, and where they differ.


SETUPS: dict[str, dict[str, Any]] = {
    "fedlora_htm5": {
        "rounds": 100, "method.name": "fedlora", "method.mu": 0.9, "method.structure": "decomposed",
        "method.hidden": 20, "data.dataset": "cifar10", "data.partition": "pathological",
        "data.classes_per_client": 2, "data.quantity": "varied", "data.split": "8:1:1", "federation.clients": 10,
        "federation.participation": 1.0, "federation.group": "htm5", "training.epochs": 1, "training.batch_size": 64,
        "training.optimizer": "sgd", "training.lr": 0.01,
    },
    "kwaz_fedkwaz_n50": {
        "rounds": 1000, "method.name": "fedkwaz", "method.tau": 4.0, "method.every": 30,
        "method.strengths": [0.1, 0.5, 1.0], "method.patches": [64, 16, 4], "method.proxy": "cnn_4layer",
        "federation.clients": 50, "federation.participation": 0.5, "federation.group": "htfe8",
        "models.stem": "imagenet", "data.dataset": "cifar100", "data.partition": "dirichlet", "data.alpha": 0.1,
        "data.split": "75:25", "data.min_samples": 40, "training.epochs": 1, "training.batch_size": 10,
        "training.optimizer": "sgd", "training.lr": 0.01,
    },
}  # fmt: skip
"""FedLoRA's and FedKWAZ's setup (its §4.1, §4.4, and D.3), spelled out. `SEAL` has all others."""

DIFFERENCES: dict[tuple[str, str], dict[str, tuple[Any, Any]]] = {
    ("fedgh_cnn1", "fedgh_cnn1_n50"): {"federation.clients": (10, 50), "federation.participation": (1.0, 0.2)},
    ("fedavg_htm5", "fedavg_htm5_cifar100"): {
        "data.dataset": ("cifar10", "cifar100"), "data.classes_per_client": (2, 10),
    },
    # One model for all also changes FedLoRA's adapter.
    ("fedlora_htm5", "fedlora_cnn1"): {
        "federation.group": ("htm5", ["cnn1"]), "method.structure": ("decomposed", "direct"),
        "method.hidden": (20, 100),
    },
    ("fedl2g_l_htfe8_cifar100", "fedl2g_l_htfe8_cifar100_eta1"): {"method.eta_s": (0.1, 1.0)},
    # Models are cut smaller by three rules. FIARSE does not clip, and has the sizes of clients itself.
    ("widths_heterofl_iid", "widths_fiarse_iid"): {
        "method.name": ("heterofl", "fiarse"), "method.mask_answers": (False, None),
        "method.sizes": (None, [1.0, 0.25, 0.0625, 0.015625, 0.00390625]),
        "federation.group": ("heterofl_resnet", "resnet18"), "training.clip": (1.0, None),
    },
    # InCo's transformers are pretrained, and see larger images for fewer rounds.
    ("inco_avg_resnet_svhn_a10", "inco_avg_vit_svhn_a10"): {
        "data.size": (32, 224), "evaluation.batch_size": (None, 256),
        "federation.group": ("inco_resnet", "inco_vit"), "federation.pretrained": (None, True),
        "models.stem": ("imagenet", None), "rounds": (500, 200), "training.lr": (0.001, 0.01),
        "training.momentum": (None, 0.9), "training.optimizer": ("adam", "sgd"), "training.weight_decay": (None, 1e-5),
    },
}  # fmt: skip
"""All in which a preset differs from its sibling."""
SEAL = "384c0433cab9090b6e446fba76ca5095e074a33e8d715fbaec8e4076294322b6"
"""SHA-256 of all presets: every setting of the papers and of their authors, and every printed number, as they were
checked against the papers. Who means to change one changes this line too."""


def settings(name: str, profile: str = presets.PAPER) -> dict[str, Any]:
    """The preset's configuration with dotted keys."""
    flat: dict[str, Any] = {}
    for section, value in presets.load(name, profile).config.items():
        if isinstance(value, dict):
            flat |= {f"{section}.{key}": entry for key, entry in value.items()}
        else:
            flat[section] = value
    return flat


def difference(one: str, other: str) -> dict[str, tuple[Any, Any]]:
    left, right = settings(one), settings(other)
    keys = sorted(left.keys() | right.keys())
    return {key: (left.get(key), right.get(key)) for key in keys if left.get(key) != right.get(key)}


def test_the_papers_setups_are_spelled_out() -> None:
    assert {name: settings(name) for name in SETUPS} == SETUPS


def test_siblings_differ_in_nothing_else() -> None:
    assert {pair: difference(*pair) for pair in DIFFERENCES} == DIFFERENCES


def test_every_preset_is_as_it_was_checked_against_its_paper() -> None:
    profiles = [
        presets.load(name, each.name) for name in presets.names() for each in presets.load(name).profiles
    ]
    every = json.dumps([asdict(each) for each in [*presets.all(), *profiles]], sort_keys=True)
    assert hashlib.sha256(every.encode()).hexdigest() == SEAL


def test_the_models_of_htfllibs_setting_share_512_features() -> None:
    config = Config.read(presets.load("htfllib_fedtgp").config)
    names = models.members(config.federation.group)
    assert {models.architecture(name, ImageShape(3, 32, 32), 100).num_features for name in names} == {512}


def test_the_authors_profile_is_their_scripts_with_its_source() -> None:
    authors = presets.load("fedssa_htm5", "authors")
    assert authors.config["training"] == {
        "epochs": 25,
        "batch_size": 512,
        "optimizer": "sgd",
        "lr": 0.005,
        "momentum": 0.9,
        "weight_decay": 5e-5,
        "clip": 50.0,
        "augment": ["flip", "erase", "crop"],
    }
    assert authors.config["method"] == {"name": "fedssa", "mu_0": 0.5, "t_stable": 2, "holders": "all"}
    (profile,) = authors.profiles
    assert profile.sources == ("LipingYi/FedSSA@0c53d04, FedSSA_hetero.py (written for N=10)",)
    assert presets.load("fedssa_htm5") == presets.load("fedssa_htm5", "paper")


def test_a_profile_that_a_preset_lacks_is_refused_with_what_there_is() -> None:
    for name in ("fedlora_htm5", "standalone_cnn1", "case_study_vit_iid_homo", "quickstart"):
        refused = f"preset '{name}' has no profile 'authors'; it has paper"
        with pytest.raises(presets.PresetError, match=refused):
            presets.load(name, "authors")


def test_every_profile_is_a_configuration() -> None:
    """Read and judged whole, as a run would."""
    for preset in presets.all():
        for profile in preset.profiles:
            assert Config.read(presets.load(preset.name, profile.name).config)


def test_every_preset_is_valid_and_every_value_that_it_sets_is_kept() -> None:
    for preset in presets.all():
        read = Config.read(preset.config).to_json()
        assert merged(read, preset.config) == read, preset.name


def test_every_method_group_and_data_set_of_a_preset_exists() -> None:
    configs = [preset.config for preset in presets.all()]
    used = {config["method"]["name"] for config in configs}
    assert used <= set(methods.names())
    assert {config["data"]["dataset"] for config in configs} <= set(datasets.names())
    for group in {str(each["federation"]["group"]): each["federation"]["group"] for each in configs}.values():
        assert models.members(tuple(group) if isinstance(group, list) else group)
    own = {name for name in methods.names() if methods.get(name).__module__.startswith("simulator.methods.")}
    # InCo draws HeteroAvg in Figure 8 and prints it in no table. LoRA needs a pretrained body, and FedKTL a pretrained
    # generator. No preset has either.
    assert own - used == {"heteroavg", "lora", "fedktl"}


# Every preset's method, models and samples go together: federations are built, and rounds run, on generated data.


CLASSES = 4
SAMPLES = 8  # per client, at the least: the largest models need seconds for a batch

LIGHT = {
    "feddf": {"server_steps": 1, "server_batch": 4},
    "fedgh": {"eta_theta": 1e-4},
    "fedmd": {"public_epochs": 1, "private_epochs": 1, "public_batch": 4, "digest_batch": 4},
}
"""Settings of methods for noise: few steps where a round has hundreds, and a low rate where the first features of noise
are too large for the preset's.
"""

Group = str | tuple[str, ...]


def group_of(config: Config) -> Group:
    return config.federation.group


def shape(config: Config) -> tuple[int, ...]:
    """The shape of what the models of this configuration see."""
    spec = datasets.get(config.data.dataset).spec
    if not isinstance(spec, ImageSpec):
        return spec.shape
    side = config.data.size
    return 3 if config.data.rgb else spec.channels, side or spec.height, side or spec.width


def firsts(keys: Iterable[str]) -> list[str]:
    """The first preset with each combination of what `keys` name: the others differ in numbers alone."""
    found: dict[tuple[str, ...], str] = {}
    for preset in presets.all():
        data, method = preset.config["data"], preset.config["method"]
        facts = {
            "method": str({key: value for key, value in method.items() if not isinstance(value, float)}),
            "group": str(preset.config["federation"]["group"]),
            "shape": str([datasets.get(data["dataset"]).spec.shape, data.get("size"), data.get("rgb")]),
        }
        found.setdefault(tuple(facts[key] for key in keys), preset.name)
    return list(found.values())


def small(name: str, group: Group, clients: int) -> Config:
    """The preset on so many clients, all of whom take part in its one round, without weights from elsewhere."""
    config = presets.load(name).config
    config["federation"].pop("pretrained", None)
    if not any(models.registry.get(each).stems for each in models.members(group)):
        config.get("models", {}).pop("stem", None)  # it is for others of the group
    patch = {
        "method": LIGHT.get(config["method"]["name"], {}),
        "rounds": 1,
        "federation": {"clients": clients, "participation": 1.0, "group": group},
        "training": {"epochs": 1, "batch_size": 4, "lr": 1e-4},
        "data": {"classes_per_client": 2, "min_samples": SAMPLES},
        "runtime": {"workers": 1, "device": "cpu"},
    }
    return Config.read(merged(config, patch))


def images_for(config: Config) -> ImageSet:
    """Images in the data set's stored shape, enough of them for every client, and as few as that allows."""
    channels, height, width = datasets.get(config.data.dataset).spec.shape
    per_class = math.ceil(config.federation.clients * SAMPLES / CLASSES) + 3
    form = (height, width, channels)
    names = tuple(f"class {label}" for label in range(CLASSES))
    return joined(noise(per_class * CLASSES, form), noise(2 * CLASSES, form), names)


def noise(count: int, shape: tuple[int, ...]) -> tuple[Images, Labels]:
    """Nothing to learn: images of random bytes with the classes in turn."""
    draw = rng.numpy_stream(0, "tests/images")
    return draw.integers(0, 256, (count, *shape), dtype=np.uint8), np.arange(count) % CLASSES


@pytest.mark.long
@pytest.mark.parametrize("name", firsts(["group", "shape"]))
def test_every_group_is_dealt_out_to_clients_and_fits_the_samples(name: str) -> None:
    group = group_of(Config.read(presets.load(name).config))
    members = models.members(group)
    config = small(name, group, len(members))
    parts = built(config, samples_for(config))
    assert [client.architecture for client in parts.federation.clients] == list(members)
    assert parts.federation.spec.shape == shape(config)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "quickstart_table" else pytest.mark.long)
        for name in QUICKSTARTS.values()
    ],
)
def test_a_quickstart_trains_the_kind_of_samples_that_it_is_for(name: str) -> None:
    raw = presets.load(name).config
    dataset = datasets.get(raw["data"]["dataset"])
    assert QUICKSTARTS[dataset.spec.kind] == name
    small = {"rounds": 1, "training": {"epochs": 1, "batch_size": 4}, "data": {"min_samples": SAMPLES}}
    config = Config.read(merged(raw, small))
    with mock.patch.object(datasets, "load", side_effect=lambda *_, **__: samples_for(config)):
        record = run(build(config, Path()).engine, 1).record
    assert record is not None and record["diverged"] == []
    assert record["participants"] == list(range(config.federation.clients))


def samples_for(config: Config) -> SampleSet:
    """Random samples of the data set's form, from one user per client."""
    dataset = datasets.get(config.data.dataset)
    if dataset.spec.kind == "image":
        return images_for(config)
    count = 2 * SAMPLES * config.federation.clients
    draw = inputs.random(dataset.spec, count, rng.torch_stream(0, "tests/samples")).numpy()
    users = [f"user {number % config.federation.clients}" for number in range(count)]
    labels = np.arange(count) // config.federation.clients % CLASSES
    return ArraySet.of(dataset.spec, (draw, labels)).of_users(users)


@pytest.mark.slow
@pytest.mark.parametrize("name", firsts(["method", "group", "shape"]))
def test_a_round_of_two_clients_leaves_both_sound(name: str) -> None:
    members = models.members(group_of(Config.read(presets.load(name).config)))
    config = small(name, (members[0], members[-1]), 2)  # the smallest and the largest of most groups
    record = run(built(config, samples_for(config)).engine, 1).record
    assert record is not None
    assert record["participants"] == [0, 1]
    assert record["diverged"] == []
    assert all(math.isfinite(loss) for loss in record["loss"]["per_client"])
    assert None not in record["accuracy"]["per_client"]


@pytest.mark.slow
@pytest.mark.parametrize("name", firsts(["method", "group"]))
def test_every_method_takes_the_whole_group(name: str) -> None:
    group = group_of(Config.read(presets.load(name).config))
    config = small(name, group, len(models.members(group)))
    assert built(config, samples_for(config)).method.unmet_need() is None
