"""The errors that a user can correct. Each message says what is wrong, where, and what to do."""

from checkpoints import Damaged, DiskError, Locked, SessionUnreadable, TooLarge
from presets import PresetError
from simulator.base.errors import (
    ConfigError,
    DataError,
    HtflError,
    MachinesLost,
    MethodError,
    NotEnoughMemory,
    PointsFailed,
    SessionError,
    is_of_memory,
)

__all__ = [
    "ConfigError",
    "Damaged",
    "DataError",
    "DiskError",
    "HtflError",
    "Locked",
    "MachinesLost",
    "MethodError",
    "NotEnoughMemory",
    "PointsFailed",
    "PresetError",
    "SessionError",
    "SessionUnreadable",
    "TooLarge",
    "is_of_memory",
]
