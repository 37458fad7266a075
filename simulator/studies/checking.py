"""Check what points need before any of them runs: their data, and models that their methods can run."""

from collections.abc import Iterable
from pathlib import Path

import checkpoints
from simulator.base.errors import ConfigError
from simulator.base.nested import Raw, merged
from simulator.config import Config
from simulator.engine.builder import Built, build, rebuild
from simulator.metrics.evaluation import measured_parts
from simulator.sessions import metadata
from simulator.sessions.reader import CheckedReader
from simulator.studies.branching import settings_after
from simulator.studies.study import Point


def check(points: Iterable[Point], sessions_dir: Path, data_dir: Path, *, on_eval: bool = False) -> None:
    """Build every kind of point without training. Points that differ only in the seed are checked once.

    on_eval: the points must measure the clients' eval parts. Raises ConfigError with the point's name if a method
    cannot run its models, and DataError.
    """
    kinds: dict[bytes, Point] = {}
    for point in points:
        kinds.setdefault(_kind(point), point)
    foundations: dict[bytes, Built] = {}
    for point in kinds.values():
        config = on_cpu(point)
        key = foundation(config)
        try:
            if key in foundations:
                built = rebuild(foundations[key], config)
                built.engine.close()
            else:
                foundations = {key: begun(point, config, sessions_dir, data_dir)}  # one data set at a time
                built = foundations[key]
            metadata.check_recordable(config, built)
            if point.branch is None:
                metadata.check_read(config, built.data)
            if on_eval:
                _check_eval(config, built)
        except ConfigError as error:
            raise ConfigError(f"point {point.name}: {error}") from error
    for built in foundations.values():
        built.engine.close()


def _check_eval(config: Config, built: Built) -> None:
    """Raise ConfigError if a trial has no eval accuracy."""
    if "eval" in measured_parts(config.evaluation, built.data):
        return
    if any(len(client.part("eval")) for client in built.data.clients):
        raise ConfigError(
            "evaluation.parts leaves out eval, on which trials are scored. Test data decide nothing. Use "
            '`evaluation.parts=["eval", "test"]`, or leave it out.'
        )
    raise ConfigError(
        f"data.split = '{config.data.split}' has no eval part, on which trials are scored. Test data decide nothing. "
        "Use a split of three parts: `data.split=8:1:1`."
    )


def begun(point: Point, config: Config, sessions_dir: Path, data_dir: Path) -> Built:
    """Check where a point starts. Raises ConfigError, DataError, and SessionError if its parent used other data."""
    if point.branch is None:
        return build(config, data_dir)
    parent = CheckedReader(sessions_dir / point.branch["parent"])
    before, since = settings_after(parent, point.branch["round"])
    before = Config.read(merged(before.to_json(), {"runtime": {"device": config.runtime.device}}))
    built = build(before, data_dir, since)
    metadata.check_data(parent, before, built.data)
    built.engine.close()
    replaced = config.method.name != before.method.name
    return rebuild(built, config, point.branch["round"] if replaced else None)


def on_cpu(point: Point) -> Config:
    """A point's configuration for a check on this machine, whatever device it will run on."""
    return Config.read(merged(point.config, {"runtime": {"device": "cpu"}}))


def _kind(point: Point) -> bytes:
    return checkpoints.canonical(
        {**point.config, "seed": None, "preset": None, "branch": point.branch and _without_seed(point.branch)}
    )


def _without_seed(branch: Raw) -> Raw:
    return {**branch, "set": [each for each in branch["set"] if not each.startswith(("seed=", "seed."))]}


def foundation(config: Config) -> bytes:
    """The settings that determine data, clients, and models."""
    raw = config.to_json()
    return checkpoints.canonical(
        {**{key: raw[key] for key in ("data", "federation", "models")}, "seed": config.data_seed}
    )
