"""Steer a run of another process: pause, resume, stop, checkpoint, switch, tag.

Each command is put into the session's mailbox. The process that owns the session answers it between two clients. A
session is given by its name in the folder of sessions, or by its path.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypedDict, Unpack

import checkpoints
from checkpoints import Answer, Command, Damaged, now, post
from htfl_sim import folders
from simulator.base.documents import Event
from simulator.base.errors import ConfigError, SessionError
from simulator.base.nested import toml_value
from simulator.results.analysis.run import SILENT_SECONDS, STILL_SECONDS
from simulator.sessions.reader import CheckedReader

__all__ = [
    "Answer", "Command", "Reply", "Watch", "answer_to", "checkpoint", "mark", "note", "now", "pause",
    "post", "progress", "resume", "stop", "switch", "tag",
]  # fmt: skip

POLL_SECONDS, LOOK_SECONDS = 0.05, 0.25
"""Seconds between two looks for the answer, and at the owner's heartbeat and progress."""
Note = dict[str, Any]
Owned = checkpoints.SessionReader | checkpoints.GroupReader
"""A folder whose owner accepts commands: a session, or a study's sweep."""
Place = str | Path
LET_GO_SECONDS = 30.0
"""Seconds that `stop` waits for a process to end after its last checkpoint."""
UNREFUSED_SECONDS = 2.0
"""A paused owner reads its mailbox ten times a second. After this many seconds, a command counts as accepted."""


@dataclass(frozen=True)
class Reply:
    """The result of a command. outcome: 'applied', or 'waiting' if the owner has not answered yet.

    `round` is the round after which it has an effect. `command` is the command's number in the mailbox.
    """

    session: str
    command: str
    kind: str
    outcome: str
    message: str
    round: int | None


class Watch(Protocol):
    """Receives messages while a command waits for its answer."""

    def show(self, text: str) -> None:
        """Show the present state in place of the previous one."""

    def say(self, text: str) -> None:
        """Add a line that stays."""


class _Silent:
    def show(self, text: str) -> None:
        return

    say = show


SILENT: Watch = _Silent()


class Waiting(TypedDict, total=False):
    """wait: until the command holds, at most `timeout` seconds; else return at once. watch: receives the progress."""

    wait: bool
    timeout: float | None
    sessions_dir: Place | None
    watch: Watch


def pause(session: Place, **waiting: Unpack[Waiting]) -> Reply:
    """Pause a running session, or every running session of a study. The running clients finish, and no other starts.

    Raises SessionError if no process runs it or none answers, and ConfigError if the owner refuses.
    """
    return _steer(session, "pause", "pausing", waiting)


def resume(session: Place, **waiting: Unpack[Waiting]) -> Reply:
    """Resume a paused session or study of another process. Raises like `pause`."""
    return _steer(session, "resume", "resuming", waiting)


def stop(session: Place, **waiting: Unpack[Waiting]) -> Reply:
    """Stop a running or paused session between two clients, with a checkpoint; or a study with all its sessions.

    With `wait`, the session can be resumed when this returns. Raises like `pause`.
    """
    return _steer(session, "stop", "stopping", waiting)


def checkpoint(session: Place, *, cka: bool = False, **waiting: Unpack[Waiting]) -> Reply:
    """Make a running session write a checkpoint now, with the finished clients of its round.

    cka: measure CKA at the end of the round, and write the checkpoint then. Raises like `pause`.
    """
    doing = "measuring at the end of the round" if cka else "writing a checkpoint"
    return _steer(session, "checkpoint", doing, waiting, {"cka": True} if cka else None)


def _steer(
    session: Place, kind: str, doing: str, waiting: Waiting, arguments: dict[str, Any] | None = None
) -> Reply:
    """Post a command and wait until it is applied. Raises SessionError if no process runs the session or study."""
    for name in waiting:
        if name not in Waiting.__annotations__:  # Python lets a misspelled argument through
            raise TypeError(f"got an unexpected keyword argument '{name}'")
    find = _session if kind == "checkpoint" else _reader
    reader = find(session, waiting.get("sessions_dir"))
    if not reader.alive():
        _refuse_idle(reader, kind)
    command, watch = post(reader.folder, kind, arguments), waiting.get("watch", SILENT)
    if not waiting.get("wait", True):
        return _reply(reader, command, None)

    def look(note: Note) -> bool:
        watch.show(f"{doing}: {progress(note)}")
        return False

    answer = _answered(reader, command, waiting.get("timeout"), look)
    if answer is None:
        _refuse_idle(reader, kind)
    until = time.monotonic() + LET_GO_SECONDS
    while kind == "stop" and reader.alive() and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    return _reply(reader, command, answer)


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
    """Change the method or other settings from the next round on, or from the one after `at_round`.

    `settings` are dotted keys with two underscores for the dot. `assignments` are 'key=value', as on the command line.
    If no process runs the session, it is checked here, and the switch waits for the next resume. Raises ConfigError if
    the models cannot run the method or nothing changes, and like `pause`.
    """
    given = [*assignments, *assigned(settings)]
    if method is None and not given:
        raise ConfigError(
            "Name a method, or a setting: `htfl-sim switch SESSION METHOD`, or `--set KEY=VALUE`."
        )
    reader = _session(session, sessions_dir)
    arguments: dict[str, Any] = {"method": method, "set": given}
    if at_round is not None:
        arguments["at_round"] = at_round
    if reader.alive():
        command = post(reader.folder, "switch", arguments)
        answer = _switched(reader, command, timeout, watch) if wait else None
        return _reply(reader, command, answer)
    # What is unknown is refused before torch is imported.
    from htfl_sim.configuring import check_keys
    from simulator.methods import declared

    if method is not None:
        declared(method)
    check_keys(reader.folder, method, given)
    from simulator.sessions.metadata import rehearse

    changes = rehearse(reader, arguments, folders.data_folder(data_dir))
    command = post(reader.folder, "switch", arguments)
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
    """Add or remove a session's tags. Returns its tags afterwards.

    The owner of a running session does this. Raises ConfigError for an invalid tag.
    """
    reader = _session(session, sessions_dir)
    added, removed = (list(map(folders.checked_tag, each)) for each in (add, remove))
    if added or removed:
        _mark(reader, added, removed, watch)
    return tuple(checkpoints.tags_of(reader.folder))


def note(
    session: Place, text: str | None = None, *, sessions_dir: Place | None = None, watch: Watch = SILENT
) -> str:
    """Set a session's note, "" for none; None only reads it. Returns the note afterwards.

    The owner of a running session does this. Raises ConfigError for a text of several lines, or over 1,000 letters.
    """
    reader = _session(session, sessions_dir)
    if text is not None:
        _mark(reader, [], [], watch, folders.checked_note(text))
    return checkpoints.marks_of(reader.folder).note


def mark(session: Place, tags: Sequence[str], note: str, *, sessions_dir: Place | None = None) -> None:
    """Give a session these tags and no others, and this note. Raises like `tag` and `note`."""
    reader = _session(session, sessions_dir)
    wanted: list[str] = list(map(folders.checked_tag, tags))
    before: tuple[str, ...] = ()
    with suppress(Damaged):  # it is replaced
        before = checkpoints.tags_of(reader.folder)
    _mark(reader, wanted, sorted({*before} - {*wanted}), SILENT, folders.checked_note(note))


def is_live(session: Place, sessions_dir: Place | None = None) -> bool:
    """Whether a process runs the session or study now."""
    return _reader(session, sessions_dir).alive()


def owner_of(session: Place, sessions_dir: Place | None = None) -> tuple[str, str | None]:
    """A description of the owner of a session, and its state: 'running', 'pausing', 'paused', or 'stopping'."""
    note = owner(_reader(session, sessions_dir))
    return holder(note), note.get("state")


def owner_pid(folder: Path) -> int | None:
    """The process that owns a session or a study; None if there is none. Raises SessionUnreadable or DiskError."""
    reader = checkpoints.GroupReader(folder) if checkpoints.is_group(folder) else CheckedReader(folder)
    note = reader.owner()
    return note["pid"] if note and not note["closed"] else None


def answer_to(folder: Path, command: str) -> Answer | None:
    """The owner's answer to a command, by the command's number; None until it comes."""
    return checkpoints.answer(folder, command)


def waiting_switches(session: Place, sessions_dir: Place | None = None) -> list[Command]:
    """The switches in a session's mailbox without an effect yet."""
    pending = checkpoints.pending(_session(session, sessions_dir).folder)
    return [command for command in pending if command.kind == "switch"]


def prospect(session: Place, command: Command, finished: bool) -> str:
    """The outcome of a switch that waited until its session was opened, or when it will apply."""
    answer = answer_to(_session(session, None).folder, command.id)
    if answer and answer.outcome == "refused":
        return f"the switch to {described(command)}, requested by {command.by}, is refused: {answer.message}"
    if answer:
        return f"the switch to {described(command)} was applied before the session ended"
    when = "applies once there are more rounds" if finished else "applies now"
    if at_round(command) is not None and not finished:
        when = "waits for its round"
    return f"{when}: {described(command)}, requested by {command.by}"


def at_round(command: Command) -> int | None:
    """The round after which a switch applies; None for the next possible one."""
    given = command.arguments.get("at_round")
    return given if type(given) is int else None


def described(command: Command) -> str:
    """The changes of a waiting switch, such as 'fedssa training.lr=0.01'."""
    match command.arguments:
        case {"method": str() | None as method, "set": list(assignments)}:
            after = at_round(command)
            when = "" if after is None else f"after round {after}"
            return " ".join(filter(None, [method, *map(str, assignments), when]))
    return "nothing that can be read"


def assigned(settings: Mapping[str, Any]) -> list[str]:
    """Keyword settings as 'key=value', two underscores for the dot."""
    return [f"{key.replace('__', '.')}={toml_value(value)}" for key, value in settings.items()]


def _session(session: Place, sessions_dir: Place | None) -> CheckedReader:
    return CheckedReader(folders.own_session(session, sessions_dir))


def _reader(session: Place, sessions_dir: Place | None) -> Owned:
    if study := folders.study_folder(session, sessions_dir):
        return checkpoints.GroupReader(study)
    return _session(session, sessions_dir)


def _switched(reader: CheckedReader, command: Command, timeout: float | None, watch: Watch) -> Answer | None:
    """Wait for the checkpoint of a switch's first round; for a later round, only until the owner has accepted it."""
    posted, switched = time.monotonic(), False

    def tell() -> None:
        nonlocal switched
        if not switched and (event := _event(reader, "switched", command)):
            switched = True
            changes = "; ".join([*event["changes"], str(event["adopted"])])
            watch.say(f"switched after round {event['round']}: {changes}")

    def look(note: Note) -> bool:
        tell()
        if "at_round" in command.arguments and _event(reader, "scheduled", command):
            return True
        waits_for = "the checkpoint of its first round" if switched else "the end of the round"
        watch.show(f"switching: waits for {waits_for} ({progress(note)})")
        return note.get("state") == "paused" and time.monotonic() - posted > UNREFUSED_SECONDS

    answer = _answered(reader, command, timeout, look)
    if answer:
        tell()  # a short round may end before the first look
    return answer


def _event(reader: CheckedReader, kind: str, command: Command) -> Event | None:
    """The event of this kind of this switch, once it has happened."""
    with suppress(Damaged):
        for event in reversed(reader.events()):
            if event["event"] == kind and event.get("command") == command.id:
                return event
    return None


def _mark(
    reader: CheckedReader, add: list[str], remove: list[str], watch: Watch, note: str | None = None
) -> None:
    """By the owner of the session, if it has one, otherwise in this process."""
    if not reader.alive():
        try:
            checkpoints.mark(reader.folder, add, remove, note)
        except ValueError as error:
            raise ConfigError(f"{reader.folder}: {error}.") from error
        return
    text = {} if note is None else {"note": note}
    command = post(reader.folder, "tag", {"add": add, "remove": remove, **text})

    def look(note: Note) -> bool:
        watch.show(f"tagging: waits for the end of a client ({progress(note)})")
        return False

    if _answered(reader, command, None, look, "tags") is None:  # its owner has just ended
        checkpoints.mark(reader.folder, add, remove, note)


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
    """The time at which a command without an answer applies."""
    after = at_round(command)
    if not reader.alive():
        later = "" if after is None else f", after round {after}"
        return f"applies at the next `htfl-sim resume {checkpoints.name_of(reader.folder)}`{later}"
    if command.kind != "switch":
        return "applies between two clients"
    if after is not None:
        return f"applies after round {after}"
    if owner(reader).get("state") == "paused":
        return "applies at the end of the round, once the session is resumed"
    return "applies at the end of the round"


def owner(session: Owned) -> Note:
    """The owner's notes about itself; empty while they cannot be read."""
    try:
        return session.owner() or {}
    except Damaged:
        return {}


def holder(note: Note) -> str:
    """The owner of a session: 'process 12 on host, since …'."""
    return f"process {note.get('pid')} on {note.get('host')}, since {note.get('since')}"


def progress(note: Note) -> str:
    """The owner's progress: 'round 5, 3 of 10 clients done'."""
    match note.get("progress"):
        case {"points": points, "done": done}:
            return f"{done} of {points} points finished"
        case {"round": round, "phase": "evaluate"}:
            return f"round {round}, evaluating"
        case {"round": round, "done": done, "clients": clients}:
            return f"round {round}, {done} of {clients} clients done"
    return "before its first round"


def _answered(
    session: Owned,
    command: Command,
    timeout: float | None,
    look: Callable[[Note], bool],
    what: str | None = None,
) -> Answer | None:
    """The owner's answer. None if the owner has ended without one, or `look` returns true.

    Raises ConfigError if the owner refuses (`what`: by default, the command), and SessionError if its heartbeat has
    stopped, or `timeout` seconds have passed.
    """
    began = moved = time.monotonic()
    looked, beat = 0.0, None
    while (answer := answer_to(session.folder, command.id)) is None:
        now = time.monotonic()
        if now - looked >= LOOK_SECONDS:
            looked = now
            note = owner(session)
            if not session.alive():
                answer = answer_to(session.folder, command.id)  # it may have come just before the end
                break
            if look(note):
                return None
            if note.get("heartbeat") != beat:
                beat, moved = note.get("heartbeat"), now
            if now - moved > SILENT_SECONDS or (timeout is not None and now - began > timeout):
                _give_up(session, command, note, now - began, now - moved)
        time.sleep(POLL_SECONDS)
    if answer and answer.outcome == "refused":
        said = answer.message.rstrip(".")
        raise ConfigError(f"{session.folder} refused the {what or answer.kind}: {said}.")
    return answer


def _refuse_idle(session: Owned, what: str) -> NoReturn:
    """Raise SessionError for a session without a running process, with its state and the ways out."""
    if isinstance(session, checkpoints.GroupReader):
        name = session.folder.name
        raise SessionError(
            f"No process runs the study {name}, so there is nothing to {what}. Continue it: "
            f"`htfl-sim {checkpoints.continues(session.folder)} {name}`."
        )
    name, done = checkpoints.typed(session.folder), max([0, *session.rounds()])
    resume = f"`htfl-sim resume {name}"
    how, remedy = {
        "finished": (f"it finished with round {done}", f"{resume} --rounds {done + 10}` extends it"),
        "stopped": (f"it was stopped after round {done}", f"{resume}` continues it"),
    }.get(session.state(), (f"its run was interrupted after round {done}", f"{resume}` continues from there"))
    raise SessionError(f"no process runs {session.folder}, so there is nothing to {what}: {how}. {remedy}.")


def _give_up(session: Owned, command: Command, note: Note, waited: float, silent: float) -> NoReturn:
    heartbeat = note.get("heartbeat")
    if silent > min(STILL_SECONDS, SILENT_SECONDS):
        pulse = f"its heartbeat stands still at {heartbeat} for {silent:.0f} s"
        remedy = (
            f"If that machine is dead, take the session over: `htfl-sim resume {checkpoints.typed(session.folder)} "
            "--steal`. If the process hangs, end it and resume."
        )
    else:
        pulse = f"its heartbeat still moves, at {heartbeat} now ({progress(note)})"
        remedy = "It will be answered between two clients; wait longer with `timeout=60`."
    raise SessionError(
        f"no process answered within {waited:.0f} s: {session.folder} belongs to {holder(note)}; {pulse}. "
        f"The {command.kind} stays in the mailbox. {remedy}"
    )
