"""Which machine, boot and process this is: what tells the owner of a session on a shared folder from another."""

import os
import socket
import uuid
from functools import cache
from pathlib import Path

import psutil


def host() -> str:
    """The machine's name in its network; two machines may have the same."""
    return socket.gethostname()


@cache
def boot_id() -> str:
    """A text that is another after every start of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return str(int(psutil.boot_time()))


@cache
def machine_id() -> str:
    """A text that is the installed system's own; a copy of its disk has the same."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            if (id := Path(path).read_text(encoding="ascii").strip()) and id.isalnum():
                return id
        except (OSError, UnicodeDecodeError):
            continue
    return f"{uuid.getnode():012x}"


@cache
def process_space() -> str:
    """In which space process numbers count: a container has its own, and sees no process outside it."""
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        return ""


def start_time(pid: int) -> float | None:
    """When a process of this space started, in seconds since 1970; None if it does not run."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return None
