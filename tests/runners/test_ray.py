"""Clients on Ray, on actors of this machine: the same bits as in process, whatever happens to the actors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkpoints
from simulator import methods
from simulator.base.environment import environment
from simulator.base.errors import ConfigError, DataError, MethodError
from simulator.contract import Subject
from simulator.data.datasets import data_folder
from simulator.engine.builder import Built, build
from simulator.engine.progress import ClientTrained, Event
from simulator.metrics import user_metrics as metrics
from simulator.results.analysis.events import description
from simulator.sessions.session import Session
from tests import federations
from tests.runners.conftest import RAY, STACKS, pids, run

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")

pytestmark = pytest.mark.usefixtures("ray_for_all")
FAST = ("fedgen", "scaffold")
"""A generator that the server trains, by itself; corrections that each client keeps, in stacks."""


@pytest.mark.long
def test_methods_have_the_tensors_and_records_that_they_have_in_process() -> None:
    """Several in one test, the only one that is run each time: where tests run side by side, each would start a Ray."""
    alone, stacked = map(Subject, FAST)
    assert run(alone.built(runtime=RAY).engine) == run(alone.built().engine)
    assert_same_stacks(stacked)


def assert_same_stacks(subject: Subject) -> None:
    """Of eight clients of two architectures, trained and evaluated three at a time: in actors and in process."""
    sections = {
        "federation": {"clients": 8, "participation": 1.0},
        "data": {"split": "global"},
        "evaluation": {"model": "local", "batch_size": 64},
    }
    there, here = (
        run(subject.built(**sections, runtime={**each, "stack": 3}).engine)
        for each in (STACKS, {"runner": "stacked"})
    )
    assert there == here


PHONES = {"devices": {"phone": 0.5, "laptop": 0.5}, "jitter": 0.5}
SLOW: dict[str, Any] = {
    "devices": "phone", "default_utilization": 0.0002, "latency": 0, "up": 1e6, "down": 1e6, "partial": "send",
    "availability": "markov", "availability_on": 0.06, "availability_off": 0.02,
}  # fmt: skip
TIMELINE = [
    {"round": 2, "event": "data", "alpha": 0.3},
    {"round": 3, "event": "data", "labels": "permuted", "clients": [0, 1]},
    {"round": 3, "event": "leave", "clients": [2]},
]
CHANGING: dict[str, tuple[str, dict[str, Any]]] = {
    "synchronous": ("fedproto", {"system": PHONES}),
    "deadline": (
        "fedproto",
        {"system": PHONES | {"schedule": "deadline", "deadline_quantile": 0.5, "late": "next"}},
    ),
    "over_selection": ("fedproto", {"system": PHONES | {"schedule": "over_selection", "select": 4}}),
    "buffered": ("fedproto", {"system": PHONES | {"schedule": "buffered", "buffer": 2}}),
    "asynchronous": ("fedproto", {"system": PHONES | {"schedule": "asynchronous"}}),
    "partial": ("fednova", {"system": SLOW, "training": {"batch_size": 4, "steps": 10}}),
    "timeline": ("fedproto", {"federation": {"timeline": TIMELINE}}),
}
"""Rounds on the clock, partial work, and clients that leave and change: by method and settings."""


@pytest.mark.slow
@pytest.mark.parametrize("inner", ["sequential", "stacked"])
@pytest.mark.parametrize("name", CHANGING)
def test_changing_federations_have_the_bits_and_times_of_those_in_process(inner: str, name: str) -> None:
    """Actors train and evaluate with the data of the round, and with the classes that these have."""
    method, sections = CHANGING[name]
    subject = Subject(method)
    here_runner = "parallel" if name == "partial" and inner == "sequential" else inner
    there, here = (
        run(subject.built(**sections, runtime=runtime).engine, 4)
        for runtime in ({**RAY, "inner": inner}, {"runner": here_runner})
    )
    assert there == here
    if name == "timeline":
        assert [record.get("timeline") is None for record in here["records"]] == [True, False, False, True]
    elif name == "partial":
        assert any("steps" in flight for record in here["records"] for flight in record["time"]["flights"])
    else:
        assert any(record["time"]["in_flight"] for record in here["records"]) == (name != "synchronous")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in methods.names() if name != FAST[0]])
def test_so_has_every_other_method(name: str) -> None:
    """Actors with one client at a time, and with two side by side."""
    subject, eight = Subject(name), {"clients": 8, "participation": 1.0}
    assert run(subject.built(runtime=RAY).engine) == run(subject.built().engine)
    side_by_side = RAY | {"inner": "parallel", "workers_per_actor": 2}
    there, here = (run(subject.built(federation=eight, runtime=each).engine) for each in (side_by_side, {}))
    assert there == here


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in methods.names() if name != FAST[1]])
def test_actors_that_stack_their_clients_have_the_bits_of_stacks_in_process(name: str) -> None:
    assert_same_stacks(Subject(name))


def stopped(config: Any, folder: Path) -> None:
    """A session that was stopped when the first client of round 2 was done."""
    done: list[Event] = []

    def note(event: Event) -> None:
        if isinstance(event, ClientTrained) and event.round == 2:
            done.append(event)

    outcome = Session.create(config, folder, data_folder(None)).run(
        note, stop=lambda: "enough" if done else None
    )
    assert (outcome.state, outcome.round) == ("stopped", 1)


PARALLEL = {"runner": "parallel"}
WAYS = [(name, PARALLEL, ways) for name in methods.names() for ways in ((PARALLEL, RAY), (RAY, PARALLEL))]
HERE, THERE = {"runner": "stacked", "stack": 2}, {**STACKS, "stack": 2}
WAYS += [(name, HERE, ways) for name in FAST for ways in ((HERE, THERE), (THERE, HERE))]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "alone", "ways"), WAYS)
def test_stopped_in_one_and_resumed_in_the_other_it_has_the_same_bits(
    name: str, alone: dict[str, Any], ways: tuple[dict[str, Any], dict[str, Any]], tmp_path: Path
) -> None:
    """Eight clients, also in stacks: when one is done, an actor has the next already, and others must be left."""
    subject, (first, then) = Subject(name), ways
    everybody = {"clients": 8, "participation": 1.0}
    Session.create(
        subject.config(federation=everybody, runtime=alone), tmp_path / "alone", data_folder(None)
    ).run()
    stopped(subject.config(federation=everybody, runtime={**first, "workers": 1}), tmp_path / "stopped")
    settings = [f"runtime.{key}={value}" for key, value in then.items()]
    Session.resume(tmp_path / "stopped", data_folder(None), settings=settings).run()
    assert federations.committed(tmp_path / "stopped") == federations.committed(tmp_path / "alone")


@pytest.mark.slow
def test_a_users_method_and_figure_come_with_the_run(own: Callable[[str, str], None], tmp_path: Path) -> None:
    own("gentle", """
        def receive(self, local, payload):
            super().receive(local, {name: 0.9 * tensor for name, tensor in payload.items()})
    """)  # fmt: skip
    figure = tmp_path / "confidence.py"
    figure.write_text("def metric(scores, labels):\n    return scores.softmax(1).amax(1).mean()\n")
    metrics.load(figure)
    figure.unlink()
    subject = Subject("gentle")
    asked = {"evaluation": {"metrics": ["confidence"]}}
    there, here = (run(subject.built(runtime=each, **asked).engine) for each in (RAY, {}))
    assert there == here
    assert there["records"][0]["evaluation"]["test"]["metrics"]["confidence"]["mean"] > 0


@pytest.mark.slow
def test_what_a_users_method_does_wrong_is_said_with_its_line(own: Callable[[str, str], None]) -> None:
    own("wrong", """
        def receive(self, local, payload):
            raise RuntimeError("no such thing")
    """)  # fmt: skip
    engine = Subject("wrong").built(runtime=RAY).engine
    with pytest.raises(
        MethodError, match=r"wrong\.py, line 9: receive\(\) of method 'wrong' failed .*no such thing"
    ):
        run(engine)
    engine.close()


def on_file(path: Path) -> Built:
    """A run on images of the user's own."""
    return build(
        Subject("fedavg").config(runtime=RAY, data={"dataset": str(path), "limit": None}), data_folder(None)
    )


def write_images(path: Path, seed: int) -> None:
    draw = np.random.Generator(np.random.Philox(seed))
    images, labels = draw.integers(0, 256, (160, 8, 8, 1), dtype=np.uint8), np.arange(160) % 4
    np.savez(path, images=images, labels=labels)


@pytest.mark.slow
def test_a_node_that_lacks_the_data_or_has_others_is_refused_by_name(tmp_path: Path) -> None:
    write_images(path := tmp_path / "mine.npz", 0)
    engine = on_file(path).engine
    write_images(path, 1)
    with pytest.raises(DataError, match=r"node \S+: its data set '.*', or its partition, is not the one"):
        engine.open()
    engine = on_file(path).engine
    path.unlink()
    with pytest.raises(ConfigError, match=rf"node \S+: '{path}' does not exist"):
        engine.open()


@pytest.mark.slow
def test_nodes_with_other_bits_are_refused_or_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if this machine had another torch than the actors' nodes."""
    from simulator.runners.ray import workers

    monkeypatch.setattr(workers, "environment", lambda *here: environment(*here) | {"torch": "0.1"})
    config = Subject("fedavg").config(runtime=RAY)
    with pytest.raises(
        ConfigError, match=r"node \S+: .* not be bit-identical \(torch 0\.1 → .*allow_inexact=True"
    ):
        Session.create(config, tmp_path / "s", data_folder(None))
    assert not (tmp_path / "s").exists()
    Session.create(config, tmp_path / "s", data_folder(None), allow_inexact=True).close()
    events = checkpoints.SessionReader(tmp_path / "s").events()
    [event] = [each for each in events if each["event"] == "nodes"]
    [node] = event["nodes"]
    assert (node["workers"], node["environment"]["threads_per_client"]) == (2, 1)
    assert node["inexact"][0].startswith("torch 0.1 → ")
    inexact = f"not bit-identical: {node['node']}: {', '.join(node['inexact'])}"
    assert description(event) == f"clients at a time: 2 on {node['node']}; {inexact}"


@pytest.mark.slow
def test_a_switch_starts_no_other_actors_and_changes_no_bits(tmp_path: Path) -> None:
    subject, seen = Subject("fedlora"), set()

    def switched(runtime: dict[str, Any], name: str) -> Any:
        folder = tmp_path / name
        with Session.create(subject.config(rounds=2, runtime=runtime), folder, data_folder(None)) as session:
            session.run(upto=1)
            checkpoints.post(folder, "switch", {"method": "fedssa", "set": []})
            session.run(upto=2)
            if runtime:
                seen.update(pids(session._built.engine))
        return federations.committed(folder)

    engine = subject.built(runtime=RAY).engine
    before = set(pids(engine))
    engine.close()
    assert switched(RAY, "there") == switched({}, "here")
    assert seen == before
