"""Tags, notes, names, and removal from the app: of the session under the cursor of the list, or the one shown."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

import checkpoints
from checkpoints import Store
from htfl_sim.errors import ConfigError
from tests import sessions
from tests.app.driving import drive, notices, opened, shown, until
from tui.app.app import HtflApp
from tui.app.dialogs import upkeep
from tui.app.dialogs.upkeep import DeleteDialog, NoteDialog, RenameDialog
from tui.app.host import NO_SESSION
from tui.app.panels.session_list import SessionList


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions of three rounds: main, and its fork."""
    folder = tmp_path_factory.mktemp("two")
    sessions.make(folder / "main", rounds=3, clients=4)
    id = checkpoints.SessionReader(folder / "main").document["id"]
    sessions.make(folder / "fork", rounds=3, clients=4, parent=(folder / "main", id, 2))
    return folder


@pytest.fixture
def home(tmp_path: Path, two: Path) -> Path:
    return shutil.copytree(two, tmp_path / "home")


def in_app(home: Path, script: Any, first: str | None = "main") -> None:
    """Run a script in the app, with the real list of sessions."""
    app = opened(home, first, "sessions")

    async def run(pilot: Pilot[Any]) -> None:
        await shown(app, pilot, 3 if first else 0)
        await script(app, pilot)

    drive(app, run)


async def put_cursor(app: HtflApp, pilot: Pilot[Any], name: str, number: int = 2) -> SessionList:
    """The list of sessions, with the cursor on one of them."""
    app.show_panel("sessions")
    listed = app.panel.query_one(SessionList)
    await until(pilot, lambda: len(listed.rows) == number)
    listed.put_cursor(app.sessions_dir / name)
    await until(
        pilot, lambda: app.panel.under_cursor() is not None and listed.folder == app.sessions_dir / name
    )
    return listed


def part(app: HtflApp, name: str) -> str:
    return str(app.screen.query_one(f"#{name}", Static).content)


@pytest.mark.long
@pytest.mark.parametrize("panel", ["sessions", "live"])
def test_a_cursor_that_moves_while_the_list_is_drawn_stays_where_it_went(home: Path, panel: str) -> None:
    app = opened(home, "main", "live", "sessions")

    async def script(pilot: Pilot[Any]) -> None:
        app.show_panel(panel)
        listed = app.panel.query_one(SessionList)
        await until(pilot, lambda: len(listed.rows) == 2)
        await pilot.pause()
        listed.put_cursor(home / "main")
        app.panel.on_session_list_listed()  # type: ignore[attr-defined]
        listed.put_cursor(home / "fork")
        await pilot.pause()
        assert listed.folder == home / "fork"

    drive(app, script, size=(200, 60))


@pytest.mark.long
def test_tags_and_a_note_are_written_listed_and_found_by_the_filter(home: Path) -> None:
    checkpoints.mark(home / "main", ["paper"])
    checkpoints.mark(home / "fork", ["old"], note="was wrong")

    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        listed = await put_cursor(app, pilot, "fork")
        await pilot.press("N")
        assert isinstance(app.screen, NoteDialog)
        tags, note = app.screen.query(Input)
        assert (tags.value, note.value) == ("old", "was wrong")
        # What is typed replaces the line; down completes a word.
        await pilot.press(*"t3", "space", *"pa", "down")
        assert tags.value == "t3 paper"
        await pilot.press("tab", *"lr", "space", *"of", "space", *"FedProto", "enter")
        await until(pilot, lambda: checkpoints.marks_of(home / "fork") == (("paper", "t3"), "lr of FedProto"))

        def cells() -> tuple[object, ...]:
            return next(row.cells for row in listed.rows if row.key == home / "fork")

        await until(pilot, lambda: "paper, t3: lr of FedProto" in cells())
        for words, found in (("t3", ["fork"]), ("fproto", ["fork"]), ("paper", ["fork", "main"])):
            app.change(filter=words)
            assert sorted(row.key.name for row in listed.rows) == found  # type: ignore[union-attr]

    in_app(home, script)


@pytest.mark.long
def test_the_session_shown_is_marked_with_what_is_a_tag_and_a_note(home: Path) -> None:
    form = NoteDialog(home / "main", home)
    for values, fault in (
        ({"tags": "-x", "note": ""}, "'-x' is not a tag"),
        ({"tags": "", "note": "x" * 1001}, "this one has 1001."),
    ):
        with pytest.raises(ConfigError, match=fault):
            form.accept(values)

    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        await pilot.press("N", "tab", *"fine", "enter")
        await until(pilot, lambda: checkpoints.marks_of(home / "main") == ((), "fine"))
        await until(pilot, lambda: notices(app)[-1] == "Changed the tags and the note of main.")
        app.open_session(Path())
        await pilot.press("N")
        assert len(app.screen_stack) == 1 and notices(app)[-1] == NO_SESSION

    in_app(home, script)


@pytest.mark.long
def test_a_renamed_session_is_shown_and_marked_under_its_new_name(home: Path) -> None:
    form = RenameDialog(home / "main")
    for name, fault in (("fork", "is there already. Choose another name."), ("a/b", "not a session name")):
        with pytest.raises(ConfigError, match=fault):
            form.accept({"name": name})

    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        app.mark_all((home / "fork", home / "main"))
        listed = await put_cursor(app, pilot, "main")
        await pilot.press("R", *"best", "enter")
        await until(pilot, lambda: app.view.run.folder == home / "best" and app.view.run.round == 3)
        assert app.view.marked == (home / "fork", home / "best")
        await until(pilot, lambda: {row.key for row in listed.rows} == {home / "best", home / "fork"})
        assert notices(app)[-1] == "Renamed main to best."

    in_app(home, script)


@pytest.mark.long
def test_a_session_is_deleted_only_after_its_name_is_typed(home: Path) -> None:
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
        assert app.view.marked == () and notices(app)[-1] == "Deleted main."
        assert checkpoints.verify(home / "fork") == []

    in_app(home, script)


@pytest.mark.long
def test_of_marked_sessions_all_are_deleted_up_to_one_that_cannot_be(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = upkeep.sessions.remove

    def guarded(folder: Path) -> Path:
        if folder.name == "other":
            raise ConfigError("other stays.")
        return remove(folder)

    monkeypatch.setattr(upkeep.sessions, "remove", guarded)
    for name in ("other", "third"):
        sessions.make(home / name, rounds=3, clients=4)

    async def script(app: HtflApp, pilot: Pilot[Any]) -> None:
        listed = await put_cursor(app, pilot, "fork", 4)
        app.mark_all((home / "main", home / "fork", home / "other", home / "third"))
        await pilot.press("X")
        about = "All rounds and checkpoints of main, fork, other, 1 more are"
        await until(pilot, lambda: part(app, "remark").startswith(about))
        assert "Its fork stays" not in part(app, "remark")  # it is deleted too
        await pilot.press(*"main", "enter")
        await until(pilot, lambda: part(app, "fault") == "Type 4 sessions to delete them, or press esc.")
        app.screen.query_one(Input).value = "4 sessions"
        await pilot.press("enter")
        await until(pilot, lambda: {row.key for row in listed.rows} == {home / "other", home / "third"})
        assert app.view.marked == (home / "other", home / "third")
        assert notices(app)[-2:] == ["Deleted main, fork.", "other stays."]

    in_app(home, script)


def test_a_session_that_a_process_runs_keeps_its_name_and_stays(home: Path) -> None:
    with Store.open(home / "main"):
        for form, word in ((RenameDialog(home / "main"), "best"), (DeleteDialog([home / "main"]), "main")):
            with pytest.raises(checkpoints.Locked, match="is run by process"):
                form.accept({"name": word})
