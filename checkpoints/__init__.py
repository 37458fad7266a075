"""The session store: named tensors and JSON, safe from crashes and silent damage.

`Store` is the one writer of a session, `SessionReader` any number of readers, `verify` the auditor. Importing this
package does not import torch; only putting and loading tensors does.
"""

from checkpoints.errors import Damaged, DiskError, Displaced, Locked, SessionUnreadable, UnsupportedVersion
from checkpoints.ledger import text_of as ledger_text
from checkpoints.mailbox import Answer, Command, answer, pending, post
from checkpoints.making import in_private, is_free, refuse_remains
from checkpoints.manifests import Manifest
from checkpoints.objects import ObjectRef
from checkpoints.pruning import prune
from checkpoints.reader import SessionReader, sessions
from checkpoints.retention import Pruned, Retention
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
    "Locked",
    "Manifest",
    "ObjectRef",
    "Pruned",
    "Retention",
    "SessionReader",
    "SessionUnreadable",
    "Store",
    "TensorSpec",
    "UnfinishedRound",
    "UnsupportedVersion",
    "answer",
    "in_private",
    "is_free",
    "ledger_text",
    "pending",
    "post",
    "prune",
    "refuse_remains",
    "sessions",
    "verify",
]
