"""The Cost panel: traffic, time, energy, and the machine's use by round and by client, and accuracy over cost."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, partialmethod

import numpy as np
from textual.containers import Horizontal

from simulator.results.analysis import costs as costs_of
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.comparison import standing
from simulator.results.analysis.costs import COSTS, SIMULATED, TIME_PARTS, Cost, seconds_by_part
from simulator.results.analysis.timeline import timeline
from tui.app.charts.chart import Figure, Series
from tui.app.charts.timeline import draw_timeline
from tui.app.panels import base
from tui.app.panels.clients import ClientTable, doing_tone, each_once, follow, listed, sampled
from tui.app.view import View
from tui.app.widgets import Cell, Column, LineChart, Picture, Row, Table, Trend
from tui.app.widgets.table import Rows, Value, by_columns
from tui.common.formatting import NONE, amount, duration, percent, size, span

BEGINNING = "No round is finished yet. This panel shows traffic, time, and memory after the first one."
BYTES, TOTAL, TIME, TIMELINE = "bytes per round", "total bytes", "seconds per round", "timeline"
METRICS = "metrics of the method"
MACHINE = {
    "peak memory of the process": "memory",
    "CPU cores in use": "CPU cores",
    "peak GPU memory of tensors": "GPU memory",
}
WORK = TIME_PARTS[:-1]
EXACT = 600  # shorter pauses are told to the second
SPANS = (1, 2, 5, 10, 20, 50)  # rounds in the timeline
TREND = 40  # rounds in a sparkline

TENSORS = (
    Column("tensor", stretch=True, names=True, worth=9),
    Column("sent", name="direction", worth=8),
    Column("round", numeric=True, worth=7),
    Column("share", numeric=True, worth=5),
    Column("total", numeric=True, worth=6),
)
CLIENTS = (
    Column("id", numeric=True, worth=14, least=3, sort="rising"),
    Column("model", names=True, worth=8, least=5, most=14, tone="muted", sort="rising"),
    Column("now", worth=11, least=8),
    Column("seconds", numeric=True, worth=13, tone="strong", sort="falling"),
    Column("x median", numeric=True, worth=10, sort="falling"),
    Column("mean", numeric=True, worth=4, tone="muted", sort="falling"),
    Column("up", numeric=True, worth=12, sort="falling"),
    Column("down", numeric=True, worth=9, sort="falling"),
    Column("up total", numeric=True, worth=7, tone="muted", sort="falling"),
    Column("down total", numeric=True, worth=6, tone="muted", sort="falling"),
    Column("rounds", numeric=True, worth=3, tone="muted", sort="falling"),
    Column("trend", stretch=True, worth=5, least=5),
)
SLOW = 1.5  # times the median: slower clients are pointed out


class CostPanel(ClientTable):
    """Charts of cost by round, the clients or the tensors below, and the numbers of the round shown."""

    FOLLOWS_PROGRESS = True
    SHARES_ORDER = False
    DEFAULT_CSS = """
    CostPanel .upper { height: 1fr; }
    CostPanel .lower { height: 10; }
    CostPanel.-short .lower { height: 8; }
    CostPanel.-tall .lower { height: 19; }
    CostPanel.-full .lower { height: 28; }
    CostPanel .second, CostPanel .third { display: none; }
    CostPanel.-wide .second, CostPanel.-wide .third { display: block; margin-left: 1; }
    CostPanel.-silent .third, CostPanel.-empty .second, CostPanel.-empty .third { display: none; }
    CostPanel .timeline, CostPanel .tensors { display: none; }
    CostPanel.-timeline .upper > Part { display: none; }
    CostPanel.-timeline .upper > .timeline { display: block; }
    CostPanel.-tensors .clients { display: none; }
    CostPanel.-tensors .tensors { display: block; }
    CostPanel.-closed .lower { display: none; }
    CostPanel .facts { width: 38; margin-left: 1; }
    CostPanel.-narrow .facts { width: 33; }  /* so that the tables have the bytes of a round */
    """

    def __init__(self, id: str) -> None:
        self._chart, self._metric, self._span = "", 0, 2
        self._charts = {name: LineChart() for name in ("first", "second", "third")}
        self._tensors, self._facts = Table(TENSORS), base.Facts()
        self._timeline = Picture(draw_timeline, can_focus=False)
        self._table = Table(CLIENTS, cursor=True, sort="seconds")
        parts = {name: (TIME, chart) for name, chart in self._charts.items()} | {
            "timeline": (TIMELINE, self._timeline),
            "clients": ("by client", self._table),
            "tensors": ("by tensor", self._tensors),
            "facts": ("this round", self._facts),
        }
        self._parts = {name: base.Part(*each, classes=name) for name, each in parts.items()}
        upper, lower = [*self._parts.values()][:4], [*self._parts.values()][4:]
        self._lower = Horizontal(*lower, classes="lower")
        super().__init__(id, Horizontal(*upper, classes="upper"), self._lower)

    def on_mount(self) -> None:
        super().on_mount()
        self._table.sort_by("seconds", descending=True)

    def draw(self, view: View) -> None:
        self.set_class(not view.run.document, "-closed")
        self._draw_charts(view)
        facts, doing, models = facts_of(view), costs_of.at_work(view.run), view.run.models
        if self.differs("tables", view.curves, view.round, view.run.config, doing):
            self._table.show(rows(view, doing))
            base.at_most(self._lower, max(len(models), len(facts) + 1) + 2)  # the charts get the rest
        if self.differs("tensors", view.curves, view.round):
            self._draw_tensors(view)
        self._table.filter(view.filter)
        follow(self._table, view)
        some = f"{len(self._table.rows)} of {len(models)}{sampled(view)}"
        self._parts["clients"].caption(f"by client, {some}")
        self._parts["facts"].caption(f"round {max(view.shown, 1)}")
        self._facts.tell(facts)

    def _draw_charts(self, view: View) -> None:
        run, wide = view.run, self.has_class("-wide")
        about = (view.curves, view.round, run.events, run.config, run.error, run.checkpoints, run.name)
        mode = self._chart, self._metric, self._span
        if not self.differs("charts", *about, bool(run.document), wide, *mode):
            return
        begun = view.shown > 0
        chosen = self._chosen(view) if begun else ""
        self.set_class(not begun, "-empty").set_class(begun and base.silent(view.curves), "-silent")
        self.set_class(chosen == TIMELINE, "-timeline")
        self._parts["first"].say(None if begun else base.unread(view) or BEGINNING)
        if not begun:
            self._parts["first"].caption(TIME)
        elif chosen == TIMELINE:
            records, rounds = run.records[: view.shown], SPANS[self._span]  # up to the one shown
            self._timeline.show(lambda most: timeline(records, rounds, most))
            first = max(view.shown - rounds, 0) + 1
            which = f"round {first}" if first == view.shown else f"rounds {first} to {view.shown}"
            self._parts["timeline"].caption(f"who works when, {which} (, fewer, . more)")
        else:
            fixed = [name for name in charts(view) if name not in self._choices(view)]
            for place, name in zip(self._charts, [*fixed, chosen], strict=False):
                self._draw_chart(view, place, name)

    def _choices(self, view: View) -> list[str]:
        """The charts that `u` shows one after the other."""
        found = list(charts(view))
        return found[found.index(TIME) + 1 :] if self.has_class("-wide") else found

    def _chosen(self, view: View) -> str:
        found = self._choices(view)
        return self._chart if self._chart in found else found[0]

    def _draw_chart(self, view: View, place: str, name: str) -> None:
        title, missing = name, None
        if name == METRICS:
            found = [*costs_of.method_metrics(view.run.records).items()]
            at = self._metric % len(found)
            figure = _over_rounds(view, [base.by_round(found[at][0], "", found[at][1])], from_zero=False)
            title = found[at][0] + (f" ({at + 1} of {len(found)}, . next)" if len(found) > 1 else "")
        else:
            figure = charts(view)[name](view)
        if name == TIME:
            title += paused(seconds_by_part(view.curves)["waiting"])
        elif self.has_class("-short") and figure.unit:  # a low chart has no legend to say it
            title += f", {figure.unit}"
        if name in MACHINE and not figure.series[0].y.size:
            missing = f"No {MACHINE[name]} was recorded in these rounds."
        told = self._chosen(view) if base.silent(view.curves) else TOTAL
        if view.record and base.steady(view.curves) and name == told:
            title += f"; {base.in_each_round(view.record)}"
        self._charts[place].show(figure)
        self._parts[place].caption(title)
        self._parts[place].say(missing)

    def _draw_tensors(self, view: View) -> None:
        rows = list[Row]()
        for each in costs_of.by_tensor(view.run.records[: view.shown]):
            numbers = size(each.bytes), percent(each.share), size(each.total)
            rows.append(Row((each.name, each.direction), (each.name, each.direction, *numbers)))
        self._tensors.show(rows)
        nothing = "No tensor has been sent yet."
        if view.shown:
            alone = "Every client trains alone. Nothing is sent."
            nothing = alone if base.silent(view.curves) else "This method sends no tensors."
        self._parts["tensors"].say(None if rows else nothing)

    def labels(self) -> Mapping[str, str]:
        return {"unit": "chart", "chart": "by client" if self.has_class("-tensors") else "by tensor"}

    def idle(self, view: View) -> Sequence[str]:
        if not view.record:
            return ("unit", "chart", "previous", "next")
        chosen = self._chosen(view)
        more = chosen == TIMELINE or len(view.record["method_metrics"]) > (chosen == METRICS)
        return () if more else ("previous", "next")

    def action_chart(self) -> None:
        """Show the tensors in place of the clients, or the clients again."""
        self.toggle_class("-tensors")
        table = self._tensors if self.has_class("-tensors") else self._table
        self.call_after_refresh(table.focus)

    def action_unit(self) -> None:
        if self._view is not None and self._view.shown:
            found = self._choices(self._view)
            self._chart = found[(found.index(self._chosen(self._view)) + 1) % len(found)]
            self.update()

    def step(self, by: int) -> None:
        """Show another metric of the method, or fewer or more rounds of the timeline."""
        if self._view is None or not self._view.shown:
            return
        chosen = self._chosen(self._view)
        if chosen == TIMELINE:
            self._span = min(max(self._span + by, 0), len(SPANS) - 1)
        elif chosen == METRICS:
            self._metric += by
        elif METRICS in self._choices(self._view):
            self._chart = METRICS
        self.update()

    action_previous, action_next = partialmethod(step, -1), partialmethod(step, 1)

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """One row per round: its seconds by purpose, bytes, the machine's use, and each listed client's seconds."""
        if self.has_class("-tensors"):
            return ["tensor", "direction", "bytes", "share", "bytes_total"], [
                [each.name, each.direction, each.bytes, each.share, each.total]
                for each in costs_of.by_tensor(view.run.records[: view.shown])
            ]
        curves = view.curves
        found = {"seconds": curves["seconds"], **seconds_by_part(curves)}
        found |= {"up": curves["bytes_up"], "down": curves["bytes_down"], "cpu": curves["seconds_cpu"]}
        found |= {name: curves[name] for name in ("memory", "gpu_memory")}
        if has_clock(view):
            found |= {name: curves[name] for name in ("simulated_seconds", "joules")}
        clients, rounds = listed(view), range(1, view.shown + 1)
        took = zip(clients, curves.client_seconds.select(clients).T, strict=True)
        found |= {f"client {client}": seconds for client, seconds in took}
        return base.by_column({"round": rounds, **{name: each[: view.shown] for name, each in found.items()}})


def charts(view: View) -> dict[str, Callable[[View], Figure]]:
    """How to draw each chart of this session. Those up to TIME stand beside the others if there is room."""
    curves, timed = view.curves, has_clock(view)
    quiet, alike = base.silent(curves), base.steady(curves)
    total = {TOTAL: partial(_traffic, of="_total")}
    found: dict[str, Callable[[View], Figure]] = {}
    if not quiet:
        found |= total if alike else {BYTES: _traffic}
    found[TIME] = _time
    for cost in (*COSTS[1 + quiet :], *(SIMULATED if timed else ())):
        found[f"accuracy over {cost}"] = partial(_accuracy_over, cost=cost)
    if not alike:
        found |= total
    for title, name in MACHINE.items():
        if name != "GPU memory" or np.isfinite(curves["gpu_memory"]).any():
            found[title] = partial(_machine_chart, name=name)
    # The panel draws these two.
    own = [TIMELINE] * timed + [METRICS] * bool(costs_of.method_metrics(view.run.records))
    return found | dict.fromkeys(own, _time)


def _traffic(view: View, of: str = "") -> Figure:
    return base.traffic(view.curves[f"bytes_up{of}"], view.curves[f"bytes_down{of}"])


def _time(view: View) -> Figure:
    """The work of each round without its pauses, which may be much longer than any round."""
    spent = seconds_by_part(view.curves)
    named = [(name, key) for name, key in zip(WORK, "csek", strict=True) if np.nansum(spent[name]) > 0]
    return _over_rounds(view, [Series(name, spent[name], pinned=True, key=key) for name, key in named], "s")


def _accuracy_over(view: View, cost: Cost) -> Figure:
    curves, unit, one = view.curves, str(cost), 1.0
    over, rounds = costs_of.costs(curves, cost), curves.evaluated
    if cost == "bytes":
        (over,), unit, one = base.sizes(over)
    y = curves["accuracy"][rounds - 1] * base.PERCENT
    mean = Series("mean accuracy", y, over[rounds - 1], True, key="m")
    return Figure([mean], x_label=unit, unit="%", over=cost, x_unit=one)


def _machine_chart(view: View, name: str) -> Figure:
    if name == "CPU cores":
        cores = view.curves["seconds_cpu"] / view.curves["seconds"]
        return _over_rounds(view, [base.by_round(name, "", cores)])
    (values,), unit, _ = base.sizes(view.curves[name.replace("GPU memory", "gpu_memory")])
    return _over_rounds(view, [base.by_round(name, "", values)], unit)


def _over_rounds(view: View, series: list[Series], unit: str = "", from_zero: bool = True) -> Figure:
    top = max((float(np.nanmax(each.y)) for each in series if np.isfinite(each.y).any()), default=0.0)
    scale = (0.0, top * 1.05 or 1.0) if from_zero else None
    return Figure(series, None, base.marks(view.run), "round", unit, y_range=scale, over="rounds")


def rows(view: View, doing: tuple[str, ...]) -> Rows:
    curves, models, shown = view.curves.upto(view.shown), view.run.models, view.shown
    clients, took_it = listed(view), curves.client_seconds
    now = took_it.after(shown) if shown else np.full(len(models), np.nan)
    median = float(np.nanmedian(now)) if np.isfinite(now).any() else np.nan
    recent = took_it.reported(max(shown - TREND, 0))
    top = float(np.nanmax(recent)) if np.isfinite(recent).any() else 1.0
    histories = took_it.select(clients).T if shown else np.empty((len(clients), 0))
    known = np.isfinite(histories)
    none, counts = np.full(len(models), np.nan), known.sum(axis=1)
    sums = np.where(known, histories, 0.0).sum(axis=1)
    means = np.divide(sums, counts, out=none[clients], where=counts > 0)
    now = now[clients]
    sent, amounts = (curves.client_up, curves.client_down), [none] * 4
    if shown:
        amounts = [*(each.after(shown) for each in sent), *(each.totals() for each in sent)]
    times = now / median if median > 0 else np.full(len(clients), np.nan)
    names, words = [models[client] for client in clients], [doing[each] if doing else "" for each in clients]

    def pace(of: float) -> Cell:
        return Cell(NONE if of != of else f"{of:.1f}", "loss" if of >= SLOW else "muted")

    columns: list[tuple[Sequence[str | Cell | Trend], Sequence[Value]]] = [
        (list(map(str, clients)), clients),
        (names, [name.casefold() for name in names]),
        ([Cell(word, doing_tone(word)) for word in words], ()),
        each_once(seconds, now),
        ([*map(pace, times.tolist())], times.tolist()),
        each_once(seconds, means),
        *(each_once(size, each[clients]) for each in amounts),
        (list(map(str, counts.tolist())), counts.tolist()),
        ([Trend(tuple(each), top) for each in histories[:, -TREND:].tolist()], ()),
    ]
    about = zip(clients, names, words, strict=True)
    return by_columns(clients, columns, [f"{client} {name} {word}" for client, name, word in about])


def facts_of(view: View) -> list[tuple[str, str]]:
    """The cost of the round shown, of all rounds up to it, and of those to a target accuracy."""
    if not view.shown:
        return _machine(view)
    record, curves = view.run.records[view.shown - 1], view.curves.upto(view.shown)
    bytes, parameters, flops = record["bytes"], record["params"], record["flops"]
    total = curves["seconds"][-1]
    facts = [("time", f"{seconds(total)}, {duration(float(curves['seconds'].sum()))} in all")]
    if has_clock(view):
        ends, joules = curves["simulated_seconds"], curves["joules"]
        began = ends[-2] if view.shown > 1 else 0.0
        facts += [
            ("simulated", f"{span(float(ends[-1] - began))}, {span(float(ends[-1]))} in all"),
            ("energy", f"{amount(float(joules[-1]))} J, {amount(float(joules.sum()))} J in all"),
        ]
    facts += [
        ("up", f"{size(bytes['up'])}, {size(bytes['up_total'])} in all"),
        ("down", f"{size(bytes['down'])}, {size(bytes['down_total'])} in all"),
    ]
    target = standing(view.run).target
    if target and (took := costs_of.reached(curves, target)) is not None:
        cost = f"{size(took['bytes'])}, {took['rounds']:.0f} rounds, {duration(took['seconds'])}"
        facts.append((f"to {percent(target)}", cost))
    facts += [
        ("FLOPs", f"{amount(flops['total'])}, {amount(curves['flops'].sum())} in all"),
        *_machine(view, curves["seconds_cpu"][-1] / total, curves["memory"][-1], curves["gpu_memory"][-1]),
    ]
    if np.isfinite(workers := curves["workers"][-1]):
        busy = percent(float(costs_of.busy_share(curves)[-1]))
        facts.append(("workers", f"{workers:.0f}, busy {busy}"))
    for name, spent in seconds_by_part(curves).items():
        took_it = float(spent[-1])
        if np.isfinite(took_it) and (took_it > 0 or name != "waiting"):
            within = f" ({percent(took_it / total)})" if name in TIME_PARTS[:3] and total > 0 else ""
            facts.append((name, f"{seconds(took_it)}{within}"))
    return [
        *facts,
        ("FLOPs of", f"clients {amount(flops['clients'])}, server {amount(flops['server'])}"),
        ("parameters", f"{amount(parameters['up'])} up, {amount(parameters['down'])} down"),
        ("took part", f"{len(record['participants'])} clients"),
    ]


def has_clock(view: View) -> bool:
    """Whether all rounds have simulated time."""
    return view.shown > 0 and bool(np.isfinite(view.curves["simulated_seconds"]).all())


def _machine(
    view: View, busy: float = np.nan, memory: float = np.nan, gpu: float = np.nan
) -> list[tuple[str, str]]:
    """The use of the machine in the round shown, and at this moment."""
    now = {} if view.replaying else costs_of.machine_use(view.run)
    facts = []
    for name, key, value, write in (
        ("CPU cores", "cpu", busy, "{:.1f}".format),
        ("memory", "memory", memory, size),
        ("GPU", "gpu_memory", gpu, size),
    ):
        said = [] if np.isnan(value) else [write(value) + " in use" * (key == "cpu")]
        said += [f"now {write(now[key])}"] if key in now else []
        facts += [(name, ", ".join(said))] if said else []
    return facts


def paused(waited: Array) -> str:
    """All pauses of a run [n], and the round with the longest: '; paused 60 s (r5)'. "" without a pause."""
    known = np.nan_to_num(waited)
    if not known.any():
        return ""
    most = "longest " if np.count_nonzero(known) > 1 else ""
    total = float(known.sum())
    took = f"{total:.0f} s" if total < EXACT else duration(total)
    return f"; paused {took} ({most}r{int(known.argmax()) + 1})"


def seconds(value: float) -> str:
    """A time that may be much shorter than a second. A dash for none."""
    if np.isnan(value):
        return NONE
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s" if value < 60 else duration(value)
