"""Machines that share a folder over which no lock reaches, each played by processes of this one."""

from checkpoints import lock


def pretend_to_be(name: str) -> None:
    """From now on this process runs on a machine of that name, and its locks bind nobody elsewhere."""
    lock.host = lambda: name
    lock.machine_id = lambda: name
    lock.boot_id = lambda: f"the boot of {name}"
    lock.fcntl.flock = lambda *_: None
    # Heartbeats are seen at once here; a real share may show them late.
    lock.WATCH_SECONDS, lock.SETTLE_SECONDS = 1.6, 0.1
