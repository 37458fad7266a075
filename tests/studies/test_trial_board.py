"""The trials of a tuning study on its board: rungs, scores on eval, the best so far, and its boundaries."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from pytest import approx

import checkpoints
from checkpoints import TUNING
from simulator.results.analysis.overview import Summary
from simulator.studies import board
from simulator.studies.board import BoardReader, Seen, StudySummary, TrialBoard, TrialRow
from simulator.studies.folder import documents, text_of
from simulator.studies.search import Request
from simulator.studies.study import Point, StudySpec
from tests import sessions
from tui.app.panels import board as board_words

RATES = (None, 0.1, 0.01, 0.3)
"""The learning rate of each trial; the first has the method's own."""
ASKED = Request(
    {}, ("fedproto",), rounds=4, budget=4, halving=2, ranges=("training.lr=log:0.01:1",), tuning_seeds=(100,),
    seeds=(0, 1),
)  # fmt: skip
"""Rungs: four trials to round 1, two to round 2, and one to round 4.

The learning rate is from 0.01 to 1, so that its first and last 5 % end at 0.0126 and 0.794.
"""


def study(home: Path, asked: Request = ASKED, chosen: float | None = None) -> None:
    """A tuning study of one method with four trials, and its final points once a value is chosen."""
    config: dict[str, Any] = sessions.config(2, 4, "fedproto", runtime={"threads_per_client": 1})
    points = [
        Point(
            f"fedproto-t{number:02d}-s{seed}",
            {"method": "fedproto", "trial": number, "seed": seed}
            | ({} if rate is None else {"training.lr": rate}),
            config | {"seed": seed},
        )
        for number, rate in enumerate(RATES)
        for seed in asked.tuning_seeds
    ]
    if chosen is not None:
        points += [
            Point(
                f"fedproto-s{seed}",
                {"method": "fedproto", "stage": "final", "seed": seed, "training.lr": chosen},
                config | {"seed": seed},
            )
            for seed in asked.seeds
        ]
    files = documents(StudySpec("quickstart"), points) | {TUNING: text_of(asdict(asked))}
    checkpoints.Group.open(home / "t", files).close("stopped")


def seen(home: Path, scores: dict[str, list[float]], state: str = "stopped") -> dict[Path, Seen]:
    """Sessions with these accuracies on eval by round; on test, each is 0.5 higher."""
    found = {}
    for name, each in scores.items():
        folder = home / "t" / name
        totals = sessions.totals(accuracy=np.array(each) + 0.5, eval_accuracy=np.array(each))
        found[folder] = Seen(Summary(f"t/{name}", str(folder), state, rounds=4), totals)
    return found


def trials_of(home: Path, scores: dict[str, list[float]]) -> TrialBoard:
    trials = BoardReader(home / "t").read(seen(home, scores)).trials
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
    study(tmp_path)
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
    study(tmp_path)
    sessions_of = seen(tmp_path, named({0: [0.3], 1: [0.5], 2: [0.4, 0.6], 3: [0.9]}))
    folder = tmp_path / "t" / "fedproto-t03-s100"
    known = sessions_of[folder].totals
    assert known is not None
    lost = replace(known, arrays={**known.arrays, "participants": np.array([2.0])}, diverged=((0, 1),))
    board = BoardReader(tmp_path / "t").read(
        sessions_of | {folder: replace(sessions_of[folder], totals=lost)}
    )
    assert board.trials is not None
    assert [(row.rung, row.out, row.lost) for row in board.trials.rows] == [
        (1, True, False), (2, False, False), (2, False, False), (1, True, True),
    ]  # fmt: skip
    assert [row.number for row in board.trials.rows if row.is_best] == [2]
    assert of(board.trials, 3).score is None
    assert board_words.of_trials(board)[3].cells[-2] == "diverged"
    assert board_words.trial_facts(board, of(board.trials, 3), 0)[0][1].startswith(
        "a client diverged, so it loses"
    )


def test_the_best_trial_is_warned_about_if_its_value_is_at_the_boundary(tmp_path: Path) -> None:
    study(tmp_path)
    inside = trials_of(tmp_path, named({0: [0.3], 1: [0.5], 2: [0.4]}))
    assert of(inside, 1).boundary == ()
    at = trials_of(tmp_path, named({0: [0.3], 1: [0.5], 2: [0.6]}))
    assert (of(at, 2).boundary, of(at, 1).boundary) == (("training.lr",), ())
    board = BoardReader(tmp_path / "t").read(seen(tmp_path, named({0: [0.3], 1: [0.5], 2: [0.6]})))
    told = board_words.trial_facts(board, of(at, 2), 0)
    assert ("remark", "At the boundary of its range: training.lr. A wider range may be better.") in told


def test_the_chosen_trial_is_the_best_and_the_final_seeds_are_rows(tmp_path: Path) -> None:
    study(tmp_path, chosen=0.1)
    scores = named({0: [0.3], 1: [0.5, 0.6, 0.7, 0.7], 2: [0.4, 0.5], 3: [0.2]})
    finals = {"fedproto-s0": [0.1, 0.2], "fedproto-s1": [0.1, 0.4]}
    board = BoardReader(tmp_path / "t").read(seen(tmp_path, scores | finals, "finished"))
    assert board.trials is not None and board.trials.chosen == ("fedproto",)
    assert [row.number for row in board.trials.rows if row.is_best] == [1]
    assert of(board.trials, 1).rung == 3
    (row,) = board.rows
    assert (row.label, board.seeds) == ("fedproto", ("s0", "s1"))
    assert row.accuracy is not None and row.accuracy.mean == approx((0.7 + 0.9) / 2)  # on test


def test_a_score_is_the_mean_over_the_tuning_seeds_and_the_last_rounds(tmp_path: Path) -> None:
    """Of the last two rounds of two seeds: (0.2 + 0.4) / 2 and (0.6 + 0.8) / 2."""
    asked = Request(
        {}, ("fedproto",), rounds=4, budget=4, tuning_seeds=(100, 101), seeds=(0,), last=2, proportional=False
    )
    study(tmp_path, asked)
    scores = {"fedproto-t01-s100": [0.0, 0.0, 0.2, 0.4], "fedproto-t01-s101": [0.0, 0.0, 0.6, 0.8]}
    trials = trials_of(tmp_path, scores)
    assert of(trials, 1).score == approx(0.5)
    assert (trials.seeds, trials.rungs) == (("s100", "s101"), 1)
    assert trials.budget == "Each method has 4 trials of 4 rounds."
    assert trials.scored == "Trials are scored on eval, over the last 2 rounds of seed 100, 101."


def test_a_request_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    study(tmp_path)
    (tmp_path / "t" / TUNING).write_text("{")
    assert "tuning.json is not what htfl-sim wrote" in BoardReader(tmp_path / "t").read({}).error


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
        assert board.boundary(ASKED, method, values) == expected


def test_a_tuning_study_has_finished_once_its_final_seeds_have(tmp_path: Path) -> None:
    """Most trials end before their last round, and stay stopped."""
    study(tmp_path, chosen=0.1)
    stopped = [
        Summary(f"t/fedproto-t0{n}-s100", str(tmp_path / "t" / f"fedproto-t0{n}-s100"), "stopped")
        for n in range(4)
    ]
    final = [
        Summary(f"t/fedproto-s{n}", str(tmp_path / "t" / f"fedproto-s{n}"), "finished") for n in range(2)
    ]
    assert StudySummary.of(tmp_path / "t", [*stopped, *final]).state == "finished"
    assert StudySummary.of(tmp_path / "t", [*stopped, final[0]]).state == "stopped"
    assert StudySummary.of(tmp_path / "t", stopped).is_tuning


def test_trials_are_rows_with_their_rung_round_score_and_values(tmp_path: Path) -> None:
    study(tmp_path)
    board = BoardReader(tmp_path / "t").read(
        seen(tmp_path, named({0: [0.3], 1: [0.5], 2: [0.4, 0.6], 3: [0.2]}))
    )
    rows = board_words.of_trials(board)
    texts = [[each if isinstance(each, str) else each.text for each in row.cells] for row in rows]  # type: ignore[union-attr]
    assert texts == [
        ["", "fedproto t00", "1/3", " r1 ■ ", "30.0", "its own values"],
        ["", "fedproto t01", "2/3", " r1 ■ ", "50.0", "training.lr=0.1"],
        ["best", "fedproto t02", "2/3", " r2 ■ ", "60.0", "training.lr=0.01"],
        ["", "fedproto t03", "1/3", " r1 ■ ", "20.0", "training.lr=0.3"],
    ]
    assert [row.tone for row in rows] == ["muted", "plain", "plain", "muted"]
    assert board_words.trial_facts(board, of(board.trials, 0), 0)[0][1] == (  # type: ignore[arg-type]
        "30.0 % on eval after round 1; rung 1 of 3, to round 1; others were promoted"
    )
