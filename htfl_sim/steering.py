"""Steer a run of another process: pause, resume, stop, checkpoint, switch, tag.

Each command is left in the session's mailbox, and the process that owns the session answers it between two clients.
A session is given by its name in the folder of sessions, or by its path.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import checkpoints
from checkpoints import Answer, Command, Damaged, now, post
from htfl_sim import folders
from htfl_sim.mailbox import POLL_SECONDS, Note, Owned, await_answer, holder, owner, progress, refuse_idle
from simulator.base.documents import Event
from simulator.base.errors import ConfigError
from simulator.base.nested import toml_value
from simulator.sessions.reader import CheckedReader

__all__ = [
    "Answer",
    "Command",
    "Reply",
    "Watch",
    "answer_to",
    "checkpoint",
    "now",
    "pause",
    "post",
    "progress",
    "resume",
    "stop",
    "switch",
    "tag",
]

Place = str | Path
LET_GO_SECONDS = 30.0
"""How long `stop` waits for a process to end after its last checkpoint."""
UNREFUSED_SECONDS = 2.0
"""A paused owner reads its mailbox ten times a second: what it has not refused by then, it has accepted."""


@dataclass(frozen=True)
class Reply:
    """What became of a command. outcome: 'applied', or 'waiting' where the owner has not answered yet.

    `round` is the round after which it took hold. `command` is the command's number in the mailbox.
    """

    session: str
    command: str
    kind: str
    outcome: str
    message: str
    round: int | None


class Watch(Protocol):
    """What is told while a command waits for its answer."""

    def show(self, text: str) -> None:
        """The state now, in place of what was shown before."""

    def say(self, text: str) -> None:
        """A line that stays."""


class _Silent:
    def show(self, text: str) -> None:
        return

    def say(self, text: str) -> None:
        return


SILENT: Watch = _Silent()


def pause(
    session: Place,
    *,
    wait: bool = True,
    timeout: float | None = None,
    sessions_dir: Place | None = None,
    watch: Watch = SILENT,
) -> Reply:
    """Pause a running session, or every running session of a study: the clients at work finish, no other begins.

    wait: until the pause holds, at most `timeout` seconds. Raises SessionError where no process runs it or none
    answers, and ConfigError where the owner refuses.
    """
    reader = _live(session, sessions_dir, "pause")
    return _reply(reader, *_ask(reader, "pause", "pausing", wait, timeout, watch))


def resume(
    session: Place,
    *,
    timeout: float | None = None,
    sessions_dir: Place | None = None,
    watch: Watch = SILENT,
) -> Reply:
    """Let a paused session or study of another process go on. Raises like `pause`."""
    reader = _live(session, sessions_dir, "resume")
    return _reply(reader, *_ask(reader, "resume", "resuming", True, timeout, watch))


def stop(
    session: Place,
    *,
    wait: bool = True,
    timeout: float | None = None,
    sessions_dir: Place | None = None,
    watch: Watch = SILENT,
) -> Reply:
    """Stop a running or paused session between two clients, with a checkpoint; or a study with all its sessions.

    With `wait` the session can be resumed when this returns. Raises like `pause`.
    """
    reader = _live(session, sessions_dir, "stop")
    command, answer = _ask(reader, "stop", "stopping", wait, timeout, watch)
    if answer:
        until = time.monotonic() + LET_GO_SECONDS
        while reader.alive() and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
    return _reply(reader, command, answer)


def checkpoint(
    session: Place,
    *,
    cka: bool = False,
    wait: bool = True,
    timeout: float | None = None,
    sessions_dir: Place | None = None,
    watch: Watch = SILENT,
) -> Reply:
    """Have a running session write a checkpoint now, with the finished clients of its round.

    cka: measure CKA at the end of the round, and write the checkpoint then. Raises like `pause`.
    """
    reader = CheckedReader(_folder(session, sessions_dir))
    if not reader.alive():
        refuse_idle(reader, "checkpoint")
    doing = "measuring at the end of the round" if cka else "writing a checkpoint"
    arguments = {"cka": True} if cka else {}
    return _reply(reader, *_ask(reader, "checkpoint", doing, wait, timeout, watch, arguments))


def switch(
    session: Place,
    method: str | None = None,
    *,
    at_round: int | None = None,
    assignments: Sequence[str] = (),
    wait: bool = True,
    timeout: float | None = None,
    sessions_dir: Place | None = None,
    data_dir: Place | None = None,
    watch: Watch = SILENT,
    **settings: Any,
) -> Reply:
    """Go on with another method or other settings, from the next round or from the one after `at_round`.

    `settings` are dotted keys with two underscores for the dot; `assignments` are 'key=value', as the command line
    writes them. A session that no process runs is checked here, and the switch waits for the next resume. Raises
    ConfigError where the models cannot run it or it changes nothing, and like `pause`.
    """
    given = [*assignments, *assigned(settings)]
    if method is None and not given:
        raise ConfigError(
            "Name a method, or a setting: `htfl-sim switch SESSION METHOD`, or `--set KEY=VALUE`."
        )
    reader = CheckedReader(_folder(session, sessions_dir))
    arguments: dict[str, Any] = {"method": method, "set": given}
    if at_round is not None:
        arguments["at_round"] = at_round
    if reader.alive():
        return _reply(reader, *_ask_switch(reader, arguments, wait, timeout, watch))

    from simulator.data.datasets import data_folder
    from simulator.sessions.dry_run import rehearse

    changes = rehearse(reader, arguments, data_folder(None if data_dir is None else str(data_dir)))
    command = checkpoints.post(reader.folder, "switch", arguments)
    watch.say(f"checked: {'; '.join(changes)}")
    return _reply(reader, command, None)


def tag(
    session: Place,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    *,
    sessions_dir: Place | None = None,
    watch: Watch = SILENT,
) -> tuple[str, ...]:
    """Mark a session with words to find it by, or take them away; the words it then has.

    A running session is marked by its own process. Raises ConfigError for a word that is no tag.
    """
    reader = CheckedReader(_folder(session, sessions_dir))
    added, removed = (list(map(folders.checked_tag, each)) for each in (add, remove))
    if added or removed:
        _mark(reader, added, removed, watch)
    return tuple(checkpoints.tags_of(reader.folder))


def is_live(session: Place, sessions_dir: Place | None = None) -> bool:
    """Whether a process runs the session or study now."""
    return _reader(session, sessions_dir).alive()


def owner_of(session: Place, sessions_dir: Place | None = None) -> tuple[str, str | None]:
    """Who runs a session, in words, and its state: 'running', 'pausing', 'paused' or 'stopping'."""
    note = owner(_reader(session, sessions_dir))
    return holder(note), note.get("state")


def owner_pid(folder: Path) -> int | None:
    """The process that owns a session; None when there is none. Raises SessionUnreadable or DiskError."""
    note = CheckedReader(folder).owner()
    return note["pid"] if note and not note["closed"] else None


def answer_to(folder: Path, command: str) -> Answer | None:
    """The owner's answer to a command, by the command's number; None before it comes."""
    return checkpoints.answer(folder, command)


def waiting_switches(session: Place, sessions_dir: Place | None = None) -> list[Command]:
    """The switches in a session's mailbox that have not taken hold."""
    pending = checkpoints.pending(_folder(session, sessions_dir))
    return [command for command in pending if command.kind == "switch"]


def prospect(session: Place, command: Command, finished: bool) -> str:
    """What becomes of a switch that waited until its session was opened: that has refused it, or it takes hold."""
    answer = checkpoints.answer(_folder(session, None), command.id)
    if answer and answer.outcome == "refused":
        return f"the switch to {described(command)}, asked for by {command.by}, is refused: {answer.message}"
    if answer:
        return f"the switch to {described(command)} had taken hold before the session ended"
    when = "takes hold once there are more rounds" if finished else "takes hold now"
    if at_round(command) is not None and not finished:
        when = "waits for its round"
    return f"{when}: {described(command)}, asked for by {command.by}"


def at_round(command: Command) -> int | None:
    """The round for whose end a switch waits; None for one that takes hold at the next."""
    given = command.arguments.get("at_round")
    return given if type(given) is int else None


def described(command: Command) -> str:
    """What a waiting switch asks for, as 'fedssa training.lr=0.01'."""
    match command.arguments:
        case {"method": str() | None as method, "set": list(assignments)}:
            after = at_round(command)
            when = "" if after is None else f"after round {after}"
            return " ".join(filter(None, [method, *map(str, assignments), when]))
    return "nothing that can be read"


def assigned(settings: Mapping[str, Any]) -> list[str]:
    """Keyword settings as 'key=value', two underscores for the dot."""
    return [f"{key.replace('__', '.')}={toml_value(value)}" for key, value in settings.items()]


def _folder(session: Place, sessions_dir: Place | None) -> Path:
    return folders.session_folder(session, folders.sessions_dir(sessions_dir))


def _reader(session: Place, sessions_dir: Place | None) -> Owned:
    if study := folders.study_folder(session, folders.sessions_dir(sessions_dir)):
        return checkpoints.GroupReader(study)
    return CheckedReader(_folder(session, sessions_dir))


def _live(session: Place, sessions_dir: Place | None, what: str) -> Owned:
    """The session or study to steer. Raises SessionError where no process runs it."""
    reader = _reader(session, sessions_dir)
    if not reader.alive():
        refuse_idle(reader, what)
    return reader


def _ask(
    reader: Owned,
    kind: str,
    doing: str,
    wait: bool,
    timeout: float | None,
    watch: Watch,
    arguments: dict[str, Any] | None = None,
) -> tuple[Command, Answer | None]:
    """Post a command and wait until it has taken hold. Raises ConfigError when it is refused."""
    command = checkpoints.post(reader.folder, kind, arguments)
    if not wait:
        return command, None

    def look(note: Note) -> bool:
        watch.show(f"{doing}: {progress(note)}")
        return False

    answer = _accepted(reader, await_answer(reader, command, timeout, look))
    if answer is None:
        refuse_idle(reader, kind)
    return command, answer


def _ask_switch(
    reader: CheckedReader,
    arguments: dict[str, Any],
    wait: bool,
    timeout: float | None,
    watch: Watch,
) -> tuple[Command, Answer | None]:
    """Post a switch and wait for the checkpoint of its first round, unless the session is paused, or ends before.

    A switch for a later round is waited for until the owner has accepted it.
    """
    command = checkpoints.post(reader.folder, "switch", arguments)
    if not wait:
        return command, None
    posted, switched = time.monotonic(), False

    def tell() -> None:
        nonlocal switched
        if not switched and (event := _event(reader, "switched", command)):
            switched = True
            watch.say(
                f"switched after round {event['round']}: {'; '.join([*event['changes'], str(event['adopted'])])}"
            )

    def look(note: Note) -> bool:
        tell()
        if "at_round" in arguments and _event(reader, "scheduled", command):
            return True
        waits_for = "the checkpoint of its first round" if switched else "the end of the round"
        watch.show(f"switching: waits for {waits_for} ({progress(note)})")
        return note.get("state") == "paused" and time.monotonic() - posted > UNREFUSED_SECONDS

    answer = _accepted(reader, await_answer(reader, command, timeout, look))
    if answer:
        tell()  # a short round is over before the first look
    return command, answer


def _event(reader: CheckedReader, kind: str, command: Command) -> Event | None:
    """The event of this kind of this very switch, once it has happened."""
    with suppress(Damaged):
        for event in reversed(reader.events()):
            if event["event"] == kind and event.get("command") == command.id:
                return event
    return None


def _accepted(reader: Owned, answer: Answer | None) -> Answer | None:
    """The answer, unless it is a refusal: that raises ConfigError."""
    if answer and answer.outcome == "refused":
        raise ConfigError(f"{reader.folder} refused the {answer.kind}: {answer.message.rstrip('.')}.")
    return answer


def _mark(reader: CheckedReader, add: list[str], remove: list[str], watch: Watch) -> None:
    """By the owner of the session, if it has one; else here."""
    if not reader.alive():
        try:
            checkpoints.mark(reader.folder, add, remove)
        except ValueError as error:
            raise ConfigError(f"{reader.folder}: {error}.") from error
        return
    command = checkpoints.post(reader.folder, "tag", {"add": add, "remove": remove})

    def look(note: Note) -> bool:
        watch.show(f"tagging: waits for the end of a client ({progress(note)})")
        return False

    answer = await_answer(reader, command, None, look)
    if answer and answer.outcome == "refused":
        raise ConfigError(f"{reader.folder} refused the tags: {answer.message.rstrip('.')}.")
    if answer is None:
        checkpoints.mark(reader.folder, add, remove)  # its owner ended meanwhile; once more does no harm


def _reply(reader: Owned, command: Command, answer: Answer | None) -> Reply:
    return Reply(
        session=checkpoints.name_of(reader.folder),
        command=command.id,
        kind=command.kind,
        outcome=answer.outcome if answer else "waiting",
        message=answer.message if answer else _outlook(reader, command),
        round=answer.round if answer else None,
    )


def _outlook(reader: Owned, command: Command) -> str:
    """When a command without an answer takes hold."""
    after = at_round(command)
    if not reader.alive():
        later = "" if after is None else f", after round {after}"
        return f"takes hold at the next `htfl-sim resume {checkpoints.name_of(reader.folder)}`{later}"
    if command.kind != "switch":
        return "takes hold between two clients"
    if after is not None:
        return f"takes hold after round {after}"
    if owner(reader).get("state") == "paused":
        return "takes hold at the end of the round, once the session is resumed"
    return "takes hold at the end of the round"
