"""What the presets set: what siblings share, and where they differ."""

from typing import Any

import pytest

import presets
from simulator import models
from simulator.config import Config
from simulator.models import ImageShape


def settings(name: str) -> dict[str, Any]:
    """The preset's configuration with dotted keys."""
    flat: dict[str, Any] = {}
    for section, value in presets.load(name).config.items():
        if isinstance(value, dict):
            flat |= {f"{section}.{key}": entry for key, entry in value.items()}
        else:
            flat[section] = value
    return flat


def difference(one: str, other: str) -> dict[str, tuple[Any, Any]]:
    left, right = settings(one), settings(other)
    keys = sorted(left.keys() | right.keys())
    return {key: (left.get(key), right.get(key)) for key in keys if left.get(key) != right.get(key)}


def test_the_papers_setup_is_spelled_out() -> None:
    assert settings("fedlora_htm5") == {
        "rounds": 100,
        "method.name": "fedlora",
        "method.mu": 0.9,
        "method.structure": "decomposed",
        "method.hidden": 20,
        "data.dataset": "cifar10",
        "data.partition": "pathological",
        "data.classes_per_client": 2,
        "data.quantity": "varied",
        "data.split": "8:1:1",
        "federation.clients": 10,
        "federation.participation": 1.0,
        "federation.group": "htm5",
        "training.epochs": 1,
        "training.batch_size": 64,
        "training.optimizer": "sgd",
        "training.lr": 0.01,
    }


def test_methods_on_the_same_problem_differ_in_the_method_alone() -> None:
    """But for FedSSA's clipping, which is its code's, and the first batch size of FedGH's own grid."""
    besides = {"fedssa": {"training.clip": (None, 50.0)}, "fedgh": {"training.batch_size": (64, 32)}}
    for method in ("fedssa", "fedgh", "standalone", "fedavg", "lg_fedavg"):
        sibling = f"{method}_htm5_cifar100_n50"
        changed = difference("fedlora_htm5_cifar100_n50", sibling)
        others = {key: value for key, value in changed.items() if not key.startswith("method.")}
        assert others == besides.get(method, {}), sibling
        assert changed["method.name"] == ("fedlora", method)


def test_scales_differ_in_clients_and_participation() -> None:
    assert difference("fedgh_cnn1", "fedgh_cnn1_n50") == {
        "federation.clients": (10, 50),
        "federation.participation": (1.0, 0.2),
    }
    assert difference("fedgh_cnn1", "fedgh_cnn1_n100") == {
        "federation.clients": (10, 100),
        "federation.participation": (1.0, 0.1),
    }


def test_data_sets_differ_in_the_classes_a_client_holds() -> None:
    assert difference("fedavg_htm5", "fedavg_htm5_cifar100") == {
        "data.dataset": ("cifar10", "cifar100"),
        "data.classes_per_client": (2, 10),
    }


def test_one_model_for_all_changes_the_group() -> None:
    assert difference("fedgh_htm5_n50", "fedgh_cnn1_n50") == {"federation.group": ("htm5", ["cnn1"])}


def test_one_model_for_all_also_changes_fedloras_adapter() -> None:
    assert difference("fedlora_htm5", "fedlora_cnn1") == {
        "federation.group": ("htm5", ["cnn1"]),
        "method.structure": ("decomposed", "direct"),
        "method.hidden": (20, 100),
    }


def test_one_model_for_all_also_changes_how_long_fedssa_takes_to_trust_the_header() -> None:
    assert difference("fedssa_htm5_n50", "fedssa_cnn1_n50") == {
        "federation.group": ("htm5", ["cnn1"]),
        "method.t_stable": (2, 45),
    }


def test_the_methods_own_parameters_are_those_of_the_papers() -> None:
    assert presets.load("fedssa_htm5").config["method"] == {"name": "fedssa", "mu_0": 0.5, "t_stable": 2}
    assert presets.load("fedclassavg_htm5").config["method"] == {"name": "fedclassavg", "contrast": 1.0}
    assert presets.load("fedgh_htm5").config["method"] == {
        "name": "fedgh",
        "eta_theta": 0.01,
        "server_epochs": 1,
    }


def test_the_quickstart_needs_no_download() -> None:
    assert settings("quickstart")["data.dataset"] == "digits"
    assert settings("quickstart")["federation.group"] == "htm5"


def test_the_quickstart_shows_how_alike_its_models_become_from_the_second_round_on() -> None:
    assert settings("quickstart")["cka.every"] == 2


@pytest.mark.parametrize("name", [name for name in presets.names() if "htm5" in name or "cnn1" in name])
def test_ten_clients_take_part_at_every_scale(name: str) -> None:
    federation = presets.load(name).config["federation"]
    assert federation["clients"] * federation["participation"] == pytest.approx(10)


def test_fedl2gs_setup_is_spelled_out() -> None:
    assert settings("fedl2g_f_htfe8_cifar100") == {
        "rounds": 1000,
        "method.name": "fedl2g_f",
        "method.eta_s": 100,
        "data.dataset": "cifar100",
        "data.partition": "dirichlet",
        "data.alpha": 0.1,
        "data.classes_per_client": 10,
        "data.quantity": "varied",
        "data.min_samples": 40,
        "data.split": "75:25",
        "federation.clients": 20,
        "federation.participation": 1.0,
        "federation.group": "htfe8",
        "models.stem": "imagenet",
        "training.epochs": 1,
        "training.batch_size": 10,
        "training.optimizer": "sgd",
        "training.lr": 0.01,
    }


@pytest.mark.parametrize(
    ("dataset", "classes", "beta"),
    [("cifar10", 2, 0.1), ("cifar100", 10, 0.1), ("flowers102", 10, 0.01), ("tiny_imagenet", 20, 0.01)],
)
def test_fedl2g_divides_every_data_set_as_it_says(dataset: str, classes: int, beta: float) -> None:
    dirichlet = settings(f"fml_htfe8_{dataset}")
    assert dirichlet.get("data.size") == (64 if dataset == "flowers102" else None)  # the others have one size
    assert (dirichlet["data.partition"], dirichlet["data.alpha"]) == ("dirichlet", beta)
    pathological = settings(f"fml_htfe8_{dataset}_pathological")
    assert pathological["data.partition"] == "pathological"
    assert pathological["data.classes_per_client"] == classes
    assert (dirichlet["data.quantity"], pathological["data.quantity"]) == ("varied", "pfllib")


@pytest.mark.parametrize(
    ("variant", "changed"),
    [
        (
            "fedl2g_l_htfe8_cifar100_n50",
            {"federation.clients": (20, 50), "federation.participation": (1.0, 0.5)},
        ),
        (
            "fedl2g_l_htfe8_cifar100_n100",
            {"federation.clients": (20, 100), "federation.participation": (1.0, 0.5)},
        ),
        ("fedl2g_l_htfe8_cifar100_e20", {"training.epochs": (1, 20)}),
        ("fedl2g_l_htfe8_cifar100_eta1", {"method.eta_s": (0.1, 1.0)}),
        ("fedl2g_l_htm10_cifar100", {"federation.group": ("htfe8", "htm10")}),
    ],
)
def test_fedl2gs_other_tables_change_one_thing(variant: str, changed: dict[str, tuple[Any, Any]]) -> None:
    assert difference("fedl2g_l_htfe8_cifar100", variant) == changed


def test_htfllibs_setup_is_spelled_out() -> None:
    assert settings("htfllib_fedmrl") == {
        "rounds": 2000,
        "method.name": "fedmrl",
        "method.d_1": 128,
        "data.dataset": "cifar100",
        "data.partition": "dirichlet",
        "data.alpha": 0.1,
        "data.min_samples": 40,
        "data.split": "75:25",
        "federation.clients": 20,
        "federation.participation": 1.0,
        "federation.group": "htfe8",
        "models.stem": "imagenet",
        "training.epochs": 1,
        "training.batch_size": 10,
        "training.optimizer": "sgd",
        "training.lr": 0.01,
    }


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


@pytest.mark.parametrize("name", [name for name in presets.names() if name.startswith("htfllib")])
def test_in_htfllibs_setting_methods_differ_in_the_method_alone(name: str) -> None:
    begin = next(each for each in ("htfllib_text", "htfllib_sensors", "htfllib") if name.startswith(each))
    changed = difference(f"{begin}_standalone", name)
    public = {"data.public"} if name.endswith(PUBLIC) else set()
    assert {key for key in changed if not key.startswith("method.")} == public


PUBLIC = ("fedmd", "feddf")
"""Methods that need public samples."""


def test_the_models_of_htfllibs_setting_share_512_features() -> None:
    config = Config.read(presets.load("htfllib_fedtgp").config)
    assert {
        models.architecture(name, ImageShape(3, 32, 32), 100).num_features
        for name in models.members(config.federation.group)
    } == {512}


def test_models_are_cut_smaller_in_one_setting_by_three_rules() -> None:
    """FIARSE does not clip, and says itself how much of the one model a client holds."""
    assert difference("widths_heterofl_iid", "widths_fedrolex_iid") == {
        "method.name": ("heterofl", "fedrolex")
    }
    assert difference("widths_heterofl_iid", "widths_fiarse_iid") == {
        "method.name": ("heterofl", "fiarse"),
        "method.mask_answers": (False, None),
        "method.sizes": (None, [1.0, 0.25, 0.0625, 0.015625, 0.00390625]),
        "federation.group": ("heterofl_resnet", "resnet18"),
        "training.clip": (1.0, None),
    }


def test_incos_setup_is_spelled_out() -> None:
    assert settings("inco_avg_resnet_fashion_mnist_a05") == {
        "rounds": 500,
        "method.name": "inco_avg",
        "method.variant": "released_code",
        "models.stem": "imagenet",
        "data.dataset": "fashion_mnist",
        "data.partition": "dirichlet",
        "data.alpha": 0.5,
        "data.split": "global",
        "data.size": 32,
        "data.rgb": True,
        "evaluation.model": "aggregated",
        "federation.clients": 100,
        "federation.participation": 0.1,
        "federation.group": "inco_resnet",
        "training.epochs": 5,
        "training.batch_size": 64,
        "training.optimizer": "adam",
        "training.lr": 0.001,
    }


def test_incos_transformers_are_pretrained_and_see_larger_images_for_fewer_rounds() -> None:
    assert difference("inco_avg_resnet_svhn_a10", "inco_avg_vit_svhn_a10") == {
        "data.size": (32, 224),
        "evaluation.batch_size": (None, 256),
        "federation.group": ("inco_resnet", "inco_vit"),
        "federation.pretrained": (None, True),
        "models.stem": ("imagenet", None),
        "rounds": (500, 200),
        "training.lr": (0.001, 0.01),
        "training.momentum": (None, 0.9),
        "training.optimizer": ("adam", "sgd"),
        "training.weight_decay": (None, 1e-5),
    }


@pytest.mark.parametrize("method", ["fednova", "inco_nova"])
def test_fednova_trains_with_sgd_as_in_the_baselines_source(method: str) -> None:
    assert settings(f"{method}_resnet_cifar10_a05")["training.optimizer"] == "sgd"


@pytest.mark.parametrize("method", ["inco_avg", "inco_prox", "inco_nova", "inco_scaffold", "inco_moon"])
def test_incos_rule_is_the_released_codes(method: str) -> None:
    assert settings(f"{method}_vit_cifar10_a05")["method.variant"] == "released_code"


@pytest.mark.parametrize("method", ["moon", "inco_moon"])
@pytest.mark.parametrize("models", ["resnet", "vit"])
def test_moon_stops_early_on_fashion_mnist_alone(method: str, models: str) -> None:
    assert settings(f"{method}_{models}_fashion_mnist_a10")["rounds"] == 100
    assert settings(f"{method}_{models}_svhn_a10")["rounds"] == {"resnet": 500, "vit": 200}[models]


def test_incos_case_study_varies_images_and_models() -> None:
    alike = settings("case_study_resnet_iid_homo")
    assert (alike["data.partition"], alike["federation.group"], alike["rounds"]) == ("iid", ["resnet18"], 50)
    assert difference("case_study_resnet_noniid_homo", "case_study_resnet_noniid_hetero") == {
        "federation.group": (["resnet18"], "inco_resnet"),
    }


@pytest.mark.parametrize("method", ["heterofl", "fedrolex"])
def test_on_the_global_test_set_a_client_may_answer_all_classes(method: str) -> None:
    assert settings(f"widths_{method}_two_labels")["method.mask_answers"] is False


# Profiles


def test_a_preset_is_the_papers_unless_a_profile_is_asked_for() -> None:
    assert presets.load("fedssa_htm5") == presets.load("fedssa_htm5", "paper")


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


def test_fedkwazs_setup_is_spelled_out() -> None:
    """§4.1, §4.4, and D.3."""
    assert settings("kwaz_fedkwaz_n50") == {
        "rounds": 1000,
        "method.name": "fedkwaz",
        "method.tau": 4.0,
        "method.every": 30,
        "method.strengths": [0.1, 0.5, 1.0],
        "method.patches": [64, 16, 4],
        "method.proxy": "cnn_4layer",
        "federation.clients": 50,
        "federation.participation": 0.5,
        "federation.group": "htfe8",
        "models.stem": "imagenet",
        "data.dataset": "cifar100",
        "data.partition": "dirichlet",
        "data.alpha": 0.1,
        "data.split": "75:25",
        "data.min_samples": 40,
        "training.epochs": 1,
        "training.batch_size": 10,
        "training.optimizer": "sgd",
        "training.lr": 0.01,
    }


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("kwaz_lml_htfe8_cifar10", {"method.align": (None, False), "method.labels": (None, "both")}),
        ("kwaz_p2p_l_htfe8_cifar10", {"method.students": (None, "model")}),
        ("kwaz_p2p_r_htfe8_cifar10", {"method.students": (None, "proxy")}),
        ("kwaz_fedkwaz_htfe8_cifar100", {"data.dataset": ("cifar10", "cifar100")}),
        (
            "kwaz_fedkwaz_htfe8_flowers102",
            {"data.dataset": ("cifar10", "flowers102"), "data.size": (None, 64)},
        ),
    ],
)
def test_fedkwazs_variants_and_data_sets_differ_in_nothing_else(
    name: str, changed: dict[str, tuple[Any, Any]]
) -> None:
    assert difference("kwaz_fedkwaz_htfe8_cifar10", name) == changed


def test_fedkwazs_fourth_table_has_htfe8_at_20_clients_with_the_dirichlet_split() -> None:
    """§4.1 and the table's caption; Table 2 has HtFE8 at 50 clients."""
    assert difference("kwaz_fedkwaz_n50", "kwaz_fedkwaz_htfe8_cifar100") == {
        "federation.clients": (50, 20),
        "federation.participation": (0.5, 1.0),
    }


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("fedssa_cnn1_n50", "method.t_stable", 45),
        ("fedgh_htm5", "training.epochs", 30),
        ("fedgh_cnn1_cifar100_n100", "training.batch_size", 64),
        ("fedgh_htm5", "method.bias", True),
        ("fedgh_htfe8_cifar100", "method.server_step", "batch"),
        ("fedgh_htfe8_cifar100", "method.bias", True),
        ("fedgh_htfe8_cifar100", "evaluation.model", "aggregated"),
        ("htfllib_fedgh", "method.server_step", "batch"),
        ("htfllib_fedgh", "method.bias", True),
        ("htfllib_fedgh", "evaluation.model", "aggregated"),
        ("lg_fedavg_htfe8_cifar100", "evaluation.model", "aggregated"),
        ("inco_avg_vit_svhn_a05", "training.batch_size", 32),
        ("inco_avg_vit_svhn_a05", "method.per_epoch", True),
        ("inco_avg_vit_svhn_a05", "training.augment", ["resized_crop", "flip"]),
        ("inco_avg_vit_cifar10_a10", "training.augment", ["resized_crop", "flip"]),
        ("inco_avg_vit_cinic10_a05", "training.augment", ["resized_crop", "flip"]),
        ("inco_avg_resnet_cifar10_a05", "training.augment", ["crop", "flip", "cutout"]),
        ("fedl2g_f_htfe8_cifar100", "method.clip", 100.0),
        ("fedproto_htfe8_cifar100", "method.lam", 10.0),
        ("fedproto_htfe8_cifar100", "method.weighting", "plain"),
        ("htfllib_fedproto", "method.weighting", "plain"),
        ("htfllib_fedgen", "method.teacher", "logits"),
        ("htfllib_fedgen", "method.weighting", "samples"),
        ("htfllib_fedtgp", "method.margin", "nearest"),
        ("htfllib_fedtgp", "method.collect", "before"),
        ("htfllib_fedtgp", "method.lam", 10.0),
        ("htfllib_fedtgp", "method.distance", "samples"),
        ("htfllib_fedmrl", "evaluation.model", "aggregated"),
        ("htfllib_pfedmoe", "evaluation.model", "aggregated"),
        ("kwaz_fedkwaz_n50", "training.clip", 10.0),
        ("kwaz_fedkwaz_n50", "method.divergence", "teacher_first"),
        ("kwaz_fedkwaz_n50", "method.base", "both"),
        ("kwaz_fedkwaz_n50", "method.labels", "both"),
        ("kwaz_fedkwaz_n50", "method.collect", "training"),
        ("htfllib_pfedafm", "training.clip", 50.0),
        ("htfllib_pfedes", "method.extractor_epochs", 11),
        ("htfllib_pfedes", "training.momentum", 0.9),
        ("widths_fedrolex_iid", "training.lr", 2e-4),
        ("widths_fiarse_two_labels", "method.gradient", "mask"),
    ],
)
def test_the_authors_settings_one_by_one(name: str, key: str, value: Any) -> None:
    section, _, option = key.partition(".")
    assert presets.load(name, "authors").config[section][option] == value


def test_incos_transformers_see_fashion_mnist_as_it_is() -> None:
    authors = presets.load("inco_avg_vit_fashion_mnist_a05", "authors").config
    assert authors["training"]["batch_size"] == 32 and "augment" not in authors["training"]


def test_fedtgp_has_the_papers_lambda_without_a_profile() -> None:
    assert presets.load("htfllib_fedtgp").config["method"]["lam"] == 0.1


@pytest.mark.parametrize("name", ["fedlora_htm5", "standalone_cnn1", "case_study_vit_iid_homo", "quickstart"])
def test_a_profile_that_a_preset_lacks_is_refused_with_what_there_is(name: str) -> None:
    with pytest.raises(presets.PresetError, match=f"preset '{name}' has no profile 'authors'; it has paper"):
        presets.load(name, "authors")


def test_every_profile_is_a_configuration() -> None:
    """Read and judged whole, as a run would."""
    for preset in presets.all():
        for profile in preset.profiles:
            assert Config.read(presets.load(preset.name, profile.name).config)
