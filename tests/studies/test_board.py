"""The board of a study: its rows have the numbers of `compare`, and it can be read while sessions run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest import approx

import checkpoints
import htfl_sim as hs
from simulator.base.nested import ALL
from simulator.results.analysis.ledger import Totals
from simulator.results.analysis.overview import Summary, read_overview
from simulator.studies import folder as folders
from simulator.studies.board import Board, BoardReader, BoardRow, Seen
from simulator.studies.folder import documents
from simulator.studies.study import Point, StudySpec
from tests import sessions

Scores = dict[str, tuple[tuple[float, ...], ...]]
"""For each method, the accuracies of each seed by round."""
T2 = 4.302653
"""The 97.5 % quantile of Student's t with two degrees of freedom."""


def study(
    home: Path, methods: tuple[str, ...], seeds: tuple[int, ...], rounds: int = 4, **changes: Any
) -> list[Point]:
    """A study of methods by seeds, without sessions."""
    points = [
        Point(
            f"{method}-s{seed}",
            {"method": method, "seed": seed},
            sessions.config(2, rounds, method, seed=seed, runtime={"threads_per_client": 1}) | changes,
        )
        for method in methods
        for seed in seeds
    ]
    spec = StudySpec("quickstart", over={"method": methods, "seed": seeds})
    checkpoints.Group.open(home / "t", documents(spec, points)).close("stopped")
    return points


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
    return {
        folder: Seen(Summary(f"t/{point}", str(folder), state, rounds=4), totals(*means, **options)),
    }


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


def test_a_list_of_points_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    study(tmp_path, ("fedgh",), (0,))
    (tmp_path / "t" / checkpoints.POINTS).write_text("{")
    board = board_of(tmp_path)
    assert "is not a list of points" in board.error and board.rows == ()


def test_a_setting_is_compared_with_the_baseline_of_the_same_setting(tmp_path: Path) -> None:
    """Two data sizes by two methods, and a setting of fedgh's own, which the baseline does not have."""
    rows = [
        ("standalone", None, 1),
        ("standalone", None, 2),
        ("fedgh", 0.1, 1),
        ("fedgh", 0.1, 2),
        ("fedgh", 0.9, 2),
    ]
    points = [
        Point(
            f"{method}-{mu}-{limit}",
            {"method": method, "data.limit": limit} | ({} if mu is None else {"method.mu": mu}),
            sessions.config(2, 4, method, runtime={"threads_per_client": 1}),
        )
        for method, mu, limit in rows
    ]
    checkpoints.Group.open(tmp_path / "t", documents(StudySpec("quickstart"), points)).close("stopped")
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
    costs = dict(row_of(board, "fedgh").costs)
    del costs["joules"]
    assert costs == {"bytes": 200, "FLOPs": 20, "seconds": 4, "simulated seconds": 10}
    assert np.isnan(row_of(board, "fd").costs["simulated seconds"])


def seeds_of_parts(data: int, init: int) -> dict[str, int]:
    return {ALL: 0, "data": data, "init": init}


def test_crossed_seeds_are_columns_of_their_own(tmp_path: Path) -> None:
    points = [
        Point(
            f"p{data}{init}",
            {"seed.data": data, "seed.init": init},
            sessions.config(
                2, 4, "fedgh", seed=seeds_of_parts(data, init), runtime={"threads_per_client": 1}
            ),
        )
        for data in (0, 1)
        for init in (0, 1)
    ]
    checkpoints.Group.open(tmp_path / "t", documents(StudySpec("quickstart"), points)).close("stopped")
    board = board_of(tmp_path)
    assert board.seeds == ("s0", "0/1/0", "1/0/0", "1/1/0")
    assert [row.label for row in board.rows] == ["fedgh"]
    assert board.rows[0].points[1].seed == "data 0, init 1, training 0"


def test_a_point_that_uses_an_identical_run_has_its_numbers_and_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (point,) = study(tmp_path, ("fedgh",), (0,))
    other = sessions.make(tmp_path / "base", clients=2, rounds=4, cka_every=0)
    monkeypatch.setattr(folders, "fingerprint_of", lambda folder: "f" * 64)
    link: Any = {"session": "base", "fingerprint": "f" * 64}
    linked = Point(point.name, point.axes, point.config, link=link)
    checkpoints.Group.open(tmp_path / "t", documents(StudySpec("quickstart"), [linked])).close("finished")
    (row,) = board_of(tmp_path, {other: Seen(Summary.read(other), totals(0.6))}).rows
    assert (row.points[0].linked, row.points[0].folder, row.points[0].accuracy) == ("base", other, 0.6)


def test_only_the_row_of_a_point_that_changed_is_made_again(tmp_path: Path) -> None:
    methods = ("standalone", *(f"m{number}" for number in range(49)))
    points = study(tmp_path, methods, tuple(range(10)))
    known = {path: one for point in points for path, one in seen(tmp_path, point.name, 0.1, 0.5).items()}
    reader = BoardReader(tmp_path / "t")
    before = reader.read(known)
    assert len(before.rows) == 50
    known |= seen(tmp_path, "m7-s3", 0.1, 0.5, 0.9, state="running")
    after = reader.read(known)
    changed = [row.label for row, old in zip(after.rows, before.rows, strict=True) if row is not old]
    assert changed == ["m7"]
    assert reader.read(known) == after


def test_a_row_changes_with_its_baseline(tmp_path: Path) -> None:
    study(tmp_path, ("standalone", "fedgh"), (0,))
    known = seen(tmp_path, "standalone-s0", 0.5) | seen(tmp_path, "fedgh-s0", 0.6)
    reader = BoardReader(tmp_path / "t")
    for changed, difference in (({}, 0.1), (seen(tmp_path, "standalone-s0", 0.55), 0.05), (known, 0.1),
                                (seen(tmp_path, "fedgh-s0", 0.55), 0.05)):  # fmt: skip
        found = row_of(reader.read(known | changed), "fedgh").difference
        assert found is not None and found.mean == approx(difference)
