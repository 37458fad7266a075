"""The runner that an actor holds: who is given to an actor together, and that it has the bits it has in process."""

import functools
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from simulator.base.errors import ConfigError, NotEnoughMemory
from simulator.base.sections import RuntimeConfig
from simulator.config import idle
from simulator.contract import Subject
from simulator.engine.builder import Built
from simulator.methods.hooks import Hooks
from simulator.runners import Job, LocalUpdate, Work, carry_out
from simulator.runners import ray as on_ray
from simulator.runners.local import memory_for_training
from simulator.runners.ray.runner import RayRunner, _Lonely, _Sent
from simulator.runners.ray.setup import WorkerSetup, inner_runner, same_bits
from simulator.runners.ray.transfer import PAYLOADS, KnownStates, Message, Payloads
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
def test_portions_computed_elsewhere_have_the_bits_of_a_run_here(
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
        elsewhere += carry_out(runner, Work(theirs, 1, {client: jobs[client] for client in portion}))
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


def test_stacks_in_actors_have_the_bits_of_stacks_in_process_and_of_nothing_else(tmp_path: Path) -> None:
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


def test_a_ray_that_is_started_here_has_a_client_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
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


DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool)


def sent(tensors: Mapping[str, Tensor]) -> Any:
    """What arrives of them in another process: their bytes apart from the rest, and not to be written to."""
    apart: list[pickle.PickleBuffer] = []
    content = pickle.dumps(Message(tensors), protocol=5, buffer_callback=apart.append)
    return pickle.loads(content, buffers=[memoryview(bytes(each.raw())) for each in apart])


@given(st.data())
def test_tensors_arrive_bit_for_bit_whatever_their_dtype_and_shape(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(DTYPES))
    shape = data.draw(st.lists(st.integers(0, 3), max_size=4))
    stream = torch.Generator().manual_seed(seed := data.draw(st.integers(0, 99)))
    tensor = (100 * torch.randn(shape, generator=stream)).to(dtype)
    arrived = sent({"a/b": tensor, "turned": tensor.mT if len(shape) > 1 else tensor})
    assert type(arrived) is dict and all(each.is_contiguous() for each in arrived.values())
    assert federations.bits(arrived) == federations.bits({"a/b": tensor, "turned": arrived["turned"]})
    assert len(shape) < 2 or torch.equal(arrived["turned"].mT, tensor)
    arrived["a/b"].zero_()  # the receiver's own
    assert torch.equal(tensor, (100 * torch.randn(shape, generator=stream.manual_seed(seed))).to(dtype))


def test_equal_payloads_are_put_once_and_no_more_than_so_many_are_kept() -> None:
    """Equal are those of the same names, shapes, dtypes, and values."""
    put: list[Message] = []
    payloads = Payloads(lambda message: put.append(message) or len(put))
    zeros = torch.zeros(4, dtype=torch.float32)
    unlike = [{"a": zeros}, {"b": zeros}, {"a": zeros.reshape(2, 2)}, {"a": zeros.view(torch.int32)}]
    assert [payloads.put(each) for each in unlike] == [1, 2, 3, 4]
    assert payloads.put({"a": zeros.clone()}) == 1 and payloads.put(None) is None
    for number in range(PAYLOADS):
        payloads.put({"w": torch.tensor([100.0 + number])})
    assert payloads.put({"a": zeros}) == PAYLOADS + 5


def runner(samples: list[int]) -> RayRunner:
    """One for clients of equal models that hold so many samples."""
    federation = federations.federation(["tiny_mlp"] * len(samples), samples)
    context = replace(federations.context(federations.built(federations.config())), federation=federation)
    return RayRunner(context, RuntimeConfig(workers=1))


def test_clients_are_begun_longest_first_by_their_times_or_by_samples_and_parameters() -> None:
    """Three clients took 0.1 s a sample, so that client 3, with 25 samples, is likely to take 2.5 s. Clients that are
    given to an actor together are begun by their sum: 5, 4 and 2 s; equal ones by the number of their first.
    """
    alone = [[0], [1], [2], [3]]
    of_six: dict[int, float] = {0: 5.0, 1: 2.0, 2: 2.0, 3: 2.0, 4: 1.0, 5: 1.0}
    for samples, seconds, groups, expected in (
        ([10, 30, 20, 30], {}, alone, [[1], [3], [2], [0]]),
        ([10, 30, 20, 25], {0: 3.0, 1: 1.0, 2: 2.0}, alone, [[0], [3], [2], [1]]),
        ([10] * 6, of_six, [[4, 5], [3], [1, 2], [0]], [[0], [1, 2], [3], [4, 5]]),
    ):
        at_work = runner(samples)
        at_work._seconds = seconds
        assert at_work.longest_first(groups) == expected


def worker_setup(subject: Subject, **sections: Any) -> WorkerSetup:
    parts = subject.built(**sections)
    hooks = Hooks(parts.method, parts.federation)
    return WorkerSetup.of(federations.context(parts), hooks, parts.engine._config.runtime)


@pytest.mark.long
def test_whatever_changes_a_clients_result_changes_the_hash_of_its_run() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"seed": 8},
        {"training": {"lr": 0.2}},
        {"method": {"mu": 0.5}},
        {"data": {"limit": 150}},
        {"federation": {"group": "tiny_resnet"}},
        {"runtime": {"inner": "stacked"}},
    ]
    subject = Subject("fedlora")
    first, *others = (worker_setup(subject, **each).sha256 for each in changes)
    assert len({first, *others}) == len(changes)
    assert worker_setup(subject, evaluation={"batch_size": 7}).sha256 == first


def test_data_that_only_this_process_has_are_refused() -> None:
    parts = Subject("fedlora").built()
    made = parts._replace(data=replace(parts.data, source=None))
    with pytest.raises(ConfigError, match="needs data that every machine can load by itself"):
        WorkerSetup.of(federations.context(made), Hooks(parts.method, parts.federation), RuntimeConfig())


def test_without_ray_the_line_that_installs_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("workers", "cluster"):
        monkeypatch.delitem(sys.modules, f"{on_ray.__name__}.{name}", raising=False)
        monkeypatch.delattr(on_ray, name, raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    engine = Subject("fedlora").built(runtime={"runner": "ray"}).engine
    with pytest.raises(ConfigError, match=r"`pip install 'ray.*, or use `runner='parallel'`"):
        engine.open()
    engine.close()


class Refusing:
    """Actors whose answer is an error for the user."""

    def __init__(self) -> None:
        self.states = KnownStates()

    def wait(self, at_work: Mapping[str, Any], seconds: float) -> list[str]:
        return list(at_work)

    def heed(self, ref: str) -> bool:
        return False

    def answer(self, ref: str, worker: Any) -> None:
        worker.given -= 1
        raise ConfigError("no")


def test_after_an_error_of_one_portion_an_actor_with_two_is_idle_again() -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")
    from simulator.runners.ray.workers import Worker

    at_work, worker = runner([10, 10]), Worker(None, given=2)
    at_work._pool = cast(Any, Refusing())
    at_work._at_work = {str(task): _Sent(1, [task], worker, task) for task in (0, 1)}
    with pytest.raises(ConfigError):
        at_work.next_finished(0.0)
    at_work.settle()
    assert worker.given == 0


@pytest.mark.long
def test_nothing_loads_ray_unless_a_run_asks_for_it() -> None:
    probe = "import sys, tui.cli, simulator.engine.builder; print([each for each in sys.modules if each == 'ray'])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_only_where_no_actor_was_left_a_new_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, said = iter([0.0, 1.0, 7.0, 8.0, 9.0]), list[str]()
    monkeypatch.setattr("simulator.runners.ray.runner.time.monotonic", lambda: next(clock))
    lonely = _Lonely(said.append)
    lonely.look(2, needed=True)
    assert said == []
    for ready in (0, 0, 0, 3):
        lonely.look(ready, needed=True)
    assert [each.split(".")[0].split(":")[0] for each in said] == [
        "The Ray cluster has no room for any client", "The Ray cluster has room again",
    ]  # fmt: skip
