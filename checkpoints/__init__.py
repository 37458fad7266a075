"""The session store: named tensors and JSON, safe from crashes and silent damage.

`Store` is the one writer of a session, `Session` any number of readers, `verify` the auditor. Importing this
package does not import torch; only putting and loading tensors does.
"""

from checkpoints.errors import Damaged, Locked, StorageError, StoreError, UnsupportedVersion
from checkpoints.mailbox import Answer, Command, answer, pending, post
from checkpoints.manifests import Manifest
from checkpoints.objects import ObjectRef
from checkpoints.partial import Partial
from checkpoints.pruning import prune
from checkpoints.reader import Session, sessions
from checkpoints.retention import Pruned, Retention
from checkpoints.store import Store, is_free
from checkpoints.tensors import TensorSpec
from checkpoints.verify import Finding, verify

__all__ = [
    "Answer",
    "Command",
    "Damaged",
    "Finding",
    "Locked",
    "Manifest",
    "ObjectRef",
    "Partial",
    "Pruned",
    "Retention",
    "Session",
    "StorageError",
    "Store",
    "StoreError",
    "TensorSpec",
    "UnsupportedVersion",
    "answer",
    "is_free",
    "pending",
    "post",
    "prune",
    "sessions",
    "verify",
]
