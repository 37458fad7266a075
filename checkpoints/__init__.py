"""The session store: named tensors and JSON, safe from crashes and silent damage.

`Store` is the one writer of a session, `SessionReader` any number of readers, `verify` the auditor. Importing this
package does not import torch; only putting and loading tensors does.
"""

from checkpoints.errors import Damaged, DiskError, Locked, SessionUnreadable, UnsupportedVersion
from checkpoints.mailbox import Answer, Command, answer, pending, post
from checkpoints.manifests import Manifest
from checkpoints.objects import ObjectRef
from checkpoints.pruning import prune
from checkpoints.reader import SessionReader, sessions
from checkpoints.retention import Pruned, Retention
from checkpoints.store import Store, is_free
from checkpoints.tensors import TensorSpec
from checkpoints.unfinished_round import UnfinishedRound
from checkpoints.verify import Finding, verify

__all__ = [
    "Answer",
    "Command",
    "Damaged",
    "DiskError",
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
    "is_free",
    "pending",
    "post",
    "prune",
    "sessions",
    "verify",
]
