"""The board of a study: its rows have the numbers of `compare`, and it can be read while sessions run."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest import approx

import checkpoints
import htfl_sim as hs
from checkpoints import TUNING
from simulator.base.nested import ALL
from simulator.results.analysis.ledger import Totals
from simulator.results.analysis.overview import Summary, read_overview
from simulator.studies import folder as folders
from simulator.studies.board import (
    Board,
    BoardReader,
    BoardRow,
    Seen,
    StudySummary,
    TrialBoard,
    TrialRow,
    boundary,
)
from simulator.studies.folder import documents, text_of
from simulator.studies.search import Request
from simulator.studies.study import Point, StudySpec
from tests import sessions
from tui.app.panels import board as board_words

Scores = dict[str, tuple[tuple[float, ...], ...]]
"""For each method, the accuracies of each seed by round."""
T2 = 4.302653
"""The 97.5 % quantile of Student's t with two degrees of freedom."""


def listed(home: Path, points: Sequence[Point], **files: bytes) -> Sequence[Point]:
    """A study of these points, without sessions."""
    checkpoints.Group.open(home / "t", documents(StudySpec("quickstart"), points) | files).close("stopped")
    return points


def config(method: str = "fedgh", **changes: Any) -> dict[str, Any]:
    return sessions.config(2, 4, method, **{"runtime": {"threads_per_client": 1}, **changes})


def study(home: Path, methods: Sequence[str], seeds: Sequence[int], **changes: Any) -> Sequence[Point]:
    """A study of methods by seeds."""
    return listed(home, [
        Point(f"{method}-s{seed}", {"method": method, "seed": seed}, config(method, seed=seed) | changes)
        for method in methods
        for seed in seeds
    ])  # fmt: skip


def totals(*means: float, clock: bool = False) -> Totals:
    """Rounds with these accuracies; each round sends 100 bytes, takes 10 FLOPs and 2 s, and 5 s on a clock."""
    every = np.arange(1, len(means) + 1.0)
    return sessions.totals(
        accuracy=np.array(means),
        bytes_down_total=60 * every,
        bytes_up_total=40 * every,
        flops=10.0,
        seconds=2.0,
        simulated_seconds=5 * every if clock else np.nan,
    )


def seen(home: Path, point: str, *means: float, state: str = "finished", **options: Any) -> dict[Path, Seen]:
    """A session of the study as last read."""
    folder = home / "t" / point
    return {folder: Seen(Summary(f"t/{point}", str(folder), state, rounds=4), totals(*means, **options))}


def board_of(home: Path, *each: dict[Path, Seen]) -> Board:
    known = {path: one for found in each for path, one in found.items()}
    return BoardReader(home / "t").read(known)


def row_of(board: Board, label: str) -> BoardRow:
    return next(row for row in board.rows if row.label == label)


def test_rows_of_a_finished_study_have_the_numbers_of_compare(tmp_path: Path) -> None:
    for point in study(tmp_path, ("standalone", "fedlora", "fedgh"), (0, 1)):
        method, seed = str(point.axes["method"]), int(point.axes["seed"])
        ceiling = {"standalone": 0.8, "fedlora": 0.95, "fedgh": 0.9}[method] - 0.03 * seed * (
            method != "fedgh"
        )
        own = {key: each for key, each in point.config.items() if key != "runtime"}
        sessions.make(
            tmp_path / "t" / point.name, clients=2, rounds=4, cka_every=0, ceiling=ceiling, document=own
        )
    found = {path: read_overview(path) for path in checkpoints.sessions(tmp_path / "t")}
    board = BoardReader(tmp_path / "t").read(
        {path: Seen(Summary.read(path), run.totals, run.config) for path, run in found.items()}
    )
    table = hs.compare("t", "method", baseline="standalone", sessions_dir=tmp_path, say=lambda note: None)
    assert [row.label for row in board.rows] == [row.label for row in table.rows]
    for mine, theirs in zip(board.rows, table.rows, strict=True):
        assert mine.accuracy == theirs.last and theirs.n == 2
        assert mine.difference == theirs.difference or mine.method == "standalone"
        assert [cell.best for cell in mine.points] == [
            approx(found[tmp_path / "t" / cell.point].totals["accuracy"].max()) for cell in mine.points
        ]
    assert board.baseline == "standalone" and board.seeds == ("s0", "s1")
    assert {cell.state for row in board.rows for cell in row.points} == {"finished"}


def test_a_row_of_which_a_session_learned_nothing_has_no_mean(tmp_path: Path) -> None:
    """Both clients of seed 1 diverged in every round, so its 0.9 is that of their first models."""
    study(tmp_path, ("fedgh",), (0, 1))
    sound, lost = seen(tmp_path, "fedgh-s0", 0.5), seen(tmp_path, "fedgh-s1", 0.9)
    ((folder, each),) = lost.items()
    assert each.totals is not None
    failed = replace(each, totals=sessions.totals(accuracy=0.9, participants=2.0, diverged=[(0, 1)]))
    (row,) = board_of(tmp_path, sound, {folder: failed}).rows
    assert row.accuracy is None and [cell.accuracy for cell in row.points] == [0.5, None]


def test_rows_have_means_intervals_and_differences_of_planted_scores(tmp_path: Path) -> None:
    """Of 0.6, 0.7, 0.8 the sample's standard deviation is 0.1, and the interval 0.7 ± t · 0.1 / √3. One seed has none.

    A difference is taken after the last round that both sessions have: with fedgh-s0 at round 2 of 4, 0.5 − 0.4 counts,
    and not 0.5 − 0.6, and of seed 1, also at round 2, 0.6 − 0.3. A round without an evaluation has the value before.
    """
    reach = T2 * 0.1 / 3**0.5
    thrice: Scores = {"fedgh": ((0.1, 0.6), (0.1, 0.7), (0.1, 0.8))}
    pairs: Scores = {
        "standalone": ((0.3, 0.4, 0.5, 0.6), (0.2, 0.3, 0.4, 0.5)), "fedgh": ((0.4, 0.5), (0.5, 0.6, 0.7, 0.8)),
    }  # fmt: skip
    cases: list[tuple[Scores, float, int, tuple[float, float] | None, tuple[float, int] | None]] = [
        (thrice, 0.7, 3, (0.7 - reach, 0.7 + reach), None),
        ({"standalone": ((0.5,),), "fedgh": ((0.6,),)}, 0.6, 1, None, (0.1, 1)),
        (pairs, 0.55, 2, (0.55 - 0.635310, 0.55 + 0.635310), (0.2, 2)),
        ({"fedgh": ((0.3, 0.4, np.nan),)}, 0.4, 1, None, None),
    ]
    for number, (scores, mean, n, interval, difference) in enumerate(cases):
        home = tmp_path / str(number)
        study(home, tuple(scores), tuple(range(len(scores["fedgh"]))))
        read = [
            seen(home, f"{name}-s{seed}", *each, state="running" if len(each) == n == 2 else "finished")
            for name, seeds in scores.items()
            for seed, each in enumerate(seeds)
        ]
        row = row_of(board_of(home, *read), "fedgh")
        assert row.accuracy is not None and (row.accuracy.mean, row.accuracy.n) == (approx(mean), n)
        assert row.interval == (interval and approx(interval, abs=1e-6))
        found = row.difference and (row.difference.mean, row.difference.pairs)
        assert found == (difference and approx(difference))
        assert [cell.round for cell in row.points] == [len(each) for each in scores["fedgh"]]


def test_points_that_have_not_begun_or_are_damaged_stand_in_no_mean(tmp_path: Path) -> None:
    study(tmp_path, ("fedgh",), (0, 1, 2))
    damaged = tmp_path / "t" / "fedgh-s1"
    why = Seen(Summary("t/fedgh-s1", str(damaged), "damaged", error="ledger.jsonl is damaged."), totals(0.9))
    (row,) = board_of(tmp_path, seen(tmp_path, "fedgh-s0", 0.6), {damaged: why}).rows
    assert [(cell.state, cell.accuracy) for cell in row.points] == [
        ("finished", 0.6), ("damaged", None), ("waiting", None),
    ]  # fmt: skip
    assert row.points[1].error == "ledger.jsonl is damaged."
    assert row.accuracy is not None and (row.accuracy.mean, row.accuracy.n) == (0.6, 1)
    assert row.costs["bytes"] == 100


def test_a_list_of_points_or_a_request_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    for file, why in (
        (TUNING, "tuning.json is not what htfl-sim wrote"),
        (checkpoints.POINTS, "is not a list of points"),
    ):
        study(tmp_path, ("fedgh",), (0,))
        (tmp_path / "t" / file).write_text("{")
        board = board_of(tmp_path)
        assert why in board.error and board.rows == ()


def test_a_setting_is_compared_with_the_baseline_of_the_same_setting(tmp_path: Path) -> None:
    """Two data sizes by two methods, and a setting of fedgh's own, which the baseline does not have."""
    rows = [
        ("standalone", None, 1),
        ("standalone", None, 2),
        ("fedgh", 0.1, 1),
        ("fedgh", 0.1, 2),
        ("fedgh", 0.9, 2),
    ]
    points = listed(tmp_path, [
        Point(
            f"{method}-{mu}-{limit}",
            {"method": method, "data.limit": limit} | ({} if mu is None else {"method.mu": mu}),
            config(method),
        )
        for method, mu, limit in rows
    ])  # fmt: skip
    last = (0.5, 0.6, 0.7, 0.9, 0.8)
    board = board_of(
        tmp_path, *(seen(tmp_path, point.name, each) for point, each in zip(points, last, strict=True))
    )
    gains = {row.label: row.difference and round(row.difference.mean, 6) for row in board.rows}
    assert gains == {
        "standalone, limit 1": None, "standalone, limit 2": None,
        "fedgh, limit 1, mu 0.1": 0.2, "fedgh, limit 2, mu 0.1": 0.3, "fedgh, limit 2, mu 0.9": 0.2,
    }  # fmt: skip


def test_the_paper_s_value_stands_beside_a_setting_with_what_differs(tmp_path: Path) -> None:
    study(tmp_path, ("fedlora",), (0,), preset="fedlora_htm5")
    (row,) = board_of(tmp_path).rows
    assert row.accuracy is None and row.paper[0].accuracy == approx(0.9666)
    assert "rounds 4 (paper: 100)" in row.paper[0].details


def test_costs_are_means_over_the_seeds_and_simulated_time_is_missing_without_a_clock(tmp_path: Path) -> None:
    """Three and one rounds: 300 and 100 bytes, 30 and 10 FLOPs, 6 and 2 s; 15 and 5 s on the clock."""
    study(tmp_path, ("fedgh", "fd"), (0, 1))
    board = board_of(
        tmp_path,
        seen(tmp_path, "fedgh-s0", 0.1, 0.2, 0.3, clock=True), seen(tmp_path, "fedgh-s1", 0.2, clock=True),
        seen(tmp_path, "fd-s0", 0.2),
    )  # fmt: skip
    assert row_of(board, "fedgh").costs == {"bytes": 200, "FLOPs": 20, "seconds": 4, "simulated seconds": 10}
    assert "simulated seconds" not in row_of(board, "fd").costs


def test_crossed_seeds_are_columns_of_their_own(tmp_path: Path) -> None:
    listed(tmp_path, [
        Point(
            f"p{data}{init}",
            {"seed.data": data, "seed.init": init},
            config(seed={ALL: 0, "data": data, "init": init}),
        )
        for data in (0, 1)
        for init in (0, 1)
    ])  # fmt: skip
    board = board_of(tmp_path)
    assert board.seeds == ("s0", "0/1/0", "1/0/0", "1/1/0")
    assert [row.label for row in board.rows] == ["fedgh"]
    assert board.rows[0].points[1].seed == "data 0, init 1, training 0"


def test_a_linked_point_has_the_numbers_and_name_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (point,) = study(tmp_path, ("fedgh",), (0,))
    other = sessions.make(tmp_path / "base", clients=2, rounds=4, cka_every=0)
    monkeypatch.setattr(folders, "fingerprint_of", lambda folder: "f" * 64)
    listed(tmp_path, [replace(point, link={"session": "base", "fingerprint": "f" * 64})])
    (row,) = board_of(tmp_path, {other: Seen(Summary.read(other), totals(0.6))}).rows
    assert (row.points[0].linked, row.points[0].folder, row.points[0].accuracy) == ("base", other, 0.6)


def test_a_board_that_is_read_again_has_what_has_changed(tmp_path: Path) -> None:
    study(tmp_path, ("standalone", "fedgh"), (0,))
    known = seen(tmp_path, "standalone-s0", 0.5) | seen(tmp_path, "fedgh-s0", 0.6)
    reader = BoardReader(tmp_path / "t")
    assert reader.read(known) == reader.read(known)
    changed = reader.read(known | seen(tmp_path, "standalone-s0", 0.55))
    assert row_of(changed, "fedgh").difference.mean == approx(0.05)  # type: ignore[union-attr]


# The trials of a tuning study: rungs, scores on eval, the best so far, and its boundaries.

RATES = (None, 0.1, 0.01, 0.3)
"""The learning rate of each trial; the first has the method's own."""
ASKED = Request(
    {}, ("fedproto",), rounds=4, budget=4, halving=2, ranges=("training.lr=log:0.01:1",), tuning_seeds=(100,),
    seeds=(0, 1),
)  # fmt: skip
"""Rungs: four trials to round 1, two to round 2, and one to round 4.

The learning rate is from 0.01 to 1, so that its first and last 5 % end at 0.0126 and 0.794.
"""


def tuning(home: Path, asked: Request = ASKED, chosen: float | None = None) -> None:
    """A tuning study of one method with four trials, and its final points once a value is chosen."""
    own = [{} if rate is None else {"training.lr": rate} for rate in RATES]
    points = [
        Point(f"fedproto-t{number:02d}-s{seed}", {"method": "fedproto", "trial": number, "seed": seed} | values,
              config("fedproto", seed=seed))
        for number, values in enumerate(own)
        for seed in asked.tuning_seeds
    ]  # fmt: skip
    points += [
        Point(f"fedproto-s{seed}", {"method": "fedproto", "stage": "final", "seed": seed, "training.lr": chosen},
              config("fedproto", seed=seed))
        for seed in asked.seeds
        if chosen is not None
    ]  # fmt: skip
    listed(home, points, **{TUNING: text_of(asdict(asked))})


def of_trials(home: Path, scores: dict[str, list[float]], state: str = "stopped") -> dict[Path, Seen]:
    """Sessions with these accuracies on eval by round; on test, each is 0.5 higher."""
    found = {}
    for name, each in scores.items():
        folder = home / "t" / name
        totals = sessions.totals(accuracy=np.array(each) + 0.5, eval_accuracy=np.array(each))
        found[folder] = Seen(Summary(f"t/{name}", str(folder), state, rounds=4), totals)
    return found


def trials_of(home: Path, scores: dict[str, list[float]]) -> TrialBoard:
    trials = BoardReader(home / "t").read(of_trials(home, scores)).trials
    assert trials is not None
    return trials


def of(trials: TrialBoard, number: int) -> TrialRow:
    return next(row for row in trials.rows if row.number == number)


def named(scores: dict[int, list[float]]) -> dict[str, list[float]]:
    return {f"fedproto-t{number:02d}-s100": each for number, each in scores.items()}


def test_the_better_half_goes_on_once_all_are_at_a_rung_or_one_is_beyond(tmp_path: Path) -> None:
    """At round 1, trials 1 and 2 lead. Trial 2 has reached round 2: its 0.6 there beats trial 1, which has not. A trial
    that ended before its rung, as it diverged, does not hold the others up.
    """
    tuning(tmp_path)
    waits = trials_of(tmp_path, named({0: [0.3], 1: [0.5], 2: [0.4]}))
    assert [(row.rung, row.upto, row.round, row.score, row.out, row.is_best) for row in waits.rows] == [
        (1, 1, 1, 0.3, False, False), (1, 1, 1, 0.5, False, True), (1, 1, 1, 0.4, False, False),
        (1, 1, 0, None, False, False),
    ]  # fmt: skip
    assert waits.rungs == 3 and waits.chosen == ()
    assert waits.budget == "Each method has 4 trials, halving by 2: 4 to round 1, 2 to round 2, 1 to round 4."
    later = trials_of(tmp_path, named({0: [0.3], 1: [0.5], 2: [0.4, 0.6], 3: [0.2]}))
    assert [row.number for row in later.rows if row.is_best] == [2]
    assert (of(later, 2).score, of(later, 2).round, of(later, 2).upto) == (0.6, 2, 2)
    beyond = trials_of(tmp_path, named({0: [0.3], 1: [0.5, 0.6], 2: [0.4], 3: []}))
    for trials in (later, beyond):
        assert [(row.rung, row.out) for row in trials.rows] == [(1, True), (2, False), (2, False), (1, True)]


def test_a_trial_in_which_a_client_diverged_is_neither_best_nor_promoted(tmp_path: Path) -> None:
    """Trial 3 keeps its first models. Their 0.9 beats all others, of which trials 1 and 2 go on."""
    tuning(tmp_path)
    sessions_of = of_trials(tmp_path, named({0: [0.3], 1: [0.5], 2: [0.4, 0.6], 3: [0.9]}))
    folder = tmp_path / "t" / "fedproto-t03-s100"
    known = sessions_of[folder].totals
    assert known is not None
    lost = replace(known, arrays={**known.arrays, "participants": np.array([2.0])}, diverged=((0, 1),))
    found = BoardReader(tmp_path / "t").read(
        sessions_of | {folder: replace(sessions_of[folder], totals=lost)}
    )
    assert found.trials is not None
    assert [(row.rung, row.out, row.lost) for row in found.trials.rows] == [
        (1, True, False), (2, False, False), (2, False, False), (1, True, True),
    ]  # fmt: skip
    assert [row.number for row in found.trials.rows if row.is_best] == [2]
    assert of(found.trials, 3).score is None
    assert board_words.of_trials(found)[3].cells[-2] == "diverged"
    assert board_words.trial_facts(found, of(found.trials, 3), 0)[0][1].startswith(
        "a client diverged, so it loses"
    )


def test_the_best_trial_is_warned_about_if_its_value_is_at_the_boundary(tmp_path: Path) -> None:
    tuning(tmp_path)
    inside = trials_of(tmp_path, named({0: [0.3], 1: [0.5], 2: [0.4]}))
    assert of(inside, 1).boundary == ()
    at = trials_of(tmp_path, named({0: [0.3], 1: [0.5], 2: [0.6]}))
    assert (of(at, 2).boundary, of(at, 1).boundary) == (("training.lr",), ())
    found = BoardReader(tmp_path / "t").read(of_trials(tmp_path, named({0: [0.3], 1: [0.5], 2: [0.6]})))
    told = board_words.trial_facts(found, of(at, 2), 0)
    assert ("remark", "At the boundary of its range: training.lr. A wider range may be better.") in told


def test_the_chosen_trial_is_the_best_and_the_final_seeds_are_rows(tmp_path: Path) -> None:
    tuning(tmp_path, chosen=0.1)
    scores = named({0: [0.3], 1: [0.5, 0.6, 0.7, 0.7], 2: [0.4, 0.5], 3: [0.2]})
    finals = {"fedproto-s0": [0.1, 0.2], "fedproto-s1": [0.1, 0.4]}
    found = BoardReader(tmp_path / "t").read(of_trials(tmp_path, scores | finals, "finished"))
    assert found.trials is not None and found.trials.chosen == ("fedproto",)
    assert [row.number for row in found.trials.rows if row.is_best] == [1]
    assert of(found.trials, 1).rung == 3
    (row,) = found.rows
    assert (row.label, found.seeds) == ("fedproto", ("s0", "s1"))
    assert row.accuracy is not None and row.accuracy.mean == approx((0.7 + 0.9) / 2)  # on test


def test_a_score_is_the_mean_over_the_tuning_seeds_and_the_last_rounds(tmp_path: Path) -> None:
    """Of the last two rounds of two seeds: (0.2 + 0.4) / 2 and (0.6 + 0.8) / 2."""
    asked = Request(
        {}, ("fedproto",), rounds=4, budget=4, tuning_seeds=(100, 101), seeds=(0,), last=2, proportional=False
    )
    tuning(tmp_path, asked)
    scores = {"fedproto-t01-s100": [0.0, 0.0, 0.2, 0.4], "fedproto-t01-s101": [0.0, 0.0, 0.6, 0.8]}
    trials = trials_of(tmp_path, scores)
    assert of(trials, 1).score == approx(0.5)
    assert (trials.seeds, trials.rungs) == (("s100", "s101"), 1)
    assert trials.budget == "Each method has 4 trials of 4 rounds."
    assert trials.scored == "Trials are scored on eval, over the last 2 rounds of seed 100, 101."


def test_boundaries_are_of_declared_ranges_unless_others_are_given_or_nothing_lies_beyond() -> None:
    """λ of FedProto is from 0.01 to 10. A method of the user's has only given ranges."""
    least = {"training.momentum": 0.0, "training.epochs": 1, "method.server_epochs": 1}
    most = {"training.momentum": 0.9, "training.epochs": 5, "method.server_epochs": 5}
    for method, values, expected in (
        ("fedproto", {"method.lam": 9.9, "training.lr": 0.1}, ("method.lam",)),
        ("mine", {"method.lam": 9.9, "training.lr": 0.99}, ("training.lr",)),
        ("fedgh", least, ()),
        ("fedgh", most, tuple(most)),
    ):
        assert boundary(ASKED, method, values) == expected


def test_a_tuning_study_has_finished_once_its_final_seeds_have(tmp_path: Path) -> None:
    """Most trials end before their last round, and stay stopped."""
    tuning(tmp_path, chosen=0.1)

    def summaries(names: Sequence[str], state: str) -> list[Summary]:
        return [Summary(f"t/{name}", str(tmp_path / "t" / name), state) for name in names]

    stopped = summaries([f"fedproto-t0{n}-s100" for n in range(4)], "stopped")
    final = summaries(["fedproto-s0", "fedproto-s1"], "finished")
    assert StudySummary.of(tmp_path / "t", [*stopped, *final]).state == "finished"
    assert StudySummary.of(tmp_path / "t", [*stopped, final[0]]).state == "stopped"
    assert StudySummary.of(tmp_path / "t", stopped).is_tuning


def test_trials_are_rows_with_their_rung_round_score_and_values(tmp_path: Path) -> None:
    tuning(tmp_path)
    found = BoardReader(tmp_path / "t").read(
        of_trials(tmp_path, named({0: [0.3], 1: [0.5], 2: [0.4, 0.6], 3: [0.2]}))
    )
    rows = board_words.of_trials(found)
    texts = [[each if isinstance(each, str) else each.text for each in row.cells] for row in rows]  # type: ignore[union-attr]
    assert texts == [
        ["", "fedproto t00", "1/3", " r1 ■ ", "30.0", "its own values"],
        ["", "fedproto t01", "2/3", " r1 ■ ", "50.0", "training.lr=0.1"],
        ["best", "fedproto t02", "2/3", " r2 ■ ", "60.0", "training.lr=0.01"],
        ["", "fedproto t03", "1/3", " r1 ■ ", "20.0", "training.lr=0.3"],
    ]
    assert [row.tone for row in rows] == ["muted", "plain", "plain", "muted"]
    assert board_words.trial_facts(found, of(found.trials, 0), 0)[0][1] == (  # type: ignore[arg-type]
        "30.0 % on eval after round 1; rung 1 of 3, to round 1; others were promoted"
    )
