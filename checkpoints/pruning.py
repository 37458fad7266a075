"""Thinning out a stopped session afterwards."""

from pathlib import Path

from checkpoints import lock
from checkpoints.manifests import Kept, Pruned, Retention, kept_manifests
from checkpoints.reader import SessionReader
from checkpoints.store import Store


def prune(folder: Path, retention: Retention, *, dry_run: bool = False, steal: bool = False) -> Pruned:
    """Remove the checkpoints of a stopped session that `retention` does not keep, or only say which."""
    if dry_run:
        unfinished = SessionReader(folder).unfinished_round()
        needed = set(unfinished.states.values()) if unfinished else set()
        kept = Kept(retention, kept_manifests(folder))
        rounds = kept.surplus()
        return Pruned(
            rounds, sum(ref.size for round in rounds for ref in kept.drop(round) if ref not in needed)
        )
    before = lock.legible_note(folder)
    with Store.open(folder, retention=Retention(last=1 << 62), steal=steal) as store:
        pruned = store.prune(retention)
        store.close(str(before["state"]) if before is not None and lock.is_closed(before) else "stopped")
    return pruned
