"""The Clients screen: all of them in a table, and the one under the cursor beside it."""

import numpy as np
from textual.app import ComposeResult
from textual.containers import Vertical

from simulator.analysis.clients import best
from tui.app.drawing.figure import Series
from tui.app.drawing.glyphs import Glyphs
from tui.app.messages import ClientPinned
from tui.app.panels import client_rows
from tui.app.panels.base import Chart, Part, SizedPanel
from tui.app.panels.chart_parts import marks
from tui.app.panels.sheet import Column, Row, Sheet
from tui.app.view import View
from tui.app.widgets import ClientTable
from tui.common import formatting

BEGINNING = "No round is finished yet. What each client learns will be drawn here."


class ClientsPanel(SizedPanel):
    """Who is behind, and why."""

    title = "Clients"

    DEFAULT_CSS = """
    ClientsPanel { layout: horizontal; }
    ClientsPanel > Vertical { width: 36; margin-left: 1; }
    ClientsPanel .loss { display: none; }
    ClientsPanel .facts { height: 9; }
    ClientsPanel.-wide > Vertical { width: 1fr; }
    ClientsPanel.-wide > .clients { width: 1fr; }
    ClientsPanel.-tall .loss { display: block; }
    ClientsPanel.-tall .facts { height: 13; }
    """

    def __init__(self, glyphs: Glyphs = "braille", *, id: str | None = None) -> None:
        super().__init__(glyphs, id=id)
        self._table = ClientTable(glyphs=glyphs)
        self._accuracy = Chart(y_range=(0.0, 1.0), glyphs=glyphs)
        self._loss = Chart(glyphs=glyphs)
        self._facts = Sheet([Column("", worth=2), Column("", stretch=True, worth=3)], glyphs=glyphs)
        self._clients = Part("clients", self._table, glyphs=glyphs, classes="clients")
        self._parts = {
            "accuracy": Part("accuracy", self._accuracy, glyphs=glyphs),
            "loss": Part("loss", self._loss, glyphs=glyphs, classes="loss"),
            "facts": Part("client", self._facts, glyphs=glyphs, classes="facts"),
        }

    def compose(self) -> ComposeResult:
        yield self._clients
        with Vertical():
            yield from self._parts.values()

    def draw(self, view: View) -> None:
        if self.differs("table", view.curves, view.run.config, view.pinned, view.shown):
            self._table.show(client_rows.rows(view))
        self._table.filter(view.filter)
        shown, count = len(self._table.shown), view.curves.clients or len(view.run.models)
        column, descending = self._table.sort
        order = f"by {column}, {'falling' if descending else 'rising'}"
        some = f"{shown} of {count} clients" if shown != count else f"{count} clients"
        self._clients.caption(f"{some}, {order}")
        self._clients.say(None if shown or not count else "No client has all these words; / changes them.")
        self._draw_client(view, self._table.selected)

    def _draw_client(self, view: View, client: int | None) -> None:
        facts = (view.curves, client, view.round, self._facts.size.width, view.run.config, view.run.error)
        if not self.differs("client", *facts):
            return
        known = client is not None and bool(view.curves.rounds)
        for part in self._parts.values():
            part.say(
                None
                if known
                else view.run.error or BEGINNING
                if not view.curves.rounds
                else "No client is under the cursor."
            )
        if not known or client is None:
            return
        curves, cursor = view.curves, float(view.shown) if view.replaying else None
        rounds = curves.evaluated
        x = rounds.astype(float)
        self._accuracy.show(
            [
                Series(f"client {client}", curves.accuracy[rounds - 1, client], x, pinned=True, key="c"),
                Series("mean of all", curves.mean[rounds - 1], x, key="m"),
            ],
            marks=marks(view.run),
        )
        trained = np.flatnonzero(np.isfinite(curves.loss[:, client]))
        self._loss.show([Series("loss", curves.loss[trained, client], trained + 1.0, pinned=True, key="l")])
        self._accuracy.cursor = self._loss.cursor = cursor
        self._parts["facts"].caption(f"client {client} after round {view.shown}")
        width = max(self._facts.size.width - 10, 20)
        self._facts.show(
            [
                Row(
                    (name, line), (name if not line else "", text), "warning" if name == "remark" else "plain"
                )
                for name, value in facts_of(view, client)
                for line, text in enumerate(formatting.wrapped(value, width))
            ]
        )

    def on_client_table_cursor_moved(self, message: ClientTable.CursorMoved) -> None:
        if self._view is not None:
            self._draw_client(self._view, message.client)

    def action_pin(self) -> None:
        """Pin the client under the cursor."""
        if self._table.selected is not None:
            self.post_message(ClientPinned(self._table.selected))

    def action_sort(self) -> None:
        """By the next column."""
        self._table.cycle_sort()
        if self._view is not None:
            self.draw(self._view)

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """A row a client, in the order shown."""
        columns = [
            "client",
            "model",
            "accuracy",
            "best",
            "loss",
            "up",
            "down",
            "up_total",
            "down_total",
            "rounds",
        ]
        curves = view.curves.upto(view.shown)
        if not curves.rounds:
            return columns, []
        models = view.run.models
        return columns, [
            [
                client,
                models[client],
                curves.accuracy[-1, client],
                best(curves.accuracy[:, client])[0],
                curves.loss[-1, client],
                int(curves.client_up[-1, client]),
                int(curves.client_down[-1, client]),
                int(curves.client_up[:, client].sum()),
                int(curves.client_down[:, client].sum()),
                int(curves.participated[:, client].sum()),
            ]
            for client in self._table.shown
            if client < curves.clients
        ]


def facts_of(view: View, client: int) -> list[tuple[str, str]]:
    """What there is to say of a client at the round shown."""
    curves = view.curves.upto(view.shown)
    top, when = best(curves.accuracy[:, client])
    up, down = curves.client_up[:, client], curves.client_down[:, client]
    rounds = int(curves.participated[:, client].sum())
    facts = [
        ("model", view.run.models[client]),
        (
            "accuracy",
            f"{formatting.percent(curves.accuracy[-1, client])}, best {formatting.percent(top)} (r{when})",
        ),
        ("loss", formatting.figure(curves.loss[-1, client])),
        ("up", f"{formatting.amount(up[-1])} B, {formatting.amount(up.sum())} B in all"),
        ("down", f"{formatting.amount(down[-1])} B, {formatting.amount(down.sum())} B in all"),
        ("rounds", f"took part in {rounds} of {view.shown}"),
    ]
    return facts + [("remark", remark) for remark in client_rows.remarks(view, client)]
