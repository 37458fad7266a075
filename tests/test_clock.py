"""Rounds of a federation on the computed clock: the ledger's times, what a schedule does to the bits, and resumes."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import checkpoints
import htfl_sim as hs
from simulator.base.errors import ConfigError
from simulator.base.nested import merged
from simulator.base.record import Record, Time, check_record
from simulator.clock.durations import Work as Tasks
from simulator.engine.builder import Built
from simulator.engine.drawing import drawn
from simulator.engine.progress import ClientTrained, Event, unobserved
from simulator.metrics import by_client
from simulator.results.inspection.checkpoint import cka as measured_cka
from simulator.runners import Job, Work, carry_out
from simulator.sessions.forking import fork
from simulator.sessions.reader import CheckedReader
from simulator.sessions.session import Session
from tests import federations

pytestmark = pytest.mark.usefixtures("generated_images")


ALL = {"participation": 1.0}


def table(name: str, gflops: float, down: float, up: float, latency: float) -> str:
    """A device as a file has it: 4 W of computing, 2 W of the radio, 1 W of idling."""
    return (
        f"[{name}]\ngflops = {gflops}\ndown_mbps = {down}\nup_mbps = {up}\nlatency_s = {latency}\n"
        "compute_watts = 4\nradio_watts = 2\nidle_watts = 1\n"
    )


def written(folder: Path, *tables: str) -> str:
    """The path of a file of these devices."""
    (folder / "devices.toml").write_text("\n".join(tables))
    return str(folder / "devices.toml")


@pytest.fixture
def devices(tmp_path: Path) -> str:
    """Devices that take 2, 3, and 7 seconds of latency. They train and send in less than rounding shows."""
    return written(tmp_path, *(table(f"d{seconds}", 1e30, 1e30, 1e30, seconds) for seconds in (2, 3, 7)))


def parts(
    method: str,
    devices: str,
    clients: tuple[str, ...] = ("d2", "d3", "d7"),
    federation: dict[str, Any] | None = None,
    **system: Any,
) -> Built:
    section = {"devices": list(clients), "device_file": devices, **system}
    everybody = {"clients": len(clients), **ALL, **(federation or {})}
    return federations.built(federations.config(method, federation=everybody, system=section, rounds=20))


def times(built: Built, rounds: int) -> list[Time]:
    state, found = built.engine.initial_state(), []
    for _ in range(rounds):
        state = built.engine.round(state, unobserved)
        assert state.record is not None
        found.append(state.record["time"])
    return found


def first_record(built: Built) -> Record:
    """The record of the first round."""
    record = built.engine.round(built.engine.initial_state(), unobserved).record
    assert record is not None
    return record


def brief(time: Time) -> tuple[float, list[tuple[int, int, str]], int]:
    """When the round ends, (client, dispatch, fate) of what landed, and how many are in flight."""
    flights = [(each["client"], each["dispatch"], each["fate"]) for each in time["flights"]]
    return time["ends"], flights, time["in_flight"]


BOTH_FIRST, BOTH_SECOND, BOTH_THIRD = ([(0, round, "used"), (1, round, "used")] for round in (1, 2, 3))
BY_HAND: dict[str, tuple[dict[str, Any], list[Any]]] = {
    # Client 2 takes 7 seconds, and the round waits for it.
    "synchronous": ({}, [(7, [*BOTH_FIRST, (2, 1, "used")], 0), (14, [*BOTH_SECOND, (2, 2, "used")], 0)]),
    # Round 1 ends at 4.5. Clients 0 and 1 go off again, to 6.5 and 7.5. Client 2 is late at 7. Round 3 has it anew.
    "deadline": (
        {"schedule": "deadline", "deadline": 4.5},
        [(4.5, BOTH_FIRST, 1), (7.5, [(0, 2, "used"), (2, 1, "late"), (1, 2, "used")], 0), (12, BOTH_THIRD, 1)],
    ),
    # The same times. Client 2's uplink counts, one round old.
    "late": (
        {"schedule": "deadline", "deadline": 4.5, "late": "next"},
        [(4.5, BOTH_FIRST, 1), (7.5, [(0, 2, "used"), (2, 1, "used"), (1, 2, "used")], 0)],
    ),
    # The median of 2, 3, and 7 is 3; that of 5 and 6 is 5. Client 0 alone is free then, and arrives at 7 with client 2.
    "quantile": (
        {"schedule": "deadline", "deadline_quantile": 0.5},
        [(3, BOTH_FIRST, 1), (5, [(0, 2, "used")], 2), (7, [(1, 2, "late"), (0, 3, "used"), (2, 1, "late")], 0)],
    ),
    # Two of three end rounds at 3, 6, and 9. Client 2 flies to 7, and is late in round 3.
    "over_selection": (
        {"schedule": "over_selection", "select": 3},
        [(3, BOTH_FIRST, 1), (6, BOTH_SECOND, 1), (9, [(2, 1, "late"), *BOTH_THIRD], 0)],
    ),
    # Clients 0 and 1 arrive at 2 and 3, then at 5 and 6. Client 2 arrives at 7 and client 0 at 8.
    "buffered": (
        {"schedule": "buffered", "buffer": 2},
        [(3, BOTH_FIRST, 1), (6, BOTH_SECOND, 1), (8, [(2, 1, "used"), (0, 3, "used")], 1)],
    ),
    # The same. Client 2's uplink is two rounds old at 7 and does not count, and client 1 fills the buffer at 9.
    "stale": (
        {"schedule": "buffered", "buffer": 2, "max_staleness": 1},
        [(3, BOTH_FIRST, 1), (6, BOTH_SECOND, 1), (9, [(2, 1, "stale"), *BOTH_THIRD], 0)],
    ),
    # Client 0 is back at 2, 4, 6, and client 1 at 3, 6. Client 0 was sent off later, and has the lower number.
    "asynchronous": (
        {"schedule": "asynchronous"},
        [
            (2, [(0, 1, "used")], 2), (3, [(1, 1, "used")], 2), (4, [(0, 2, "used")], 2), (6, [(0, 4, "used")], 2),
            (6, [(1, 3, "used")], 2), (7, [(2, 1, "used")], 2),
        ],
    ),
}  # fmt: skip
"""The rounds of clients that take 2, 3, and 7 seconds, derived by hand: end, what landed, and number in flight."""


def test_the_ledger_has_the_schedule_of_three_clients(devices: str) -> None:
    for name, (system, expected) in BY_HAND.items():
        two_of_three = {"participation": 2 / 3} if name == "over_selection" else {}
        found = times(
            parts("fedproto", devices, server_device="d2", federation=two_of_three, **system), len(expected)
        )
        assert [brief(each) for each in found] == expected
        assert [each["begins"] for each in found] == [0, *(ends for ends, _, _ in expected[:-1])]
        for number, each in enumerate(found, 1):
            ages = Counter(
                number - flight["dispatch"] for flight in each["flights"] if flight["fate"] == "used"
            )
            assert each["staleness"] == {str(age): many for age, many in ages.items()}
            seconds = {flight["client"]: flight["arrives"] - flight["begins"] for flight in each["flights"]}
            assert seconds.items() <= {0: 2.0, 1: 3.0, 2: 7.0}.items()


def test_the_seconds_of_a_client_are_latency_bytes_over_bandwidth_and_operations_over_speed(
    tmp_path: Path,
) -> None:
    """1 Mbit/s down, 0.5 Mbit/s up, 1 GFLOP/s at a utilization of one half, and 0.25 s of latency."""
    file = written(tmp_path, table("slow", 1, 1, 0.5, 0.25))
    system = {"devices": "slow", "device_file": file, "default_utilization": 0.5}
    config = federations.config("lg_fedavg", federation={"clients": 2, **ALL}, system=system)
    built = federations.built(config)
    record = first_record(built)
    down, up = (record["bytes"][f"per_client_{way}"] for way in ("down", "up"))  # type: ignore[literal-required]
    joules = {"compute": 0.0, "radio": 0.0, "idle": 0.0}
    for flight in record["time"]["flights"]:
        k = flight["client"]
        assert flight["down"] == pytest.approx(8 * down[k] / 1e6, rel=1e-12)
        assert flight["up"] == pytest.approx(8 * up[k] / 5e5, rel=1e-12)
        assert flight["compute"] == pytest.approx(flight["flops"] / 5e8, rel=1e-12)
        assert flight["bytes"] == down[k] + up[k]
        total = 0.25 + flight["down"] + flight["compute"] + flight["up"]
        assert flight["arrives"] == pytest.approx(total, rel=1e-12)
        joules["compute"] += 4 * flight["compute"]
        joules["radio"] += 2 * (flight["down"] + flight["up"])
        joules["idle"] += 0.25 + record["time"]["aggregates"] - flight["arrives"]
    assert record["time"]["joules"] == pytest.approx(joules, rel=1e-12)
    assert record["time"]["aggregates"] == max(flight["arrives"] for flight in record["time"]["flights"])


def test_evaluation_that_counts_takes_forward_passes_over_the_test_samples(tmp_path: Path) -> None:
    """A tiny_mlp has layers 64 → 12 → 8 → 4, so 2 · (768 + 96 + 32) = 1,792 FLOPs a sample, at 1 MFLOP/s and 4 W."""
    system = {"devices": "slow", "device_file": written(tmp_path, table("slow", 0.001, 1e9, 1e9, 0))}
    federation = {"clients": 3, "group": ["tiny_mlp"], **ALL}
    ran = {}
    for counts in (False, True):
        section = system | {"count_evaluation": counts}
        built = federations.built(
            federations.config(
                "standalone", federation=federation, system=section, evaluation={"parts": ["test"]}
            )
        )
        ran[counts] = federations.run(built.engine, 1)
    sizes = [len(client.test) for client in built.data.clients]
    without, record = ran[False].record, ran[True].record
    assert without is not None and record is not None
    assert "evaluation" not in without["time"]
    assert record["time"]["evaluation"] == {"seconds": 1792e-6 * max(sizes), "flops": 1792 * sum(sizes)}
    assert record["time"]["ends"] == pytest.approx(without["time"]["ends"] + 1792e-6 * max(sizes), rel=1e-12)
    used = record["time"]["joules"]["compute"] - without["time"]["joules"]["compute"]
    assert used == pytest.approx(4 * 1792e-6 * sum(sizes), rel=1e-9)
    assert federations.state_bits(ran[True]) == federations.state_bits(ran[False])


@pytest.mark.parametrize("method", ["fedproto", "scaffold"])
def test_a_clock_without_stale_uplinks_changes_no_bit(method: str) -> None:
    system = {"devices": {"phone": 0.5, "laptop": 0.5}, "jitter": 0.3}
    timed = federations.run(federations.built(federations.config(method, system=system)).engine, 3)
    plain = federations.run(federations.built(federations.config(method)).engine, 3)
    assert federations.state_bits(timed) == federations.state_bits(plain)
    assert plain.record is not None and "time" not in plain.record


@pytest.mark.parametrize("method", ["fedavg", "fedproto"])
def test_a_buffer_of_all_is_synchronous_in_every_column_of_the_ledger(method: str, devices: str) -> None:
    """Waiting and joules included: the first clients wait for the last one under both schedules."""
    found = []
    for system in ({"schedule": "buffered", "buffer": 3}, {}):
        built = parts(method, devices, **system)
        state, records = built.engine.initial_state(), []
        for _ in range(3):
            state = built.engine.round(state, unobserved)
            records.append(federations.untimed(state.record))
        found.append((records, federations.state_bits(state)))
    assert found[0] == found[1]


@pytest.mark.parametrize("method", ["fedavg", "fedssa"])
def test_a_buffer_of_one_is_the_asynchronous_schedule(method: str, devices: str) -> None:
    found = [
        federations.run(parts(method, devices, clients=("d2", "d3", "d7", "d7"), **system).engine, 6)
        for system in (
            {"schedule": "buffered", "buffer": 1, "stale_as": "model"},
            {"schedule": "asynchronous"},
        )
    ]
    assert federations.state_bits(found[0]) == federations.state_bits(found[1])


def test_a_stale_uplink_moves_the_server_less_far(devices: str) -> None:
    """Client 2's head arrives in round 6, five rounds old. With (1 + τ)^−1 and a mixing of 0.6, it counts a tenth."""
    ways = {"schedule": "asynchronous", "staleness": "polynomial", "staleness_exponent": 1.0, "mixing": 0.6}
    built = parts("lg_fedavg", devices, **ways)
    state = federations.run(built.engine, 5)
    [late] = [each for each in state.in_flight if each.client.id == 2]
    after = built.engine.round(state, unobserved)
    assert after.record is not None and after.record["time"]["staleness"] == {"5": 1}
    for name, before in state.server.items():
        expected = before + 0.6 / 6 * (late.update.uplink[name] - before)
        assert (after.server[name] - expected).abs().max() < 1e-6


@pytest.mark.parametrize("stale_as", ["difference", "model"])
def test_a_buffer_adds_what_clients_changed_as_fedbuff_does(devices: str, stale_as: str) -> None:
    """Round 3 has client 0, sent off in it, and client 2, sent off in round 1: two rounds old, with s = 1/√3.

    FedBuff: w + η Σ p_k s_k (w_k − start of k), with p_k = n_k/n. The start of client 2 is the head before round 1.
    The older rule moves w toward the mean of the heads themselves: w + η Σ p_k s_k (w_k − w).
    """
    ways = {"schedule": "buffered", "buffer": 2, "staleness": "polynomial", "mixing": 0.5}
    built = parts("lg_fedavg", devices, stale_as=stale_as, **ways)
    before_all = built.engine.initial_state()
    state = before_all
    for _ in range(2):
        state = built.engine.round(state, unobserved)
    hooks, clients = built.engine._hooks, built.federation.clients
    job = Job(state.clients[0], hooks.downlink(3, state.server, clients[0]))
    [fresh] = carry_out(built.engine._runner, Work(hooks, 3, {0: job}))
    [old] = [each for each in state.in_flight if each.client.id == 2]
    after = built.engine.round(state, unobserved)
    assert after.record is not None and after.record["time"]["staleness"] == {"0": 1, "2": 1}
    n = clients[0].samples + clients[2].samples
    for name, w in state.server.items():
        start = before_all.server[name] if stale_as == "difference" else w
        change = clients[0].samples / n * (fresh.uplink[name] - w)
        change = change + clients[2].samples / n * 3**-0.5 * (old.update.uplink[name] - start)
        assert (after.server[name] - (w + 0.5 * change)).abs().max() < 1e-6


def test_the_ledger_has_who_waits_and_what_is_wasted(devices: str) -> None:
    """Devices of 2, 3, and 7 s with a deadline after 5 s: client 2 arrives late in round 2, which wastes its work.

    Round 1: clients 0 and 1 wait for 3 s and 2 s. Round 2 begins at 5 s. Clients 0 and 2 arrive at 7 s, and client 1 at
    8 s, which ends the round.
    An idle device takes 1 W: 7 s of latency and 1 s of waiting are 8 J.
    """
    built = parts("fedavg", devices, schedule="deadline", deadline=5)
    first, second = times(built, 2)
    assert [round(flight["wait"], 6) for flight in first["flights"]] == [3, 2]
    assert (first["participation"], first["used"]) == (1.0, 1.0)
    assert first["wasted"] == {"seconds": 0, "flops": 0, "bytes": 0, "joules": 0}
    ended = {each["client"]: each for each in second["flights"]}
    fates = {client: (flight["fate"], round(flight["wait"], 6)) for client, flight in ended.items()}
    assert fates == {0: ("used", 1), 1: ("used", 0), 2: ("late", 1)}
    assert (second["participation"], second["used"]) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    late, wasted = ended[2], second["wasted"]
    assert (round(wasted["seconds"], 6), round(wasted["joules"], 6)) == (7, 8)
    assert (wasted["flops"], wasted["bytes"]) == (late["flops"], late["bytes"])


def test_clients_wait_for_the_aggregation_under_every_schedule(devices: str) -> None:
    """Of BY_HAND's buffer of two: arrivals at 2 and 3, 5 and 6, 7 and 8. Idle: latency and waiting, at 1 W."""
    built = parts("fedproto", devices, schedule="buffered", buffer=2)
    found = times(built, 3)
    assert [[flight["wait"] for flight in time["flights"]] for time in found] == [[1, 0]] * 3
    assert [round(time["joules"]["idle"], 6) for time in found] == [2 + 1 + 3, 2 + 1 + 3, 7 + 1 + 2]
    before = times(parts("fedproto", devices, schedule="buffered", buffer=2, costs="planned"), 3)
    assert {flight["wait"] for time in before for flight in time["flights"]} == {0.0}, "sessions of before"


SLOW = table("slow", 1e-3, 0.01, 0.01, 2)
"""A device whose phases all take seconds."""


def slow(folder: Path, until: Sequence[float] = (), **system: Any) -> Built:
    """Clients of slow devices, of which each one in turn is there from 0 until that time."""
    many = len(until) or 4
    lines = [f"{k},0,{leaves!r}\n{k},1e8,1e9" for k, leaves in enumerate(until)]
    (folder / "there.csv").write_text("\n".join(["client,from,to", *lines]) + "\n")
    section = {"devices": "slow", "device_file": written(folder, SLOW), **system}
    if until:
        section |= {"availability": "intervals", "availability_file": str(folder / "there.csv")}
    federation = {"clients": many, "group": ["tiny_mlp"], **ALL}
    return federations.built(federations.config("fedavg", federation=federation, system=section))


@pytest.mark.parametrize("costs", ["actual", "planned"])
def test_a_lost_dispatch_counts_until_its_client_left(tmp_path: Path, costs: str) -> None:
    """Client 0 leaves in its latency, 1 in its downlink, 2 after half of its training, and 3 in its uplink.

    Client 4 stays. In sessions of before, all five count in full.
    """
    stays = times(slow(tmp_path, [1e7] * 5), 1)[0]["flights"]
    whole = {each["client"]: each for each in stays}
    until = [
        1.0,
        2 + whole[1]["down"] / 2,
        2 + whole[2]["down"] + whole[2]["compute"] / 2,
        2 + whole[3]["down"] + whole[3]["compute"] + whole[3]["up"] / 2,
        1e7,
    ]
    built = slow(tmp_path, until, costs=costs)
    record = first_record(built)
    flights = {each["client"]: each for each in record["time"]["flights"]}
    assert [flights[k]["fate"] for k in range(5)] == ["lost"] * 4 + ["used"]
    size = record["bytes"]["per_client_up"][4]
    assert whole[4]["bytes"] == 2 * size
    share = {"actual": (0, 0, 0.5, 1, 1), "planned": (1, 1, 1, 1, 1)}[costs]
    sizes = {"actual": (0, 0, size, size, 2 * size), "planned": (2 * size,) * 5}[costs]
    down = {"actual": [0, 0, size, size, size], "planned": [size] * 5}[costs]
    flops = [share[k] * whole[k]["flops"] for k in range(5)]
    assert [flights[k]["flops"] for k in range(5)] == pytest.approx(flops, abs=1)
    assert tuple(flights[k]["bytes"] for k in range(5)) == sizes
    assert record["bytes"]["per_client_down"] == down and record["bytes"]["down"] == sum(down)
    assert record["bytes"]["per_client_up"] == [0, 0, 0, 0, size]
    assert record["flops"]["clients"] == sum(flights[k]["flops"] for k in range(5))
    assert record["time"]["wasted"]["flops"] == pytest.approx(sum(flops[:4]), abs=4)
    assert record["time"]["wasted"]["bytes"] == sum(sizes[:4])
    if costs == "actual":  # a client that has left neither works nor waits
        down_watts, compute_watts = 2, 4
        spent = [
            1,
            2 + down_watts * whole[1]["down"] / 2,
            2 + down_watts * whole[2]["down"] + compute_watts * whole[2]["compute"] / 2,
            2 + 2 * (whole[3]["down"] + whole[3]["up"] / 2) + compute_watts * whole[3]["compute"],
        ]
        assert record["time"]["wasted"]["joules"] == pytest.approx(sum(spent))
        assert [flights[k]["wait"] for k in range(4)] == [0] * 4


def test_a_client_that_the_timeline_takes_away_did_half_of_its_training(tmp_path: Path) -> None:
    """Round 1 ends at the deadline, when client 1 has done half of its training. It leaves with round 2."""
    both = written(tmp_path, SLOW, table("quick", 1e-3, 1e3, 1e3, 2))
    system = {"devices": ["quick", "slow"], "device_file": both}
    federation = {"clients": 2, "group": ["tiny_mlp"], **ALL}

    def built(**more: Any) -> Built:
        leaves = {"timeline": [{"round": 2, "event": "leave", "clients": [1]}]}
        config = federations.config("fedavg", rounds=2, federation=federation | leaves, system=system | more)
        return federations.built(config)

    [whole] = [each for each in times(built(), 1)[0]["flights"] if each["client"] == 1]
    middle = whole["latency"] + whole["down"] + whole["compute"] / 2
    second = times(built(schedule="deadline", deadline=middle, late="next"), 2)[1]
    [lost] = [each for each in second["flights"] if each["client"] == 1]
    assert (lost["fate"], lost["arrives"], lost["wait"]) == ("lost", middle, 0)
    assert lost["flops"] == pytest.approx(whole["flops"] / 2, abs=1)
    assert lost["bytes"] == whole["bytes"] / 2


def test_slow_and_fast_thirds_are_by_device_and_then_by_work(tmp_path: Path) -> None:
    """Seven clients: thirds of two. Clients 0, 3, and 5 have the slow device. Of them, one has the least work."""
    file = written(
        tmp_path, *(table(name, speed, 1, 1, 0) for name, speed in [("slow", 1), ("medium", 2), ("fast", 3)])
    )
    names = ["slow", "medium", "fast", "slow", "medium", "slow", "fast"]
    system = {"devices": names, "device_file": file}
    built = federations.built(
        federations.config("lg_fedavg", federation={"clients": 7, **ALL}, system=system)
    )
    clock = built.engine.clock
    assert clock is not None
    work = {each.id: each.parameters * each.train_size for each in clock.facts}
    assert clock.slow == tuple(sorted(sorted([0, 3, 5], key=lambda k: -work[k])[:2]))
    assert clock.fast == (2, 6)
    record = first_record(built)
    accuracy = record["accuracy"]["per_client"]
    slow = [accuracy[k] for k in clock.slow]  # type: ignore[index]
    assert record["time"]["accuracy"] == {
        "slow": pytest.approx(sum(slow) / 2),  # type: ignore[arg-type]
        "fast": pytest.approx((accuracy[2] + accuracy[6]) / 2),  # type: ignore[index,operator]
    }


def test_records_of_before_lack_the_newer_keys_and_are_read(devices: str) -> None:
    built = parts("fedproto", devices)
    record = first_record(built)
    for key in ("participation", "used", "wasted", "accuracy"):
        del record["time"][key]  # type: ignore[misc]
    for flight in record["time"]["flights"]:
        del flight["wait"]
    check_record(record, 3)


def test_a_client_that_leaves_loses_its_work(devices: str, tmp_path: Path) -> None:
    """Client 2 needs 7 seconds and is there for the first 5 of every 100."""
    there = tmp_path / "there.csv"
    there.write_text("client,from,to\n0,0,1000\n1,0,1000\n2,0,5\n2,100,105\n")
    built = parts("fedproto", devices, availability="intervals", availability_file=str(there))
    before = built.engine.initial_state()
    after = built.engine.round(before, unobserved)
    assert after.record is not None
    assert brief(after.record["time"]) == (5, [(0, 1, "used"), (1, 1, "used"), (2, 1, "lost")], 0)
    assert federations.bits(after.clients[2]) == federations.bits(before.clients[2])
    second = built.engine.round(after, unobserved).record
    assert second is not None and second["participants"] == [0, 1]


@pytest.mark.parametrize("method", ["fedl2g_l", "scaffold"])
def test_a_method_that_takes_no_stale_uplinks_is_refused_where_they_can_be(method: str) -> None:
    system = {"devices": "phone", "schedule": "asynchronous"}
    with pytest.raises(ConfigError, match=r"takes no stale uplinks.*system.schedule=synchronous"):
        federations.built(federations.config(method, system=system))


@pytest.mark.long
@pytest.mark.parametrize("name", ["late", "asynchronous"])
def test_runners_give_the_same_bits_on_the_clock(devices: str, name: str) -> None:
    """In process, with one worker and two. Stacked clients have other bits at the same times."""
    system, expected = BY_HAND[name]
    section = {"devices": ["d2", "d3", "d7"], "device_file": devices, "server_device": "d2", **system}
    found, shown = [], []
    for runner, workers in (("sequential", 1), ("parallel", 1), ("parallel", 2), ("stacked", 1)):
        config = federations.config(
            "fedproto",
            federation={"clients": 3, **ALL},
            system=section,
            runtime={"runner": runner, "workers": workers},
        )
        engine = federations.built(config).engine
        state, records = engine.initial_state(), []
        for _ in expected:
            state = engine.round(state, unobserved)
            records.append(federations.untimed(state.record))
        engine.close()
        shown.append([record["time"] for record in records])
        if runner != "stacked":
            found.append(federations.state_bits(state) | {"records": records})
    assert found[0] == found[1] == found[2]
    assert shown[3] == shown[0]


PHONES = {"devices": ["phone", "laptop", "phone", "jetson"], "jitter": 0.5}


def session(folder: Path, method: str = "fedproto", **system: Any) -> Session:
    return Session.create(federations.config(method, rounds=4, system=PHONES | system), folder, folder.parent)


BUFFERED = {"schedule": "buffered", "buffer": 2}


def test_a_switch_to_a_method_that_takes_no_stale_uplinks_is_refused_and_one_that_does_drops_them(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "s"
    with session(folder, **BUFFERED) as running:
        running.run(upto=1)
        refused = checkpoints.post(folder, "switch", {"method": "fedl2g_l", "set": []})
        running.run(upto=2)
        checkpoints.post(folder, "switch", {"method": "fedssa", "set": []})
        running.run()
    answer = checkpoints.answer(folder, refused.id)
    assert answer is not None and answer.outcome == "refused"
    assert "takes no stale uplinks" in str(answer)
    records = CheckedReader(folder).records()
    assert [record["method"] for record in records] == ["fedproto", "fedproto", "fedssa", "fedssa"]
    ends = [record["time"]["ends"] for record in records]
    assert ends == sorted(ends)
    assert all(flight["dispatch"] >= 3 for flight in records[2]["time"]["flights"])


FLYING: tuple[dict[str, Any], ...] = (
    BUFFERED,
    {"schedule": "deadline", "deadline_quantile": 0.5, "late": "next"},
    {"availability": "markov", "availability_on": 0.1, "availability_off": 0.05},
)
"""Schedules of which some clients' first uplinks arrive later than they were sent off, or never."""


@pytest.mark.long
@pytest.mark.parametrize("system", FLYING, ids=str)
def test_a_fork_and_cka_of_a_checkpoint_know_whose_uplinks_are_in_flight(
    tmp_path: Path, system: dict[str, Any]
) -> None:
    """Rounds depend on who has trained: CKA of those, and evaluation of two of them."""
    more = {
        "evaluation": {"clients": 2, "initial": "skip"},
        "cka": {"every": 1},
        "checkpoint": {"keep_last": 4},
    }
    config = federations.config("fedavg", rounds=4, system=PHONES | system, federation=ALL, **more)
    alone = tmp_path / "alone"
    with Session.create(config, alone, tmp_path) as running:
        running.run()
    records = CheckedReader(alone).records()
    assert set(by_client.arrived(records[0])) < set(records[0]["participants"])
    for record in records:
        found = measured_cka(alone, tmp_path, record["round"])
        assert {key: found[key] for key in record["cka"]} == record["cka"]
    for at_round in (1, 3):
        folder = tmp_path / f"fork{at_round}"
        fork(alone, folder, tmp_path, at_round)
        with Session.resume(folder, tmp_path) as again:
            again.run()
        assert federations.committed(folder) == federations.committed(alone)


@pytest.mark.parametrize("schedule", [{}, BUFFERED])
def test_diverged_clients_take_no_part_and_no_time(tmp_path: Path, schedule: dict[str, Any]) -> None:
    config = federations.config(
        "fedavg", rounds=1, training={"lr": 1e30}, system={"devices": "phone", **schedule}
    )
    built = federations.built(config)
    record = first_record(built)
    assert record["diverged"] == record["participants"] != []
    assert record["time"]["flights"] == []


SCHEDULES: tuple[dict[str, Any], ...] = (
    {"schedule": "deadline", "deadline": 0.1},
    {"schedule": "deadline", "deadline_quantile": 0.5, "late": "next"},
    {"schedule": "over_selection", "select": 4},
    {**BUFFERED, "max_staleness": 1},
    {"schedule": "asynchronous"},
)


@pytest.mark.parametrize("system", SCHEDULES, ids=str)
@pytest.mark.long
@settings(max_examples=2, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    jitter=st.floats(0, 2),
    on=st.floats(0.1, 2),
    drop=st.sampled_from([0.0, 0.3]),
    participation=st.sampled_from([0.5, 0.75, 1.0]),
)
def test_bytes_and_operations_of_a_run_are_used_wasted_or_under_way(
    system: dict[str, Any], seed: int, jitter: float, on: float, drop: float, participation: float
) -> None:
    """Of clients that come and go, whose uplinks the wire may lose, on a server whose training takes time."""
    if system.get("schedule") == "over_selection":
        participation = min(participation, 0.75)
    section = {"devices": ["phone", "laptop", "phone", "jetson"], "jitter": jitter, **system}
    section |= {"availability": "markov", "availability_on": on, "availability_off": 0.1}
    stale = system.get("schedule") in ("buffered", "asynchronous") or "late" in system
    config = federations.config(
        "fedproto" if stale else "fedgh",
        seed=seed,
        system=section | {"server_device": "raspberry_pi"},
        wire={"drop": drop},
        federation={"clients": 4, "participation": participation},
    )
    built = federations.built(config)
    state, records, flights, now = built.engine.initial_state(), list[Any](), list[Any](), 0.0
    for _ in range(6):
        state = built.engine.round(state, unobserved)
        assert state.record is not None
        record, time = state.record, state.record["time"]
        records.append(record)
        assert now == time["begins"] <= time["aggregates"] <= time["ends"]
        now, landed = time["ends"], time["flights"]
        # The wire carried the uplinks that reached the server, and no others.
        gone = {each["client"] for each in landed if each["fate"] == "lost"} | set(record.get("dropped", []))
        assert {each["client"] for each in landed if each["fate"] == "dropped"} <= gone
        up = dict.fromkeys(range(4), 0)
        for each in landed:
            if (k := each["client"]) not in gone:
                up[k] = each["bytes"] - records[each["dispatch"] - 1]["bytes"]["per_client_down"][k]
        assert record["bytes"]["per_client_up"] == list(up.values())
        flights += landed
    flying = {(each.client.id, each.dispatch): each for each in state.in_flight}
    dispatches = [(each["client"], each["dispatch"]) for each in flights] + list(flying)
    assert Counter(dispatches) == Counter(
        (k, record["round"]) for record in records for k in record["time"]["sent"]
    )
    counted, clock = sum(record["flops"]["clients"] for record in records), built.engine.clock
    assert clock is not None
    assert counted == sum(each["flops"] for each in flights) + sum(
        clock.done(each.flight, Tasks(each.update.flops, 0, 0)).flops
        for each in flying.values()
        if each.flight
    )
    for record in records:
        for k, size in enumerate(record["bytes"]["per_client_down"]):
            assert size == 0 or (k, record["round"]) in dispatches
            assert (k, record["round"]) not in flying or flying[k, record["round"]].down == size


@pytest.mark.long
def test_tables_and_figures_have_the_simulated_time_energy_and_what_was_used(tmp_path: Path) -> None:
    """The numbers of the table are recomputed from the ledger."""
    with session(tmp_path / "s", **BUFFERED, max_staleness=0) as timed:
        timed.run()
    records = CheckedReader(tmp_path / "s").records()
    flights = [flight for record in records for flight in record["time"]["flights"]]
    ages = [
        int(age) for record in records for age, n in record["time"]["staleness"].items() for _ in range(n)
    ]
    wasted = sum(flight["flops"] for flight in flights if flight["fate"] != "used")
    expected = {
        "simulated time of all rounds": records[-1]["time"]["ends"],
        "joules of all rounds": sum(sum(record["time"]["joules"].values()) for record in records),  # type: ignore[arg-type]
        "used uplinks": sum(flight["fate"] == "used" for flight in flights) / len(flights),
        "wasted FLOPs": wasted / sum(flight["flops"] for flight in flights),
        "mean staleness": sum(ages) / len(ages),
    }
    table = hs.compare("s", "method", target=0.0, columns=list(expected), sessions_dir=tmp_path)
    [row] = table.rows
    found = {name: each.mean for name, each in row.extras.items() if each}
    assert found == pytest.approx(expected, rel=1e-9)
    simulated = row.costs["simulated"]
    assert simulated is not None and simulated.mean == records[0]["time"]["ends"]
    figure = hs.plot("accuracy", "s", x="simulated seconds", sessions_dir=tmp_path)
    assert figure.axes[0].get_xlabel() == "simulated time, s"


def test_progress_counts_all_clients_that_were_sent_off_in_the_round(devices: str) -> None:
    """A buffer of 2 sends three clients off, and then another one: the fourth is not one of one."""
    told: list[tuple[int, int]] = []

    def observe(event: Event) -> None:
        if isinstance(event, ClientTrained) and event.round == 1:
            told.append((event.done, event.participants))

    built = parts("fedproto", devices, ("d2", "d3", "d7", "d7"), schedule="buffered", buffer=2, in_flight=3)
    built.engine.round(built.engine.initial_state(), observe)
    assert told == [(1, 3), (2, 3), (3, 3), (4, 4)]


def test_where_nobody_is_ever_there_again_the_run_ends_with_the_reason(tmp_path: Path) -> None:
    there = tmp_path / "there.csv"
    there.write_text("client,from,to\n" + "".join(f"{k},0,0.2\n" for k in range(4)))
    system = {"devices": "phone", "availability": "intervals", "availability_file": str(there)}
    built = federations.built(federations.config("fedproto", system=system, rounds=50))
    with pytest.raises(ConfigError, match="No client is available any more after"):
        federations.run(built.engine, 50)


DRAWN: tuple[dict[str, Any], ...] = (
    {"training": {"epochs": 0.5}},
    {"system": {"schedule": "deadline", "deadline_quantile": 0.5}},
    {"system": {**BUFFERED, "max_staleness": 1}},
    {"system": {"availability": "markov", "availability_on": 0.2, "availability_off": 0.1}},
)


@pytest.mark.parametrize("sections", DRAWN, ids=str)
def test_rounds_drawn_without_training_are_those_of_the_run(sections: dict[str, Any]) -> None:
    """Payloads of the method depend on the architecture alone, and operations grow with the samples."""
    config = federations.config("lg_fedavg", rounds=8, **merged({"system": PHONES}, sections))
    built = federations.built(config)
    found, state = list(drawn(config, built)), built.engine.initial_state()
    for each in found:
        state = built.engine.round(state, unobserved)
        assert state.record is not None
        time = state.record["time"]
        fates = Counter(flight["fate"] for flight in time["flights"])
        exact = ("round", "sent", "used", "late", "stale", "lost", "in_flight", "staleness", "bytes")
        assert {key: each[key] for key in exact} == {
            "round": state.round,
            "sent": len(time["sent"]),
            **{fate: fates[fate] for fate in ("used", "late", "stale", "lost")},
            "in_flight": time["in_flight"],
            "staleness": time["staleness"],
            "bytes": sum(flight["bytes"] for flight in time["flights"]),
        }
        flops = sum(flight["flops"] for flight in time["flights"])
        assert each["used_flops"] + each["wasted_flops"] == pytest.approx(flops, rel=1e-12)
        assert [each[key] for key in ("begins", "aggregates", "ends")] == pytest.approx(
            [time["begins"], time["aggregates"], time["ends"]], rel=1e-12
        )
        assert each["joules"] == pytest.approx(sum(time["joules"].values()), rel=1e-12)  # type: ignore[arg-type]
