"""The accuracies the papers printed, as each preset carries them and as the listing groups them."""

import pytest

import presets
from presets import Reference

SCALES = ("", "_n50", "_n100")
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


def test_fedl2gs_first_table_is_as_printed() -> None:
    datasets = ("cifar10", "cifar100", "flowers102", "tiny_imagenet")
    assert {
        method: tuple(
            [accuracies(f"{method}_htfe8_{dataset}{setting}", "FedL2G")[0] for dataset in datasets]
            for setting in ("_pathological", "")
        )
        for method in FEDL2G
    } == FEDL2G
    tables = [reference.table for reference in presets.load("fedl2g_f_htfe8_cifar100").paper]
    assert tables == ["Table 1", "Table 4"]  # its learning rate is a cell of the sensitivity study


def test_fedkwazs_fourth_table_is_as_printed_and_has_the_gains_of_the_text() -> None:
    """§4.6 says by how much FedKWAZ is above LML."""
    variants = ("lml", "p2p_l", "p2p_r", "fedkwaz")
    for dataset, printed, above_lml in (
        ("cifar10", [89.42, 89.63, 89.95, 90.39], 0.97),
        ("cifar100", [50.36, 50.93, 51.13, 51.69], 1.33),
        ("flowers102", [56.44, 56.87, 57.08, 57.52], 1.08),
    ):
        cells = [accuracies(f"kwaz_{variant}_htfe8_{dataset}", "FedKWAZ") for variant in variants]
        assert cells == [[accuracy] for accuracy in printed]
        assert printed[3] - printed[0] == pytest.approx(above_lml)


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
