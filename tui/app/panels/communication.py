"""The Communication screen: what crossed the wire, for which tensors and clients, and what accuracy it bought."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal

from simulator.analysis.costs import COSTS, costs
from simulator.analysis.traffic import TensorTraffic, by_tensor
from tui.app.drawing.figure import Series
from tui.app.drawing.glyphs import Glyphs
from tui.app.panels.base import Chart, Part, SizedPanel
from tui.app.panels.chart_parts import from_zero
from tui.app.panels.sheet import Column, Row, Sheet
from tui.app.view import View
from tui.common.formatting import amount, lasted, percent

BEGINNING = "No round is finished yet. What crosses the wire will be counted here, per tensor and per client."
CHARTS = (
    "bytes a round",
    "bytes in total",
    *(f"accuracy over {cost}" for cost in COSTS[1:]),
)
OVER = 2  # from here on CHARTS are of accuracy


class CommunicationPanel(SizedPanel):
    """What it costs."""

    title = "Communication"

    DEFAULT_CSS = """
    CommunicationPanel .upper { height: 1fr; }
    CommunicationPanel .lower { height: 8; }
    CommunicationPanel .total, CommunicationPanel .over, CommunicationPanel .clients { display: none; }
    CommunicationPanel .facts { width: 36; margin-left: 1; }
    CommunicationPanel.-wide .total, CommunicationPanel.-wide .over { display: block; margin-left: 1; }
    CommunicationPanel.-wide .clients { display: block; margin-left: 1; }
    CommunicationPanel.-tall .lower { height: 15; }
    CommunicationPanel.-full .lower { height: 24; }
    """

    def __init__(self, glyphs: Glyphs = "braille", *, id: str | None = None) -> None:
        super().__init__(glyphs, id=id)
        self._chart = 0
        self._charts = {name: Chart(glyphs=glyphs) for name in ("round", "total", "over")}
        self._tensors = Sheet(
            [
                Column("tensor", stretch=True, worth=9),
                Column("way", worth=8),
                Column("round", numeric=True, worth=7),
                Column("share", numeric=True, worth=5),
                Column("in all", numeric=True, worth=6),
            ],
            glyphs=glyphs,
        )
        self._clients = Sheet(
            [
                Column("client", numeric=True, worth=9),
                Column("model", worth=2),
                Column("up", numeric=True, worth=6),
                Column("down", numeric=True, worth=5),
                Column("up in all", numeric=True, worth=8),
                Column("down in all", numeric=True, worth=7),
            ],
            glyphs=glyphs,
        )
        self._facts = Sheet([Column("", worth=2), Column("", stretch=True, worth=3)], glyphs=glyphs)
        self._parts = {
            name: Part(CHARTS[0], chart, glyphs=glyphs, classes=name) for name, chart in self._charts.items()
        }
        self._parts["tensors"] = Part("by tensor", self._tensors, glyphs=glyphs)
        self._parts["clients"] = Part("by client", self._clients, glyphs=glyphs, classes="clients")
        self._parts["facts"] = Part("this round", self._facts, glyphs=glyphs, classes="facts")

    def compose(self) -> ComposeResult:
        parts = self._parts
        with Horizontal(classes="upper"):
            yield from (parts[name] for name in ("round", "total", "over"))
        with Horizontal(classes="lower"):
            yield from (parts[name] for name in ("tensors", "clients", "facts"))

    def draw(self, view: View) -> None:
        wide = self.has_class("-wide")
        if not self.differs(
            "all", view.curves, view.round, self._chart, wide, view.filter, view.run.config, view.run.error
        ):
            return
        for part in self._parts.values():
            part.say(None if view.record else view.run.error or BEGINNING)
        if view.record is None:
            return
        if wide:
            self._draw_chart(view, "round", 0)
            self._draw_chart(view, "total", 1)
            self._draw_chart(view, "over", max(self._chart, OVER))
            self._draw_clients(view)
        else:
            self._draw_chart(view, "round", self._chart)
        self._draw_tensors(view)
        self._draw_facts(view)

    def _draw_chart(self, view: View, name: str, chart: int) -> None:
        shown, curves = self._charts[name], view.curves
        cursor = float(view.shown) if view.replaying else None
        if chart < OVER:
            up, down = (curves.up, curves.down) if chart == 0 else (curves.up_total, curves.down_total)
            shown.x_label = "round"
            shown.show([Series("up", up), Series("down", down)])
            shown.y_range = from_zero(up, down)
        else:
            unit = COSTS[1:][chart - OVER]
            rounds = curves.evaluated
            cost = costs(curves, unit)
            shown.x_label = unit
            shown.show(
                [Series("mean accuracy", curves.mean[rounds - 1], cost[rounds - 1], pinned=True, key="m")]
            )
            shown.y_range = None
            cursor = float(cost[view.shown - 1]) if cursor else None
        shown.cursor = cursor
        self._parts[name].caption(CHARTS[chart])

    def _draw_tensors(self, view: View) -> None:
        rows = tensors(view)
        self._tensors.show(
            [
                Row(
                    (each.name, each.direction),
                    (
                        each.name,
                        each.direction,
                        amount(each.bytes),
                        percent(each.share),
                        amount(each.total),
                    ),
                )
                for each in rows
            ]
        )
        self._parts["tensors"].say(None if rows else "Nothing crosses the wire with this method.")

    def _draw_clients(self, view: View) -> None:
        table = clients(view)
        self._clients.show(
            [
                Row(client, (str(client), str(model), *(amount(one) for one in amounts)))
                for client, model, *amounts in table
                if all(word in f"{client} {model}".casefold() for word in view.filter.casefold().split())
            ]
        )
        self._parts["clients"].caption(f"by client, {len(self._clients.rows)} of {len(table)}")

    def _draw_facts(self, view: View) -> None:
        record, curves = view.record, view.curves.upto(view.shown)
        assert record is not None
        flops = record["flops"]
        facts = [
            (
                "up",
                f"{amount(record['bytes']['up'])} B, {amount(record['bytes']['up_total'])} B in all",
            ),
            (
                "down",
                f"{amount(record['bytes']['down'])} B, {amount(record['bytes']['down_total'])} B in all",
            ),
            (
                "numbers",
                f"{amount(record['params']['up'])} up, {amount(record['params']['down'])} down",
            ),
            ("FLOPs", f"{amount(flops['total'])}, {amount(curves.flops.sum())} in all"),
            (
                "of these",
                f"clients {amount(flops['clients'])}, server {amount(flops['server'])}",
            ),
            (
                "time",
                f"{lasted(record['timing']['seconds'])}, {lasted(curves.seconds.sum())} in all",
            ),
            ("clients", f"{len(record['participants'])} took part"),
        ]
        self._parts["facts"].caption(f"round {view.shown}")
        self._facts.show([Row(name, (name, value)) for name, value in facts])

    def action_unit(self) -> None:
        """The next chart; where all fit side by side, accuracy over the next unit."""
        least = OVER if self.has_class("-wide") else 0
        following = max(self._chart, least) + 1
        self._chart = following if following < len(CHARTS) else least
        if self._view is not None:
            self.draw(self._view)

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """A row a tensor and direction: bytes of the round shown and since round 1."""
        columns = ["tensor", "direction", "bytes", "share", "bytes_total"]
        return columns, [
            [each.name, each.direction, each.bytes, each.share, each.total] for each in tensors(view)
        ]


def tensors(view: View) -> list[TensorTraffic]:
    """The tensors of the rounds up to the one shown."""
    return by_tensor(view.run.records[: view.shown])


def clients(view: View) -> Sequence[tuple[int, str, float, float, float, float]]:
    """Client, model, bytes up and down in the round shown and since round 1."""
    curves, models = view.curves.upto(view.shown), view.run.models
    up_total, down_total = curves.client_up.sum(axis=0), curves.client_down.sum(axis=0)
    return [
        (
            client,
            models[client],
            float(curves.client_up[-1, client]),
            float(curves.client_down[-1, client]),
            float(up_total[client]),
            float(down_total[client]),
        )
        for client in range(curves.clients)
    ]
