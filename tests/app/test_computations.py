"""Embeddings, CKA, and samples are computed in the background, one at a time, and none of them twice."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simulator.results.analysis.ledger import CkaMeasurement
from simulator.results.inspection.client_samples import ClientSamples, Embedding
from tests import sessions
from tests.app.driving import drive, notices, opened, until
from tui.app.app import HtflApp
from tui.app.workers import images_of


class Process:
    """In place of a process: gives what the test says, when it says so."""

    started: list["Process"] = []  # noqa: RUF012 - the tests' own

    def __init__(self, job: str, folder: Path, data_dir: Path, round: int, images: int = 0) -> None:
        self.round, self.cancelled = round, False
        self.found: Embedding | CkaMeasurement | str | None = None
        self.tell: Callable[[str], None] | None = None
        self._ended = threading.Event()
        self.started.append(self)

    def end(self, found: Embedding | CkaMeasurement | str) -> None:
        self.found = found
        self._ended.set()

    def cancel(self) -> None:
        self.cancelled = True
        self._ended.set()

    def result(self, tell: Callable[[str], None]) -> Embedding | CkaMeasurement | str | None:
        self.tell = tell
        self._ended.wait(600)
        return None if self.cancelled else self.found


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HtflApp:
    monkeypatch.setattr("tui.app.host.Worker", Process)
    Process.started = []
    sessions.make(tmp_path / "main", rounds=5, clients=4, checkpoint_every=1)
    return opened(tmp_path, "main", "data")


async def at_data_features(app: HtflApp, pilot: Any) -> None:
    await until(pilot, lambda: app.view.run.round == 5)
    await pilot.press("7")
    assert app.panel.id == "data"


@pytest.mark.long
def test_t_computes_once_and_keys_go_on_meanwhile(app: HtflApp) -> None:
    async def script(pilot: Any) -> None:
        await at_data_features(app, pilot)
        await pilot.press("t")
        assert app.waiting == ["t-SNE of round 5…"]
        await pilot.press("1", "7")
        Process.started[0].end(sessions.embedding(4, 5))
        await until(pilot, lambda: not app.waiting)
        assert app.view.embeddings.last(app.view.run, 5) is Process.started[0].found
        await pilot.press("t", "left_square_bracket", "t")  # what is there is not computed again
        assert [each.round for each in Process.started] == [5, 4]
        await pilot.press("q")

    drive(app, script)
    assert Process.started[1].cancelled  # with the app


@pytest.mark.long
def test_t_again_stops_it_and_a_refusal_can_be_tried_again(app: HtflApp) -> None:
    async def script(pilot: Any) -> None:
        await at_data_features(app, pilot)
        await pilot.press("t", "t")
        await until(pilot, lambda: not app.waiting)
        assert Process.started[0].cancelled and len(Process.started) == 1
        assert not app.view.embeddings.found and app.view.embeddings.under_way is None
        await pilot.press("t")
        Process.started[1].end("There are no data.")
        await until(pilot, lambda: not app.waiting)
        assert app.view.embeddings.refusal(app.view.run, 5) == "There are no data."
        assert notices(app) == ["There are no data."]
        await pilot.press("t")
        assert len(Process.started) == 3

    drive(app, script)


def measurement(round: int) -> CkaMeasurement:
    return CkaMeasurement(round, sessions.LAYERS, sessions.cka(4, round))


async def at_round(app: HtflApp, pilot: Any, round: int) -> None:
    await until(pilot, lambda: app.view.run.round == 5)
    app.change(round=round)
    await pilot.press("3")


def test_c_computes_cka_of_a_round_that_was_not_measured_and_panels_show_it(app: HtflApp) -> None:
    async def script(pilot: Any) -> None:
        await at_round(app, pilot, 4)
        assert app.view.cka is None  # the run measured round 5 alone
        await pilot.press("c")
        assert app.waiting == ["CKA of round 4…"]
        await until(pilot, lambda: Process.started[0].tell is not None)
        await asyncio.to_thread(Process.started[0].tell, "client 3 of 4")  # type: ignore[arg-type]
        assert app.waiting == ["CKA of round 4: client 3 of 4…"]
        Process.started[0].end(measurement(4))
        await until(pilot, lambda: not app.waiting)
        assert app.view.cka is Process.started[0].found
        assert [each.round for each in app.view.measured] == [4, 5]
        await pilot.press("c", "L", "c")
        assert len(Process.started) == 1
        said = "CKA of round {} is known already. Press 3 to see it."
        assert {each.message for each in app._notifications} == {said.format(4), said.format(5)}

    drive(app, script)


@pytest.mark.long
def test_cka_of_a_round_whose_checkpoint_is_gone_is_refused(app: HtflApp) -> None:
    async def script(pilot: Any) -> None:
        await at_round(app, pilot, 2)
        assert 2 not in app.view.run.checkpoints  # the last three are kept
        await pilot.press("c")
        assert not Process.started
        assert notices(app) == [
            "The checkpoint of round 2 is gone. Press f to fork a session that computes this round again."
        ]

    drive(app, script)


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
def test_few_clients_are_read_at_once_and_of_many_only_the_one_selected(
    app: HtflApp, monkeypatch: pytest.MonkeyPatch, at_once: int, asked: list[list[int]]
) -> None:
    Reading.asked = []
    monkeypatch.setattr("tui.app.host.Worker", Reading)
    monkeypatch.setattr("tui.app.host.AT_ONCE", at_once)

    async def script(pilot: Any) -> None:
        await at_data_features(app, pilot)
        for client in (0, 1):
            app.change(client=client)
            app.panel.show(app.view)
            if app.view.samples.of(app.view.run, client) is None:
                await pilot.press("i")
            await until(pilot, lambda: not app.waiting)
            assert app.view.samples.of(app.view.run, client) == ClientSamples(client, "tokens", ())

    drive(app, script)
    assert Reading.asked == asked


def test_many_clients_give_fewer_images_each() -> None:
    assert [images_of(clients) for clients in (1, 10, 37, 100, 1_000)] == [40, 40, 40, 15, 2]
    assert images_of(10_000) == images_of(100)  # a hundred are looked at
