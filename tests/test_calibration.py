"""Calibration: counted operations over measured seconds, and the run on a clock that takes these seconds."""

import itertools
import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import htfl_sim as hs
from simulator.base.errors import ConfigError
from simulator.clock.devices import LIBRARY, fields, read_devices
from simulator.engine.builder import Built
from simulator.engine.calibration import WARM_UP, calibrated, rounded
from simulator.engine.progress import unobserved
from tests import federations
from tests.cli.conftest import TINY, call
from tests.face.conftest import tiny


@pytest.fixture(autouse=True)
def _images() -> Iterator[None]:
    with federations.on_images(federations.generated()):
        yield


def parts(method: str = "standalone", **sections: Any) -> tuple[hs.Config, Built]:
    config = federations.config(method, **{"federation": {"group": "tiny"}} | sections)
    return config, federations.built(config)


def scripted(*passes: tuple[float, float, float]) -> Callable[[], float]:
    """A timer under which each pass takes these seconds: of tiny_cnn, of tiny_mlp, and of the server."""
    warm = [(1.0, 1.0, 1.0)] * WARM_UP
    ticks = [now for each in itertools.chain([*warm, *passes]) for took in each for now in (0.0, took)]
    return iter(ticks).__next__


def test_a_rate_is_the_median_of_counted_operations_per_second() -> None:
    """A pass that something else disturbed, of 100 s, changes nothing."""
    found = calibrated(*parts(), 3, scripted((2.0, 8.0, 1.0), (100.0, 8.0, 1.0), (2.0, 4.0, 1.0)))
    cnn, mlp = found.measured
    assert (cnn.client.architecture, cnn.seconds) == ("tiny_cnn", (2.0, 100.0, 2.0))
    assert (mlp.client.architecture, mlp.seconds) == ("tiny_mlp", (8.0, 8.0, 4.0))
    assert cnn.rate == cnn.flops[0] / 2
    assert mlp.rate == mlp.flops[0] / 8


def test_the_machine_has_the_rate_of_all_clients_together_and_factors_are_relative_to_it() -> None:
    """Two clients of each model with equal data: 2·(C + M) operations in 2·(1 + 3) seconds."""
    config, built = parts(data={"partition": "iid", "quantity": "equal"})
    assert len({client.samples for client in built.federation.clients}) == 1
    found = calibrated(config, built, 1, scripted((1.0, 3.0, 1.0)))
    cnn, mlp = (each.flops[0] for each in found.measured)
    assert found.flops == rounded((cnn + mlp) / 4)
    assert found.utilization["tiny_cnn"] == pytest.approx(cnn / found.flops, rel=1e-3)
    assert found.utilization["tiny_mlp"] == pytest.approx(mlp / 3 / found.flops, rel=1e-3)


def test_the_client_with_the_median_number_of_samples_stands_for_its_architecture() -> None:
    config, built = parts(federation={"clients": 6, "group": "tiny"}, data={"partition": "dirichlet"})
    found = calibrated(config, built, 1, scripted((1.0, 1.0, 1.0)))
    for each in found.measured:
        samples = [
            client.samples
            for client in built.federation.clients
            if client.architecture == each.client.architecture
        ]
        assert len(samples) == 3
        assert each.client.samples == median(samples)


def test_the_servers_own_training_has_a_rate_of_its_own() -> None:
    """Standalone's server trains nothing, so it has none. FedGH's takes twice the seconds at half the rate."""

    def rate(method: str, seconds: float) -> float | None:
        config, built = parts(method, federation={"group": "tiny"})
        return calibrated(config, built, 1, scripted((1.0, 1.0, seconds))).server

    assert rate("standalone", 4.0) is None
    once, twice = rate("fedgh", 2.0), rate("fedgh", 4.0)
    assert once
    assert twice == pytest.approx(once / 2, rel=1e-3)


def test_seconds_that_cannot_be_computed_are_an_error() -> None:
    with pytest.raises(ConfigError, match="FLOP/s of the architecture tiny_cnn cannot be computed"):
        calibrated(*parts(), 1, scripted((0.0, 1.0, 1.0)))


def test_an_architecture_of_unseen_clients_alone_is_measured_too() -> None:
    """Of two clients with different models, one is unseen. A run on a clock needs a factor for both."""
    config, built = parts(federation={"clients": 2, "unseen": 0.5, "participation": 1.0, "group": "tiny"})
    assert len(built.federation.seen) == 1
    assert set(calibrated(config, built, 1, scripted((1.0, 1.0, 1.0))).utilization) == {
        "tiny_cnn",
        "tiny_mlp",
    }


def test_a_run_on_its_clock_takes_the_seconds_that_were_measured(tmp_path: Path) -> None:
    config = federations.config("standalone", federation={"participation": 1.0})
    found = hs.calibrate(config, tmp_path / "mine.toml", passes=3)
    with federations.on_images(federations.generated()):
        built = federations.built(hs.config(tmp_path / "mine.toml"))
    state = built.engine.initial_state()
    for _ in range(2):
        state = built.engine.round(state, unobserved)
    assert state.record is not None
    compute = {each["client"]: each["compute"] for each in state.record["time"]["flights"]}
    for row in found.rows:
        assert compute[row.client.id] == pytest.approx(median(row.seconds), rel=2e-3)


def test_a_run_with_devices_keeps_them_and_gets_factors() -> None:
    system = {"devices": {"phone": 1.0}, "jitter": 0.1, "default_utilization": 0.5}
    config = federations.config("standalone", system=system)
    found = hs.calibrate(config, passes=1)
    kept = {"devices": {"phone": 1.0}, "jitter": 0.1}
    assert found.system() == kept | {"utilization": found.found.utilization}
    assert found.devices == ()


def test_what_is_not_measured_comes_from_a_known_device() -> None:
    [machine] = hs.calibrate(federations.config("standalone"), passes=1, like="phone").devices
    phone = LIBRARY["phone"]
    assert (machine.down, machine.up, machine.latency) == (phone.down, phone.up, phone.latency)
    assert machine.flops != phone.flops


@pytest.mark.parametrize("name", LIBRARY)
def test_a_device_is_written_as_it_is_read(name: str, tmp_path: Path) -> None:
    lines = [f"{key} = {value!r}" for key, value in fields(LIBRARY[name]).items()]
    (tmp_path / "d.toml").write_text("\n".join([f"[{name}]", *lines]))
    read = read_devices(tmp_path / "d.toml")[name]
    assert fields(read) == pytest.approx(fields(LIBRARY[name]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"passes": 0}, "`passes=0` measures nothing"),
        ({"like": "phoen"}, "unknown device 'phoen'"),
        ({"out": "no/such/folder.toml"}, "there is no folder"),
    ],
)
def test_what_cannot_be_done_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        hs.calibrate(federations.config("standalone"), **options)


def test_a_known_device_is_refused_where_the_run_has_devices() -> None:
    config = federations.config("standalone", system={"devices": "phone"})
    with pytest.raises(ConfigError, match="the run has its own devices"):
        hs.calibrate(config, like="laptop")


def test_the_command_that_it_prints_runs_on_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = call("calibrate", *TINY[:-1], "--passes", 2, "--out", "mine.toml")
    assert said.code == 0, said.err
    assert "Run it: htfl-sim run --config mine.toml" in said.err
    assert said.out.splitlines()[0].split()[:4] == ["architecture", "client", "samples", "n"]
    ran = call("run", "--config", "mine.toml", "--rounds=2", "--workers=1", "--json", "--session=s")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out.splitlines()[-1])["time"]["ends"] > 0
    stored = json.loads((tmp_path / "sessions" / "s" / "session.json").read_text())["config"]["system"]
    assert (
        stored["utilization"] == tomllib.loads((tmp_path / "mine.toml").read_text())["system"]["utilization"]
    )


def test_as_json_it_has_every_architecture_and_the_section(tmp_path: Path) -> None:
    found = hs.calibrate(tiny(), passes=2).to_json()
    assert [each["architecture"] for each in found["architectures"]] == ["tiny_cnn", "tiny_mlp"]
    for each in found["architectures"]:
        assert each["seconds_low"] <= each["seconds"] <= each["seconds_high"]
        assert each["utilization"] == found["system"]["utilization"][each["architecture"]]
    assert found["devices"]["this_machine"]["gflops"] == found["flops_per_second"] / 1e9
