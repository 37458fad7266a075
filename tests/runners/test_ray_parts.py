"""What Ray is given and in which order: nothing here needs it, but the sentence that it is not there."""

import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from simulator.base.errors import ConfigError
from simulator.base.sections import RuntimeConfig
from simulator.contract import Subject
from simulator.methods.hooks import Hooks
from simulator.runners import Job
from simulator.runners import ray as on_ray
from simulator.runners.ray.runner import RayRunner, _Sent, trained
from simulator.runners.ray.setup import WorkerSetup
from simulator.runners.ray.transfer import PAYLOADS, KnownStates, Message, Payloads
from tests import federations

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
    stream = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    tensor = (100 * torch.randn(shape, generator=stream)).to(dtype)
    arrived = sent({"a/b": tensor})
    assert type(arrived) is dict
    assert federations.bits(arrived) == federations.bits({"a/b": tensor})


def test_what_lies_otherwise_in_memory_arrives_contiguous_as_the_receivers_own() -> None:
    turned = torch.arange(6.0).reshape(2, 3).T
    [arrived] = sent({"turned": turned}).values()
    assert arrived.is_contiguous()
    assert torch.equal(arrived, turned)
    arrived += 1
    assert turned[0, 0] == 0


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


def test_clients_are_begun_by_samples_and_parameters_while_none_was_timed() -> None:
    assert runner([10, 30, 20, 30]).longest_first([[0], [1], [2], [3]]) == [[1], [3], [2], [0]]


def test_clients_are_begun_by_the_time_they_took_and_others_by_the_pace_of_those() -> None:
    """Those three took 0.1 s a sample, so that client 3, with 25 samples, is likely to take 2.5 s."""
    at_work = runner([10, 30, 20, 25])
    at_work._seconds = {0: 3.0, 1: 1.0, 2: 2.0}
    assert at_work.longest_first([[0], [1], [2], [3]]) == [[0], [3], [2], [1]]


def test_clients_that_are_given_to_an_actor_together_are_begun_by_their_sum() -> None:
    """5, 4 and 2 s; those who are alike, by the number of their first client."""
    at_work = runner([10, 10, 10, 10, 10, 10])
    at_work._seconds = {0: 5.0, 1: 2.0, 2: 2.0, 3: 2.0, 4: 1.0, 5: 1.0}
    assert at_work.longest_first([[4, 5], [3], [1, 2], [0]]) == [[0], [1, 2], [3], [4, 5]]


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


def test_equipment_gives_the_update_that_the_run_itself_would_compute() -> None:
    parts = Subject("fedlora").built()
    state = parts.engine.initial_state()
    hooks = Hooks(parts.method, parts.federation)
    packed = pickle.dumps(WorkerSetup.of(federations.context(parts), hooks, RuntimeConfig()))
    there, hooks_there = pickle.loads(packed).set_up()
    client = parts.federation.clients[1]
    payload = hooks.downlink(1, state.server, client)
    mine = federations.updated(parts, 1, state.clients[1], dict(payload))
    job = Job(state.clients[1], {name: tensor.clone() for name, tensor in payload.items()})
    [theirs] = trained(there, hooks_there, 1, {1: job})
    assert federations.bits(theirs.tensors) == federations.bits(mine.tensors)
    assert theirs.losses == mine.losses


def test_data_that_only_this_process_has_are_refused() -> None:
    parts = Subject("fedlora").built()
    made = parts._replace(data=replace(parts.data, source=None))
    with pytest.raises(ConfigError, match="needs data that every machine can load by itself"):
        WorkerSetup.of(federations.context(made), Hooks(parts.method, parts.federation), RuntimeConfig())


def test_where_ray_is_not_installed_the_line_that_installs_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
