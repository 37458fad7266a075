"""The Clients panel: all clients in a table, and the one under the cursor next to it."""

from collections.abc import Sequence

import numpy as np
from textual.containers import Vertical

from simulator.base.sections import PARTS
from simulator.metrics.significance import FEW
from simulator.results.analysis.clients import best_round
from simulator.results.analysis.measures import client_on_part, part_measures
from simulator.results.analysis.run import Samples
from tui.app.charts.chart import Figure, Series
from tui.app.panels import base, client_rows
from tui.app.view import View
from tui.app.widgets import LineChart, Table
from tui.app.widgets.screen import room
from tui.common.cells import cell_count
from tui.common.formatting import number, percent, size

CLASS_LINES = 2  # lines for the classes of a client
BEGINNING = "No round is finished yet. This chart starts after the first round."


class ClientsPanel(client_rows.ClientTable):
    """All clients, and one of them in detail."""

    OPENS = "similarity"

    DEFAULT_CSS = """
    ClientsPanel { layout: horizontal; }
    ClientsPanel > .one { width: 36; margin-left: 1; }
    ClientsPanel .loss { display: none; }
    ClientsPanel .facts { height: 10; }
    ClientsPanel.-wide > .one { width: 1fr; }
    ClientsPanel.-tall .loss { display: block; }
    ClientsPanel.-tall .facts { height: 15; }
    ClientsPanel.-few { layout: vertical; }
    ClientsPanel.-few > .one { layout: horizontal; margin-left: 0; }
    ClientsPanel.-few .facts { width: 40; height: 1fr; }
    ClientsPanel.-few .loss, ClientsPanel.-few .facts { margin-left: 1; }
    ClientsPanel.-few.-full .facts { width: 60; }
    ClientsPanel.-empty .loss { display: none; }
    """

    def __init__(self, id: str) -> None:
        self._table = Table(client_rows.COLUMNS, cursor=True, sort="accuracy")
        self._accuracy, self._loss = LineChart(), LineChart()
        self._facts = base.Facts()
        self._clients = base.Part("clients", self._table)
        self._room = Vertical(self._clients)  # not the part's own height, because z makes it the screen's
        self._parts = {
            "clients": self._clients,
            "accuracy": base.Part("accuracy", self._accuracy),
            "loss": base.Part("training loss", self._loss, classes="loss"),
            "facts": base.Part("client", self._facts, classes="facts"),
        }
        one = Vertical(*(self._parts[name] for name in ("accuracy", "loss", "facts")), classes="one")
        super().__init__(id, self._room, one)

    def draw(self, view: View) -> None:
        count = view.curves.clients or len(view.run.models)
        few = self.has_class("-wide") and count + 2 < room(self).height // 2
        if few != self.has_class(
            "-few"
        ):  # then a client's parts are below the table, in the room that it leaves
            self.set_class(few, "-few")
            self.call_after_refresh(self.redraw)  # once they have their new sizes
        base.at_most(self._room, count + 2 if few else None)
        self.draw_table(view)
        shown = len(self._table.rows)
        column, descending = self._table.sort
        order = f"by {column}, {'descending' if descending else 'ascending'}"
        if column == "accuracy":
            order = "best first" if descending else "worst first"
        some = f"{shown} of {count} clients" if shown != count else f"{count} clients"
        brief, samples, lost = some.removesuffix(" clients"), Samples.of(view.run), client_rows.diverged(view)
        few = samples is not None and bool((samples.test < FEW).any())
        note = f"; {client_rows.FEW_MARK} on fewer than {FEW} test samples" * few
        whole = f"{some}{client_rows.drawn(view)}, {order}{lost}"
        self._clients.caption(whole + note, whole, f"{brief}, {order}{lost}", f"{brief}{lost}", brief)
        self._clients.say(None if shown or not count else base.no_match("client"))
        self._draw_client(view)

    def _draw_client(self, view: View) -> None:
        """The curves and facts of the client under the cursor."""
        client = self._table.selected
        facts = (view.curves, client, view.round, room(self._facts).width, view.run.config, view.run.error)
        if not self.differs("client", *facts):
            return
        sentence = None if isinstance(client, int) else "Select a client in the table."
        if not view.curves.rounds:
            sentence = base.unread(view) or BEGINNING
        self._parts["accuracy"].say(sentence)
        self.set_class(sentence is not None, "-empty")
        self._parts["facts"].display = isinstance(client, int)
        if not isinstance(client, int):
            return
        after = f" after round {view.shown}" if view.shown else ""
        self._parts["facts"].caption(f"client {client}{after}")
        self._facts.tell(facts_of(view, client, room(self._facts).width - base.NAMES))
        if sentence is None:
            self._draw_curves(view, client)

    def _draw_curves(self, view: View, client: int) -> None:
        curves, rounds = view.curves, view.curves.evaluated
        x, own = rounds.astype(float), curves.accuracy.of(client)[rounds - 1] * base.PERCENT
        series = [
            Series(view.run.models[client], own, x, pinned=True, key=str(client)),
            Series("mean", curves["accuracy"][rounds - 1] * base.PERCENT, x, key="m"),
        ]
        scale, milestones = (0.0, base.PERCENT), base.marks(view.run)
        self._accuracy.show(Figure(series, None, milestones, "round", "%", y_range=scale, over="rounds"))
        losses = [base.by_round("training loss", "l", curves.loss.of(client))]
        losses += [
            base.by_round(f"{part} loss", part[0], client_on_part(view.run.records, part, "loss", client))
            for part in PARTS
        ]
        found = [losses[0], *(each for each in losses[1:] if len(each.y))]
        self._parts["loss"].caption(" and ".join(each.name for each in found), "losses")
        self._loss.show(Figure(found, x_label="round", over="rounds"))

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        if self._view is not None:
            self._draw_client(self._view)

    def idle(self, view: View) -> Sequence[str]:
        return () if view.run.models else ("pin", "sort", "reverse")

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """One row per client, in the order shown."""
        curves, samples = view.curves.upto(view.shown), Samples.of(view.run)
        shown = [row.key for row in self._table.rows if isinstance(row.key, int) and curves.rounds]
        columns = ["client", "model", "accuracy", "best", "loss", "up", "down"]
        columns += ["up_total", "down_total", "rounds"]
        if samples is not None:
            columns += ["test_samples", "train_samples", *(f"train {name}" for name in samples.classes)]
        if not shown:
            return columns, []
        accuracy, up, down = curves.accuracy.select(shown).T, curves.client_up, curves.client_down
        now = (each.after(curves.rounds)[shown] for each in (curves.loss, up, down))
        totals = (each.totals()[shown] for each in (up, down, curves.participated))
        loss, *counts = (*now, *totals)
        best = [best_round(own)[0] for own in accuracy]
        models = [view.run.models[each] for each in shown]
        values: list[base.Values] = [shown, models, accuracy[:, -1], best, loss]
        values += [each.astype(int) for each in counts]
        if samples is not None:
            train = samples.train[shown]
            values += [samples.test[shown], train.sum(axis=1), *train.T]
        return base.by_column(dict(zip(columns, values, strict=True)))


def facts_of(view: View, client: int, width: int) -> list[tuple[str, str]]:
    """The facts of a client at the round shown; before the first round, its model and its data."""
    curves, samples = view.curves.upto(view.shown), Samples.of(view.run)
    records = view.run.records[: view.shown]
    if not view.shown:
        return [("model", view.run.models[client]), *_data(samples, client, width)]
    accuracy = curves.accuracy.of(client)
    up, down = curves.client_up.of(client), curves.client_down.of(client)
    rounds = int(curves.participated.of(client).sum())
    losses = [f"training {number(curves.loss.of(client)[-1])}"]
    for part in PARTS:
        if np.isfinite(value := client_on_part(records, part, "loss", client)[-1]):
            losses.append(f"{part} {number(value)}")
    facts = [
        ("model", view.run.models[client]),
        ("accuracy", f"{percent(accuracy[-1])}, best {base.at_best(accuracy)}"),
        *_data(samples, client, width),
        ("loss", ", ".join(losses)),
        ("up", f"{size(up[-1])}, {size(up.sum())} total"),
        ("down", f"{size(down[-1])}, {size(down.sum())} total"),
        ("rounds", f"took part in {rounds} of {view.shown}"),
    ]
    facts += [
        (base.titled(measure), percent(value) if measure == "f1" else number(value))
        for measure in part_measures(records)
        if measure != "loss" and np.isfinite(value := client_on_part(records, "test", measure, client)[-1])
    ]
    return facts + [("remark", remark) for remark in client_rows.remarks(view, client)]


def _data(samples: Samples | None, client: int, width: int) -> list[tuple[str, str]]:
    """Its data, and its classes, the most frequent first: as many as fit."""
    if samples is None:
        return []
    texts = [f"{name} ×{count}" for name, count in samples.largest(client)]
    shown = _listed(texts, width * CLASS_LINES)
    few = ": few" if samples.few(client) else ""
    return [
        ("data", f"{samples.train[client].sum()} train, {samples.test[client]} test{few}"),
        ("classes", shown),
    ]


def _listed(texts: Sequence[str], cells: int) -> str:
    """The texts in at most `cells` cells, at least the first. The last words count those without room."""
    for kept in range(min(len(texts), max(cells // len("1 ×1, "), 1)), 0, -1):
        rest = len(texts) - kept
        shown = ", ".join([*texts[:kept], *([f"{rest} more"] if rest else [])])
        if cell_count(shown) <= cells or kept == 1:
            return shown
    return ""
