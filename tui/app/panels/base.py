"""Common to all panels: they know their size, and draw a part again only if its contents change."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from textual import events
from textual.containers import Container
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Static

from simulator.base.record import Record
from simulator.base.sections import PARTS
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.clients import best_round, change_over
from simulator.results.analysis.events import milestones
from simulator.results.analysis.ledger import Curves
from simulator.results.analysis.measures import client_on_part, part_means
from simulator.results.analysis.run import SessionData
from tui.app.charts.chart import Figure, Mark, Series
from tui.app.charts.look import GLYPHS
from tui.app.view import Panel, View
from tui.app.widgets import Column, LineChart, Row, Table
from tui.app.widgets.screen import glyphs_of, room
from tui.common.cells import cell_count, fit
from tui.common.errors import explain
from tui.common.formatting import NONE, at_round, percent, points, size, size_unit, spelled, wrapped

NARROW, WIDE, FULL, TALL, SHORT = 72, 96, 170, 30, 18
"""From this many columns or rows on, a panel is -wide, -full, or -tall; below these, it is -narrow or -short."""


class SizedPanel(Panel):
    """A panel of the parts `content`, with the classes -narrow … -short by its size, and -ascii by its glyphs."""

    DEFAULT_CSS = """
    SizedPanel { layout: vertical; width: 1fr; height: 1fr; }
    SizedPanel Part.-bare Table { scrollbar-size-vertical: 0; }
    SizedPanel.-ascii Part { border-top: ascii $foreground 30%; }
    SizedPanel.-ascii Part.-bare { border: none; }
    """

    def __init__(self, id: str, *content: Widget) -> None:
        super().__init__(*content, id=id)
        self._view: View | None = None
        self._drawn: dict[str, tuple[object, ...]] = {}
        """The contents of all parts when the panel was last drawn."""
        self._sizes: list[Size] = []

    def on_mount(self) -> None:
        self.set_class(glyphs_of(self) == "ascii", "-ascii")

    def show(self, view: View) -> None:
        before, self._view = self._view, view
        pointed = replace(before, crosshair=view.crosshair) if before else view
        if before and before.crosshair != view.crosshair and view.looks_like(pointed, self.FOLLOWS_PROGRESS):
            self.point(view)  # nothing else differs
        else:
            self._draw(view)

    def _draw(self, view: View) -> None:
        self._sizes = [room(part) for part in self.walk_children(Widget)]
        self.draw(view)
        self.point(view)

    def point(self, view: View) -> None:
        """Put the cursor of every chart at the view's place."""
        for chart in self.walk_children(LineChart):
            if (over := chart.figure.over) is not None:
                at = view.cursor(over)
                chart.put_cursor(None if at is None else at / chart.figure.x_unit)

    @abstractmethod
    def draw(self, view: View) -> None:
        """Update every part to the view."""

    def update(self) -> None:
        if self._view is not None:
            try:
                self._draw(self._view)
            except Exception as fault:  # an error in drawing must not end the app, and the run with it
                self.notify(explain(fault)[0], severity="error", markup=False)

    def redraw(self) -> None:
        self._drawn.clear()
        self.update()

    def differs(self, part: str, *about: object) -> bool:
        """Whether a part's contents differ from those shown. The new contents then count as shown."""
        if self._drawn.get(part) == about:
            return False
        self._drawn[part] = about
        return True

    def prepare(self, width: int, height: int) -> None:
        classes = {"-narrow": width < NARROW, "-wide": width >= WIDE, "-full": width >= FULL}
        classes |= {"-tall": height >= TALL, "-short": height < SHORT}
        # All at once, because each change styles every widget in it.
        self.update_classes(classes, update=self.is_attached)

    def on_resize(self, event: events.Resize) -> None:
        def redraw() -> None:
            if [room(part) for part in self.walk_children(Widget)] != self._sizes:
                self.redraw()  # otherwise it was hidden, and keeps its size

        self.prepare(*event.size)
        self.call_after_refresh(redraw)  # once the parts have their new sizes


class Part(Container):
    """A titled part of a panel. Without contents, it shows a sentence: `say`."""

    ALLOW_MAXIMIZE = True
    DEFAULT_CSS = """
    Part { width: 1fr; height: 1fr; layout: vertical; border-top: solid $foreground 30%; }
    Part { border-title-color: $foreground; }
    Part.-bare { border: none; }
    Part > .sentence { width: 1fr; height: 1fr; padding: 1 2; color: $text-muted; display: none; }
    Part.-empty > .sentence { display: block; }
    Part.-focused { border-title-color: $text-accent; border-title-style: bold; }
    Part.-maximized {
        width: 1fr !important; height: 1fr !important; max-height: 100% !important; margin: 0 !important;
    }
    """

    def __init__(self, title: str, *content: Widget, classes: str = "") -> None:
        self._titles: tuple[str, ...] = (title,)
        self._content = content
        self._sentence = Static("", classes="sentence", markup=False)
        super().__init__(self._sentence, *content, classes=classes)
        self._said: str | None = None
        self._caption = ""  # as given: `border_title` reads otherwise than it was written

    def caption(self, *titles: str) -> None:
        """The title in the line above: the first that fits, else the last, cut to the line's length."""
        self._titles = titles
        glyphs = glyphs_of(self)
        width = max(room(self).width - 3, 0) or cell_count(titles[0])
        title = next((each for each in titles if cell_count(spelled(each, glyphs)) <= width), titles[-1])
        text = spelled(fit(title, width, GLYPHS[glyphs].ellipsis), glyphs).rstrip().replace("[", r"\[")
        if text != self._caption:
            self._caption = self.border_title = text

    def on_resize(self) -> None:
        self.caption(*self._titles)

    on_mount = on_resize

    def on_descendant_focus(self) -> None:
        """Show the focus in the title alone. A rule on :focus-within would style each widget within it again."""
        self.set_class(self.has_focus_within, "-focused", update=False)
        self.app.stylesheet.apply(self)

    on_descendant_blur = on_descendant_focus

    def say(self, sentence: str | None) -> None:
        """Show a sentence instead of the content; None: the content."""
        if sentence == self._said:
            return
        self._said = sentence
        self.set_class(sentence is not None, "-empty")
        for widget in self._content:
            widget.display = sentence is None
        if sentence is not None:
            self._sentence.update(spelled(sentence, glyphs_of(self)))


Values = Sequence[object] | NDArray[Any]


def by_column(columns: Mapping[str, Values]) -> tuple[list[str], list[list[object]]]:
    """Columns of one length as titles and rows of a file. A NaN is an empty cell."""
    values = (each.tolist() if isinstance(each, np.ndarray) else each for each in columns.values())
    rows = zip(*values, strict=True)
    return [*columns], [[None if value != value else value for value in row] for row in rows]


def no_match(what: str) -> str:
    return f"No {what} matches the filter. Press / to change it."


def at_most(widget: Widget, lines: int | None) -> None:
    """Limit a widget to this many lines; None: no limit."""
    if lines is not None or widget.styles.has_rule("max_height"):
        widget.styles.max_height = lines


NAMES = 10  # minimum cells for the names
ALARMING = ("remark", "damaged")


class Facts(Table):
    """Pairs of a name and a text. Long texts wrap."""

    def __init__(self) -> None:
        super().__init__([Column("", worth=2), Column("", stretch=True, worth=3)])
        self._facts: Sequence[tuple[str, str]] = ()

    def tell(self, facts: Sequence[tuple[str, str]]) -> None:
        self._facts = facts
        names = max(NAMES, *(cell_count(name) + 1 for name, _ in facts), 0)
        here = room(self)
        for bar in (0, 1):  # a scroll bar takes a cell
            rows = [
                Row((number, line), ("" if line else name, text), "warning" if name in ALARMING else "plain")
                for number, (name, value) in enumerate(facts)
                for line, text in enumerate(wrapped(value, max(here.width - names - bar, 20)))
            ]
            if len(rows) <= here.height:
                break
        self.show(rows)

    def on_resize(self) -> None:
        super().on_resize()
        self.tell(self._facts)  # in lines of the new width


NO_SESSION = "No session is open. Press n to start a run or s to list sessions."
OPENING = "Opening the session…"
BEGINNING = "No round is finished yet. This chart starts after the first round."
FIRST_CKA = "CKA is first measured after round 1."
PERCENT = 100.0
"""An accuracy is multiplied by this, with the unit "%"."""
RECENT = 5
"""Rounds whose change shows whether the accuracy still rises."""


def unread(view: View) -> str | None:
    """Why nothing is known of the session shown; None if it has been read."""
    if not view.run.name:
        return NO_SESSION
    return view.run.error or (None if view.run.document else OPENING)


def awaited_cka(view: View) -> str:
    """When CKA is first measured, in a run that measures it by default and has no round yet; else nothing."""
    settings = view.run.config.get("cka", {})
    return FIRST_CKA if not view.run.round and settings.get("every", 0) is None else ""


def pinned(view: View) -> list[int]:
    return [client for client in sorted(view.pinned) if client < view.curves.clients]


def marks(run: SessionData) -> list[Mark]:
    """A vertical mark at every milestone of the run."""
    labels = {"switch": "settings", "checkpoint": "kept"}
    return [Mark(each.round, each.method or labels.get(each.kind, each.kind)) for each in milestones(run)]


def named_clients(run: SessionData, clients: Iterable[int] | None = None) -> list[str]:
    """Clients by their id and model; all of them for None."""
    models = run.models
    return [f"{client} {models[client]}" for client in (range(len(models)) if clients is None else clients)]


def sizes(*bytes: Array) -> tuple[list[Array], str, float]:
    """Bytes in the unit of the largest value, at least KiB; that unit, and its number of bytes."""
    unit, one = size_unit(max(_most(*bytes), 1024))
    return [each / one for each in bytes], unit, one


def traffic(up: Array, down: Array) -> Figure:
    """Bytes sent up and down, by round. The axis starts at 0, so that a change keeps its proportion."""
    amounts, unit, _ = sizes(up, down)
    series = [Series(name, amount, key=name[0]) for name, amount in zip(("up", "down"), amounts, strict=True)]
    top = _most(*amounts) * 1.05 or 1.0
    return Figure(series, x_label="round", unit=unit, y_range=(0.0, top), over="rounds")


def steady(curves: Curves) -> bool:
    """Whether every round sends the same bytes, so that a line would show only one number."""
    return not (np.ptp(curves["bytes_up"]) or np.ptp(curves["bytes_down"]))


def silent(curves: Curves) -> bool:
    """Whether no round sends anything, as in Standalone."""
    return not (curves["bytes_up"].any() or curves["bytes_down"].any())


def in_each_round(record: Record) -> str:
    if not (record["bytes"]["up"] or record["bytes"]["down"]):
        return f"{record['method']} sends nothing"
    up, down = size(record["bytes"]["up"]), size(record["bytes"]["down"])
    return f"{up} up and down per round" if up == down else f"{up} up, {down} down per round"


def at_best(accuracies: Array) -> str:
    best, when = best_round(accuracies)
    return at_round(best, when) if when else NONE


def recent(accuracies: Array) -> tuple[str, ...]:
    """The last of accuracies by round [n], with its changes in a round and over RECENT rounds. Then in fewer words."""
    last, found = percent(accuracies[-1]), [change_over(accuracies, wanted) for wanted in (1, RECENT)]
    known = [(change, f"{rounds} rounds" if rounds > 1 else "a round") for change, rounds in found if rounds]
    said = [f"{points(change)} pp in {rounds}" for change, rounds in dict.fromkeys(known)]
    if not said:
        return (last,)
    alone = said[-1] if found[0][0] * found[1][0] >= 0 else said[0]
    return f"{last} ({', '.join(said)})", f"{last} ({alone})", last


def titled(measure: str) -> str:
    return "F1" if measure == "f1" else measure


def measures(view: View, measure: str, brief: bool = False) -> Figure:
    """The means of a measure on each part of the split by round, and of the loss also in training."""
    run, models, title = view.run, view.run.models, titled(measure)
    found = [("training loss", "l", view.curves.loss.means())] if measure == "loss" else []
    found += [(f"{part} {title}", part[0], part_means(run.records, part, measure)) for part in PARTS]
    for client in [] if brief else pinned(view):
        own = client_on_part(run.records, "test", measure, client)
        found.append((f"{models[client]} test {title}", str(client), own))
    unit, scale = ("%", PERCENT) if measure == "f1" else ("", 1.0)
    series = [drawn for name, key, values in found if len((drawn := by_round(name, key, values * scale)).y)]
    return Figure(series, None, [] if brief else marks(run), "round", unit, over="rounds")


def by_round(name: str, key: str, values: Array, pinned: bool = True) -> Series:
    """The line of one number per round [n], over the rounds that have it."""
    rounds = np.flatnonzero(np.isfinite(values))
    return Series(name, values[rounds], rounds + 1.0, pinned, key=key)


def _most(*values: Array) -> float:
    return max((float(np.nanmax(one)) for one in values if np.isfinite(one).any()), default=0.0)
