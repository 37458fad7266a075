"""The runner that an actor holds: who is given to an actor together, and that it has the bits it has in process."""

import functools
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simulator import methods
from simulator.base.errors import ConfigError, NotEnoughMemory
from simulator.base.sections import RuntimeConfig
from simulator.config import idle
from simulator.contract import Subject
from simulator.engine.builder import Built
from simulator.engine.round import Engine
from simulator.methods.hooks import Hooks
from simulator.runners import Job, LocalUpdate, Work, carry_out
from simulator.runners.local import memory_for_training
from simulator.runners.ray.runner import RayRunner, trained
from simulator.runners.ray.setup import WorkerSetup, inner_runner, same_bits
from simulator.sessions.reader import CheckedReader
from simulator.sessions.session import Session, other_bits
from simulator.training.trainer import TrainingContext
from tests import federations

EVERYBODY = {"clients": 8, "participation": 1.0}
"""Of whom four have one architecture, and four another."""


def holding(name: str, **runtime: Any) -> dict[str, Any]:
    """Settings with which actors hold that runner."""
    return {"runner": "ray", "inner": name, **runtime}


def built(name: str = "fedavg", **runtime: Any) -> Built:
    """Eight clients of two architectures."""
    return federations.built(federations.config(name, federation=EVERYBODY, runtime=runtime))


@functools.cache
def context() -> TrainingContext:
    """Where they are computed."""
    return federations.context(built())


def portions(finished: tuple[int, ...] = (), **runtime: Any) -> list[list[int]]:
    """The clients that are given to an actor together, of those who have not finished."""
    held = inner_runner(context(), RuntimeConfig(**runtime))
    return held.bundles([client for client in range(8) if client not in finished], finished)


def test_an_actor_computes_one_client_at_a_time_unless_it_is_said() -> None:
    assert portions() == [[client] for client in range(8)]
    assert portions(inner="parallel", workers_per_actor=3) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    found = [same_bits(RuntimeConfig(inner=name)) for name in ("sequential", "parallel", "stacked")]
    assert found == ["parallel", "parallel", "stacked"]


def test_a_stack_is_given_to_an_actor_as_a_whole_and_who_is_in_none_by_himself() -> None:
    """With equal shares, stacks of three of each architecture; the fourth of each trains alone."""
    parts = federations.built(
        federations.config(
            "fedavg",
            federation=EVERYBODY,
            data={"partition": "iid", "quantity": "equal"},
            runtime=holding("stacked", stack=3),
        )
    )
    held = inner_runner(federations.context(parts), RuntimeConfig(inner="stacked", stack=3))
    assert sorted(held.bundles(range(8))) == [[0, 2, 4], [1, 3, 5], [6], [7]]
    assert sorted(held.bundles([0, 1, 3, 5, 6, 7], [2, 4])) == [[0], [1, 3, 5], [6], [7]]


@given(st.sets(st.integers(0, 7)), st.integers(1, 5), st.sampled_from(["sequential", "parallel", "stacked"]))
def test_everybody_who_has_not_finished_is_in_one_portion(done: set[int], size: int, name: str) -> None:
    settings = RuntimeConfig(inner=name, stack=size, workers_per_actor=size)
    held = inner_runner(context(), settings)
    left = [client for client in range(8) if client not in done]
    found = held.bundles(left, sorted(done))
    assert sorted(client for portion in found for client in portion) == left
    assert all(len(portion) <= size for portion in found)


def brought_out(updates: list[LocalUpdate]) -> dict[int, Any]:
    """Everything that follows from the clients' work alone."""
    return {
        each.client.id: (federations.bits(each.tensors), federations.bits(each.uplink), dict(each.losses))
        for each in updates
    }


@pytest.mark.parametrize(
    ("held", "finished"), [("sequential", ()), ("parallel", (2, 5)), ("stacked", ()), ("stacked", (2, 5))]
)
def test_portions_computed_elsewhere_have_the_bits_of_the_runner_in_process(
    held: str, finished: tuple[int, ...]
) -> None:
    """Elsewhere: a runner of its own for each portion, as if every one had another actor."""
    subject = Subject("scaffold")
    there = subject.built(federation=EVERYBODY, runtime=holding(held, stack=2))
    here = subject.built(federation=EVERYBODY, runtime={"runner": held, "stack": 2})
    state, hooks = here.engine.initial_state(), Hooks(here.method, here.federation)
    jobs = {
        client.id: Job(state.clients[client.id], hooks.downlink(1, state.server, client))
        for client in here.federation.clients
        if client.id not in finished
    }
    in_process = carry_out(here.engine._runner, Work(hooks, 1, jobs, finished))

    settings = there.engine._config.runtime
    packed = pickle.dumps(WorkerSetup.of(federations.context(there), hooks, settings))
    elsewhere, data = list[LocalUpdate](), None
    for portion in inner_runner(federations.context(there), settings).bundles(list(jobs), finished):
        runner, theirs = pickle.loads(packed).set_up(data)
        data = runner.context.data
        elsewhere += trained(runner, theirs, 1, {client: jobs[client] for client in portion})
        runner.close()
    assert brought_out(elsewhere) == brought_out(in_process)


def test_a_runner_that_an_actor_cannot_hold_is_refused_before_anything_is_computed() -> None:
    alone = {"clients": 2, "participation": 1.0}
    for name, federation, said in (
        ("stackt", EVERYBODY, r"unknown runner 'stackt' in runtime\.inner\. Did you mean 'stacked'"),
        ("ray", EVERYBODY, r"actors start others\. An actor can hold parallel, sequential, stac"),
        ("stacked", alone, r"no two have the same; use `runtime\.inner=parallel`"),
    ):
        with pytest.raises(ConfigError, match=said):
            federations.built(federations.config("standalone", federation=federation, runtime=holding(name)))


def test_stacks_in_actors_are_other_bits_than_clients_by_themselves_and_no_others_than_stacks_in_process(
    tmp_path: Path,
) -> None:
    """To a resume of one session, on four other ways of computing it."""
    with federations.on_images(federations.generated()):
        config = federations.config("fedavg", federation=EVERYBODY, runtime={"runner": "stacked"})
        with Session.create(config, tmp_path / "s", tmp_path) as session:
            session.run(upto=1)
        recorded = CheckedReader(tmp_path / "s")
        ways = [holding("stacked"), holding("stacked", stack=4), holding("sequential"), holding("parallel")]
        found = [
            other_bits(recorded, federations.config("fedavg", federation=EVERYBODY, runtime=way), False)
            for way in ways
        ]
    alone = ["clients in stacks of 16 → each by itself"]
    assert found == [[], ["clients in stacks of 16 → in stacks of 4"], alone, alone]


def test_settings_of_actors_that_are_never_read_are_said() -> None:
    def unread(**runtime: Any) -> list[str]:
        return [each.split(" =")[0] for each in idle(federations.config("fedavg", runtime=runtime))]

    assert unread(inner="stacked") == ["runtime.inner"]
    assert unread(**holding("stacked", workers_per_actor=4)) == ["runtime.workers_per_actor"]
    assert unread(**holding("parallel", workers_per_actor=4)) == []


def test_a_ray_that_is_started_here_has_as_many_clients_at_work_as_there_are_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of eight cores, with two to a client: an actor of three clients, or four of one; or as many as are asked for."""
    monkeypatch.setattr("simulator.runners.base.os.cpu_count", lambda: 8)

    def actors(**runtime: Any) -> tuple[int, int]:
        runner = RayRunner(context(), RuntimeConfig(threads_per_client=2, **runtime))
        return runner._actors, runner.workers

    assert actors(inner="parallel", workers_per_actor=3) == (1, 3)
    assert actors(inner="parallel", workers_per_actor=3, workers=5) == (5, 15)
    assert actors() == actors(inner="stacked") == (4, 4)


def test_where_memory_lacks_for_clients_side_by_side_fewer_to_an_actor_help() -> None:
    held = inner_runner(context(), RuntimeConfig(**holding("parallel", workers_per_actor=4)))
    with (
        pytest.raises(NotEnoughMemory, match=r"`htfl-sim resume SESSION --set runtime\.workers_per_actor=2`"),
        memory_for_training(held, 1, 0, held.workers),
    ):
        raise torch.OutOfMemoryError("out of memory")


@pytest.fixture(scope="module")
def side_by_side() -> Iterator[dict[str, Any]]:
    """Settings with two actors of two clients each, which stay for all tests."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")
    runtime = holding("parallel", workers=2, workers_per_actor=2)
    engine = Subject("fedavg").built(runtime=runtime).engine
    [place] = engine.open()
    assert place["workers"] == 4
    yield runtime
    engine.close()


def after_two_rounds(engine: Engine) -> dict[str, Any]:
    state, records = engine.initial_state(), []
    for _ in range(2):
        state = engine.round(state, lambda _: None)
        assert state.record is not None
        assert state.record["timing"]["workers"] in (1, 4)
        records.append(federations.untimed(state.record))
    engine.close()
    return federations.state_bits(state) | {"records": records}


@pytest.mark.slow
@pytest.mark.parametrize("name", methods.names())
def test_actors_with_clients_side_by_side_have_the_bits_of_clients_in_process(
    name: str, side_by_side: dict[str, Any]
) -> None:
    subject = Subject(name)
    there, here = (
        after_two_rounds(subject.built(federation=EVERYBODY, runtime=each).engine)
        for each in (side_by_side, {})
    )
    assert there == here
