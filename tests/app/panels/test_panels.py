"""What the panels do: keys, filters, time travel, remarks, files, room for what varies, and gains over the partner."""

import re
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.base.sections import MANY
from simulator.results.analysis.events import description
from simulator.results.analysis.gain import Pair, Partners, RoundGain
from simulator.results.analysis.ledger import Ledger
from simulator.results.analysis.run import SessionData
from tests import sessions
from tests.app.panels.stage import (
    after_each,
    measured,
    on_stage,
    read,
    settle,
    staged,
    with_records,
    words,
)
from tui.app.charts.chart import Mark
from tui.app.panels import PANELS, cost, gains
from tui.app.panels.base import marks, recent, sizes, traffic
from tui.app.panels.clients import behind, diverged, facts_of, remarks, rows
from tui.app.panels.log import lines, matches, upto
from tui.app.view import ACCURACIES, GAIN, ClientPinned, View
from tui.common.formatting import percent, points


@pytest.mark.long
@pytest.mark.parametrize("panel", ["live", "clients", "similarity", "cost", "data"])
def test_nothing_is_said_of_the_rounds_of_a_session_that_has_not_been_read(panel: str, at_home: Path) -> None:
    run, begun = SessionData(at_home / "main"), read(at_home / "begun")
    damaged = replace(run, error="The session is damaged.")
    sentences = ("No session is open", "Opening the session", "is damaged", "No round is finished")
    for place, each in enumerate((SessionData(Path()), run, damaged, begun)):
        text = words(panel, View(each, sessions_dir=at_home))
        assert {said for said in sentences if said in text} <= {sentences[place]}
        assert each is begun or sentences[place] in text


def test_numbers_follow_the_round_travelled_to(view: View) -> None:
    earlier = replace(view, round=7)
    own = [record["accuracy"]["per_client"] for record in view.run.records]
    shown = [getattr(row.cells[3], "text", "") for row in rows(earlier)]
    assert shown == [f"{'~' * (client < 4)}{percent(each)}" for client, each in enumerate(own[6])]
    assert rows(earlier)[0].values[4] == pytest.approx(own[6][0] - own[5][0])
    _, text = on_stage("live", earlier)
    mean = [each["accuracy"]["mean"] for each in view.run.records]
    assert f"accuracy {100 * mean[6]:.1f} % ({points(mean[6] - mean[1])} pp in 5 rounds), best" in text
    assert "CKA of fc2, round 5" in text  # the last measured until then
    assert "fedssa" not in text[text.index("log") :]  # the switch was after round 12


@pytest.mark.long
async def test_the_client_selected_is_under_the_cursor_in_every_panel(view: View) -> None:
    chosen = replace(view, client=4)
    cursors = dict.fromkeys(("live", "clients", "cost"), "▶ +4 ") | {"data": "▲4", "similarity": r"\b4▶"}
    for panel, cursor in cursors.items():
        async with staged(panel, chosen) as (app, pilot):
            assert re.search(cursor, await settle(pilot))
            if panel == "similarity":
                app.panel._map.focus()
                await pilot.press("right")
                assert "client 4 cnn5 × client 0 cnn1: 0." in await settle(pilot)


@pytest.mark.long
async def test_the_client_under_the_cursor_is_selected_after_the_first_round_without_a_key(
    view: View,
) -> None:
    """The cursor is on client 0 before the first round. Its page would open on another client, the worst."""
    sorted_by_id = replace(view, client=None, sort=("id", False))
    for panel in ("live", "clients"):
        async with staged(panel, with_records(sorted_by_id, [])) as (app, pilot):
            app.selected.clear()
            app.panel.show(sorted_by_id)  # the first rounds
            text = await settle(pilot)
            assert app.selected == [0] and "▶    0 cnn1" in text


@pytest.mark.long
async def test_keys_pin_the_client_under_the_cursor_and_reverse_the_order(view: View) -> None:
    order: list[list[object]] = []
    for panel in ("live", "clients"):
        async with staged(panel, view) as (app, pilot):
            app.panel.first().focus()
            await pilot.press("down", "down")
            app.panel.action_pin()
            for _ in range(2):
                order.append([row.key for row in app.panel._table.rows])
                app.panel.action_reverse()
            await settle(pilot)
            assert app.posted == [ClientPinned(5)]  # 6, 4 and 5 are the worst
    ranked = np.argsort(view.run.records[-1]["accuracy"]["per_client"]).tolist()
    assert order == [ranked, ranked[::-1]] * 2  # by the numbers that are printed


def test_the_line_counts_the_test_samples_that_the_worst_and_the_drop_rest_on(view: View) -> None:
    # After round 20, client 1 falls to 1 of its 14, and client 9 from 22 to 12 of its 30.
    records = [{**record, "accuracy": {**record["accuracy"]}} for record in view.run.records]
    for record, of_nine in zip(records[-2:], (22, 12), strict=True):
        record["accuracy"]["per_client"] = [*record["accuracy"]["per_client"][:9], of_nine / 30]
    records[-1]["accuracy"]["per_client"][1] = 1 / 14
    # Twelve of 30 and 22 of 30: 33.3 pp apart, 2.6 standard errors of sqrt(2 · 17/30 · 13/30 / 30).
    assert behind(with_records(view, records)) == (
        "worst 1 cnn2 7.1 % (1 of 14) · clearest drop: client 9, −33.3 pp (12 of 30)"
    )
    timeline = {"joined": [], "left": [], "data": [9], "present": 10}
    of_other_data = with_records(view, [*records[:-1], {**records[-1], "timeline": timeline}])
    drop = view.run.records[-2]["accuracy"]["per_client"][1] - 1 / 14
    assert behind(of_other_data) == f"worst 1 cnn2 7.1 % · largest drop: client 1, −{100 * drop:.1f} pp"


@pytest.mark.long
def test_a_fall_of_more_than_twenty_points_stands_in_the_log(view: View) -> None:
    fallen = [{**record, "accuracy": {**record["accuracy"]}} for record in view.run.records]
    before, now = (list(fallen[round - 1]["accuracy"]["per_client"]) for round in (7, 8))
    now[1], now[6], now[5] = before[1] - 0.5, before[6] - 0.25, before[5] - 0.422
    fallen[7]["accuracy"]["per_client"] = now
    (line,) = (
        each for each in on_stage("log", with_records(view, fallen))[1].splitlines() if "fell:" in each
    )
    # Client 1 fell most, but has only 14 test images.
    assert line.rstrip().endswith("r8 fell: client 5 −42.2 pp, client 6 −25.0 pp")


@pytest.mark.long
def test_each_client_is_shown_with_its_data_and_few_test_images_are_grey(view: View) -> None:
    columns, table = on_stage("clients", view)[0].panel.table(view)
    (own,) = (dict(zip(columns, row, strict=True)) for row in table if row[0] == 6)
    assert (own["test_samples"], own["train_samples"]) == (24, 111)
    assert [own[f"train {label}"] for label in range(10)] == sessions.samples(10)["train"][6]
    tones = [row.cells[3].tone for row in rows(view)]  # type: ignore[union-attr]
    assert tones == ["muted"] * 4 + ["strong"] * 6  # of 12, 14, 16, 18, 20 … samples
    assert "2 of 10 clients" in words("clients", replace(view, filter="cnn3"))
    assert "No client matches the filter" in words("clients", replace(view, filter="nobody"))


@pytest.mark.long
def test_y_leads_to_the_losses_f1_and_the_users_own_metrics(view: View) -> None:
    told = replace(with_records(view, measured(view.run.records)), pinned=frozenset({3}))
    run = told.run
    assert told.charts == (
        "band and mean", "all clients", "clients × rounds", "loss", "f1", "recall_of_0",
    )  # fmt: skip
    training = run.records[-1]["loss"]["mean"]
    drawn = {}
    for chart, caption, names in (
        (3, f"loss, round 20: training {training:.3f}, test 2.000, lowest 1.000 (r10)",
         ["training loss", "test loss", "cnn4 test loss"]),
        (4, "F1, round 20: test 50.0 %, best 50.0 % (r20)", ["test F1", "cnn4 test F1"]),
        (5, "recall_of_0, round 20: test 3.200", ["test recall_of_0", "cnn4 test recall_of_0"]),
    ):  # fmt: skip
        app, text = on_stage("live", replace(told, chart=chart))
        drawn[chart] = app.panel._accuracy._lines.figure.series
        assert caption in text and [one.name for one in drawn[chart]] == names
    # The test loss rises from round 11 on while the training loss goes on falling: both lines are in one chart.
    training_loss, test_loss, own = drawn[3]
    assert training_loss.y.tolist() == pytest.approx([record["loss"]["mean"] for record in run.records])
    assert test_loss.y[[0, 9, 10]].tolist() == pytest.approx([1.9, 1.0, 1.1])
    assert own.y[0] == pytest.approx(1.9 + 0.3)
    assert [replace(told, chart=chart).next_chart for chart in range(6)] == [1, 2, 3, 4, 5, 0]
    # The file has them, too.
    columns, table = app.panel.table(told)
    last = dict(zip(columns, table[-1], strict=True))
    assert (last["training_loss"], last["test_loss"]) == (training, pytest.approx(2.0))
    assert (last["test_f1"], last["test_recall_of_0"]) == (pytest.approx(0.5), pytest.approx(3.2))


@pytest.mark.long
def test_a_client_has_both_losses_in_one_chart_and_its_own_numbers(view: View) -> None:
    told = with_records(view, measured(view.run.records))
    app, text = on_stage("clients", replace(told, client=4))
    assert "training loss and test loss" in text
    assert [one.name for one in app.panel._loss.figure.series] == ["training loss", "test loss"]
    facts, training = dict(facts_of(told, 4, 60)), f"{view.run.records[-1]['loss']['per_client'][4]:.3f}"
    assert facts["loss"] == f"training {training}, test 2.400"
    assert (facts["F1"], facts["recall_of_0"]) == ("90.0 %", "3.600")
    assert dict(facts_of(view, 4, 60))["loss"] == f"training {training}"


def test_remarks_say_what_happened_now_and_before(view: View) -> None:
    for round, client, said in (
        (5, 4, ["diverged: its loss is not finite"]),
        (8, 3, ["did not take part in this round"]),
        (9, 4, ["diverged in 1 earlier rounds, most recently in round 5"]),
        (9, 0, []),
    ):
        assert remarks(replace(view, round=round), client) == said
    assert diverged(replace(view, round=4)) == ""
    assert diverged(replace(view, round=9)) == ", 1 diverged in 1 round"


@pytest.mark.long
def test_the_clients_that_diverged_are_counted_up_to_the_round_shown(view: View) -> None:
    assert ", 1 diverged in 1 round" in on_stage("live", replace(view, round=9), size=(240, 60))[1]
    failed = [{**record, "diverged": record["participants"]} for record in view.run.records]
    assert "accuracy: no score, 10 diverged in 20 rounds" in on_stage("live", with_records(view, failed))[1]


@pytest.mark.long
def test_the_smallest_terminal_has_the_bytes_and_the_unit_of_a_round(view: View) -> None:
    _, text = on_stage("cost", view, ["chart"], size=(60, 16))
    assert re.search(r"^tensor +sent +round", text, re.MULTILINE)
    assert re.search(r"^\S+ +up +[0-9.]+ [KM]iB ", text, re.MULTILINE)
    assert "bytes per round, MiB" in text


def test_checkpoints_in_a_row_are_one_line_of_the_log() -> None:
    def saved(*rounds: int) -> list[dict[str, Any]]:
        return [
            {"event": "checkpoint", "round": each, "at": f"2026-01-01T00:00:{each:02}"} for each in rounds
        ]

    def told(events: list[dict[str, Any]], query: str = "") -> list[tuple[Any, ...]]:
        return [tuple(row.cells) for row in lines(events, 60, query)]

    stop = {"event": "stopped", "round": 9, "at": "2026-01-01T00:00:50"}
    assert told([*saved(1, 2, 3), stop, *saved(9)]) == [
        ("00:00:03", "r3", "3 checkpoints, rounds 1 to 3"),
        ("00:00:50", "r9", description(stop)),
        ("00:00:09", "r9", "checkpoint"),  # one alone needs no count
    ]
    for rounds, said in (
        ((4, 5), "2 checkpoints, rounds 4 and 5"),
        ((5, 10, 15), "3 checkpoints, rounds 5 to 15 in steps of 5"),
        ((1, 4, 5, 6), "4 checkpoints, rounds 1, 4 to 6"),
        ((7, 7), "2 checkpoints, round 7"),
    ):
        assert told(saved(*rounds))[0][2] == said
    assert told([*saved(1), stop, *saved(9)], "checkpoint")[0][2] == "2 checkpoints, rounds 1 and 9"
    assert lines([*saved(1, 2), stop], 60, routine=False)[0].key == (2, 0)


def test_the_log_keeps_to_the_round_shown_and_to_the_filter(view: View) -> None:
    assert {event["event"] for event in upto(replace(view, round=6))} == {"started", "checkpoint", "warning"}
    for query, found in (("diverg fedssa", 0), ("switched FEDSSA", 1)):
        assert sum(matches(event, query) for event in view.run.events) == found


@pytest.mark.long
@pytest.mark.parametrize("panel", PANELS)
def test_what_is_shown_makes_a_rectangular_file(panel: str, view: View) -> None:
    compared = replace(view, compared=(view.run,), marked=(view.run.folder,), round=15)
    columns, table = on_stage(panel, compared)[0].panel.table(compared)
    assert table and {len(row) for row in table} == {len(columns)}


@pytest.mark.long
def test_the_first_round_is_followed_client_by_client(at_home: Path) -> None:
    begun = read(at_home / "begun")
    for phase, done, said in (
        ("train", 3, "Round 1: 3 of 10 clients have trained."),
        ("evaluate", 10, "Round 1: all clients have trained. Evaluating them now."),
    ):
        progress = {"round": 1, "phase": phase, "done": done, "clients": 10}
        run = replace(begun, state="running", progress=progress)
        assert not View(run).looks_like(View(begun))
        assert said in words("live", View(run, sessions_dir=at_home))


@pytest.mark.long
async def test_a_fault_while_a_resized_panel_is_drawn_is_said_and_the_app_goes_on(
    view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, view: View) -> None:
        raise ZeroDivisionError("a fault in a panel")

    async with staged("live", view) as (app, pilot):
        monkeypatch.setattr(type(app.panel), "draw", fail)
        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        await pilot.pause()
        assert "a fault in a panel" in [*app._notifications][-1].message
        monkeypatch.undo()
        await settle(pilot)


@pytest.mark.long
async def test_the_same_view_draws_nothing_twice(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    again: list[str] = []
    for panel in PANELS:
        async with staged(panel, view) as (app, pilot):
            for kind in {type(each) for each in app.panel.query("CanvasWidget")}:
                whole = kind.draw

                def noted(self: Any, *arguments: Any, whole: Any = whole) -> Any:
                    drawn.append(type(self).__name__)
                    return whole(self, *arguments)

                monkeypatch.setattr(kind, "draw", noted)
            settled = -1
            while settled != len(drawn):  # some parts are drawn once more when they have found their size
                settled = len(drawn)
                await pilot.pause(0.1)
            for _ in range(3):
                app.panel.show(replace(view, run=replace(view.run, progress={"done": 3})))
                await pilot.pause()
            again.extend(drawn[settled:])
        monkeypatch.undo()
    assert again == []


def test_events_are_said_in_a_few_words() -> None:
    for event, text in (
        ({"event": "started", "method": "fd", "round": 0}, "started with fd"),
        ({"event": "resumed", "method": "fd", "inexact": ["torch"]}, "resumed with fd; not bit-identical: torch"),
        ({"event": "switched", "method": "fd", "changes": ["seed 1 → 2"]}, "switched: seed 1 → 2"),
        ({"event": "refused", "command": "switch", "reason": "no head"}, "refused switch: no head"),
        ({"event": "forked", "name": "a", "round": 3, "changes": []}, "forked from a at round 3"),
        ({"event": "warning", "client": 4, "message": "is late"}, "warning: client 4: is late"),
        ({"event": "paused", "round": 3, "at": "x", "sha256": "y"}, "paused"),
    ):  # fmt: skip
        assert description(event) == text


@pytest.mark.long
async def test_the_keys_go_to_the_table_first_and_to_a_chart_where_there_is_none(view: View) -> None:
    seen: list[str] = []
    for panel, size in (
        ("live", (120, 40)),
        ("live", (80, 24)),
        ("similarity", (120, 40)),
        ("sessions", (120, 40)),
    ):
        async with staged(panel, view, size=size) as (app, _):
            seen.append(type(app.panel.first()).__name__)
    assert seen == ["Table", "LineChart", "Heatmap", "SessionList"]


@pytest.mark.long
@pytest.mark.parametrize("panel", ["live", "clients", "cost"])
def test_of_a_hundred_thousand_clients_no_panel_makes_a_table_of_all_rounds_and_clients(panel: str) -> None:
    clients, rounds, records = 100_000, 30, list[dict[str, Any]]()
    for round in range(1, rounds + 1):
        records.append(sessions.changes_record(round, clients, 10, records[-1] if records else None))
    run = SessionData(Path("large"), config=sessions.config(clients, rounds), ledger=Ledger.of(records))
    on_stage(panel, View(SessionData(Path("small"))))  # whatever is imported and cached
    tracemalloc.start()
    try:
        app, _ = on_stage(panel, View(run))
        columns, _ = app.panel.table(View(run, pinned=frozenset({99_999})))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < clients * rounds * 8
    assert sum(column.startswith("client ") for column in columns) <= MANY + 1


def test_the_classes_of_a_client_fill_two_lines(view: View) -> None:
    for width, shown in (
        (40, "4 ×44, 3 ×41, 1 ×35, 0 ×32, 9 ×18, 7 ×12, 6 ×9"),
        (20, "4 ×44, 3 ×41, 1 ×35, 0 ×32, 3 more"),  # a fifth would be 42 of 40 cells
        (4, "4 ×44, 6 more"),  # at least one
    ):
        assert dict(facts_of(view, 4, width))["classes"] == shown


def test_cost_has_the_cost_of_the_highest_target_that_was_reached(view: View) -> None:
    # 82.2 % at the end: the target is 80 %
    first = next(each["round"] for each in view.run.records if each["accuracy"]["mean"] >= 0.8)
    sent = view.run.records[first - 1]["bytes"]
    total = (sent["up_total"] + sent["down_total"]) / 2**20
    assert dict(cost.facts_of(view))["to 80.0 %"].startswith(f"{total:.1f} MiB, {first} rounds, ")
    assert "to 80.0 %" not in dict(cost.facts_of(replace(view, round=first - 1)))


def test_milestones_are_marks_with_a_word_each() -> None:
    events = (
        {"event": "forked", "round": 4, "name": "parent", "method": "fedlora"},
        {"event": "switched", "round": 12, "method": "fedssa", "before": "fedlora"},
        {"event": "switched", "round": 15, "method": "fedssa", "before": "fedssa"},
    )
    run = SessionData(Path("x"), events=events, checkpoints=(10, 16))
    assert marks(run) == [Mark(4.5, "fork"), Mark(10, "kept"), Mark(12.5, "fedssa"), Mark(15.5, "settings")]


def test_traffic_is_in_the_unit_of_the_largest_over_an_axis_from_nothing() -> None:
    figure = traffic(np.array([np.nan, 2.0 * 2**20]), np.array([4.0 * 2**20, 0]))
    assert (figure.unit, figure.y_range) == ("MiB", (0.0, 4.2))
    assert traffic(np.zeros(3), np.zeros(3)).y_range == (0.0, 1.0)
    (up, down), unit, bytes = sizes(np.array([512.0, 2**21]), np.array([np.nan, 2**20]))
    assert (unit, bytes) == ("MiB", 2**20)
    np.testing.assert_array_equal([up, down], [[512 / 2**20, 2.0], [np.nan, 1.0]])
    assert sizes(np.zeros(2))[1] == "KiB"


def test_a_rise_over_some_rounds_is_not_shown_alone_after_a_fall() -> None:
    fall = ("76.3 % (−7.6 pp in a round, +26.3 pp in 4 rounds)", "76.3 % (−7.6 pp in a round)", "76.3 %")
    assert recent(np.array([0.5, 0.6, 0.7, 0.839, 0.763])) == fall
    assert recent(np.array([0.5, 0.6, 0.7, 0.7, 0.72]))[1] == "72.0 % (+22.0 pp in 4 rounds)"
    assert recent(np.array([0.5, 0.6])) == ("60.0 % (+10.0 pp in a round)",) * 2 + ("60.0 %",)
    assert recent(np.array([0.5])) == ("50.0 %",)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> View:
    """A hundred clients."""
    folder = tmp_path_factory.mktemp("crowd")
    return View(read(sessions.make(folder / "hundred", rounds=6, clients=100)), sessions_dir=folder)


async def shares(view: View, size: tuple[int, int] = (200, 60)) -> dict[str, float]:
    """The share of the screen that each part of the panel has."""
    async with staged("live", view, size=size) as (app, _):
        return {name: part.region.area / (size[0] * size[1]) for name, part in app.panel._parts.items()}


@pytest.mark.long
async def test_parts_have_the_room_that_others_do_not_need(at_home: Path, crowd: View) -> None:
    few = View(read(at_home / "main"), sessions_dir=at_home)
    bare = replace(crowd, run=read(sessions.make(crowd.library / "bare", rounds=2, clients=100, cka_every=0)))
    for size in ((80, 24), (120, 40), (200, 60)):
        assert (await shares(crowd, size))["accuracy"] >= 1 / 3
    for_few, for_many, unmeasured = [await shares(each) for each in (few, crowd, bare)]
    assert for_few["similarity"] > 2 * for_few["clients"]
    assert for_many["similarity"] == pytest.approx(for_many["clients"], rel=0.1)
    assert unmeasured["similarity"] < unmeasured["clients"] / 5


@pytest.mark.long
@pytest.mark.parametrize("panel", ["clients", "cost"])
async def test_a_table_of_few_clients_leaves_the_room_it_does_not_need_to_the_charts(
    panel: str, at_home: Path, crowd: View
) -> None:
    seen: list[int] = []
    for view in (View(read(at_home / "main"), sessions_dir=at_home), crowd):
        async with staged(panel, view, size=(200, 60)) as (app, _):
            seen.append(app.panel._parts["clients"].region.height)
    # a line for each client or fact, title and header
    assert seen[0] == (10 + 2 if panel == "clients" else 16 + 2)
    assert seen[1] >= 24


@pytest.mark.long
def test_traffic_that_is_the_same_in_every_round_gives_way_to_the_loss(at_home: Path, crowd: View) -> None:
    varying = View(read(at_home / "main"), sessions_dir=at_home)  # client 3 misses every fourth round
    assert "22.8 MiB up, 22.8 MiB down in total" in on_stage("live", varying)[1]
    folder = crowd.library
    steady = View(read(sessions.make(folder / "steady", rounds=3, clients=4)), sessions_dir=folder)
    app, text = on_stage("live", steady)
    assert "training loss; 479.2 KiB up and down per round" in text  # 4 × 122,680 bytes
    losses = [record["loss"]["mean"] for record in steady.run.records]
    assert app.panel._trend.figure.series[0].y.tolist() == pytest.approx(losses)
    _, text = on_stage("cost", steady, size=(200, 60))
    assert "total bytes; 479.2 KiB up and down per round" in text and "bytes per round" not in text


@pytest.mark.long
def test_of_a_method_that_sends_nothing_there_is_no_chart_of_bytes_but_one_of_the_loss(
    tmp_path: Path,
) -> None:
    run = read(sessions.make(tmp_path / "alone", rounds=3, clients=4, method="standalone"))
    nothing: dict[str, Any] = dict.fromkeys(("up", "down", "up_total", "down_total"), 0)
    nothing |= {"per_client_up": [0] * 4, "per_client_down": [0] * 4, "by_tensor": {}}
    records: list[Any] = [{**record, "bytes": nothing} for record in run.records]
    alone = with_records(View(run, sessions_dir=tmp_path), records)
    seen = after_each("cost", alone, ["unit"] * 4, lambda panel: panel.app.text(), size=(80, 24))
    charts = (
        "accuracy over FLOPs",
        "accuracy over seconds",
        "peak memory of the process",
        "CPU cores in use",
    )
    for text, chart in zip(seen, charts, strict=True):
        assert f"{chart}; standalone sends nothing" in text and "bytes" not in text
    assert "training loss; standalone sends nothing" in on_stage("live", alone)[1]
    unknown = with_records(
        alone, [{**each, "loss": {"mean": None, "per_client": [None] * 4}} for each in records]
    )
    assert "standalone sends nothing." in on_stage("live", unknown)[1]


@pytest.mark.long
def test_the_title_of_accuracy_names_its_mode_where_it_fits_whole(crowd: View) -> None:
    _, narrow = on_stage("live", replace(crowd, chart=2), size=(120, 40))
    assert re.match(r"─accuracy .+, best \d\d\.\d % \(r6\)──", narrow)
    _, wide = on_stage("live", replace(crowd, chart=2), size=(200, 60))
    assert "(r6), 1 diverged in 1 round; clients × rounds──" in wide.splitlines()[0]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of ten clients, and one with the same clients under Standalone."""
    folder = tmp_path_factory.mktemp("sessions")
    sessions.make(folder / "main", rounds=20, samples=sessions.samples(10))
    sessions.make(folder / "base", rounds=20, method="standalone", cka_every=0)
    return folder


def paired(home: Path, falls: float = 0.041, client: int = 3, **changes: Any) -> View:
    """Client 3 loses 4.1 pp to its partner in round 20, clients 0 and 1 are equal, and the other seven gain 2 pp."""
    run, partner = read(home / "main"), Partners().find(read(home / "main"), home)[0]
    other = read(partner.folder)
    records = [dict(each) for each in other.records]
    own = run.records[-1]["accuracy"]["per_client"]
    last = [value - 0.02 for value in own]
    last[client] = own[client] + falls
    last[0], last[1] = own[:2]
    records[-1] = records[-1] | {"accuracy": records[-1]["accuracy"] | {"per_client": last}}
    other = replace(other, ledger=Ledger.of(records))
    return View(run, sessions_dir=home, pair=Pair(run.folder, partner, other), **changes)


def test_the_sentence_counts_those_who_gain_and_names_the_worst() -> None:
    found = RoundGain(20, clients=10, better=7, worse=1, mean=0.01, worst=3, least=-0.041, correct=None)
    for by, correct, counted, said in (
        (-0.041, None, True, "−4.1 pp (client 3)"),
        (-1 / 24, (15, 16, 24), True, "−4.2 pp (client 3: 15 vs 16 of 24)"),
        (-0.041, (80, 84, 100), True, "−4.1 pp (client 3)"),  # one image is 1 pp or less
        (-1 / 9, (5, 6, 9), False, "−11.1 pp (client 3, 9 samples)"),
    ):
        one = replace(found, least=by, correct=correct)
        assert gains.sentence(one, counted) == f"7 of 10 clients gain; worst {said}"
    one = RoundGain(2, clients=1, better=1, worse=0, mean=0.1, worst=0, least=0.1, correct=None)
    assert gains.sentence(one) == "1 of 1 client gains; least +10.0 pp (client 0)"


def test_the_colors_of_the_map_reach_to_the_largest_gain_or_loss_shown() -> None:
    assert gains.reach(np.array([[-33.3, 2.0], [np.nan, 50.0]])) == (-50.0, 50.0)
    assert gains.reach(np.array([[-0.2, 0.0]])) == (-1.0, 1.0)


def test_live_has_the_line_where_it_fits(home: Path) -> None:
    view = paired(home, client=4)  # with 20 test samples, so that it can be judged
    _, text = on_stage("live", view)
    correct = [round((view.run.records[-1]["accuracy"]["per_client"][4] + by) * 20) for by in (0, 0.041)]
    told = f"7 of 10 clients gain; worst −4.1 pp (client 4: {correct[0]} vs {correct[1]} of 20)"
    assert f"{told} over standalone (base)" in text
    assert "b standalone" in text  # the partner's mean is a line of the chart
    assert gains.line(view, 60) == "7 of 10 clients gain; worst −4.1 pp (client 4)"


@pytest.mark.long
def test_b_shows_clients_by_rounds_and_again_the_chart(home: Path) -> None:
    view = paired(home, client=4)
    _, text = on_stage("live", view, ["gain"], size=(200, 60))
    assert "gain over standalone (base), pp" in text
    last = text[text.index("\n 4  ") :].split("\n")[1].split()
    assert last[20] == "−4.1"

    _, text = on_stage("live", view, ["gain", "gain"])
    assert " pp in 5 rounds), best" in text


@pytest.mark.long
def test_the_chart_of_the_gain_has_the_mean_and_its_band(home: Path) -> None:
    view = paired(home, client=4)
    assert view.charts[-1] == GAIN
    shown = replace(view, chart=len(view.charts) - 1)
    figure = gains.figure(shown)
    assert figure.series[0].y[-1] == pytest.approx((7 * 2 - 4.1) / 10)
    assert figure.band is not None
    low, high = np.quantile([-4.1, 0, 0] + [2] * 7, (0.1, 0.9))
    assert (figure.band.low[-1], figure.band.high[-1]) == (pytest.approx(low), pytest.approx(high))
    _, text = on_stage("live", shown)
    assert "gain over standalone (base): +1.0 pp after round 20" in text


def test_a_shadow_is_compared_from_the_fork_on(home: Path) -> None:
    view = paired(home)
    assert view.pair is not None
    shadow = replace(view, pair=replace(view.pair, partner=replace(view.pair.partner, shared=15)))
    assert gains.rounds(shadow).tolist() == [16, 17, 18, 19, 20]
    assert gains.partner_mean(shadow)[0].points[0].tolist() == [15, 16, 17, 18, 19, 20]  # they part at 15
    assert gains.at_round(replace(shadow, round=12)) is None
    earlier = gains.at_round(replace(view, round=7))
    assert earlier is not None and (earlier.round, earlier.better) == (7, 0)


@pytest.mark.long
def test_without_a_partner_a_sentence_says_how_to_get_one(home: Path) -> None:
    alone = replace(paired(home), pair=None)
    _, text = on_stage("live", alone, ["gain"], size=(80, 24))
    assert "Press A to start one" in text.replace("\n", " ")
    assert alone.charts[: len(ACCURACIES)] == ACCURACIES and GAIN not in alone.charts
    base = View(read(home / "base"), sessions_dir=home)
    assert gains.missing(base) == gains.ITSELF
    other = replace(paired(home), run=SessionData(home / "other"))
    assert other.paired is None  # the partner of another session is none of this one
