"""The section `watch`: which watchers look at every round, and what happens if one notices something."""

from collections.abc import Iterable
from typing import Literal, get_args

from pydantic import Field, field_validator, model_validator

from simulator.base.errors import ConfigError, nearest
from simulator.base.nested import Raw, parsed
from simulator.base.sections import Section

Watcher = Literal["falling", "divergence", "plateau", "collapse", "losing"]
WATCHERS: tuple[Watcher, ...] = get_args(Watcher)
ALL = "all"
"""All watchers, on the command line."""
_ACTIONS = ("log", "pause", "stop")


class WatchConfig(Section):
    """Which watchers look at the record of every round. Without this section, none does."""

    watchers: tuple[Watcher, ...] = ()
    """Watchers that look at the record of every round (docs/steering.md#watchers)."""
    pause: tuple[Watcher, ...] = ()
    """Watchers that pause the run if they notice something."""
    stop: tuple[Watcher, ...] = ()
    """Watchers that stop the run, with a checkpoint and exit code 10."""
    falling_rounds: int = Field(5, ge=1)
    """Rounds in a row in which mean test accuracy falls, for watcher 'falling'."""
    divergence_factor: float = Field(3.0, gt=1)
    """Multiple of the lowest mean training loss above which the loss has exploded, for watcher 'divergence'."""
    plateau_rounds: int = Field(20, ge=1)
    """Rounds without a better mean test accuracy, for watcher 'plateau'."""
    plateau_gain: float = Field(0.005, ge=0, lt=1)
    """Gain in mean test accuracy (0 to 1) above which a round is better, for watcher 'plateau'."""
    collapse_share: float = Field(0.9, gt=0.5, le=1)
    """Share of a client's test samples for which it answers one class, for watcher 'collapse'."""
    losing_rounds: int = Field(5, ge=1)
    """Rounds below the first evaluation, or evaluations in which accuracy falls, for watcher 'losing'."""

    @field_validator("watchers", "pause", "stop")
    @classmethod
    def _in_one_order(cls, named: tuple[Watcher, ...]) -> tuple[Watcher, ...]:
        return tuple(each for each in WATCHERS if each in named)

    @model_validator(mode="after")
    def _settings_belong_to_watchers(self) -> "WatchConfig":
        for key in ("pause", "stop"):
            for name in getattr(self, key):
                if name not in self.watchers:
                    raise ValueError(f"{key} names '{name}', which does not watch; add it to watch.watchers")
        if both := next((name for name in self.pause if name in self.stop), None):
            raise ValueError(f"'{both}' is in watch.pause and in watch.stop; keep one")
        for key, field in type(self).model_fields.items():
            name = key.partition("_")[0]
            if name in WATCHERS and name not in self.watchers and getattr(self, key) != field.default:
                raise ValueError(
                    f"{key} is for watcher '{name}', which is off; add it to watch.watchers, or set watch={{}} "
                    "before the other settings"
                )
        return self

    def action(self, watcher: str) -> Literal["log", "pause", "stop"]:
        """What happens if this watcher notices something."""
        return "stop" if watcher in self.stop else "pause" if watcher in self.pause else "log"


EVERY = WatchConfig(watchers=WATCHERS)
"""All watchers with their defaults."""


def section_of(words: Iterable[str]) -> Raw:
    """The section that the words of the option `watch` stand for: 'plateau', 'plateau:rounds=20,action=stop', 'all'.

    Empty without words. Raises ConfigError.
    """
    found: Raw = {}
    for word in words:
        name, _, options = word.partition(":")
        if name not in (*WATCHERS, ALL):
            hint = nearest(name, (*WATCHERS, ALL)) or f" Known: {', '.join((*WATCHERS, ALL))}."
            raise ConfigError(f"`watch`: there is no watcher '{name}'.{hint}")
        named = WATCHERS if name == ALL else (name,)
        found["watchers"] = [*found.get("watchers", []), *named]
        for option in filter(None, options.split(",")):
            key, equals, value = option.partition("=")
            if key == "action" and value in _ACTIONS:
                if value != "log":
                    found[value] = [*found.get(value, []), *named]
            elif equals and f"{name}_{key}" in WatchConfig.model_fields:
                found[f"{name}_{key}"] = parsed(value)
            else:
                raise ConfigError(f"`watch`: '{option}' is no option of '{name}'. Use {_usage(name)}.")
    return found


def _usage(name: str) -> str:
    keys = (key.removeprefix(f"{name}_") for key in WatchConfig.model_fields if key.startswith(f"{name}_"))
    return " or ".join([*(f"{key}=VALUE" for key in keys), "action=pause or action=stop"])
