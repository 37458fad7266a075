"""The status row: which session, what it does, how far it is, and what it has been asked for."""

import numpy as np
from textual.content import Content
from textual.style import Style

from tui.app.charts.glyphs import Glyphs
from tui.app.view import View
from tui.common.formatting import duration, spelled

WAITING = {
    "pause": "pausing…",
    "resume": "resuming…",
    "stop": "stopping…",
    "checkpoint": "writing a checkpoint…",
    "switch": "switching…",
}
"""What is said while a command of this kind waits for its boundary."""
RECENT = 10
"""Rounds whose mean time the estimate is made from."""


def status(view: View, waiting: list[str], width: int, glyphs: Glyphs) -> Content:
    """One row of `width` cells; `waiting` are the things asked for and not yet done, said last and in colour."""
    shout = [*waiting]
    if view.replaying:
        shout.insert(0, f"REPLAY round {view.shown}")
    right = Content("  ").join(Content.styled(spelled(f" {text} ", glyphs), "bold reverse") for text in shout)
    facts = [spelled(fact, glyphs) for fact in _facts(view)]
    room = width - right.cell_length - 1
    gap = " | " if glyphs == "ascii" else " · "
    while len(facts) > 2 and len(gap.join(facts)) > room:
        facts.pop()
    left = gap.join(facts)
    if len(left) > room:
        left = left[: max(room - 1, 0)] + ("~" if glyphs == "ascii" else "…")
    name = len(facts[0]) if facts else 0
    padding = Content(" " * max(width - len(left) - right.cell_length, 1))
    return Content(left).stylize(Style(bold=True), 0, min(name, len(left))) + padding + right


def _facts(view: View) -> list[str]:
    """From the one that is dropped last to the one that is dropped first."""
    run = view.run
    if not run.document:
        if not run.name:
            return ["htfl-sim", "no session: a shows one, n begins one"]
        return [run.name, run.state if run.state == "failed" else "cannot be read" if run.error else "…"]
    facts = [run.name, f"round {view.run.round}/{run.rounds or '?'}", run.state, run.method]
    if run.state in ("running", "pausing", "stopping") and (within := _within(view)):
        facts.append(within)
    if run.state == "running" and (left := eta(view)) is not None:
        facts.append(f"ETA {duration(left)}")
    return facts


def _within(view: View) -> str:
    match view.run.progress:
        case {"round": int(round), "phase": "evaluate"} if round > view.run.round:
            return "evaluating"
        case {"round": int(round), "done": int(done), "clients": int(clients)} if round > view.run.round:
            return f"client {done}/{clients}"
    return ""


def eta(view: View) -> float | None:
    """Seconds to the last round, by the mean of the latest rounds; None before the first."""
    seconds = view.run.curves.seconds[-RECENT:]
    remaining = view.run.rounds - view.run.round
    if not len(seconds) or remaining <= 0:
        return None
    return float(np.mean(seconds)) * remaining
