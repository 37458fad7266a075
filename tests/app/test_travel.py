"""The crosshair, the partner of a session, and questions about a run that one key answers."""

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.message import Message
from textual.widgets import Static

from checkpoints import SessionReader, Store
from tests import sessions
from tests.app.driving import driven, opened, shown, text, typed_at_once, until
from tests.app.panels.stage import on_stage, read
from tui.app import watch
from tui.app.app import HtflApp
from tui.app.runs import LaunchOptions
from tui.app.view import View
from tui.app.watch import Pairing, PairRead
from tui.app.widgets import Heatmap, LineChart, Table
from tui.common.formatting import percent, points, size

# The crosshair: one round, or what it cost, in all charts of the screen.


ROUNDS = 12


@pytest.fixture
def app(home: Path) -> HtflApp:
    return opened(home, "main", "live", "clients", "cost", "log")


def charts(app: HtflApp) -> list[LineChart]:
    return [chart for chart in app.panel.query(LineChart) if chart.is_on_screen]


def footer(app: HtflApp) -> str:
    return str(app.main.query_one("#keys", Static).content)


def first_row(chart: LineChart) -> str:
    return chart.render_line(0).text


@pytest.mark.long
async def test_arrows_typed_while_a_panel_comes_up_all_count(app: HtflApp) -> None:
    async with driven(app) as pilot:
        await shown(app, pilot)
        typed_at_once(app, "2 1 left left left left left")
        await until(pilot, lambda: app.view.cursor() == ROUNDS - 4)  # the first shows it at the newest
        await pilot.press("L", "2")
        await pilot.pause()
        app.show_panel("live")
        assert not charts(app)  # it has no layout yet
        app.action_crosshair(-1)
        assert app.view.cursor() == ROUNDS


@pytest.mark.long
async def test_every_legend_on_the_screen_reads_the_round_that_arrows_choose(app: HtflApp) -> None:
    async with driven(app) as pilot:
        await shown(app, pilot)
        await pilot.press("left", *["left"] * 4)  # from the newest four back, while the table has the focus
        await pilot.pause()
        assert isinstance(app.focused, Table)
        record = app.view.run.records[ROUNDS - 5]
        accuracy, bytes = charts(app)
        assert f"mean {record['accuracy']['mean'] * 100:.1f} %" in first_row(accuracy)
        a, b, c, d = sorted(record["accuracy"]["per_client"])
        low, high = a + 0.3 * (b - a), c + 0.7 * (d - c)  # the quantiles of four
        assert f"middle 80 % of clients {low * 100:.1f}–{high * 100:.1f} %" in first_row(accuracy)
        assert f"up {record['bytes']['up'] / 1024:.1f} KiB" in first_row(bytes)
        assert accuracy.figure.cursor == bytes.figure.cursor == ROUNDS - 4


@pytest.mark.long
async def test_it_holds_in_all_panels_and_escape_first_puts_it_away(app: HtflApp, home: Path) -> None:
    async with driven(app) as pilot:
        await shown(app, pilot)
        await until(pilot, lambda: isinstance(app.focused, Table))
        await pilot.press("left", "left", "left", "enter")
        await until(pilot, lambda: app.panel.id == "clients" and len(charts(app)) == 2)
        assert [chart.figure.cursor for chart in charts(app)] == [ROUNDS - 2] * 2
        assert not app.view.replaying and app.view.shown == ROUNDS  # the round shown stays
        await pilot.press("escape")
        assert (app.view.crosshair, app.panel.id) == (None, "clients")
        await pilot.press("escape")
        await until(pilot, lambda: app.panel.id == "live")
        await pilot.press("left", "L")
        assert [chart.figure.cursor for chart in charts(app)] == [None] * 2
        await pilot.press("left")
        assert app.view.crosshair == ("rounds", float(ROUNDS))
        app.open_session(home / "main")
        assert app.view.crosshair is None


async def test_a_chart_that_has_the_focus_says_in_the_footer_that_it_has_a_crosshair(app: HtflApp) -> None:
    async with driven(app, size=(80, 24)) as pilot:
        await shown(app, pilot)
        await until(pilot, lambda: isinstance(app.focused, LineChart))
        await until(pilot, lambda: "left crosshair" in footer(app))
        await pilot.press("6")
        await until(pilot, lambda: "crosshair" not in footer(app))


@pytest.mark.long
async def test_the_map_of_clients_and_rounds_has_it_too(app: HtflApp) -> None:
    async with driven(app) as pilot:
        await shown(app, pilot)
        await pilot.press("left", "left", "left", "y", "y")
        await pilot.pause()
        accuracies = app.panel.query(Heatmap).first()
        assert accuracies.cursor == (app.view.client or 0, ROUNDS - 3)  # the column of round 10
        app.change(client=2)
        assert accuracies.cursor == (2, ROUNDS - 3)
        app.set_focus(accuracies)
        await pilot.press("left", "left", "down")
        await pilot.pause()
        assert accuracies.cursor == (3, ROUNDS - 5) and app.view.client == 3
        assert [chart.figure.cursor for chart in charts(app)] == [ROUNDS - 4]
        await pilot.press("escape")
        await pilot.pause()
        assert app.view.crosshair is None and accuracies.cursor is None


@pytest.mark.long
def test_over_bytes_it_lies_at_what_the_round_had_cost_and_over_rounds_where_that_was(home: Path) -> None:
    run = read(home / "main")
    sent = run.curves["bytes_up_total"] + run.curves["bytes_down_total"]
    third = float(sent[2])
    places: list[Any] = [("rounds", 3.0), ("bytes", third), ("bytes", third + 2 * sessions.ADAPTER)]
    for place in places:
        app, _ = on_stage("cost", View(run, crosshair=place))
        traffic, time, over = app.panel._charts.values()  # type: ignore[attr-defined]
        assert (traffic.figure.cursor, time.figure.cursor) == (3, 3)
        at = place[1] if place[0] == "bytes" else third
        assert over.figure.cursor == at / over.figure.x_unit


def test_in_compare_it_goes_as_far_as_the_longest_session(home: Path, tmp_path: Path) -> None:
    short = read(sessions.make(tmp_path / "short", rounds=5, clients=4))
    long = read(home / "main")
    view = View(short, marked=(short.folder, long.folder), compared=(short, long))
    app, text = on_stage("compare", replace(view, crosshair=("rounds", 11.0)))
    chart = app.panel._chart  # type: ignore[attr-defined]
    assert chart.figure.cursor == 11
    last, eleventh = short.curves["accuracy"][-1], long.curves["accuracy"][10]
    assert f"1 short {last * 100:.1f} % (r5)  2 main {eleventh * 100:.1f} %" in text


@pytest.mark.long
def test_where_x_is_a_cost_each_session_is_read_at_its_nearest_round(home: Path, tmp_path: Path) -> None:
    other = read(sessions.make(tmp_path / "other", rounds=5, clients=2))
    main = read(home / "main")
    view = View(main, marked=(main.folder, other.folder), compared=(main, other))
    sent = main.curves["bytes_up_total"] + main.curves["bytes_down_total"]
    a_round = 4 * sessions.ADAPTER  # of the two clients of `other`
    at = float(sent[1])  # 8 payloads a round in main: two rounds of it are four of the other
    assert at / a_round == 4
    mean = main.curves["accuracy"][1]
    for place, beside in (
        (at, other.curves["accuracy"][3]),
        (at + 0.6 * a_round, other.curves["accuracy"][4]),
    ):
        _, text = on_stage("compare", replace(view, crosshair=("bytes", place)), ["unit"])
        assert f"1 main {mean * 100:.1f} %  2 other {beside * 100:.1f} %" in text


@pytest.mark.long
async def test_a_measure_that_no_session_has_offers_neither_crosshair_nor_zoom(home: Path) -> None:
    app = opened(home, "main", "live", "compare")
    async with driven(app, size=(300, 40)) as pilot:
        await shown(app, pilot)
        app.mark_all((home / "main",))
        await until(pilot, lambda: bool(app.view.compared))
        await pilot.press("5")
        await pilot.pause()
        offered = []
        for _ in range(9):  # all measures, and the first again; there is no test loss, F1, and eval part
            offered.append("left crosshair" in footer(app) and "+ zoom in" in footer(app))
            await pilot.press("y")
            await pilot.pause()
        assert offered == [True] * 4 + [False, False, True, False, True]


# The partner of the session shown, found and read by the thread that reads files.


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    monkeypatch.setattr(watch, "SEARCH_SECONDS", 0.0)
    return []


def names(told: list[Message]) -> list[str | None]:
    return [each.pair and each.pair.partner.name for each in told if isinstance(each, PairRead)]


def test_a_partner_is_told_once_and_again_when_it_grows(tmp_path: Path, told: list[Message]) -> None:
    run = read(sessions.make(tmp_path / "run", clients=2, rounds=3))
    alone = sessions.make(tmp_path / "alone", clients=2, rounds=2, method="standalone", state="stopped")
    reader = Pairing(told.append)
    for _ in range(3):
        reader.look(run)
    assert names(told) == ["alone"]
    with (alone / "ledger.jsonl").open("a") as ledger:
        ledger.write(sessions.line(3, 2))
    reader.look(run)
    assert isinstance(told[-1], PairRead) and told[-1].pair is not None
    assert told[-1].pair.other.round == 3 and names(told) == ["alone", "alone"]


def test_one_that_appears_and_goes_is_told(tmp_path: Path, told: list[Message]) -> None:
    run = read(sessions.make(tmp_path / "run", clients=2, rounds=3))
    reader = Pairing(told.append)
    reader.look(run)
    alone = sessions.make(tmp_path / "alone", clients=2, rounds=3, method="standalone")
    reader.look(run)
    alone.rename(tmp_path.parent / f"{tmp_path.name}-away")
    for _ in range(2):
        reader.look(run)
    assert names(told) == [None, "alone", None]


def test_a_preferred_partner_comes_before_the_best(tmp_path: Path, told: list[Message]) -> None:
    run = read(sessions.make(tmp_path / "run", clients=2, rounds=3))
    sessions.make(tmp_path / "long", clients=2, rounds=3, method="standalone")
    short = sessions.make(tmp_path / "short", clients=2, rounds=1, of=3, method="standalone", state="stopped")
    reader = Pairing(told.append)
    reader.look(run)
    reader.prefer(short)
    reader.look(run)
    assert names(told) == ["long", "short"]


# Ten questions about a run, each answered in Live or by one key from there, with the numbers of the ledger.


CLIENTS, LAST, SWITCH = 6, 20, 12
WORST = 4
"""The client with the lowest accuracy in the last round."""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose method was switched, its Standalone, one at work, and one whose mean falls in its last six rounds."""
    root = tmp_path_factory.mktemp("questions")
    held = sessions.samples(CLIENTS)
    made = {"clients": CLIENTS, "rounds": LAST, "samples": held}
    sessions.make(root / "main", switch=(SWITCH, "fedssa"), **made)
    sessions.make(root / "alone", method="standalone", ceiling=0.8, **made)
    half = made | {"rounds": 10}
    sessions.make(root / "working", of=LAST, state="stopped", **half)
    sinking = sessions.make(root / "sinking", of=LAST, state="stopped", **half)
    with sessions.fixed_clock(), sessions.unsynced(), Store.open(sinking) as store:
        for round in range(11, 17):
            record = sessions.record(round, CLIENTS)
            each = [0.9 - 0.05 * (round - 10)] * CLIENTS
            record["accuracy"] |= {"mean": each[0], "weighted": each[0], "per_client": each}
            store.append(record)
    return root


@pytest.mark.long
async def test_each_question_is_answered_by_one_key(asked: Path) -> None:
    *_, before, last = ledger = [dict(each) for each in SessionReader(asked / "main").records()]
    accuracies, means = last["accuracy"]["per_client"], [each["accuracy"]["mean"] for each in ledger]
    assert min(range(CLIENTS), key=accuracies.__getitem__) == WORST
    then, now = (each["accuracy"]["per_client"][WORST] for each in (before, last))
    trained = sessions.samples(CLIENTS)["train"][WORST]
    matrix = last["cka"]["matrix"][last["cka"]["order"][-1]]
    nearest = max(value for place, value in enumerate(matrix[WORST]) if place != WORST)
    alone = SessionReader(asked / "alone").records()[-1]["accuracy"]["per_client"]
    gains = [mine - other for mine, other in zip(accuracies, alone, strict=True)]
    of_rounds = (means[2:SWITCH], means[SWITCH:])  # ten rounds before the switch, and the eight after it
    main: dict[str, list[list[str]]] = {
        "1": [
            [f"({points(means[-1] - means[-6])} pp in 5 rounds)"],  # is it converging?
            [f"▶ {WORST} cnn5 {percent(accuracies[WORST])}"],  # who is bad?
        ],
        "W": [
            [
                f"trains on {sum(trained)} samples of {sum(map(bool, trained))} of 10 classes"
            ],  # is it the data?
            [f"Client {WORST} (cnn5)", f"is nearest ({nearest:.3f})"],  # the model?
            [f"from {percent(then)} to {percent(now)} ({then * 20:.0f} → {now * 20:.0f} of 20)"],  # who fell?
        ],
        "B": [
            [f"{sum(gain > 0 for gain in gains)} of {CLIENTS} clients gain; least {points(min(gains))} pp"]
        ],
        "4": [[f"{size(last['bytes']['up_total'])} in all", f"mean accuracy {percent(means[-1])}"]],
        "E": [[f"{100 * statistics.fmean(each):.1f} %" for each in of_rounds]],
    }
    await answers(asked / "main", main)
    await answers(asked / "sinking", {"6": [["falling"]]})  # is it collapsing?
    with Store.open(asked / "working") as store:  # how long? 10 of 20 rounds are done, of 2.5 seconds each
        store.heartbeat("running", round=10, rounds=LAST, phase="train", done=0, clients=CLIENTS)
        await answers(asked / "working", {"1": [["round 10/20 · running", "ETA 25 s"]]})


async def answers(session: Path, asked: dict[str, list[list[str]]]) -> None:
    """Open the session in Live, and press each key from there. The screen then has the answers."""
    app = HtflApp(LaunchOptions(session.parent, session.parent / "data"), session)

    def seen() -> str:
        return " ".join(text(app).split())

    async with driven(app) as pilot:
        await until(pilot, lambda: app.view.run.round > 0 and app.view.paired is not None)
        for key, found in asked.items():
            await pilot.press("1", key)
            await until(
                pilot,
                lambda found=found: all(each in seen() for words in found for each in words),  # type: ignore[misc]
            )
            if len(app.screen_stack) > 1:
                await pilot.press("escape")
