"""Devices: a library, a user's own, and which client has which. In seconds, bytes, bit/s, FLOP/s, and watts."""

import csv
import io
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.base.errors import ConfigError, nearest
from simulator.base.nested import read_toml
from simulator.base.reading import TABLE, read_bytes
from simulator.base.rng import numpy_stream
from simulator.base.system_section import SystemConfig
from simulator.base.units import size

MEGA, GIGA = 1e6, 1e9
_FIELDS: dict[str, tuple[str, float]] = {
    "gflops": ("flops", GIGA),
    "memory_gb": ("memory", GIGA),
    "down_mbps": ("down", MEGA),
    "up_mbps": ("up", MEGA),
    "latency_s": ("latency", 1.0),
    "compute_watts": ("compute_watts", 1.0),
    "radio_watts": ("radio_watts", 1.0),
    "idle_watts": ("idle_watts", 1.0),
}
"""Each field in a file: its name in `Device`, and the factor on its number."""
_MAY_BE_ZERO = ("latency_s", "compute_watts", "radio_watts", "idle_watts")


@dataclass(frozen=True)
class Device:
    """A client's machine and its connection."""

    name: str
    flops: float
    """FLOP/s of training, at a utilization of 1."""
    memory: float | None
    """Bytes. None: no limit."""
    down: float
    """bit/s."""
    up: float
    """bit/s."""
    latency: float
    """Seconds, once per dispatch."""
    compute_watts: float
    radio_watts: float
    idle_watts: float

    def fits(self, memory: float) -> bool:
        """Whether this many bytes fit into its memory."""
        return self.memory is None or memory <= self.memory


@dataclass(frozen=True)
class ClientFacts:
    """The facts about a client on which its device may depend."""

    id: int
    architecture: str
    parameters: int
    memory: float
    """Estimated bytes of training."""
    train_size: int
    available: float = 1.0
    """Share of the time in which the client is available."""


def read_devices(path: Path) -> dict[str, Device]:
    """A TOML table of devices by name. Raises ConfigError for a file or a number that cannot be used."""
    devices = {}
    for name, fields in read_toml(path).items():
        where = f"{path}, device '{name}'"
        if not isinstance(fields, Mapping):
            raise ConfigError(
                f"{path}: '{name}' is not a table. Write a device as [{name}] with its numbers."
            )
        given = {key: each for key, each in fields.items() if key != "source"}
        if missing := [key for key in _FIELDS if key not in given and key != "memory_gb"]:
            raise ConfigError(f"{where} lacks {', '.join(missing)}. Add the missing numbers.")
        devices[name] = _device(name, given, where, None)
    return devices


def library(system: SystemConfig) -> Mapping[str, Device]:
    """All known devices by name: those of the user's file, then those of the library."""
    own = read_devices(Path(system.device_file)) if system.device_file else {}
    return {**LIBRARY, **own}


def named(name: str, known: Mapping[str, Device], key: str) -> Device:
    """The device of that name. `key` is where a user named it. Raises ConfigError for an unknown name."""
    if name in known:
        return known[name]
    hint = nearest(name, known) or f" Known: {', '.join(known)}."
    raise ConfigError(f"{key} names the unknown device '{name}'.{hint}")


def overridden(device: Device, system: SystemConfig) -> Device:
    """The device with the latency and bandwidths that the configuration sets for all."""
    return replace(
        device,
        latency=device.latency if system.latency is None else system.latency,
        down=device.down if system.down is None else system.down * MEGA,
        up=device.up if system.up is None else system.up * MEGA,
    )


def read_trace(path: Path, known: Mapping[str, Device], clients: Collection[int]) -> dict[int, Device]:
    """The devices of these clients, from a CSV file with a row per client. Raises ConfigError.

    The column `device` names a known device, whose numbers hold for empty and missing columns.
    """
    found: dict[int, Device] = {}
    seen = set[int]()
    for line, row in rows(path, ("client",), ("device", *_FIELDS)):
        client = client_of(row["client"], f"{path}, line {line}")
        if client in seen:
            raise ConfigError(f"{path}, line {line}: client {client} has a row already. Remove one of them.")
        seen.add(client)
        base = (
            named(row["device"], known, f"{path}, line {line}, column device") if row.get("device") else None
        )
        given = {key: row[key] for key in _FIELDS if row.get(key)}
        if base is None and (missing := [key for key in _FIELDS if key not in given and key != "memory_gb"]):
            raise ConfigError(
                f"{path}, line {line} lacks {', '.join(missing)}. Add the numbers, or a column device."
            )
        device = _device(base.name if base else f"client {client}", given, f"{path}, line {line}", base)
        if client in clients:
            found[client] = device
    return found


def assigned(system: SystemConfig, clients: Sequence[ClientFacts], seed: int) -> tuple[Device, ...]:
    """The device of each client, in the order of `clients`. Draws are keyed by seed and client. Raises ConfigError."""
    known = library(system)
    if system.trace is not None:
        found = read_trace(Path(system.trace), known, {client.id for client in clients})
        if lacking := [client.id for client in clients if client.id not in found]:
            raise ConfigError(
                f"{system.trace} has no row for client {lacking[0]}. Add a row for each client."
            )
        devices = [found[client.id] for client in clients]
    elif isinstance(system.devices, Mapping):
        shares = {named(name, known, "system.devices"): share for name, share in system.devices.items()}
        if system.assignment == "by_memory":
            devices = [_that_fits(client, shares, seed) for client in clients]
        else:
            devices = _by_rank(_scores(system, clients, seed), shares)
    else:
        names = system.devices or ()
        if len(names) != len(clients):
            raise ConfigError(
                f"system.devices has {len(names)} names for {len(clients)} clients. Name one device per client."
            )
        devices = [named(name, known, "system.devices") for name in names]
    for client, device in zip(clients, devices, strict=True):
        _refuse_too_small(client, device, shares=isinstance(system.devices, Mapping))
    final = {device: overridden(device, system) for device in set(devices)}
    return tuple(final[device] for device in devices)


def rank_correlations(devices: Sequence[Device], clients: Sequence[ClientFacts]) -> dict[str, float | None]:
    """Spearman's correlation of the devices' FLOP/s with each fact of the clients. None if one of both is constant."""
    speed = _ranks([device.flops for device in devices])
    return {
        key: _correlation(speed, _ranks([fact(client) for client in clients])) for key, fact in _FACTS.items()
    }


_FACTS: dict[str, Callable[[ClientFacts], float]] = {
    "correlation": lambda client: client.parameters,
    "correlation_data": lambda client: client.train_size,
    "correlation_availability": lambda client: client.available,
}
"""The fact of a client that each correlation of the section is about."""
_NOUNS = {
    "correlation": "the same model size",
    "correlation_data": "the same number of training samples",
    "correlation_availability": "the same share of available time",
}


def _scores(system: SystemConfig, clients: Sequence[ClientFacts], seed: int) -> NDArray[np.float64]:
    """Scores by which clients are ordered from the slowest device to the fastest.

    A Gaussian copula: z = Σ wᵢ xᵢ + √(1 − wᵀRw) ε with the facts' normal scores xᵢ, their correlations R, keyed normal
    draws ε, and weights w = R⁻¹ρ. Then z has the correlations ρ with the facts.
    """
    wanted = {key: getattr(system, key) for key in _FACTS if getattr(system, key) is not None}
    if system.assignment == "by_model":
        wanted = {"correlation": 1.0, **wanted}
    noise = np.array([_stream(seed, client).standard_normal() for client in clients])
    if not wanted:
        return noise
    facts = np.array([_normal_scores([_FACTS[key](client) for client in clients]) for key in wanted])
    for key, scores in zip(wanted, facts, strict=True):
        if not scores.any():
            raise ConfigError(f"system.{key} has no meaning here: all clients have {_NOUNS[key]}. Remove it.")
    rho = 2 * np.sin(
        np.pi / 6 * np.array(list(wanted.values()))
    )  # Pearson's of a normal pair with that Spearman's
    among = facts @ facts.T / len(clients)
    weights = np.linalg.lstsq(among, rho, rcond=None)[0]
    rest = 1 - float(rho @ weights)
    if rest < -1e-9 or not np.allclose(among @ weights, rho):
        raise ConfigError(
            f"{' and '.join(f'system.{key} = {value:g}' for key, value in wanted.items())} cannot hold together, "
            "because these facts of the clients are correlated. Use smaller values."
        )
    exact: NDArray[np.float64] = weights @ facts
    if rest <= 1e-9:  # the draws only order clients that are equal
        return np.add(exact.round(9), 1e-10 * _ranks(noise) / len(clients))
    return np.add(exact, math.sqrt(rest) * noise)


def _by_rank(scores: NDArray[np.float64], shares: Mapping[Device, float]) -> list[Device]:
    """The devices by share, the slowest for the lowest scores. Shares are met up to rounding."""
    ordered = _slowest_first(shares)
    bounds = np.cumsum([shares[device] for device in ordered]) / sum(shares.values())
    places = np.argsort(np.argsort(scores, kind="stable"), kind="stable")
    slots = np.searchsorted(bounds, (places + 0.5) / len(scores))
    return [ordered[min(slot, len(ordered) - 1)] for slot in slots]


def _that_fits(client: ClientFacts, shares: Mapping[Device, float], seed: int) -> Device:
    fitting = {device: share for device, share in shares.items() if device.fits(client.memory)}
    if not fitting:
        largest = max(shares, key=lambda device: device.memory or 0)
        raise ConfigError(
            f"The model {client.architecture} of client {client.id} needs {size(client.memory)} for training, and the "
            f"largest device in system.devices, '{largest.name}', has {size(largest.memory)}. Add a larger device."
        )
    ordered = _slowest_first(fitting)
    bounds = np.cumsum([fitting[device] for device in ordered]) / sum(fitting.values())
    return ordered[min(int(np.searchsorted(bounds, _stream(seed, client).random())), len(ordered) - 1)]


def _refuse_too_small(client: ClientFacts, device: Device, shares: bool) -> None:
    if device.fits(client.memory):
        return
    remedy = "Set system.assign = 'by_memory'" if shares else "Give it a larger device"
    raise ConfigError(
        f"The model {client.architecture} of client {client.id} needs {size(client.memory)} for training, and its "
        f"device '{device.name}' has {size(device.memory)}. {remedy}, or use a smaller model."
    )


def _slowest_first(devices: Iterable[Device]) -> list[Device]:
    return sorted(devices, key=lambda device: (device.flops, device.down, device.up, device.name))


def _stream(seed: int, client: ClientFacts) -> np.random.Generator:
    return numpy_stream(seed, "system/devices", client=client.id)


def _ranks(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1, where equal values share the mean of their ranks."""
    _, place, count = np.unique(np.asarray(values, dtype=float), return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    mean: NDArray[np.float64] = (last - (count - 1) / 2)[place.ravel()]
    return mean


def _normal_scores(values: Sequence[float]) -> NDArray[np.float64]:
    """Normal quantiles of the ranks, with mean 0 and variance 1. Zeros if all values are equal."""
    scores = np.array([NormalDist().inv_cdf(rank / (len(values) + 1)) for rank in _ranks(values)])
    scores -= scores.mean()
    spread = scores.std()
    return scores / spread if spread > 1e-12 else np.zeros_like(scores)


def _correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    one, other = one - one.mean(), other - other.mean()
    length = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / length if length > 0 else None


def rows(path: Path, needed: Sequence[str], also: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a CSV file with these columns, one by one, with their lines. Raises ConfigError for other columns."""
    lines = io.TextIOWrapper(io.BytesIO(read_bytes(path, most=TABLE)), encoding="utf-8", newline="")
    try:
        reader = csv.DictReader(lines, skipinitialspace=True)
        columns = reader.fieldnames or []
        for column in needed:
            if column not in columns:
                raise ConfigError(
                    f"{path} has no column {column}. Add it to the first line, which names the columns."
                )
        for column in columns:
            if column not in (*needed, *also):
                hint = nearest(column, (*needed, *also))
                raise ConfigError(f"{path} has the unknown column '{column}'.{hint}")
        for row in reader:
            yield (
                reader.line_num,
                {key: (each or "").strip() for key, each in row.items() if key is not None},
            )
    except (csv.Error, UnicodeDecodeError) as invalid:
        raise ConfigError(f"{path} is not a CSV file: {invalid}.") from invalid


def client_of(text: str, where: str) -> int:
    """The number of a client in a CSV file. Raises ConfigError for other text."""
    if not text.isdecimal():
        raise ConfigError(f"{where}: '{text}' is not the number of a client. Clients are numbered from 0.")
    return int(text)


def number(given: Any, where: str, least: float = 0.0) -> float:
    """A finite number ≥ `least` in a file. Raises ConfigError for anything else."""
    try:
        value = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value >= least):
        raise ConfigError(f"{where} = {given} is not a number ≥ {least:g}.")
    return value


def _device(name: str, given: Mapping[str, Any], where: str, base: Device | None) -> Device:
    values: dict[str, Any] = {"memory": None} if base is None else {}
    for key, each in given.items():
        if key not in _FIELDS:
            raise ConfigError(f"{where} has the unknown key '{key}'.{nearest(key, _FIELDS)}")
        value = number(each, f"{where}: {key}")
        if value == 0 and key not in _MAY_BE_ZERO:
            raise ConfigError(f"{where}: {key} = {each} must be above 0.")
        field, factor = _FIELDS[key]
        values[field] = value * factor
    return Device(name=name, **values) if base is None else replace(base, name=name, **values)


LIBRARY: Mapping[str, Device] = MappingProxyType(read_devices(Path(__file__).with_name("devices.toml")))
