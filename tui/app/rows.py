"""The rows around the panels: status above, with the tabs, and the keys below."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from simulator.base.units import AT_LEAST
from simulator.results.analysis.costs import rounds_left, seconds_left
from simulator.results.analysis.run import LIVE, Silence
from simulator.studies.board import StudySummary
from tui.app.charts.look import GLYPHS, Glyphs
from tui.app.keys import KEYS, PANEL_TITLES, SHORT_TITLES, WHILE_REPLAYING, Key, footer
from tui.app.view import Panel, View, in_sight
from tui.app.widgets import LineChart
from tui.common.cells import cell_count, cut, head
from tui.common.formatting import duration, spelled

ALARMING = ("interrupted", "failed", "gone")
"""States that ask for attention."""
ALARM = "bold $text-error"
MORE = 6  # cells for the number of requests without room
NAME = 12  # cells that requests leave to the name of the session


def draw(screen: Screen[Any], view: View, panel: Panel, waiting: list[str], glyphs: Glyphs) -> None:
    """Update the three rows of the main screen to the visible panel."""
    width, name = screen.size.width, panel.id or ""
    chosen = next((each.state for each in panel.steered()), "")
    study = next((each for each in panel.steered() if isinstance(each, StudySummary)), None)
    study = study if panel.place == "board" else None
    _write(screen, "status", status(view, waiting, width - 2, glyphs, study))
    _write(screen, "tabs", tabs(name, width))
    state = view.run.state if view.run.name else ""
    computes = not chosen and bool(state) and (view.replaying or not view.run.live)
    charted = isinstance(screen.focused, LineChart)
    idle = idle_keys(view, panel, chosen)
    shown = footer(panel.place, width - 1, state, chosen, charted, computes, panel.labels(), idle)
    _write(screen, "keys", keys(shown))


def _write(screen: Screen[Any], row: str, text: Content) -> None:
    """Update a row whose look changes. Two Contents are equal even if their styles differ."""
    widget = screen.query_one(f"#{row}", Static)
    shown = widget.content
    if not isinstance(shown, Content) or (shown.plain, shown.spans) != (text.plain, text.spans):
        widget.update(text, layout=False)  # the row stays a single row


def status(
    view: View, waiting: list[str], width: int, glyphs: Glyphs, study: StudySummary | None = None
) -> Content:
    """One row of `width` cells. `waiting`: requests that are not done yet, at the end and in color."""
    alarm, gap = "", " | " if glyphs == "ascii" else " · "
    if study is None:
        alarm, found = spelled(alarm_of(view), glyphs), _facts(view)
    else:
        of = f"study, {study.finished} of {study.points} points finished"
        found = [study.name, of, study.state]
    facts = [spelled(fact, glyphs) for fact in found]
    facts[1:1] = [alarm] * bool(alarm)
    shout = [f"REPLAY round {view.shown}"] * (view.replaying and study is None) + waiting
    taken = cell_count(gap.join([facts[0][:NAME], *facts[1:2]])) + 1
    right = _shouted(shout, width - taken, glyphs)
    room = width - right.cell_length - 1
    while len(facts) > 2 and cell_count(gap.join(facts)) > room:
        facts.pop()
    rest = cell_count(gap.join(["", *facts[1:]]))
    if facts and cell_count(facts[0]) + rest > room:
        facts[0] = cut(facts[0], max(room - rest, 0), GLYPHS[glyphs].ellipsis)
    left = Content(gap).join(
        Content.styled(fact, "bold" if not place else ALARM if fact == alarm else "")
        for place, fact in enumerate(facts)
    )
    return left + Content(" " * max(width - left.cell_length - right.cell_length, 1)) + right


def _shouted(texts: Sequence[str], room: int, glyphs: Glyphs) -> Content:
    """Texts in color, in `room` cells if possible: the first ones, and the number of others."""
    shown = [spelled(f" {text} ", glyphs) for text in texts]
    hidden = 0
    while len(shown) > 1 and cell_count("  ".join(shown)) + (MORE if hidden else 0) > room:
        shown.pop()
        hidden += 1
    left = room - (MORE if hidden else 0)
    if shown and cell_count(shown[0]) > left:
        ellipsis = GLYPHS[glyphs].ellipsis
        shown[0] = f"{head(shown[0], max(left - 1 - len(ellipsis), 0))}{ellipsis} "
    more = [f" +{hidden} "] if hidden else []
    return Content("  ").join(Content.styled(text, "bold reverse") for text in shown + more)


def alarm_of(view: View) -> str:
    """The state of the run shown, if it asks for attention: '! interrupted'. "" otherwise."""
    run = view.run
    if run.state in ALARMING:
        return f"! {run.state}"
    if run.error:
        return "! cannot be read"
    if run.silence is not None and run.silence.long:
        return f"! silent, {_last_heard(run.silence)}"
    return ""


def _last_heard(silence: Silence) -> str:
    return f"last heard {'' if silence.exact else AT_LEAST}{duration(silence.seconds)} ago"


@lru_cache(len(PANEL_TITLES))
def tabs(shown: str, width: int) -> Content:
    """The row of tabs in `width` cells: with their titles, with shorter ones, or with only the present panel's."""
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
    return sum(len(title) + 4 for title in titles.values())


def keys(shown: Iterable[Key]) -> Content:
    return Content("  ").join(Content.assemble((key.print, "bold"), " ", key.label) for key in shown)


def _facts(view: View) -> list[str]:
    """Sort from the one that is dropped last to the one that is dropped first."""
    run = view.run
    if not run.document:
        if not run.name:
            return ["htfl-sim", "no session: n new run, a open"]
        return [run.name] if alarm_of(view) else [run.name, "…"]
    state = [] if alarm_of(view) else [run.state]
    facts = [run.name, f"round {view.run.round}/{run.rounds or '?'}", *state, run.method]
    if run.silence is not None:
        return facts if run.silence.long else [*facts, _last_heard(run.silence)]
    if run.state in ("running", "pausing", "stopping") and not run.error and (within := _within(view)):
        facts.append(within)
    simulated = float(run.curves["simulated_seconds"][-1]) if run.round else None
    until_time = float(run.config.get("until_time", 0.0))
    rounds = rounds_left(run.rounds, run.round, until_time, simulated)
    left = seconds_left(run.curves, rounds)
    if run.state == "running" and not run.error and left is not None:
        facts.append(f"ETA {duration(left)}")
    return facts


def _within(view: View) -> str:
    match view.run.progress:
        case {"round": int(round), "phase": "evaluate"} if round > view.run.round:
            return "evaluating"
        case {"round": int(round), "done": int(done), "clients": int(clients)} if round > view.run.round:
            return f"client {done}/{clients}"
    return ""


FILTERED = ("live", "clients", "cost", "compare", "log", "sessions")
"""The panels with a list to filter."""
CHARTED = ("crosshair", "zoom")
"""Actions on charts over rounds, which are empty before the first round."""
IN_A_PANEL = ("filter", "maximise", "sort", "reverse", "unit")
"""Actions on the parts of a panel, which are empty without a session."""


def idle_keys(view: View, panel: Panel, chosen: str) -> AbstractSet[str]:
    """Actions without an effect, by their names or arguments, or as a whole: `travel(1)`."""
    run, name = view.run, panel.id or ""
    idle = set(panel.idle(view))
    if view.replaying and not chosen:
        idle.update(WHILE_REPLAYING)
    elif not (chosen in LIVE if chosen else run.live):  # an ended run takes no stop
        idle |= {"stop", "checkpoint"} if chosen else {"stop"}
    if not view.replaying:
        idle.add("travel(1)")
        idle |= {"live"} if view.crosshair is None else set()
    if view.shown < 2:
        idle.add("travel(-1)")
    if view.crosshair is None:
        idle.add("replay")
    if not run.round and not view.compared:
        idle.update(CHARTED)
    elif charts := panel.walk_children(LineChart):  # without a visible line, or over no cost
        drawn = [chart.figure for chart in charts if in_sight(chart) and chart.figure.places().size]
        idle |= {"zoom"} if not drawn else set()
        idle |= {"crosshair"} if all(figure.over is None for figure in drawn) else set()
    if len(run.history) < 2 and not run.document.get("parent"):
        idle.add("effect")  # no switch and no fork
    if len({*view.marked, *([run.folder] if run.name else [])}) < 2:
        idle.add("compare")
    if name not in FILTERED:
        idle.add("filter")
    if not run.name and not (name == "sessions" or (name == "compare" and view.compared)):
        idle.update(IN_A_PANEL)
    return idle
