"""What a sweep shows of its points."""

import io
from contextlib import redirect_stderr
from dataclasses import replace

from rich.console import Console

from simulator.studies.folder import Status
from tui.cli.sweep_progress import Lines, summary, table

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


def test_where_not_all_have_room_those_at_work_and_those_that_failed_stay() -> None:
    text = drawn([DONE, WAITING, RUNNING, FAILED], height=8)
    assert "fedgh-s0" in text and "fedgh-s1" in text and "2 not shown" in text
    assert "fedgh-s2" not in text and "fedssa-s0" not in text
    assert len(text.splitlines()) <= 8


def test_a_point_whose_clients_have_all_diverged_has_no_score() -> None:
    lost = Status("fedgh-s3", 10, "finished", 10, untrained=True)
    (row,) = (line.split() for line in drawn([lost], height=40).splitlines() if "fedgh-s3" in line)
    assert row == ["t3/fedgh-s3", "finished", "10/10", "–", "–", "–"]
    lines = Lines("t3")
    with redirect_stderr(io.StringIO()) as said:
        lines([replace(lost, state="running", round=9)])
        lines([lost])
    assert said.getvalue().endswith("t3/fedgh-s3  finished  round 10/10  no score: every client diverged\n")


def test_in_a_pipe_only_what_changes_is_said() -> None:
    lines, later = Lines("t3"), Status("fedgh-s0", 10, "running", 5, 0.5, 0.625, (2.0,))
    with redirect_stderr(io.StringIO()) as said:
        for statuses in ([WAITING, DONE, RUNNING], [WAITING, DONE, RUNNING], [WAITING, DONE, later]):
            lines(statuses)
    assert said.getvalue().splitlines() == [
        "t3/fedgh-s0  running  round 4/10  accuracy 50.0 % (best 62.5 %)  12 s left",
        "t3/fedgh-s0  running  round 5/10  accuracy 50.0 % (best 62.5 %)  10 s left",
    ]


def test_the_summary_counts_what_is_done() -> None:
    assert summary([DONE, DONE], jobs=2) == "2 of 2 points finished"
