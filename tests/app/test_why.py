"""The page that explains a client: it follows the run, the round, and the client selected."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkpoints import Store
from simulator.results.analysis.classes import Confusion
from simulator.results.analysis.partners import Pair, Partner
from simulator.results.analysis.run import SessionData
from tests import sessions
from tests.app.driving import drive, until
from tests.app.driving import opened as in_app
from tests.app.panels.stage import read
from tui.app.app import HtflApp
from tui.app.dialogs import pages as page
from tui.app.dialogs.pages import WhyDialog, by_accuracy, found_in
from tui.app.view import View


@pytest.fixture
def app(tmp_path: Path) -> HtflApp:
    """A session of four clients that stopped after 5 of 8 rounds. Client 1 has the lowest accuracy in round 5."""
    sessions.make(tmp_path / "main", rounds=5, of=8, clients=4, samples=sessions.samples(4), state="stopped")
    return in_app(tmp_path)


async def opened(app: HtflApp, pilot: Any) -> WhyDialog:
    await until(pilot, lambda: app.view.run.round == 5)
    await pilot.press("W")
    assert isinstance(app.screen, WhyDialog)
    return app.screen


def said(dialog: WhyDialog) -> str:
    found = dialog.found
    return found if isinstance(found, str) else found.findings[0].text


@pytest.mark.long
def test_it_starts_with_the_worst_client_and_arrows_move_to_the_next(app: HtflApp) -> None:
    async def script(pilot: Any) -> None:
        dialog = await opened(app, pilot)
        order = by_accuracy(app.view)
        values = [sessions.accuracy(client, 5) for client in order]
        assert values == sorted(values) and len(values) == 4
        for key, place in (("down", 1), ("j", 2), ("down", 3), ("down", 3), ("up", 2), ("k", 1)):
            await pilot.press(key)
            await pilot.pause()
            assert app.view.selected == order[place]
            assert said(dialog).startswith(f"Client {order[place]} ")
        await pilot.press("escape")
        assert app.view.client == order[1]  # in every panel

    drive(app, script)


@pytest.mark.long
def test_it_follows_the_round_shown_and_a_run_that_goes_on(app: HtflApp) -> None:
    async def script(pilot: Any) -> None:
        dialog = await opened(app, pilot)
        app.change(client=2)
        for key, round in (
            ("left_square_bracket", 4),
            ("left_square_bracket", 3),
            ("right_square_bracket", 4),
            ("L", 5),
        ):
            await pilot.press(key)
            await pilot.pause()
            assert f"{100 * sessions.accuracy(2, round):.1f} %" in said(dialog)
        with Store.open(app.view.run.folder) as store:
            store.append(sessions.record(6, 4))
            await until(pilot, lambda: f"{100 * sessions.accuracy(2, 6):.1f} %" in said(dialog))

    drive(app, script)


def test_nothing_is_computed_again_while_nothing_changes(
    app: HtflApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[View]()

    def count(view: View) -> Any:
        calls.append(view)
        return found_in(view)

    monkeypatch.setattr(page, "found_in", count)

    async def script(pilot: Any) -> None:
        await opened(app, pilot)
        assert len(calls) == 1
        app.change(filter="cnn")
        app.change(run=replace(app.view.run, owner={"pid": 1}))
        assert len(calls) == 1
        app.change(client=by_accuracy(app.view)[2])
        assert len(calls) == 2

    drive(app, script)


def test_the_gain_is_over_the_partner_of_the_session(app: HtflApp, tmp_path: Path) -> None:
    alone = read(sessions.make(tmp_path / "alone", rounds=5, clients=4, method="standalone", ceiling=0.7))
    run = read(tmp_path / "main")
    partner = Partner(alone.folder, "standalone", 0, 5, True, "")
    view = View(run, client=2, pair=Pair(run.folder, partner, alone))
    found = found_in(view)
    assert not isinstance(found, str)
    [gain] = [each for each in found.findings if each.topic == "baseline"]
    expected = sessions.accuracy(2, 5) - sessions.accuracy(2, 5, 0.7)
    assert gain.facts["gain"] == pytest.approx(expected) and gain.facts["session"] == "alone"


def test_before_the_first_round_it_says_so(tmp_path: Path) -> None:
    assert found_in(View(SessionData(Path("nowhere")))) == page.NO_SESSION
    begun = read(sessions.make(tmp_path / "begun", rounds=0, of=5, clients=4, state="stopped"))
    assert found_in(View(begun)) == page.BEGINNING


class Process:
    """In place of a process: gives a matrix once it is told to."""

    started: list["Process"] = []  # noqa: RUF012 - the tests' own

    def __init__(self, job: str, folder: Path, data_dir: Path, round: int, client: int) -> None:
        self.client, self.round = client, round
        self._ended = threading.Event()
        self.found: Confusion | str | None = None
        self.started.append(self)

    def end(self, found: Confusion | str | None = None) -> None:
        self.found = (
            Confusion(self.client, self.round, ("0", "1"), ((3, 1), (0, 2))) if found is None else found
        )
        self._ended.set()

    def cancel(self) -> None:
        self._ended.set()

    def result(self, tell: Any) -> Confusion | str | None:
        self._ended.wait(600)
        return self.found


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HtflApp:
    """Like `app`, with the checkpoints of rounds 3, 4, and 5, and no process that computes."""
    monkeypatch.setattr("tui.app.host.Worker", Process)
    Process.started = []
    about: Any = {"rounds": 5, "of": 8, "clients": 4, "state": "stopped", "checkpoint_every": 1}
    sessions.make(tmp_path / "main", **about)
    return in_app(tmp_path)


def lines_of(dialog: WhyDialog) -> list[str]:
    return dialog._page.render().plain.split("\n")


@pytest.mark.long
def test_m_shows_a_confusion_matrix_computed_once_for_each_client_and_round(kept: HtflApp) -> None:
    async def script(pilot: Any) -> None:
        dialog = await opened(kept, pilot)
        first, second = by_accuracy(kept.view)[:2]
        for number, key in enumerate(("m", "down", "left_square_bracket")):
            await pilot.press(key)
            await until(pilot, lambda number=number: len(Process.started) == number + 1)
            assert "is being computed" in " ".join(lines_of(dialog))
            Process.started[-1].end()
            await until(pilot, lambda: "0     3 1   75.0 %" in lines_of(dialog))
            assert "1     · 2  100.0 %" in lines_of(dialog)
        await pilot.press("L", "up", "m")
        assert said(dialog).startswith(f"Client {first} ")
        await pilot.press("m")
        await pilot.pause()
        asked = [(each.client, each.round) for each in Process.started]
        assert asked == [(first, 5), (second, 5), (second, 4)]

    drive(kept, script, size=(60, 16))


@pytest.mark.long
def test_without_a_checkpoint_the_kept_rounds_are_named(kept: HtflApp) -> None:
    async def script(pilot: Any) -> None:
        dialog = await opened(kept, pilot)
        await pilot.press(*["left_square_bracket"] * 4, "m")
        assert "Kept rounds: 3, 4, 5." in " ".join(lines_of(dialog))
        assert not Process.started

    drive(kept, script)


@pytest.mark.long
def test_a_matrix_stays_at_its_round_while_the_run_goes_on(kept: HtflApp) -> None:
    async def script(pilot: Any) -> None:
        dialog = await opened(kept, pilot)
        kept.change(client=2)
        await pilot.press("m")
        await until(pilot, lambda: len(Process.started) == 1)
        Process.started[0].end()
        with Store.open(kept.view.run.folder) as store:
            store.append(sessions.record(6, 4))
            await until(pilot, lambda: kept.view.run.round == 6)
        await until(pilot, lambda: "0     3 1   75.0 %" in lines_of(dialog))
        assert len(Process.started) == 1 and lines_of(dialog)[0].startswith("After round 5, client 2 ")

    drive(kept, script)


@pytest.mark.long
def test_the_reason_of_a_failure_is_on_the_page(kept: HtflApp) -> None:
    async def script(pilot: Any) -> None:
        dialog = await opened(kept, pilot)
        await pilot.press("m")
        await until(pilot, lambda: len(Process.started) == 1)
        Process.started[0].end("There are no data.")
        await until(pilot, lambda: lines_of(dialog) == ["There are no data."])

    drive(kept, script)
