"""Tuning: equal budgets, scores on eval alone, promotion from checkpoints, and the same end after any stop."""

import csv
import io
import json
import math
import random
import shutil
import subprocess
import sys
import time
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import checkpoints
import htfl_sim as hs
import htfl_sim.tuning
from checkpoints import Damaged, SessionReader
from htfl_sim.configuring import Choices
from simulator import methods
from simulator.base.errors import ConfigError, SessionError
from simulator.base.sections import Choice, Linear, Log, TrainingConfig, is_at_boundary, range_of, range_text
from simulator.config import Config
from simulator.config.user_files import Files
from simulator.results.analysis.axes import MeanStd
from simulator.results.analysis.ledger import Totals
from simulator.results.analysis.overview import Summary
from simulator.studies import search, tuning
from simulator.studies.board import StudySummary
from simulator.studies.executor import Launch
from simulator.studies.folder import Status, read_points, text_of
from simulator.studies.point import opened
from simulator.studies.search import Request, Trial, proposed
from simulator.studies.selection import select
from simulator.studies.study import StudySpec
from simulator.studies.sweep import Sweep, SweepResult
from simulator.studies.tuning import Tuned, affordable, counting, left, tune, tuned
from tests import sessions
from tests.cli.conftest import call, rewrite
from tui.cli.progress import PointLines, table

optuna = pytest.importorskip("optuna", reason="Optuna is not installed")

BASE: dict[str, Any] = {
    "data": {"dataset": "digits", "limit": 120, "split": "2:1:1"},
    "federation": {"clients": 2, "group": "tiny"},
    "training": {"batch_size": 64},
}
SMALL = Request(
    BASE, ("standalone", "fedproto"), rounds=4, budget=4, halving=2, keys=("training.lr", "method.lam"),
    tuning_seeds=(100,), seeds=(0, 1),
)  # fmt: skip
ONE = replace(SMALL, methods=("standalone",), keys=("training.lr",), halving=None, seeds=(0,))
Patch = pytest.MonkeyPatch


def test_rungs_have_the_trials_and_rounds_that_the_halving_leaves() -> None:
    """Of 20 rounds and the last 3, a rung's score is of 3 · 3/20 = 0.45 and 3 · 7/20 = 1.05 last rounds, rounded up."""
    assert replace(SMALL, rounds=30, budget=9, halving=3).rungs() == [(9, 4), (3, 10), (1, 30)]
    assert replace(SMALL, rounds=4, budget=4, halving=2).rungs() == [(4, 1), (2, 2), (1, 4)]
    assert replace(SMALL, rounds=2, budget=100, halving=3).rungs() == [(100, 2)]
    assert replace(SMALL, halving=None).rungs() == [(4, 4)]
    grid = replace(SMALL, sampler="grid", budget=60, rounds=3, halving=2)
    assert grid.rungs(4) == [(4, 2), (2, 3)]  # a grid may have fewer trials than the budget
    assert replace(grid, sampler="latin").rungs(4) == replace(grid, sampler="latin").rungs()
    scored = replace(SMALL, rounds=20, budget=9, halving=3, last=3)
    assert [(upto, scored.last_at(upto)) for _, upto in scored.rungs()] == [(3, 1), (7, 2), (20, 3)]


def test_every_declared_range_holds_its_default_and_its_ends_are_valid() -> None:
    sections = [(methods.get(name).Config, {"name": name}) for name in methods.names()]
    for section, given in [*sections, (TrainingConfig, {})]:
        for key, each in section.space.items():
            default = section.model_fields[key].default
            if isinstance(each, Choice):
                assert default in each.options, (given, key)
            elif default is not None:
                assert each.low <= default <= each.high, (given, key)
            for value in each.options if isinstance(each, Choice) else (each.low, each.high):
                section.model_validate({**given, key: value})


def test_searches_follow_from_their_seed_and_try_the_same_for_all_methods() -> None:
    """Else a method could win because its draws were luckier. The first trial has the method's own values."""
    for sampler in search.SAMPLERS:
        asked = replace(SMALL, sampler=sampler, halving=None, methods=("standalone", "fedproto", "fedssa"))
        each = [proposed(replace(asked, keys=()), name, []) for name in asked.methods]
        assert [len(trials) for trials in each] == [4, 4, 4]
        assert all(trials[0].values == {} for trials in each)
        assert all(trial.values for trials in each for trial in trials[1:])
        if sampler != "grid":  # whose methods have other grids
            first, *others = ([trial.values["training.lr"] for trial in trials[1:]] for trials in each)
            assert others == [first, first] and len(set(first)) == 3, sampler
        one, same, other = (
            proposed(replace(asked, search_seed=seed), "fedproto", []) for seed in (20, 20, 21)
        )
        assert one == same and one != other, sampler
        assert set(one[1].values) == {"training.lr", "method.lam"}


def test_a_latin_hypercube_has_one_trial_in_each_part_of_every_range() -> None:
    asked = replace(SMALL, budget=9)
    trials = proposed(asked, "fedproto", [])[1:]
    for key, low, factor in (("training.lr", 0.001, 300), ("method.lam", 0.01, 1000)):
        parts = sorted(int(8 * math.log(trial.values[key] / low, factor)) for trial in trials)
        assert parts == list(range(8)), key


def test_the_same_scores_give_the_same_trials() -> None:
    asked = replace(SMALL, sampler="tpe", halving=None, budget=9)
    first, scores = proposed(asked, "fedproto", []), [0.1, 0.2, 0.9, 0.3, 0.4]
    again = proposed(asked, "fedproto", scores)
    assert again == proposed(asked, "fedproto", scores)
    assert len(first) == 5 and again[:5] == first and len(again) == 9
    values = [trial.values for trial in again]  # it learns from the first five
    assert all(each not in values[:number] for number, each in enumerate(values))


def test_a_request_that_cannot_be_is_refused() -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"seeds": (100,)}, "Seed 100 is a tuning seed and a final seed"),
        ({"sampler": "bayes"}, "There is no sampler 'bayes'"),
        ({"halving": 1}, "Halving keeps"),
        ({"budget": 0}, "at least 1"),
        ({"budget_flops": 0.0, "sampler": "random"}, "above 0"),
        ({"budget_flops": 1e9, "sampler": "tpe", "halving": None}, "by the scores of earlier ones"),
        ({"budget_flops": 1e9, "sampler": "latin"}, "needs the number of trials"),
    ]
    for changes, reason in refused:
        with pytest.raises(ConfigError, match=reason):
            replace(SMALL, **changes).checked()


def test_ranges_are_read_written_and_have_boundaries() -> None:
    assert range_of("training.lr=log:0.001:0.1") == ("training.lr", Log(0.001, 0.1))
    assert range_of("method.mu=linear:0:1") == ("method.mu", Linear(0, 1))
    assert range_of("training.clip=1,5") == ("training.clip", Choice((1, 5)))
    assert [range_text(each) for each in (Log(0.001, 0.1), Linear(0, 1), Choice((None, 2)))] == [
        "log 0.001 … 0.1", "0 … 1", "none | 2",
    ]  # fmt: skip
    # Nothing lies below a momentum of 0 or 1 epoch, and above a share of 1. A momentum above 0.9 is possible.
    momenta, below_1, share = Choice((0.0, 0.5, 0.9)), {"ge": 0, "lt": 1}, {"ge": 0, "le": 1}
    for each, value, limits, at in (
        (Log(0.01, 1), 0.012, {}, True), (Log(0.01, 1), 0.1, {}, False), (Linear(0, 10), 9.6, {}, True),
        (Linear(0, 10), 9.4, {}, False), (Choice((1, 2, 5)), 5, {}, True), (Choice((1, 2, 5)), 2, {}, False),
        (momenta, 0.0, below_1, False), (momenta, 0.9, below_1, True), (Choice((1, 2, 5)), 1, {"gt": 0}, False),
        (Choice((2, 3, 5)), 2, {"gt": 0}, True), (Linear(0, 1), 0.99, share, False),
        (Linear(0.1, 0.9), 0.89, share, True),
    ):  # fmt: skip
        assert is_at_boundary(each, value, limits) == at, (each, value)  # type: ignore[arg-type]
    for wrong in ("training.lr", "training.lr=log:1", "training.lr=log:0:1", "training.lr=5"):
        with pytest.raises(ConfigError):
            range_of(wrong)


def rounds_of(folder: Path) -> dict[str, int]:
    return {each.name: len(SessionReader(each).records()) for each in checkpoints.sessions(folder)}


def in_process(monkeypatch: Patch, every: int | None = None) -> None:
    """Points run in this process; `every` third and so on of the steps stops before its last point."""
    count = 0

    class Alone(Sweep):
        def run(self, stop: Any) -> SweepResult:
            nonlocal count
            for each in self._points.values():
                assert self._upto is not None
                folder = self._group.folder / each.name
                if checkpoints.is_session(folder) and len(SessionReader(folder).records()) >= self._upto:
                    continue
                count += 1
                if every is not None and count % every == 0:
                    return SweepResult((), "stop")
                with opened(self._group.folder, each, Launch(folder)) as session:
                    session.run(upto=self._upto)
            return SweepResult(())

    monkeypatch.setattr(tuning, "Sweep", Alone)


@pytest.fixture
def here(monkeypatch: Patch) -> None:
    in_process(monkeypatch)


def done(folder: Path, request: Request = SMALL) -> dict[str, Any]:
    while tune(folder, request, Launch(folder.parent)).reason:
        pass
    return {each.method: (each.values, each.score, each.final) for each in tuned(folder)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("made") / "t"
    with pytest.MonkeyPatch.context() as patch:
        in_process(patch)
        return folder, done(folder)


@pytest.fixture
def small(made: tuple[Path, dict[str, Any]], tmp_path: Path) -> dict[str, Any]:
    """The study SMALL at its end, in the folder `t`. Returns what it found."""
    shutil.copytree(made[0], tmp_path / "t")
    return made[1]


@pytest.mark.long
@pytest.mark.usefixtures("here")
def test_a_damaged_trial_does_not_count_and_is_computed_again_once_it_is_removed(tmp_path: Path) -> None:
    asked = replace(ONE, rounds=1, budget=2)
    found = done(tmp_path / "t", asked)
    trial = tmp_path / "t" / "standalone-t01-s100"
    state = trial / SessionReader(trial).manifest().states["client/0"].name
    state.write_bytes(b"x" + state.read_bytes()[1:])
    damaged = f"t/{trial.name} is damaged, so it does not count: .* `htfl-sim rm {trial}`"
    with pytest.raises(Damaged, match=damaged):
        tune(tmp_path / "t", asked, Launch(tmp_path))
    assert call("rm", trial, "--yes").code == 0
    assert done(tmp_path / "t", asked) == found


@pytest.mark.long
def test_trials_of_other_or_unknown_code_are_named_first(tmp_path: Path, monkeypatch: Patch) -> None:
    in_process(monkeypatch, every=2)
    asked, study, said = replace(ONE, rounds=1, budget=2), tmp_path / "t", list[str]()
    assert tune(study, asked, Launch(tmp_path)).reason == "stop"
    first = study / "standalone-t00-s100"
    environment = SessionReader(first).document["environment"]
    rewrite(first, environment={**environment, "program": "0" * 64})
    named = f"{first.name} of study t was made with other code .program 0+ → "
    with pytest.raises(SessionError, match=named):
        tune(study, asked, Launch(tmp_path))
    rewrite(first, environment={key: each for key, each in environment.items() if key != "program"})
    tune(study, asked, Launch(tmp_path), say=said.append)
    assert [each.partition(",")[0] for each in said] == [f"t/{first.name} was made by an older htfl-sim"]


@pytest.mark.usefixtures("here")
def test_a_setting_without_effect_is_said_once_though_each_step_begins_anew(tmp_path: Path) -> None:
    said, asked = list[str](), replace(ONE, base=ONE.base | {"runtime": {"gpus_per_point": 0.5}})
    tune(tmp_path / "t", asked, Launch(tmp_path), say=said.append)
    assert [each.partition(":")[0] for each in said] == ["runtime.gpus_per_point = 0.5 changes nothing here"]


@pytest.mark.long
def test_halving_continues_the_best_and_repeats_no_round(tmp_path: Path, small: dict[str, Any]) -> None:
    rounds, [_, chosen] = rounds_of(tmp_path / "t"), tuned(tmp_path / "t")
    for method in SMALL.methods:
        assert sorted(rounds[f"{method}-t{trial:02d}-s100"] for trial in range(4)) == [1, 1, 2, 4]
        assert [rounds[f"{method}-s{seed}"] for seed in SMALL.seeds] == [4, 4]
        assert small[method][2] is not None and small[method][2].n == 2
    assert [each.rounds for each in tuned(tmp_path / "t")] == [8, 8]
    for each in checkpoints.sessions(tmp_path / "t"):
        is_trial = each.name.startswith(("standalone-t", "fedproto-t"))
        assert (len(SessionReader(each).rounds()) == 1) == is_trial  # the states of losers are let go
        assert sum(event["event"] == "started" for event in SessionReader(each).events()) <= 1
    final = Config.read(SessionReader(tmp_path / "t" / "fedproto-s1").document["config"])
    assert (final.seed, final.rounds) == (1, 4)
    assert math.isclose(final.training.lr, chosen.values.get("training.lr", final.training.lr))


@pytest.mark.long
@pytest.mark.usefixtures("small")
def test_the_figure_has_a_plot_for_each_key_and_a_ring_for_each_choice(tmp_path: Path) -> None:
    figure = hs.plot("tuning", "t", sessions_dir=tmp_path)
    assert [plot.get_xlabel() for plot in figure.axes] == ["training.lr", "method.lam"]
    rings = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == "none"]
    chosen = {each.method: each for each in tuned(tmp_path / "t")}
    assert sorted(float(line.get_ydata()[0]) for line in rings) == pytest.approx(
        sorted(100 * each.score for each in chosen.values())
    )
    assert len(figure.axes[0].lines) - len(rings) == 8  # trials of two methods, own values included
    assert figure.axes[0].get_xscale() == "log"


def test_the_table_has_the_interval_of_the_final_seeds_which_never_ends_above_100_percent() -> None:
    """Of 50, 60, and 70 % the mean is 60, s is 10, and t(0.975; 2) = 4.3027 gives ± 4.3027 · 10 / √3 = 24.84. Of 80 and
    100 % the mean is 90, and t(0.975; 1) = 12.706 gives ± 127.06.
    """
    row = Tuned("fedproto", 0, 4, 8, 1e6, {}, 0.5, (), MeanStd.of([0.5, 0.6, 0.7]))
    one = replace(row, method="standalone", final=MeanStd.of([0.5]))
    wide = replace(row, final=MeanStd.of([0.8, 1.0]))
    table = htfl_sim.tuning.Tuning(SMALL, (row, one, replace(row, final=None), wide))
    cells = {column.name: [column.cell(each) for each in table.rows] for column in table.columns()}
    assert cells["test, %"] == ["60.00 [35.16, 84.84]", "50.00", "–", "90.00 [0.00, 100.00]"]
    assert cells["n"] == ["3", "1", "–", "2"] and htfl_sim.tuning.CUT in table.remarks()
    lines = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [float(lines[0][name]) for name in ("final_low", "final", "final_high")] == pytest.approx(
        [0.351586, 0.6, 0.848414], abs=1e-6
    )
    assert lines[1]["n"] == "1" and lines[1]["final_low"] == ""
    found = [each["interval"] for each in table.to_json()["methods"]]
    assert found[0] == pytest.approx((0.351586, 0.848414), abs=1e-6)
    assert found[3] == pytest.approx((0.9 - 1.270620, 0.9 + 1.270620), abs=1e-5)
    assert "(a Latin hypercube, halving by 2, search seed 20)" in table.remarks()[0]
    assert replace(table, rows=(row,)).remarks()[-1].startswith("[low, high] is the 95 % interval")
    assert "interval" not in replace(table, rows=(one,)).remarks()[-1]


@pytest.mark.long
@pytest.mark.usefixtures("here")
def test_tpe_with_halving_learns_from_the_first_rung(tmp_path: Path, monkeypatch: Patch) -> None:
    """Of 6 trials by three to 4 rounds: 6 to round 2, five and then one, and 2 to round 4."""
    seen, before = list[list[float]](), tuning.proposed

    def noted(request: Request, method: str, scores: list[float], own: Any) -> list[Trial]:
        seen.append(list(scores))
        return before(request, method, scores, own)

    monkeypatch.setattr(tuning, "proposed", noted)
    asked = replace(SMALL, methods=("fedproto",), sampler="tpe", halving=3, budget=6, rounds=4, seeds=(0,))
    assert asked.rungs() == [(6, 2), (2, 4)]
    found, rounds = done(tmp_path / "t", asked), rounds_of(tmp_path / "t")
    assert sorted(each for name, each in rounds.items() if "-t" in name) == [2, 2, 2, 2, 4, 4]
    listed = search.Trials(tmp_path / "t", asked)
    assert seen == [[], [listed.score(trial, 2) for trial in listed.of("fedproto")[:5]]]
    assert done(tmp_path / "t", asked) == found  # continued, with nothing left
    assert rounds_of(tmp_path / "t") == rounds


@pytest.mark.long
@pytest.mark.usefixtures("here")
def test_a_trial_with_the_settings_of_an_earlier_one_is_not_computed(tmp_path: Path) -> None:
    """Two values of one setting are two trials of 12. The method's own value, 1.0, is one of them."""
    asked = replace(
        ONE, methods=("fedproto",), budget=12, rounds=1, keys=("method.lam",), ranges=("method.lam=1,2.0",)
    )
    for sampler in search.SAMPLERS:
        folder = tmp_path / sampler
        done(folder, replace(asked, sampler=sampler))
        trials = [name for name in rounds_of(folder) if "-t" in name]
        lams = {SessionReader(folder / each).document["config"]["method"]["lam"] for each in trials}
        assert len(trials) == 2 and lams == {1.0, 2.0}
        table = hs.tuning.tuning(sampler, tmp_path)
        assert table.rows[0].trials == 2
        said = any(each.endswith("took their scores: 10 of fedproto.") for each in table.remarks())
        assert said == (sampler != "grid")  # a grid ends with its points
        assert table.remarks()[0].startswith(f"Each method had {'up to ' * (not said)}12 trials ")


@pytest.mark.long
def test_trials_use_finished_sessions_of_another_study(tmp_path: Path) -> None:
    """Of two trials by two, the second study, with real processes, computes only the one that the first ended early."""
    asked = replace(ONE, rounds=2, budget=2, halving=2)
    with Patch.context() as patch:
        in_process(patch)
        done(tmp_path / "t", asked)
    assert not tune(tmp_path / "u", asked, Launch(tmp_path, reuse=True), jobs=2).failed
    assert tuned(tmp_path / "t") == tuned(tmp_path / "u") and tuned(tmp_path / "u")[0].rounds == 3
    [loser] = [name for name, rounds in rounds_of(tmp_path / "t").items() if rounds == 1]
    assert rounds_of(tmp_path / "u") == {loser: 1}
    assert len(hs.plot("tuning", ["u/*"], sessions_dir=tmp_path).axes) == 1


def test_a_budget_of_flops_allows_the_first_trials_that_fit_into_it() -> None:
    """Four rounds of trials with 10, 20, 10, and 30 FLOPs a round take 40, 120, 160, and 280 together.

    By two, 1 to 5 trials with 10 FLOPs a round take 40, 2·20 + 20, 3·20 + 2·20, 4·10 + 2·10 + 20, and 50 + 30 + 2·20.
    """
    trials = [Trial("standalone", number, {}) for number in range(20)]
    halved = replace(SMALL, sampler="random")
    whole, mixed, same = replace(halved, halving=None), (10, 20, 10, 30), (10, 10, 10, 10)
    for asked, costs, budget, count in (
        (whole, mixed, 159, 2), (whole, mixed, 160, 3), (whole, mixed, 279, 3),
        (halved, same, 79, 2), (halved, same, 80, 4), (halved, same, 119, 4),
    ):  # fmt: skip
        flops = {trial: costs[trial.number % 4] for trial in trials}
        found = affordable(replace(asked, budget_flops=budget), trials, flops.__getitem__)
        assert found == trials[:count], (asked.halving, budget)
    assert [left(replace(halved, budget_flops=1), [10] * n) for n in range(1, 6)] == [40, 60, 100, 80, 120]
    with pytest.raises(ConfigError, match=r"standalone takes 40 .* the budget is 39"):
        affordable(replace(whole, budget_flops=39), trials, lambda each: 10)


def test_a_dry_run_counts_the_rounds_that_are_left() -> None:
    """Rungs (4, 1), (2, 2), (1, 4): trials of F a round take 4 + 2 + 2 = 8 F.

    Rounds 1, 2, 1, and 0 of them leave 1 + 1 + 2 = 4 F.
    """
    for ran, flops in (((0, 0, 0, 0), 80), ((1, 2, 1, 0), 40), ((1, 4, 2, 1), 0)):
        assert left(SMALL, [10.0] * 4, [[each] for each in ran]) == flops
    assert left(SMALL, [10.0] * 4) == 80


@pytest.mark.long
@pytest.mark.usefixtures("here")
def test_methods_with_the_same_flops_have_as_many_trials_as_fit(tmp_path: Path, monkeypatch: Patch) -> None:
    """A server that trains for long leaves FedGH fewer trials. The table has what the ledgers have."""
    base = {**BASE, "method": {"server_epochs": 20}}
    asked = replace(
        ONE, base=base, sampler="random", methods=("standalone", "fedgh"), rounds=2, budget_flops=1.0
    )
    a_round = counting(asked, tmp_path, tmp_path)
    alone, fedgh = (a_round(Trial(name, 0, {})) for name in asked.methods)
    assert alone < fedgh
    asked = replace(asked, budget_flops=2 * 4.5 * alone)
    done(tmp_path / "t", asked)
    found = tuned(tmp_path / "t")
    assert [each.trials for each in found] == [4, int(4.5 * alone / fedgh)]
    assert [each.flops for each in found] == [4 * 2 * alone, found[1].trials * 2 * fedgh]
    monkeypatch.setattr(tuning, "counting", lambda *_: pytest.fail("it was counted before"))
    assert not tune(tmp_path / "t", None, Launch(tmp_path)).reason


@pytest.mark.long
@pytest.mark.usefixtures("here")
def test_methods_with_other_numbers_of_trials_share_rungs(tmp_path: Path, monkeypatch: Patch) -> None:
    """By two to 4 rounds, 4 trials have rungs at rounds 1, 2, and 4, and 2 trials at rounds 2 and 4."""
    counts = {"standalone": 4, "fedproto": 2}

    def fitting(request: Request, every: Any, flops: Any) -> list[Trial]:
        first = next(every)
        return [first, *islice(every, counts[first.method] - 1)]

    monkeypatch.setattr(tuning, "affordable", fitting)
    done(tmp_path / "t", replace(SMALL, sampler="random", budget_flops=1.0))
    rounds = rounds_of(tmp_path / "t")
    for method, expected in (("standalone", [1, 1, 2, 4]), ("fedproto", [2, 4])):
        assert sorted(each for name, each in rounds.items() if name.startswith(f"{method}-t")) == expected


@pytest.mark.long
def test_a_stop_anywhere_changes_nothing(tmp_path: Path, small: dict[str, Any], monkeypatch: Patch) -> None:
    in_process(monkeypatch, every=3)
    assert small == done(tmp_path / "stopped")
    assert rounds_of(tmp_path / "t") == rounds_of(tmp_path / "stopped")


def scrambled(numbers: Any, draws: random.Random) -> Any:
    """The same JSON with other numbers from 0 to 1."""
    match numbers:
        case dict():
            return {key: scrambled(each, draws) for key, each in numbers.items()}
        case list():
            return [scrambled(each, draws) for each in numbers]
        case float():
            return draws.random()
    return numbers


@pytest.mark.long
@pytest.mark.usefixtures("small")
def test_choices_depend_on_eval_and_never_on_test_accuracies(tmp_path: Path, monkeypatch: Patch) -> None:
    """Every test accuracy of the ledgers, as they are read. Those on eval show that the test could fail."""

    def choices() -> list[list[int]]:
        """For each method, the trials of every rung, then the chosen one."""
        listed, found = search.Trials(tmp_path / "t", SMALL), []
        for method in SMALL.methods:
            every = listed.of(method)
            for _, upto in SMALL.rungs():
                found.append([each.number for each in listed.survivors(every, upto)])
            found.append([chosen.number if (chosen := listed.choice(every)) else -1])
        return found

    before, lines = choices(), SessionReader.lines
    places = {"test": (("accuracy",), ("evaluation", "test")), "eval": (("evaluation", "eval"),)}
    for part, where in places.items():
        changed = 0
        for seed in range(5):
            draws = random.Random(seed)

            def other(reader: SessionReader, draws: Any = draws, where: Any = where) -> list[bytes]:
                found = []
                for line in lines(reader):
                    record = json.loads(line)
                    for *above, last in where:
                        holder = record[above[0]] if above else record
                        holder[last] = scrambled(holder[last], draws)
                    found.append(json.dumps(record, separators=(",", ":")).encode())
                return found

            with monkeypatch.context() as patch:
                patch.setattr(SessionReader, "lines", other)
                changed += choices() != before
        assert (changed > 0) == (part == "eval")


@pytest.mark.long
def test_a_trial_that_a_divergence_stopped_loses_and_ends_nothing(tmp_path: Path) -> None:
    """Real processes: with lr = 1e30 training diverges before the last round, and the setting says to stop then."""
    base = {**BASE, "training": {"batch_size": 8, "on_divergence": "stop"}}
    request = replace(ONE, base=base, rounds=3, budget=2, ranges=("training.lr=log:1e29:1e30",))
    result = tune(tmp_path / "t", request, Launch(tmp_path), jobs=2)
    [found] = tuned(tmp_path / "t")
    assert not result.failed and found.values == {} and found.score > 0  # the first trial, with its own rate


def test_a_setting_of_a_method_is_fixed_for_the_methods_that_have_it_and_not_searched() -> None:
    asked = htfl_sim.tuning.request(
        Choices(assignments=["method.lam=3"]), ["fedproto", "fedssa"], keys=["method"]
    )
    assert asked.fixed("fedproto") == {"lam": 3} and "method.lam" not in asked.space("fedproto")
    assert asked.fixed("fedssa") == {} and list(asked.space("fedssa")) == ["method.mu_0", "method.t_stable"]
    config = Config.read(tuning._point(asked, Trial("fedproto", 0, {}), 100).config)
    assert config.method.lam == 3  # type: ignore[attr-defined]


def test_what_no_method_has_and_what_tuning_decides_itself_is_refused() -> None:
    none = r"None of standalone, fedproto has a setting 'method\.mu'"
    own = [Choices(assignments=[word]) for word in ("method.name=fedproto", "seed=3", "until=0.9")]
    for choices, ranges, said in (
        (Choices(assignments=["method.mu=0.6"]), [], none),
        (Choices(), ["method.mu=linear:0:1"], f"{none} to search"),
        *((each, list[str](), "[Tt]uning") for each in own),
        *((Choices(**{key: each}), list[str](), "[Tt]uning")  # type: ignore[arg-type]
          for key, each in {"method": "fedproto", "seed": 3, "until": 0.9}.items()),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=said):
            htfl_sim.tuning.request(choices, ["fedproto"], ranges=ranges)


def test_trials_and_final_runs_can_draw_from_separate_samples_and_share_a_seed_of_the_data() -> None:
    asked = htfl_sim.tuning.request(Choices(assignments=["seed.data=3"]), ["fedproto"], separate=True)
    trial = Trial("fedproto", 0, {})
    tried, final = (
        Config.read(tuning._point(asked, trial, seed, final=seed == 0).config) for seed in (1000, 0)
    )
    assert (tried.data.pool, final.data.pool) == ("tuning", "final")
    assert [(each.seed, each.data_seed) for each in (tried, final)] == [(1000, 3), (0, 3)]


@pytest.mark.long
@pytest.mark.usefixtures("small")
def test_the_name_of_a_tuning_study_stands_for_its_final_runs(tmp_path: Path) -> None:
    """Its trials have other values and fewer rounds: a comparison would mislead, a sweep would run them to the end."""
    finals = {f"{method}-s{seed}" for method in SMALL.methods for seed in SMALL.seeds}
    assert {each.name for each in select(["t"], tmp_path).sessions} == finals
    assert len(select(["t/*"], tmp_path).sessions) > len(finals)
    own = [Summary.read(each) for each in checkpoints.sessions(tmp_path / "t")]
    names = [each.name for each in StudySummary.of(tmp_path / "t", own).settings]
    assert [name.partition(",")[0] for name in names] == [*SMALL.methods] and "stage" not in str(names)
    with pytest.raises(ConfigError, match=r"t is a tuning study.*`htfl-sim tune t`"):
        hs.studies.plan("t", sessions_dir=tmp_path)
    assert tuning.forecast(tmp_path / "t", None, Launch(tmp_path)).flops == 0  # nothing is left


@pytest.mark.long
@pytest.mark.usefixtures("small")
def test_a_sweep_with_tuned_values_equals_the_final_runs_and_can_have_more_seeds(tmp_path: Path) -> None:
    finals = {each.name: each for each in read_points(tmp_path / "t") if each.axes.get("stage") == "final"}
    planned = hs.studies.plan("more", tuned="t", sessions_dir=tmp_path)
    assert {each.name for each in planned.points} == set(finals)
    assert not any(each.differences(finals[each.name]) for each in planned.points)
    wider = hs.studies.plan("more", tuned="t", over={"seed": [0, 7]}, sessions_dir=tmp_path)
    assert {each.axes["seed"] for each in wider.points} == {0, 7}
    text = planned.study.to_toml()
    assert StudySpec.of_toml(tomllib.loads(text), tmp_path / "study.toml").to_toml() == text


def test_a_sweep_with_tuned_values_waits_for_all_choices(tmp_path: Path) -> None:
    begun(tmp_path / "t")
    (tmp_path / "t" / "study.toml").write_text("[over]\nseed = [0]\n")
    waits = r"t has chosen no values for .* yet\. Continue it: `htfl-sim tune t`"
    with pytest.raises(ConfigError, match=waits):
        hs.studies.plan("more", tuned="t", sessions_dir=tmp_path)


@pytest.mark.long
@pytest.mark.usefixtures("here")
def test_a_study_that_continues_has_the_files_that_it_began_with(tmp_path: Path, monkeypatch: Patch) -> None:
    file = tmp_path / "nothing.py"
    file.write_text("def metric(scores, labels): return 0.0\n")
    files, seen = Files(metrics=(str(file),)), []

    class Seen(tuning.Here):
        def __init__(self, points: Any, launch: Launch, jobs: int | None) -> None:
            seen.append(launch.files)
            super().__init__(points, launch, jobs)

    monkeypatch.setattr(tuning, "Here", Seen)
    monkeypatch.setattr(tuning, "backend", lambda on: Seen)
    tune(tmp_path / "t", replace(ONE, budget=1), Launch(tmp_path, files=files))
    tune(tmp_path / "t", None, Launch(tmp_path))
    assert set(seen) == {files}


@pytest.mark.usefixtures("here")
def test_another_request_for_the_same_name_is_refused_with_the_difference(tmp_path: Path) -> None:
    small = replace(ONE, budget=1, rounds=1, keys=())
    done(tmp_path / "t", small)
    other = {**BASE, "data": {**BASE["data"], "split": "8:1:1"}}
    for asked, words in (
        (replace(small, budget=4), r"budget 1 → 4"),
        (replace(small, base=other), r"another request \(data\.split '2:1:1' → '8:1:1'\)\. Choose"),
    ):
        with pytest.raises(ConfigError, match=words):
            tune(tmp_path / "t", asked, Launch(tmp_path))
    assert not tune(tmp_path / "t", None, Launch(tmp_path)).reason
    assert json.loads((tmp_path / "t" / "tuning.json").read_text())["budget"] == 1


def test_an_option_of_a_new_study_is_refused_where_a_study_continues(tmp_path: Path) -> None:
    begun(tmp_path / "t")
    for option, *value in (
        ["--budget", "20"], ["--budget", "4"], ["--key", "training.lr"], ["--space", "training.lr=log:0.01:0.1"],
        ["--seeds", "0..4"], ["--no-baseline"], ["--rounds", "9"],
    ):  # fmt: skip
        told = call("tune", "t", "--sessions-dir", tmp_path, option, *value)
        assert told.code == 2 and "a new tuning study" in told.err and "--over method=fedgh" in told.err
        assert option == "--rounds" or option in told.err
    for given in ({"budget": 20}, {"seeds": (20,)}):
        with pytest.raises(ConfigError, match=f"`{next(iter(given))}="):
            hs.tune("t", sessions_dir=tmp_path, **given)  # type: ignore[arg-type]


def test_what_some_trial_cannot_run_is_refused_before_the_study_begins(tmp_path: Path) -> None:
    """Of 50 values of clip, the first trials do not try the last."""
    clips = ",".join([*map(str, range(1, 50)), "-1"])
    alone = replace(SMALL, methods=("standalone",), keys=())
    groups = {"clients": 2, "group": ["tiny_mlp", "cnn1"]}
    for asked, words in (
        (replace(alone, base=BASE | {"data": {**BASE["data"], "split": "3:1"}}),
         r"'3:1' has no eval part.*`data\.split=8:1:1`"),
        (replace(alone, base=BASE | {"evaluation": {"parts": ["test"]}}),
         r"leaves out eval.*`evaluation\.parts=\[\"eval\", \"test\"\]`"),
        (replace(alone, keys=("training.clip",), ranges=(f"training.clip={clips}",)), r"training\.clip"),
        (replace(alone, base=BASE | {"federation": groups}, methods=("fedproto",)), "fedproto"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=words):
            tune(tmp_path / "t", asked, Launch(tmp_path))
        assert not (tmp_path / "t").exists()


def rounds(on_eval: list[float], diverged: list[tuple[int, ...]] | None = None) -> Totals:
    """Rounds of two clients, with the mean accuracy on eval and the clients that diverged."""
    each, lost = np.array(on_eval), diverged or [()] * len(on_eval)
    return sessions.totals(accuracy=each, eval_accuracy=each, participants=2.0, diverged=lost)


def tried(asked: Request, totals: list[Totals]) -> tuple[search.Trials, list[Trial]]:
    """The trials of a method, whose sessions have these rounds."""
    trials = [Trial("fedproto", n, {}) for n in range(len(totals))]
    read = {Path("none", trial.name(100)): each for trial, each in zip(trials, totals, strict=True)}
    return search.Trials(Path("none"), asked, read.__getitem__), trials


def test_a_trial_in_which_a_client_diverged_loses_against_any_other() -> None:
    """Trial 1 keeps its first models, whose 0.421 beats the 0.317 of trial 0."""
    rows = [rounds([0.317]), rounds([0.421], [(0, 1)])]
    asked = replace(SMALL, halving=None, rounds=1)
    listed, (first, second) = tried(asked, rows)
    assert listed.choice([first, second]) == first and listed.score(second, 1) is None
    listed, trials = tried(replace(asked, diverged="counts"), rows)
    assert listed.choice(trials) == second


def test_a_trial_that_diverges_after_its_rung_is_compared_there_as_it_was() -> None:
    """By two to 4 rounds: trial 0 wins at round 1, and diverges in round 3. So trial 1, the next at round 2, wins."""
    late = rounds([0.9, 0.9, 0.9, 0.9], [(), (), (1,), ()])
    listed, trials = tried(SMALL, [late, rounds([0.8, 0.8]), rounds([0.95], [(0,)]), rounds([0.1])])
    assert listed.survivors(trials, 2) == trials[:2] and listed.survivors(trials, 4) == trials[:1]
    assert listed.choice(trials) == trials[1]
    assert listed.lost(trials) == [trials[0], trials[2]]


@pytest.mark.long
@pytest.mark.usefixtures("here")
def test_a_method_that_always_diverges_is_rejected_and_named(tmp_path: Path, monkeypatch: Patch) -> None:
    asked = replace(
        ONE, base=BASE | {"training": {"batch_size": 8}}, methods=SMALL.methods, rounds=1, budget=2,
        keys=("training.clip",), ranges=("training.clip=5,1",),
    )  # fmt: skip
    before = tuning._point

    def too_high(request: Request, trial: Trial, *rest: Any, **more: Any) -> Any:
        if trial.method != "fedproto":
            return before(request, trial, *rest, **more)
        training = {**request.base["training"], "lr": 1e30}
        return before(replace(request, base=request.base | {"training": training}), trial, *rest, **more)

    monkeypatch.setattr(tuning, "_point", too_high)
    found = done(tmp_path / "t", asked)
    assert found["fedproto"] == ({}, None, None) and found["standalone"][1] is not None
    assert {name for name in rounds_of(tmp_path / "t") if "-t" not in name} == {"standalone-s0"}
    table = hs.tuning.tuning("t", tmp_path)
    cells = [column.cell(table.rows[1]) for column in table.columns()]
    assert cells[4:] == ["no score", "–", "no score", "–"]
    assert "No choice and no final runs, because all trials lost: fedproto." in table.remarks()
    assert table.to_json()["methods"][1]["lost"] == table.rows[1].trials
    none = r"t has no values for fedproto.*`over=\{'method': \['standalone'\]\}`"
    with pytest.raises(ConfigError, match=none):
        hs.studies.plan("more", tuned="t", sessions_dir=tmp_path)
    nothing = r"A client diverged in every trial of fedproto, so u chooses nothing.*`ranges="
    with pytest.raises(ConfigError, match=nothing):
        done(tmp_path / "u", replace(asked, methods=("fedproto",)))


def begun(folder: Path, asked: Request = SMALL) -> Path:
    """A tuning study none of whose trials has run. Returns its request."""
    files = {checkpoints.TUNING: text_of(asdict(asked)), checkpoints.POINTS: b"[]"}
    checkpoints.Group.open(folder, files | {"study.toml": b""}).close("stopped")
    return folder / checkpoints.TUNING


def test_a_study_of_before_keeps_its_rules(tmp_path: Path) -> None:
    """It counts diverged trials, and scores all rungs over as many last rounds."""
    file = begun(tmp_path / "t", replace(SMALL, last=3))
    raw, now = json.loads(file.read_text()), search.read_request(tmp_path / "t")
    assert (now.diverged, now.proportional, now.last_at(1)) == ("loses", True, 1)
    later = ("diverged", "search_seed", "proportional")
    file.write_text(json.dumps({key: raw[key] for key in raw if key not in later}))
    older = search.read_request(tmp_path / "t")
    assert (older.diverged, older.search_seed, older.last_at(1)) == ("counts", 20, 3)


def test_the_methods_of_a_grid_try_the_same_training_values_in_the_same_order() -> None:
    """FedProto has three values of λ for each of 3 · 2 training values. Standalone has tried all after 6 trials."""
    keys = ("training.lr", "training.clip", "method.lam")
    grid = replace(SMALL, sampler="grid", keys=keys, ranges=("training.lr=log:0.01:1", "training.clip=1,5"))
    for budget in (6, 40):
        alone, proto = (
            [
                tuple(map(trial.values.get, keys))
                for trial in proposed(replace(grid, budget=budget), each, [])[1:]
            ]
            for each in grid.methods
        )
        assert [each[:2] for each in alone] == [each[:2] for each in proto[: len(alone)]]
        assert len(set(alone)) == len(alone) == min(budget - 1, 6)
        assert len(set(proto)) == len(proto) == min(budget - 1, 18)
        assert {each[:2] for each in proto} == {each[:2] for each in alone}


def test_tpe_learns_from_the_first_trial(monkeypatch: Patch) -> None:
    """Its own value is told with its score. A value outside of its range is not."""
    told, study = [], optuna.study.Study
    before = study.add_trial
    monkeypatch.setattr(study, "add_trial", lambda of, trial: (told.append(trial), before(of, trial)))
    asked = replace(SMALL, sampler="tpe", halving=None, budget=9)
    own = {"training.lr": 0.05, "method.lam": 1e6}
    proposed(asked, "fedproto", [0.7, 0.2, 0.9, 0.3, 0.4], own)
    assert [(trial.params, trial.value) for trial in told[:1]] == [({"training.lr": 0.05}, 0.7)]


def test_a_dry_run_lists_trials_rungs_and_cost_and_writes_nothing(tmp_path: Path) -> None:
    """By two to 4 rounds, 4 trials of F operations a round take 4 + 2 + 2 = 8 F, and two final seeds 2 · 4 F."""
    line = (
        "tune", "t", "--over", "method=standalone", "--budget", "4", "--halving", "2", "--rounds", "4", "--seeds",
        "0..1", "--key", "training.lr", "--set", "data.limit=120", "--set", "federation.group=tiny", "--clients", "2",
        "--sessions-dir", tmp_path, "--dry-run",
    )  # fmt: skip
    page = " ".join(call(*line).out.split())
    assert "standalone 0 its own values" in page
    assert "Trials of standalone: 4 to round 1, 2 to round 2" in page
    found = call(*line, "--json").json()
    a_round = found["trials"][0]["flops"]
    assert [each["flops"] for each in found["trials"]] == [a_round] * 4
    assert found["flops"] == 16 * a_round and found["seconds"] > 0
    assert found["rungs"] == {"standalone": [{"trials": n, "round": r} for n, r in ((4, 1), (2, 2), (1, 4))]}
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_of_tpe_lists_the_trials_that_do_not_depend_on_scores(tmp_path: Path) -> None:
    asked = replace(ONE, sampler="tpe", budget=12, seeds=SMALL.seeds)
    found = tuning.forecast(tmp_path / "t", asked, Launch(tmp_path))
    assert (len(found.trials), found.unknown) == (5, 7)
    a_round = found.trials[0][1]
    assert found.flops == 12 * 4 * a_round + 2 * 4 * a_round


@pytest.mark.usefixtures("here")
def test_the_progress_of_a_trial_is_its_score_on_eval(tmp_path: Path) -> None:
    asked = replace(ONE, budget=1, last=2)
    done(tmp_path / "t", asked)
    now = Status("standalone-t00-s100", 4, last=asked.last_at(4)).read(tmp_path / "t" / "standalone-t00-s100")
    assert now.score == search.Trials(tmp_path / "t", asked).score(Trial("standalone", 0, {}), 4)
    assert "accuracy" not in str(lines_of(now)) and f"score on eval {100 * now.score:.1f} %" in lines_of(now)
    lost = replace(now, losers=2)
    assert "2 clients diverged" in lines_of(lost) and "score" not in str(lines_of(lost))
    shown = io.StringIO()
    Console(file=shown, width=120).print(table("t", [now], 1, 24))
    assert "score on eval" in shown.getvalue() and "best" not in shown.getvalue()
    with redirect_stdout(io.StringIO()) as told:
        PointLines("t", as_json=True).tell(now)
    assert json.loads(told.getvalue())["score"] == now.score


def lines_of(status: Status) -> str:
    with redirect_stderr(io.StringIO()) as said:
        PointLines("t").tell(status)
    return said.getvalue()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_study_killed_twenty_times_ends_with_the_same_choice(tmp_path: Path) -> None:
    """Real processes, each killed without warning soon after its first round. By two to 8 rounds, the 4 trials of a
    method take 4·2 + 2·2 + 1·4 = 16 rounds.
    """
    line = [
        sys.executable, "-c", "import sys; from htfl_sim.command import main; sys.exit(main())",
        "tune", "t", "--over", "method=fedproto", "--budget", "4", "--halving", "2",
        "--rounds", "8", "--seeds", "0", "--key", "training.lr", "--set", "data.limit=200",
        "--no-progress",
    ]  # fmt: skip
    ends = {}
    for name, kills in (("alone", 0), ("killed", 20)):
        home = tmp_path / name
        home.mkdir()
        for kill in range(kills):
            before = sum(rounds_of(home / "sessions" / "t").values())
            process = subprocess.Popen(line, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while process.poll() is None and sum(rounds_of(home / "sessions" / "t").values()) == before:
                time.sleep(0.02)
            time.sleep(kill % 5 * 0.1)
            assert process.poll() is None, f"it ended after {kill} kills"
            process.kill()
            process.wait()
        done = subprocess.run([*line, "--json"], cwd=home, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])  # progress comes before it, a line each
        ends[name] = [(row["method"], row["values"], row["score"], row["final"]) for row in found["methods"]]
        assert [row["rounds"] for row in found["methods"]] == [16, 16]
        assert sum(rounds_of(home / "sessions" / "t").values()) == 2 * (16 + 8)  # with the final runs
    assert ends["alone"] == ends["killed"]
