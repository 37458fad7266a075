"""Seconds and joules of a dispatch, derived by hand, and the fair share of the server's bandwidth."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.base.errors import ConfigError
from simulator.base.record import Flight
from simulator.base.system_section import SystemConfig
from simulator.clock.devices import Device
from simulator.clock.durations import (
    Energy,
    Transfer,
    Work,
    jitter,
    jittered,
    jitters,
    joules,
    parts,
    shared,
    utilization,
)  # fmt: skip

DEVICE = Device("board", flops=100.0, memory=None, down=80.0, up=40.0, latency=0.5, compute_watts=10.0,
                radio_watts=4.0, idle_watts=1.0)  # fmt: skip
"""100 FLOP/s, 10 bytes/s down, and 5 bytes/s up."""


def test_seconds_are_latency_bytes_over_bandwidth_and_flops_over_speed() -> None:
    assert parts(DEVICE, Work(flops=300, down=20, up=10), utilization=0.5) == (0.5, 2.0, 6.0, 2.0)


def test_jitter_multiplies_all_seconds_and_has_a_bound() -> None:
    assert jittered((0.5, 2.0, 6.0, 2.0), 2.0) == (1.0, 4.0, 12.0, 4.0)
    with pytest.raises(ConfigError, match="jitter inf"):
        jittered((0.5, 2.0, 6.0, 2.0), math.inf)


def test_seconds_that_cannot_be_computed_are_an_error() -> None:
    cases = [(Work(300, 20, 10), factor, "training") for factor in (0.0, -1.0, math.nan, math.inf)]
    cases += [(Work(math.nan, 0, 0), 1.0, "training"), (Work(-1, 0, 0), 1.0, "training")]
    cases += [(Work(0, -1, 0), 1.0, "downlink"), (Work(0, 0, -1), 1.0, "uplink")]
    for work, factor, part in cases:
        with pytest.raises(ConfigError, match=f"seconds of {part} on device 'board' cannot be computed"):
            parts(DEVICE, work, factor)


def test_an_architecture_without_a_factor_is_an_error() -> None:
    system = SystemConfig(devices={"phone": 1}, utilization={"cnn": 0.25})
    assert utilization(system, "cnn") == 0.25
    with pytest.raises(
        ConfigError, match=r"no factor for the architecture vit\. Add it, or set system\.default_utilization"
    ):
        utilization(system, "vit")


def test_joules_are_watts_times_seconds_of_each_phase() -> None:
    energy = joules(DEVICE, Flight(10.5, 0, 1, 0.0, 0.5, 2.0, 6.0, 2.0, lost=False), waited=3.0)
    assert energy == Energy(compute=60.0, radio=16.0, idle=3.5)
    assert energy.total == 79.5


def test_a_jitter_depends_on_seed_dispatch_and_client_and_not_on_company() -> None:
    together = jitters(7, 3, [0, 5, 2, 9_999], 0.4)
    assert list(together) == [jitter(7, 3, client, 0.4) for client in (0, 5, 2, 9_999)]
    assert list(jitters(7, 3, [9_999, 2], 0.4)) == [together[3], together[2]]
    assert len({jitter(7, 3, 5, 0.4), jitter(8, 3, 5, 0.4), jitter(7, 4, 5, 0.4), jitter(7, 3, 6, 0.4)}) == 4


def test_jitters_are_lognormal_with_median_one() -> None:
    """40,000 draws: mean and spread of the logarithm within 4 standard errors, and neighbors are uncorrelated."""
    logs = np.log([jitters(0, dispatch, range(400), 0.5) for dispatch in range(100)])
    assert logs.mean() == pytest.approx(0.0, abs=4 * 0.5 / 200)
    assert logs.std() == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(2 * 40_000))
    assert np.mean(np.abs(logs) < 0.5) == pytest.approx(0.6827, abs=4 * 0.0024)
    for one, other in ((logs[:, :-1], logs[:, 1:]), (logs[:-1], logs[1:])):
        assert np.corrcoef(one.ravel(), other.ravel())[0, 1] == pytest.approx(0.0, abs=4 / 199)


SHARED: list[tuple[list[tuple[float, float, float]], float | None, list[float]]] = [
    ([], 10.0, []),
    # Two equal transfers take twice as long, unless there is room for both.
    ([(1.0, 10, 80.0)], 80.0, [2.0]),
    ([(1.0, 10, 80.0), (1.0, 10, 80.0)], 80.0, [3.0, 3.0]),
    ([(1.0, 10, 80.0), (1.0, 10, 40.0)], None, [2.0, 3.0]),
    ([(1.0, 10, 80.0), (1.0, 10, 40.0)], 120.0, [2.0, 3.0]),
    # 100 bit/s. The first sends 100 bits alone in 1 s, then 50 bit/s: 100 bits in 2 s. The second has 100 of its 150
    # bits by then, and sends the others at 100 bit/s in 0.5 s.
    ([(0.0, 200 / 8, 100.0), (1.0, 150 / 8, 100.0)], 100.0, [3.0, 3.5]),
    # 120 bit/s for own rates 20, 100, and 100: they get 20, 50, and 50.
    ([(0.0, 100 / 8, 20.0), (0.0, 100 / 8, 100.0), (0.0, 100 / 8, 100.0)], 120.0, [5.0, 2.0, 2.0]),
    # No bytes take no time.
    ([(4.0, 0, 10.0), (4.0, 10, 10.0)], 10.0, [4.0, 12.0]),
]
"""Transfers as (start, bytes, own rate), the bandwidth, and the ends."""


def test_transfers_share_the_bandwidth_fairly() -> None:
    for transfers, bandwidth, ends in SHARED:
        assert shared([Transfer(*each) for each in transfers], bandwidth) == ends  # type: ignore[arg-type]


TRANSFERS = st.lists(
    st.builds(Transfer, st.floats(0, 50), st.integers(0, 1000), st.floats(1, 1000)), min_size=1, max_size=8
)


@given(TRANSFERS, st.floats(1, 3000))
def test_shared_bandwidth_conserves_bytes(transfers: list[Transfer], bandwidth: float) -> None:
    ends = shared(transfers, bandwidth)
    for transfer, end in zip(transfers, ends, strict=True):
        alone = transfer.start + 8 * transfer.bytes / min(transfer.rate, bandwidth)
        assert end >= alone * (1 - 1e-9)
    # From any start on, what ends by a time fits through the connection in between.
    for begun in {transfer.start for transfer in transfers}:
        for end in ends:
            inside = sum(
                8 * transfer.bytes
                for transfer, its in zip(transfers, ends, strict=True)
                if begun <= transfer.start and its <= end
            )
            assert inside <= bandwidth * (end - begun) * (1 + 1e-9) + 1e-6 or inside == 0


@given(TRANSFERS, st.floats(1, 3000), st.randoms(use_true_random=False))
def test_shared_bandwidth_does_not_depend_on_the_order_of_transfers(
    transfers: list[Transfer], bandwidth: float, random: "np.random.Generator"
) -> None:
    order = list(range(len(transfers)))
    random.shuffle(order)
    ends = shared(transfers, bandwidth)
    assert shared([transfers[place] for place in order], bandwidth) == pytest.approx(
        [ends[place] for place in order], rel=1e-9
    )
