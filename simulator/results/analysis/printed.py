"""What a paper printed for a session's experiment, and in what the session is another one."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import presets
from simulator.base.nested import flattened, merged
from simulator.config import Config
from simulator.results.analysis.axes import SEEDS
from simulator.results.analysis.run import SessionData

_IDLE = ("evaluation.batch_size", "evaluation.parts", "evaluation.classes", "training.on_divergence")
_SECTIONS = ("data", "federation", "selection", "models", "training", "evaluation", "unseen", "wire")

_WITHOUT_CLOCK = {"system.schedule": "synchronous", "system.availability": "always"}
"""The settings of a clock under which a run gives the bits of a run without one."""


@dataclass(frozen=True)
class Printed:
    """A printed accuracy, 0…1; None where the paper says that the run failed to converge. `place`: paper, table, row.

    `other`: in what the session differs from what was printed: '', 'other data set', 'other settings', or both;
    `details`: each such setting as 'rounds 20 (paper: 100)'.
    """

    accuracy: float | None
    place: str
    other: str
    details: tuple[str, ...]


def printed(runs: Sequence[SessionData]) -> tuple[Printed, ...]:
    """What papers printed for the preset of these sessions; nothing where they are of several, or of another method.

    Of a method's own settings those are compared that the preset sets: the others' defaults are known only with torch.
    """
    named = {(run.config.get("preset"), run.config.get("profile") or presets.PAPER) for run in runs}
    if len(named) != 1:
        return ()
    name, profile = named.pop()
    if name not in presets.names():
        return ()
    preset = presets.load(str(name), profile)
    if any(run.config["method"]["name"] != preset.config.get("method", {}).get("name") for run in runs):
        return ()
    found = dict.fromkeys(detail for run in runs for detail in _details(run, preset.config))
    other = _words(tuple(found))
    return tuple(
        Printed(None if each.accuracy is None else each.accuracy / 100, each.place, other, tuple(found))
        for each in preset.paper
    )


def _details(run: SessionData, preset: dict[str, Any]) -> list[str]:
    usual = flattened(merged(defaults(), preset))
    known = flattened(run.config)
    clock = [key for key, value in _WITHOUT_CLOCK.items() if known.get(key, value) != value]
    return [f"{key} {_said(known[key])} (paper: not set)" for key in clock if key not in usual] + [
        f"{key} {_said(known[key])} (paper: {_said(value)})"
        for key, value in usual.items()
        if key in known and key not in (*_IDLE, *SEEDS) and _listed(known[key]) != _listed(value)
    ]


def _words(details: tuple[str, ...]) -> str:
    data = any(detail.startswith("data.dataset ") for detail in details)
    settings = any(not detail.startswith("data.dataset ") for detail in details)
    if data and settings:
        return "other data set and settings"
    return "other data set" if data else "other settings" if settings else ""


@cache
def defaults() -> dict[str, Any]:
    """Every setting's default, but for the method's own."""
    fields = Config.model_fields
    return {"rounds": fields["rounds"].default} | {
        name: fields[name].default.model_dump(mode="json") for name in _SECTIONS
    }


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _said(value: Any) -> str:
    return "not set" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
