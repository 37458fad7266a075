"""The Communication panel: traffic by tensor and client, and accuracy over its cost."""

from collections.abc import Mapping, Sequence

import numpy as np
from textual.app import ComposeResult
from textual.containers import Horizontal

from htfl_sim.analysis import COSTS, SIMULATED, by_tensor, costs, reached, standing
from tui.app.charts.figure import Figure, Series
from tui.app.charts.table import Column, Row, RowsByColumn, Texts
from tui.app.messages import PanelWanted
from tui.app.panels import client_rows
from tui.app.panels.base import Part, SizedPanel, at_most
from tui.app.panels.chart_parts import PERCENT, in_each_round, silent, sizes, steady, traffic, unread
from tui.app.panels.facts import Facts
from tui.app.view import View
from tui.app.widgets import LineChart, Table
from tui.common.formatting import amount, duration, percent, size

BEGINNING = (
    "No round is finished yet. This panel counts traffic per tensor and per client after the first round."
)
OVERS = (*COSTS[1:], *SIMULATED)
CHARTS = ("bytes per round", "total bytes", *(f"accuracy over {cost}" for cost in OVERS))
OVER = 2  # CHARTS from here on show accuracy
FACTS = 8  # lines about a round

TENSORS = (
    Column("tensor", stretch=True, names=True, worth=9),
    Column("sent", name="direction", worth=8),
    Column("round", numeric=True, worth=7),
    Column("share", numeric=True, worth=5),
    Column("total", numeric=True, worth=6),
)
CLIENTS = (
    Column("client", numeric=True, worth=9),
    Column("model", worth=2),
    Column("up", numeric=True, worth=6),
    Column("down", numeric=True, worth=5),
    Column("up total", numeric=True, worth=8),
    Column("down total", numeric=True, worth=7),
)


class CommunicationPanel(SizedPanel):
    """Bytes by round, tensor and client, and accuracy over cost."""

    DEFAULT_CSS = """
    CommunicationPanel .upper { height: 1fr; }
    CommunicationPanel .lower { height: 8; }
    CommunicationPanel .total, CommunicationPanel .over, CommunicationPanel .clients { display: none; }
    CommunicationPanel .facts { width: 36; margin-left: 1; }
    CommunicationPanel.-narrow .facts { width: 33; }  /* so that the table has the bytes of a round */
    CommunicationPanel.-wide .total, CommunicationPanel.-wide .over { display: block; margin-left: 1; }
    CommunicationPanel.-wide .clients { display: block; margin-left: 1; }
    CommunicationPanel.-tall .lower { height: 15; }
    CommunicationPanel.-full .lower { height: 24; }
    CommunicationPanel.-wide.-steady .round { display: none; }
    CommunicationPanel.-wide.-steady .total { margin-left: 0; }
    CommunicationPanel.-wide.-silent .round { display: none; }
    CommunicationPanel.-silent .total, CommunicationPanel.-silent .clients { display: none; }
    CommunicationPanel.-wide.-silent .over { margin-left: 0; }
    CommunicationPanel.-empty .total, CommunicationPanel.-empty .over { display: none; }
    CommunicationPanel.-empty .lower { display: none; }
    """

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self._chart = 0
        self._charts = {name: LineChart() for name in ("round", "total", "over")}
        self._tensors, self._clients, self._facts = Table(TENSORS), Table(CLIENTS, cursor=True), Facts()
        self._parts = {name: Part(CHARTS[0], chart, classes=name) for name, chart in self._charts.items()}
        self._parts["tensors"] = Part("by tensor", self._tensors)
        self._parts["clients"] = Part("by client", self._clients, classes="clients")
        self._parts["facts"] = Part("this round", self._facts, classes="facts")
        below = (self._parts[name] for name in ("tensors", "clients", "facts"))
        self._lower = Horizontal(*below, classes="lower")

    def compose(self) -> ComposeResult:
        parts = self._parts
        with Horizontal(classes="upper"):
            yield from (parts[name] for name in ("round", "total", "over"))
        yield self._lower

    def draw(self, view: View) -> None:
        wide = self.has_class("-wide")
        if wide:
            client_rows.follow(self._clients, view)
        run = view.run
        about = (view.curves, view.round, self._chart, wide, view.filter, run.config, run.error, run.name)
        if not self.differs("all", *about):
            return
        alike, quiet = (view.record is not None and each(view.curves) for each in (steady, silent))
        self.set_class(view.record is None, "-empty").set_class(alike, "-steady").set_class(quiet, "-silent")
        self._parts["round"].say(None if view.record else unread(view) or BEGINNING)
        if view.record is None:
            return
        chart = max(self._chart, self._first_chart())
        if quiet:
            self._draw_chart(view, "over" if wide else "round", chart)
            caption = f"{CHARTS[chart]}; {in_each_round(view.record)}"
            self._parts["over" if wide else "round"].caption(caption)
        elif wide:
            if alike:
                self._draw_chart(view, "total", 1)
                self._parts["total"].caption(f"{CHARTS[1]}; {in_each_round(view.record)}")
            else:
                self._draw_chart(view, "round", 0)
                self._draw_chart(view, "total", 1)
            self._draw_chart(view, "over", chart)
            self._draw_clients(view)
        else:
            self._draw_chart(view, "round", chart)
        self._draw_tensors(view, quiet)
        rows = max(len(self._tensors.rows), len(self._clients.rows), FACTS)
        at_most(self._lower, rows + 2)  # the charts get the room that is not needed below
        self._parts["facts"].caption(f"round {view.shown}")
        self._facts.tell(facts_of(view))

    def _draw_chart(self, view: View, name: str, chart: int) -> None:
        curves = view.curves
        if chart < OVER:
            up, down = (curves.up, curves.down) if chart == 0 else (curves.up_total, curves.down_total)
            figure = traffic(up, down)
        else:
            cost, rounds = OVERS[chart - OVER], curves.evaluated
            over, unit, one = costs(curves, cost), str(cost), 1.0
            if cost == "bytes":
                (over,), unit, one = sizes(over)
            mean = Series("mean accuracy", curves.mean[rounds - 1] * PERCENT, over[rounds - 1], True, key="m")
            figure = Figure([mean], x_label=unit, unit="%", over=cost, x_unit=one)
        self._charts[name].show(figure)
        unit = f", {figure.unit}" if self.has_class("-short") else ""  # a low chart has no legend to say it
        self._parts[name].caption(f"{CHARTS[chart]}{unit}")

    def _first_chart(self) -> int:
        """The first chart that `u` shows: none of bytes if nothing is sent, and only accuracy next to the others."""
        return OVER + 1 if self.has_class("-silent") else OVER if self.has_class("-wide") else 0

    def _draw_tensors(self, view: View, quiet: bool) -> None:
        found = by_tensor(view.run.records[: view.shown])
        self._tensors.show(
            [
                Row(
                    (each.name, way),
                    (each.name, way, size(each.bytes), percent(each.share), size(each.total)),
                )
                for each in found
                for way in [each.direction]
            ]
        )
        nothing = "Every client trains alone. Nothing is sent." if quiet else "This method sends no tensors."
        self._parts["tensors"].say(None if found else nothing)

    def _draw_clients(self, view: View) -> None:
        curves, clients = view.curves.upto(view.shown), client_rows.shown(view)
        models = view.run.models
        names = [models[client] for client in clients]
        sent = curves.client_up, curves.client_down
        traffic = *(each.after(curves.rounds) for each in sent), *(each.totals() for each in sent)
        columns = [
            list(map(str, clients)),
            names,
            *(client_rows.each_once(size, each[clients]) for each in traffic),
        ]
        self._clients.show(
            RowsByColumn(clients, list(map(Texts, columns)), lambda at: f"{clients[at]} {names[at]}")
        )
        self._clients.filter(view.filter)
        client_rows.follow(self._clients, view)
        some = f"{len(self._clients.rows)} of {curves.clients}{client_rows.drawn(view)}"
        self._parts["clients"].caption(f"by client, {some}")

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        if message.table is self._clients:
            client_rows.tell(self, message, self._clients)

    def on_table_chosen(self, message: Table.Chosen) -> None:
        if message.table is self._clients:
            self.post_message(PanelWanted("clients"))

    def labels(self) -> Mapping[str, str]:
        return {} if self.has_class("-wide") else {"unit": "chart"}

    def idle(self, view: View) -> Sequence[str]:
        return () if view.record else ("unit",)

    def action_unit(self) -> None:
        """Show the next chart. If all fit side by side, show accuracy over the next unit."""
        least = self._first_chart()
        following = max(self._chart, least) + 1
        timed = self._view is not None and bool(np.isfinite(self._view.curves.clock).all())
        self._chart = following if following < len(CHARTS) - (0 if timed else len(SIMULATED)) else least
        self.update()

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """One row per tensor and direction: bytes of the round shown and since round 1."""
        return ["tensor", "direction", "bytes", "share", "bytes_total"], [
            [each.name, each.direction, each.bytes, each.share, each.total]
            for each in by_tensor(view.run.records[: view.shown])
        ]


def facts_of(view: View) -> list[tuple[str, str]]:
    """The cost of the round shown, of all rounds up to it, and of those to a target accuracy.

    The target is that of `show`. Compare takes others.
    """
    record, curves = view.run.records[view.shown - 1], view.curves.upto(view.shown)
    traffic, parameters, flops = record["bytes"], record["params"], record["flops"]
    target = standing(view.run).target
    took = reached(curves, target) if target else None
    to_target = (
        []
        if took is None
        else [(f"to {percent(target)}", f"{size(took.bytes)}, {took.round} rounds, {duration(took.seconds)}")]
    )
    return [
        ("up", f"{size(traffic['up'])}, {size(traffic['up_total'])} total"),
        ("down", f"{size(traffic['down'])}, {size(traffic['down_total'])} total"),
        *to_target,
        ("parameters", f"{amount(parameters['up'])} up, {amount(parameters['down'])} down"),
        ("FLOPs", f"{amount(flops['total'])}, {amount(curves.flops.sum())} total"),
        ("split", f"clients {amount(flops['clients'])}, server {amount(flops['server'])}"),
        ("time", f"{duration(record['timing']['seconds'])}, {duration(curves.seconds.sum())} total"),
        ("clients", f"{len(record['participants'])} took part"),
    ]
