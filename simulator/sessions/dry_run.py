"""Trying out a switch of a session that nobody runs, before it is left in its mailbox for the next resume."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints import Command
from simulator.base.errors import ConfigError
from simulator.config import Config
from simulator.engine.builder import build, rebuild
from simulator.sessions.history import asked_for, boundary, differences
from simulator.sessions.metadata import check_data, check_recordable, current
from simulator.sessions.reader import CheckedReader


def planned(session: CheckedReader, upto: int = 0) -> Config:
    """The configuration of the next resume: the last checkpoint's, and what the switches in the mailbox make of it.

    Of those that wait for the end of a certain round, only up to the round `upto`. Raises SessionError when the plugin
    of its method is not loaded.
    """
    # Whether the recorded device is here as well is the resume's concern.
    config, _ = current(session, {"runtime": {"device": "cpu"}})
    waiting: list[tuple[int, Command]] = []
    for command in checkpoints.pending(session.folder):
        if command.kind == "switch":
            with suppress(ConfigError):  # the resume will refuse it, and say so
                waiting.append((boundary(command.arguments), command))
    for at_round, command in sorted(waiting, key=lambda each: each[0]):
        if at_round <= max(upto, _done(session)):
            with suppress(ConfigError):
                config = asked_for(config, command.arguments)
    return config


def proposed(session: CheckedReader, arguments: Mapping[str, Any]) -> tuple[Config, Config]:
    """The planned configuration without and with what a switch's arguments ask for; raises ConfigError."""
    before = planned(session, boundary(arguments))
    record = session.manifest().record if session.rounds() else None
    return before, asked_for(before, arguments, _done(session), record)


def extend(
    session: CheckedReader,
    rounds: int | None,
    until: float | None = None,
    until_time: float | str | None = None,
) -> None:
    """Leave a switch to so many rounds, or other goals, in the mailbox, unless that is so.

    Raises ConfigError, also where so many rounds have been run already.
    """
    before = planned(session)
    if rounds is not None and rounds < (done := _done(session)):
        raise ConfigError(
            f"{session.folder} has {done} rounds already. For more use `rounds={done + 10}`. To go on from round "
            f"{rounds}, fork it: {checkpoints.fork_at(session.folder, rounds)}."
        )
    if isinstance(until_time, str):
        until_time = before.with_(until_time=until_time).until_time  # refused now if it is no time
    wanted = {"rounds": rounds, "until": until, "until_time": until_time}
    new = [
        f"{key}={value}"
        for key, value in wanted.items()
        if value is not None and value != getattr(before, key)
    ]
    if new:
        arguments = {"method": None, "set": new}
        proposed(session, arguments)
        checkpoints.post(session.folder, "switch", arguments)


def rehearse(session: CheckedReader, arguments: Mapping[str, Any], data_dir: Path) -> list[str]:
    """The settings that a switch would change, as 'training.lr 0.01 → 0.005'; nothing is written.

    Raises ConfigError when the settings are not valid or the models cannot run the method, DataError and SessionError
    when the data are not there or not the same.
    """
    before, after = proposed(session, arguments)
    # Looked at on this machine's CPU; a GPU's precisions are for the GPU's owner to refuse.
    on_cpu = str(session.document["environment"].get("device", "cpu")).startswith("cpu")
    built = build(before, data_dir, runs=False)
    check_data(session, before, built.data)
    check_recordable(after, rebuild(built, after, runs=on_cpu))
    return differences(before, after)


def _done(session: CheckedReader) -> int:
    """The round that the next resume begins after."""
    return max([0, *session.rounds()])
