"""Measure how fast this machine trains each architecture of a run, for the computed clock (docs/devices.md)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from htfl_sim.configuring import checked_config
from simulator.base.errors import ConfigError, cannot_write, check_output
from simulator.base.nested import Raw, as_toml
from simulator.clock.devices import GIGA, LIBRARY, Device, fields, named
from simulator.config import Config
from simulator.results.analysis.tabular import Column, TextTable

if TYPE_CHECKING:
    from simulator.engine.calibration import Calibration, Measured

__all__ = ["Calibrated", "calibrate"]

Place = str | Path
MACHINE, SERVER = "this_machine", "this_server"
"""Names of the measured devices."""
_OF_DEVICES = ("devices", "device_file", "trace", "assign", "server_device")
_OF_FACTORS = ("utilization", "default_utilization")


@dataclass(frozen=True)
class Calibrated(TextTable["Measured"]):
    """What was measured: a row for each architecture. `config` is the run on its clock."""

    found: "Calibration"
    run: Config
    """The run that was measured."""
    devices: tuple[Device, ...]
    """This machine, and its server. Empty: the run has its own devices."""
    like: str
    """Where the numbers of `devices` that are not measured come from."""
    file: Path | None = None
    """The configuration that was written."""

    @property
    def rows(self) -> "tuple[Measured, ...]":  # type: ignore[override]
        return self.found.measured

    def columns(self) -> "list[Column[Measured]]":
        """Architecture, dispatches, their seconds, FLOP/s, and the factor."""
        return [
            Column("architecture", lambda row: row.client.architecture, False),
            Column("client", lambda row: str(row.client.id)),
            Column("samples", lambda row: str(row.client.samples)),
            Column("n", lambda row: str(len(row.seconds))),
            Column("GFLOP", lambda row: _short(median(row.flops) / GIGA)),
            Column("seconds", lambda row: _short(median(row.seconds))),
            Column("from", lambda row: _short(min(row.seconds))),
            Column("to", lambda row: _short(max(row.seconds))),
            Column("GFLOP/s", lambda row: _short(row.rate / GIGA)),
            Column("factor", lambda row: _short(self.found.utilization[row.client.architecture])),
        ]

    def remarks(self) -> list[str]:
        """What was measured, what was not, and how to use it."""
        method = self.run.method.name
        server = f", and {self.found.server / GIGA:g} GFLOP/s on the server" if self.found.server else ""
        said = [
            f"n dispatches of one client of each architecture, with {method}. seconds is their median, and from and "
            "to are the shortest and the longest.",
            f"All clients together train with {self.found.flops / GIGA:g} GFLOP/s{server}. A factor is relative to "
            "that.",
        ]
        if self.devices:
            said.append(f"Bandwidths, latency, and watts are not measured. They are those of '{self.like}'.")
        else:
            said.append("The run keeps the devices of system.devices, and gets the factors.")
        if self.file is not None:
            also = f" and {device_file(self.file)}" if self.devices else ""
            said.append(f"Written: {self.file}{also}.")
        return said

    def fields(self, row: "Measured") -> Iterator[tuple[str, Any]]:
        """All that was measured of an architecture."""
        yield from {
            "architecture": row.client.architecture,
            "client": row.client.id,
            "samples": row.client.samples,
            "dispatches": len(row.seconds),
            "flops": median(row.flops),
            "seconds": median(row.seconds),
            "seconds_low": min(row.seconds),
            "seconds_high": max(row.seconds),
            "flops_per_second": row.rate,
            "utilization": self.found.utilization[row.client.architecture],
        }.items()

    def system(self, file: Place | None = None) -> Raw:
        """The section `system` of the run on its clock. `file` has the devices."""
        before = {} if self.run.system is None else _set(self.run.system.model_dump(exclude_defaults=True))
        before = {key: each for key, each in before.items() if key not in _OF_FACTORS}
        if self.devices:
            before = {key: each for key, each in before.items() if key not in _OF_DEVICES}
            server = self.devices[-1].name
            before |= {"devices": MACHINE, "server_device": server}
            before |= {} if file is None else {"device_file": str(Path(file).absolute())}
        return before | {"utilization": self.found.utilization}

    def device_toml(self) -> str:
        """The devices as a file that `system.device_file` can name."""
        return as_toml({device.name: fields(device) for device in self.devices}).lstrip()

    def save(self, file: Place) -> "Calibrated":
        """Write the run on its clock as a configuration, and its devices beside it. Raises ConfigError."""
        file = Path(file).expanduser()
        written = {file: as_toml(_set(self.run.to_json()) | {"system": self.system(device_file(file))})}
        if self.devices:
            written[device_file(file)] = self.device_toml()
        for each, text in written.items():
            try:
                each.write_text(text, encoding="utf-8")
            except OSError as failed:
                raise cannot_write(each, failed) from failed
        return replace(self, file=file)

    def to_json(self) -> dict[str, Any]:
        """For programs: every architecture, the devices, and the section `system`."""
        return {
            "method": self.run.method.name,
            "flops_per_second": self.found.flops,
            "server_flops_per_second": self.found.server,
            "architectures": [dict(self.fields(row)) for row in self.rows],
            "devices": {device.name: fields(device) for device in self.devices},
            "system": self.system(None if self.file is None else device_file(self.file)),
            "notes": self.remarks(),
        }


def device_file(file: Path) -> Path:
    """The file of the devices beside a configuration: calibrated.devices.toml."""
    return file.with_name(f"{file.stem}.devices.toml")


def calibrate(
    config: Config,
    out: Place | None = None,
    *,
    passes: int = 5,
    like: str | None = None,
    data_dir: Place | None = None,
) -> Calibrated:
    """Measure how fast this machine trains each architecture of a run, with the run's method.

    Each architecture is timed in so many passes. If the run has devices, they stay, and get a factor for each
    architecture. Otherwise all clients get this machine; `like` names the device for what is not measured: by default
    'desktop', or 'server_gpu' with CUDA. `out` is the configuration file to write. Raises ConfigError and DataError.
    """
    from simulator.data.datasets import data_folder
    from simulator.engine.builder import build
    from simulator.engine.calibration import calibrated

    checked_config(config)
    if passes < 1:
        raise ConfigError(f"`passes={passes}` measures nothing. Use `passes=1` or more.")
    if out is not None:
        check_output(Path(out).expanduser())
    if config.system is not None and like is not None:
        raise ConfigError(
            "`like` describes this machine, and the run has its own devices. Leave out one of them."
        )
    plain = Config.read({key: each for key, each in config.to_json().items() if key != "system"})
    if like is not None:
        named(like, LIBRARY, "`like`")
    built = build(plain, data_folder(None if data_dir is None else str(data_dir)))
    try:
        found = calibrated(plain, built, passes)
    finally:
        built.engine.close()
    result = profiled(config, found, like)
    return result if out is None else result.save(out)


def profiled(config: Config, found: "Calibration", like: str | None = None) -> Calibrated:
    """What was measured of a run, as its profile."""
    from simulator.base.devices import select_device

    cuda = select_device(config.runtime.device).type == "cuda"
    like = like or ("server_gpu" if cuda else "desktop")
    devices = _devices(found, like, cuda) if config.system is None else ()
    return Calibrated(found, config, devices, like)


def _devices(found: "Calibration", like: str, cuda: bool) -> tuple[Device, ...]:
    """This machine, and the same machine as a server if the server's training was measured."""
    machine = replace(LIBRARY[like], name=MACHINE, flops=found.flops, memory=_memory(cuda))
    server = [] if found.server is None else [replace(machine, name=SERVER, flops=found.server)]
    return (machine, *server)


def _short(value: float) -> str:
    return f"{value:.4g}"


def _memory(cuda: bool) -> float:
    if cuda:
        import torch

        return float(torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory)
    import psutil

    return float(psutil.virtual_memory().total)


def _set(raw: Any) -> Any:
    """Plain values without those that are not set."""
    if isinstance(raw, dict):
        return {key: _set(each) for key, each in raw.items() if each is not None}
    return raw
