"""The pages over the panels: settings, why, and what is computed for them in the background."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

import checkpoints
from checkpoints import Store
from simulator.results.analysis.classes import Confusion
from simulator.results.analysis.gain import Pair, Partner
from simulator.results.analysis.ledger import CkaMeasurement
from simulator.results.analysis.run import SessionData
from simulator.results.inspection.client_samples import ClientSamples
from tests import sessions
from tests.app.driving import driven, notices, opened, until
from tests.app.panels.stage import read
from tui.app.app import HtflApp
from tui.app.dialogs import pages as page
from tui.app.dialogs.base import Reflowed
from tui.app.dialogs.pages import Describe, WhyDialog, by_accuracy, found_in
from tui.app.view import Confusions, View, client_of
from tui.app.workers import images_of

# `D`: all settings, and what differs from the parent, the preset, and a marked session.


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    """A session with a higher learning rate than its parent, which began from no preset, and a third one."""
    plain = sessions.config(4, 12) | {"preset": None}
    sessions.make(tmp_path / "main", rounds=12, clients=4, document=plain)
    id = checkpoints.SessionReader(tmp_path / "main").document["id"]
    changed = plain | {"training": {"lr": 0.05, "epochs": 5}}
    about: Any = {"rounds": 12, "clients": 4}
    sessions.make(tmp_path / "fork", parent=(tmp_path / "main", id, 5), document=changed, **about)
    sessions.make(tmp_path / "third", document=changed | {"seed": 7}, **about)
    return tmp_path / "fork"


def settings(app: HtflApp) -> str:
    return app.screen.query_one(Reflowed).render().plain


def shown(app: HtflApp) -> str:
    return str(app.screen.query_one("#compared", Static).content)


@asynccontextmanager
async def described(
    folder: Path, size: tuple[int, int] = (80, 24), **about: Any
) -> AsyncIterator[tuple[HtflApp, Pilot[Any]]]:
    """The app with the settings of a session open, and a marked session to compare with."""
    app = opened(folder.parent, folder.name, **about)
    async with driven(app, size) as pilot:
        await until(pilot, lambda: app.view.run.round == 12)
        app.mark_all([folder.parent / "third"])
        await until(pilot, lambda: len(app.view.compared) == 1)
        await pilot.press("D")
        await until(pilot, lambda: isinstance(app.screen, Describe))
        await pilot.pause()
        yield app, pilot


@pytest.mark.parametrize(("glyphs", "mark"), [("braille", "≠"), ("ascii", "!")])
async def test_a_difference_is_marked_and_comes_first(fork: Path, glyphs: Any, mark: str) -> None:
    async with described(fork, glyphs=glyphs) as (app, _):
        said = r"1 of \d+ settings differ from its parent main \(1 of 2\)\."
        assert re.fullmatch(said, shown(app))
        first, second, *_ = settings(app).splitlines()
        assert first.split() == [mark, "training.lr", "0.05", "there:", "0.01"]
        assert second.startswith("  ")


@pytest.mark.long
async def test_tab_compares_with_a_marked_session_and_words_filter(fork: Path) -> None:
    async with described(fork) as (app, pilot):
        await pilot.press("tab")
        assert re.fullmatch(r"1 of \d+ settings differ from third \(2 of 2\)\.", shown(app))
        assert settings(app).splitlines()[0].split()[1:] == ["seed", "0", "there:", "7"]
        await pilot.press(*"lr")
        assert [line.split()[0] for line in settings(app).splitlines()] == ["training.lr"]
        await pilot.press("q")
        assert settings(app) == "No setting fits these words."
        await pilot.press(*["backspace"] * 3, *"differs")
        assert [line.split()[1] for line in settings(app).splitlines()] == ["seed"]
        await pilot.press("escape")
        assert len(app.screen_stack) == 1


async def test_the_settings_fit_the_smallest_terminal(fork: Path) -> None:
    async with described(fork, (60, 16)) as (app, _):
        box = app.screen.query_one(".dialog").region
        assert box.right <= 60 and box.bottom <= 16
        assert app.screen.query_one(".hint").region.bottom < 16


# The page that explains a client: it follows the run, the round, and the client selected.


@pytest.fixture
def app(tmp_path: Path) -> HtflApp:
    """A session of four clients that stopped after 5 of 8 rounds. Client 1 has the lowest accuracy in round 5."""
    sessions.make(tmp_path / "main", rounds=5, of=8, clients=4, samples=sessions.samples(4), state="stopped")
    return opened(tmp_path)


async def at_why(app: HtflApp, pilot: Any) -> WhyDialog:
    await until(pilot, lambda: app.view.run.round == 5)
    await pilot.press("W")
    assert isinstance(app.screen, WhyDialog)
    return app.screen


def said(dialog: WhyDialog) -> str:
    found = dialog.found
    return found if isinstance(found, str) else found.findings[0].text


@pytest.mark.long
async def test_it_starts_with_the_worst_client_and_arrows_move_to_the_next(app: HtflApp) -> None:
    async with driven(app) as pilot:
        dialog = await at_why(app, pilot)
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


@pytest.mark.long
async def test_it_follows_the_round_shown_and_a_run_that_goes_on(app: HtflApp) -> None:
    async with driven(app) as pilot:
        dialog = await at_why(app, pilot)
        app.change(client=2)
        back, on = "left_square_bracket", "right_square_bracket"
        for key, round in ((back, 4), (back, 3), (on, 4), ("L", 5)):
            await pilot.press(key)
            await pilot.pause()
            assert f"{100 * sessions.accuracy(2, round):.1f} %" in said(dialog)
        with Store.open(app.view.run.folder) as store:
            store.append(sessions.record(6, 4))
            await until(pilot, lambda: f"{100 * sessions.accuracy(2, 6):.1f} %" in said(dialog))


async def test_nothing_is_computed_again_without_a_change(
    app: HtflApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[View]()

    def count(view: View) -> Any:
        calls.append(view)
        return found_in(view)

    monkeypatch.setattr(page, "found_in", count)
    async with driven(app) as pilot:
        await at_why(app, pilot)
        assert len(calls) == 1
        app.change(filter="cnn")
        app.change(run=replace(app.view.run, owner={"pid": 1}))
        assert len(calls) == 1
        app.change(client=by_accuracy(app.view)[2])
        assert len(calls) == 2


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
    """In place of a process: gives what the test says, when it says so."""

    started: list["Process"] = []  # noqa: RUF012 - the tests' own

    def __init__(self, job: str, folder: Path, data_dir: Path, round: int, about: int = 0) -> None:
        self.round, self.about, self.cancelled = round, about, False
        self.found: Any = None
        self.tell: Callable[[str], None] | None = None
        self._ended = threading.Event()
        self.started.append(self)

    def end(self, found: object) -> None:
        self.found = found
        self._ended.set()

    def cancel(self) -> None:
        self.cancelled = True
        self._ended.set()

    def result(self, tell: Callable[[str], None]) -> Any:
        self.tell = tell
        self._ended.wait(600)
        return None if self.cancelled else self.found


def matrix(process: Process) -> Confusion:
    return Confusion(process.about, process.round, ("0", "1"), ((3, 1), (0, 2)))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HtflApp:
    """Like `app`, with the checkpoints of rounds 3, 4, and 5, no process that computes, and the real panel of data."""
    monkeypatch.setattr("tui.app.host.Worker", Process)
    Process.started = []
    sessions.make(tmp_path / "main", rounds=5, of=8, clients=4, state="stopped", checkpoint_every=1)
    return opened(tmp_path, "main", "data")


def lines_of(dialog: WhyDialog) -> list[str]:
    return dialog._page.render().plain.split("\n")


@pytest.mark.long
async def test_m_shows_a_confusion_matrix_computed_once_for_each_client_and_round(kept: HtflApp) -> None:
    async with driven(kept, size=(60, 16)) as pilot:
        dialog = await at_why(kept, pilot)
        first, second = by_accuracy(kept.view)[:2]
        for number, key in enumerate(("m", "down", "left_square_bracket")):
            await pilot.press(key)
            await until(pilot, lambda number=number: len(Process.started) == number + 1)
            assert "is being computed" in " ".join(lines_of(dialog))
            Process.started[-1].end(matrix(Process.started[-1]))
            await until(pilot, lambda: "0     3 1   75.0 %" in lines_of(dialog))
            assert "1     · 2  100.0 %" in lines_of(dialog)
        await pilot.press("L", "up", "m")
        assert said(dialog).startswith(f"Client {first} ")
        await pilot.press("m")
        await pilot.pause()
        asked = [(each.about, each.round) for each in Process.started]
        assert asked == [(first, 5), (second, 5), (second, 4)]


def test_in_place_of_a_matrix_is_the_reason_why_there_is_none(tmp_path: Path) -> None:
    run = read(sessions.make(tmp_path / "main", rounds=5, clients=4, checkpoint_every=1))
    view = View(run, confusions=Confusions({(client_of(run, 1), 5): "There are no data."}))
    assert "Kept rounds: 3, 4, 5." in str(page.matrix_in(view, 1, None))
    assert page.matrix_in(view, 1, 5) == "There are no data."
    assert "is being computed" in str(page.matrix_in(view, 2, 5))


@pytest.mark.long
async def test_a_matrix_stays_at_its_round_while_the_run_goes_on(kept: HtflApp) -> None:
    async with driven(kept) as pilot:
        dialog = await at_why(kept, pilot)
        kept.change(client=2)
        await pilot.press("m")
        await until(pilot, lambda: len(Process.started) == 1)
        Process.started[0].end(matrix(Process.started[0]))
        with Store.open(kept.view.run.folder) as store:
            store.append(sessions.record(6, 4))
            await until(pilot, lambda: kept.view.run.round == 6)
        await until(pilot, lambda: "0     3 1   75.0 %" in lines_of(dialog))
        assert len(Process.started) == 1 and lines_of(dialog)[0].startswith("After round 5, client 2 ")


# Embeddings, CKA, and samples are computed in the background, one at a time, and none of them twice.


async def at_data_features(app: HtflApp, pilot: Any) -> None:
    await until(pilot, lambda: app.view.run.round == 5)
    await pilot.press("7")
    assert app.panel.id == "data"


@pytest.mark.long
async def test_t_computes_once_and_keys_go_on_meanwhile(kept: HtflApp) -> None:
    async with driven(kept) as pilot:
        await at_data_features(kept, pilot)
        await pilot.press("t")
        assert kept.waiting == ["t-SNE of round 5…"]
        await pilot.press("1", "7")
        Process.started[0].end(sessions.embedding(4, 5))
        await until(pilot, lambda: not kept.waiting)
        assert kept.view.embeddings.last(kept.view.run, 5) is Process.started[0].found
        await pilot.press("t", "left_square_bracket", "t")  # what is there is not computed again
        assert [each.round for each in Process.started] == [5, 4]
        await pilot.press("q")
    assert Process.started[1].cancelled  # with the app


@pytest.mark.long
async def test_t_again_stops_it_and_a_refusal_can_be_tried_again(kept: HtflApp) -> None:
    async with driven(kept) as pilot:
        await at_data_features(kept, pilot)
        await pilot.press("t", "t")
        await until(pilot, lambda: not kept.waiting)
        assert Process.started[0].cancelled and len(Process.started) == 1
        assert not kept.view.embeddings.found and kept.view.embeddings.under_way is None
        await pilot.press("t")
        Process.started[1].end("There are no data.")
        await until(pilot, lambda: not kept.waiting)
        assert kept.view.embeddings.refusal(kept.view.run, 5) == "There are no data."
        assert notices(kept) == ["There are no data."]
        await pilot.press("t")
        assert len(Process.started) == 3


def measurement(round: int) -> CkaMeasurement:
    return CkaMeasurement(round, sessions.LAYERS, sessions.cka(4, round))


async def at_round(app: HtflApp, pilot: Any, round: int) -> None:
    await until(pilot, lambda: app.view.run.round == 5)
    app.change(round=round)
    await pilot.press("3")


async def test_c_computes_cka_of_a_round_that_was_not_measured_and_panels_show_it(kept: HtflApp) -> None:
    async with driven(kept) as pilot:
        await at_round(kept, pilot, 4)
        assert kept.view.cka is None  # the run measured round 5 alone
        await pilot.press("c")
        assert kept.waiting == ["CKA of round 4…"]
        await until(pilot, lambda: Process.started[0].tell is not None)
        await asyncio.to_thread(Process.started[0].tell, "client 3 of 4")  # type: ignore[arg-type]
        assert kept.waiting == ["CKA of round 4: client 3 of 4…"]
        Process.started[0].end(measurement(4))
        await until(pilot, lambda: not kept.waiting)
        assert kept.view.cka is Process.started[0].found
        assert [each.round for each in kept.view.measured] == [4, 5]
        await pilot.press("c", "L", "c")
        assert len(Process.started) == 1
        said = "CKA of round {} is known already. Press 3 to see it."
        assert {each.message for each in kept._notifications} == {said.format(4), said.format(5)}


@pytest.mark.long
async def test_cka_of_a_round_whose_checkpoint_is_gone_is_refused(kept: HtflApp) -> None:
    async with driven(kept) as pilot:
        await at_round(kept, pilot, 2)
        assert 2 not in kept.view.run.checkpoints  # the last three are kept
        await pilot.press("c")
        assert not Process.started
        assert notices(kept) == [
            "The checkpoint of round 2 is gone. Press f to fork a session that computes this round again."
        ]


class Reading:
    """In place of a process that reads samples: has them at once."""

    asked: list[list[int]] = []  # noqa: RUF012 - the tests' own

    def __init__(self, job: str, folder: Path, data_dir: Path, *clients: int) -> None:
        self.asked.append(list(clients))

    def cancel(self) -> None: ...

    def result(self, tell: Any = None) -> tuple[ClientSamples, ...] | str | None:
        return tuple(ClientSamples(client, "tokens", ()) for client in self.asked[-1])


@pytest.mark.long
@pytest.mark.parametrize(("at_once", "asked"), [(4, [[0, 1, 2, 3]]), (3, [[0], [1]])])
async def test_few_clients_are_read_at_once_and_of_many_only_the_one_selected(
    kept: HtflApp, monkeypatch: pytest.MonkeyPatch, at_once: int, asked: list[list[int]]
) -> None:
    Reading.asked = []
    monkeypatch.setattr("tui.app.host.Worker", Reading)
    monkeypatch.setattr("tui.app.host.AT_ONCE", at_once)
    async with driven(kept) as pilot:
        await at_data_features(kept, pilot)
        for client in (0, 1):
            kept.change(client=client)
            kept.panel.show(kept.view)
            if kept.view.samples.at(kept.view.run, client) is None:
                await pilot.press("i")
            await until(pilot, lambda: not kept.waiting)
            assert kept.view.samples.at(kept.view.run, client) == ClientSamples(client, "tokens", ())
    assert Reading.asked == asked


def test_many_clients_give_fewer_images_each() -> None:
    assert [images_of(clients) for clients in (1, 10, 37, 100, 1_000)] == [40, 40, 40, 15, 2]
    assert images_of(10_000) == images_of(100)  # a hundred are looked at
