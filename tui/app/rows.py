"""The rows around the panels: status above, with the tabs, and the keys below."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from textual.content import Content
from textual.reactive import Reactive
from textual.screen import Screen
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from htfl_sim.analysis import LIVE, remaining
from tui.app.charts.glyphs import GLYPHS, Glyphs
from tui.app.charts.names import cut
from tui.app.keys import KEYS, PANEL_TITLES, SHORT_TITLES, WHILE_REPLAYING, Key, footer
from tui.app.view import Panel, View
from tui.app.widgets import LineChart
from tui.common.formatting import duration, spelled


class MainScreen(Screen[None]):
    """The screen under all dialogs. Its widgets show their focus themselves."""

    focused = Reactive[Widget | None](None, repaint=False)
    """Textual repaints the whole screen when this changes, that is, once more after a change of panel."""


def draw(screen: Screen[Any], view: View, panel: Panel, waiting: list[str], glyphs: Glyphs) -> None:
    """Update the three rows of the main screen to the visible panel."""
    width, name = screen.size.width, panel.id or ""
    chosen = next((each.state for each in panel.steered()), "")
    live = chosen in LIVE if chosen else view.run.live
    idle = WHILE_REPLAYING if view.replaying and not chosen else () if live else ("checkpoint", "stop")
    _write(screen, "status", status(view, waiting, width - 2, glyphs))
    _write(screen, "tabs", tabs(name, width))
    state = view.run.state if view.run.name else ""
    charted = isinstance(screen.focused, LineChart)
    _write(screen, "keys", keys(footer(name, width - 1, state, chosen, charted), idle))


def _write(screen: Screen[Any], row: str, text: Content) -> None:
    """Update a row whose look changes. Two Contents are equal even if their styles differ."""
    widget = screen.query_one(f"#{row}", Static)
    shown = widget.content
    if not isinstance(shown, Content) or (shown.plain, shown.spans) != (text.plain, text.spans):
        widget.update(text, layout=False)  # the row stays a single row


def status(view: View, waiting: list[str], width: int, glyphs: Glyphs) -> Content:
    """One row of `width` cells. `waiting`: requests that are not done yet, at the end and in color."""
    shout = [*waiting]
    if view.replaying:
        shout.insert(0, f"REPLAY round {view.shown}")
    right = Content("  ").join(Content.styled(spelled(f" {text} ", glyphs), "bold reverse") for text in shout)
    facts = [spelled(fact, glyphs) for fact in _facts(view)]
    room = width - right.cell_length - 1
    gap = " | " if glyphs == "ascii" else " · "
    while len(facts) > 2 and len(gap.join(facts)) > room:
        facts.pop()
    rest = len(gap.join(["", *facts[1:]]))
    if facts and len(facts[0]) + rest > room:
        facts[0] = cut(facts[0], max(room - rest, 0), GLYPHS[glyphs].ellipsis)
    left = gap.join(facts)
    name = len(facts[0]) if facts else 0
    padding = Content(" " * max(width - len(left) - right.cell_length, 1))
    return Content(left).stylize(Style(bold=True), 0, min(name, len(left))) + padding + right


def tabs(shown: str, width: int) -> Content:
    """The row of tabs in `width` cells: with their titles, with shorter ones, or with only the present panel's.

    The present panel's tab is reversed.
    """
    short = {panel: SHORT_TITLES.get(panel, title) for panel, title in PANEL_TITLES.items()}
    alone = {panel: title if panel == shown else "" for panel, title in PANEL_TITLES.items()}
    titles = next((each for each in (PANEL_TITLES, short) if _cells(each) <= width), alone)
    parts = []
    for panel, title in titles.items():
        key = next(key.print for key in KEYS if key.action == f"show_panel('{panel}')")
        style = "reverse bold" if panel == shown else ""
        link = f"@click=app.show_panel('{panel}')"
        parts.append(Content.from_markup(f"[{link} {style}] {key} {title} [/]"))
    return Content("").join(parts)


def _cells(titles: Mapping[str, str]) -> int:
    """The width of a row of tabs with these titles."""
    return sum(len(title) + 4 for title in titles.values())


def keys(shown: Iterable[Key], idle: Sequence[str]) -> Content:
    """The row of keys. Those of `idle`, which have no effect now, are dim."""
    return Content("  ").join(
        Content.assemble(
            (key.print, "dim" if key.argument in idle else "bold"),
            " ",
            (key.label, "dim" if key.argument in idle else ""),
        )
        for key in shown
    )


def _facts(view: View) -> list[str]:
    """Sort from the one that is dropped last to the one that is dropped first."""
    run = view.run
    if not run.document:
        if not run.name:
            return ["htfl-sim", "no session: n new run, a open"]
        return [run.name, run.state if run.state == "failed" else "cannot be read" if run.error else "…"]
    facts = [run.name, f"round {view.run.round}/{run.rounds or '?'}", run.state, run.method]
    if run.state in ("running", "pausing", "stopping") and (within := _within(view)):
        facts.append(within)
    simulated = float(run.curves.clock[-1]) if run.round else None
    until_time = float(run.config.get("until_time", 0.0))
    rounds = remaining.rounds_left(run.rounds, run.round, until_time, simulated)
    left = remaining.seconds_left(run.curves, rounds)
    if run.state == "running" and left is not None:
        facts.append(f"ETA {duration(left)}")
    return facts


def _within(view: View) -> str:
    match view.run.progress:
        case {"round": int(round), "phase": "evaluate"} if round > view.run.round:
            return "evaluating"
        case {"round": int(round), "done": int(done), "clients": int(clients)} if round > view.run.round:
            return f"client {done}/{clients}"
    return ""
