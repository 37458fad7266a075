"""The Cost panel: traffic, where the time goes, who is slow, what the method tells, and what goes on now."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.results.analysis.run import SessionData
from tests import sessions
from tests.app.panels.stage import after_each, on_stage, read, settle, staged, take, with_records
from tui.app.panels.cost import charts, facts_of, rows, seconds
from tui.app.view import View
from tui.app.widgets.table import Cell


def under_way(run: SessionData, each: str = "dttwwwwww-") -> SessionData:
    progress = {"round": 21, "phase": "train", "each": each, "memory": 300 << 20, "cpu": 1.8}
    return replace(run, state="running", progress=progress)


def test_the_slowest_clients_come_first_and_stand_out(view: View) -> None:
    app, _ = on_stage("cost", view)
    shown = [row.key for row in app.panel._table.rows]
    assert shown[:4] == [4, 9, 8, 2]  # 0.5 s, 0.5 s, 0.4 s; 3 took no part; 0.3 s
    assert shown[-1] == 3
    by_id = {row.key: row for row in rows(view, ())}
    ratio = by_id[4].cells[4]
    assert isinstance(ratio, Cell)
    assert (ratio.text, ratio.tone) == ("1.7", "loss")  # 0.5 over the median of 1 1 2 2 3 3 4 5 5 tenths
    assert by_id[0].cells[4] == Cell("0.3", "muted")


def test_the_round_s_time_is_told_by_what_it_was_for(view: View) -> None:
    facts = dict(facts_of(view))
    told = {
        "time": "2.50 s, 50 s in all",
        "clients": "1.80 s (72.0 %)",
        "server": "0.20 s (8.0 %)",
        "evaluation": "0.40 s (16.0 %)",
        "checkpoint": "0.10 s",
        "workers": "2, busy 72.2 %",  # 2.6 s of clients in two times 1.8 s
        "memory": "720.0 MiB",
        "CPU cores": "1.8 in use",
    }
    assert told.items() <= facts.items() and "waiting" not in facts


def test_the_memory_of_the_process_is_a_chart_and_that_of_a_gpu_only_where_there_was_one(view: View) -> None:
    assert [title for title in charts(view) if "memory" in title] == ["peak memory of the process"]


@pytest.mark.long
def test_while_a_round_runs_each_client_says_where_it_is(view: View) -> None:
    run = under_way(view.run)
    assert not replace(view, run=run).looks_like(view, within_rounds=True)
    assert replace(view, run=run).looks_like(replace(view, run=under_way(view.run, "ddddddddd-")))
    _, text = on_stage("cost", replace(view, run=run))
    assert text.count("training") == 2
    assert text.count("waiting") == 6
    assert "1.8 in use, now 1.8" in text
    assert "720.0 MiB, now 300.0 MiB" in text


ALL = [
    "bytes per round",
    "seconds per round",
    "accuracy over bytes",
    "accuracy over FLOPs",
    "accuracy over seconds",
    "total bytes",
    "peak memory of the process",
    "CPU cores in use",
]
"""The charts of a method without metrics, on a CPU."""


def titles(panel: Any) -> dict[str, str]:
    return {name: part.border_title for name, part in panel._parts.items()}


@pytest.mark.long
def test_u_walks_through_the_charts_that_do_not_stand_there_already(view: View) -> None:
    for size, part, choices in (((80, 24), "first", ALL), ((120, 40), "third", ALL[2:])):
        parts = after_each("cost", view, ["unit"] * 9, titles, size=size)
        assert [each[part] for each in parts] == (choices * 2)[1:10]  # without a clock, there is no timeline


@pytest.mark.long
def test_y_shows_the_tensors_in_place_of_the_clients_and_in_the_file_that_w_writes(view: View) -> None:
    def look(panel: Any) -> tuple[object, ...]:
        by = (panel._parts[name].region.height > 0 for name in ("clients", "tensors"))
        return (*by, panel.table(view)[0][0])

    seen = after_each("cost", view, ["chart", "chart"], look)
    assert seen == [(False, True, "tensor"), (True, False, "round")]


def test_a_client_has_its_time_and_its_bytes_in_one_row(view: View) -> None:
    by_id = {row.key: [said(cell) for cell in row.cells[:-1]] for row in rows(view, ())}
    assert by_id[4] == [
        "4", "cnn5", "", "0.50 s", "1.7", "0.50 s", "119.8 KiB", "119.8 KiB", "2.3 MiB", "2.3 MiB", "20",
    ]  # fmt: skip


async def to(chart: str, pilot: Any) -> str:
    """Press u until this chart is shown. Returns what is shown then."""
    for _ in range(12):
        if chart in pilot.app.text():
            break
        await take(pilot, "unit")
    return await settle(pilot)


def with_timing(view: View, rounds: int = 20, **timing: Any) -> View:
    """The same run up to a round with these times; functions: of the round."""
    records = []
    for record in view.run.records[:rounds]:
        own = {key: value(record["round"]) if callable(value) else value for key, value in timing.items()}
        records.append(record | {"timing": record["timing"] | own})
    return with_records(view, records)


def waiting(view: View, **seconds: float) -> View:
    """The same run with pauses in these rounds: r5=60.0."""
    return with_timing(view, waited=lambda round: seconds.get(f"r{round}", 0.0))


@pytest.mark.long
async def test_a_pause_is_in_the_title_and_leaves_the_axis_to_work(view: View) -> None:
    for size, place in (((80, 24), "first"), ((120, 40), "second")):
        async with staged("cost", waiting(view, r5=60.0), size=size) as (app, pilot):
            text = await to("seconds per round", pilot)
        drawn = app.panel._charts[place].figure
        assert [line.name for line in drawn.series] == ["clients", "server", "evaluation", "checkpoint"]
        assert drawn.y_range == (0.0, pytest.approx(1.8 * 1.05))  # 2.0 s of training less 0.2 s of the server
        assert "seconds per round; paused 60 s (r5)" in text
    async with staged("cost", view) as (app, _):
        assert "paused" not in app.text()
    async with staged("cost", waiting(view, r5=30.0, r7=75.0), size=(80, 24)) as (_, pilot):
        assert "paused 105 s (longest r7)" in await to("seconds per round", pilot)


@pytest.mark.long
async def test_the_memory_of_a_gpu_is_a_chart_where_there_was_one(view: View) -> None:
    on_gpu = with_timing(view, rounds=3, gpu_memory=2 << 30)
    async with staged("cost", on_gpu) as (app, pilot):
        await to("peak GPU memory of tensors", pilot)
    (line,) = app.panel._charts["third"].figure.series
    assert (line.name, line.y.tolist()) == ("GPU memory", [2.0, 2.0, 2.0])
    assert dict(facts_of(on_gpu))["GPU"] == "2.0 GiB"


@pytest.mark.long
def test_the_method_s_figures_are_charts_to_step_through(view: View) -> None:
    told = with_records(
        view, [each | {"method_metrics": {"server_loss": 0.5, "spread": 3}} for each in view.run.records]
    )

    def look(panel: Any) -> tuple[str, float]:
        (line,) = panel._charts["third"].figure.series
        return line.name, float(np.max(line.y))

    seen = after_each("cost", told, ["next"] * 3, look)
    assert seen == [("server_loss", 0.5), ("spread", 3.0), ("server_loss", 0.5)]


@pytest.mark.long
async def test_what_an_earlier_version_did_not_record_is_said_to_be_missing(view: View) -> None:
    timing = {"seconds": 2.5, "train": 2.0, "evaluate": 0.4, "checkpoint": 0.1, "at": ""}
    old = [sessions.record(round, 10, timing=timing) for round in (1, 2)]
    async with staged("cost", with_records(view, old)) as (app, pilot):
        await to("peak memory of the process", pilot)
    machine = app.panel._parts["third"]
    assert machine._said == "No memory was recorded in these rounds."
    drawn = app.panel._charts["second"].figure.series
    assert [line.name for line in drawn] == ["clients", "evaluation", "checkpoint"]


@pytest.mark.long
def test_in_round_1_the_clients_are_there_and_say_where_they_are(at_home: Path) -> None:
    begun = read(at_home / "begun")
    progress = {"round": 1, "phase": "train", "done": 1, "clients": 9, "each": "dttwwwwww-"}
    view = View(replace(begun, state="running", progress=progress), sessions_dir=at_home / "none")
    for panel in ("live", "clients", "cost"):
        app, text = on_stage(panel, view)
        table = app.panel._table
        words = ["".join({"waiting", "training", "done"} & set(map(said, row.cells))) for row in table.rows]
        assert sorted(words) == ["", "done", "training", "training", *["waiting"] * 6], panel
        assert "training" in text
        assert text.count("No round is finished yet.") < 2  # said once, where the first curve will be
        assert panel != "clients" or "8 ×28" in text  # the data of client 0 are known already
    _, text = on_stage("live", view, size=(80, 24))
    assert "1 cnn2 and 2 cnn3 are training" in " ".join(text.split())


def said(cell: object) -> str:
    return cell.text if isinstance(cell, Cell) else str(cell)


def test_a_time_is_said_as_exactly_as_it_is_long() -> None:
    assert [*map(seconds, (0.126, 12.34, 75.0, float("nan")))] == ["0.13 s", "12.3 s", "1 min", "–"]


def timed(view: View) -> View:
    """The same on a clock: round r takes from 10 (r − 1) to 10 r s, and 3 J. Client 0 trains all the time."""
    from tests.analysis.runs import time

    return with_records(
        view, [each | {"time": time(10.0 * at, 10.0 * at + 10)} for at, each in enumerate(view.run.records)]
    )


def test_simulated_time_and_energy_are_facts_of_a_round_on_the_clock(view: View) -> None:
    facts = dict(facts_of(replace(timed(view), round=7)))
    assert facts["simulated"] == "10 s, 1.167 min in all"
    assert facts["energy"] == "3 J, 21 J in all"
    assert "simulated" not in dict(facts_of(view))


@pytest.mark.long
async def test_the_timeline_is_one_of_the_charts_of_a_run_on_the_clock(view: View) -> None:
    for size in ((80, 24), (200, 60)):
        async with staged("cost", timed(view), size=size) as (app, pilot):
            text = await to("who works when", pilot)
            assert "who works when, rounds 16 to 20" in text and "█ training" in text
            await take(pilot, "previous")
            assert "who works when, rounds 19 to 20" in await settle(pilot)
        assert {"simulated_seconds", "joules"} <= {*app.panel.table(timed(view))[0]}
