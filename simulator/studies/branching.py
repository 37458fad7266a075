"""Points that continue a session from one of its rounds. Each equals a fork there with the point's settings."""

from collections.abc import Sequence
from pathlib import Path

from simulator.base.errors import ConfigError
from simulator.base.nested import Raw, toml_value
from simulator.config import Config
from simulator.sessions import metadata
from simulator.sessions.forking import MAY_CHANGE
from simulator.sessions.history import begun_after, changed_settings, settings_in_force
from simulator.sessions.reader import CheckedReader

Change = tuple[str | None, Raw]
"""The new method, if any, and other settings by their dotted keys."""


def origin_of(text: str) -> tuple[str, int]:
    """The session and the round of 'SESSION@ROUND'. Raises ConfigError."""
    session, at, round = text.rpartition("@")
    if not at or not session or not round.isdecimal():
        raise ConfigError(f"'{text}' names no round of a session; for example: `origin='t3/fedlora-s0@50'`.")
    return session, int(round)


def points(origin: str, sessions_dir: Path, changes: Sequence[Change]) -> list[tuple[Raw, Raw | None]]:
    """Each point's configuration, and its `branch` as `Point` defines it.

    Raises ConfigError for a missing round and for settings that cannot change within a run; SessionUnreadable.
    """
    session, round = origin_of(origin)
    reader = CheckedReader(sessions_dir / session)
    before, _ = settings_after(reader, round)
    found: list[tuple[Raw, Raw | None]] = []
    for method, settings in changes:
        assignments = [f"{key}={toml_value(value)}" for key, value in settings.items()]
        after = changed_settings(before, method, assignments, MAY_CHANGE)
        if after.rounds <= round:
            raise ConfigError(
                f"{session} branches off after round {round}, which leaves no round to run. Ask for more, for "
                f"example `rounds={round + 10}`."
            )
        branch = {"parent": session, "round": round, "method": method, "set": assignments}
        found.append((after.to_json(), branch))
    return found


def settings_after(session: CheckedReader, round: int) -> tuple[Config, int]:
    """The configuration at the end of a round, and the round after which its method began. Raises ConfigError."""
    done = len(session.records())
    if not 0 <= round <= done:
        raise ConfigError(f"{session.folder} has no round {round}; it has rounds 0 to {done}.")
    config, history = metadata.current(session, {}, round)
    entries = [entry for entry in history if entry["from_round"] <= max(round, 1)]
    entries = entries if round else entries[:1]
    raw = settings_in_force({"config": config.to_json()}, entries)
    return metadata.read_config(session, raw), begun_after(entries)
