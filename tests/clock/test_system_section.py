"""The section `system`: left out without a clock, complete with one, and strict about options of other choices."""

from typing import Any

import pytest

from docsite import tables
from simulator.base.errors import ConfigError
from simulator.base.nested import with_overrides
from simulator.base.system_section import SystemConfig
from simulator.config import Config, keys, setting
from simulator.config.user_files import Names
from simulator.sessions import history

PHONES: dict[str, Any] = {"devices": {"phone": 1.0}}


def config(clients: int = 10, participation: float = 0.4, **system: Any) -> Config:
    federation = {"clients": clients, "participation": participation}
    return Config.read({"method": {"name": "standalone"}, "federation": federation, "system": system})


def test_without_a_clock_plain_values_have_no_such_section() -> None:
    plain = Config.read({"method": {"name": "standalone"}})
    assert plain.system is None
    assert "system" not in plain.to_json()
    assert Config.read(plain.to_json()) == plain


def test_a_run_without_a_clock_can_get_one_from_assignments() -> None:
    raw = Config.read({"method": {"name": "standalone"}}).to_json()
    made = Config.read(with_overrides(raw, ["system.devices.phone=3", "system.devices.laptop=1"]))
    assert made.system is not None
    assert made.system.devices == {"phone": 3.0, "laptop": 1.0}
    assert made.with_(system=None).to_json() == raw


REFUSED = [
    ({}, "system: it has no devices. Set system.devices, as in `system.devices=phone`, or system.trace."),
    ({"devices": 3}, "system.devices: devices are a name, a table of shares"),
    ({"devices": {"phone": 0}}, "'system.devices.phone' = 0: input should be greater than 0."),
    ({"devices": ["phone"]}, "system.devices has 1 names for 10 clients"),
    ({**PHONES, "trace": "t.csv"}, "devices has no effect with trace"),
    ({"trace": "t.csv", "assign": "random"}, "assign has no effect with trace"),
    ({**PHONES, "assign": "table"}, "assign 'table' needs a list of devices"),
    ({"devices": ["phone"] * 10, "assign": "random"}, "assign 'random' needs shares of devices"),
    ({**PHONES, "correlation": 1}, "correlation belongs to assign 'by_model'"),
    (
        {**PHONES, "assign": "by_memory", "correlation_data": 1},
        "correlation_data belongs to assign 'random' and 'by_model'",
    ),
    ({**PHONES, "correlation_availability": 1}, "correlation_availability needs clients that differ"),
    ({**PHONES, "availability": "markov", "availability_on": 1}, "needs availability_off"),
    (
        {**PHONES, "availability_hours": 8},
        "availability_hours belongs to availability 'diurnal', and this is 'always'; remove it",
    ),
    ({**PHONES, "schedule": "deadline"}, "needs either deadline or deadline_quantile"),
    (
        {**PHONES, "schedule": "deadline", "deadline": 3, "deadline_quantile": 0.5},
        "needs either deadline or deadline_quantile",
    ),
    ({**PHONES, "schedule": "over_selection"}, "schedule 'over_selection' needs select"),
    ({**PHONES, "schedule": "over_selection", "select": 3}, "fewer clients than the 4"),
    (
        {**PHONES, "schedule": "over_selection", "select": 11},
        "system.select = 11 is above the 10 clients",
    ),
    ({**PHONES, "schedule": "buffered"}, "schedule 'buffered' needs buffer"),
    (
        {**PHONES, "schedule": "asynchronous", "buffer": 2},
        "buffer belongs to schedule 'buffered', and this is 'asynchronous'; remove it",
    ),
    ({**PHONES, "in_flight": 2}, "in_flight belongs to schedule 'buffered' or 'asynchronous'"),
    ({**PHONES, "late": "next"}, "late belongs to schedule 'deadline'"),
    ({**PHONES, "max_staleness": 3}, "max_staleness belongs to schedule 'deadline'"),
    (
        {**PHONES, "schedule": "deadline", "deadline": 3, "max_staleness": 3},
        "max_staleness has no effect with late 'drop'",
    ),
    (
        {**PHONES, "schedule": "deadline", "deadline": 3, "stale_as": "model"},
        "stale_as has no effect with late 'drop'",
    ),
    (
        {**PHONES, "schedule": "asynchronous", "stale_as": "model"},
        "stale_as belongs to schedule 'deadline' or 'buffered', and this is 'asynchronous'; remove it",
    ),
    (
        {**PHONES, "schedule": "asynchronous", "staleness_slope": 1},
        "staleness_slope belongs to staleness 'hinge', and this is 'constant'; remove it",
    ),
]


def test_options_that_do_not_belong_together_are_refused() -> None:
    for system, said in REFUSED:
        with pytest.raises(ConfigError) as refused:
            config(**system)
        assert said in str(refused.value)


TAKEN = [
    {"devices": ["phone"] * 10},
    {"trace": "t.csv"},
    {**PHONES, "assign": "by_model", "correlation": -1, "correlation_data": 0},
    {**PHONES, "correlation_availability": 1, "availability": "intervals", "availability_file": "a.csv"},
    {**PHONES, "availability": "markov", "availability_on": 60, "availability_off": 30},
    {**PHONES, "availability": "diurnal", "availability_hours": 8, "availability_spread": 0.5},
    {**PHONES, "schedule": "deadline", "deadline_quantile": 0.8, "late": "next", "max_staleness": 2},
    {**PHONES, "schedule": "over_selection", "select": 4},
    {**PHONES, "schedule": "buffered", "buffer": 10, "in_flight": 10, "staleness": "polynomial"},
    {**PHONES, "schedule": "asynchronous", "staleness": "hinge", "staleness_threshold": 0},
]


def test_options_that_belong_together_are_taken() -> None:
    for system in TAKEN:
        assert config(**system).system is not None


def test_devices_are_assigned_by_table_if_they_are_listed_and_at_random_if_they_have_shares() -> None:
    assert SystemConfig(devices=("phone",)).assignment == "table"
    assert SystemConfig(devices={"phone": 1.0}).assignment == "random"
    assert SystemConfig(devices={"phone": 1.0}, assign="by_memory").assignment == "by_memory"


def test_staleness_weights_follow_their_formulas() -> None:
    def weights(**options: Any) -> list[float]:
        system = SystemConfig(**PHONES, schedule="asynchronous", **options)
        return [system.staleness_weight(age) for age in (0, 3, 4, 6)]

    assert weights() == [1, 1, 1, 1]
    assert weights(staleness="polynomial") == [1, 1 / 2, 5**-0.5, 7**-0.5]
    assert weights(staleness="polynomial", staleness_exponent=1)[1] == 1 / 4
    assert weights(staleness="hinge") == [1, 1, 1, 1 / 21]
    assert weights(staleness="hinge", staleness_slope=2, staleness_threshold=0) == [1, 1 / 7, 1 / 9, 1 / 13]


OF_BEFORE = [
    ({}, {"costs": "planned"}),
    ({"schedule": "buffered", "buffer": 2}, {"costs": "planned", "stale_as": "model"}),
    ({"schedule": "deadline", "deadline": 3, "late": "next"}, {"costs": "planned", "stale_as": "model"}),
    ({"schedule": "deadline", "deadline": 3, "late": "drop"}, {"costs": "planned"}),
    ({"schedule": "asynchronous"}, {"costs": "planned"}),
]


def test_sessions_of_before_keep_their_rules() -> None:
    """They average stale models as they are, and count what was planned."""
    for schedule, kept in OF_BEFORE:
        recorded = config(**PHONES, **schedule).to_json()
        for key in ("stale_as", "costs"):
            del recorded["system"][key]
        completed = Config.read(history.completed(recorded)).to_json()["system"]
        assert completed == recorded["system"] | {"stale_as": "difference"} | kept
        assert {
            key: value for key, value in history.younger(recorded).items() if key.startswith("system.")
        } == {f"system.{key}": value for key, value in kept.items()}


def test_an_architecture_without_a_factor_has_one_only_if_no_architecture_has_any() -> None:
    assert SystemConfig(**PHONES).utilization_of("resnet18") == 1.0
    measured = SystemConfig(**PHONES, utilization={"resnet18": 0.5})
    assert (measured.utilization_of("resnet18"), measured.utilization_of("vit")) == (0.5, None)
    with_default = SystemConfig(**PHONES, utilization={"resnet18": 0.5}, default_utilization=0.1)
    assert with_default.utilization_of("vit") == 0.1


@pytest.mark.long
def test_its_keys_are_completed_described_and_in_the_reference() -> None:
    own = [f"system.{key}" for key in SystemConfig.model_fields]
    assert [key for key in keys() if key.startswith("system.")] == own
    assert setting("system.devices")[0].takes == "table of number | list of text"
    reference = tables.reference()
    assert [key for key in own if f"| `{key}` |" not in reference] == []
    assert "| `system.utilization` | table of number | `{}` |" in reference


def test_paths_of_its_files_become_absolute() -> None:
    from pathlib import Path

    named = Names(Path("/there")).raw({"system": {"trace": "t.csv", "device_file": "/d.toml"}})
    assert named == {"system": {"trace": "/there/t.csv", "device_file": "/d.toml"}}
