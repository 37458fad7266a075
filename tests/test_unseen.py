"""Unseen clients never train in the federation. A measurement lets them adapt, and leaves no trace in the run."""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import simulator
from simulator import methods
from simulator.base import rng
from simulator.base.errors import ConfigError
from simulator.base.nested import merged
from simulator.base.record import check_record
from simulator.config import Config
from simulator.engine import newcomers
from simulator.engine.builder import Built
from simulator.methods.base import Method
from simulator.models.federation import drawn_unseen
from simulator.runners import Job, Work
from simulator.runners.local import update
from simulator.sessions.reader import CheckedReader
from simulator.sessions.session import Session
from tests import federations

pytestmark = pytest.mark.usefixtures("generated_images")


def config(name: str = "fedavg", **sections: Any) -> Config:
    """Five clients, of which two are unseen; two of the three others take part in each of three rounds."""
    given = {
        "rounds": 3,
        "federation": {"clients": 5, "participation": 0.7, "unseen": 0.4},
        "training": {"batch_size": 8},
    }
    return federations.config(name, **merged(given, sections))


def last_unseen(parts: Built) -> dict[str, Any]:
    record: Any = federations.run(parts.engine, parts.engine._config.rounds).record
    return dict(record["unseen"])


# Who is unseen


def test_unseen_clients_are_drawn_from_the_seed_of_the_data() -> None:
    parts = federations.built(config(seed={"all": 7, "data": 3}))
    drawn = rng.numpy_stream(3, "unseen").choice(5, 2, replace=False)
    assert parts.federation.unseen == tuple(sorted(drawn))
    assert drawn_unseen(5, 2, seed=3) == parts.federation.unseen
    assert len({drawn_unseen(5, 2, seed) for seed in range(20)}) > 1


def test_half_a_client_counts_as_one() -> None:
    """Of 10 clients, 0.25 are 2.5, so 3 are unseen; of the 7 others, half are 3.5, so 4 take part."""
    federation = config(federation={"clients": 10, "unseen": 0.25, "participation": 0.5}).federation
    assert (federation.unseen_clients, federation.seen_clients, federation.participants) == (3, 7, 4)


def test_unseen_clients_never_take_part_and_keep_the_state_that_they_began_with() -> None:
    parts = federations.built(config(federation={"participation": 0.4}, unseen={"every": 1}))
    unseen = parts.federation.unseen
    drawn = [parts.engine.participants(t) for t in range(1, 30)]
    assert set().union(*drawn) == {0, 1, 2, 3, 4}.difference(unseen)
    assert all(len(each) == parts.engine._config.federation.participants for each in drawn)
    before, after = parts.engine.initial_state(), federations.run(parts.engine, 3)
    for client in unseen:
        assert federations.bits(after.clients[client]) == federations.bits(before.clients[client])
    assert after.known.trained.isdisjoint(unseen)


def test_the_mean_accuracy_and_cka_leave_unseen_clients_out() -> None:
    """Also where every client is evaluated, with the model that it would receive next."""
    for name in ("standalone", "fedavg"):
        parts = federations.built(config(name, cka={"every": 3, "untrained": True}))
        record: Any = federations.run(parts.engine, 3).record
        accuracies, unseen = record["accuracy"]["per_client"], parts.federation.unseen
        assert [client for client in range(5) if accuracies[client] is None] == list(unseen)
        assert record["unseen"]["participating"] == record["accuracy"]["mean"]
        for matrix in record["cka"]["matrix"].values():
            for client in unseen:
                assert all(value is None for other, value in enumerate(matrix[client]) if other != client)


# When they are measured, and what that leaves behind


def test_they_are_measured_every_e_rounds_after_the_last_and_after_the_round_that_reaches_the_goal() -> None:
    for every, rounds in ((None, [4]), (2, [2, 4]), (3, [3, 4]), (9, [4])):
        given = config(rounds=4, unseen={"every": every})
        assert [t for t in range(1, 5) if newcomers.due(given, t, 0.5)] == rounds
    given = config(rounds=4, until=0.6)
    assert [newcomers.due(given, 2, mean) for mean in (None, 0.59, 0.6)] == [False, False, True]


@pytest.mark.parametrize("name", ["fedavg", pytest.param("fedmrl", marks=pytest.mark.long)])
def test_a_measurement_leaves_no_trace_in_the_run(name: str) -> None:
    once, always = (federations.built(config(name, unseen={"every": each})) for each in (None, 1))
    a, b = once.engine.initial_state(), always.engine.initial_state()
    for _ in range(3):
        a, b = once.engine.round(a, lambda _: None), always.engine.round(b, lambda _: None)
        records = [federations.untimed(each.record) for each in (a, b)]
        unseen = [record.pop("unseen", None) for record in records]
        assert records[0] == records[1]
        assert unseen[1] is not None
    assert unseen[0] == unseen[1]
    assert federations.state_bits(a) == federations.state_bits(b)


def test_a_method_may_write_into_what_an_unseen_client_has_and_receives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Participants get copies from the wire. An unseen client gets copies, too."""
    fedavg = methods.get("fedavg")
    receive = fedavg.receive

    def spoiling(self: Method, local: Any, payload: Mapping[str, Tensor]) -> None:
        receive(self, local, payload)
        for tensor in payload.values():
            tensor.zero_()

    monkeypatch.setattr(fedavg, "receive", spoiling)
    given = [config(unseen={"every": each}, evaluation={"model": "local"}) for each in (None, 1)]
    once, always = (federations.run(federations.built(each).engine, 3) for each in given)
    assert federations.state_bits(once) == federations.state_bits(always)


@pytest.mark.long
def test_a_run_that_is_killed_in_a_measurement_ends_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = config(unseen={"every": 2}, rounds=4)
    Session.create(given, tmp_path / "whole", tmp_path).run()
    with monkeypatch.context() as killed:
        killed.setattr(newcomers, "_summary", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            Session.create(given, tmp_path / "killed", tmp_path).run()
    left = Path(shutil.copytree(tmp_path / "killed", tmp_path / "left"))  # this process still owns the other
    assert CheckedReader(left).rounds() == [1]
    Session.resume(left, tmp_path).run()
    assert federations.committed(left) == federations.committed(tmp_path / "whole")


def test_without_the_setting_nothing_is_recorded_or_configured() -> None:
    given = federations.config("fedavg")
    assert "unseen" not in given.to_json()
    assert "unseen" not in given.to_json()["federation"]
    record: Any = federations.run(federations.built(given).engine, 3).record
    assert "unseen" not in record
    given = config(unseen={"steps": 4})
    assert Config.read(json.loads(json.dumps(given.to_json()))) == given


# What is measured


def test_before_adaptation_is_the_received_model_and_after_it_the_trained_one() -> None:
    """FedAvg: the unseen client gets the server's model, trains it for an epoch, and sends nothing."""
    parts = federations.built(config())
    state = federations.run(parts.engine, 3)
    found: Any = state.record["unseen"]
    hooks, context = parts.engine._hooks, parts.engine._runner.context
    for client in parts.federation.unseen:
        info = parts.federation.clients[client]
        job = Job(state.clients[client], hooks.downlink(3, state.server, info))
        received = dict(state.clients[client]) | dict(job.payload or {})
        trained = update(context, info, Work(hooks, 3, {client: job})).tensors
        assert found["before"]["per_client"][str(client)] == accuracy(parts, client, received)
        assert found["after"]["per_client"][str(client)] == accuracy(parts, client, trained)
    for moment in ("before", "after", "alone"):
        first, second = found[moment]["per_client"].values()
        assert found[moment]["mean"] == (first + second) / 2


def accuracy(parts: Built, client: int, tensors: Mapping[str, Tensor]) -> float:
    """The share of a client's test samples on which a model with these weights is right."""
    from torch.func import functional_call

    info, data = parts.federation.clients[client], parts.data
    weights = {name.removeprefix("model/"): tensor for name, tensor in tensors.items() if "model/" in name}
    x, y = data.batch(data.clients[client].test)
    model = parts.federation.build(info.architecture, torch.Generator().manual_seed(0)).eval()
    with torch.no_grad():
        right = functional_call(model, weights, (x,)).argmax(1) == y
    return float(right.double().mean())


def test_standalone_adapts_as_a_client_that_trains_alone() -> None:
    """It receives nothing, so both train the same model on the same batches."""
    found = last_unseen(federations.built(config("standalone", unseen={"epochs": 3})))
    assert found["after"] == found["alone"]
    assert found["before"] != found["alone"]


def trained_steps(monkeypatch: pytest.MonkeyPatch, given: Config) -> dict[int, list[tuple[int, float]]]:
    """By unseen client, the steps and the rate of every phase of a measurement: adaptation first, then alone."""
    found: dict[int, list[tuple[int, float]]] = {}
    parts, original = federations.built(given), newcomers.local.train
    state = federations.run(parts.engine, given.rounds - 1)

    def counting(prepared: Any) -> Iterator[None]:
        client = prepared.local.info.id
        if client in parts.federation.unseen:
            counts = [(len(list(prepared.local.batches(phase))), phase.lr) for phase in prepared.phases]
            found.setdefault(client, []).extend(counts)
        yield from original(prepared)

    with monkeypatch.context() as changed:
        changed.setattr(newcomers.local, "train", counting)
        parts.engine.round(state, lambda _: None)
    return found


def test_both_train_for_as_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default for training.epochs, here 2. The rate is that of round 1, though round 3 has half of it."""
    training = {"epochs": 2, "schedule": "step", "lr_step": 2, "lr_decay": 0.5}
    for length in ({}, {"epochs": 3}, {"steps": 5}):
        given = config(unseen=length, training=training)
        samples = {client.id: client.samples for client in federations.built(given).federation.clients}
        found = trained_steps(monkeypatch, given)
        assert len(found) == 2
        for client, counts in found.items():
            batches = -(-samples[client] // 8) - (samples[client] % 8 == 1)
            assert counts == [(length.get("steps", length.get("epochs", 2) * batches), 0.1)] * 2


def test_training_alone_has_the_steps_of_all_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    """FedLoRA trains the adapter and the model in turn: two phases of three steps are six alone."""
    found = trained_steps(monkeypatch, config("fedlora", unseen={"steps": 3}))
    for *phases, (alone, _) in found.values():
        assert alone == sum(steps for steps, _ in phases)


@pytest.mark.parametrize(
    "names",
    [["fedproto"], *(pytest.param(methods.names()[start::4], marks=pytest.mark.long) for start in range(4))],
    ids=["one", *map(str, range(4))],
)
def test_every_method_serves_new_clients(names: list[str], subtests: pytest.Subtests) -> None:
    """With a single step, in which sums over the last epoch would never begin."""
    for name in names:
        with subtests.test(name):
            found = last_unseen(federations.built(config(name, rounds=2, unseen={"steps": 1})))
            for moment in ("before", "after", "alone"):
                assert None not in found[moment]["per_client"].values(), moment


def test_a_client_that_diverges_as_it_adapts_has_no_accuracy_after_it() -> None:
    """One step at an infinite rate. Means are over the others, of which there are none."""
    parts = federations.built(config(training={"lr": 1e38}, unseen={"steps": 4}))
    state = parts.engine.initial_state()
    record: Any = {"accuracy": {"mean": None}, "timing": {"seconds": 0.0, "evaluate": 0.0}}
    given = parts.engine._config.with_(unseen__every=1)
    newcomers.record(record, parts.engine._runner, parts.engine._hooks, replace(state, round=1), given)
    assert record["unseen"]["after"]["mean"] is None
    assert set(record["unseen"]["after"]["per_client"].values()) == {None}
    assert None not in record["unseen"]["before"]["per_client"].values()


def test_every_runner_measures_the_same() -> None:
    """Only measured: the federation itself is trained by one runner."""
    parts = federations.built(config())
    state = federations.run(parts.engine, 3)
    for runner in ("sequential", "stacked"):
        other = federations.settings(parts, runtime={"runner": runner}).engine
        record: Any = {"accuracy": state.record["accuracy"], "timing": {"seconds": 0.0, "evaluate": 0.0}}
        newcomers.record(record, other._runner, other._hooks, state, other._config)
        assert record["unseen"] == state.record["unseen"]


# Refused


UNMET: list[tuple[dict[str, Any], str]] = [
    ({"federation": {"unseen": 0.01}}, "0 of 5 clients unseen"),
    ({"federation": {"unseen": 0.95}}, "5 of 5 clients unseen"),
    ({"federation": {"unseen": None}, "unseen": {"steps": 3}}, "set federation.unseen=0.2"),
    ({"unseen": {"steps": 3, "epochs": 1}}, "remove one of them"),
    ({"federation": {"unseen": 0.8, "participation": 0.3}}, "of 1 clients selects no client"),
    ({"evaluation": {"clients": 4}}, "draws 4 of 3 clients"),
]


def test_settings_that_cannot_be_met_are_refused() -> None:
    for sections, said in UNMET:
        with pytest.raises(ConfigError, match=said):
            config(**sections)


def test_a_method_that_cannot_serve_a_new_client_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    why = "the server keeps a head for each client"
    monkeypatch.setattr(Method, "cannot_serve_unseen", lambda self: why)
    with pytest.raises(ConfigError, match=f"cannot serve unseen clients: {why}"):
        federations.built(config())
    federations.built(federations.config("fedavg"))


def test_a_record_names_no_client_that_is_not_there() -> None:
    record: Any = federations.run(federations.built(config()).engine, 3).record
    check_record(json.loads(json.dumps(record)), 5)
    record["unseen"]["clients"] = [7]
    with pytest.raises(ValueError, match=r"unseen\.clients"):
        check_record(record, 5)


# Methods that know all clients


def test_fedssa_averages_rows_of_seen_clients_only() -> None:
    """All hold both classes. Of three clients, one is unseen: the mean is over the two others."""
    made = replace(federations.federation(["tiny_mlp"] * 3), unseen=(1,))
    method = methods.get("fedssa")(methods.get("fedssa").Config(name="fedssa", holders="all"), made)
    server = {name: torch.zeros_like(tensor) for name, tensor in method.init_server().items()}
    server["sent/bias"][0], server["sent/bias"][1], server["sent/bias"][2] = 2.0, 50.0, 4.0
    after = method.aggregate(1, server, []).server
    assert after["head/bias"].tolist() == [3.0, 3.0]


def test_scaffold_counts_seen_clients_only() -> None:
    made = replace(federations.federation(["tiny_mlp"] * 3), unseen=(1,))
    method: Any = methods.get("scaffold")(methods.get("scaffold").Config(name="scaffold"), made)
    assert set(method._clients().values()) == {2}


# Sessions


@pytest.mark.long
def test_a_resumed_session_measures_what_an_uninterrupted_one_does(tmp_path: Path) -> None:
    given = config(unseen={"every": 2}, rounds=4)
    alone = federations.assert_a_stop_changes_nothing(given, tmp_path, lambda session: session.round == 2)
    records = CheckedReader(alone).records()
    assert [record["round"] for record in records if "unseen" in record] == [2, 4]


@pytest.mark.long
def test_a_fork_runs_measured_rounds_again(tmp_path: Path) -> None:
    """It compares them with the parent's ledger. Only round 4 has a checkpoint."""
    given = config(unseen={"every": 2}, rounds=4, checkpoint={"every": 4})
    Session.create(given, tmp_path / "parent", tmp_path).run()
    assert simulator.fork(tmp_path / "parent", tmp_path / "fork", tmp_path, 3).replayed == 3
    Session.resume(tmp_path / "fork", tmp_path).run()
    assert federations.committed(tmp_path / "fork") == federations.committed(tmp_path / "parent")


def test_the_clock_sends_no_unseen_client_off() -> None:
    """Each round takes the first two of all three seen clients to arrive."""
    system = {"devices": {"phone": 1, "laptop": 1}, "schedule": "over_selection", "select": 3}
    parts = federations.built(config(system=system, unseen={"every": 1}))
    state = parts.engine.initial_state()
    for _ in range(3):
        state = parts.engine.round(state, lambda _: None)
        record: Any = state.record
        assert record["time"]["sent"]
        assert set(record["time"]["sent"]).isdisjoint(parts.federation.unseen)
        assert set(record["unseen"]["clients"]) == set(parts.federation.unseen)
