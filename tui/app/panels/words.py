"""How the panels say numbers, times and events; nothing here draws."""

import math
from collections.abc import Mapping
from functools import lru_cache
from textwrap import wrap
from typing import Any

from tui.app.drawing.axis import short
from tui.app.wording import duration

NONE = "-"


def percent(share: float | None, places: int = 1) -> str:
    """A share as 81.3%; a dash for none."""
    return NONE if _missing(share) else f"{100 * share:.{places}f}%"  # type: ignore[operator]


def amount(value: float | None) -> str:
    """Bytes, parameters or operations as 1.23M; a dash for none."""
    return NONE if _missing(value) else short(value)  # type: ignore[arg-type]


def figure(value: float | None, places: int = 3) -> str:
    """A number with so many decimals; a dash for none."""
    return NONE if _missing(value) else f"{value:.{places}f}"


def lasted(seconds: float | None) -> str:
    """A length of time; a dash for none."""
    return NONE if _missing(seconds) else duration(seconds)  # type: ignore[arg-type]


def clock(event: Mapping[str, Any]) -> str:
    """The time of day of an event, as its session wrote it (UTC)."""
    return str(event.get("at", ""))[11:19]


def said(event: Mapping[str, Any]) -> str:
    """What an event tells, in a few words; the time and the round are shown beside it."""
    match event.get("event"):
        case "started" | "resumed" as kind:
            inexact = "; not bit-identical: " + ", ".join(event["inexact"]) if event.get("inexact") else ""
            return f"{kind} with {event.get('method')}{inexact}"
        case "switched":
            return "switched: " + (", ".join(event.get("changes", ())) or str(event.get("method")))
        case "forked":
            changes = ", ".join(event.get("changes", ()))
            return f"forked from {event.get('name')} at round {event.get('round')}" + (
                f": {changes}" if changes else ""
            )
        case "stopped":
            return f"stopped: {event.get('reason')}"
        case "warning":
            whose = f"client {event['client']}: " if "client" in event else ""
            return f"warning: {whose}{event.get('message')}"
        case "refused":
            return f"refused {event.get('command')}: {event.get('reason')}"
        case "checkpoint":
            return "checkpoint"
        case kind:
            rest = {
                key: value for key, value in event.items() if key not in ("at", "event", "round", "sha256")
            }
            return " ".join([str(kind), *(f"{key}={value}" for key, value in rest.items())])


def alarming(event: Mapping[str, Any]) -> bool:
    """Whether an event asks for attention."""
    return event.get("event") in ("warning", "refused")


def value(number: float) -> float | None:
    """A number for a file: nothing in place of NaN."""
    return None if math.isnan(number) else float(number)


@lru_cache(maxsize=8192)  # a log of thousands of lines is wrapped again whenever one is added
def wrapped(text: str, width: int) -> tuple[str, ...]:
    """`text` in lines of at most `width` cells, at least one."""
    return tuple(wrap(text, max(width, 1))) or ("",)


def _missing(value: float | None) -> bool:
    return value is None or math.isnan(value)
