"""The settings along which sessions differ, by which tables and figures group them; and numbers over seeds."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from simulator.base.errors import ConfigError, nearest
from simulator.base.nested import flattened
from simulator.base.sections import SelectionConfig
from simulator.base.units import escaped
from simulator.results.analysis.run import SessionData

SEEDS = ("seed", "seed.data", "seed.init", "seed.training", "data.seed")
"""The keys of seeds. Older sessions have data.seed for seed.data."""
_SHORT = {"method": "method.name", "dataset": "data.dataset"}
STUDY = "study"
_NAMES = ("session", STUDY)
IDLE = ("preset", "profile", "runtime.", "checkpoint.", "cka.", "watch.")
"""What changes no result, or is said by other settings."""
CLOCK = "clock"
"""The axis of what stands for the settings `system` where only some sessions have a clock."""
_SELECTION = flattened({"selection": SelectionConfig().model_dump(mode="json")})
"""A configuration has this section only if it is not the default."""
TRIAL = "trial"
"""The axis of sessions that are trials of a tuning study."""

Key = tuple[Any, ...]
"""A value for each axis."""


def axes(run: SessionData) -> dict[str, Any]:
    """Every setting by its dotted key, lists as tuples; 'method', 'dataset', 'session', and its first 'study'."""
    study = next(iter(run.studies), run.name.rpartition("/")[0])
    names = {"session": run.name, STUDY: study or None}
    return settings_of(run.config) | names | ({} if run.trial is None else {TRIAL: run.trial})


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a configuration, which belongs to no session yet."""
    flat = _SELECTION | {key: _plain(value) for key, value in flattened(config).items()}
    clock = "simulated" if config.get("system") else "none"
    return flat | {short: flat.get(key) for short, key in _SHORT.items()} | {CLOCK: clock}


def seeds_of(config: Mapping[str, Any]) -> tuple[int, int, int]:
    """The seeds of data, initial weights, and training."""
    flat = flattened(config)
    every = flat.get("seed", 0)
    data, init, training = (
        every if (seed := flat.get(key)) is None else seed
        for key in ("seed.data", "seed.init", "seed.training")
    )
    former = flat.get("data.seed")
    return (data if former is None else former), init, training


def seed_words(data: int, init: int, training: int) -> str:
    """'3', or 'data 0, init 1, training 3' if they differ."""
    return str(data) if data == init == training else f"data {data}, init {init}, training {training}"


def key_of(run: SessionData, by: Sequence[str]) -> Key:
    """A session's value on each axis; None where it has no such setting."""
    known = axes(run)
    return tuple(known.get(axis) for axis in by)


def checked(by: Sequence[str] | str, runs: Sequence[SessionData]) -> tuple[str, ...]:
    """The axes, and `trial` where there are some; raises ConfigError, with the nearest, for one of no session."""
    by = (by,) if isinstance(by, str) else tuple(by)
    known = dict.fromkeys(name for run in runs for name in axes(run))
    for axis in by:
        if axis not in known:
            last = {name.rpartition(".")[2]: name for name in known}
            near = f" Did you mean '{last[axis]}'?" if axis in last else nearest(axis, known)
            raise ConfigError(f"no session here has a setting '{axis}'.{near}")
    trials = (TRIAL,) if by and TRIAL in known and "session" not in by else ()
    return tuple(dict.fromkeys((*by, *trials)))


def varying(runs: Sequence[SessionData]) -> tuple[str, ...]:
    """The settings besides seeds that differ, the method first; a method's own only between sessions of that method."""
    left_out = (*SEEDS, *_NAMES, *_SHORT.values())
    flat = [
        {name: each for name, each in axes(run).items() if not name.startswith(IDLE) and name not in left_out}
        for run in runs
    ]

    def varies(name: str) -> bool:
        of_method: dict[Any, set[Any]] = {}
        for one in flat:
            if not (needs_clock(name) and one[CLOCK] == "none"):
                of_method.setdefault(name.startswith("method.") and one["method"], set()).add(one.get(name))
        return any(len(values) > 1 for values in of_method.values())

    found = filter(varies, dict.fromkeys(name for one in flat for name in one))
    return tuple(sorted(found, key=lambda name: name != "method"))


def groups(runs: Iterable[SessionData], by: Sequence[str]) -> dict[Key, list[SessionData]]:
    """The sessions by their values on the axes, in order; by study, a session is in the group of each that uses it."""
    found: dict[Key, list[SessionData]] = {}
    for run in runs:
        several = run.studies if STUDY in by else ()
        for each in [replace(run, studies=(study,)) for study in several] or [run]:
            found.setdefault(key_of(each, by), []).append(each)
    return found


def group_label(by: Sequence[str], key: Key) -> str:
    """A group in words: 'fedlora', 'fedlora, mu 0.7'. Axes without a value are left out, unless all are."""
    words = []
    for axis, value in zip(by, key, strict=True):
        if value is None and any(each is not None for each in key):
            continue
        text = spelled(value)
        words.append(text if axis in (*_SHORT, *_NAMES) else f"{axis.rpartition('.')[2]} {text}")
    return ", ".join(words) or "all"


def spelled(value: Any) -> str:
    """A value of an axis in one cell."""
    if isinstance(value, tuple | list):
        return "+".join(map(spelled, value)) or "none"
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else escaped(str(value))


def needs_clock(name: str) -> bool:
    """Whether only sessions with a clock have a setting."""
    return name.startswith("system") or name == "until_time"


def _plain(value: Any) -> Any:
    """The value with lists as tuples, and an object in a list, such as an event of the timeline, as words."""
    if isinstance(value, Mapping):
        return " ".join(f"{key}={spelled(_plain(each))}" for key, each in value.items())
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


CONFIDENCE = 0.95
Seed = TypeVar("Seed", bound=Hashable)


@dataclass(frozen=True)
class MeanStd:
    """A number over seeds. `std` is that of a sample (n − 1 in the denominator, ddof=1); None of a single value."""

    mean: float
    std: float | None
    n: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> "MeanStd | None":
        """Of the values there are; None where there is none."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        n, mean = len(known), math.fsum(known) / len(known)
        squares = math.fsum((value - mean) ** 2 for value in known)
        return cls(mean, math.sqrt(squares / (n - 1)) if n > 1 else None, n)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean, by Student's t with n − 1 degrees of freedom; None of a single value."""
        if self.std is None:
            return None
        from scipy.special import stdtrit  # a second's import, and only a table with a baseline needs it

        reach = float(stdtrit(self.n - 1, (1 + CONFIDENCE) / 2)) * self.std / math.sqrt(self.n)
        return self.mean - reach, self.mean + reach


@dataclass(frozen=True)
class Difference:
    mean: float
    interval: tuple[float, float] | None
    pairs: int


def paired(values: Mapping[Seed, float], baseline: Mapping[Seed, float]) -> Difference | None:
    """`values` less `baseline`, both by seed, over the seeds that both have; None where there is none."""
    found = MeanStd.of(values[seed] - baseline[seed] for seed in values if seed in baseline)
    return None if found is None else Difference(found.mean, found.interval, found.n)
