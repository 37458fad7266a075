"""The interface of runners: client order, the gate, and a runner that takes many clients' steps together."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import pytest

from simulator import runners
from simulator.errors import ConfigError
from simulator.methods.hooks import Hooks
from simulator.runners import Gate, Job, LocalUpdate, RoundInterrupted, Runner, always_go, base, local
from simulator.runners.base import nobody_told
from tests import federations


class Interleaved(Runner):
    """Takes a step of every client in turn, on one thread, until none has any left."""

    def update(
        self,
        hooks: Hooks,
        round: int,
        jobs: Mapping[int, Job],
        done: Callable[[LocalUpdate], None],
        gate: Gate = always_go,
        begun: Callable[[int], None] = nobody_told,
        finished: Collection[int] = (),
    ) -> list[LocalUpdate]:
        at_work = {
            client: local.prepare(hooks, self.context, self.info(client), round, job)
            for client, job in jobs.items()
        }
        steps: dict[int, Iterator[None]] = {client: local.train(each) for client, each in at_work.items()}
        while steps:
            steps = {client: step for client, step in steps.items() if next(step, "over") is None}
        updates = [local.finish(each) for each in at_work.values()]
        for update in updates:
            done(update)
        return updates

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


@pytest.mark.parametrize("name", ["fedlora", "fedkd", "fedl2g_f", "scaffold"])
def test_clients_steps_taken_in_turn_give_the_bits_of_clients_side_by_side(
    name: str, interleaved: None
) -> None:
    """Two phases, several networks, a forward-mode product, corrections: nothing of a step is another client's."""
    assert after(name, "interleaved") == after(name, "parallel")


@pytest.mark.parametrize("name", runners.names_within())
def test_updates_come_in_client_order_and_every_one_is_told(name: str) -> None:
    parts = federations.built(federations.config("fedavg", runtime={"runner": name, "workers": 2}))
    told: list[int] = []
    updates = run(parts, told.append)
    assert [update.client.id for update in updates] == [0, 1, 2, 3]
    assert sorted(told) == [0, 1, 2, 3]


@pytest.mark.parametrize("name", runners.names_within())
def test_a_gate_that_closes_ends_the_round_with_what_is_finished(name: str) -> None:
    parts = federations.built(federations.config("fedavg", runtime={"runner": name, "workers": 1}))
    with pytest.raises(RoundInterrupted) as interrupted:
        run(parts, lambda client: None, lambda finished, running: "leave" if len(finished) == 2 else "go")
    assert len(interrupted.value.updates) == 2


@pytest.mark.parametrize("name", runners.names_within())
def test_a_gate_that_holds_is_asked_again_until_it_opens(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = iter(["hold", "hold"])
    for module in (runners.parallel, base):
        monkeypatch.setattr(module, "POLL_SECONDS", 0.001)
    parts = federations.built(federations.config("fedavg", runtime={"runner": name, "workers": 1}))
    updates = run(parts, lambda client: None, lambda finished, running: next(decisions, "go"))
    assert len(updates) == 4
    assert next(decisions, None) is None


def test_an_unknown_runner_is_refused_before_anything_is_computed() -> None:
    with pytest.raises(ConfigError, match=r"unknown runner 'paralel'\. Did you mean 'parallel'\?"):
        federations.built(federations.config("fedavg", runtime={"runner": "paralel"}))


def test_a_name_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_RUNNERS", dict(base._RUNNERS))
    with pytest.raises(ValueError, match="'sequential' exists already"):
        runners.register("sequential")(Interleaved)


def run(parts: Any, told: Callable[[int], None], gate: Gate = always_go) -> list[LocalUpdate]:
    """Round 1 of all four clients."""
    state = parts.engine.initial_state()
    jobs = {
        client.id: Job(state.clients[client.id], parts.method.downlink(1, state.server, client))
        for client in parts.federation.clients
    }
    hooks = Hooks(parts.method, parts.federation)
    return parts.engine._runner.update(hooks, 1, jobs, lambda update: told(update.client.id), gate)
