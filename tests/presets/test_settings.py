"""What the presets set: what siblings share, and where they differ."""

from typing import Any

import pytest

import presets
from simulator import methods, models
from simulator.base.nested import merged
from simulator.config import Config
from simulator.data import datasets
from simulator.models import ImageShape

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


def test_htfllibs_setup_of_text_and_sensors_differs_in_data_clients_and_models_alone() -> None:
    images = {
        "data.dataset": "cifar100",
        "data.partition": "dirichlet",
        "data.alpha": 0.1,
        "data.min_samples": 40,
        "federation.clients": 20,
        "federation.group": "htfe8",
        "models.stem": "imagenet",
    }
    text = images | {"data.dataset": "ag_news", "federation.group": "htfe_txt6", "models.stem": None}
    subjects = {"data.dataset": "uci_har", "data.partition": "natural", "federation.clients": 30}
    sensors = dict.fromkeys(images) | subjects | {"federation.group": "htfe_sen8"}
    for name, other in (("htfllib_text_fedmrl", text), ("htfllib_sensors_fedmrl", sensors)):
        expected = {key: (images[key], other[key]) for key in images if images[key] != other[key]}
        assert difference("htfllib_fedmrl", name) == expected


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
