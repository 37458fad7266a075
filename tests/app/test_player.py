"""Films in the app: rounds one after the other, at a speed, with what they lack computed first."""

from pathlib import Path
from typing import Any

import pytest

from htfl_sim.analysis import CkaMeasurement, Embedding
from tests import sessions
from tests.app.driving import blanks, drive, until
from tests.metrics.test_representations import session
from tui.app.app import HtflApp
from tui.app.film_process import FilmProcess
from tui.app.launch_options import LaunchOptions


class Process:
    """In place of a process: gives frames of the rounds at once."""

    started: list[tuple[str, tuple[int, ...]]] = []  # noqa: RUF012 - the tests' own

    def __init__(self, folder: Path, data_dir: Path, of: str, images: int, rounds: Any) -> None:
        self.of, self.rounds = of, rounds
        self.started.append((of, tuple(rounds)))

    def cancel(self) -> None:
        """It has ended already."""

    def result(self, tell: Any) -> Any:
        if self.of == "tsne":
            return tuple(sessions.embedding(4, round) for round in self.rounds)
        return tuple(CkaMeasurement(round, sessions.LAYERS, sessions.cka(4, round)) for round in self.rounds)


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HtflApp:
    """Five rounds with CKA of round 4, and checkpoints of rounds 3, 4, and 5. A film has 100 rounds per second."""
    monkeypatch.setattr("tui.app.player.FilmProcess", Process)
    monkeypatch.setattr("tui.app.player.SPEEDS", (1.0, 100.0))
    Process.started = []
    sessions.make(tmp_path / "main", rounds=5, clients=4, checkpoint_every=1, cka_every=4)
    app = HtflApp(LaunchOptions(tmp_path, tmp_path / "data"), tmp_path / "main", panels=blanks())
    app.player._speed = 1
    return app


async def played(app: HtflApp, pilot: Any, panel: str) -> list[int]:
    """The rounds that F shows in this panel, up to its end."""
    await until(pilot, lambda: app.view.run.round == 5)
    app.show_panel(panel)
    shown = list[int]()
    show = app.navigation.show_round
    app.player._show_round = lambda round: (shown.append(round), show(round))[1]
    await pilot.press("F")
    await until(pilot, lambda: bool(shown) and app.view.shown == 5 and not app.waiting)
    return shown


def test_it_plays_all_rounds_from_the_first_and_ends_live(app: HtflApp) -> None:
    async def script(pilot: Any) -> None:
        assert await played(app, pilot, "live") == [1, 2, 3, 4, 5]
        assert app.view.round is None and not Process.started

    drive(app, script)


def test_in_data_it_computes_t_sne_of_the_kept_rounds_once_and_plays_these(app: HtflApp) -> None:
    async def script(pilot: Any) -> None:
        for _ in range(2):
            assert await played(app, pilot, "data") == [3, 4, 5]
        assert Process.started == [("tsne", (3, 4, 5))]
        assert [each.round for each in app.view.embeddings.of(app.view.run)] == [3, 4, 5]

    drive(app, script)


def test_in_similarity_it_computes_only_what_the_run_did_not_measure(app: HtflApp) -> None:
    async def script(pilot: Any) -> None:
        assert await played(app, pilot, "similarity") == [3, 4, 5]
        assert Process.started == [("cka", (3, 5))]
        assert [each.round for each in app.view.measured] == [3, 4, 5]

    drive(app, script)


def test_it_pauses_steps_and_goes_on_from_the_round_shown(app: HtflApp) -> None:
    async def script(pilot: Any) -> None:
        await until(pilot, lambda: app.view.run.round == 5)
        app.player.change_speed(-1)
        await pilot.press("F", "F", "right_square_bracket")
        assert app.view.shown == 2 and not app.waiting
        await pilot.press("F")
        assert app.view.shown == 2 and app.waiting == ["film of all rounds, 1 per s"]
        await pilot.press("greater_than_sign")
        await until(pilot, lambda: app.view.shown == 5 and not app.waiting)

    drive(app, script)


def test_a_session_without_a_round_has_no_film(tmp_path: Path) -> None:
    sessions.make(tmp_path / "new", rounds=0, of=3, state="stopped")
    app = HtflApp(LaunchOptions(tmp_path, tmp_path / "data"), tmp_path / "new", panels=blanks())

    async def script(pilot: Any) -> None:
        await until(pilot, lambda: bool(app.view.run.document))
        await pilot.press("F")
        assert [*app._notifications][-1].message == "No round is finished yet." and not app.waiting

    drive(app, script)


@pytest.mark.slow
def test_the_process_gives_the_frames_of_a_film(tmp_path: Path) -> None:
    folder, told = session(tmp_path / "s", "fedproto"), list[str]()
    found = FilmProcess(folder, tmp_path / "data", "tsne", 5, [1, 2]).result(told.append)
    assert isinstance(found, tuple) and [each.round for each in found] == [1, 2]
    assert all(isinstance(each, Embedding) for each in found)
    assert told == ["round 1, 1 of 2", "round 2, 2 of 2"]
    measured = FilmProcess(folder, tmp_path / "data", "cka", 5, [2]).result()
    assert isinstance(measured, tuple) and isinstance(measured[0], CkaMeasurement)
