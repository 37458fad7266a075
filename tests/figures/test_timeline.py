"""The timeline of a session: bars, marks, and rounds, derived by hand."""

from typing import Any, get_args

import numpy as np
import pytest
from matplotlib.figure import Figure

from simulator.base.errors import ConfigError
from simulator.clock.schedule import Fate
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.timeline import spaced, timeline, window
from simulator.results.figures.timeline import FATES as MARKS
from simulator.results.figures.timeline import timeline as drawn
from tests.analysis import runs


def flight(client: int, begins: float, *parts: float, fate: str = "used", wait: float = 0) -> dict[str, Any]:
    latency, down, compute, up = parts
    return {
        "client": client, "dispatch": 1, "begins": begins, "latency": latency, "down": down, "compute": compute,
        "up": up, "arrives": begins + sum(parts), "fate": fate, "flops": 1, "bytes": 1, "wait": wait,
    }  # fmt: skip


def session() -> SessionData:
    """Round 1 ends at 10 s, and round 2 at 20 s. Client 1 is under way at the end of round 1, and arrives at 14 s."""
    first = runs.time(0, 10, flights=[flight(0, 0, 1, 2, 3, 1, wait=3)])
    second = runs.time(
        10, 20,
        flights=[flight(1, 0, 0, 4, 6, 4, fate="late", wait=6), flight(0, 10, 0, 2, 2, 1, fate="lost", wait=5)],
    )  # fmt: skip
    return runs.of("s", [runs.record(1, 0.5) | {"time": first}, runs.record(2, 0.6) | {"time": second}])


def bars(figure: Figure) -> list[tuple[float, float, float]]:
    """Row, start, and length of all bars."""
    patches = (patch for container in figure.axes[0].containers for patch in container)
    found = ((each.get_y() + 0.4, each.get_x(), each.get_width()) for each in patches)
    return sorted((round(row), float(start), float(length)) for row, start, length in found)


def test_the_phases_of_a_dispatch_follow_each_other() -> None:
    found = timeline(session().records)
    assert (found.rounds, found.begins, found.ends) == ((1, 2), 0, 20)
    assert found.marks == ((1, 10), (2, 20))
    assert [(each.client, each.fate, each.parts) for each in found.dispatches] == [
        (0, "used", (("latency", 0, 1), ("down", 1, 3), ("compute", 3, 6), ("up", 6, 7), ("wait", 7, 10))),
        (1, "late", (("down", 0, 4), ("compute", 4, 10), ("up", 10, 14), ("wait", 14, 20))),
        (0, "lost", (("down", 10, 12), ("compute", 12, 14), ("up", 14, 15))),
    ]  # who left does not wait


def test_a_range_has_the_work_that_overlaps_it() -> None:
    """Client 1 of round 1 ends in round 2, and is at work in round 1."""
    found = timeline(session().records, "1-1")
    assert [(each.client, each.fate) for each in found.dispatches] == [(0, "used"), (1, "late")]
    assert found.clients == (0, 1) and found.reduced is None


def test_a_figure_has_a_row_for_each_client_a_line_for_each_round_and_a_mark_for_wasted_work() -> None:
    figure = drawn(session())
    assert bars(figure) == [
        (0, 0, 1), (0, 1, 2), (0, 3, 3), (0, 6, 1), (0, 7, 3), (0, 10, 2), (0, 12, 2), (0, 14, 1),
        (1, 0, 4), (1, 4, 6), (1, 10, 4), (1, 14, 6),
    ]  # fmt: skip
    lines = {tuple(np.asarray(line.get_xdata(), float)) for line in figure.axes[0].get_lines()}
    assert {(10.0, 10.0), (20.0, 20.0), (15.0,), (14.0,)} <= lines
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "latency", "downlink", "training", "uplink", "waiting", "lost", "late, dropped", "end of a round",
    ]  # fmt: skip


def test_each_fate_of_unused_work_has_a_mark() -> None:
    assert MARKS.keys() == {*get_args(Fate)} - {"used"}


def test_of_many_clients_some_are_shown_and_it_says_how_many() -> None:
    flights = [flight(client, 0, 0, 0, 1, 0) for client in range(10_000)]
    record = runs.record(1, 0.5) | {"time": runs.time(0, 10, flights=flights)}
    found = timeline([record], most=40)  # type: ignore[list-item]
    assert found.reduced == "40 of 10,000 clients"
    assert found.clients[:2] == (0, 256) and found.clients[-1] == 9999
    assert [spaced(range(10), most) for most in (1, 2, 4)] == [[0], [0, 9], [0, 3, 6, 9]]
    assert drawn(runs.of("many", [record])).axes[0].get_ylabel() == "40 of 10,000 clients"


def test_rounds_are_so_many_last_ones_or_a_range() -> None:
    chosen: dict[Any, tuple[int, int]] = {
        None: (8, 12), 3: (10, 12), "3": (10, 12), "4-6": (4, 6), (4, 6): (4, 6), 99: (1, 12),
    }  # fmt: skip
    assert {rounds: window(rounds, 12) for rounds in chosen} == chosen
    for rounds in ("6-4", "0-3", "10-13", "x", "", 0, -1, "1-2-3"):
        with pytest.raises(ConfigError, match=r"(?i)rounds"):
            window(rounds, 12)


def test_a_session_without_a_clock_has_no_timeline() -> None:
    with pytest.raises(ConfigError, match="A timeline needs the computed clock"):
        drawn(runs.run("timeless", [0.5]))


def test_older_records_without_waits_are_drawn() -> None:
    run = session()
    for record in run.records:
        for each in record["time"]["flights"]:
            del each["wait"]
    assert timeline(run.records).dispatches[0].parts[-1] == ("up", 6, 7)
