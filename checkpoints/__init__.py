"""The session store: named tensors and JSON, safe from crashes and silent damage.

`Store` is the one writer of a session, `SessionReader` any number of readers, `SessionFollower` a reader that looks
again and again, `verify` the auditor. Other rooms use what is named here and nothing behind it: how files are named
and written stays inside. Importing this package does not import torch; only putting and loading tensors does.
"""

from checkpoints.errors import Damaged, DiskError, Displaced, Locked, SessionUnreadable, UnsupportedVersion
from checkpoints.following import Growth, Part, SessionFollower, Stamp, changed_stamp
from checkpoints.ledger import text_of as ledger_text
from checkpoints.listing import is_session, last_record, session_folders, size_on_disk
from checkpoints.lock import now
from checkpoints.mailbox import Answer, Command, answer, pending, post
from checkpoints.making import in_private, is_free, refuse_remains
from checkpoints.manifests import Manifest
from checkpoints.objects import ObjectRef
from checkpoints.pruning import prune
from checkpoints.reader import SessionReader, sessions
from checkpoints.retention import Pruned, Retention
from checkpoints.schema import Keys, Shape, check_shape, natural, positive, printable, shown
from checkpoints.seal import canonical
from checkpoints.store import Store
from checkpoints.tensors import TensorSpec
from checkpoints.unfinished_round import UnfinishedRound
from checkpoints.verify import Finding, verify

__all__ = [
    "Answer",
    "Command",
    "Damaged",
    "DiskError",
    "Displaced",
    "Finding",
    "Growth",
    "Keys",
    "Locked",
    "Manifest",
    "ObjectRef",
    "Part",
    "Pruned",
    "Retention",
    "SessionFollower",
    "SessionReader",
    "SessionUnreadable",
    "Shape",
    "Stamp",
    "Store",
    "TensorSpec",
    "UnfinishedRound",
    "UnsupportedVersion",
    "answer",
    "canonical",
    "changed_stamp",
    "check_shape",
    "in_private",
    "is_free",
    "is_session",
    "last_record",
    "ledger_text",
    "natural",
    "now",
    "pending",
    "positive",
    "post",
    "printable",
    "prune",
    "refuse_remains",
    "session_folders",
    "sessions",
    "shown",
    "size_on_disk",
    "verify",
]
