"""What a session directory may hold, in bytes unless a name says otherwise. Readers refuse more before they read it,
and writers before they write, so that whatever is written can be read.
"""

DOCUMENT_VALUES = 8_000_000
"""Values in one JSON document. A parsed value takes some 60 bytes of memory."""
SESSION = 1 << 20
"""session.json. A configuration takes some 2 KB."""
OWNER = 256 << 10
"""owner.json: a note of 1 KB and the newest 10,000 rounds that are kept."""
RECORD = 64 << 20
"""A line of the ledger. A round of 10,000 participants takes 2 MB."""
RECORD_VALUES = 6_000_000
"""Values in a line of the ledger: its manifest names the states besides."""
MANIFEST = 2 * RECORD
"""A manifest, which holds a record and names the states; or the note of an unfinished round."""
LEDGER = 4 << 30
"""The ledger up to the newest checkpoint. A thousand rounds of 10,000 participants take 2 GB."""
TAIL = 2 * RECORD
"""The ledger after the newest checkpoint. A checkpoint is due once another record might not fit."""
EVENT = 256 << 10
"""One event."""
EVENTS = 32 << 20
"""The newest events that are shown, some 200,000. Older ones stay on disk."""
OBJECT = 8 << 30
"""A tensor file. One whose tensors are known in advance may have their size, and no more."""
HEADER = 1 << 20
"""The header of a tensor file. The safetensors library accepts a hundred times that."""
TENSORS = 10_000
"""Tensors in one file."""
TAGS = 64 << 10
"""tags.json. The most tags take 2 KB, and the longest note up to 12 KB."""
TAG_WORDS = 50
"""Tags of one session."""
NOTE_LETTERS = 1_000
"""Letters of a session's note."""
ROUNDS_LISTED = 10_000
"""Rounds with a checkpoint, the newest, in an owner's last note."""
DIGITS = 300
"""Digits of a whole number, so that each can be turned into a float."""
CLIENTS = 1_000_000
"""Clients of a federation."""
ROUNDS = 999_999_999
"""Rounds of a session."""
COMMAND = 64 << 10
"""A command, or its answer."""
STUDY_FILE = 64 << 20
"""A document of a study, such as points.json."""
MESSAGE_LETTERS = 4_000
"""Letters of a message in an answer. Longer ones are cut."""
STATES = 500_000
"""States in one checkpoint: the server's, and those of clients that have taken part. Each takes some 100 bytes."""
PARTICIPANTS = 200_000
"""Clients in one round. Each takes some 250 bytes of the round's record."""


class TooLarge(ValueError):
    """What is to be written could not be read back. Nothing was written."""

    exit_code = 5

    def __init__(self, message: str, what: str) -> None:
        super().__init__(message)
        self.what = what


def values(raw: bytes) -> int:
    """The most values that JSON text can hold: each follows a comma or an opening bracket."""
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")


def check_count(found: int, most: int, what: str, of: str) -> None:
    """Raise TooLarge where `what` has more of something than can be read back."""
    if found > most:
        raise TooLarge(f"{what} has {found:,} {of}, and at most {most:,} can be read back.", what)


def check(raw: bytes, most: int, what: str, most_values: int = DOCUMENT_VALUES) -> bytes:
    """`raw`, a JSON document that is about to be written. Raises TooLarge, naming `what`, if it could not be read."""
    check_count(len(raw), most, what, "bytes")
    check_count(values(raw), most_values, what, "values")
    return raw
