"""The one table of keys: bindings, footer, help and the command palette are all made from it.

ctrl+a and ctrl+b stay free: they are the prefixes of screen and tmux.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from textual.binding import Binding

PANEL_TITLES = {
    "live": "Live",
    "clients": "Clients",
    "similarity": "Similarity",
    "communication": "Communication",
    "compare": "Compare",
    "log": "Log",
    "sessions": "Sessions",
}
"""The panels by id, in the order of their tabs."""


@dataclass(frozen=True)
class Key:
    """A key, or several that do the same, and what it does.

    keys: as Textual names them, comma-separated. action: of the app; `panel('pin')` is `action_pin` of the visible
    panel. label: for the footer, one or two words. about: for help and palette, a short sentence. shown: how the key
    is printed. where: the panels it works in; none means everywhere. weight: the higher, the sooner the footer has room
    for it; 0: never.
    """

    keys: str
    action: str
    label: str
    about: str
    group: str
    shown: str = ""
    where: tuple[str, ...] = ()
    weight: int = 0

    @property
    def print(self) -> str:
        """The key as it is printed."""
        return self.shown or self.keys.split(",")[0]

    @property
    def name(self) -> str:
        """The action without its arguments."""
        return self.action.partition("(")[0]

    def works_in(self, panel: str) -> bool:
        return not self.where or panel in self.where


_TABS = tuple(
    Key(
        "s" if panel == "sessions" else str(number),
        f"show_panel('{panel}')",
        title,
        f"Go to {title}.",
        "Screens",
    )
    for number, (panel, title) in enumerate(PANEL_TITLES.items(), 1)
)
CHARTS = ("live", "clients", "similarity", "communication", "compare")

KEYS: tuple[Key, ...] = (
    *_TABS,
    Key(
        "space",
        "pause",
        "pause",
        "Pause the run; let a paused one go on; restart one that has ended.",
        "Run",
        weight=90,
    ),
    Key("c", "checkpoint", "checkpoint", "Write a checkpoint now, also with CKA.", "Run", weight=55),
    Key("m", "switch", "method", "Switch to another method, or other settings.", "Run", weight=70),
    Key("f", "fork", "fork", "Make a new session that goes on from the round shown.", "Run", weight=65),
    Key("S", "stop", "stop", "Stop the run between two clients, with a checkpoint.", "Run", weight=30),
    Key("n", "new_run", "new run", "Begin a new run.", "Run", weight=20),
    Key("left_square_bracket", "travel(-1)", "round back", "One round back.", "Time travel", "[", weight=50),
    Key("right_square_bracket", "travel(1)", "round on", "One round on.", "Time travel", "]", weight=49),
    Key("left_curly_bracket", "travel(-10)", "10 back", "Ten rounds back.", "Time travel", "{"),
    Key("right_curly_bracket", "travel(10)", "10 on", "Ten rounds on.", "Time travel", "}"),
    Key("L", "live", "live", "Back to the newest round.", "Time travel", weight=48),
    Key("a", "attach", "attach", "Show another session.", "Sessions", weight=25),
    Key(
        "x",
        "panel('mark')",
        "mark",
        "Mark the session under the cursor for comparison.",
        "Sessions",
        where=("sessions",),
        weight=80,
    ),
    Key("v", "compare", "compare", "Compare the marked sessions with the one shown.", "Sessions", weight=24),
    Key("slash", "filter", "filter", "Show only what has these words.", "View", "/", weight=40),
    Key(
        "p",
        "panel('pin')",
        "pin",
        "Pin the client under the cursor: its line is drawn on top and named.",
        "View",
        where=("live", "clients"),
        weight=60,
    ),
    Key(
        "y",
        "chart_mode",
        "chart",
        "Accuracy as band and mean, all lines, or clients × rounds.",
        "View",
        where=("live",),
        weight=58,
    ),
    Key(
        "o",
        "panel('sort')",
        "sort",
        "Sort by the next column; cluster the similarity matrix.",
        "View",
        where=("live", "clients", "similarity", "sessions"),
        weight=45,
    ),
    Key(
        "comma",
        "panel('previous')",
        "previous",
        "The layer before; in Compare, a lower target.",
        "View",
        ",",
        ("similarity", "compare"),
        weight=62,
    ),
    Key(
        "full_stop",
        "panel('next')",
        "next",
        "The layer after; in Compare, a higher target.",
        "View",
        ".",
        ("similarity", "compare"),
        weight=61,
    ),
    Key(
        "u",
        "panel('unit')",
        "x axis",
        "Over rounds, bytes, operations or seconds.",
        "View",
        where=("communication", "compare"),
        weight=63,
    ),
    Key(
        "z",
        "maximise",
        "maximise",
        "The focused part of the screen alone; again: all of it.",
        "View",
        weight=35,
    ),
    Key("plus,equals_sign", "zoom(1)", "zoom in", "Zoom into the chart.", "View", "+", CHARTS, weight=15),
    Key("minus", "zoom(-1)", "zoom out", "Zoom out of the chart.", "View", "-", CHARTS, weight=14),
    Key(
        "shift+left",
        "pan(-0.25)",
        "pan left",
        "Earlier rounds of a zoomed chart.",
        "View",
        "shift+left",
        CHARTS,
    ),
    Key(
        "shift+right",
        "pan(0.25)",
        "pan right",
        "Later rounds of a zoomed chart.",
        "View",
        "shift+right",
        CHARTS,
    ),
    Key("0", "zoom(0)", "whole chart", "All rounds of the chart.", "View", where=CHARTS),
    Key("tab", "focus_next", "next part", "The focus to the next part of the screen.", "View"),
    Key("shift+tab", "focus_previous", "part before", "The focus to the part before.", "View"),
    Key("w", "export", "export", "Write what is shown: CSV, SVG, or the command line.", "App", weight=28),
    Key("T", "change_theme", "theme", "Choose the colours.", "App"),
    Key(
        "percent_sign",
        "mouse",
        "mouse",
        "Leave the mouse to the terminal, to select text; or take it.",
        "App",
        "%",
    ),
    Key("ctrl+p,colon", "command_palette", "palette", "Every command by name.", "App", "ctrl+p :"),
    Key("question_mark,f1", "help", "help", "All keys.", "App", "?", weight=95),
    Key("q", "quit", "quit", "Leave: keep training without the app, or stop.", "App", weight=94),
)

WHILE_REPLAYING = ("pause", "checkpoint", "switch", "stop")
"""Actions that steer the run, and so make no sense while an earlier round is shown."""


def bindings() -> list[Binding]:
    """The table as Textual's bindings."""
    return [Binding(key.keys, key.action, key.label, show=False, key_display=key.print) for key in KEYS]


def groups() -> dict[str, list[Key]]:
    """The table by group, in its order."""
    found: dict[str, list[Key]] = {}
    for key in KEYS:
        found.setdefault(key.group, []).append(key)
    return found


def footer(panel: str, width: int) -> Iterator[Key]:
    """The keys that a line of `width` cells has room for in this panel: the weightiest, in the table's order."""
    candidates = [key for key in KEYS if key.weight and key.works_in(panel)]
    chosen: set[Key] = set()
    for key in sorted(candidates, key=lambda key: -key.weight):
        taken = len(key.print) + 1 + len(key.label) + 2
        if taken <= width:
            chosen.add(key)
            width -= taken
    return (key for key in candidates if key in chosen)
