"""The owner's note, owner.json: who owns a session, since when, and how far it got."""

from pathlib import Path

from checkpoints import files, limits, machine
from checkpoints.errors import Damaged
from checkpoints.layout import OWNER
from checkpoints.schema import OwnerNote, checked
from checkpoints.seal import Json, unseal


def read(root: Path) -> Json | None:
    """What owner.json says, or None before there was an owner; raises Damaged."""
    raw = read_raw(root)
    return None if raw is None else parse(raw)


def read_raw(root: Path) -> bytes | None:
    """The note's bytes, or None before there was an owner; raises Damaged for a link and what is too large."""
    try:
        return files.read(root, OWNER, cap=limits.OWNER)
    except FileNotFoundError:
        return None


def parse(raw: bytes) -> Json:
    """The note in these bytes; raises Damaged. All that it says can be shown in a terminal."""
    note = unseal(raw, OWNER)
    try:
        checked(OwnerNote, note)
    except ValueError as fault:
        raise Damaged(f"{OWNER} is not an owner's note: {fault}.") from fault
    return note


def legible(root: Path) -> Json | None:
    """The note if it can be read: it is not flushed to disk, so a power cut may leave half of one."""
    try:
        return read(root)
    except Damaged:
        return None


def is_closed(note: Json | None) -> bool:
    """Whether its owner let go of the session with nothing left undone."""
    return note is not None and note["closed"] is True


def is_elsewhere(note: Json) -> bool:
    """Whether the note was written on another machine, whose flock may not be visible here.

    A machine that was started again is the same one: its boot is another, its name and id are not.
    """
    same_machine = note["host"] == machine.host() and note.get("machine_id") in (None, machine.machine_id())
    return note["boot_id"] != machine.boot_id() and not same_machine


def is_in_sight(note: Json) -> bool:
    """Whether this process would see the owner's if it ran: same boot, same space of process numbers."""
    space = note.get("process_space")
    return note["boot_id"] == machine.boot_id() and space in (None, machine.process_space())


def is_alive(note: Json) -> bool:
    """Whether the very process that wrote the note runs, not another that was given its number; in sight only."""
    pid, started = note["pid"], note["start_time"]
    if started is None or not 0 < pid < 1 << 31:
        return False
    # The clock that start times are told by may be set by a second meanwhile.
    return (since := machine.start_time(pid)) is not None and abs(since - started) < 2


def epoch(note: Json | None) -> int:
    """Which ownership of the session it was; 0 of versions that did not count them."""
    return int(note.get("epoch", 0)) if note else 0


def holder(note: Json | None) -> str:
    """'process 12 on host since …'; 'another process' when nothing is known of it."""
    if note is None:
        return "another process"
    return f"process {note['pid']} on {note['host']} since {note['since']}"
