"""The one table of keys, from which bindings, footer, help, and the command palette are made.

ctrl+a and ctrl+b stay free: they are the prefixes of screen and tmux.
"""

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from textual.binding import Binding
from textual.command import DiscoveryHit, Hit, Hits, Provider

from tui.app.widgets.screen import glyphs_of
from tui.common.formatting import spelled

PANEL_TITLES = {
    "live": "Live",
    "clients": "Clients",
    "similarity": "Similarity",
    "cost": "Cost",
    "compare": "Compare",
    "log": "Log",
    "data": "Data & features",
    "sessions": "Sessions",
}
"""The panels by id, in the order of their tabs."""

SHORT_TITLES = {"data": "Data"}
"""Short names of tabs: all fit into 80 cells."""

PLACES = {**PANEL_TITLES, "board": "study board"}
"""The places in which keys work: the panels, and what a panel shows in its own place."""

PANELS_SHOW = {
    "live": "accuracy, clients, bytes, CKA and log at a glance",
    "clients": "who is behind; data, loss, bytes of each client",
    "similarity": "CKA: similarity of the models, by layer",
    "cost": "traffic, time, energy, memory, FLOPs; slow clients",
    "compare": "marked sessions side by side, what differs",
    "log": "events, warnings, clients that fell",
    "data": "classes by client; t-SNE of features; samples",
    "sessions": "all there are, with studies and forks",
}
"""The contents of each."""


@dataclass(frozen=True)
class Key:
    """A key, or several with the same effect.

    keys: Textual's names, comma-separated. action: of the app; `panel('pin')` is `action_pin` of the visible panel.
    label: for the footer, one or two words. about: for help and palette, a short sentence. weight: the higher, the
    sooner it is in the footer; 0: never. where: the PLACES in which it works; none means everywhere. shown: its printed
    form.
    """

    keys: str
    action: str
    label: str
    about: str
    weight: int = 0
    where: tuple[str, ...] = ()
    shown: str = ""

    @property
    def print(self) -> str:
        return self.shown or self.keys.split(",")[0]

    @property
    def found_by(self) -> str:
        """The text that help and palette search."""
        return f"{self.print} {self.label} {self.about} {WORDS.get(self.argument or self.name, '')}"

    @property
    def name(self) -> str:
        return self.action.partition("(")[0]

    @property
    def argument(self) -> str:
        """The action's argument; "" if it has none."""
        return self.action.partition("(")[2].rstrip(")").strip("'")

    def works_in(self, panel: str) -> bool:
        return not self.where or panel in self.where


WORDS = {
    "clients": "worst", "cost": "eta communication resources", "compare": "better difference significant",
    "why": "explain worst confusion", "gain": "better", "describe": "difference", "effect": "difference",
    "fork": "branch", "filter": "search", "change_theme": "dark light", "mouse": "copy", "export": "screenshot copy",
    "quit": "exit",
}  # fmt: skip
"""Other words by which users look for a key, by its action or the action's argument."""


CHARTS = ("live", "clients", "similarity", "cost", "compare")
MATRIX = ("similarity",)
PLANE = ("data",)
LAYERS = ("similarity", "cost", "compare")
UNITS = ("cost", "compare", "board")
TABLES = ("live", "clients")
MODES = ("live", "cost", "compare", "data", "board")
REVERSED = (*TABLES, "cost")
SORTED = ("live", "clients", "similarity", "cost", "sessions")

GROUPS: dict[str, tuple[Key, ...]] = {
    "Panels": tuple(
        Key(key, f"show_panel('{panel}')", title, f"{title}: {PANELS_SHOW[panel]}.")
        for key, (panel, title) in zip("1234567s", PANEL_TITLES.items(), strict=True)
    ),
    "Run": (
        Key(
            "space", "steer('pause')", "pause",
            "Pause the run; let a paused one go on; restart one that has ended.", 90,
        ),
        Key(
            "c", "steer('checkpoint')", "checkpoint",
            "Write a checkpoint now, also with CKA. If the run has ended, or in replay: compute CKA.", 55,
        ),
        Key("m", "steer('switch')", "method", "Switch to another method, or other settings.", 70),
        Key("f", "steer('fork')", "fork", "Fork a new session from the round shown.", 65),
        Key(
            "A", "steer('shadow')", "shadow",
            "Start Standalone, or another method, from the round shown beside the session.", 22,
        ),
        Key("S", "steer('stop')", "stop", "Stop the run between two clients, with a checkpoint.", 30),
        Key("n", "steer('new_run')", "new run", "Begin a new run.", 20),
    ),
    "Time travel": (
        Key("left_square_bracket", "travel(-1)", "round back", "One round back.", 50, shown="["),
        Key("right_square_bracket", "travel(1)", "round on", "One round on.", 49, shown="]"),
        Key("left_curly_bracket", "travel(-10)", "10 back", "Ten rounds back.", shown="{"),
        Key("right_curly_bracket", "travel(10)", "10 on", "Ten rounds on.", shown="}"),
        Key("L", "live", "live", "Back to the newest round.", 48),
        Key(
            "left,h", "crosshair(-1)", "crosshair",
            "The crosshair of all charts a round back; a click puts it, escape hides it.",
            52, CHARTS, "left",
        ),
        Key("right,l", "crosshair(1)", "crosshair on", "The crosshair a round on.", where=CHARTS, shown="right"),
        Key(
            "left_parenthesis", "crosshair(-10)", "crosshair 10 back", "The crosshair ten rounds back.",
            where=CHARTS, shown="(",
        ),
        Key(
            "right_parenthesis", "crosshair(10)", "crosshair 10 on", "The crosshair ten rounds on.",
            where=CHARTS, shown=")",
        ),
        Key("r", "replay", "replay", "Show the round under the crosshair, as [ and ] do.", 12, CHARTS),
    ),
    "Sessions": (
        Key("a", "attach", "attach", "Show another session.", 25),
        Key(
            "x", "panel('mark')", "mark",
            "Mark the session under the cursor (◆; ✓ is a finished one), to compare or steer.", 80, ("sessions",),
        ),
        Key(
            "D", "describe", "settings", "All settings of the session, those first that differ from its parent.",
            6,
        ),
        Key(
            "N", "edit('note')", "note",
            "Tags and a note for the session under the cursor in Sessions, or the one shown.", 8,
        ),
        Key(
            "R", "edit('rename')", "rename",
            "Rename the session under the cursor in Sessions, or the one shown.", 4,
        ),
        Key(
            "X", "edit('delete')", "delete",
            "Delete the session under the cursor in Sessions, all marked ones, or the one shown, after a question.", 3,
        ),
        Key("v", "compare", "compare", "Compare the marked sessions with the one shown.", 24),
    ),
    "View": (
        Key("W", "why", "why", "Why the selected client does as it does: classes, data, model, peers, gain.", 53),
        Key("slash", "filter", "filter", "Show only what has these words.", 40, shown="/"),
        Key(
            "p", "panel('pin')", "pin",
            "Pin the client under the cursor: its line is drawn on top and named.", 60, TABLES,
        ),
        Key(
            "y", "panel('chart')", "chart",
            "Accuracy as band, lines, or clients × rounds; losses, F1, your metrics. In Cost, by client or by tensor. "
            "In Compare, the next measure. In Data, recall by class, its change, its gain. "
            "In a study board: points, Pareto, trials.",
            58, MODES,
        ),
        Key(
            "B", "panel('gain')", "gain",
            "The gain of each client over Standalone, as clients × rounds. Again: the chart.", 54, ("live",),
        ),
        Key("E", "effect", "effect", "What each switch and fork changed: ten rounds before and after it.", 27),
        Key("o", "panel('sort')", "sort", "Sort by the next column; cluster the similarity matrix.", 45, SORTED),
        Key("O", "panel('reverse')", "reverse", "Sort the other way round.", 10, REVERSED),
        Key("comma", "panel('previous')", "previous", "The layer or figure before; a lower target.", 62, LAYERS, ","),
        Key("full_stop", "panel('next')", "next", "The layer or figure after; a higher target.", 61, LAYERS, "."),
        Key("d", "panel('least')", "least similar", "The least similar pair of clients. Again: the next.", 59, MATRIX),
        Key("e", "panel('scale')", "scale", "Colors for 0 to 1, or fitted to the pairs shown.", 57, MATRIX),
        Key("t", "panel('embed')", "t-SNE", "Compute t-SNE of the round shown; while it is computed: stop.", 64, PLANE),
        Key("i", "panel('samples')", "samples", "Samples of the selected client, by class. Again: t-SNE.", 62, PLANE),
        Key("b", "panel('colours')", "points", "Points by class, by client, or of the client selected.", 61, PLANE),
        Key("u", "panel('unit')", "x axis", "Over rounds, bytes, operations, seconds, …; the next chart.", 63, UNITS),
        Key("z", "maximise", "maximize", "Show the focused part alone. Again: show all.", 35),
        Key("plus,equals_sign", "zoom(1)", "zoom in", "Zoom into the chart.", 15, CHARTS, "+"),
        Key("minus", "zoom(-1)", "zoom out", "Zoom out of the chart.", 14, CHARTS, "-"),
        Key("shift+left", "pan(-0.25)", "pan left", "Earlier rounds of a zoomed chart.", where=CHARTS),
        Key("shift+right", "pan(0.25)", "pan right", "Later rounds of a zoomed chart.", where=CHARTS),
        Key("0", "zoom(0)", "whole chart", "All rounds of the chart.", where=CHARTS),
        Key("tab", "focus_next", "next part", "The focus to the next part of the screen."),
        Key("shift+tab", "focus_previous", "part before", "The focus to the part before."),
    ),
    "App": (
        Key("w", "export", "export", "Write what is shown: CSV, SVG, or the command line.", 28),
        Key("T", "change_theme", "theme", "Choose the colors."),
        Key(
            "percent_sign", "mouse", "mouse",
            "Leave the mouse to the terminal, to select text; or take it.", shown="%",
        ),
        Key("ctrl+z", "suspend", "suspend", "Leave the terminal to the shell; fg continues the app."),
        Key(
            "colon,ctrl+p", "command_palette", "palette",
            "Every command by name (also ctrl+p). A number, such as 40, shows this round.", 5, shown=":",
        ),
        Key("question_mark,f1", "help", "help", "All keys, those of this panel first.", 95, shown="?"),
        Key("q", "quit", "quit", "Leave: keep training without the app, or stop.", 94),
    ),
}  # fmt: skip
KEYS = tuple(key for keys in GROUPS.values() for key in keys)

WHILE_REPLAYING = ("pause", "switch", "stop")
"""Actions that steer the run. They have no effect while an earlier round is shown."""
IN_A_LIST = ("pause", "checkpoint", "stop", "note", "rename", "delete")
"""Actions on a session that is chosen in the list."""
OF_A_RUN = (
    "steer", "edit", "why", "describe", "travel", "live", "crosshair", "replay", "export", "effect", "pin", "chart",
)  # fmt: skip
"""Actions, or their arguments, on the run shown, and `steer('new_run')`, which makes one."""
WITHOUT_A_RUN = {"compare": ("crosshair", "chart"), "board": ("chart",)}
"""Those that work if no run is shown, by place."""
OF_NO_STUDY = ("checkpoint", "note", "rename", "delete")
"""Actions that a study does not take."""
NO_LABELS: Mapping[str, str] = {}


def bindings() -> list[Binding]:
    return [Binding(key.keys, key.action, key.label, show=False, key_display=key.print) for key in KEYS]


def footer(
    panel: str,
    width: int,
    state: str,
    steered: str = "",
    charted: bool = False,
    computes: bool = False,
    labels: Mapping[str, str] = NO_LABELS,
    idle: AbstractSet[str] = frozenset(),
) -> Iterator[Key]:
    """The keys that fit into a line of `width` cells in this panel: those of the highest weight, in the table's order.

    state: of the run shown, which decides the effect of space; "" if none is shown: then a new run comes first, and
    actions on a run are left out. steered: the state of the run that keys steer instead, from a list. charted: whether
    a chart has the focus; then its crosshair is among the first. computes: whether c computes CKA from a checkpoint.
    labels: of this panel, by the action's argument. idle: actions that would do nothing now, by their names or
    arguments, or as a whole.
    """
    of_a_run = set() if state else {*OF_A_RUN} - {*WITHOUT_A_RUN.get(panel, ())}
    renamed = dict(labels)
    if (steered or state) not in ("", "running", "stopping"):
        renamed["pause"] = "resume"
    if computes:
        renamed["checkpoint"] = "CKA"

    def is_offered(key: Key) -> bool:
        names = {key.name, key.argument}
        if not key.weight or not key.works_in(panel) or idle & {*names, key.action}:
            return False
        if panel == "board" and key.argument in OF_NO_STUDY:
            return False
        return not names & of_a_run or (bool(steered) and key.argument in IN_A_LIST)

    candidates = []
    for key in filter(is_offered, KEYS):
        weight = 64 if charted and key.name == "crosshair" else key.weight
        candidates.append(replace(key, label=renamed.get(key.argument, key.label), weight=weight))
    if not state:
        new_run = next(key for key in KEYS if key.argument == "new_run")
        candidates.insert(0, replace(new_run, weight=100))
    chosen, width = set[Key](), width + 2  # there is no gap after the last
    for key in sorted(candidates, key=lambda key: -key.weight):
        taken = len(key.print) + 1 + len(key.label) + 2
        if taken <= width:
            chosen.add(key)
            width -= taken
    return (key for key in candidates if key in chosen)


class Commands(Provider):
    """The entries of the command palette: the action of every key."""

    async def discover(self) -> Hits:
        for _, title, act, about in self._entries():
            yield DiscoveryHit(_as_markup(title), act, title, about)

    async def search(self, query: str) -> Hits:
        if number := re.fullmatch(r"(?:go ?to |round )?(\d{1,9})", query.strip()):
            goto = partial(self.app.run_action, f"goto({number[1]})")
            yield Hit(
                100.0, f"round {number[1]}", goto, help="Show this round."
            )  # before the panel of this digit
        matcher = self.matcher(query)
        for key, title, act, about in self._entries():
            if (score := matcher.match(f"{title} {key.found_by}")) > 0:
                yield Hit(score, matcher.highlight(title), act, help=about)

    def _entries(self) -> Iterator[tuple[Key, str, partial[Any], str]]:
        """Each key with its title, what it does, and its sentence as markup in the app's glyphs."""
        for key in KEYS:
            if key.action != "command_palette":
                about = _as_markup(spelled(key.about, glyphs_of(self.screen)))
                yield key, f"{key.label} ({key.print})", partial(self.app.run_action, key.action), about


def _as_markup(text: str) -> str:
    return text.replace("[", r"\[")  # Textual's escape leaves "[ and ]", which is markup too
