"""Which presets there are, what one is called, and what an unknown name is told."""

import ast
import itertools
import subprocess
import sys
from pathlib import Path

import pytest

import presets
from simulator import methods, models
from simulator.config import Config
from simulator.data.specs import InputSpec, SignalSpec, TokenSpec
from simulator.models import ImageShape
from tests import federations

ROOM = Path(presets.__file__).parent


def named(begin: str, *axes: tuple[str, ...]) -> set[str]:
    return {begin + "".join(parts) for parts in itertools.product(*axes)}


CIFAR_METHODS = (
    "fedlora", "fedssa", "fedgh", "standalone", "fedavg", "lg_fedavg", "fedclassavg", "fedproto", "fd", "fml", "fedkd",
)  # fmt: skip
HTFE_METHODS = ("fedl2g_l", "fedl2g_f", "fml", "fedkd", "fd", "fedproto")
SAME_HEAD_METHODS = ("lg_fedavg", "fedgh")


def test_every_method_model_setting_dataset_and_scale_has_its_preset() -> None:
    experiments = named("", CIFAR_METHODS, ("_htm5", "_cnn1"), ("", "_cifar100"), ("", "_n50", "_n100"))
    ablations = named("fedssa", ("_a", "_b"), ("_htm5",), ("", "_cifar100"), ("", "_n50", "_n100"))
    listed = {name for name in presets.names() if "htm5" in name or "cnn1" in name}
    assert listed == experiments | ablations


def test_fedl2g_has_a_preset_for_every_accuracy_it_prints_and_no_other() -> None:
    methods = HTFE_METHODS + SAME_HEAD_METHODS
    datasets = ("_cifar10", "_cifar100", "_flowers102", "_tiny_imagenet")
    table_1 = named("", methods, ("_htfe8",), datasets, ("", "_pathological"))
    table_2 = named("", methods, ("_htfe2", "_htfe3", "_htfe4", "_htfe9"), ("_cifar100",))
    table_2 |= named("", HTFE_METHODS, ("_htm10_cifar100",))  # LG-FedAvg and FedGH cannot run there
    table_2 |= named("", methods, ("_htfe8_cifar100",), ("_n50", "_n100"))
    table_3 = named("", methods, ("_htfe8_cifar100",), ("_e5", "_e10", "_e20"))
    table_4 = named("fedl2g_l_htfe8_cifar100", ("_eta001", "_eta005", "_eta05", "_eta1"))
    table_4 |= named("fedl2g_f_htfe8_cifar100", ("_eta1", "_eta10", "_eta50", "_eta500"))
    listed = {name for name in presets.names() if "htfe" in name or "htm10" in name}
    listed = {name for name in listed if not name.startswith("kwaz")}
    assert listed == table_1 | table_2 | table_3 | table_4
    assert len(listed) == 64 + 54 + 24 + 8


def test_fedkwaz_has_a_preset_for_every_accuracy_of_its_tables_that_can_be_run_here() -> None:
    alike = ("standalone", "fd", "fedkd", "fedproto", "fml", "fedmrl", "fedtgp", "fedkwaz")
    everywhere = ("_htfe1", "_htfe2", "_htfe4", "_htfe9", "_n50", "_n100", "_n200")
    table = named("kwaz_", (*alike, "lg_fedavg", "fedgen", "fedgh"), everywhere)
    table |= named("kwaz_", alike, ("_htm10", "_htfe8_htc4"))  # LG-FedAvg, FedGen, and FedGH cannot run there
    variants, datasets = ("lml", "p2p_l", "p2p_r", "fedkwaz"), ("cifar10", "cifar100", "flowers102")
    table |= named("kwaz_", variants, ("_htfe8_",), datasets)  # Skin-Lesions-14 is no data set here
    assert {name for name in presets.names() if name.startswith("kwaz")} == table
    assert len(table) == 11 * 7 + 8 * 2 + 4 * 3


def test_inco_has_a_preset_for_every_cell_of_its_two_tables() -> None:
    base = ("fedavg", "fedprox", "scaffold", "fednova", "moon")
    inco = ("inco_avg", "inco_prox", "inco_scaffold", "inco_nova", "inco_moon")
    datasets = ("_fashion_mnist", "_svhn", "_cifar10", "_cinic10")
    table_2 = named("", base + inco, ("_resnet", "_vit"), datasets, ("_a05", "_a10"))
    table_1 = named("case_study", ("_resnet", "_vit"), ("_iid_homo", "_noniid_homo", "_noniid_hetero"))
    listed = {name for name in presets.names() if "_resnet" in name or "_vit" in name}
    assert listed == table_1 | table_2
    assert len(listed) == 6 + 160


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

    FedKWAZ has presets of its own."""
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
