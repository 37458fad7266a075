"""The papers' case studies that come with htfl-sim: every one is a study, with the values that the papers print."""

from pathlib import Path

import pytest

from simulator.base.errors import ConfigError
from simulator.studies.study import StudySpec, shipped_file, shipped_studies
from tests.cli.conftest import Cli, cli, sessions
from tests.cli.test_bad_input import assert_refused

__all__ = ["cli", "sessions"]
SEEDS = 3
POINTS = {
    "fedlora_noniid": 2 * 5,  # FedLoRA and FedProto, 2 to 10 classes
    "fedlora_noniid_cifar100": 2 * 6,  # 10 to 100 classes
    "fedlora_participation": 2 * 6,  # C of 0.1 to 1
    "fedlora_participation_cifar100": 2 * 6,
    "fedlora_mu_hidden": 5 * 4,  # μ of 0.5 to 0.9, widths of 20 to 80
    "fedlora_mu_hidden_cifar100": 5 * 4,
    "fedssa_noniid": 2 * 5,
    "fedssa_noniid_cifar100": 2 * 6,
    "fedssa_participation": 2 * 6,
    "fedssa_participation_cifar100": 2 * 6,
    "fedgh_noniid": 3 * 5,  # FedGH, LG-FedAvg, FedProto
    "fedgh_noniid_cifar100": 3 * 6,
    "fedgh_participation": 3 * 6,
    "fedgh_participation_cifar100": 3 * 6,
    "fedgh_eta_theta": 7,  # 0.001 to 1
    "fedgh_eta_theta_cifar100": 7,
    "fedl2g_l_eta_s": 5,
    "fedl2g_f_eta_s": 5,
    "fedl2g_epochs": 8 * 3,  # all methods of Table 3, E of 5, 10, 20
    "inco_batch_size": 2 * 5,
    "inco_batch_size_cinic10": 2 * 5,
    "inco_noise": 2 * 4,
    "inco_noise_cinic10": 2 * 4,
}
"""Points for each seed."""


def test_every_shipped_study_has_its_points_each_with_settings_that_are_valid() -> None:
    assert set(shipped_studies()) == set(POINTS)
    for name, count in POINTS.items():
        study = StudySpec.read(shipped_file(name))
        points = study.points(Path("nowhere"))
        assert len(points) == len({point.name for point in points}) == SEEDS * count, name
        assert study.over["seed"] == (0, 1, 2) and study.title
        for point in points:
            assert all(_set(point.config, key) == value for key, value in point.axes.items()), point.name


def test_the_settings_of_the_figures_are_those_that_the_papers_name() -> None:
    for name in ("fedlora_noniid", "fedssa_participation", "fedlora_mu_hidden_cifar100"):
        config = StudySpec.read(shipped_file(name)).points(Path("nowhere"))[0].config
        assert config["federation"] == config["federation"] | {"clients": 100, "group": "htm5"}
    gh = StudySpec.read(shipped_file("fedgh_eta_theta")).points(Path("nowhere"))[0].config
    assert (gh["training"]["lr"], gh["federation"]["clients"]) == (0.1, 10)


def test_a_shipped_study_is_found_by_its_name_and_the_nearest_is_named(cli: Cli, sessions: Path) -> None:
    few = ("--rounds=1", "--dataset=digits", "--clients=10", "--set=data.classes_per_client=2")
    refused = cli("sweep", "mine", "fedgh_eta_thet", *few)
    assert_refused(refused, 2, "no study file 'fedgh_eta_thet'", "Did you mean 'fedgh_eta_theta'")
    with pytest.raises(ConfigError, match="Did you mean 'inco_noise'"):
        shipped_file("inco_noiz")


def _set(config: dict[str, object], key: str) -> object:
    """The value of a dotted key; the axis of methods is method.name."""
    value: object = config
    for part in ("method.name" if key == "method" else key).split("."):
        assert isinstance(value, dict)
        value = value[part]
    return value
