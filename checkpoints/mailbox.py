"""Commands to a session, from any process: one sealed file each in `control/inbox`, answered in `control/done`.

An id is applied at most once. It begins with a number: one more than the greatest that can be seen, so that commands
are taken in the order in which they were posted, whatever the clocks say, and one that is gone leaves a gap.
"""

import getpass
import os
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from checkpoints import files, layout, limits, lock
from checkpoints.files import Damaged, DiskError
from checkpoints.layout import CONTROL, DONE, EARLIER_POSTED, INBOX, KIND, POSTED
from checkpoints.lock import now
from checkpoints.reader import read_document
from checkpoints.schema import Json, Natural, Spelled, Text, Within, fields_in, seal, shown, unseal

READ_AT_ONCE = 1_000
"""Commands looked at in one go; of more, the oldest come first."""
ANSWERS_KEPT = 200
_ABANDONED_SECONDS = 60.0

_FILE = re.compile(r"([0-9]{20}-[0-9a-f]{8})\.(json|tmp)")

Outcome = Literal["applied", "refused"]
Document = TypeVar("Document", "Command", "Answer")
MOST_POSTED = 10**19
"""Numbers from here on are a stranger's: the next one would not fit into an id."""


@dataclass(frozen=True)
class Command:
    """What somebody asks of a session; `by` is "user@host pid"."""

    id: str
    kind: Annotated[str, Spelled(KIND)]
    arguments: Json
    at: Text
    by: Text


@dataclass(frozen=True)
class Answer:
    """What became of a command, and the round at whose end it took hold; `kind` is "" if it was unreadable."""

    id: str
    kind: Text
    outcome: Outcome
    message: str
    round: int | None
    at: Text


@dataclass(frozen=True)
class Posted:
    """Which numbers have been given one after the other; written by whoever posts, after the command itself."""

    first: Natural
    last: Annotated[int, Within(ge=0, lt=MOST_POSTED)]


def post(folder: Path, kind: str, arguments: Json | None = None) -> Command:
    """Leave a command for a session's owner, or a group's, durable when this returns; needs no lock.

    Raises SessionUnreadable, DiskError, and ValueError for an invalid kind or arguments that are no JSON or over 64 KB.
    """
    if not layout.is_group(folder):
        read_document(folder)
    posted = _posted(folder)
    number = 1 + max([posted.last, *_numbers(folder, INBOX), *_numbers(folder, DONE)])
    id = f"{number:020d}-{secrets.token_hex(4)}"
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        user = str(os.getuid())
    command = Command(id, kind, arguments or {}, now(), f"{user}@{lock.host()} {os.getpid()}")
    data = seal(asdict(command), limits.COMMAND, f"command '{kind}'")
    if not KIND.fullmatch(kind):
        raise ValueError(f"{kind!r} is not the name of a command: a word")
    for name in (CONTROL, INBOX):
        files.make_folder(folder, name)
    files.replace(folder, f"{INBOX}/{id}.json", data, scratch_name=f"{INBOX}/{id}.tmp")
    files.sync_folder(folder, INBOX)
    if _posted(folder).last < number:
        # Numbers that came about otherwise, by the clock of an earlier version, are no sequence.
        with suppress(Damaged, DiskError):  # the command itself is there
            _note_posted(folder, Posted(posted.first if number == posted.last + 1 else number, number))
    return command


def answer(folder: Path, id: str) -> Answer | None:
    """What became of a command; None: not answered yet, or 200 answers ago. Raises Damaged, DiskError."""
    if file_id(f"{id}.json") is None:
        raise ValueError(f"{id!r} is not the id of a command")
    with suppress(FileNotFoundError):
        return read_answer(folder, id)
    return None


def pending(folder: Path) -> list[Command]:
    """The readable commands that wait for an answer, in order of id; needs no lock."""
    found = []
    ids = sorted(filter(None, map(file_id, files.listed(folder, INBOX))))
    for id in ids[:READ_AT_ONCE]:
        with suppress(FileNotFoundError, Damaged, DiskError):
            found.append(read_command(folder, id))
    return found


def missing(folder: Path, applied: Iterable[str] = ()) -> list[int]:
    """The numbers of commands that were posted and are neither waiting nor answered nor `applied`: they are gone."""
    posted = _posted(folder)
    # In this order, which is that of a command's own way.
    seen = _numbers(folder, INBOX) | {int(id[:20]) for id in applied}
    answered = _numbers(folder, DONE)
    oldest = min(answered) if len(answered) >= ANSWERS_KEPT else 0
    first = max(posted.first, oldest, posted.last - ANSWERS_KEPT)
    return sorted({*range(first, posted.last + 1)} - seen - answered)


def lost_control(folder: Path) -> str | None:
    """Says that `control` was removed or emptied after commands had been posted; None if it was not."""
    posted = _posted(folder)
    first, last = posted.first, posted.last
    if first > last or _numbers(folder, INBOX) | _numbers(folder, DONE):
        return None
    numbers = f"Commands {first} to {last} were" if last > first else f"Command {last} was"
    return f"{CONTROL} was removed or emptied. {numbers} posted; those that waited are lost."


def file_id(name: str, ending: str = "json") -> str | None:
    """The id a file name stands for, or None when it is no such name."""
    match = _FILE.fullmatch(name)
    return match[1] if match and match[2] == ending else None


def read_command(root: Path, id: str) -> Command:
    """A command in the inbox; raises FileNotFoundError, Damaged or DiskError."""
    return _read(Command, root, INBOX, id, "a command")


def read_answer(root: Path, id: str) -> Answer:
    """An answer; raises FileNotFoundError, Damaged or DiskError."""
    found = _read(Answer, root, DONE, id, "an answer to a command")
    return replace(found, message=shown(found.message))


def _read(kind: type[Document], root: Path, box: str, id: str, what: str) -> Document:
    where = f"{box}/{id}.json"
    document = unseal(files.read(root, where, cap=limits.COMMAND), where)
    found = kind(**fields_in(kind, document, f"{where} is not {what}"))
    if found.id != id:
        raise Damaged(f"{where} is not {what}: it has another id.")
    return found


class Inbox:
    """The owner's side: hands out each command once, and answers it."""

    def __init__(self, root: Path, warn: Callable[[str], None], may: Callable[[], None]) -> None:
        """`warn` is told of what is in the inbox and is no command; `may` is asked before each change."""
        self._root = root
        self._warn = warn
        self._may = may
        self._seen: set[str] = set()
        self._readable = True

    def settle(self, applied: Collection[str], round: int) -> None:
        """When a session is opened: answer what its checkpoint of `round` had applied; clear up after posters."""
        answered = files.names(self._root, DONE)
        for name in sorted(files.names(self._root, INBOX)):
            if (id := file_id(name)) in applied and id is not None and name not in answered:
                kind = ""
                with suppress(FileNotFoundError, Damaged, DiskError):
                    kind = read_command(self._root, id).kind
                self.answer(Answer(id, kind, "applied", "", round, now()))
            elif file_id(name, "tmp"):
                found = files.look(self._root, f"{INBOX}/{name}")
                if found is not None and time.time() - found.st_mtime > _ABANDONED_SECONDS:
                    self._remove(name)
        said = lost_control(self._root)
        if said is None and (gone := missing(self._root, applied)):
            numbers = ", ".join(map(str, gone))
            are = "Commands were posted and are gone" if len(gone) > 1 else "A command was posted and is gone"
            said = f"{are} from {CONTROL}, without an answer and without effect: number {numbers}."
        if said is not None:
            if not layout.is_group(self._root):
                said += f" If a switch waited, post it again: `htfl-sim switch {layout.typed(self._root)} METHOD`."
            self._warn(said)
            last = _posted(self._root).last
            self._may()
            _note_posted(self._root, Posted(last + 1, last))  # so that it is said once

    def new(self) -> list[Command]:
        """The commands not handed out yet, in order of id; others are refused and removed. Raises DiskError."""
        try:
            names = files.names(self._root, INBOX)
        except (FileNotFoundError, Damaged, DiskError) as error:
            if self._readable:
                why = f"{INBOX} is missing." if isinstance(error, FileNotFoundError) else str(error)
                self._warn(f"No commands can be received: {why}")
            self._readable, names = False, []
        else:
            self._readable = True
        self._seen.intersection_update(names)
        fresh = sorted(name for name in names if name not in self._seen and not name.startswith("."))
        if fresh:
            self._make_boxes()
        answered = set(files.names(self._root, DONE)) if fresh else set()
        commands = []
        for name in fresh[:READ_AT_ONCE]:
            if file_id(name, "tmp"):
                continue  # being written
            self._seen.add(name)
            if name in answered:
                self._remove(name)
            elif command := self._read(name):
                commands.append(command)
        return commands

    def answer(self, answer: Answer) -> None:
        """Make the answer durable, then take the command out of the inbox; keeps the newest answers only."""
        name = f"{answer.id}.json"
        self._may()
        self._make_boxes()
        files.replace(self._root, f"{DONE}/{name}", seal(asdict(answer), limits.COMMAND, "an answer"))
        files.sync_folder(self._root, DONE)
        self._remove(name)
        files.sync_folder(self._root, INBOX)
        others = sorted(other for other in files.names(self._root, DONE) if file_id(other) and other != name)
        for surplus in others[: 1 - ANSWERS_KEPT]:
            self._may()
            files.remove(self._root, f"{DONE}/{surplus}")

    def _make_boxes(self) -> None:
        """Make what somebody may have removed meanwhile."""
        for name in (CONTROL, INBOX, DONE):
            files.make_folder(self._root, name)

    def _read(self, name: str) -> Command | None:
        id = file_id(name)
        if id is None:
            self._warn(f"{INBOX}/{ascii(name)[1:-1]} is not a command; it was left alone.")
            return None
        try:
            return read_command(self._root, id)
        except FileNotFoundError:
            return None
        except (Damaged, DiskError) as error:
            self._warn(f"A command was refused: {error}")
            self.answer(Answer(id, "", "refused", str(error)[: limits.MESSAGE_LETTERS], None, now()))
            return None

    def _remove(self, name: str) -> None:
        self._may()
        if not files.is_folder(files.look(self._root, f"{INBOX}/{name}")):  # a stranger's folder stays
            files.remove(self._root, f"{INBOX}/{name}")


def reply(command: Command, outcome: Outcome, message: str, round: int | None) -> Answer:
    """The answer to a command, as of now."""
    return Answer(command.id, command.kind, outcome, message[: limits.MESSAGE_LETTERS], round, now())


def _numbers(folder: Path, box: str) -> set[int]:
    """The numbers that the ids in a box begin with; none where it cannot be read."""
    ids = map(file_id, files.listed(folder, box))
    return {number for id in ids if id is not None and (number := int(id[:20])) < MOST_POSTED}


def read_posted(folder: Path, where: str = POSTED) -> Posted:
    """Which numbers have been given; raises FileNotFoundError before the first, Damaged or DiskError."""
    document = unseal(files.read(folder, where, cap=limits.COMMAND), where)
    return Posted(**fields_in(Posted, document, f"{where} does not say which commands were posted"))


def _posted(folder: Path) -> Posted:
    found = [Posted(1, 0)]
    for where in (POSTED, EARLIER_POSTED):
        with suppress(FileNotFoundError, Damaged):
            found.append(read_posted(folder, where))
    return max(found, key=lambda posted: (posted.last, posted.first))


def _note_posted(folder: Path, posted: Posted) -> None:
    files.replace(
        folder,
        POSTED,
        seal(asdict(posted), limits.COMMAND, POSTED),
        scratch_name=f"{INBOX}/{posted.last:020d}-{secrets.token_hex(4)}.tmp",
    )
