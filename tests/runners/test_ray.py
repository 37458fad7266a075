"""Clients on Ray, on actors of this machine: the same bits as in process, whatever happens to the actors."""

import os
import signal
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkpoints
from simulator import contract, methods
from simulator.analysis.events import said
from simulator.builder import Built, build
from simulator.contract import Subject
from simulator.data.datasets import data_folder
from simulator.engine import Engine
from simulator.environment import environment
from simulator.errors import ConfigError, DataError, MethodError
from simulator.methods import plugins, registry
from simulator.metrics import own as metrics
from simulator.progress import ClientStarted, ClientTrained, Event, Warned, unobserved
from simulator.sessions.session import Session
from tests import federations

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'htfl-sim[ray]'")

RAY: dict[str, Any] = {"runner": "ray", "workers": 2}
FAST = ("fedlora", "fedgen", "scaffold")
"""An adapter that is sent beside each client's model; a generator that the server trains; corrections, answered by the
aggregated model."""


@pytest.fixture(scope="module", autouse=True)
def _ray_and_its_actors_stay_for_all_tests() -> Iterator[None]:
    engine = Subject("fedavg").built(runtime=RAY).engine
    engine.open()
    yield
    engine.close()


def run(engine: Engine, rounds: int = 2, observe: Callable[[Event], None] = unobserved) -> dict[str, Any]:
    """All that comes of so many rounds."""
    state, records = engine.initial_state(), []
    for _ in range(rounds):
        state = engine.round(state, observe)
        records.append(federations.untimed(state.record))
    engine.close()
    return federations.state_bits(state) | {"records": records}


def pids(engine: Engine) -> list[int]:
    """The processes of the actors that are ready for it."""
    engine.open()
    return sorted(facts.pid for facts in engine._runner._crew._joined.values())


def test_methods_have_the_tensors_and_records_that_they_have_in_process() -> None:
    """Several in one test, the only one that is run each time: where tests run side by side, each would start a Ray."""
    for subject in map(Subject, FAST):
        assert run(subject.built(runtime=RAY).engine) == run(subject.built().engine)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in methods.names() if name not in FAST])
def test_so_has_every_other_method(name: str) -> None:
    subject = Subject(name)
    assert run(subject.built(runtime=RAY).engine) == run(subject.built().engine)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("name", methods.names())
def test_every_promise_about_states_holds_on_ray_too(name: str, precision: Any) -> None:
    subject = Subject(name, runner="ray", precision=precision)
    for promise in contract.PROMISES:
        if promise.sentence.startswith(("states keep", "a round changes", "a session that was stopped")):
            assert promise.broken_by(subject) is None


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


@pytest.mark.slow
@pytest.mark.parametrize("name", methods.names())
@pytest.mark.parametrize(("first", "then"), [("parallel", "ray"), ("ray", "parallel")])
def test_a_run_that_is_stopped_in_one_and_resumed_in_the_other_has_the_bits_of_one_left_alone(
    name: str, first: str, then: str, tmp_path: Path
) -> None:
    subject, folder = Subject(name), tmp_path / "stopped"
    Session.create(subject.config(), tmp_path / "alone", data_folder(None)).run()
    stopped(subject.config(runtime={"runner": first, "workers": 1}), folder)
    Session.resume(folder, data_folder(None), settings=[f"runtime.runner={then}"]).run()
    assert federations.committed(folder) == federations.committed(tmp_path / "alone")


@pytest.mark.slow
def test_the_client_of_an_actor_that_is_killed_at_work_is_computed_again() -> None:
    """The actor that gets the first client of round 2 is halted, and killed when another client is done."""
    subject = Subject("fedlora")
    engine = subject.built(runtime=RAY).engine
    before = pids(engine)
    clients, halted, warnings = [], [], []

    def kill(event: Event) -> None:
        match event:
            case ClientStarted(2, client) if not halted:
                crew = engine._runner._crew
                clients.append(client)
                halted.append(crew._joined[crew.free()].pid)
                os.kill(halted[0], signal.SIGSTOP)
            case ClientTrained(2, _, 1):
                os.kill(halted[0], signal.SIGKILL)
            case Warned(message):
                warnings.append(message)

    assert run(engine, observe=kill) == run(subject.built().engine)
    assert halted[0] in before
    [warning] = warnings
    assert f" died at work on client {clients[0]} (" in warning
    assert warning.endswith(" in round 2; the client is computed again.")
    engine = subject.built(runtime=RAY).engine
    after, members = pids(engine), len(engine_pool(engine).members)
    engine.close()
    assert members == 2
    assert halted[0] not in after


@pytest.mark.slow
def test_a_run_that_has_no_actor_left_waits_says_so_and_goes_on_when_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both are killed in round 2, and no other is started until the run says that it waits."""
    monkeypatch.setattr("simulator.runners.ray.runner.PATIENCE", 0.2)
    subject = Subject("fedlora")
    engine = subject.built(runtime=RAY).engine
    pool, processes, warnings = engine_pool(engine), pids(engine), []
    fill = pool.fill

    def kill(event: Event) -> None:
        match event:
            case ClientStarted(2, _) if processes:
                monkeypatch.setattr(pool, "fill", lambda: None)
                while processes:
                    os.kill(processes.pop(), signal.SIGKILL)
            case Warned(message):
                warnings.append(message)
                if "the run waits" in message:
                    fill()

    assert run(engine, observe=kill) == run(subject.built().engine)
    assert [message for message in warnings if "died" not in message] == [
        "The Ray cluster has no room left for a single client: the run waits until it has. A stop keeps the clients "
        "that are done.",
        f"The Ray cluster has room again: {warnings[-1].split()[6]} actors are ready, and the run goes on.",
    ]


def engine_pool(engine: Engine) -> Any:
    """The actors that it shares with other runs of this process."""
    engine.open()
    return engine._runner._crew.pool


@pytest.mark.slow
def test_a_run_that_waits_for_an_actor_can_be_stopped_and_keeps_what_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("simulator.runners.ray.runner.PATIENCE", 0.2)
    subject, folder = Subject("fedlora"), tmp_path / "s"
    config = subject.config(runtime={**RAY, "workers": 1})
    Session.create(subject.config(), tmp_path / "alone", data_folder(None)).run()
    session, waits = Session.create(config, folder, data_folder(None)), []
    pool = engine_pool(session._built.engine)
    fill = pool.fill

    def kill(event: Event) -> None:
        match event:
            case ClientTrained(2, _, 1):
                monkeypatch.setattr(pool, "fill", lambda: None)
                for member in list(pool.members):
                    ray.kill(member.handle)
            case Warned(message) if "the run waits" in message:
                waits.append(message)

    outcome = session.run(kill, stop=lambda: "enough" if waits else None)
    assert (outcome.state, outcome.round) == ("stopped", 1)
    fill()
    assert len(checkpoints.SessionReader(folder).unfinished_round().note["clients"]) >= 1
    Session.resume(folder, data_folder(None), settings=["runtime.runner=parallel"]).run()
    assert federations.committed(folder) == federations.committed(tmp_path / "alone")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Registers a method of that name, FedAvg but for this body, from a plugin file."""
    for known in ("_METHODS", "_ORIGINS"):
        monkeypatch.setattr(registry, known, dict(getattr(registry, known)))

    def write(name: str, body: str) -> None:
        head = "import os, signal\nfrom simulator.methods import register\n"
        head += f"from simulator.methods.fedavg import FedAvg\n\n@register({name!r})\nclass Own(FedAvg):\n"
        path = tmp_path / f"{name}.py"
        path.write_text(head + textwrap.indent(textwrap.dedent(body), "    "), encoding="utf-8")
        plugins.load(path)
        path.unlink()  # another machine would not have it

    return write


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_users_own_method_and_figure_come_with_the_run(
    own: Callable[[str, str], None], tmp_path: Path
) -> None:
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
def test_a_node_that_lacks_the_data_is_refused_by_name(tmp_path: Path) -> None:
    write_images(path := tmp_path / "mine.npz", 0)
    engine = on_file(path).engine
    path.unlink()
    with pytest.raises(ConfigError, match=rf"node \S+: '{path}' is neither a data set"):
        engine.open()


@pytest.mark.slow
def test_a_node_that_has_other_data_is_refused_by_name(tmp_path: Path) -> None:
    write_images(path := tmp_path / "mine.npz", 0)
    engine = on_file(path).engine
    write_images(path, 1)
    with pytest.raises(DataError, match=r"node \S+: its data set '.*', or its partition, is not the one"):
        engine.open()


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this machine had another torch than the actors' nodes."""
    from simulator.runners.ray import crew

    monkeypatch.setattr(crew, "environment", lambda *here: environment(*here) | {"torch": "0.1"})


@pytest.mark.slow
def test_nodes_with_other_bits_than_this_machine_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(monkeypatch)
    with pytest.raises(
        ConfigError, match=r"node \S+: .* not be bit-identical \(torch 0\.1 → .*--allow-inexact"
    ):
        Session.create(Subject("fedavg").config(runtime=RAY), tmp_path / "s", data_folder(None))
    assert not (tmp_path / "s").exists()


@pytest.mark.slow
def test_nodes_with_other_bits_that_are_allowed_stand_in_the_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(monkeypatch)
    config = Subject("fedavg").config(runtime=RAY)
    Session.create(config, tmp_path / "s", data_folder(None), allow_inexact=True).close()
    [event] = [
        each for each in checkpoints.SessionReader(tmp_path / "s").events() if each["event"] == "nodes"
    ]
    [node] = event["nodes"]
    assert node["workers"] == 2
    assert node["inexact"][0].startswith("torch 0.1 → ")
    assert node["environment"]["threads_per_client"] == 1
    assert said(
        event
    ) == f"clients at a time: 2 on {node['node']}; not bit-identical: {node['node']}: " + ", ".join(
        node["inexact"]
    )


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
