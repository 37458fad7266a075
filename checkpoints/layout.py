"""Names: of sessions, of groups of sessions, and inside a session directory. Sizes of files are in `limits`.

Paths inside a session are built from numbers and hashes, never read from a file.
"""

import re
import shlex
from pathlib import Path

FORMATS = (1, 2, 3)
"""Those that this program reads. A session says the first that has what it needs: in 2 a manifest may leave clients out
that are as they began, and a record may name clients. In 3 a manifest may have uplinks in flight."""
IN_FLIGHT = 3
"""The first format whose manifests may have uplinks in flight."""

SESSION, OWNER, LOCK = "session.json", "owner.json", "lock"
LEDGER, EVENTS, TAGS = "ledger.jsonl", "events.jsonl", "tags.json"
OBJECTS, MANIFESTS, TMP = "objects", "manifests", "tmp"
PARTIAL, CONTROL = "partial", "control"
INBOX, DONE = f"{CONTROL}/inbox", f"{CONTROL}/done"
POSTED, EARLIER_POSTED = "posted.json", f"{CONTROL}/posted.json"
"""The count of posted commands lies beside `control`, to tell when that is removed. Earlier it was in there."""

POINTS = "points.json"
"""The document that makes a folder a group of sessions."""
TUNING = "tuning.json"
"""The document of a group whose sessions are the trials of a search."""

FILES = (SESSION, OWNER, LOCK, LEDGER, EVENTS, TAGS, POSTED)
FOLDERS = (OBJECTS, MANIFESTS, TMP, PARTIAL, CONTROL, INBOX, DONE)

SHA256 = re.compile(r"[0-9a-f]{64}")
STATE = re.compile(r"server|client/(0|[1-9][0-9]{0,8})")
PART = re.compile(rf"({STATE.pattern})/[a-z]{{1,32}}")
"""The name of a tensor file in an unfinished round: client/3/state, client/3/uplink."""
HELD = re.compile(rf"{STATE.pattern}|{PART.pattern}")
"""The name of a tensor file in a checkpoint that has uplinks in flight."""
TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
KIND = re.compile(r"[a-z][a-z-]{0,31}")
"""The name of a command."""
_MANIFEST = re.compile(r"([0-9]{6}|[1-9][0-9]{6,8})\.json")
_SUBFOLDER = re.compile(r"[0-9a-f]{2}")
_PRIVATE = re.compile(r"\..+\.[0-9a-f]{16}\.new")


def manifest_name(round: int) -> str:
    return f"{round:06d}.json"


def manifest_round(name: str) -> int | None:
    """The round a manifest's file name stands for, or None when it is no manifest's name."""
    match = _MANIFEST.fullmatch(name)
    return int(match[1]) if match else None


def object_parts(sha256: str) -> tuple[str, str, str]:
    if not SHA256.fullmatch(sha256):
        raise ValueError(f"not an object name: {sha256!r}")
    return OBJECTS, sha256[:2], f"{sha256}.safetensors"


def object_sha256(subfolder: str, name: str) -> str | None:
    """The hash that a file below objects/ is named by, or None when that is no object's name."""
    sha256 = name.removesuffix(".safetensors")
    named = SHA256.fullmatch(sha256) and name != sha256 and sha256[:2] == subfolder
    return sha256 if named else None


def is_object_folder(name: str) -> bool:
    return _SUBFOLDER.fullmatch(name) is not None


def private_name(name: str, token: str) -> str:
    """Where a session is made before it gets its name; `token` is 16 hexadecimal digits."""
    return f".{name}.{token}.new"


def is_private(name: str) -> bool:
    """Whether a folder beside the sessions is one that is being made, or was when its process died."""
    return _PRIVATE.fullmatch(name) is not None


def is_group(folder: Path) -> bool:
    """Whether a folder holds a group of sessions, and is no session itself."""
    return (folder / POINTS).is_file() and not (folder / SESSION).exists()


def continues(folder: Path) -> str:
    """The command that continues a session or a group: 'resume', 'sweep', or 'tune'."""
    if not is_group(folder):
        return "resume"
    return "tune" if (folder / TUNING).exists() else "sweep"


def name_of(session: Path) -> str:
    """What a session is called: its folder's name, after its group's if it is in one."""
    place = session.absolute()
    return f"{place.parent.name}/{place.name}" if is_group(place.parent) else place.name


def typed(folder: Path) -> str:
    """A session or a group as commands take it: its path, quoted for a shell."""
    return shlex.quote(str(folder))


def fork_at(session: Path, round: int) -> str:
    return f"`htfl-sim fork {typed(session)} --at-round {round} --session NEW`"


def sessions_folder(session: Path) -> Path:
    """The folder of sessions that a session belongs to, itself or by its group."""
    above = session.parent
    return above.parent if is_group(above) else above
