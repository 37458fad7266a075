"""The keys that would do nothing now, which the footer leaves out."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from simulator.results.analysis.run import LIVE
from tui.app.keys import WHILE_REPLAYING
from tui.app.view import Panel, View, in_sight
from tui.app.widgets import LineChart

FILTERED = ("live", "clients", "cost", "compare", "log", "sessions")
"""The panels with a list to filter."""
CHARTED = ("crosshair", "zoom")
"""Actions on charts over rounds, which are empty before the first round."""
IN_A_PANEL = ("filter", "maximise", "sort", "reverse", "unit")
"""Actions on the parts of a panel, which are empty without a session."""


def idle_keys(view: View, panel: Panel, chosen: str) -> AbstractSet[str]:
    """Actions without an effect, by their names or arguments, or as a whole: `travel(1)`.

    chosen: the state of the session that keys steer instead of the one shown; "" for none.
    """
    run, name = view.run, panel.id or ""
    idle = {*panel.idle(view), *_of_steering(view, chosen)}
    if not view.replaying:
        idle.add("travel(1)")
        idle |= {"live"} if view.crosshair is None else set()
    if view.shown < 2:
        idle.add("travel(-1)")
    if view.crosshair is None:
        idle.add("replay")
    idle.update(_uncharted(panel) if run.round or view.compared else CHARTED)
    if len(run.history) < 2 and not run.document.get("parent"):
        idle.add("effect")  # no switch and no fork
    if len({*view.marked, *([run.folder] if run.name else [])}) < 2:
        idle.add("compare")
    if name not in FILTERED:
        idle.add("filter")
    if not run.name and not (name == "sessions" or (name == "compare" and view.compared)):
        idle.update(IN_A_PANEL)
    return idle


def _uncharted(panel: Panel) -> Iterator[str]:
    """Actions on charts that no visible chart of the panel can follow: it has no line, or is over no cost."""
    charts = panel.walk_children(LineChart)
    drawn = [chart.figure for chart in charts if in_sight(chart) and chart.figure.places().size]
    if charts and not drawn:
        yield "zoom"
    if charts and all(figure.over is None for figure in drawn):
        yield "crosshair"


def _of_steering(view: View, chosen: str) -> AbstractSet[str]:
    """Commands that a run does not take: of an earlier round none, of an ended run no stop."""
    if view.replaying and not chosen:
        return {*WHILE_REPLAYING}
    if chosen in LIVE if chosen else view.run.live:
        return set()
    return {"stop", "checkpoint"} if chosen else {"stop"}
