"""The interface of runners: client order, the gate, and a runner that takes many clients' steps together."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import pytest

from simulator import runners
from simulator.base.errors import ConfigError
from simulator.methods.hooks import Hooks
from simulator.runners import (
    Finished,
    Gate,
    Job,
    Listener,
    LocalUpdate,
    RoundInterrupted,
    Runner,
    Work,
    always_go,
    base,
    carry_out,
    local,
)
from tests import federations


class Interleaved(Runner):
    """Takes a step of every client in turn, on one thread, until none has any left."""

    _work: Work | None = None

    def portions(self, clients: Sequence[int], finished: Collection[int] = ()) -> list[list[int]]:
        return [list(clients)]

    def has_room(self, portion: Sequence[int]) -> bool:
        return True

    def start(self, work: Work, portion: Sequence[int]) -> None:
        self._work = work

    def next_finished(self, seconds: float) -> Finished | None:
        work, self._work = self._work, None
        assert work is not None
        at_work = [
            local.prepare(work.hooks, self.context, self.info(client), work.round, job)
            for client, job in work.jobs.items()
        ]
        steps: list[Iterator[None]] = [local.train(each) for each in at_work]
        while steps:
            steps = [step for step in steps if next(step, "over") is None]
        return Finished([local.finish(each) for each in at_work])

    def each(self, clients: Iterable[int], work: Callable[[int], Any]) -> list[Any]:
        return [work(client) for client in clients]


@pytest.fixture
def interleaved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_RUNNERS", dict(base._RUNNERS))
    runners.register("interleaved")(Interleaved)


def after(name: str, runner: str) -> dict[str, Any]:
    settings = federations.config(name, runtime={"runner": runner}, training={"epochs": 2})
    state = federations.run(federations.built(settings).engine, 2)
    return federations.state_bits(state) | {"record": federations.untimed(state.record)}


@pytest.mark.parametrize(
    "name", ["scaffold", *(pytest.param(each, marks=pytest.mark.long) for each in ("fedkd", "fedl2g_f"))]
)
def test_steps_taken_in_turn_give_the_bits_of_clients_side_by_side(name: str, interleaved: None) -> None:
    """Two phases, several networks, a forward-mode product, corrections: nothing of a step is another client's."""
    assert after(name, "interleaved") == after(name, "parallel")


def test_updates_come_in_client_order_and_the_gate_decides_who_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A gate that holds is asked again until it opens. One that closes ends the round with what is finished."""
    monkeypatch.setattr(base, "POLL_SECONDS", 0.001)
    for name in runners.names_within():
        two, one = (
            federations.built(federations.config("fedavg", runtime={"runner": name, "workers": workers}))
            for workers in (2, 1)
        )
        told, decisions = list[int](), iter(["hold", "hold"])
        updates = run(two, told.append)
        assert [update.client.id for update in updates] == [0, 1, 2, 3] == sorted(told)
        gate = lambda finished, running, decisions=decisions: next(decisions, "go")  # noqa: E731
        assert len(run(one, told.append, gate)) == 4 and next(decisions, None) is None
        with pytest.raises(RoundInterrupted) as interrupted:
            run(one, told.append, lambda finished, running: "leave" if len(finished) == 2 else "go")
        assert len(interrupted.value.updates) == 2


def test_a_name_is_taken_once_and_an_unknown_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_RUNNERS", dict(base._RUNNERS))
    with pytest.raises(ValueError, match="'sequential' exists already"):
        runners.register("sequential")(Interleaved)
    with pytest.raises(ConfigError, match=r"unknown runner 'paralel'\. Did you mean 'parallel'\?"):
        federations.built(federations.config("fedavg", runtime={"runner": "paralel"}))


def run(parts: Any, told: Callable[[int], None], gate: Gate = always_go) -> list[LocalUpdate]:
    """Round 1 of all four clients."""
    state, hooks = parts.engine.initial_state(), Hooks(parts.method, parts.federation)
    jobs = {
        client.id: Job(state.clients[client.id], parts.method.downlink(1, state.server, client))
        for client in parts.federation.clients
    }
    listener = Listener(gate, done=lambda update: told(update.client.id))
    return carry_out(parts.engine._runner, Work(hooks, 1, jobs), listener)


def test_draws_are_keyed_by_the_dispatch_number_and_schedules_by_the_round() -> None:
    """With the same round, another dispatch number shuffles other batches; with the round's own, nothing changes."""
    parts = federations.built(federations.config("fedavg", runtime={"runner": "sequential"}))
    state = parts.engine.initial_state()
    hooks = Hooks(parts.method, parts.federation)
    jobs = {0: Job(state.clients[0], parts.method.downlink(1, state.server, parts.federation.clients[0]))}

    def uplink(dispatch: int | None) -> Any:
        [update] = carry_out(parts.engine._runner, Work(hooks, 1, jobs, dispatch=dispatch))
        return federations.bits(update.uplink)

    assert uplink(1) == uplink(None)
    assert uplink(7) != uplink(None)
