"""Trying out a switch of a session that nobody runs, before it is left in its mailbox for the next resume."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import checkpoints
from simulator.builder import build, rebuild
from simulator.config import Config
from simulator.errors import ConfigError
from simulator.sessions.history import asked_for, differences
from simulator.sessions.metadata import check_data, current


def planned(session: checkpoints.SessionReader) -> Config:
    """The configuration of the next resume: the last checkpoint's, and what the switches in the mailbox make of it.

    Raises SessionError when the plugin of its method is not loaded.
    """
    # Whether the recorded device is here as well is the resume's concern.
    config, _ = current(session, {"device": "cpu"})
    for command in checkpoints.pending(session.folder):
        if command.kind == "switch":
            with suppress(ConfigError):  # the resume will refuse it, and say so
                config = asked_for(config, command.arguments)
    return config


def proposed(session: checkpoints.SessionReader, arguments: Mapping[str, Any]) -> tuple[Config, Config]:
    """The planned configuration without and with what a switch's arguments ask for; raises ConfigError."""
    before = planned(session)
    return before, asked_for(before, arguments, _done(session))


def extend(session: checkpoints.SessionReader, rounds: int) -> None:
    """Leave a switch to so many rounds in the mailbox, unless that is their number already.

    Raises ConfigError when they have been run already.
    """
    if rounds < (done := _done(session)):
        raise ConfigError(
            f"{session.folder} has done {done} rounds already, which stay; for more, ask for more than that: "
            f"--rounds {done + 10}. To go on from round {rounds}, fork it there."
        )
    arguments = {"method": None, "set": [f"rounds={rounds}"]}
    if planned(session).rounds != rounds:
        proposed(session, arguments)
        checkpoints.post(session.folder, "switch", arguments)


def rehearse(session: checkpoints.SessionReader, arguments: Mapping[str, Any], data_dir: Path) -> list[str]:
    """The settings that a switch would change, as 'training.lr 0.01 → 0.005'; nothing is written.

    Raises ConfigError when the settings are not valid or the models cannot run the method, DataError and SessionError
    when the data are not there or not the same.
    """
    before, after = proposed(session, arguments)
    built = build(before, data_dir)
    check_data(session, before, built)
    rebuild(built, after)
    return differences(before, after)


def _done(session: checkpoints.SessionReader) -> int:
    """The round that the next resume begins after."""
    return max([0, *session.rounds()])
