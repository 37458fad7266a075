"""The Resources panel: the time of a round by purpose and client, and the use of the machine."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.containers import Horizontal

from htfl_sim.analysis import (
    TIME_PARTS,
    Array,
    Curves,
    at_work,
    busy_share,
    machine_use,
    method_metrics,
    seconds_by_part,
    timeline,
)
from tui.app.charts.figure import Figure, Series
from tui.app.charts.table import Column, Rows, RowsByColumn, Texts, Trend, Trends
from tui.app.messages import PanelWanted
from tui.app.panels import client_rows
from tui.app.panels.base import Part, SizedPanel, at_most
from tui.app.panels.chart_parts import marks, sizes, unread
from tui.app.panels.client_rows import each_once
from tui.app.panels.facts import Facts
from tui.app.view import View
from tui.app.widgets import LineChart, Table, TimelineChart
from tui.common.formatting import NONE, amount, duration, percent, size, span

BEGINNING = "No round is finished yet. This chart shows the time per round after the first one."
NO_METRICS = "This method reports no metrics of its own."
MACHINE = {
    "memory": "peak memory of the process",
    "CPU cores": "CPU cores in use",
    "GPU memory": "peak GPU memory of tensors",
}
TITLES = {"time": "seconds per round", "machine": MACHINE["memory"], "metric": "metrics of the method"}
WORK = TIME_PARTS[:-1]
EXACT = 600  # shorter pauses are told to the second
SPANS = (1, 2, 5, 10, 20, 50)  # rounds in the timeline
TREND = 40  # rounds in a sparkline
FACTS, OF_A_CLOCK = 9, 2  # lines about a round, and those about simulated time

CLIENTS = (
    Column("id", numeric=True, worth=11, least=3, sort="rising"),
    Column("model", names=True, worth=6, least=5, most=14, tone="muted", sort="rising"),
    Column("now", worth=7, least=8),
    Column("seconds", numeric=True, worth=10, tone="strong", sort="falling"),
    Column("x median", numeric=True, worth=8, sort="falling"),
    Column("mean", numeric=True, worth=5, tone="muted", sort="falling"),
    Column("rounds", numeric=True, worth=2, tone="muted", sort="falling"),
    Column("trend", stretch=True, worth=4, least=5),
)
SLOW = 1.5  # times the median: slower clients are pointed out
FLAT = (
    0.05  # share of the largest value: smaller differences are a straight line in a chart that starts at zero
)


class ResourcesPanel(SizedPanel):
    """Seconds by purpose and by client, memory and processors, and the method's own metrics."""

    FOLLOWS_PROGRESS = True
    LABELS: ClassVar[Mapping[str, str]] = {"unit": "chart"}
    DEFAULT_CSS = """
    ResourcesPanel .upper { height: 1fr; }
    ResourcesPanel .lower { height: 10; }
    ResourcesPanel .machine, ResourcesPanel .metric { display: none; }
    ResourcesPanel .facts { width: 36; margin-left: 1; }
    ResourcesPanel.-wide .machine, ResourcesPanel.-wide .metric { display: block; margin-left: 1; }
    ResourcesPanel.-empty .machine, ResourcesPanel.-empty .metric { display: none; }
    ResourcesPanel.-closed .lower { display: none; }
    ResourcesPanel.-without-metrics .metric { display: none; }
    ResourcesPanel.-tall .lower { height: 16; }
    ResourcesPanel.-full .lower { height: 28; }
    ResourcesPanel .timeline { display: none; }
    ResourcesPanel.-timeline .timeline { display: block; }
    ResourcesPanel.-timeline .time, ResourcesPanel.-timeline .machine { display: none; }
    ResourcesPanel.-timeline .metric { display: none; }
    """

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self._chart, self._metric, self._span = "time", 0, 2
        self._charts = {name: LineChart() for name in ("time", "machine", "metric")}
        self._clients, self._facts = Table(CLIENTS, cursor=True, sort="seconds"), Facts()
        self._parts = {name: Part(TITLES[name], chart, classes=name) for name, chart in self._charts.items()}
        self._timeline = TimelineChart()
        self._parts["timeline"] = Part("timeline", self._timeline, classes="timeline")
        self._parts["clients"] = Part("by client", self._clients)
        self._parts["facts"] = Part("this round", self._facts, classes="facts")
        self._lower = Horizontal(self._parts["clients"], self._parts["facts"], classes="lower")

    def compose(self) -> ComposeResult:
        with Horizontal(classes="upper"):
            yield from (self._parts[name] for name in self._charts)
            yield self._parts["timeline"]
        yield self._lower

    def on_mount(self) -> None:
        super().on_mount()
        self._clients.sort_by("seconds", descending=True)

    def draw(self, view: View) -> None:
        self.set_class(not view.run.document, "-closed")
        self._draw_charts(view)
        doing = at_work(view.run)
        if self.differs("clients", view.curves, view.round, view.run.config, doing):
            self._clients.show(rows(view, doing))
            at_most(
                self._lower, max(len(view.run.models), FACTS + OF_A_CLOCK * has_clock(view)) + 2
            )  # the charts get the rest
        self._clients.filter(view.filter)
        client_rows.follow(self._clients, view)
        self._parts["clients"].caption(f"by client, {len(self._clients.rows)} of {len(view.run.models)}")
        self._parts["facts"].caption(f"round {max(view.shown, 1)}")
        self._facts.tell(facts_of(view))

    def _draw_timeline(self, view: View) -> None:
        """The timeline of the last rounds up to the one shown."""
        if not self.differs("timeline", view.curves, view.shown, self._span):
            return
        records, span = view.run.records[: view.shown], SPANS[self._span]
        self._timeline.show(lambda most: timeline(records, span, most))
        first = max(view.shown - span, 0) + 1
        rounds = f"round {first}" if first == view.shown else f"rounds {first} to {view.shown}"
        self._parts["timeline"].caption(f"who works when, {rounds} (, fewer, . more)")

    def _draw_charts(self, view: View) -> None:
        on_the_clock = self._chart == "timeline" and has_clock(view)
        self.set_class(on_the_clock, "-timeline")
        if on_the_clock:
            self._draw_timeline(view)
            return
        run = view.run
        about = (view.curves, view.round, run.events, run.error, run.checkpoints, bool(run.document))
        wide = self.has_class("-wide")
        if not self.differs("charts", *about, wide, self._chart, self._metric):
            return
        found = method_metrics(view.run.records)
        self.set_class(not view.curves.rounds, "-empty")
        self.set_class(not found, "-without-metrics")
        self._parts["time"].say(None if view.curves.rounds else unread(view) or BEGINNING)
        if not view.curves.rounds:
            self._parts["time"].caption(TITLES["time"])
            return
        if wide:
            self._draw_time(view)
            self._draw_machine(view, "machine", self._of_machine(view))
            self._draw_metric(view, "metric", found)
        elif self._chart in ("time", "timeline"):
            self._draw_time(view)
        elif self._chart == "metric":
            self._draw_metric(view, "time", found)
        else:
            self._draw_machine(view, "time", self._chart)

    def _draw_time(self, view: View) -> None:
        """Only work is drawn: a pause may be much longer than any round, so the title has it."""
        spent = seconds_by_part(view.curves)
        series = [
            Series(name, spent[name], pinned=True, key=key)
            for name, key in zip(WORK, "csek", strict=True)
            if np.nansum(spent[name]) > 0
        ]
        self._show("time", TITLES["time"] + paused(spent["waiting"]), view, series, "s")

    def _of_machine(self, view: View) -> str:
        """The machine's chart next to the others: the chosen one, or the first that varies."""
        varying = (name for name in MACHINE if varies(of_machine(view.curves, name)))
        return self._chart if self._chart in MACHINE else next(varying, "memory")

    def _draw_machine(self, view: View, part: str, name: str) -> None:
        values, unit = of_machine(view.curves, name), ""
        if name != "CPU cores":
            (values,), unit, _ = sizes(values)
        title = f"{MACHINE[name]}, {unit}" if unit and self.has_class("-short") else MACHINE[name]
        self._show(part, title, view, [_line(name, values)], unit)
        missing = f"No {name} was recorded in these rounds."
        self._parts[part].say(None if np.isfinite(values).any() else missing)

    def _draw_metric(self, view: View, part: str, found: Mapping[str, Array]) -> None:
        self._parts[part].say(None if found else NO_METRICS)
        self._parts[part].caption(TITLES["metric"])
        if found:
            place = self._metric % len(found)
            name = list(found)[place]
            which = f" ({place + 1} of {len(found)}, . next)" if len(found) > 1 else ""
            self._show(part, f"{name}{which}", view, [_line(name, found[name])], "", from_zero=False)

    def _show(
        self, part: str, title: str, view: View, series: list[Series], unit: str, from_zero: bool = True
    ) -> None:
        top = max((float(np.nanmax(each.y)) for each in series if np.isfinite(each.y).any()), default=0.0)
        scale = (0.0, top * 1.05 or 1.0) if from_zero else None
        figure = Figure(
            series, marks=marks(view.run), x_label="round", unit=unit, y_range=scale, over="rounds"
        )
        self._charts[part].show(figure)
        self._parts[part].caption(title)

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        client_rows.tell(self, message, self._clients)

    def on_table_chosen(self, message: Table.Chosen) -> None:
        self.post_message(PanelWanted("clients"))

    def idle(self, view: View) -> Sequence[str]:
        if self.has_class("-timeline"):
            return ()
        found = view.record["method_metrics"] if view.record else {}
        beside = self.has_class("-wide") or self._chart == "metric"
        return () if len(found) > beside else ("previous", "next")

    def action_sort(self) -> None:
        """Sort the clients by the next column."""
        self._clients.cycle_sort()

    def action_reverse(self) -> None:
        """Reverse the clients' order."""
        self._clients.reverse_sort()

    def action_unit(self) -> None:
        """Show the next chart. If all are side by side, show the machine's next one, and then the timeline."""
        if self._view is None:
            return
        names = list(MACHINE)
        if not np.isfinite(self._view.curves.gpu_memory).any():
            names.remove("GPU memory")
        names += ["timeline"] * has_clock(self._view)
        if self.has_class("-wide"):
            shown = "timeline" if self.has_class("-timeline") else self._of_machine(self._view)
        else:
            names, shown = ["time", *names, "metric"], self._chart
        place = names.index(shown) if shown in names else 0
        self._chart = names[(place + 1) % len(names)]
        self.update()

    def action_previous(self) -> None:
        """Show the method's previous metric, or fewer rounds of the timeline."""
        self._move_metric(-1)

    def action_next(self) -> None:
        """Show the method's next metric, or more rounds of the timeline."""
        self._move_metric(1)

    def _move_metric(self, by: int) -> None:
        if self.has_class("-timeline"):
            self._span = min(max(self._span + by, 0), len(SPANS) - 1)
            self.update()
            return
        if self.has_class("-wide") or self._chart == "metric":
            self._metric += by
        else:
            self._chart = "metric"
        self.update()

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """One row per round: its seconds by purpose, of the machine, and of each client shown."""
        curves, shown = view.curves, view.shown
        spent = {name: values[:shown] for name, values in seconds_by_part(curves).items()}
        columns = ["round", "seconds", *spent, "cpu", "memory", "gpu_memory"]
        clock = [curves.clock, curves.joules] if has_clock(view) else []
        columns += ["simulated_seconds", "joules"][: len(clock)]
        clients = client_rows.shown(view)
        columns += [f"client {client}" for client in clients]
        took = curves.client_seconds.select(clients)
        single = (curves.seconds, *spent.values(), curves.cpu, curves.memory, curves.gpu_memory, *clock)
        return columns, [
            [row + 1, *(_known(each[row]) for each in single), *map(_known, took[row])]
            for row in range(shown)
        ]


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
    times = now / median if median > 0 else np.full(len(clients), np.nan)
    names, words = [models[client] for client in clients], [doing[each] if doing else "" for each in clients]

    def pace(ratio: float) -> str:
        return NONE if ratio != ratio else f"{ratio:.1f}"

    columns = (
        Texts(list(map(str, clients)), values=clients),
        Texts(names, values=[name.casefold() for name in names]),
        Texts(words, lambda at: client_rows.doing_tone(words[at])),
        Texts(each_once(seconds, now), values=now.tolist()),
        Texts(each_once(pace, times), lambda at: "loss" if times[at] >= SLOW else "muted", times.tolist()),
        Texts(each_once(seconds, means), values=means.tolist()),
        Texts(list(map(str, counts.tolist())), values=counts.tolist()),
        Trends(lambda at: Trend(tuple(histories[at, -TREND:].tolist()), top)),
    )
    return RowsByColumn(clients, columns, lambda at: f"{clients[at]} {names[at]} {words[at]}")


def facts_of(view: View) -> list[tuple[str, str]]:
    """The time of the round shown by purpose, and its use of the machine."""
    if not view.shown:
        return _machine(view)
    curves = view.curves.upto(view.shown)
    total = float(curves.seconds[-1])
    facts = [("time", f"{seconds(total)}, {duration(float(curves.seconds.sum()))} in all")]
    facts += _simulated(view)
    for name, spent in seconds_by_part(curves).items():
        took = float(spent[-1])
        if np.isfinite(took) and (took > 0 or name != "waiting"):
            within = f" ({percent(took / total)})" if name in TIME_PARTS[:3] and total > 0 else ""
            facts.append((name, f"{seconds(took)}{within}"))
    if np.isfinite(curves.workers[-1]):
        facts.append(("workers", f"{curves.workers[-1]:.0f}, busy {percent(float(busy_share(curves)[-1]))}"))
    return facts + _machine(view, curves.cpu[-1] / total, curves.memory[-1], curves.gpu_memory[-1])


def has_clock(view: View) -> bool:
    """Whether all rounds up to the one shown have simulated time."""
    return view.shown > 0 and bool(np.isfinite(view.curves.clock[: view.shown]).all())


def _simulated(view: View) -> list[tuple[str, str]]:
    """Simulated time and energy of the round shown, and of all rounds up to it."""
    if not has_clock(view):
        return []
    curves = view.curves.upto(view.shown)
    began = float(curves.clock[-2]) if view.shown > 1 else 0.0
    return [
        ("simulated", f"{span(float(curves.clock[-1]) - began)}, {span(float(curves.clock[-1]))} in all"),
        ("energy", f"{amount(float(curves.joules[-1]))} J, {amount(float(curves.joules.sum()))} J in all"),
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
        return curves.cpu / curves.seconds
    return curves.memory if name == "memory" else curves.gpu_memory


def varies(values: Array) -> bool:
    """Whether a line of these shows more than one number."""
    known = values[np.isfinite(values)]
    return known.size > 0 and float(np.ptp(known)) > FLAT * float(known.max())


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
