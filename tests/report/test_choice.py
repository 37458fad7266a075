"""Which figures a report has: those with something to show, each with a command that draws it."""

from pathlib import Path

import pytest

from simulator.results.analysis.feed import read
from simulator.results.report.contents import pictures
from tests import sessions
from tests.cli.conftest import TINY, call


def commands(home: Path, names: list[str], by: tuple[str, ...], data: Path) -> list[str]:
    runs = [read(home / name) for name in names]
    return [each.command for each in pictures(names, runs, by, None, home, data)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chosen")
    for seed in (0, 1):
        for mu in (0.5, 0.7):
            settings = sessions.whole(seed=seed, method={"name": "fedlora", "mu": mu})
            sessions.make(folder / f"mu{mu}-s{seed}", rounds=10, document=settings, cka_every=0)
    sessions.make(folder / "alone", rounds=10, document=sessions.whole())
    return folder


def test_an_axis_of_numbers_has_its_curve_and_nothing_measured_has_no_figure(home: Path) -> None:
    names = ["mu0.5-s0", "mu0.5-s1", "mu0.7-s0", "mu0.7-s1"]
    kinds = [each.split()[2] for each in commands(home, names, ("method.mu",), home)]
    assert kinds == ["accuracy", "accuracy", "box", "tradeoff", "loss", "sensitivity"]


def test_a_single_session_with_cka_has_its_matrices_and_no_tradeoff(home: Path) -> None:
    kinds = [each.split()[2] for each in commands(home, ["alone"], ("method",), home)]
    assert "cka" in kinds and "cka-curves" in kinds
    assert "tradeoff" not in kinds and "sensitivity" not in kinds


def test_the_partition_is_drawn_of_data_that_are_here(tmp_path: Path) -> None:
    options = ("--rounds=1", "--session=real", "--sessions-dir", tmp_path)
    assert call("run", *TINY, *options).code == 0
    (found,) = [c for c in commands(tmp_path, ["real"], ("method",), tmp_path) if c.split()[2] == "partition"]
    assert found == "htfl-sim plot partition real --out partition.pdf"


def test_a_session_with_a_clock_has_its_timeline(tmp_path: Path) -> None:
    options = ("--rounds=1", "--set=system.devices=phone", "--session=timed", "--sessions-dir", tmp_path)
    assert call("run", *TINY, *options).code == 0
    found = commands(tmp_path, ["timed"], ("method",), tmp_path)
    assert "htfl-sim plot timeline timed --out timeline.pdf" in found


@pytest.mark.long
def test_every_command_draws_its_figure(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in commands(home, ["mu0.5-s0", "mu0.7-s0"], ("method.mu",), home):
        words = command.split()[1:]
        result = call(*words, "--sessions-dir", home, "--data-dir", home)
        assert result.code == 0, result.err
        assert (tmp_path / words[-1]).stat().st_size > 1000
