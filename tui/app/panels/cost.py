"""The Cost panel: traffic, time, energy, and the machine's use by round and by client, and accuracy over cost."""

from collections.abc import Mapping, Sequence

import numpy as np
from textual.app import ComposeResult
from textual.containers import Horizontal

from simulator.results.analysis.client_values import Array
from simulator.results.analysis.comparison import standing
from simulator.results.analysis.costs import (
    COSTS,
    SIMULATED,
    TIME_PARTS,
    at_work,
    busy_share,
    by_tensor,
    costs,
    machine_use,
    method_metrics,
    reached,
    seconds_by_part,
)
from simulator.results.analysis.ledger import Curves
from simulator.results.analysis.timeline import timeline
from tui.app.charts.figure import Figure, Series
from tui.app.charts.table import Column, Row, Rows, RowsByColumn, Texts, Trend, Trends
from tui.app.messages import PanelWanted
from tui.app.panels import client_rows
from tui.app.panels.base import (
    PERCENT,
    Facts,
    Part,
    SizedPanel,
    at_most,
    in_each_round,
    marks,
    silent,
    sizes,
    steady,
    traffic,
    unread,
)
from tui.app.panels.client_rows import each_once
from tui.app.view import View
from tui.app.widgets import LineChart, Table, TimelineChart
from tui.common.formatting import NONE, amount, duration, percent, size, span

BEGINNING = "No round is finished yet. This panel shows traffic, time, and memory after the first one."
BYTES, TOTAL, TIME, TIMELINE, METRICS = (
    "bytes per round", "total bytes", "seconds per round", "timeline", "metrics of the method",
)  # fmt: skip
OVER = {f"accuracy over {cost}": cost for cost in (*COSTS[1:], *SIMULATED)}
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


class CostPanel(SizedPanel):
    """Charts of cost by round, the clients or the tensors below, and the numbers of the round shown.

    With enough columns, traffic and time stand beside the chosen chart.
    """

    FOLLOWS_PROGRESS = True
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
        super().__init__(id)
        self._chart, self._metric, self._span = "", 0, 2
        self._charts = {name: LineChart() for name in ("first", "second", "third")}
        self._tensors, self._facts = Table(TENSORS), Facts()
        self._clients = Table(CLIENTS, cursor=True, sort="seconds")
        self._timeline = TimelineChart()
        self._parts = {name: Part(TIME, chart, classes=name) for name, chart in self._charts.items()}
        self._parts["timeline"] = Part(TIMELINE, self._timeline, classes="timeline")
        self._parts["clients"] = Part("by client", self._clients, classes="clients")
        self._parts["tensors"] = Part("by tensor", self._tensors, classes="tensors")
        self._parts["facts"] = Part("this round", self._facts, classes="facts")
        self._lower = Horizontal(
            *(self._parts[name] for name in ("clients", "tensors", "facts")), classes="lower"
        )

    def compose(self) -> ComposeResult:
        with Horizontal(classes="upper"):
            yield from (self._parts[name] for name in (*self._charts, "timeline"))
        yield self._lower

    def on_mount(self) -> None:
        super().on_mount()
        self._clients.sort_by("seconds", descending=True)

    def draw(self, view: View) -> None:
        self.set_class(not view.run.document, "-closed")
        self._draw_charts(view)
        facts, doing, models = facts_of(view), at_work(view.run), view.run.models
        if self.differs("tables", view.curves, view.round, view.run.config, doing):
            self._clients.show(rows(view, doing))
            at_most(self._lower, max(len(models), len(facts) + 1) + 2)  # the charts get the rest
        if self.differs("tensors", view.curves, view.round):
            self._draw_tensors(view)
        self._clients.filter(view.filter)
        client_rows.follow(self._clients, view)
        some = f"{len(self._clients.rows)} of {len(models)}{client_rows.drawn(view)}"
        self._parts["clients"].caption(f"by client, {some}")
        self._parts["facts"].caption(f"round {max(view.shown, 1)}")
        self._facts.tell(facts)

    def _draw_charts(self, view: View) -> None:
        run, wide = view.run, self.has_class("-wide")
        about = (view.curves, view.round, run.events, run.config, run.error, run.checkpoints, run.name)
        if not self.differs(
            "charts", *about, bool(run.document), wide, self._chart, self._metric, self._span
        ):
            return
        begun = view.shown > 0
        chosen = self._chosen(view) if begun else ""
        self.set_class(not begun, "-empty").set_class(begun and silent(view.curves), "-silent")
        self.set_class(chosen == TIMELINE, "-timeline")
        self._parts["first"].say(None if begun else unread(view) or BEGINNING)
        if not begun:
            self._parts["first"].caption(TIME)
        elif chosen == TIMELINE:
            self._draw_timeline(view)
        else:
            fixed = [name for name in charts(view) if name not in self._choices(view)]
            for place, name in zip(self._charts, [*fixed, chosen], strict=False):
                self._draw_chart(view, place, name)

    def _choices(self, view: View) -> list[str]:
        """The charts that `u` shows one after the other."""
        found = charts(view)
        return found[found.index(TIME) + 1 :] if self.has_class("-wide") else found

    def _chosen(self, view: View) -> str:
        found = self._choices(view)
        return self._chart if self._chart in found else found[0]

    def _draw_timeline(self, view: View) -> None:
        """The timeline of the last rounds up to the one shown."""
        records, rounds = view.run.records[: view.shown], SPANS[self._span]
        self._timeline.show(lambda most: timeline(records, rounds, most))
        first = max(view.shown - rounds, 0) + 1
        which = f"round {first}" if first == view.shown else f"rounds {first} to {view.shown}"
        self._parts["timeline"].caption(f"who works when, {which} (, fewer, . more)")

    def _draw_chart(self, view: View, place: str, name: str) -> None:
        title, missing = name, None
        if name == BYTES:
            figure = traffic(view.curves["bytes_up"], view.curves["bytes_down"])
        elif name == TOTAL:
            figure = traffic(view.curves["bytes_up_total"], view.curves["bytes_down_total"])
        elif name == TIME:
            figure, waited = _time(view)
            title += paused(waited)
        elif name in OVER:
            figure = _accuracy_over(view, name)
        elif name in MACHINE:
            figure = _machine_chart(view, name)
            if not figure.series[0].y.size:
                missing = f"No {MACHINE[name]} was recorded in these rounds."
        else:
            found = method_metrics(view.run.records)
            at = self._metric % len(found)
            which = f" ({at + 1} of {len(found)}, . next)" if len(found) > 1 else ""
            title, values = f"{list(found)[at]}{which}", list(found.values())[at]
            figure = _over_rounds(view, [_line(list(found)[at], values)], from_zero=False)
        if self.has_class("-short") and figure.unit and name != TIME:  # a low chart has no legend to say it
            title += f", {figure.unit}"
        told = self._chosen(view) if silent(view.curves) else TOTAL
        if view.record and steady(view.curves) and name == told:
            title += f"; {in_each_round(view.record)}"
        self._charts[place].show(figure)
        self._parts[place].caption(title)
        self._parts[place].say(missing)

    def _draw_tensors(self, view: View) -> None:
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
        nothing = "No tensor has been sent yet."
        if view.shown:
            quiet = silent(view.curves)
            nothing = (
                "Every client trains alone. Nothing is sent." if quiet else "This method sends no tensors."
            )
        self._parts["tensors"].say(None if found else nothing)

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        if message.table is self._clients:
            client_rows.tell(self, message, self._clients)

    def on_table_chosen(self, message: Table.Chosen) -> None:
        if message.table is self._clients:
            self.post_message(PanelWanted("clients"))

    def labels(self) -> Mapping[str, str]:
        return {"unit": "chart", "chart": "by client" if self.has_class("-tensors") else "by tensor"}

    def idle(self, view: View) -> Sequence[str]:
        if not view.record:
            return ("unit", "chart", "previous", "next")
        chosen = self._chosen(view)
        more = chosen == TIMELINE or len(view.record["method_metrics"]) > (chosen == METRICS)
        return () if more else ("previous", "next")

    def action_sort(self) -> None:
        """Sort the clients by the next column."""
        self._clients.cycle_sort()

    def action_reverse(self) -> None:
        """Reverse the clients' order."""
        self._clients.reverse_sort()

    def action_chart(self) -> None:
        """Show the tensors in place of the clients, or the clients again."""
        self.toggle_class("-tensors")
        table = self._tensors if self.has_class("-tensors") else self._clients
        self.call_after_refresh(table.focus)

    def action_unit(self) -> None:
        """Show the next chart."""
        if self._view is not None and self._view.shown:
            found = self._choices(self._view)
            self._chart = found[(found.index(self._chosen(self._view)) + 1) % len(found)]
            self.update()

    def action_previous(self) -> None:
        """Show the method's previous metric, or fewer rounds of the timeline."""
        self._move(-1)

    def action_next(self) -> None:
        """Show the method's next metric, or more rounds of the timeline."""
        self._move(1)

    def _move(self, by: int) -> None:
        if self._view is None or not self._view.shown:
            return
        match self._chosen(self._view):
            case "timeline":
                self._span = min(max(self._span + by, 0), len(SPANS) - 1)
            case "metrics of the method":
                self._metric += by
            case _ if METRICS in self._choices(self._view):
                self._chart = METRICS
        self.update()

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """One row per round: its seconds by purpose, bytes, the machine's use, and each listed client's seconds.

        While tensors are shown: one row per tensor and direction, with the bytes of the round and since round 1.
        """
        if self.has_class("-tensors"):
            return ["tensor", "direction", "bytes", "share", "bytes_total"], [
                [each.name, each.direction, each.bytes, each.share, each.total]
                for each in by_tensor(view.run.records[: view.shown])
            ]
        curves, shown = view.curves, view.shown
        spent = {name: values[:shown] for name, values in seconds_by_part(curves).items()}
        columns = ["round", "seconds", *spent, "up", "down", "cpu", "memory", "gpu_memory"]
        clock = [curves["simulated_seconds"], curves["joules"]] if has_clock(view) else []
        columns += ["simulated_seconds", "joules"][: len(clock)]
        clients = client_rows.shown(view)
        columns += [f"client {client}" for client in clients]
        took = curves.client_seconds.select(clients)
        sent, machine = (
            (curves["bytes_up"], curves["bytes_down"]),
            (curves["seconds_cpu"], curves["memory"], curves["gpu_memory"]),
        )
        single = (curves["seconds"], *spent.values(), *sent, *machine, *clock)
        return columns, [
            [row + 1, *(_known(each[row]) for each in single), *map(_known, took[row])]
            for row in range(shown)
        ]


def charts(view: View) -> list[str]:
    """The charts of this session: those up to TIME stand beside the others if there is room."""
    curves, timed = view.curves, has_clock(view)
    quiet, alike = silent(curves), steady(curves)
    over = [name for name, cost in OVER.items() if timed or cost not in SIMULATED]
    machine = [
        each
        for each, name in MACHINE.items()
        if name != "GPU memory" or np.isfinite(curves["gpu_memory"]).any()
    ]
    return [
        *([] if quiet else [TOTAL if alike else BYTES]),
        TIME,
        *over[quiet:],
        *([] if alike else [TOTAL]),
        *machine,
        *([TIMELINE] if timed else []),
        *([METRICS] if method_metrics(view.run.records) else []),
    ]


def _time(view: View) -> tuple[Figure, Array]:
    """The work of each round, and the seconds of its pauses: a pause may be much longer than any round."""
    spent = seconds_by_part(view.curves)
    series = [
        Series(name, spent[name], pinned=True, key=key)
        for name, key in zip(WORK, "csek", strict=True)
        if np.nansum(spent[name]) > 0
    ]
    return _over_rounds(view, series, "s"), spent["waiting"]


def _accuracy_over(view: View, name: str) -> Figure:
    curves, cost = view.curves, OVER[name]
    over, unit, one, rounds = costs(curves, cost), str(cost), 1.0, curves.evaluated
    if cost == "bytes":
        (over,), unit, one = sizes(over)
    mean = Series("mean accuracy", curves["accuracy"][rounds - 1] * PERCENT, over[rounds - 1], True, key="m")
    return Figure([mean], x_label=unit, unit="%", over=cost, x_unit=one)


def _machine_chart(view: View, name: str) -> Figure:
    values, unit = of_machine(view.curves, MACHINE[name]), ""
    if MACHINE[name] != "CPU cores":
        (values,), unit, _ = sizes(values)
    return _over_rounds(view, [_line(MACHINE[name], values)], unit)


def _over_rounds(view: View, series: list[Series], unit: str = "", from_zero: bool = True) -> Figure:
    top = max((float(np.nanmax(each.y)) for each in series if np.isfinite(each.y).any()), default=0.0)
    scale = (0.0, top * 1.05 or 1.0) if from_zero else None
    return Figure(series, marks=marks(view.run), x_label="round", unit=unit, y_range=scale, over="rounds")


def rows(view: View, doing: tuple[str, ...]) -> Rows:
    """The listed clients, by id, at the round shown. `doing`: the place of each in the unfinished round."""
    curves, models, shown = view.curves.upto(view.shown), view.run.models, view.shown
    clients, took_it = client_rows.shown(view), curves.client_seconds
    now = took_it.after(shown) if shown else np.full(len(models), np.nan)
    median = float(np.nanmedian(now)) if np.isfinite(now).any() else np.nan
    recent = took_it.reported(max(shown - TREND, 0))
    top = float(np.nanmax(recent)) if np.isfinite(recent).any() else 1.0
    histories = took_it.select(clients).T if shown else np.empty((len(clients), 0))
    known = np.isfinite(histories)
    counts = known.sum(axis=1)
    means = np.full(len(clients), np.nan)
    np.divide(np.where(known, histories, 0.0).sum(axis=1), counts, out=means, where=counts > 0)
    now = now[clients]
    sent, amounts = (curves.client_up, curves.client_down), [np.full(len(models), np.nan)] * 4
    if shown:
        amounts = [*(each.after(shown) for each in sent), *(each.totals() for each in sent)]
    times = now / median if median > 0 else np.full(len(clients), np.nan)
    names, words = [models[client] for client in clients], [doing[each] if doing else "" for each in clients]

    def pace(ratio: float) -> str:
        return NONE if ratio != ratio else f"{ratio:.1f}"

    columns: tuple[Texts | Trends, ...] = (
        Texts(list(map(str, clients)), values=clients),
        Texts(names, values=[name.casefold() for name in names]),
        Texts(words, lambda at: client_rows.doing_tone(words[at])),
        Texts(each_once(seconds, now), values=now.tolist()),
        Texts(each_once(pace, times), lambda at: "loss" if times[at] >= SLOW else "muted", times.tolist()),
        Texts(each_once(seconds, means), values=means.tolist()),
        *(Texts(each_once(size, each[clients]), values=each[clients].tolist()) for each in amounts),
        Texts(list(map(str, counts.tolist())), values=counts.tolist()),
        Trends(lambda at: Trend(tuple(histories[at, -TREND:].tolist()), top)),
    )
    return RowsByColumn(clients, columns, lambda at: f"{clients[at]} {names[at]} {words[at]}")


def facts_of(view: View) -> list[tuple[str, str]]:
    """The cost of the round shown, of all rounds up to it, and of those to a target accuracy.

    The target is that of `show`. Compare takes others.
    """
    if not view.shown:
        return _machine(view)
    record, curves = view.run.records[view.shown - 1], view.curves.upto(view.shown)
    bytes, parameters, flops = record["bytes"], record["params"], record["flops"]
    total = curves["seconds"][-1]
    facts = [("time", f"{seconds(total)}, {duration(float(curves['seconds'].sum()))} in all")]
    facts += _simulated(view)
    facts += [
        ("up", f"{size(bytes['up'])}, {size(bytes['up_total'])} in all"),
        ("down", f"{size(bytes['down'])}, {size(bytes['down_total'])} in all"),
    ]
    target = standing(view.run).target
    if target and (took := reached(curves, target)) is not None:
        cost = f"{size(took.bytes)}, {took.round} rounds, {duration(took.seconds)}"
        facts.append((f"to {percent(target)}", cost))
    facts += [
        ("FLOPs", f"{amount(flops['total'])}, {amount(curves['flops'].sum())} in all"),
        *_machine(view, curves["seconds_cpu"][-1] / total, curves["memory"][-1], curves["gpu_memory"][-1]),
    ]
    if np.isfinite(curves["workers"][-1]):
        facts.append(
            ("workers", f"{curves['workers'][-1]:.0f}, busy {percent(float(busy_share(curves)[-1]))}")
        )
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


def _simulated(view: View) -> list[tuple[str, str]]:
    """Simulated time and energy of the round shown, and of all rounds up to it."""
    if not has_clock(view):
        return []
    curves = view.curves.upto(view.shown)
    ends, joules = curves["simulated_seconds"], curves["joules"]
    began = float(ends[-2]) if view.shown > 1 else 0.0
    return [
        ("simulated", f"{span(float(ends[-1]) - began)}, {span(float(ends[-1]))} in all"),
        ("energy", f"{amount(float(joules[-1]))} J, {amount(float(joules.sum()))} J in all"),
    ]


def _machine(
    view: View, busy: float = np.nan, memory: float = np.nan, gpu: float = np.nan
) -> list[tuple[str, str]]:
    """The use of the machine in the round shown, and at this moment."""
    now = {} if view.replaying else machine_use(view.run)
    of_round = {
        "CPU cores": "" if np.isnan(busy) else f"{busy:.1f} in use",
        "memory": "" if np.isnan(memory) else size(memory),
        "GPU": "" if np.isnan(gpu) else size(gpu),
    }
    of_now = {
        "CPU cores": f"now {now['cpu']:.1f}" if "cpu" in now else "",
        "memory": f"now {size(now['memory'])}" if "memory" in now else "",
        "GPU": f"now {size(now['gpu_memory'])}" if "gpu_memory" in now else "",
    }
    said = {name: ", ".join(filter(None, (of_round[name], of_now[name]))) for name in of_round}
    return [(name, text) for name, text in said.items() if text]


def of_machine(curves: Curves, name: str) -> Array:
    """The use of one part of the machine in each round: CPU cores, or bytes."""
    if name == "CPU cores":
        return curves["seconds_cpu"] / curves["seconds"]
    return curves["memory"] if name == "memory" else curves["gpu_memory"]


def paused(waited: Array) -> str:
    """All pauses of a run [n], and the round with the longest: '; paused 60 s (r5)'. "" without a pause."""
    known = np.nan_to_num(waited)
    if not known.any():
        return ""
    most = "longest " if np.count_nonzero(known) > 1 else ""
    total = float(known.sum())
    took = f"{total:.0f} s" if total < EXACT else duration(total)
    return f"; paused {took} ({most}r{int(known.argmax()) + 1})"


def _line(name: str, values: Array) -> Series:
    known = np.flatnonzero(np.isfinite(values))
    return Series(name, values[known], known + 1.0, pinned=True)


def seconds(value: float) -> str:
    """A time that may be much shorter than a second. A dash for none."""
    if np.isnan(value):
        return NONE
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s" if value < 60 else duration(value)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
