"""Devices: the library has sources, files are checked, and clients get devices as the configuration says."""

import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.base.errors import ConfigError
from simulator.base.system_section import SystemConfig
from simulator.clock import devices
from simulator.clock.devices import LIBRARY, ClientFacts, assigned, rank_correlations

MB = 10**6
SLOW_AND_FAST = {"raspberry_pi": 0.5, "laptop": 0.5}


def client(
    id: int, parameters: int = 1000, memory: float = MB, samples: int = 100, **facts: Any
) -> ClientFacts:
    return ClientFacts(id, f"net{parameters}", parameters, memory, samples, **facts)


def names(clients: list[ClientFacts], seed: int = 0, **system: Any) -> list[str]:
    return [device.name for device in assigned(SystemConfig(**system), clients, seed)]


def written(tmp_path: Path, text: str, name: str = "file.csv") -> str:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return str(tmp_path / name)


OWN = """
[tablet]
gflops = 50
memory_gb = 6
down_mbps = 100
up_mbps = 20
latency_s = 0.02
compute_watts = 5
radio_watts = 3
idle_watts = 1
"""


def test_every_number_of_the_library_has_a_source() -> None:
    raw = tomllib.loads(Path(devices.__file__).with_name("devices.toml").read_text(encoding="utf-8"))
    assert set(raw) == set(LIBRARY)
    for fields in raw.values():
        assert set(fields["source"]) == set(fields) - {"source"}
        assert all(source.endswith(".") and len(source) > 10 for source in fields["source"].values())


def test_units_of_a_file_become_those_of_the_clock(tmp_path: Path) -> None:
    tablet = devices.read_devices(Path(written(tmp_path, OWN)))["tablet"]
    assert (tablet.flops, tablet.memory, tablet.down, tablet.up) == (50e9, 6e9, 100e6, 20e6)
    assert (tablet.latency, tablet.compute_watts, tablet.radio_watts, tablet.idle_watts) == (0.02, 5, 3, 1)
    unlimited = written(tmp_path, OWN.replace("memory_gb = 6\n", ""))
    assert devices.read_devices(Path(unlimited))["tablet"].fits(10**18)


WRONG_FILES = [
    ("gflops = 50\n", "", r"device 'tablet' lacks gflops. Add"),
    ("gflops = 50", "gflops = 0", r"gflops = 0 must be above 0"),
    ("gflops = 50", "gflops = true", r"gflops = True is not a number"),
    ("latency_s = 0.02", "latency_s = -1", r"latency_s = -1 is not a number ≥ 0"),
    ("gflops = 50", "gflops = inf", r"gflops = inf is not a number"),
    ("gflops", "gflop", r"lacks gflops"),
    ("idle_watts = 1", "idle_watts = 1\nidle = 1", r"unknown key 'idle'. Did you mean 'idle_watts'"),
]


def test_a_file_of_devices_is_checked(tmp_path: Path) -> None:
    for before, after, said in WRONG_FILES:
        path = written(tmp_path, OWN.replace(before, after, 1))
        with pytest.raises(ConfigError, match=said):
            devices.read_devices(Path(path))


def test_a_devices_file_adds_to_the_library_and_replaces_its_devices(tmp_path: Path) -> None:
    path = written(tmp_path, OWN + OWN.replace("tablet", "phone"))
    first, second = assigned(
        SystemConfig(devices=("phone", "laptop"), device_file=path), [client(0), client(1)], 0
    )
    assert first.flops == 50e9
    assert second == LIBRARY["laptop"]


def test_a_table_gives_each_client_its_device_in_order() -> None:
    assert names([client(0), client(1)], devices=("laptop", "phone")) == ["laptop", "phone"]


def test_overrides_hold_for_all_devices() -> None:
    system = SystemConfig(devices=("laptop", "phone"), latency=0.5, down=8, up=4)
    for device in assigned(system, [client(0), client(1)], 0):
        assert (device.latency, device.down, device.up) == (0.5, 8e6, 4e6)


def test_random_assignment_depends_on_the_seed_and_not_on_the_order_of_clients() -> None:
    clients = [client(number) for number in range(40)]
    one = names(clients, devices=SLOW_AND_FAST)
    assert one == names(clients, devices=SLOW_AND_FAST)
    assert one != names(clients, seed=1, devices=SLOW_AND_FAST)
    assert one[::-1] == names(clients[::-1], devices=SLOW_AND_FAST)


def test_a_correlation_of_one_gives_the_largest_models_to_the_fastest_devices() -> None:
    clients = [client(number, parameters=1000 * (number % 4)) for number in range(8)]
    shares = {"phone": 1, "laptop": 1, "raspberry_pi": 1, "jetson": 1}
    slowest_first = ["raspberry_pi", "phone", "laptop", "jetson"]
    assert names(clients, devices=shares, assign="by_model") == 2 * slowest_first
    assert names(clients, devices=shares, assign="by_model", correlation=-1) == 2 * slowest_first[::-1]


def test_equal_models_are_ordered_by_keyed_draws() -> None:
    clients = [client(number, parameters=1000 * (number % 2)) for number in range(40)]
    shares = {"phone": 1, "laptop": 1, "raspberry_pi": 1, "jetson": 1}
    one, other = (names(clients, seed=seed, devices=shares, assign="by_model") for seed in (0, 1))
    assert one != other
    assert Counter(one[::2]) == Counter(other[::2]) == {"raspberry_pi": 10, "phone": 10}


@pytest.mark.parametrize("wanted", [-0.6, 0.0, 0.6])
def test_a_correlation_between_is_met_on_average(wanted: float, tmp_path: Path) -> None:
    """200 clients with different models and devices: Spearman's correlation has a standard error below 0.07."""
    table = "".join(
        OWN.replace("tablet", f"d{i}").replace("gflops = 50", f"gflops = {i + 1}") for i in range(50)
    )
    path = written(tmp_path, table)
    clients = [client(number, parameters=number) for number in range(200)]
    system = SystemConfig(
        devices={f"d{i}": 1 for i in range(50)}, device_file=path, assign="by_model", correlation=wanted
    )
    found = [rank_correlations(assigned(system, clients, seed), clients)["correlation"] for seed in range(20)]
    assert np.mean([each for each in found if each is not None]) == pytest.approx(
        wanted, abs=3 * 0.07 / 20**0.5
    )


def test_speed_can_be_correlated_with_data_and_availability_at_once() -> None:
    clients = [
        client(number, samples=7 * number % 101, available=(13 * number % 101 + 1) / 102)
        for number in range(101)
    ]
    system = SystemConfig(
        devices={"phone": 1, "laptop": 1, "jetson": 1},
        correlation_data=0.7,
        correlation_availability=-0.6,
        availability="diurnal",
        availability_hours=8,
        availability_spread=1,
    )
    found = rank_correlations(assigned(system, clients, 3), clients)
    assert found["correlation"] is None  # all models are equal
    assert found["correlation_data"] == pytest.approx(0.7, abs=0.15)
    assert found["correlation_availability"] == pytest.approx(-0.6, abs=0.15)


def test_correlations_that_contradict_each_other_are_refused() -> None:
    clients = [client(number, parameters=number, samples=number) for number in range(10)]
    with pytest.raises(ConfigError, match="cannot hold together"):
        names(clients, devices=SLOW_AND_FAST, assign="by_model", correlation=1, correlation_data=-1)
    both = names(clients, devices=SLOW_AND_FAST, assign="by_model", correlation=1, correlation_data=1)
    assert both == 5 * ["raspberry_pi"] + 5 * ["laptop"]


def test_by_memory_draws_among_the_devices_that_fit() -> None:
    clients = [client(number, memory=6e9 if number % 2 else MB) for number in range(40)]
    got = names(clients, devices={"phone": 3, "laptop": 1}, assign="by_memory")
    assert set(got[1::2]) == {"laptop"}
    assert set(got[::2]) == {"phone", "laptop"}
    assert names(clients[5:], devices={"phone": 3, "laptop": 1}, assign="by_memory") == got[5:]


def test_a_trace_has_a_row_per_client(tmp_path: Path) -> None:
    trace = written(tmp_path, "client, device, gflops, up_mbps\n1, phone, , 5\n0, laptop, 7,\n")
    one, other = assigned(SystemConfig(trace=trace), [client(0), client(1)], 0)
    assert one == replace(LIBRARY["laptop"], flops=7e9)
    assert other == replace(LIBRARY["phone"], up=5e6)


def test_a_trace_without_device_names_has_all_numbers(tmp_path: Path) -> None:
    header = "client,gflops,down_mbps,up_mbps,latency_s,compute_watts,radio_watts,idle_watts\n"
    trace = written(tmp_path, header + "0,2,30,10,0.1,3,2,1\n")
    (device,) = assigned(SystemConfig(trace=trace), [client(0)], 0)
    assert device == devices.Device("client 0", 2e9, None, 30e6, 10e6, 0.1, 3, 2, 1)


WRONG_TRACES = [
    ("device\nphone\n", "has no column client"),
    ("client,device,gflop\n0,phone,1\n", "unknown column 'gflop'. Did you mean 'gflops'"),
    ("client,device\n0,phone\n0,phone\n", "line 3: client 0 has a row already"),
    ("client,device\n0,phome\n", "line 2, column device names the unknown device 'phome'"),
    ("client,device\nzero,phone\n", "line 2: 'zero' is not the number of a client"),
    ("client,gflops\n0,1\n", "line 2 lacks down_mbps, up_mbps"),
    ("client,device,gflops\n0,phone,fast\n", "gflops = fast is not a number"),
    ("client,device\n1,phone\n", "has no row for client 0"),
]


def test_a_trace_is_checked(tmp_path: Path) -> None:
    for text, said in WRONG_TRACES:
        with pytest.raises(ConfigError, match=said):
            assigned(SystemConfig(trace=written(tmp_path, text)), [client(0)], 0)


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"devices": {"labtop": 1}}, {}, r"system.devices names the unknown device 'labtop'. Did you mean 'laptop'"),
    (
        {"devices": SLOW_AND_FAST, "assign": "by_model"}, {},
        r"system.correlation has no meaning here: all clients have the same model",
    ),
    (
        {"devices": {"phone": 1}}, {"memory": 6e9},
        r"net1000 of client 0 needs 5.6 GiB for training, and its device 'phone' has 3.7 GiB. Set system.assign",
    ),
    ({"devices": ("phone",)}, {"memory": 6e9}, "Give it a larger device, or use a smaller model"),
    (
        {"devices": SLOW_AND_FAST, "assign": "by_memory"}, {"memory": 1e11},
        r"client 0 needs 93.1 GiB for training, and the largest .* 'laptop', has 7.5",
    ),
    ({"trace": "gone.csv"}, {}, r"cannot read .*gone\.csv"),
]  # fmt: skip


def test_devices_that_cannot_be_given_are_refused() -> None:
    for system, facts, said in REFUSED:
        with pytest.raises(ConfigError, match=said):
            names([client(0, **facts)], **system)
