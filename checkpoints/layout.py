"""Names inside a session directory. Paths are built from numbers and hashes, never read from a file."""

import re

FORMAT = 1

SESSION, OWNER, LOCK = "session.json", "owner.json", "lock"
LEDGER, EVENTS = "ledger.jsonl", "events.jsonl"
OBJECTS, MANIFESTS, TMP = "objects", "manifests", "tmp"
PARTIAL, CONTROL = "partial", "control"
INBOX, DONE = f"{CONTROL}/inbox", f"{CONTROL}/done"

FOLDERS = (OBJECTS, MANIFESTS, TMP, PARTIAL, CONTROL, INBOX, DONE)

SHA256 = re.compile(r"[0-9a-f]{64}")
STATE = re.compile(r"server|client/(0|[1-9][0-9]{0,8})")
PART = re.compile(rf"({STATE.pattern})/[a-z]{{1,32}}")
"""The name of a tensor file in an unfinished round: client/3/state, client/3/uplink."""
_MANIFEST = re.compile(r"([0-9]{6}|[1-9][0-9]{6,8})\.json")

JSON_CAP = 64 << 20
"""Largest session.json, manifest or single line of JSON that is read, in bytes."""


def manifest_name(round: int) -> str:
    return f"{round:06d}.json"


def manifest_round(name: str) -> int | None:
    """The round a manifest's file name stands for, or None when it is no manifest's name."""
    match = _MANIFEST.fullmatch(name)
    return int(match[1]) if match else None


def object_parts(sha256: str) -> tuple[str, str, str]:
    """Folder, sub-folder and file name of an object."""
    if not SHA256.fullmatch(sha256):
        raise ValueError(f"not an object name: {sha256!r}")
    return OBJECTS, sha256[:2], f"{sha256}.safetensors"
