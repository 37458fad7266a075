"""A session's operator: posts commands when things happen, and reads what became of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints import Command
from simulator.config import Config
from simulator.engine.progress import ClientTrained, Event, RoundFinished, StateChanged
from simulator.sessions.session import Session
from tests import federations


def config(**sections: Any) -> Config:
    """Four rounds of LG-FedAvg."""
    return federations.config("lg_fedavg", rounds=4, **sections)


class Operator:
    """Posts commands when things happen: `script` maps an event's test to the command it sets off, once each."""

    def __init__(self, folder: Path, *script: tuple[Callable[[Event], bool], str, dict[str, Any]]) -> None:
        self.folder = folder
        self.script = list(script)
        self.posted: list[Command] = []
        self.seen: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.seen.append(event)
        for step in list(self.script):
            happens, kind, arguments = step
            if happens(event):
                self.script.remove(step)
                self.posted.append(checkpoints.post(self.folder, kind, arguments))

    def answers(self) -> list[tuple[str, str, int | None]]:
        found = [checkpoints.answer(self.folder, command.id) for command in self.posted]
        return [(each.kind, each.outcome, each.round) for each in found if each]

    def phases(self) -> list[tuple[str, int]]:
        return [(event.state, event.round) for event in self.seen if isinstance(event, StateChanged)]


def trained(round: int, done: int) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, ClientTrained) and (event.round, event.done) == (round, done)


def finished(round: int) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, RoundFinished) and event.record["round"] == round


def alone(tmp_path: Path, config: Config) -> tuple[list[dict[str, Any]], dict[str, str]]:
    Session.create(config, tmp_path / "alone", tmp_path).run()
    return federations.committed(tmp_path / "alone")


def kinds(folder: Path) -> list[str]:
    return [
        event["event"]
        for event in checkpoints.SessionReader(folder).events()
        if event["event"] != "checkpoint"
    ]
