"""Actors that die, and runs that have none left: the bits are those of a run left alone."""

import os
import re
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import checkpoints
from simulator.base.errors import ConfigError
from simulator.contract import Subject
from simulator.data.datasets import data_folder
from simulator.engine.progress import ClientStarted, ClientTrained, EvaluationStarted, Event, Warned
from simulator.engine.round import Engine
from simulator.sessions.session import Session
from tests import federations
from tests.runners.conftest import RAY, STACKS, pids, pool, run

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_for_all")]


class Killer:
    """Halts the actor that gets the first portion of round 2, and kills it when another portion is done."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.before = pids(engine)
        self.begun, self.halted = list[int](), list[int]()
        self.warnings = list[str]()

    def halt(self, clients: Sequence[int]) -> int:
        """Halt the actor that gets these clients."""
        runner = self._engine._runner
        self.halted.append(runner._pool._joined[runner.free_for(clients)].pid)
        os.kill(self.halted[0], signal.SIGSTOP)
        return self.halted[0]

    def __call__(self, event: Event) -> None:
        match event:
            case ClientStarted(2, client):
                self.begun.append(client)
                if not self.halted:
                    self.halt([client])
            case ClientTrained(2, _, 1):
                os.kill(self.halted[0], signal.SIGKILL)
            case Warned(message):
                self.warnings.append(message)


def test_the_client_of_an_actor_that_is_killed_at_work_is_computed_again() -> None:
    subject = Subject("fedlora")
    engine = subject.built(runtime=RAY).engine
    killer = Killer(engine)
    assert run(engine, observe=killer) == run(subject.built().engine)
    assert killer.halted[0] in killer.before
    [warning] = killer.warnings
    assert f" died at work on client {killer.begun[0]} (" in warning
    assert warning.endswith(" in round 2; the client is computed again.")
    engine = subject.built(runtime=RAY).engine
    after, members = pids(engine), len(pool(engine).workers)
    engine.close()
    assert members == 2
    assert killer.halted[0] not in after


def test_of_an_actor_that_is_killed_with_two_portions_only_the_first_counts_as_under_way() -> None:
    """In evaluation, each actor has two clients. One actor is halted before, and killed a little later."""
    subject = Subject("standalone")
    many = {"federation": {"clients": 8, "participation": 1.0}}
    engine = subject.built(**many, runtime=RAY).engine
    killer = Killer(engine)

    def kill(event: Event) -> None:
        match event:
            case EvaluationStarted(2, _):
                threading.Timer(0.5, os.kill, (killer.halt([]), signal.SIGKILL)).start()
            case Warned():
                killer(event)

    assert run(engine, observe=kill) == run(subject.built(**many).engine)
    [warning] = killer.warnings
    assert re.search(
        r" died at work on client \d \(.*\) in round 2; the client is computed again\.$", warning
    )


EIGHT: dict[str, Any] = {
    "federation": {"clients": 8, "participation": 1.0},
    "data": {"partition": "iid", "quantity": "equal"},
}
"""Clients of whom four have one architecture, and four another: four stacks of two."""


def test_a_stack_whose_actor_is_killed_at_work_is_computed_again_as_a_whole() -> None:
    subject = Subject("fedlora")
    engine = subject.built(**EIGHT, runtime={**STACKS, "stack": 2}).engine
    killer = Killer(engine)
    alone = subject.built(**EIGHT, runtime={"runner": "stacked", "stack": 2}).engine
    assert run(engine, observe=killer) == run(alone)
    [warning], (first, second, *_) = killer.warnings, killer.begun
    assert f" died at work on clients {first}, {second} in round 2; they are computed again." in warning
    assert sorted(killer.begun) == list(range(8))


def test_a_run_without_actors_waits_says_so_and_goes_on_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are killed in round 2, and no other is started until the run says that it waits."""
    monkeypatch.setattr("simulator.runners.ray.runner.PATIENCE", 0.2)
    subject = Subject("fedlora")
    engine = subject.built(runtime=RAY).engine
    actors, processes, warnings = pool(engine), pids(engine), []
    fill = actors.fill

    def kill(event: Event) -> None:
        match event:
            case ClientStarted(2, _) if processes:
                monkeypatch.setattr(actors, "fill", lambda: None)
                while processes:
                    os.kill(processes.pop(), signal.SIGKILL)
            case Warned(message):
                warnings.append(message)
                if "The run waits" in message:
                    fill()

    assert run(engine, observe=kill) == run(subject.built().engine)
    assert [message for message in warnings if "died" not in message] == [
        "The Ray cluster has no room for any client. The run waits. A stop keeps the finished clients.",
        f"The Ray cluster has room again: {warnings[-1].split()[6]} actors are ready, and the run continues.",
    ]


def test_a_run_that_waits_can_be_stopped_and_keeps_what_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("simulator.runners.ray.runner.PATIENCE", 0.2)
    subject, folder = Subject("fedlora"), tmp_path / "s"
    config = subject.config(runtime={**RAY, "workers": 1})
    Session.create(subject.config(), tmp_path / "alone", data_folder(None)).run()
    session, waits = Session.create(config, folder, data_folder(None)), []
    actors = pool(session._built.engine)
    fill = actors.fill

    def kill(event: Event) -> None:
        match event:
            case ClientTrained(2, _, 1):
                monkeypatch.setattr(actors, "fill", lambda: None)
                for member in list(actors.workers):
                    ray.kill(member.handle)
            case Warned(message) if "The run waits" in message:
                waits.append(message)

    outcome = session.run(kill, stop=lambda: "enough" if waits else None)
    assert (outcome.state, outcome.round) == ("stopped", 1)
    fill()
    assert len(checkpoints.SessionReader(folder).unfinished_round().note["clients"]) >= 1
    Session.resume(folder, data_folder(None), settings=["runtime.runner=parallel"]).run()
    assert federations.committed(folder) == federations.committed(tmp_path / "alone")


def test_a_client_that_takes_every_actor_with_it_is_named(own: Callable[[str, str], None]) -> None:
    own("deadly", """
        def receive(self, local, payload):
            if local.info.id == 1:
                os.kill(os.getpid(), signal.SIGKILL)
    """)  # fmt: skip
    engine = Subject("deadly").built(runtime=RAY, federation={"participation": 1.0}).engine
    with pytest.raises(ConfigError, match=r"died at work on client 1 \(.*\) in round 1, as 2 before it"):
        run(engine)
    engine.close()
