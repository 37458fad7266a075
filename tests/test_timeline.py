"""Clients join, leave, and change their data at the rounds of `federation.timeline`."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import methods
from simulator.base import rng
from simulator.base.data_section import DataConfig, Dividing
from simulator.base.errors import ConfigError
from simulator.base.federation_section import TimelineEvent
from simulator.base.nested import merged
from simulator.base.record import check_record
from simulator.base.timeline import resolved
from simulator.config import Config, cautions
from simulator.engine.drawing import drawn
from simulator.engine.progress import unobserved
from simulator.results.inspection.checkpoint import cka as measured_cka
from simulator.runners import LocalUpdate, local
from simulator.runners.ray.setup import WorkerSetup
from simulator.sessions import states
from simulator.sessions.forking import fork
from simulator.sessions.reader import CheckedReader
from simulator.sessions.session import Session
from tests import federations

pytestmark = pytest.mark.usefixtures("generated_images")


LEAVES = {"round": 2, "event": "leave", "clients": [1]}
RETURNS = {"round": 4, "event": "join", "clients": [1]}
JOINS = {"round": 3, "event": "join", "clients": [4]}
PERMUTED = {"round": 3, "event": "data", "labels": "permuted", "clients": [0, 2]}
DIVIDED = {"round": 2, "event": "data", "alpha": 0.1}
EVERYTHING = [LEAVES, PERMUTED, DIVIDED, RETURNS, JOINS]


def config(*events: Any, name: str = "fedavg", **sections: Any) -> Config:
    """Five clients in five rounds, in which all present clients take part."""
    base = {
        "rounds": 5,
        "federation": {"clients": 5, "participation": 1.0, "timeline": list(events)},
        "training": {"batch_size": 8},
    }
    return federations.config(name, **merged(base, sections))


def records(given: Config) -> list[Any]:
    engine = federations.built(given).engine
    state, found = engine.initial_state(), []
    for _ in range(given.rounds):
        state = engine.round(state, unobserved)
        found.append(state.record)
    return found


# Who is present


def test_absent_clients_take_no_part() -> None:
    """Client 1 is away in rounds 2 and 3. Client 4 joins in round 3, so it is absent before."""
    found = records(config(LEAVES, RETURNS, JOINS))
    everybody = [0, 1, 2, 3, 4]
    taking_part = [[0, 1, 2, 3], [0, 2, 3], [0, 2, 3, 4], everybody, everybody]
    assert [each["participants"] for each in found] == taking_part
    assert [each.get("timeline") for each in found] == [
        None,
        {"joined": [], "left": [1], "data": [], "present": 3},
        {"joined": [4], "left": [], "data": [], "present": 4},
        {"joined": [1], "left": [], "data": [], "present": 5},
        None,
    ]


def test_participation_is_a_fraction_of_present_clients() -> None:
    """Half of 5 clients are 2.5, so 3 take part. Half of 3 are 1.5, so 2 do."""
    leave = {"round": 2, "event": "leave", "clients": [0, 4]}
    engine = federations.built(config(leave, federation={"participation": 0.5})).engine
    for round in range(2, 30):
        draw = rng.numpy_stream(7, "participants", round).choice(3, 2, replace=False)
        assert engine.participants(round) == tuple(sorted((1, 2, 3)[place] for place in draw))
    assert len(engine.participants(1)) == 3


@pytest.mark.long
def test_accuracies_of_absent_clients_are_null_and_means_are_over_present_ones() -> None:
    for name in ("standalone", "fedavg"):
        for record in records(config(LEAVES, RETURNS, JOINS, name=name)):
            each = record["accuracy"]["per_client"]
            present = set(record["participants"])
            assert {client for client in range(5) if each[client] is not None} == present
            assert record["accuracy"]["mean"] == fmean(each[client] for client in sorted(present))
            on_test = record["evaluation"]["test"]["loss"]
            assert on_test["mean"] == fmean(on_test["per_client"][client] for client in sorted(present))


def test_a_record_of_changes_alone_says_null_once_for_a_client_that_left() -> None:
    found = records(config(LEAVES, RETURNS, name="standalone", evaluation={"metrics_for": "changed"}))
    told = [each["accuracy"]["per_client"].get("1", "not named") for each in found[1:3]]
    assert told == [None, "not named"]
    whole = records(config(LEAVES, RETURNS, name="standalone"))
    assert [each["accuracy"]["mean"] for each in found] == [each["accuracy"]["mean"] for each in whole]


def test_a_client_that_joins_begins_with_its_initial_model_and_one_that_returns_keeps_its_own() -> None:
    engine = federations.built(config(LEAVES, RETURNS, JOINS, name="standalone")).engine
    start = state = engine.initial_state()
    after = [state := engine.round(state, unobserved) for _ in range(3)]
    own = [federations.bits(each.clients[1]) for each in (start, *after)]
    assert own[0] != own[1] == own[2] == own[3]
    new = [federations.bits(each.clients[4]) for each in (start, *after)]
    assert new[0] == new[1] == new[2] != new[3]


def test_a_client_that_returns_is_evaluated_though_it_takes_no_part() -> None:
    """One of five takes part in a round. Standalone evaluates only clients that changed."""
    found = records(config(LEAVES, RETURNS, name="standalone", federation={"participation": 0.2}))
    each = [record["accuracy"]["per_client"][1] for record in found]
    assert None not in (each[0], each[3]) and each[1] is each[2] is None


def test_cka_leaves_absent_clients_out() -> None:
    found = records(config(LEAVES, cka={"every": 1}, rounds=2))[1]["cka"]["matrix"]
    for matrix in found.values():
        assert matrix[1] == [None] * 5


# Fractions


def events(*given: Any) -> list[TimelineEvent]:
    return [TimelineEvent.model_validate(each) for each in given]


def test_fractions_of_joining_clients_are_absent_before_and_leaving_ones_are_drawn_among_present() -> None:
    """Of 10 clients, 0.3 are three that join in round 5, and 0.2 two that leave in round 3 and return in round 7."""
    given = events(
        {"round": 7, "event": "join", "clients": "left"},
        {"round": 5, "event": "join", "clients": 0.3},
        {"round": 3, "event": "leave", "clients": 0.2},
    )
    found = resolved(given, 10, (), seed=1)
    away = [found.absent_at(round) for round in (0, 2, 3, 4, 5, 6, 7)]
    assert [len(each) for each in away] == [3, 3, 5, 5, 2, 2, 0]
    assert away[0] == found.absent
    assert away[4] == away[2] - away[0]


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**40),
    leave=st.sampled_from([0.1, 0.25, 0.4]),
    join=st.sampled_from([0.1, 0.3]),
    listed=st.sets(st.integers(0, 11), max_size=2),
)
def test_draws_leave_out_clients_that_a_list_names(
    seed: int, leave: float, join: float, listed: set[int]
) -> None:
    named = [{"round": 4, "event": "leave", "clients": sorted(listed)}] if listed else []
    given = events(
        {"round": 2, "event": "leave", "clients": leave},
        {"round": 6, "event": "join", "clients": join},
        *named,
    )
    found = resolved(given, 12, (), seed)
    assert resolved(given, 12, (), seed) == found
    for each in found.happenings:
        if each.event.clients != tuple(sorted(listed)):
            assert listed.isdisjoint(each.clients)
            assert len(each.clients) == int(12 * float(each.event.clients) + 0.5)  # type: ignore[arg-type]


# Data


def histograms(given: Config, round: int) -> list[dict[int, int]]:
    data = federations.built(given).data.at(round)
    return [dict(zip(each.classes, each.class_counts, strict=True)) for each in data.clients]


def test_a_new_partition_changes_class_histograms_and_keeps_every_sample_in_its_part() -> None:
    given = config(DIVIDED, data={"partition": "iid", "split": "8:1:1"})
    data = federations.built(given).data
    before, after = data.at(1), data.at(2)
    assert histograms(given, 1) != histograms(given, 2)
    most = [max(counts.values()) / sum(counts.values()) for counts in histograms(given, 2)]
    assert fmean(most) > 0.6  # of four classes, iid has about a quarter of each
    for part in ("train", "eval", "test"):
        held = [torch.cat([each.part(part) for each in stage.clients]) for stage in (before, after)]
        assert held[0].sort().values.tolist() == held[1].sort().values.tolist()
        assert min(len(each.part(part)) for each in after.clients) > 0


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**40),
    clients=st.integers(2, 6),
    rule=st.sampled_from(
        [
            {"alpha": 0.05},
            {"alpha": 5.0},
            {"classes_per_client": 2},
            {"partition": "extended_dirichlet", "alpha": 0.1, "classes_per_client": 3},
            *({"partition": partition} for partition in get_args(Dividing)),
        ]
    ),
)
def test_any_new_partition_keeps_parts_disjoint_and_nonempty(seed: int, clients: int, rule: Any) -> None:
    given = config(
        {"round": 2, "event": "data", "clients": [0, 1], **rule}, federation={"clients": clients}, seed=seed
    )
    with federations.on_images(federations.generated()):
        data = federations.built(given).data
    before, after = data.at(1), data.at(2)
    train, test = (torch.cat([each.part(part) for each in after.clients]) for part in ("train", "test"))
    every = torch.cat([train, test, *(each.eval for each in after.clients)])
    assert len(every) == len(every.unique()) == 160
    for number in range(clients):
        assert (after.clients[number] is before.clients[number]) == (number > 1)
        assert len(after.clients[number].train) and len(after.clients[number].test)


def test_an_event_with_a_key_of_the_runs_partition_keeps_that_partition() -> None:
    rules: tuple[tuple[Any, dict[str, Any], tuple[str, float, int]], ...] = (
        ("iid", {"alpha": 0.1}, ("dirichlet", 0.1, 2)),
        ("iid", {"classes_per_client": 3}, ("pathological", 0.5, 3)),
        ("inner_dirichlet", {"alpha": 0.1}, ("inner_dirichlet", 0.1, 2)),
        ("extended_dirichlet", {"alpha": 0.1}, ("extended_dirichlet", 0.1, 2)),
        ("extended_dirichlet", {"classes_per_client": 3}, ("extended_dirichlet", 0.5, 3)),
        ("extended_dirichlet", {"partition": "iid"}, ("iid", 0.5, 2)),
    )
    for before, event, after in rules:
        found = TimelineEvent(round=2, event="data", **event).divided(DataConfig(partition=before))
        assert (found.partition, found.alpha, found.classes_per_client) == after


def test_permuted_labels_are_a_permutation_without_a_fixed_point() -> None:
    data = federations.built(config(PERMUTED, data={"partition": "iid"})).data
    before, after = data.at(2), data.at(3)
    mapping: dict[int, int] = {}
    for client in (0, 2):
        for part in ("train", "test"):
            (x, y), (moved, new) = (
                stage.batch(stage.clients[client].part(part)) for stage in (before, after)
            )
            assert torch.equal(x, moved)
            for old, label in zip(y.tolist(), new.tolist(), strict=True):
                assert mapping.setdefault(old, label) == label
    assert sorted(mapping) == sorted(mapping.values()) == [0, 1, 2, 3]
    assert all(old != label for old, label in mapping.items())
    assert all(after.clients[client] is before.clients[client] for client in (1, 3, 4))


def test_a_permutation_of_permuted_labels_follows_the_client_and_not_the_samples() -> None:
    """After a new partition, clients 0 and 2 have permuted labels, whatever samples they hold."""
    again = {"round": 4, "event": "data", "partition": "iid"}
    given = config(PERMUTED, again, data={"partition": "iid"})
    data = federations.built(given).data
    now, number = data.at(4), len(data.labels) // data.blocks
    for client, held in enumerate(now.clients):
        assert set((held.train // number).tolist()) == {1 if client in (0, 2) else 0}
        assert torch.equal(data.labels[held.train % number] != data.labels[held.train], held.train >= number)


def test_clients_move_to_another_domain_with_the_same_classes() -> None:
    """Client k holds domain k mod 2. Client 0 moves to the domain of client 1, and the others stay."""
    plain = federations.generated()
    images = replace(
        plain, domains=("photo", "drawing"), domain=(np.arange(len(plain)) % 8 // 4).astype(np.int64)
    )
    base = config(data={"partition": "iid", "domains_per_client": 1}, federation={"clients": 4})
    first = federations.built(base, images).data
    own = first.clients[0].domains[0]
    name = images.domains[1 - own]
    given = base.with_(federation__timeline=[{"round": 3, "event": "data", "clients": [0], "domain": name}])
    with federations.on_images(images):
        data = federations.built(given, images).data
    moved = data.at(3).clients
    assert moved[0].domains == (1 - own,)
    for each, old in zip(moved[1:], first.clients[1:], strict=True):
        assert torch.equal(each.train, old.train)
    tested = torch.cat([each.test for each in first.clients]).tolist()
    assert set(moved[0].test.tolist()) <= set(tested)
    assert set(moved[0].train.tolist()).isdisjoint(tested)
    for label, count in zip(moved[0].classes, moved[0].class_counts, strict=True):
        assert count <= dict(zip(first.clients[0].classes, first.clients[0].class_counts, strict=True))[label]


def test_clients_are_evaluated_on_the_data_of_the_round() -> None:
    """Standalone at a rate of almost 0: labels change in round 3, so right answers become wrong ones."""
    given = config(PERMUTED, name="standalone", federation={"participation": 0.2}, training={"lr": 1e-9})
    found = records(given)
    supports = [each["evaluation"]["test"]["accuracy"]["per_client"] for each in found]
    assert supports[1][1] == supports[2][1]
    parts = federations.built(given)
    state = federations.run(parts.engine, 3)
    for client in (0, 2):
        data = parts.data.at(3)
        x, y = data.batch(data.clients[client].test)
        held = federations.local(parts, client, state.clients[client])
        answers = held.nets.model.eval()(x).argmax(1)
        assert supports[2][client] == pytest.approx(float((answers == y).double().mean()))


def test_the_server_weighs_clients_by_their_samples_of_the_round() -> None:
    federation = federations.built(config(DIVIDED)).federation
    data = federations.built(config(DIVIDED)).data
    for round in (1, 2):
        for info, held in zip(federation.at(round).clients, data.at(round).clients, strict=True):
            assert (info.samples, info.classes) == (len(held.train), held.classes)
    assert federation.at(1).clients != federation.at(2).clients


def test_the_fingerprint_covers_changed_data_and_no_others() -> None:
    plain, leaving, permuted, divided = (
        federations.built(config(*each)).data.fingerprint for each in ([], [LEAVES], [PERMUTED], [DIVIDED])
    )
    assert plain == leaving
    assert len({plain, permuted, divided}) == 3


CLASS_WISE = ["fedproto", "fd"]
"""Their clients get classes that they did not have before. None may diverge over that."""


@pytest.mark.parametrize("names", [CLASS_WISE, pytest.param(methods.names(), marks=pytest.mark.long)])
def test_every_method_follows_the_clients(names: list[str]) -> None:
    found = []
    for name in names:
        given = config(*EVERYTHING, name=name, data={"classes_per_client": 2}, training={"lr": 0.01})
        try:
            for record in records(given):
                check_record(json.loads(json.dumps(record)), 5)
                assert record["diverged"] == []
        except Exception as fault:
            found.append(f"{name}: {fault}")
    assert found == []


# Bits


def test_without_the_table_nothing_is_recorded_or_configured() -> None:
    plain = config()
    assert "timeline" not in plain.to_json()["federation"]
    parts = federations.built(plain)
    assert parts.federation.at(3) is parts.federation and parts.data.at(3) is parts.data
    assert all("timeline" not in each for each in records(plain))


@pytest.mark.long
def test_rounds_before_an_event_have_the_bits_of_a_run_without_it() -> None:
    for name in ("fd", "fedgen", "heterofl"):
        without, with_it = (records(config(*each, name=name, rounds=2)) for each in ([], [DIVIDED]))
        assert [federations.untimed(each) for each in without[:1]] == [federations.untimed(with_it[0])]
        assert federations.untimed(without[1]) != federations.untimed(with_it[1])


def test_settings_are_read_back_from_their_plain_values() -> None:
    given = config(*EVERYTHING)
    assert Config.read(json.loads(json.dumps(given.to_json()))) == given


STOPPED = [
    ("fd", 1),
    *(pytest.param(*each, marks=pytest.mark.long) for each in (("fedgen", 2), ("heterofl", 3))),
]


@pytest.mark.parametrize(("name", "stopped"), STOPPED)
def test_a_run_that_is_resumed_at_an_event_ends_with_the_same_bits(
    tmp_path: Path, name: str, stopped: int
) -> None:
    given = config(*EVERYTHING, name=name)
    Session.create(given, tmp_path / "whole", tmp_path).run()
    Session.create(given.with_(rounds=stopped), tmp_path / "part", tmp_path).run()
    fork(tmp_path / "part", tmp_path / "rest", tmp_path, stopped, assignments=["rounds=5"])
    Session.resume(tmp_path / "rest", tmp_path).run()
    assert ledger(tmp_path / "rest") == ledger(tmp_path / "whole")


def ledger(folder: Path) -> list[Any]:
    return [federations.untimed(each) for each in CheckedReader(folder).records()]


@pytest.mark.long
def test_a_run_that_is_killed_in_a_round_of_an_event_ends_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, finish = config(*EVERYTHING), local.finish

    def killed(prepared: local.Prepared) -> LocalUpdate:
        if (prepared.local.round, prepared.local.info.id) == (3, 2):
            raise KeyboardInterrupt
        return finish(prepared)

    Session.create(given, tmp_path / "whole", tmp_path).run()
    with monkeypatch.context() as changed, pytest.raises(KeyboardInterrupt):
        changed.setattr(local, "finish", killed)
        Session.create(given, tmp_path / "killed", tmp_path).run()
    left = Path(shutil.copytree(tmp_path / "killed", tmp_path / "left"))  # this process still owns the other
    assert CheckedReader(left).rounds()[-1] == 2
    Session.resume(left, tmp_path).run()
    assert federations.committed(left) == federations.committed(tmp_path / "whole")


def test_kept_updates_of_an_unfinished_round_look_like_those_of_its_data() -> None:
    """FedProto sends a row for each class of the round. In round 2, clients have other classes."""
    parts = federations.built(config(DIVIDED, name="fedproto", data={"classes_per_client": 2}))
    state = federations.run(parts.engine, 1)
    for info in parts.federation.at(2).clients:
        expected = states.uplink_specs(info.id, state, parts)
        assert expected is not None
        assert expected["prototypes"].shape[0] == len(info.classes)


@pytest.mark.long
def test_a_switch_after_an_event_goes_on_with_the_clients_of_the_round() -> None:
    given = config(*EVERYTHING)
    parts = federations.built(given)
    state = federations.run(parts.engine, 3)
    after = federations.settings(parts, method={"name": "fedproto"})
    taken, _ = after.engine.take_over(state, parts.method)
    following = after.engine.round(taken, unobserved)
    assert following.record["participants"] == [0, 1, 2, 3, 4]


@pytest.mark.long
def test_every_exact_runner_has_the_same_bits() -> None:
    one, other = (
        records(config(*EVERYTHING, runtime={"runner": runner, "workers": workers}))
        for runner, workers in (("sequential", 1), ("parallel", 3))
    )
    assert [federations.untimed(each) for each in one] == [federations.untimed(each) for each in other]


@pytest.mark.long
def test_stacks_train_on_the_data_of_the_round() -> None:
    """Stacks have their own last digits. Whoever trained on old labels would be far off."""
    given = {"federation": {"group": ["tiny_cnn"]}}
    one, stacked = (
        records(config(*EVERYTHING, **merged(given, {"runtime": {"runner": runner}})))
        for runner in ("sequential", "stacked")
    )
    for a, b in zip(one, stacked, strict=True):
        losses = [[each for each in record["loss"]["per_client"] if each is not None] for record in (a, b)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.long
def test_a_worker_elsewhere_is_set_up_with_the_changes() -> None:
    """What Ray sends: the source has the events, and the data that are loaded from it are the same."""
    parts = federations.built(config(*EVERYTHING))
    context, hooks = parts.engine._runner.context, parts.engine._hooks
    setup = WorkerSetup.of(context, hooks, parts.engine._config.runtime)
    assert [each.event.labels for each in setup.source.changes] == [None, "permuted"]
    runner, there = setup.set_up()
    runner.enter(3)
    for mine, theirs in zip(parts.data.at(3).clients, runner.context.data.clients, strict=True):
        assert torch.equal(mine.train, theirs.train)
    assert there.at(3).method.federation.absent == {1}


# On the clock

DEVICES = {"devices": "phone", "latency": 1.0, "down": 1e9, "up": 1e9}


def test_clients_of_the_clock_are_those_that_are_present() -> None:
    plain = records(config(LEAVES, RETURNS, JOINS))
    timed = records(config(LEAVES, RETURNS, JOINS, system=DEVICES))
    for a, b in zip(plain, timed, strict=True):
        assert a["participants"] == b["participants"]
        assert a["accuracy"] == b["accuracy"]


@pytest.mark.long
def test_an_uplink_of_a_client_that_leaves_in_flight_is_lost() -> None:
    """All five are at work, and round 1 ends with the first uplink. So another client leaves in flight in round 2."""
    system = {**DEVICES, "schedule": "asynchronous", "jitter": 1.0}
    [first] = records(config(system=system, rounds=1))[0]["time"]["flights"]
    away = (first["client"] + 1) % 5
    begins, *later = records(config({**LEAVES, "clients": [away]}, system=system))
    assert begins["time"]["flights"] == [first]
    flights = [each for record in later for each in record["time"]["flights"] if each["client"] == away]
    [lost] = flights
    assert (lost["fate"], lost["dispatch"], lost["arrives"]) == ("lost", 1, first["arrives"])
    assert sum(lost[part] for part in ("latency", "down", "compute", "up")) == pytest.approx(
        first["arrives"] - lost["begins"]
    )
    assert lost in later[0]["time"]["flights"]
    assert all(away not in record["time"]["sent"] for record in later)


@pytest.mark.long
def test_clients_of_a_deadline_that_leave_do_not_hold_up_the_round() -> None:
    """Late uplinks arrive in the next round. That of a client that leaves is lost, and its work is wasted."""
    system = {**DEVICES, "schedule": "deadline", "deadline_quantile": 0.5, "late": "next", "jitter": 1.0}
    plain = records(config(system=system, rounds=2))
    [waiting, *_] = {0, 1, 2, 3, 4}.difference(each["client"] for each in plain[0]["time"]["flights"])
    found = records(config({**LEAVES, "clients": [waiting]}, system=system, rounds=2))[1]["time"]
    fates = {each["client"]: each["fate"] for each in found["flights"]}
    assert fates[waiting] == "lost"
    assert plain[0]["time"] == records(config(system=system, rounds=1))[0]["time"]


@pytest.mark.long
def test_timing_only_draws_the_rounds_of_the_run_with_its_clients() -> None:
    given = config(LEAVES, RETURNS, DIVIDED, name="fedavg", system=DEVICES)
    found = list(drawn(given, federations.built(given)))
    assert [each["sent"] for each in found] == [5, 4, 4, 5, 5]
    for row, record in zip(found, records(given), strict=True):
        assert row["ends"] == pytest.approx(record["time"]["ends"], rel=1e-6)


# Refused


def test_contradictions_are_refused_early() -> None:
    for wrong, said in (
        ([{**LEAVES, "clients": [9]}], "there is no client 9. Use 0 to 4"),
        ([LEAVES, {**LEAVES, "round": 3}], r"entry 2 \(round 3\): client 1 is absent and cannot leave"),
        ([LEAVES, RETURNS, {**RETURNS, "round": 5}], "client 1 is present and cannot join"),
        ([{**LEAVES, "clients": [0, 1, 2, 3, 4]}], "no client would be present"),
        ([{**LEAVES, "clients": 0.05}], "are 0 clients, and 5 can be drawn"),
        ([{**RETURNS, "clients": "left"}], "no client has left before"),
        ([{**LEAVES, "clients": "left"}], "they can only join"),
        ([{**LEAVES, "clients": []}], "names no client"),
        ([{**LEAVES, "clients": [1, 1]}], "names a client twice"),
        ([{"round": 2, "event": "leave"}], "event 'leave' needs clients"),
        ([{**LEAVES, "alpha": 0.1}], "alpha belongs to event 'data'"),
        ([{"round": 2, "event": "data"}], "this one has none"),
        ([{**PERMUTED, "alpha": 0.1}], "a new partition and labels"),
        ([{**DIVIDED, "partition": "iid"}], "alpha belongs to partition 'dirichlet'"),
        ([{**DIVIDED, "classes_per_client": 2}], "together belong to partition 'extended_dirichlet'; set it"),
        ([{**DIVIDED, "partition": "shards"}], "alpha belongs to partition 'dirichlet' or"),
        ([{**DIVIDED, "clients": [1]}], "at least two clients"),
        ([{**LEAVES, "round": 0}], "greater than or equal to 1"),
        ([{**LEAVES, "clinets": [1]}], "unknown key 'federation.timeline.0.clinets'"),
    ):
        with pytest.raises(ConfigError, match=said):
            config(*wrong)


def test_unseen_clients_neither_join_nor_leave() -> None:
    [unseen] = federations.built(config(federation={"unseen": 0.2})).federation.unseen
    with pytest.raises(ConfigError, match=f"client {unseen} is unseen"):
        config({**LEAVES, "clients": [unseen]}, federation={"unseen": 0.2})


def test_data_that_cannot_change_that_way_are_refused() -> None:
    events: tuple[tuple[dict[str, Any], str], ...] = (
        ({"domain": "photo"}, "has no domains"),
        ({"classes_per_client": 9}, "has 4 classes"),
    )
    for event, said in events:
        with pytest.raises(ConfigError, match=said):
            federations.built(config({"round": 2, "event": "data", **event}))


def test_an_event_after_the_last_round_is_a_caution() -> None:
    [sentence] = cautions(config({**LEAVES, "round": 9}))
    assert "entry 1 (round 9): the run ends after round 5" in sentence


@pytest.mark.long
@pytest.mark.parametrize("model", ["local", "aggregated"])
@pytest.mark.parametrize("sections", [{}, {"timeline": []}], ids=["timeline", "unseen"])
def test_cka_of_a_checkpoint_is_among_the_clients_of_its_round(
    tmp_path: Path, sections: dict[str, Any], model: str
) -> None:
    """Client 1 is away in rounds 2 and 3, client 4 before round 3. Or one of five clients is unseen."""
    federation = {"unseen": 0.2, **sections} if sections else {}
    given = config(
        *EVERYTHING, federation=federation, cka={"every": 1, "model": model}, checkpoint={"keep_last": 5}
    )
    with Session.create(given, tmp_path / "s", tmp_path) as running:
        running.run()
    for record in CheckedReader(tmp_path / "s").records():
        found = measured_cka(tmp_path / "s", tmp_path, record["round"])
        assert {key: found[key] for key in record["cka"]} == record["cka"]
