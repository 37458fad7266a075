"""What a run shows while it runs."""

import io
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from simulator.data import datasets
from simulator.data.datasets import Dataset, Progress
from simulator.engine import progress as events
from simulator.engine.progress import Event, Switch
from simulator.studies.folder import Status
from tests.cli.conftest import Terminal
from tui.cli import main, progress
from tui.cli.progress import PointLines, summary, table


def record(round: int, mean: float) -> dict[str, Any]:
    return {
        "round": round,
        "participants": [0],
        "accuracy": {"mean": mean, "best_mean": 0.9},
        "loss": {"mean": None},
        "bytes": {"up_total": 2048, "down_total": 1_572_864},
        "timing": {"seconds": 1.25},
    }


def lines(*told: Event, best: progress.Best | None = None) -> list[str]:
    with redirect_stderr(io.StringIO()) as screen:
        shown = progress.Lines(20, best)
        for event in told:
            shown(event)
    return screen.getvalue().splitlines()


def test_a_line_has_the_round_the_accuracies_the_traffic_and_the_time() -> None:
    said = lines(events.RoundFinished(record(3, 0.8767)), best=progress.Best(record(2, 0.9), 2))
    assert said == ["round 3/20  accuracy 87.7 % (best 90.0 %, r2)  ↑ 2.0 KiB ↓ 1.5 MiB  1.2 s"]


def test_a_run_in_which_every_client_diverged_so_far_has_no_score() -> None:
    failed = {**record(1, 0.1), "diverged": [0]}
    later = record(2, 0.6), {**failed, "round": 3}  # one round was sound
    said = lines(*map(events.RoundFinished, (failed, *later)))
    assert "no score: every client diverged in every round" in said[0]
    assert "accuracy 60.0 %" in said[1] and "accuracy 10.0 %" in said[2]
    resumed = lines(
        events.RoundFinished({**failed, "round": 2}), best=progress.Best(failed, None, untrained=True)
    )
    assert "no score" in resumed[0]


def test_the_best_accuracy_has_its_round_as_far_as_it_is_known() -> None:
    best = progress.Best(record(4, 0.5), None)  # resumed, with a best of 90.0 % from an unknown round
    assert best.after(record(5, 0.6)) is None
    higher = record(6, 0.95)
    higher["accuracy"]["best_mean"] = 0.95
    assert [best.after(higher), best.after({**higher, "round": 7})] == [6, 6]
    assert progress.Best(record(4, 0.5), 3).after(record(5, 0.6)) == 3


def test_bars_show_the_round_its_clients_and_the_last_results(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "100"}.items():
        monkeypatch.setenv(name, value)
    with redirect_stderr(Terminal()) as screen, progress.display(20, 4, record(4, 0.5), None, 2) as shown:
        shown(events.RoundStarted(5, 20, (0, 3, 7)))
        shown(events.ClientTrained(5, 3, 1, 3, 0.7))
        shown(events.ClientTrained(5, 0, 2, 3, 0.7))
        half_way = frame(shown, screen)
        shown(events.EvaluationStarted(5, 10))
        evaluating = frame(shown, screen)
        shown(events.RoundFinished(record(5, 0.625)))
        after = frame(shown, screen)
    assert "4/20" in half_way and "round 5" in half_way and "2/3 clients" in half_way
    assert "accuracy 50.0 % (best 90.0 %, r2)" in half_way
    assert "evaluating 10" in evaluating
    assert "5/20" in after and "accuracy 62.5 %" in after


def test_a_run_in_a_terminal_draws_bars_and_elsewhere_writes_lines() -> None:
    with redirect_stderr(Terminal()):
        assert isinstance(progress.display(20, 0, None, None), progress.Bars)
        assert isinstance(progress.display(20, 0, None, False), progress.Lines)
    with redirect_stderr(io.StringIO()):
        assert isinstance(progress.display(20, 0, None, None), progress.Lines)
        assert isinstance(progress.display(20, 0, None, True), progress.Bars)


def test_fetching_draws_the_bytes_that_came(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(dataset: Dataset, folder: Path, progress: Progress) -> None:
        progress(20_500_000, 41_000_000)

    monkeypatch.setattr(type(datasets.get("digits")), "fetch", fetch)
    for name, value in {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "100"}.items():
        monkeypatch.setenv(name, value)
    with redirect_stderr(Terminal()) as screen, redirect_stdout(io.StringIO()):
        assert main(["data", "fetch", "digits"]) == 0
    assert "19.6 MiB of 39.1 MiB" in screen.getvalue()


def test_a_signal_or_the_command_stop_is_acknowledged_once() -> None:
    said: list[str] = []
    heard: list[str] = []
    observer = progress.Stopping(lambda: heard[0] if heard else None, said.append)
    observer(events.RoundStarted(5, 20, (0,)))
    assert said == []
    heard.append("SIGINT")
    observer(events.ClientTrained(5, 0, 1, 1, 0.7))
    observer(events.EvaluationStarted(5, 1))
    by_command = progress.Stopping(lambda: None, said.append)
    for state in ("pausing", "paused", "stopping", "running"):
        by_command(events.StateChanged(state, 4))
    assert [each.split(" finish")[0] for each in said] == [
        "SIGINT: the clients at work",
        "stop: the clients at work",
    ]


def test_a_pause_is_told_when_asked_when_it_holds_and_when_it_ends() -> None:
    said = lines(
        events.StateChanged("pausing", 4), events.StateChanged("paused", 4), events.StateChanged("running", 4)
    )
    assert [line.split(":")[0] for line in said] == ["pausing", "paused after round 4", "training continues"]
    assert lines(events.StateChanged("stopping", 4), events.StateChanged("running", 4)) == []  # it stops


def test_a_switch_is_one_line_and_the_rounds_it_asks_for_are_counted_from_then_on() -> None:
    said = lines(
        Switch(5, "fedssa", "fedlora", ("rounds 20 → 30", "method fedlora → fedssa"), "takes over head"),
        events.RoundStarted(5, 30, (0,)),
        events.RoundFinished(record(5, 0.5)),
    )
    assert said[0] == "from round 5 on: fedlora → fedssa (rounds 20 → 30; takes over head)"
    assert said[1].startswith("round 5/30 ")
    same = lines(Switch(5, "fedlora", "fedlora", ("method.mu 0.9 → 0.5",), "what it keeps stays as it is"))
    assert same == ["from round 5 on: fedlora (method.mu 0.9 → 0.5; what it keeps stays as it is)"]


def frame(shown: progress.Lines | progress.Bars, screen: io.StringIO) -> str:
    """What the screen shows at this moment."""
    assert isinstance(shown, progress.Bars)
    screen.truncate(0)
    shown._live.refresh()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())


RUNNING = Status("fedgh-s0", 10, "running", 4, 0.5, 0.625, (2.0,))
FAILED = Status("fedgh-s1", 10, "failed", reason="killed by SIGKILL")
DONE = Status("fedgh-s2", 10, "finished", 10, 0.75, 0.75, (2.0,))
WAITING = Status("fedssa-s0", 10)


def drawn(statuses: list[Status], height: int) -> str:
    console = Console(width=120, file=io.StringIO())
    with console.capture() as captured:
        console.print(table("t3", statuses, 1, height))
    return captured.get()


def test_every_point_has_a_row_with_its_round_accuracy_and_time_left() -> None:
    text = drawn([RUNNING, FAILED, DONE, WAITING], height=40)
    (row,) = (line.split() for line in text.splitlines() if "fedgh-s0" in line)
    assert row == ["t3/fedgh-s0", "running", "4/10", "50.0", "%", "62.5", "%", "12", "s"]
    assert "killed by SIGKILL" in text
    assert "1 of 4 points finished · 1 at work · 1 failed · about 32 s left" in text
    assert summary([DONE, DONE], jobs=2) == "2 of 2 points finished"


def test_where_not_all_have_room_those_at_work_and_those_that_failed_stay() -> None:
    text = drawn([DONE, WAITING, RUNNING, FAILED], height=8)
    assert "fedgh-s0" in text and "fedgh-s1" in text and "2 not shown" in text
    assert "fedgh-s2" not in text and "fedssa-s0" not in text
    assert len(text.splitlines()) <= 8


def test_a_point_whose_clients_have_all_diverged_has_no_score() -> None:
    lost = Status("fedgh-s3", 10, "finished", 10, untrained=True)
    (row,) = (line.split() for line in drawn([lost], height=40).splitlines() if "fedgh-s3" in line)
    assert row == ["t3/fedgh-s3", "finished", "10/10", "–", "–", "–"]
    lines = PointLines("t3")
    with redirect_stderr(io.StringIO()) as said:
        lines([replace(lost, state="running", round=9)])
        lines([lost])
    assert said.getvalue().endswith("t3/fedgh-s3  finished  round 10/10  no score: every client diverged\n")


def test_in_a_pipe_only_what_changes_is_said() -> None:
    lines, later = PointLines("t3"), Status("fedgh-s0", 10, "running", 5, 0.5, 0.625, (2.0,))
    with redirect_stderr(io.StringIO()) as said:
        for statuses in ([WAITING, DONE, RUNNING], [WAITING, DONE, RUNNING], [WAITING, DONE, later]):
            lines(statuses)
    assert said.getvalue().splitlines() == [
        "t3/fedgh-s0  running  round 4/10  accuracy 50.0 % (best 62.5 %)  12 s left",
        "t3/fedgh-s0  running  round 5/10  accuracy 50.0 % (best 62.5 %)  10 s left",
    ]
