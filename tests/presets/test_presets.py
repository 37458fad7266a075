"""Presets: their names, what papers printed, their settings, and that they run."""

import ast
import itertools
import math
import subprocess
import sys
from collections.abc import Iterable
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
from simulator.data.samples import ArraySet, Images, Labels, SampleSet, joined
from simulator.data.specs import ImageSpec, InputSpec, SignalSpec, TokenSpec
from simulator.engine.builder import build
from simulator.models import ImageShape
from tests import federations
from tests.federations import built, run

# Which presets there are, what one is called, and what an unknown name is told.


ROOM = Path(presets.__file__).parent


def named(begin: str, *axes: tuple[str, ...]) -> set[str]:
    return {begin + "".join(parts) for parts in itertools.product(*axes)}


CIFAR = (
    "fedlora", "fedssa", "fedgh", "standalone", "fedavg", "lg_fedavg", "fedclassavg", "fedproto", "fd", "fml", "fedkd",
)  # fmt: skip
HTFE = ("fedl2g_l", "fedl2g_f", "fml", "fedkd", "fd", "fedproto")
FEDL2G_METHODS = (*HTFE, "lg_fedavg", "fedgh")
KWAZ = ("standalone", "fd", "fedkd", "fedproto", "fml", "fedmrl", "fedtgp", "fedkwaz")
INCO = ("fedavg", "fedprox", "scaffold", "fednova", "moon", "inco_avg", "inco_prox", "inco_scaffold", "inco_nova",
        "inco_moon")  # fmt: skip
NAMES: list[tuple[str, list[tuple[str, ...]], int]] = [
    ("", [CIFAR, ("_htm5", "_cnn1"), ("", "_cifar100"), ("", "_n50", "_n100")], 11 * 2 * 6),
    ("fedssa", [("_a", "_b"), ("_htm5",), ("", "_cifar100"), ("", "_n50", "_n100")], 2 * 6),
    # FedL2G's Tables 1 to 4. LG-FedAvg and FedGH cannot run HtM10.
    ("", [FEDL2G_METHODS, ("_htfe8",), ("_cifar10", "_cifar100", "_flowers102", "_tiny_imagenet"),
          ("", "_pathological")], 64),
    ("", [FEDL2G_METHODS, ("_htfe2", "_htfe3", "_htfe4", "_htfe9"), ("_cifar100",)], 32),
    ("", [HTFE, ("_htm10_cifar100",)], 6),
    ("", [FEDL2G_METHODS, ("_htfe8_cifar100",), ("_n50", "_n100", "_e5", "_e10", "_e20")], 16 + 24),
    ("fedl2g_l_htfe8_cifar100", [("_eta001", "_eta005", "_eta05", "_eta1")], 4),
    ("fedl2g_f_htfe8_cifar100", [("_eta1", "_eta10", "_eta50", "_eta500")], 4),
    # FedKWAZ's. LG-FedAvg, FedGen, and FedGH cannot run two of the groups. Skin-Lesions-14 is no data set here.
    ("kwaz_", [(*KWAZ, "lg_fedavg", "fedgen", "fedgh"),
               ("_htfe1", "_htfe2", "_htfe4", "_htfe9", "_n50", "_n100", "_n200")], 11 * 7),
    ("kwaz_", [KWAZ, ("_htm10", "_htfe8_htc4")], 8 * 2),
    ("kwaz_", [("lml", "p2p_l", "p2p_r", "fedkwaz"), ("_htfe8_",), ("cifar10", "cifar100", "flowers102")], 4 * 3),
    # InCo's Tables 2 and 1
    ("", [INCO, ("_resnet", "_vit"), ("_fashion_mnist", "_svhn", "_cifar10", "_cinic10"), ("_a05", "_a10")], 160),
    ("case_study", [("_resnet", "_vit"), ("_iid_homo", "_noniid_homo", "_noniid_hetero")], 6),
    ("widths", [("_heterofl", "_fedrolex", "_fiarse"), ("_iid", "_two_labels")], 6),
    ("quickstart", [("", "_text", "_signals", "_table")], 4),
]  # fmt: skip
"""The beginning of names, the axes of what follows, and how many these are."""


def test_papers_have_a_preset_for_every_accuracy_that_can_be_run_here_and_no_other() -> None:
    """Those of HtFLlib's setting are tested below. No two share a name or a title."""
    expected = set[str]()
    for begin, axes, count in NAMES:
        found = named(begin, *axes)
        assert len(found) == count, begin
        expected |= found
    names = presets.names()
    assert {name for name in names if not name.startswith("htfllib")} == expected
    assert len(names) == len(expected) + 31 + 2 * 30 == len({preset.title for preset in presets.all()})
    assert [presets.load(name).name for name in names] == names


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


ROWS: list[tuple[str, str, str, list[float | None]]] = [
    ("fedlora", "htm5", "FedLoRA", [96.66, 73.58, 95.74, 64.06, 92.58, 53.95]),
    ("fedssa", "htm5", "FedSSA", [96.54, 73.39, 95.83, 64.2, 92.92, 57.29]),
    ("fedgh", "htm5", "FedGH", [97.6, 74.13]),
    ("standalone", "htm5", "FedLoRA", [96.53, 72.53, 95.14, 62.71, 91.97, 53.04]),
    ("standalone", "htm5", "FedSSA", [96.53, 72.53, 95.14, 62.71, 91.97, 53.04]),
    ("standalone", "htm5", "FedGH", [96.62, 72.34]),
    ("lg_fedavg", "htm5", "FedLoRA", [96.3, 72.2, 94.83, 60.95, 91.27, 45.83]),
    ("lg_fedavg", "htm5", "FedGH", [96.37, 72.33]),
    ("fedavg", "htm5", "FedGH", []),
    ("fedclassavg", "htm5", "FedSSA", [94.41, 69.16, 85.23, 56.54, 82.61, 35.48]),
    ("fedproto", "htm5", "FedLoRA", [96.51, 72.59, 95.48, 62.69, 92.49, 53.67]),
    ("fedproto", "htm5", "FedGH", [96.47, 72.8]),
    ("fd", "htm5", "FedSSA", [96.21, None, None, None, None, None]),
    ("fd", "htm5", "FedGH", [96.13, None]),
    ("fml", "htm5", "FedLoRA", [30.48, 16.84, None, 21.96, None, 15.21]),
    ("fml", "htm5", "FedGH", [None, None]),
    ("fedkd", "htm5", "FedSSA", [80.2, 53.23, 77.37, 44.27, 73.21, 37.21]),
    ("fedkd", "htm5", "FedGH", [80.16, 52.7]),
    ("fedssa_a", "htm5", "FedSSA", [96.36, 73.26, 92.68, 58.01, 88.51, 49.95]),
    ("fedssa_b", "htm5", "FedSSA", [93.01, 71.54, 82.42, 52.14, 80.41, 49.95]),
    ("fedlora", "cnn1", "FedLoRA", [96.69, 75.58, 95.55, 62.55, 92.8, 55.82]),
    ("fedssa", "cnn1", "FedSSA", [98.57, 74.81, 95.32, 64.38, 92.67, 58.54]),
    ("fedgh", "cnn1", "FedGH", [96.33, 73.62, 95.69, 65.02, 93.65, 56.44]),
    ("fedavg", "cnn1", "FedGH", [94.34, 64.63, 95.68, 62.95, 93.39, 56.23]),
    ("standalone", "cnn1", "FedGH", [93.13, 62.8, 95.39, 62.38, 92.92, 55.47]),
    ("standalone", "cnn1", "FedLoRA", [96.35, 74.32, 95.25, 62.38, 92.58, 54.93]),
    ("lg_fedavg", "cnn1", "FedSSA", [96.47, 73.43, 94.2, 61.77, 90.25, 46.64]),
    ("fedclassavg", "cnn1", "FedSSA", [96.44, 74.33, 94.45, 63.1, 91.03, 49.31]),
    ("fedproto", "cnn1", "FedLoRA", [95.83, 72.79, 95.1, 62.55, 91.19, 54.01]),
    ("fedproto", "cnn1", "FedGH", [95.99, 62.51, 95.38, 61.15, 92.75, 55.53]),
    ("fd", "cnn1", "FedGH", [93.63, None, None, None, None, None]),
    ("fml", "cnn1", "FedLoRA", [94.83, 70.02, 93.18, 57.56, 87.93, 46.2]),
    ("fml", "cnn1", "FedGH", [92.39, 61.58, 94.55, 56.8, 90.36, 50.16]),
    ("fedkd", "cnn1", "FedSSA", [94.77, 70.04, 92.93, 57.56, 90.23, 50.99]),
    ("fedkd", "cnn1", "FedGH", [92.65, 58.35, 93.93, 57.36, 91.07, 51.9]),
]  # fmt: skip
"""Method, models, and paper with its numbers by scale, CIFAR-10 before CIFAR-100. None: no convergence."""
FEDL2G = {
    "lg_fedavg": ([86.8, 57.0, 58.9, 32.0], [84.6, 40.7, 70.0, 48.2]),
    "fedgh": ([86.6, 57.2, 59.3, 32.6], [84.4, 41.0, 69.7, 46.7]),
    "fml": ([87.1, 55.2, 57.8, 31.4], [85.9, 39.9, 68.4, 47.1]),
    "fedkd": ([87.3, 56.6, 54.8, 32.6], [86.5, 40.6, 69.6, 48.2]),
    "fd": ([87.2, 57.0, 58.5, 31.5], [86.0, 41.5, 71.2, 48.8]),
    "fedproto": ([83.4, 53.6, 55.1, 29.3], [82.1, 36.3, 62.3, 40.0]),
    "fedl2g_l": ([87.7, 59.2, 60.3, 32.8], [86.5, 42.3, 71.5, 49.5]),
    "fedl2g_f": ([89.3, 64.2, 64.2, 34.7], [87.6, 43.8, 73.6, 50.3]),
}  # fmt: skip
"""Table 1: CIFAR-10 and -100, Flowers102, and Tiny-ImageNet, pathological and by Dirichlet."""
CELLS = {
    "FedL2G": {
        "lg_fedavg_htfe9_cifar100": 42.0, "fedproto_htm10_cifar100": 36.1, "fedl2g_f_htm10_cifar100": 43.5,
        "fml_htfe8_cifar100_n50": 38.8, "fd_htfe8_cifar100_n100": 36.1, "fedkd_htfe8_cifar100_e20": 39.1,
        "fedl2g_f_htfe8_cifar100_e5": 43.7, "fedl2g_l_htfe8_cifar100_eta001": 41.7,
        "fedl2g_f_htfe8_cifar100_eta500": 41.4,
    },
    "FedKWAZ": {
        "kwaz_standalone_htfe1": 53.64, "kwaz_fd_n50": 40.64, "kwaz_lg_fedavg_n200": 30.34,
        "kwaz_fedgen_htfe9": 42.46, "kwaz_fedkd_htfe8_htc4": 40.3, "kwaz_fedproto_htfe2": 46.1,
        "kwaz_fml_htm10": 40.17, "kwaz_fedgh_n100": 33.73, "kwaz_fedmrl_htfe4": 43.81,
        "kwaz_fedtgp_htfe8_htc4": 44.65, "kwaz_fedkwaz_htm10": 48.35, "kwaz_fedkwaz_n200": 38.18,
        **{
            f"kwaz_{variant}_htfe8_{dataset}": accuracy
            for variant, printed in (
                ("lml", (89.42, 50.36, 56.44)), ("p2p_l", (89.63, 50.93, 56.87)), ("p2p_r", (89.95, 51.13, 57.08)),
                ("fedkwaz", (90.39, 51.69, 57.52)),
            )
            for dataset, accuracy in zip(("cifar10", "cifar100", "flowers102"), printed, strict=True)
        },
    },
    "InCo": {
        "fedavg_resnet_fashion_mnist_a05": 86.7, "fedprox_resnet_cinic10_a10": 19.8,
        "fednova_resnet_cifar10_a05": 10.4, "inco_nova_resnet_svhn_a10": 88.4, "inco_prox_resnet_cifar10_a05": 74.5,
        "scaffold_vit_cifar10_a10": 94.5, "moon_vit_svhn_a05": 92.5, "inco_avg_vit_fashion_mnist_a05": 93.0,
        "inco_moon_vit_cinic10_a10": 86.8, "case_study_resnet_iid_homo": 81.0, "case_study_vit_noniid_homo": 54.8,
        "case_study_resnet_noniid_hetero": 52.3,
    },
}  # fmt: skip
"""Cells of other tables."""


def accuracies(name: str, paper: str) -> list[float | None]:
    """What that paper printed for the preset: once, though FedSSA repeats its own result in Table 3."""
    printed = [reference.accuracy for reference in presets.load(name).paper if reference.paper == paper]
    return list(dict.fromkeys(printed))


def test_accuracies_are_as_printed() -> None:
    for method, group, paper, row in ROWS:
        places = itertools.product(("", "_n50", "_n100"), ("", "_cifar100"))
        found = (accuracies(f"{method}_{group}{dataset}{scale}", paper) for scale, dataset in places)
        assert [*itertools.chain(*found)] == row, (method, group, paper)
    sets = ("cifar10", "cifar100", "flowers102", "tiny_imagenet")
    for method, pair in FEDL2G.items():
        for setting, row in zip(("_pathological", ""), pair, strict=True):
            cells = [accuracies(f"{method}_htfe8_{each}{setting}", "FedL2G")[0] for each in sets]
            assert cells == row, (method, setting)
    for paper, each in CELLS.items():
        assert {name: accuracies(name, paper) for name in each} == {name: [each[name]] for name in each}
    tables = [reference.table for reference in presets.load("fedl2g_f_htfe8_cifar100").paper]
    assert tables == ["Table 1", "Table 4"]  # its learning rate is a cell of the sensitivity study


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
    standalone = presets.load("standalone_htm5").paper  # papers may disagree on a baseline
    assert [(each.paper, each.accuracy) for each in standalone] == [
        ("FedLoRA", 96.53), ("FedSSA", 96.53), ("FedGH", 96.62),
    ]  # fmt: skip


def test_fedghs_cifar100_results_of_another_model_are_marked_as_such() -> None:
    (reference,) = presets.load("fedgh_cnn1_cifar100").paper
    assert reference.note == "the paper trained ResNet-18 here, not CNN-1"
    assert presets.load("fedgh_cnn1").paper[0].note == ""
    assert presets.load("fedgh_htm5_cifar100").paper[0].note == ""


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
    "fedl2g_f_htfe8_cifar100": {
        "rounds": 1000, "method.name": "fedl2g_f", "method.eta_s": 100, "data.dataset": "cifar100",
        "data.partition": "dirichlet", "data.alpha": 0.1, "data.classes_per_client": 10, "data.quantity": "varied",
        "data.min_samples": 40, "data.split": "75:25", "federation.clients": 20, "federation.participation": 1.0,
        "federation.group": "htfe8", "models.stem": "imagenet", "training.epochs": 1, "training.batch_size": 10,
        "training.optimizer": "sgd", "training.lr": 0.01,
    },
    "htfllib_fedmrl": {
        "rounds": 2000, "method.name": "fedmrl", "method.d_1": 128, "data.dataset": "cifar100",
        "data.partition": "dirichlet", "data.alpha": 0.1, "data.min_samples": 40, "data.split": "75:25",
        "federation.clients": 20, "federation.participation": 1.0, "federation.group": "htfe8",
        "models.stem": "imagenet", "training.epochs": 1, "training.batch_size": 10, "training.optimizer": "sgd",
        "training.lr": 0.01,
    },
    "inco_avg_resnet_fashion_mnist_a05": {
        "rounds": 500, "method.name": "inco_avg", "method.variant": "released_code", "models.stem": "imagenet",
        "data.dataset": "fashion_mnist", "data.partition": "dirichlet", "data.alpha": 0.5, "data.split": "global",
        "data.size": 32, "data.rgb": True, "evaluation.model": "aggregated", "federation.clients": 100,
        "federation.participation": 0.1, "federation.group": "inco_resnet", "training.epochs": 5,
        "training.batch_size": 64, "training.optimizer": "adam", "training.lr": 0.001,
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
"""FedLoRA's, FedL2G's, HtFLlib's, InCo's, and FedKWAZ's setup (its §4.1, §4.4, and D.3), spelled out."""

DIFFERENCES: dict[tuple[str, str], dict[str, tuple[Any, Any]]] = {
    ("fedgh_cnn1", "fedgh_cnn1_n50"): {"federation.clients": (10, 50), "federation.participation": (1.0, 0.2)},
    ("fedgh_cnn1", "fedgh_cnn1_n100"): {"federation.clients": (10, 100), "federation.participation": (1.0, 0.1)},
    ("fedavg_htm5", "fedavg_htm5_cifar100"): {
        "data.dataset": ("cifar10", "cifar100"), "data.classes_per_client": (2, 10),
    },
    # One model for all also changes FedLoRA's adapter, and how long FedSSA takes to trust the header.
    ("fedgh_htm5_n50", "fedgh_cnn1_n50"): {"federation.group": ("htm5", ["cnn1"])},
    ("fedlora_htm5", "fedlora_cnn1"): {
        "federation.group": ("htm5", ["cnn1"]), "method.structure": ("decomposed", "direct"),
        "method.hidden": (20, 100),
    },
    ("fedssa_htm5_n50", "fedssa_cnn1_n50"): {"federation.group": ("htm5", ["cnn1"]), "method.t_stable": (2, 45)},
    ("fedl2g_l_htfe8_cifar100", "fedl2g_l_htfe8_cifar100_n50"): {
        "federation.clients": (20, 50), "federation.participation": (1.0, 0.5),
    },
    ("fedl2g_l_htfe8_cifar100", "fedl2g_l_htfe8_cifar100_n100"): {
        "federation.clients": (20, 100), "federation.participation": (1.0, 0.5),
    },
    ("fedl2g_l_htfe8_cifar100", "fedl2g_l_htfe8_cifar100_e20"): {"training.epochs": (1, 20)},
    ("fedl2g_l_htfe8_cifar100", "fedl2g_l_htfe8_cifar100_eta1"): {"method.eta_s": (0.1, 1.0)},
    ("fedl2g_l_htfe8_cifar100", "fedl2g_l_htm10_cifar100"): {"federation.group": ("htfe8", "htm10")},
    # Models are cut smaller by three rules. FIARSE does not clip, and has the sizes of clients itself.
    ("widths_heterofl_iid", "widths_fedrolex_iid"): {"method.name": ("heterofl", "fedrolex")},
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
    ("case_study_resnet_noniid_homo", "case_study_resnet_noniid_hetero"): {
        "federation.group": (["resnet18"], "inco_resnet"),
    },
    ("kwaz_fedkwaz_htfe8_cifar10", "kwaz_lml_htfe8_cifar10"): {
        "method.align": (None, False), "method.labels": (None, "both"),
    },
    ("kwaz_fedkwaz_htfe8_cifar10", "kwaz_p2p_l_htfe8_cifar10"): {"method.students": (None, "model")},
    ("kwaz_fedkwaz_htfe8_cifar10", "kwaz_p2p_r_htfe8_cifar10"): {"method.students": (None, "proxy")},
    ("kwaz_fedkwaz_htfe8_cifar10", "kwaz_fedkwaz_htfe8_cifar100"): {"data.dataset": ("cifar10", "cifar100")},
    ("kwaz_fedkwaz_htfe8_cifar10", "kwaz_fedkwaz_htfe8_flowers102"): {
        "data.dataset": ("cifar10", "flowers102"), "data.size": (None, 64),
    },
    # HtFLlib's setups of text and sensors differ from that of images in data, clients, and models.
    ("htfllib_fedmrl", "htfllib_text_fedmrl"): {
        "data.dataset": ("cifar100", "ag_news"), "federation.group": ("htfe8", "htfe_txt6"),
        "models.stem": ("imagenet", None),
    },
    ("htfllib_fedmrl", "htfllib_sensors_fedmrl"): {
        "data.alpha": (0.1, None), "data.dataset": ("cifar100", "uci_har"), "data.min_samples": (40, None),
        "data.partition": ("dirichlet", "natural"), "federation.clients": (20, 30),
        "federation.group": ("htfe8", "htfe_sen8"), "models.stem": ("imagenet", None),
    },
    # §4.1 and the caption of Table 4; Table 2 has HtFE8 at 50 clients.
    ("kwaz_fedkwaz_n50", "kwaz_fedkwaz_htfe8_cifar100"): {
        "federation.clients": (50, 20), "federation.participation": (0.5, 1.0),
    },
}  # fmt: skip
"""All in which a preset differs from its sibling."""

VALUES: dict[str, dict[str, Any]] = {
    "quickstart": {"data.dataset": "digits", "federation.group": "htm5", "cka.every": 2},
    "htfllib_fedtgp": {"method.lam": 0.1},
    # FedNova trains with SGD as in the baselines' source. InCo's rule is the released code's.
    "fednova_resnet_cifar10_a05": {"training.optimizer": "sgd"},
    "inco_nova_resnet_cifar10_a05": {"training.optimizer": "sgd"},
    **{
        f"inco_{each}_vit_cifar10_a05": {"method.variant": "released_code"}
        for each in ("avg", "prox", "nova", "scaffold", "moon")
    },
    # MOON stops early on Fashion-MNIST alone.
    **{
        f"{method}_{group}_{data}_a10": {"rounds": 100 if data == "fashion_mnist" else rounds}
        for method in ("moon", "inco_moon")
        for group, rounds in (("resnet", 500), ("vit", 200))
        for data in ("fashion_mnist", "svhn")
    },
    "case_study_resnet_iid_homo": {"data.partition": "iid", "federation.group": ["resnet18"], "rounds": 50},
    # On the global test set, a client may answer all classes.
    "widths_heterofl_two_labels": {"method.mask_answers": False},
    "widths_fedrolex_two_labels": {"method.mask_answers": False},
    # FedL2G divides every data set as it says. Only Flowers102 has images of several sizes.
    **{
        f"fml_htfe8_{data}": {
            "data.size": size, "data.partition": "dirichlet", "data.alpha": alpha, "data.quantity": "varied",
        }
        for data, alpha, size in (
            ("cifar10", 0.1, None), ("cifar100", 0.1, None), ("flowers102", 0.01, 64), ("tiny_imagenet", 0.01, None),
        )
    },
    **{
        f"fml_htfe8_{data}_pathological": {
            "data.partition": "pathological", "data.classes_per_client": classes, "data.quantity": "pfllib",
        }
        for data, classes in (("cifar10", 2), ("cifar100", 10), ("flowers102", 10), ("tiny_imagenet", 20))
    },
}  # fmt: skip

AUTHORS: dict[str, dict[str, Any]] = {
    "fedssa_htm5": {
        "training.epochs": 25, "training.batch_size": 512, "training.optimizer": "sgd", "training.lr": 0.005,
        "training.momentum": 0.9, "training.weight_decay": 5e-5, "training.clip": 50.0,
        "training.augment": ["flip", "erase", "crop"], "method.mu_0": 0.5, "method.t_stable": 2,
        "method.holders": "all",
    },
    "fedssa_cnn1_n50": {"method.t_stable": 45},
    "fedgh_htm5": {"training.epochs": 30, "method.bias": True},
    "fedgh_cnn1_cifar100_n100": {"training.batch_size": 64},
    "fedgh_htfe8_cifar100": {"method.server_step": "batch", "method.bias": True, "evaluation.model": "aggregated"},
    "htfllib_fedgh": {"method.server_step": "batch", "method.bias": True, "evaluation.model": "aggregated"},
    "lg_fedavg_htfe8_cifar100": {"evaluation.model": "aggregated"},
    "inco_avg_vit_svhn_a05": {
        "training.batch_size": 32, "method.per_epoch": True, "training.augment": ["resized_crop", "flip"],
    },
    "inco_avg_vit_cifar10_a10": {"training.augment": ["resized_crop", "flip"]},
    "inco_avg_vit_cinic10_a05": {"training.augment": ["resized_crop", "flip"]},
    "inco_avg_resnet_cifar10_a05": {"training.augment": ["crop", "flip", "cutout"]},
    "fedl2g_f_htfe8_cifar100": {"method.clip": 100.0},
    "fedproto_htfe8_cifar100": {"method.lam": 10.0, "method.weighting": "plain"},
    "htfllib_fedproto": {"method.weighting": "plain"},
    "htfllib_fedgen": {"method.teacher": "logits", "method.weighting": "samples"},
    "htfllib_fedtgp": {
        "method.margin": "nearest", "method.collect": "before", "method.lam": 10.0, "method.distance": "samples",
    },
    "htfllib_fedmrl": {"evaluation.model": "aggregated"},
    "htfllib_pfedmoe": {"evaluation.model": "aggregated"},
    "kwaz_fedkwaz_n50": {
        "training.clip": 10.0, "method.divergence": "teacher_first", "method.base": "both", "method.labels": "both",
        "method.collect": "training",
    },
    "htfllib_pfedafm": {"training.clip": 50.0},
    "htfllib_pfedes": {"method.extractor_epochs": 11, "training.momentum": 0.9},
    "widths_fedrolex_iid": {"training.lr": 0.0002},
    "widths_fiarse_two_labels": {"method.gradient": "mask"},
}  # fmt: skip
"""What the authors' profile sets."""


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


def unlike(table: dict[str, dict[str, Any]], profile: str = presets.PAPER) -> list[str]:
    """The settings of presets that are not those of a table."""
    return [
        f"{name}: {key} is {found}, not {value}"
        for name, wanted in table.items()
        for key, value in wanted.items()
        if (found := settings(name, profile).get(key)) != value
    ]


def test_the_papers_setups_are_spelled_out() -> None:
    assert {name: settings(name) for name in SETUPS} == SETUPS


def test_siblings_differ_in_nothing_else() -> None:
    assert {pair: difference(*pair) for pair in DIFFERENCES} == DIFFERENCES


def test_presets_have_the_values_of_the_papers_and_their_profiles_those_of_the_authors() -> None:
    for name, own in (("fedssa", {"mu_0": 0.5, "t_stable": 2}), ("fedclassavg", {"contrast": 1.0}),
                      ("fedgh", {"eta_theta": 0.01, "server_epochs": 1})):  # fmt: skip
        assert presets.load(f"{name}_htm5").config["method"] == {"name": name} | own
    assert unlike(VALUES) == []
    assert unlike(AUTHORS, "authors") == []
    fashion = presets.load("inco_avg_vit_fashion_mnist_a05", "authors").config
    assert fashion["training"]["batch_size"] == 32 and "augment" not in fashion["training"]


def test_methods_on_the_same_problem_differ_in_the_method_alone() -> None:
    """But for FedSSA's clipping, which is its code's, and the first batch size of FedGH's own grid."""
    besides = {"fedssa": {"training.clip": (None, 50.0)}, "fedgh": {"training.batch_size": (64, 32)}}
    for method in ("fedssa", "fedgh", "standalone", "fedavg", "lg_fedavg"):
        sibling = f"{method}_htm5_cifar100_n50"
        changed = difference("fedlora_htm5_cifar100_n50", sibling)
        others = {key: value for key, value in changed.items() if not key.startswith("method.")}
        assert others == besides.get(method, {}), sibling
        assert changed["method.name"] == ("fedlora", method)


def test_ten_clients_take_part_at_every_scale() -> None:
    for name in presets.names():
        if "htm5" in name or "cnn1" in name:
            federation = presets.load(name).config["federation"]
            assert federation["clients"] * federation["participation"] == pytest.approx(10), name


def test_in_htfllibs_setting_methods_differ_in_the_method_alone() -> None:
    """FedMD and FedDF also need public samples."""
    for name in presets.names():
        if name.startswith("htfllib"):
            begin = next(
                each for each in ("htfllib_text", "htfllib_sensors", "htfllib") if name.startswith(each)
            )
            changed = difference(f"{begin}_standalone", name)
            public = {"data.public"} if name.endswith(("fedmd", "feddf")) else set()
            assert {key for key in changed if not key.startswith("method.")} == public, name


def test_the_models_of_htfllibs_setting_share_512_features() -> None:
    config = Config.read(presets.load("htfllib_fedtgp").config)
    assert {
        models.architecture(name, ImageShape(3, 32, 32), 100).num_features
        for name in models.members(config.federation.group)
    } == {512}


def test_the_authors_profile_has_its_source() -> None:
    (profile,) = presets.load("fedssa_htm5", "authors").profiles
    assert profile.sources == ("LipingYi/FedSSA@0c53d04, FedSSA_hetero.py (written for N=10)",)
    assert presets.load("fedssa_htm5") == presets.load("fedssa_htm5", "paper")
    own = {key for key in settings("fedssa_htm5", "authors") if key.startswith(("training.", "method."))}
    assert own == {*AUTHORS["fedssa_htm5"], "method.name"}


def test_a_profile_that_a_preset_lacks_is_refused_with_what_there_is() -> None:
    for name in ("fedlora_htm5", "standalone_cnn1", "case_study_vit_iid_homo", "quickstart"):
        refused = f"preset '{name}' has no profile 'authors'; it has paper"
        with pytest.raises(presets.PresetError, match=refused):
            presets.load(name, "authors")


def test_every_preset_and_profile_is_valid_and_every_value_that_it_sets_is_kept() -> None:
    for preset in presets.all():
        for profile in (presets.PAPER, *(each.name for each in preset.profiles)):
            given = presets.load(preset.name, profile).config
            read = Config.read(given).to_json()
            assert merged(read, given) == read, (preset.name, profile)


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


def small(name: str, group: str | tuple[str, ...], clients: int) -> Config:
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


@pytest.mark.long
@pytest.mark.parametrize("name", firsts(["group", "shape"]))
def test_every_group_is_dealt_out_to_clients_and_fits_the_samples(name: str) -> None:
    group = Config.read(presets.load(name).config).federation.group
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


def noise(count: int, shape: tuple[int, ...]) -> tuple[Images, Labels]:
    """Nothing to learn: images of random bytes with the classes in turn."""
    draw = rng.numpy_stream(0, "tests/images")
    return draw.integers(0, 256, (count, *shape), dtype=np.uint8), np.arange(count) % CLASSES


def samples_for(config: Config) -> SampleSet:
    """Random samples of the data set's form, from one user per client."""
    dataset = datasets.get(config.data.dataset)
    if dataset.spec.kind == "image":
        channels, height, width = dataset.spec.shape
        per_class = math.ceil(config.federation.clients * SAMPLES / CLASSES) + 3
        train, test = (noise(count * CLASSES, (height, width, channels)) for count in (per_class, 2))
        return joined(train, test, tuple(f"class {label}" for label in range(CLASSES)))
    count = 2 * SAMPLES * config.federation.clients
    draw = inputs.random(dataset.spec, count, rng.torch_stream(0, "tests/samples")).numpy()
    users = [f"user {number % config.federation.clients}" for number in range(count)]
    labels = np.arange(count) // config.federation.clients % CLASSES
    return ArraySet.of(dataset.spec, (draw, labels)).of_users(users)


@pytest.mark.slow
@pytest.mark.parametrize("name", firsts(["method", "group", "shape"]))
def test_a_round_of_two_clients_leaves_both_sound(name: str) -> None:
    members = models.members(Config.read(presets.load(name).config).federation.group)
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
    group = Config.read(presets.load(name).config).federation.group
    config = small(name, group, len(models.members(group)))
    assert built(config, samples_for(config)).method.unmet_need() is None
