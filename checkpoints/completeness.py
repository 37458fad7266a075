"""What is missing: files that are gone leave no damage behind, but the other files say that they were there."""

from pathlib import Path

from checkpoints import events, layout, lock
from checkpoints.layout import MANIFESTS, manifest_name
from checkpoints.schema import Json


def missing_checkpoints(folder: Path, kept: list[int], left: Json | None) -> list[int]:
    """The rounds whose checkpoints should be there and are not, in order.

    The newest that the events tell of is kept until a newer one is there. `left` is the last owner's note: of an
    owner that closed it, it lists those that were kept.
    """
    expected = set(left.get("checkpoints", ())) if left is not None and lock.is_closed(left) else set()
    newest = events.last_checkpoint(folder)
    if newest is not None and newest > max(kept, default=-1):
        expected.add(newest)
    return sorted(expected - set(kept))


def is_newest_missing(kept: list[int], missing: list[int]) -> bool:
    """Whether what is missing is newer than all that is kept: going on would begin at an older round."""
    return bool(missing) and missing[-1] > max(kept, default=-1)


def warning(folder: Path, kept: list[int], missing: list[int]) -> list[str]:
    """The same as a sentence of its own, for what is no reason not to go on; nothing when nothing is missing."""
    return [f"T{explained(folder, kept, missing)[1:]}"] if missing else []


def explained(folder: Path, kept: list[int], missing: list[int]) -> str:
    """Which checkpoints are missing, and what can be done, as sentences."""
    rounds = ", ".join(map(str, missing))
    are = f"checkpoints of rounds {rounds} are" if len(missing) > 1 else f"checkpoint of round {rounds} is"
    where = f"{MANIFESTS}/{manifest_name(missing[-1])}"
    if is_newest_missing(kept, missing):
        go_on = f"go on from round {kept[-1]}" if kept else "begin again"
        remedy = f"Restore it from a backup, or {go_on}: {layout.fork_at(folder, kept[-1] if kept else 0)}."
    else:
        remedy = f"Newer ones are kept: {', '.join(map(str, kept))}."
    return f"the {are} missing ({where} is gone). {remedy}"
