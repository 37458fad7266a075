"""Tags, notes, names, and removal from the app: of the session under the cursor of the list, or the one shown."""

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

import checkpoints
from checkpoints import Store
from htfl_sim.errors import ConfigError
from tests import sessions
from tests.app.driving import blanks, drive, until
from tui.app.app import HtflApp
from tui.app.dialogs import upkeep
from tui.app.dialogs.upkeep import DeleteDialog, NoteDialog, RenameDialog
from tui.app.host import NO_SESSION
from tui.app.panels import PANELS
from tui.app.panels.session_list import SessionList
from tui.app.runs import LaunchOptions


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("main", "other"):
        sessions.make(tmp_path / name, rounds=3, clients=4)
    return tmp_path


def in_app(home: Path, script: Any, first: Path | None) -> None:
    """Run a script in the app, with the real list of sessions."""
    panels = [PANELS["sessions"]("sessions") if each.id == "sessions" else each for each in blanks()]
    app = HtflApp(LaunchOptions(home, home / "data"), first, panels=panels)

    async def run(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: first is None or app.view.run.round == 3)
        await pilot.pause()
        await script(app, pilot)

    drive(app, run)


async def put_cursor(app: HtflApp, pilot: Pilot[Any], name: str, number: int = 2) -> SessionList:
    """The list of sessions, with the cursor on one of them."""
    app.show_panel("sessions")
    shown = app.panel.query_one(SessionList)
    await until(pilot, lambda: len(shown.rows) == number)
    shown.put_cursor(app.sessions_dir / name)
    await until(
        pilot, lambda: app.panel.under_cursor() is not None and shown.folder == app.sessions_dir / name
    )
    return shown


def cells(shown: SessionList, name: str) -> tuple[object, ...]:
    return next(row.cells for row in shown.rows if isinstance(row.key, Path) and row.key.name == name)


def said(app: HtflApp) -> str:
    return [*app._notifications][-1].message


@pytest.mark.parametrize("panel", ["sessions", "live"])
def test_a_cursor_that_moves_while_the_list_is_drawn_stays_where_it_went(home: Path, panel: str) -> None:
    app = HtflApp(LaunchOptions(home, home / "data"), home / "main")

    async def script(pilot: Pilot[Any]) -> None:
        app.show_panel(panel)
        shown = app.panel.query_one(SessionList)
        await until(pilot, lambda: len(shown.rows) == 2)
        await pilot.pause()
        shown.put_cursor(home / "main")
        app.panel.on_session_list_listed()  # type: ignore[attr-defined]
        shown.put_cursor(home / "other")
        await pilot.pause()
        assert shown.folder == home / "other"

    drive(app, script, size=(200, 60))


def test_tags_and_a_note_are_written_listed_and_found_by_the_filter(home: Path) -> None:
    checkpoints.mark(home / "main", ["paper"])
    checkpoints.mark(home / "other", ["old"], note="was wrong")

    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        shown = await put_cursor(app, pilot, "other")
        await pilot.press("N")
        assert isinstance(app.screen, NoteDialog)
        tags, note = app.screen.query(Input)
        assert (tags.value, note.value) == ("old", "was wrong")
        await pilot.press(
            *"t3", "space", *"pa", "down"
        )  # what is typed replaces the line; down completes a word
        assert tags.value == "t3 paper"
        await pilot.press("tab", *"lr", "space", *"of", "space", *"FedProto", "enter")
        await until(
            pilot, lambda: checkpoints.marks_of(home / "other") == (("paper", "t3"), "lr of FedProto")
        )
        await until(pilot, lambda: "paper, t3: lr of FedProto" in cells(shown, "other"))
        for words, found in (("t3", ["other"]), ("fproto", ["other"]), ("paper", ["main", "other"])):
            app.change(filter=words)
            assert sorted(row.key.name for row in shown.rows) == found  # type: ignore[union-attr]

    in_app(home, script, home / "main")


def test_elsewhere_the_session_shown_is_marked(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        await pilot.press("N", "tab", *"fine", "enter")
        await until(pilot, lambda: checkpoints.marks_of(home / "main") == ((), "fine"))
        await until(pilot, lambda: said(app) == "Changed the tags and the note of main.")

    in_app(home, script, home / "main")


@pytest.mark.parametrize(
    ("keys", "fault"), [([*"-x"], "'-x' is not a tag"), (["tab", *["x"] * 1001], "this one has 1001.")]
)
def test_what_is_no_tag_and_no_note_is_refused_in_the_form(keys: list[str], fault: str, home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        await pilot.press("N")
        line = app.screen.query(Input).first() if keys[0] != "tab" else app.screen.query(Input).last()
        line.value = "".join(key for key in keys if key != "tab")
        await pilot.press("enter")
        await until(pilot, lambda: fault in str(app.screen.query_one("#fault").render()))
        assert checkpoints.marks_of(home / "main") == ((), "")

    in_app(home, script, home / "main")


def test_without_a_session_a_notice_says_what_to_do(home: Path) -> None:
    for name in ("main", "other"):
        (home / name).rename(home.parent / name)

    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        await pilot.press("N")
        assert len(app.screen_stack) == 1
        assert said(app) == NO_SESSION

    in_app(home, script, None)


def part(app: HtflApp, name: str) -> str:
    return str(app.screen.query_one(f"#{name}", Static).content)


def test_a_renamed_session_is_shown_and_marked_under_its_new_name(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        app.mark_all((home / "other", home / "main"))
        shown = await put_cursor(app, pilot, "main")
        await pilot.press("R")
        assert isinstance(app.screen, RenameDialog)
        await pilot.press(*"best", "enter")
        await until(pilot, lambda: app.view.run.folder == home / "best" and app.view.run.round == 3)
        assert app.view.marked == (home / "other", home / "best")
        await until(pilot, lambda: {row.key for row in shown.rows} == {home / "best", home / "other"})
        assert said(app) == "Renamed main to best."

    in_app(home, script, home / "main")


@pytest.mark.parametrize(
    ("name", "fault"),
    [("other", "is there already. Choose another name."), ("a/b", "'a/b' is not a session name")],
)
def test_a_name_that_is_taken_or_invalid_is_refused_in_the_form(name: str, fault: str, home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        await pilot.press("R")
        app.screen.query_one(Input).value = name
        await pilot.press("enter")
        await until(pilot, lambda: fault in part(app, "fault"))
        assert (home / "main").is_dir() and (home / "other").is_dir()

    in_app(home, script, home / "main")


def test_a_session_is_deleted_only_after_its_name_is_typed(home: Path) -> None:
    id = checkpoints.SessionReader(home / "main").document["id"]
    sessions.make(home / "fork", rounds=3, clients=4, parent=(home / "main", id, 2))

    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        app.mark_all((home / "main",))
        await pilot.press("X")
        assert isinstance(app.screen, DeleteDialog)
        await until(pilot, lambda: "Its fork stays complete: fork." in part(app, "remark"))
        await pilot.press("enter")
        await until(pilot, lambda: part(app, "fault") == "Type main to delete it, or press esc.")
        assert (home / "main").is_dir()
        await pilot.press(*"main", "enter")
        await until(pilot, lambda: not (home / "main").exists())
        await until(pilot, lambda: app.view.run.name == "")
        assert app.view.marked == () and said(app) == "Deleted main."
        assert checkpoints.verify(home / "fork") == []

    in_app(home, script, home / "main")


def test_of_marked_sessions_all_are_deleted_after_their_number_is_typed(home: Path) -> None:
    id = checkpoints.SessionReader(home / "main").document["id"]
    sessions.make(home / "fork", rounds=3, clients=4, parent=(home / "main", id, 2))

    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        shown = await put_cursor(app, pilot, "fork", 3)
        app.mark_all((home / "main", home / "fork"))
        await pilot.press("X")
        assert isinstance(app.screen, DeleteDialog)
        await until(
            pilot, lambda: part(app, "remark").startswith("All rounds and checkpoints of main, fork are")
        )
        assert "Its fork stays" not in part(app, "remark")
        await pilot.press(*"main", "enter")
        await until(pilot, lambda: part(app, "fault") == "Type 2 sessions to delete them, or press esc.")
        app.screen.query_one(Input).value = "2 sessions"
        await pilot.press("enter")
        await until(pilot, lambda: {row.key for row in shown.rows} == {home / "other"})
        assert app.view.marked == () and said(app) == "Deleted main, fork."

    in_app(home, script, home / "main")


def test_a_marked_session_that_cannot_be_deleted_leaves_those_after_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove(folder: Path) -> Path:
        if folder.name == "other":
            raise ConfigError("other stays.")
        return checkpoints_remove(folder)

    checkpoints_remove = upkeep.sessions.remove
    monkeypatch.setattr(upkeep.sessions, "remove", remove)
    sessions.make(home / "third", rounds=3, clients=4)

    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        shown = await put_cursor(app, pilot, "main", 3)
        app.mark_all((home / "main", home / "other", home / "third"))
        await pilot.press("X")
        app.screen.query_one(Input).value = "3 sessions"
        await pilot.press("enter")
        await until(pilot, lambda: {row.key for row in shown.rows} == {home / "other", home / "third"})
        assert app.view.marked == (home / "other", home / "third") and said(app) == "other stays."

    in_app(home, script, home / "main")


def test_a_session_that_a_process_runs_keeps_its_name_and_stays(home: Path) -> None:
    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        for key, name in (("R", "best"), ("X", "main")):
            await pilot.press(key)
            await pilot.press(*name, "enter")
            await until(pilot, lambda: "is run by process" in part(app, "fault"))
            await pilot.press("escape")
        assert (home / "main").is_dir()

    with Store.open(home / "main"):
        in_app(home, script, home / "main")
