"""Dialogs for the sessions of a folder: showing one, its tags, note, and name, and removing it."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from htfl_sim import sessions
from htfl_sim.errors import ConfigError, DiskError, SessionUnreadable
from htfl_sim.folders import (
    checked_note,
    checked_tag,
    is_group,
    name_of,
    session_folder,
    session_names,
    tags_in,
)
from simulator.studies.board import StudySummary
from tui.app.dialogs.form import Field, Form, Known, form_hint
from tui.app.host import NO_SESSION, Host
from tui.common.errors import explain
from tui.common.formatting import counted, size, some

Wish = tuple[tuple[str, ...], str]
"""Tags and a note."""
Edited = tuple[dict[Path, Path | None], str, str]
"""The folders that changed, with what they are now, None: gone; what was done; and why the rest was not."""


class NoteDialog(Form[Wish]):
    """Returns the tags and the note that a session is to have."""

    hint = form_hint("save")

    def __init__(self, folder: Path, library: Path) -> None:
        self._library = library
        marks = sessions.Marks()
        with suppress(SessionUnreadable, DiskError):  # what cannot be read is replaced
            marks = sessions.marks(folder)
        tags = " ".join(marks.tags), "words, such as paper"
        super().__init__(
            f"Tags and note of {name_of(folder)}",
            [
                Field("tags", *tags, lambda: self._tags, words=True),
                Field("note", marks.note, "one line, such as the lr of the paper"),
            ],
        )

    @cached_property
    def _tags(self) -> Sequence[Known]:
        return [(tag, counted(number, "session")) for tag, number in tags_in(self._library).items()]

    def accept(self, values: dict[str, str]) -> Wish:
        return tuple(map(checked_tag, values["tags"].split())), checked_note(values["note"])


class OfSessions(Form[str]):
    """A form that reads what depends on sessions, and says it once it is known."""

    def __init__(self, folders: Sequence[Path], title: str, field: Field) -> None:
        super().__init__(title, [field])
        self._folders = folders
        self._about = "Looking for forks and studies that depend on it…"

    def begin(self) -> None:
        super().begin()

        def tell(about: str) -> None:
            self._about = about
            self._remark()

        self.work(lambda: self.about(list(map(sessions.dependents, self._folders))), tell, tell)

    def about(self, found: Sequence[sessions.Dependents]) -> str:
        """The text under the field, by what depends on each session, on a thread."""
        raise NotImplementedError

    def remark(self, values: dict[str, str]) -> str:
        return self._about


class RenameDialog(OfSessions):
    hint = form_hint("rename")

    def __init__(self, folder: Path) -> None:
        super().__init__([folder], f"Rename {name_of(folder)}", Field("name", folder.name, label="new name"))

    def about(self, found: Sequence[sessions.Dependents]) -> str:
        (own,) = found
        if own.users or own.branches:
            return f"Studies refer to it by its name: {some((*own.users, *own.branches))}. It keeps its name."
        forks = f" Its forks find it by its id: {some(own.forks)}." if own.forks else ""
        return f"Its rounds and checkpoints stay as they are.{forks}"

    def accept(self, values: dict[str, str]) -> str:
        sessions.check_renamable(self._folders[0], values["name"])
        return values["name"]


class DeleteDialog(OfSessions):
    """Returns the name of a session that is to be deleted, or the number of several, once it is typed."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._word = name_of(folders[0]) if len(folders) == 1 else f"{len(folders)} sessions"
        self.hint = f"type {'the name' if len(folders) == 1 else self._word} · enter delete · esc cancel"
        field = Field("name", placeholder=f"type {self._word} to delete {_it(folders)}")
        super().__init__(folders, f"Delete {self._word} for good", field)

    def about(self, found: Sequence[sessions.Dependents]) -> str:
        names, bytes = list(map(name_of, self._folders)), sum(map(sessions.size_on_disk, self._folders))
        of = f" of {some(names)}" if len(names) > 1 else ""
        told = [f"All rounds and checkpoints{of} are deleted, {size(bytes)}."]
        if forks := _others((each.forks for each in found), names):
            stay = "Its fork stays" if len(forks) == 1 else f"Its {len(forks)} forks stay"
            told.append(f"{stay} complete: {some(forks)}.")
        if users := _others((each.users for each in found), ()):
            told.append(f"Used by {some(users)}: the study computes this again.")
        if branches := _others((each.branches for each in found), ()):
            told.append(f"{some(branches)} cannot start without {_it(names)}.")
        for study in dict.fromkeys(folder.parent for folder in self._folders if is_group(folder.parent)):
            points = "this point" if len(names) == 1 else "its points"
            told.append(f"The study {study.name} computes {points} again.")
        return " ".join(told)

    def accept(self, values: dict[str, str]) -> str:
        if values["name"] != self._word:
            raise ConfigError(f"Type {self._word} to delete {_it(self._folders)}, or press esc.")
        for folder in self._folders:
            sessions.check_idle(folder)
        return self._word


def edit(host: Host, what: str) -> None:
    """Change the session under the cursor of a list, or the one shown: 'note' or 'rename'. 'delete': see `doomed`."""
    if what == "delete":
        if folders := doomed(host):
            ask = DeleteDialog(folders)
            _ask(host, ask, folders[0], lambda word: f"deleting {word}…", lambda _: _remove(folders))
        return
    if (folder := chosen(host)) is None:
        return
    name = name_of(folder)

    def write(wish: Wish) -> Edited:
        sessions.mark(folder, *wish)  # the owner of a running session writes them
        return {folder: folder}, f"Changed the tags and the note of {name}.", ""

    def rename(other: str) -> Edited:
        now = sessions.rename(folder, other)
        return {folder: now}, f"Renamed {name} to {now.name}.", ""

    if what == "note":
        note = NoteDialog(folder, host.view.library)
        _ask(host, note, folder, lambda _: f"writing the note of {name}…", write)
    else:
        _ask(host, RenameDialog(folder), folder, lambda _: "", rename)


def _ask(
    host: Host, dialog: Form[Any], folder: Path, doing: Callable[[Any], str], work: Callable[[Any], Edited]
) -> None:
    """Ask for a change, make it on a thread, and follow it wherever the app shows a session."""

    def done(found: Edited) -> None:
        places, said, fault = found
        for before, now in places.items():
            host.session_changed(before, now)
        if said:
            host.say(said)
        if fault:
            host.say(fault, "error")

    def begin(given: Any) -> None:
        host.background.run(f"edit {folder}", doing(given), lambda: work(given), done)

    host.ask(dialog, begin)


def _remove(folders: Sequence[Path]) -> Edited:
    """Delete sessions. If one cannot be deleted, those after it stay."""
    removed, fault = list[Path](), ""
    for folder in folders:
        try:
            sessions.remove(folder)
        except Exception as error:  # those before are gone
            fault = explain(error)[0]
            break
        removed.append(folder)
    said = f"Deleted {some(list(map(name_of, removed)))}." if removed else ""
    return dict.fromkeys(removed), said, fault


def doomed(host: Host) -> Sequence[Path]:
    """The sessions to delete: the one that `chosen` finds, or all marked ones if it is marked in the list."""
    marked = [Path(each.path) for each in host.panel.steered() if not isinstance(each, StudySummary)]
    return marked if len(marked) > 1 else [each for each in [chosen(host)] if each is not None]


def chosen(host: Host) -> Path | None:
    """The session under the cursor of a list, or the one shown. Without any, a notice says so."""
    run = host.view.run
    one = host.panel.under_cursor()
    if isinstance(one, StudySummary):
        panel = host.panel
        only = f"{one.name} is a study. Choose one of its sessions."
        host.say(only, "warning", lambda: panel.under_cursor() == one)
    elif one is not None:
        return Path(one.path)
    elif run.name:
        return run.folder
    else:
        host.say(NO_SESSION, holds=lambda: not host.view.run.name)
    return None


def _it(folders: Sequence[object]) -> str:
    return "it" if len(folders) == 1 else "them"


def _others(names: Iterable[Sequence[str]], without: Sequence[str]) -> list[str]:
    """Each name once, and none of `without`."""
    return list(dict.fromkeys(name for some in names for name in some if name not in without))


class AttachDialog(Form[Path]):
    """Returns the folder of a session, by its name in the sessions folder or by path."""

    hint = form_hint("open")

    def __init__(self, folder: Path, known: Callable[[], Sequence[Known]] | None = None) -> None:
        """`known`: the sessions to choose from; by default, those of the folder."""
        self._folder = folder
        super().__init__(
            "Show a session", [Field("session", known=known or self._known, label="name or path")]
        )

    def accept(self, values: dict[str, str]) -> Path:
        folder = session_folder(values["session"], self._folder)
        sessions.state(folder)  # raises for an unknown session
        return folder

    def _known(self) -> Sequence[Known]:
        found = []
        for name in session_names(self._folder):
            state = "damaged"
            with suppress(SessionUnreadable, DiskError):
                state = sessions.state(self._folder / name)
            found.append((name, state))
        return found
