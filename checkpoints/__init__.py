"""htfl-sim's session store: named tensors and JSON, safe from crashes and silent damage. Others use only these names.

Importing it does not import torch; only putting and loading tensors does.
"""

from checkpoints import limits
from checkpoints.directories import (
    Leftover,
    Marks,
    check_note,
    check_tag,
    in_private,
    is_free,
    leftovers,
    mark,
    marks_of,
    refuse_remains,
    remove,
    remove_leftover,
    rename,
    tags_of,
)
from checkpoints.files import Damaged, DiskError, Displaced, Locked, SessionUnreadable, UnsupportedVersion
from checkpoints.group import Arrival, Group, GroupReader, Parcel, Piece, pack
from checkpoints.layout import (
    POINTS,
    TUNING,
    continues,
    fork_at,
    is_group,
    name_of,
    sessions_folder,
    typed,
)
from checkpoints.ledger import text_of as ledger_text
from checkpoints.limits import TooLarge
from checkpoints.lock import now
from checkpoints.mailbox import Answer, Command, answer, pending, post
from checkpoints.manifests import Manifest, Pruned, Retention, UnfinishedRound
from checkpoints.objects import TensorSpec
from checkpoints.reader import (
    Growth,
    Part,
    SessionFollower,
    SessionReader,
    Stamp,
    changed_stamp,
    first_record,
    groups,
    is_session,
    last_record,
    mentions,
    session_folders,
    sessions,
    size_on_disk,
)
from checkpoints.schema import ObjectRef, canonical, checked, shown
from checkpoints.store import Store, prune
from checkpoints.verify import Finding, verify
