"""Clients that leave in mid-work send what fits: `system.partial`."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import methods
from simulator.base.errors import ConfigError, MethodError
from simulator.clock.durations import Work
from simulator.config import Config
from simulator.engine.builder import Built
from simulator.engine.client_states import State
from simulator.engine.drawing import drawn
from simulator.engine.progress import unobserved
from simulator.methods import Uplink
from simulator.methods.base import cross_entropy
from simulator.methods.hooks import Hooks
from simulator.runners import Job, local
from simulator.runners import Work as Portion
from simulator.training.phase import Phase
from tests import federations

pytestmark = pytest.mark.usefixtures("generated_images")
FOREVER = 1e9
SPEED = 1e9
TAKE_NONE = {"ditto", "fedkwaz", "fedl2g_f", "fedl2g_l", "fedlora", "fedmd", "fedrep", "pfedafm", "pfedes"}
MIXED = {"availability": "markov", "availability_on": 0.06, "availability_off": 0.02}


def config(folder: Path, name: str = "fedavg", leaves: float = FOREVER, **sections: Any) -> Config:
    """Two clients of ten steps at 1 GFLOP/s, whose transfers take next to no time. Client 0 leaves at that time."""
    (folder / "d.toml").write_text(
        "[d]\ngflops = 1\ndown_mbps = 1e12\nup_mbps = 1e12\nlatency_s = 0\n"
        "compute_watts = 4\nradio_watts = 2\nidle_watts = 1\n"
    )
    (folder / "there.csv").write_text(
        f"client,from,to\n0,0,{leaves!r}\n0,{2 * FOREVER},{3 * FOREVER}\n1,0,{FOREVER}\n"
    )
    system = {
        "devices": "d",
        "device_file": str(folder / "d.toml"),
        "availability": "intervals",
        "availability_file": str(folder / "there.csv"),
        "partial": "send",
        **sections.pop("system", {}),
    }
    given = {
        "federation": {"clients": 2, "participation": 1.0},
        "training": {"batch_size": 4, "steps": 10},
        "system": system,
        "rounds": 1,
    }
    return federations.config(name, **given | sections)


def of_steps(folder: Path, name: str, steps: int, client: int = 0) -> Any:
    """The update of a client in the first round with so many steps."""
    built = federations.built(config(folder, name, training={"batch_size": 4, "steps": steps}))
    state = built.engine.initial_state()
    payload = built.method.downlink(1, state.server, built.federation.clients[client])
    return federations.updated(built, client, state.clients[client], payload)


def seconds(folder: Path, name: str, steps: float) -> float:
    """How long the client computes for so many steps. Half a step is half of the next one."""
    before, after = (of_steps(folder, name, each).flops for each in (int(steps), int(steps) + 1))
    return float(before + (after - before) * (steps % 1)) / SPEED


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[] if name in ("fedavg", "fednova", "scaffold", "fedproto") else pytest.mark.slow
        )
        for name in methods.names()
        if name not in TAKE_NONE and methods.get(name).__module__.startswith("simulator.")
    ],
)
def test_a_client_that_leaves_after_4_5_steps_sends_four(name: str, tmp_path: Path) -> None:
    leaves = seconds(tmp_path, name, 4.5)
    built = federations.built(config(tmp_path, name, leaves))
    state = built.engine.initial_state()
    after = built.engine.round(state, unobserved)
    four, ten = of_steps(tmp_path, name, 4), of_steps(tmp_path, name, 10, client=1)
    assert federations.bits(after.clients[0]) == federations.bits(four.tensors)
    assert federations.bits(after.clients[1]) == federations.bits(ten.tensors)
    assert after.record is not None
    first, second = sorted(after.record["time"]["flights"], key=lambda each: each["client"])
    assert (first["fate"], first["steps"], first["steps_due"]) == ("used", 4, 10)
    assert first["compute"] == pytest.approx(four.flops / SPEED)
    assert first["arrives"] <= leaves
    assert second["fate"] == "used" and "steps" not in second
    assert first["flops"] == four.flops and second["flops"] == ten.flops
    assert after.record["flops"]["clients"] == four.flops + ten.flops
    uplinks = [
        Uplink(client, update.uplink)
        for client, update in zip(built.federation.clients, (four, ten), strict=True)
    ]
    if not built.method.server_networks():
        server = built.method.aggregate(1, state.server, uplinks).server
        assert federations.bits(after.server) == federations.bits(server)


def test_fednova_counts_the_steps_that_were_taken(tmp_path: Path) -> None:
    """τ_eff = Σ p_k τ_k for plain SGD: 4 and 10 steps, weighted by samples."""
    built = federations.built(config(tmp_path, "fednova", seconds(tmp_path, "fednova", 4.5)))
    updates = [of_steps(tmp_path, "fednova", 4), of_steps(tmp_path, "fednova", 10, client=1)]
    assert [int(update.uplink["steps"]) for update in updates] == [4, 10]
    uplinks = [Uplink(update.client, update.uplink) for update in updates]
    samples = [client.samples for client in built.federation.clients]
    expected = (4 * samples[0] + 10 * samples[1]) / sum(samples)
    assert built.method.tau_eff(uplinks) == pytest.approx(expected)  # type: ignore[attr-defined]


def test_work_without_a_whole_step_is_lost_and_by_default_all_of_it_is(tmp_path: Path) -> None:
    for system, steps in [({}, 0.5), ({"partial": "lose"}, 4.5)]:
        leaves = 0.5 * seconds(tmp_path, "fedavg", 1) if steps < 1 else seconds(tmp_path, "fedavg", steps)
        built = federations.built(config(tmp_path, "fedavg", leaves, system=system))
        state = built.engine.initial_state()
        after = built.engine.round(state, unobserved)
        assert after.record is not None
        [flight] = [each for each in after.record["time"]["flights"] if each["client"] == 0]
        assert (flight["fate"], flight["arrives"]) == ("lost", leaves)
        assert "steps" not in flight
        assert federations.bits(after.clients[0]) == federations.bits(state.clients[0])


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(1, 10**9), min_size=1, max_size=12),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.floats(0.001, 20),
)
def test_as_many_steps_as_fit_are_taken(
    clock: Any, costs: list[int], beside: int, up: int, leaves: float
) -> None:
    """With fewer than all steps, and one step more would arrive after the client has left."""
    work = Work(sum(costs) + beside, 0, up)

    def arrives(steps: int) -> float:
        return (sum(costs[:steps]) + beside) / SPEED + 8 * up / 1e18

    clock.availability = SimpleNamespace(leaves_at=lambda client, at: leaves)
    [flight] = clock.flights([0], 0.0, 1, [work])
    steps = clock.steps_in_time(flight, work, costs)
    assert 0 <= steps < len(costs)
    near = 1e-9 * (1 + leaves)
    assert steps == 0 or arrives(steps) <= leaves + near
    assert steps == len(costs) - 1 or arrives(steps + 1) > leaves - near


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The clock of a federation whose client 0 leaves when a test says so."""
    with federations.on_images(federations.generated()):
        return federations.built(config(tmp_path_factory.mktemp("clock"))).engine.clock


def test_a_method_that_takes_no_partial_work_is_refused(tmp_path: Path) -> None:
    for name in sorted(TAKE_NONE):
        with pytest.raises(ConfigError, match=r"takes no partial work.*system.partial=lose"):
            federations.built(config(tmp_path, name))


def test_settings_under_which_no_work_is_partial_are_refused() -> None:
    for system, said in [
        ({"partial": "send"}, "partial belongs to availability 'markov' or 'diurnal' or 'intervals'"),
        ({"partial": "send", "server_bandwidth": 10, **MIXED}, "remove server_bandwidth"),
    ]:
        with pytest.raises(ConfigError, match=said):
            federations.config("fedavg", system={"devices": "phone", **system})


def test_partial_work_is_of_one_phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = federations.built(config(tmp_path))
    both = [Phase("first", cross_entropy), Phase("second", cross_entropy)]
    monkeypatch.setattr(type(built.method), "phases", lambda *_: both)
    state = built.engine.initial_state()
    job = Job(state.clients[0], built.method.downlink(1, state.server, built.federation.clients[0]))
    work = Portion(Hooks(built.method, built.federation), 1, {0: job}, limits={0: 3})
    with pytest.raises(MethodError, match="trains in 2 phases"):
        local.update(federations.context(built), built.federation.clients[0], work)


def comes_and_goes(name: str = "fedavg", **sections: Any) -> Config:
    """Four clients of ten steps, which are available for about as long as they train."""
    system = {
        "devices": "phone",
        "default_utilization": 0.0002,
        "latency": 0,
        "up": 1e6,
        "down": 1e6,
        **MIXED,
    }
    system |= {"partial": "send", **sections.pop("system", {})}
    given = {"training": {"batch_size": 4, "steps": 10}, "rounds": 4, "system": system}
    return federations.config(name, **given | sections)


def partial_flights(record: Any) -> int:
    return sum("steps" in flight for flight in record["time"]["flights"])


def found_by(config: Config) -> tuple[State, Any]:
    """The last state, of a run that has partial work, and what its record says of times."""
    built: Built = federations.built(config)
    state, partial = built.engine.initial_state(), 0
    for _ in range(config.rounds):
        state = built.engine.round(state, unobserved)
        partial += partial_flights(state.record)
    built.engine.close()
    assert partial and state.record is not None
    return state, state.record["time"]


@pytest.mark.long
@pytest.mark.parametrize("schedule", [{}, {"schedule": "buffered", "buffer": 2}])
def test_runners_give_the_same_bits(schedule: dict[str, Any]) -> None:
    ways: list[dict[str, Any]] = [{"runner": "sequential"}, {"runner": "parallel", "workers": 3}]
    (one, then), (other, now) = (found_by(comes_and_goes(system=schedule, runtime=way)) for way in ways)
    assert federations.state_bits(one) == federations.state_bits(other) and then == now


@pytest.mark.long
def test_stacked_clients_keep_the_times() -> None:
    alike = {"group": "tiny_cnn"}
    (_, then), (_, now) = (
        found_by(comes_and_goes(federation=alike, runtime={"runner": each}))
        for each in ("sequential", "stacked")
    )
    assert then == now


@pytest.mark.long
@pytest.mark.parametrize("schedule", [{}, {"schedule": "buffered", "buffer": 2}])
@pytest.mark.parametrize(
    "stop", [5, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 2, 3, 4, 6, 7, 8, 11, 14))]
)
def test_a_stop_anywhere_changes_no_bit(tmp_path: Path, schedule: dict[str, Any], stop: int) -> None:
    asked, config = iter(range(10**6)), comes_and_goes(system=schedule)
    federations.assert_a_stop_changes_nothing(config, tmp_path, lambda _: next(asked) >= stop)


@pytest.mark.long
def test_rounds_drawn_without_training_have_the_partial_work_of_the_run() -> None:
    config = comes_and_goes("lg_fedavg", rounds=8)
    built = federations.built(config)
    state, partial = built.engine.initial_state(), 0
    for each in drawn(config, built):
        state = built.engine.round(state, unobserved)
        assert state.record is not None
        time = state.record["time"]
        partial += partial_flights(state.record)
        flops = sum(flight["flops"] for flight in time["flights"])
        assert each["ends"] == pytest.approx(time["ends"], rel=1e-9)
        assert each["used_flops"] + each["wasted_flops"] == pytest.approx(flops, rel=1e-9)
    assert partial
