"""The chart of Compare: a line for each session, or for all seeds of a study's, each with a fixed color."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, partialmethod
from pathlib import Path
from statistics import fmean

from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from simulator.base.units import AT_LEAST, at_least
from simulator.results.analysis import axes, measures
from simulator.results.analysis.caveats import rows_differ
from simulator.results.analysis.clients import best_round
from simulator.results.analysis.comparison import common_round, common_target, differences, standing
from simulator.results.analysis.costs import COSTS, Cost, comparable_costs, spent
from simulator.results.analysis.gain import verdict
from simulator.results.analysis.ledger import NO_SCORE, Divergence
from simulator.results.analysis.run import SessionData
from simulator.results.figures.palette import OKABE_ITO, in_order, looks_of
from simulator.studies.selection import Seeds, by_seed, study_axes
from tui.app.charts.chart import KEYS, Band, Figure, Series
from tui.app.charts.look import GLYPHS
from tui.app.panels.base import PERCENT, Part, SizedPanel, at_best, at_most, no_match, sizes
from tui.app.view import View
from tui.app.widgets import Column, LineChart, Row, Table
from tui.app.widgets.screen import glyphs_of
from tui.common.cells import fit
from tui.common.formatting import (
    NONE,
    amount,
    at_round,
    course,
    duration,
    percent,
    size,
    spelled,
    text_of,
    wrapped,
)

OF_CLIENTS = "accuracy of clients"
NO_TEST = "None of these sessions has measured its test part. Early versions measured only accuracy."
UNKNOWN = {
    "test loss": NO_TEST,
    "test F1": NO_TEST,
    "CKA": "None of these sessions has measured CKA. In a running session, press c to measure it. Start a run with "
    "--set cka.every=5 to measure it every fifth round.",
    "selected on eval": "None of these sessions has an eval part to select rounds on. Start a run with "
    "--set data.split=8:1:1 to make one.",
}
"""The sentence if no session has such a value."""
UNTRAINED = "These sessions have no score: every client diverged in every round."


def is_untrained(line: Seeds) -> bool:
    """Whether every client of one of its sessions diverged in every round."""
    return any(Divergence.of(run.totals).untrained for run in line.runs)


def shown_of(runs: Iterable[SessionData]) -> tuple[str, ...]:
    """The possible y axes: the measures, the users' own metrics of these sessions, and the accuracy of clients."""
    measured = dict.fromkeys(name for run in runs for name in measures.part_measures(run.records))
    own = (name for name in measured if name not in ("loss", "f1"))
    return (*measures.MEASURES, *own, OF_CLIENTS)


def key_of(place: int) -> str:
    return KEYS[place] if place < len(KEYS) else ""


def different_clients(lines: Sequence[Seeds], clients: Sequence[int]) -> list[str]:
    """A note if clients of one number have different data in these sessions, and so are different clients."""
    data = [(run, run.document.get("data_fingerprint")) for line in lines for run in line.runs]
    known = [(run, fingerprint) for run, fingerprint in data if fingerprint]
    others = [run for run, fingerprint in known if fingerprint != known[0][1]]
    if not others or not clients:
        return []
    numbers = ", ".join(map(str, clients))
    whose = f"Client {numbers} has" if len(clients) == 1 else f"Clients {numbers} have"
    said = f"{whose} other data in {others[0].name} than in {known[0][0].name}: these are different clients."
    mixed = any(len({run.document.get("data_fingerprint") for run in line.runs}) > 1 for line in lines)
    return [f"{said} A line over seeds is the mean of different clients." if mixed else said]


def figure(
    lines: Sequence[Seeds],
    places: Sequence[int],
    shown: str,
    cost: Cost,
    clients: Sequence[int],
    front: Path | None = None,
) -> Figure:
    """The lines over their costs. A fork starts where it left a shown session.

    If all are of one study, its name is left out. Of several bands, which would hide each other, one is shown: of the
    line whose first session is `front`, else the first.
    """
    known = {run.document.get("id") for line in lines for run in line.runs}
    studies = {line.name.rpartition("/")[0] for line in lines}
    prefix = f"{studies.pop()}/" if len(studies) == 1 and len(lines) > 1 else "/"
    drawn = list[tuple[Seeds, str, int, int, measures.Line]]()
    for session, place, (colour, again) in zip(lines, places, colours(lines, places), strict=True):
        if is_untrained(session):
            continue  # the accuracies of its first models are no result
        curves = _curves(session.label.removeprefix(prefix), key_of(place), shown, clients)
        for stroke, (key, name, values) in enumerate(curves, again * len(curves)):
            found = measures.averaged(name, session.runs, measures.after_fork(values, known), cost)
            drawn.append((session, key, colour, stroke, found))
    over, unit, x_unit = [line.x for *_, line in drawn], str(cost), 1.0
    if cost == "bytes":
        over, unit, x_unit = sizes(*over)
    shares = measures.is_share(shown) or shown == OF_CLIENTS
    scale = PERCENT if shares else 1.0
    series, bands = list[Series](), dict[Path, Band]()
    for (session, key, colour, stroke, one), x in zip(drawn, over, strict=True):
        mean, short = one.mean * scale, session.name.removeprefix(prefix)
        series.append(Series(one.label, mean, x, True, colour, key, stroke, short))
        if one.std is not None:
            reach = one.std * scale
            name = f"std over {one.n} seeds of {key}"
            bands.setdefault(session.runs[0].folder, Band(name, mean - reach, mean + reach, x, colour))
    band = bands.get(front or Path(), next(iter(bands.values()), None))
    return Figure(
        series, band, x_label=unit, unit="%" if shares else "", crowd="sessions", bands=[*bands.values()],
        over=cost, x_unit=x_unit, named=True,
    )  # fmt: skip


def colours(lines: Sequence[Seeds], places: Sequence[int]) -> list[tuple[int, int]]:
    """Each line's color, and the number of earlier lines with the same."""
    looks = looks_of([axes.key_of(line.runs[0], ("method",))[0] for line in lines])
    if looks is None:
        return [(in_order(place).colour, place // len(OKABE_ITO)) for place in places]
    chosen = [look.colour for look in looks]
    return [(colour, chosen[:place].count(colour)) for place, colour in enumerate(chosen)]


def _curves(
    name: str, key: str, shown: str, clients: Sequence[int]
) -> list[tuple[str, str, measures.Values]]:
    """Key, name, and values of a session's line."""
    if shown != OF_CLIENTS:
        return [(key, name, partial(measures.measured, measure=shown))]
    return [(f"{key}:{client}", name, partial(measures.accuracy_of, client=client)) for client in clients]


UNMARKED = (
    "No session is marked. Go to Sessions (s), mark sessions with x, and press v to compare them.\n\n"
    "This panel then draws their accuracies together. y shows losses, CKA, and more. u shows them over rounds, bytes, "
    "FLOPs, seconds, or simulated time. A table shows the cost of reaching a target accuracy."
)
UNREAD = "None of the marked sessions has been read yet. Sessions (s) lists them with ◆."
ALONE = "Mark other sessions with x in Sessions (s) to compare them with this one."
STEP = 0.01  # of the target
NOTE, LOW_NOTE = 3, 1  # rows of the note above the chart, and of a low panel


class ComparePanel(SizedPanel):
    """Sessions in one chart, their results, and their different settings."""

    DEFAULT_CSS = """
    ComparePanel > .upper { height: 1fr; }
    ComparePanel > .caveat { height: auto; color: $text-warning; display: none; }
    ComparePanel > .known { height: auto; max-height: 2; padding: 0 1; display: none; }
    ComparePanel > .table { height: 8; }
    ComparePanel .differences { display: none; }
    ComparePanel.-wide .differences { display: block; width: 46; margin-left: 1; }
    ComparePanel.-full .differences { width: 80; }
    ComparePanel.-tall > .table { height: 12; }
    ComparePanel.-empty > .table, ComparePanel.-empty .differences { display: none; }
    """

    def __init__(self, id: str) -> None:
        self._unit, self._shown = COSTS[0], str(measures.MEASURES[0])
        self._target: float | None = None  # None: the accuracy that all have reached
        self._chart = LineChart()
        self._table, self._settings = Table(STANDINGS, cursor=True), Table(())
        self._caveat = Static("", classes="caveat", markup=False)
        self._known = Static("", classes="known", markup=False)
        self._curves = Part("compare", self._chart)
        self._sessions = Part("target", self._table)
        self._room = Vertical(self._sessions, classes="table")  # not the part's own height, because of z
        self._differences = Part("different settings", self._settings, classes="differences")
        upper = Horizontal(self._curves, self._differences, classes="upper")
        super().__init__(id, self._caveat, upper, self._known, self._room)

    def draw(self, view: View) -> None:
        runs = view.compared
        self.set_class(not runs, "-empty")
        if not runs:
            self._caveat.display = self._known.display = False
            self._curves.say(UNREAD if view.marked else UNMARKED)
            self._curves.caption("compare")
            return
        if self._unit not in comparable_costs(runs):
            self._unit = COSTS[0]
        if self._shown not in (*measures.MEASURES, OF_CLIENTS) and self._shown not in shown_of(runs):
            self._shown = measures.MEASURES[0]  # the session with this metric is no longer marked
        target = self.target(runs)
        lines = by_seed(runs, view.marked)
        at_most(self._room, len(lines) + 2)  # the chart gets the room that it does not need
        places = view.places.of(lines)
        ledgers = tuple(run.curves for run in runs)
        clients = tuple(sorted(view.pinned) or [view.selected]) if self._shown == OF_CLIENTS else ()
        facts = tuple((run.state, run.error, run.rounds) for run in runs)
        if self.differs("table", ledgers, target, facts):
            seeds = any(len(line.runs) > 1 for line in lines)
            band = "; the selected row shows its band" if seeds and len(lines) > 1 else ""
            self._sessions.caption(f"target {percent(target)} (, lower, . higher){band}")
            upto = common_round(runs)
            rows = [row_of(place, line, target, upto) for place, line in zip(places, lines, strict=True)]
            self._table.show(rows, columns_of(runs, upto))
        self._table.filter(view.filter)
        self._settings.filter(view.filter)
        if self.differs("known", ledgers, self._table.selected):
            said = known(lines, places, self._table.selected)
            self._known.update(spelled(said, glyphs_of(self)))
            self._known.display = bool(said)
        if self.differs("chart", ledgers, self._unit, self._shown, clients, self._table.selected):
            self._draw_chart(lines, places, clients)
        if self.differs("settings", tuple(run.config for run in runs)):
            self._draw_settings(lines, places)
        self._sessions.say(None if self._table.rows else no_match("session"))
        said = no_match("setting") if self._settings.filled else "All settings are equal."
        self._differences.say(None if self._settings.rows else said)
        data = tuple(run.document.get("data_fingerprint") for run in runs)
        low = self.has_class("-short")
        if self.differs("caveats", tuple(run.config for run in runs), clients, data, self.app.size, low):
            self._say_caveats(lines, study_axes(runs, view.marked), clients)

    def target(self, runs: Sequence[SessionData]) -> float:
        """The accuracy to reach: the chosen one, or the highest multiple of five percent that all have reached."""
        return common_target(runs) if self._target is None else self._target

    def _draw_chart(self, lines: Sequence[Seeds], places: Sequence[int], clients: Sequence[int]) -> None:
        front = self._table.selected
        front = front if isinstance(front, Path) else None
        found = figure(lines, places, self._shown, self._unit, clients, front)
        there = any(len(line.y) for line in found.series)
        lost = bool(lines) and all(map(is_untrained, lines))
        self._curves.say(None if there else UNTRAINED if lost else UNKNOWN.get(self._shown))
        self._chart.show(found)
        shown = self._shown if not clients else f"accuracy of client {', '.join(map(str, clients))}"
        band = ", band: std over seeds" if found.band else ""
        self._curves.caption(f"{shown} (y) over {self._unit} (u){band}")

    def _say_caveats(self, lines: Sequence[Seeds], axes: Sequence[str], clients: Sequence[int]) -> None:
        """Notes above the chart: on clients with different data, and on settings that differ between lines."""
        said = [ALONE] if sum(len(line.runs) for line in lines) < 2 else []
        said += different_clients(lines, clients)
        said += rows_differ({line.name: [run.config for run in line.runs] for line in lines}, axes)
        glyphs, width = glyphs_of(self), self.app.size.width  # also before it is laid out
        rows = LOW_NOTE if self.has_class("-short") else NOTE
        text = wrapped(spelled(" ".join(said), glyphs), width)
        if len(text) > rows:
            last = fit(" ".join(text[rows - 1 : rows + 1]), width, GLYPHS[glyphs].ellipsis)
            text = (*text[: rows - 1], last)
        self._caveat.update("\n".join(text))
        self._caveat.display = bool(said)

    def _draw_settings(self, lines: Sequence[Seeds], places: Sequence[int]) -> None:
        """The values of all seeds of a line."""
        of = [line for line in lines for _ in line.runs]
        rows = list[tuple[str, ...]]()
        for name, values in differences([run for line in lines for run in line.runs]):
            said = {line: dict[str, None]() for line in lines}
            for line, value in zip(of, values, strict=True):
                said[line][text_of(value)] = None
            if len({*map(tuple, said.values())}) > 1:
                rows.append((name, *map(", ".join, said.values())))
        columns = [Column("setting", stretch=True, names=True, worth=99)]
        columns += [Column(key_of(each), stretch=True, worth=90 - at) for at, each in enumerate(places)]
        self._settings.show([Row(row[0], row, search=" ".join(row)) for row in rows], columns)

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        """The band belongs to the row under the cursor."""
        if message.table is self._table:
            self.update()

    def labels(self) -> Mapping[str, str]:
        return {"chart": "measure", "previous": "lower", "next": "higher"}

    def idle(self, view: View) -> Sequence[str]:
        return () if view.compared else ("unit", "chart", "previous", "next", "filter")

    def action_unit(self) -> None:
        """Over rounds, bytes, FLOPs, or seconds; if all sessions have a clock, also simulated seconds or joules."""
        units = comparable_costs(self._view.compared if self._view is not None else ())
        self._unit = units[(units.index(self._unit) + 1) % len(units)]
        self._chart.zoom(0)
        self.update()

    def action_chart(self) -> None:
        shown = shown_of(self._view.compared if self._view is not None else ())
        self._shown = shown[(shown.index(self._shown) + 1) % len(shown)]
        self.update()

    def step(self, by: int) -> None:
        if self._view is not None and self._view.compared:
            target = self.target(self._view.compared) + by * STEP
            self._target = min(max(round(target, 4), 0.0), 1.0)
            self.draw(self._view)

    action_previous, action_next = partialmethod(step, -1), partialmethod(step, 1)

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """One row per session: accuracies, and the cost of the target."""
        columns = ["session", "methods", "state", "round", "best", "best_round", "last", "target"]
        columns += [f"{cost}_to_target" for cost in ("rounds", "bytes", "flops", "seconds")]
        rows: list[list[object]] = []
        target = self.target(view.compared) if view.compared else 0.0
        for run in view.compared:
            stands, when = standing(run, target), best_round(run.totals["accuracy"])[1] or None
            took = stands.reached
            cost = [int(took["rounds"]), *(took[each] for each in COSTS[1:])] if took else [None] * 4
            about = [run.name, course(run.methods), run.state, run.round]
            rows.append([*about, stands.best, when, stands.last, target, *cost])
        return columns, rows


STANDINGS = (
    Column("", worth=20),
    Column("session", stretch=True, names=True, worth=19),
    Column("methods", stretch=True, worth=9),
    Column("state", worth=3),
    Column("round", numeric=True, worth=12),
    Column("best", numeric=True, worth=15),
    Column("last", numeric=True, worth=14),
    Column("rounds to", numeric=True, worth=17),
    Column("bytes to", numeric=True, worth=16),
    Column("FLOPs to", numeric=True, worth=8),
    Column("time to", numeric=True, worth=7),
)


def columns_of(runs: Sequence[SessionData], upto: int | None) -> tuple[Column, ...]:
    """STANDINGS with the round of the accuracies. Without a common one, each has its own."""
    if upto is None:
        return STANDINGS
    whole = all(run.round <= upto for run in runs)
    titles = {"best": "best" if whole else f"best to r{upto}", "last": f"at r{upto}"}
    return tuple(replace(each, title=titles.get(each.title, each.title)) for each in STANDINGS)


def known(lines: Sequence[Seeds], places: Sequence[int], selected: object) -> str:
    """What is known of the difference of two lines: that of the row under the cursor, or the second, from the first."""
    others = list(zip(lines, places, strict=True))[1:]
    upto = common_round([run for line in lines for run in line.runs])
    if not others or upto is None:
        return ""
    other, place = next((each for each in others if each[0].runs[0].folder == selected), others[0])
    runs = *lines[0].runs, *other.runs
    if any(run.round and standing(run, 0.0).last is None for run in runs):
        return ""  # all clients of a run diverged in all rounds, so it has no score
    found = verdict(other.runs, lines[0].runs, upto)
    return f"{key_of(place)} {other.name} − {key_of(places[0])} {lines[0].name} = {found}." if found else ""


def row_of(place: int, line: Seeds, target: float, upto: int | None = None) -> Row:
    """A line's row under STANDINGS: key, name, methods, state, rounds, accuracies, and the cost of the target.

    upto: the round of the accuracies; None: the last, which then stands beside it. Of several seeds, accuracies and
    costs are means. If some have not reached the target, all their rounds count, and the means are lower bounds.
    """
    run, alone = line.runs[0], len(line.runs) == 1
    stands = [standing(each, target, upto) for each in line.runs]
    there = sum(each.reached is not None for each in stands)
    cost = ("not yet" if any(each.live for each in line.runs) else "never", NONE, NONE, NONE)
    if there:
        took = [each.reached or spent(each.run.totals) for each in stands]
        mean, least = fmean(each["rounds"] for each in took), "" if there == len(stands) else AT_LEAST
        exactly = f"{mean:.0f}" if alone else f"{mean:.1f}"
        cost = (
            f"{at_least(mean)} ({there}/{len(stands)})" if least else exactly,
            f"{least}{size(fmean(each['bytes'] for each in took))}",
            f"{least}{amount(fmean(each['FLOPs'] for each in took))}",
            f"{least}{duration(fmean(each['seconds'] for each in took))}",
        )
    states = ", ".join(dict.fromkeys("unreadable" if each.error else each.state for each in line.runs))
    rounds = f"{min(each.round for each in line.runs)}/{run.rounds}"
    about = (key_of(place), line.label, course(run.methods), states, rounds)
    best, last = _mean([each.best for each in stands]), _mean([each.last for each in stands])
    numbers = percent(best), percent(last)
    if any(each.untrained for each in stands):
        numbers = NO_SCORE, NO_SCORE  # a mean over the others would hide the failure
    elif alone:
        when = NONE if best is None else at_best(run.totals["accuracy"][:upto])
        numbers = when, at_round(last, None if upto or last is None else run.round)
    return Row(run.folder, (*about, *numbers, *cost), search=" ".join(about))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
