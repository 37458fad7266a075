"""Seconds and joules of a client's work on its device, and the fair share of the server's bandwidth."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.base.errors import ConfigError
from simulator.base.record import Flight
from simulator.base.rng import seed_of
from simulator.base.system_section import SystemConfig
from simulator.clock.devices import Device

BITS = 8
"""Bits of a byte."""


@dataclass(frozen=True)
class Work:
    """What a client does in one dispatch: training operations, bytes received, and bytes sent."""

    flops: float
    down: int
    up: int


Seconds = tuple[float, float, float, float]
"""Latency, downlink, training, and uplink of one dispatch, in the order in which they pass."""


class Energy(NamedTuple):
    """The joules of one dispatch."""

    compute: float
    radio: float
    idle: float

    @property
    def total(self) -> float:
        return math.fsum(self)


class Transfer(NamedTuple):
    """Bytes on their way through the server's connection."""

    start: float
    bytes: float
    rate: float
    """bit/s that the client's own connection allows."""


def utilization(system: SystemConfig, architecture: str) -> float:
    """The factor on a device's FLOP/s for an architecture. Raises ConfigError if the configuration has none."""
    if (found := system.utilization_of(architecture)) is not None:
        return found
    raise ConfigError(
        f"system.utilization has no factor for the architecture {architecture}. Add it, "
        "or set system.default_utilization."
    )


def parts(device: Device, work: Work, utilization: float) -> Seconds:
    """Latency, bytes over bandwidth, and FLOPs over FLOP/s. Raises ConfigError for seconds without a value."""
    seconds = (
        device.latency,
        _over(BITS * work.down, device.down, device, "downlink"),
        computing(device, work.flops, utilization),
        _over(BITS * work.up, device.up, device, "uplink"),
    )
    if not (math.isfinite(total := math.fsum(seconds)) and device.latency >= 0):
        raise ConfigError(
            f"The seconds of device '{device.name}' cannot be computed: latency {device.latency:g} s gives "
            f"{total:g} s. Correct the device."
        )
    return seconds


def jittered(parts: Seconds, jitter: float) -> Seconds:
    """The seconds times a factor. Raises ConfigError for seconds that cannot be computed."""
    latency, down, compute, up = parts
    found = (jitter * latency, jitter * down, jitter * compute, jitter * up)
    if not (jitter > 0 and math.isfinite(jitter * (latency + down + compute + up))):
        raise ConfigError(
            f"The seconds of a client cannot be computed: jitter {jitter:g} makes {math.fsum(found):g} s of "
            f"{math.fsum(parts):g} s. Use a smaller system.jitter."
        )
    return found


def computing(device: Device, flops: float, utilization: float, what: str = "training") -> float:
    """The seconds of so many operations. Raises ConfigError for seconds that cannot be computed."""
    return _over(flops, device.flops * utilization, device, what)


def _over(amount: float, rate: float, device: Device, what: str) -> float:
    if not (math.isfinite(rate) and rate > 0 and math.isfinite(amount) and amount >= 0):
        raise ConfigError(
            f"The seconds of {what} on device '{device.name}' cannot be computed: {amount:g} at a rate of {rate:g} per "
            "second. Correct the device, or system.utilization."
        )
    return amount / rate


def jitter(seed: int, dispatch: int, client: int, sigma: float) -> float:
    """The random factor on the seconds of one client in one dispatch. See `jitters`."""
    return float(jitters(seed, dispatch, [client], sigma)[0])


def jitters(seed: int, dispatch: int, clients: Sequence[int], sigma: float) -> NDArray[np.float64]:
    """Lognormal factors with median 1 and spread sigma: exp(σ·normal), by seed, dispatch, and client alone."""
    if sigma == 0:
        return np.ones(len(clients))
    # Box and Muller's, from counters: one generator per client would take a minute for ten million draws.
    key, numbers = seed_of(seed, "system/jitter", dispatch), np.asarray(clients, np.uint64)
    one, other = (_uniforms(key, 2 * numbers + np.uint64(offset)) for offset in (0, 1))
    normal: NDArray[np.float64] = np.sqrt(-2 * np.log(one)) * np.cos(2 * np.pi * other)
    return np.exp(sigma * normal)


def _uniforms(key: int, counters: NDArray[np.uint64]) -> NDArray[np.float64]:
    """A draw from (0, 1) for each counter: SplitMix64 at that place of the sequence that begins with the key."""
    z = np.uint64(key) + (counters + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return ((z >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53


def joules(device: Device, flight: Flight, waited: float) -> Energy:
    """The energy of one dispatch. The device idles through the latency and the seconds that it waited."""
    return Energy(
        compute=device.compute_watts * flight.compute,
        radio=device.radio_watts * (flight.down + flight.up),
        idle=device.idle_watts * (flight.latency + waited),
    )


def shared(transfers: Sequence[Transfer], bandwidth: float | None) -> list[float]:
    """When each transfer ends if all share this bandwidth (bit/s) of the server fairly. None: it has no limit.

    Active transfers have max-min fair rates, which change only where one starts or ends: event by event.
    """
    start, left, own = np.array(transfers, dtype=float).reshape(-1, 3).T
    left = left * BITS
    if bandwidth is None:
        return [float(each) for each in start + left / own]
    ends = start.copy()
    waiting = list(np.argsort(start, kind="stable")[::-1])
    active: NDArray[np.int_] = np.array([], dtype=int)
    now = -math.inf
    while waiting or len(active):
        rates = _fair(own[active], bandwidth)
        done = now + left[active] / rates if len(active) else np.array([math.inf])
        following = start[waiting[-1]] if waiting else math.inf
        first = float(done.min())
        if following <= first:
            if len(active):
                left[active] = np.maximum(left[active] - rates * (following - now), 0.0)
            now = following
            while waiting and start[waiting[-1]] == now:
                active = np.append(active, waiting.pop())
            continue
        left[active] = np.maximum(left[active] - rates * (first - now), 0.0)
        ended = done == first
        ends[active[ended]] = now = first
        active = active[~ended]
    return [float(each) for each in ends]


def _fair(own: NDArray[np.float64], bandwidth: float) -> NDArray[np.float64]:
    """Max-min fair rates: the level that all get is such that the rates use the bandwidth, where they can."""
    if own.sum() <= bandwidth:
        return own
    ascending = np.sort(own)
    before = np.concatenate([[0.0], np.cumsum(ascending)[:-1]])
    levels = (bandwidth - before) / np.arange(len(own), 0, -1)
    holds = levels <= ascending
    holds[-1] = True  # without rounding, it does
    return np.minimum(own, float(levels[int(np.argmax(holds))]))
