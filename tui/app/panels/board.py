"""A study's board: its points by setting and seed, its settings over their costs, and what is known of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message
from textual.widget import Widget

from simulator.base.units import size_unit
from simulator.results.analysis.costs import COSTS, SIMULATED, Cost, pareto_front
from simulator.studies.board import Board, BoardRow, PointCell, StudySummary, TrialRow
from tui.app.charts.look import BOLD, Canvas, Look
from tui.app.charts.scatter import TradeoffFigure, TradeoffPoint, draw_tradeoff
from tui.app.panels.base import PERCENT, WIDE, Facts, Part
from tui.app.view import SessionOpened
from tui.app.widgets.canvas_widget import CanvasWidget
from tui.app.widgets.screen import look_of, offer_focus, room
from tui.app.widgets.table import Cell, Column, Row, Rows, Table, Tone, layout
from tui.common.formatting import NONE, amount, duration, percent, points, size

STATES: dict[str, tuple[str, Tone]] = {
    "running": ("▸", "gain"),
    "pausing": ("‖", "highlight"),
    "paused": ("‖", "highlight"),
    "stopping": ("■", "highlight"),
    "stopped": ("■", "muted"),
    "finished": ("✓", "plain"),
    "interrupted": ("!", "warning"),
    "failed": ("✗", "warning"),
    "damaged": ("✗", "warning"),
    "silent": ("!", "warning"),
}
"""The symbol before the word for a state, and its color."""
FIRST, SHOWN, PASSED = 8, 5, 1
"""The worth of the first two columns of seeds in sight, of the others, and of those before them."""


class Grid(Table):
    """Rows of cells by seed, with texts before and after them. Enter is `Table.Chosen`, as in every table."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "seed(-1)", "seed before", show=False),
        Binding("right,l", "seed(1)", "next seed", show=False),
    ]

    def __init__(self) -> None:
        super().__init__((), cursor=True)
        self._seeds: Sequence[str] = ()
        self._before: Sequence[Column] = ()
        self._after: Sequence[Column] = ()
        self.seed = 0
        """The number of the seed under the cursor."""
        self._first = 0
        """The first seed in sight."""

    def show_grid(
        self, rows: Sequence[Row], before: Sequence[Column], seeds: Sequence[str], after: Sequence[Column]
    ) -> None:
        self._before, self._seeds, self._after = before, seeds, after
        self.seed = min(self.seed, max(len(seeds) - 1, 0))
        self._show(tuple(rows))

    def action_seed(self, steps: int) -> None:
        at = min(max(self.seed + steps, 0), max(len(self._seeds) - 1, 0))
        if at != self.seed:
            self.seed = at
            self._show(self._all)
            self.changed()
            self.post_message(self.CursorMoved(self, self.selected))

    def on_resize(self) -> None:
        super().on_resize()
        self._show(self._all)

    def _show(self, rows: Rows) -> None:
        """Show the rows with the columns near the cursor."""
        at, self._first = len(self._before) + self.seed, min(self._first, self.seed)
        if self._seeds:
            wanted, across = self.measured(rows, self._columns_from(0), look_of(self)), room(self).width
            while self._first < self.seed:
                places = layout(self._columns_from(self._first), wanted, across, 1)
                if any(place.column == at for place in places):
                    break
                self._first += 1
        self.show(rows, self._columns_from(self._first))

    def _columns_from(self, first: int) -> list[Column]:
        """All columns, those of the seeds from `first` on with more worth than those before."""
        columns = list[Column]()
        for at, seed in enumerate(self._seeds):
            worth = PASSED if at < first else FIRST if at < first + 2 else SHOWN
            columns.append(Column(f"{seed} ", numeric=True, worth=worth))
        return [*self._before, *columns, *self._after]

    def draw(self, width: int, height: int, look: Look) -> Canvas:
        canvas = super().draw(width, height, look)
        at = len(self._before) + self.seed
        place = next((each for each in self._places if each.column == at), None)
        line = self._place() - self.scroll_offset.y + self._header
        if self._seeds and place is not None and self.rows and self._header <= line < height:
            canvas.put(line, place.left, "[", look.highlight, BOLD)
            canvas.put(line, place.left + place.width - 1, "]", look.highlight, BOLD)
        return canvas


SETTINGS = (Column("setting", stretch=True, names=True, worth=10, least=10),)
BEFORE_SEEDS = (
    Column("", worth=9),
    Column("trial", stretch=True, names=True, worth=10, least=12),
    Column("rung", numeric=True, worth=9),
)
AFTER_SEEDS = (Column("eval", numeric=True, worth=9), Column("values", stretch=True, worth=7, least=12))
Fact = tuple[str, str]
Interval = tuple[float, float]


def of_settings(board: Board, wide: bool) -> tuple[list[Row], tuple[Column, ...]]:
    has_paper = any(row.paper for row in board.rows)
    title = "mean" if board.round is None else f"mean at r{board.round}"
    columns = [Column(f"{title} [95 %]" if wide else f"{title} ±95 %", numeric=True, worth=9)]
    if board.baseline:
        title = f"Δ vs {board.baseline} [95 %]" if wide else "Δ ±95 %"
        columns.append(Column(title, "Δ", numeric=True, worth=7))
    if has_paper:
        columns.append(Column("paper", numeric=True, worth=6))

    def within(text: str, interval: Interval | None, ends: Callable[[Interval], str]) -> str:
        """A mean with its interval, if it has one: its ends, or half its width."""
        if interval is None:
            return text
        return f"{text} {ends(interval)}" if wide else f"{text} ±{50 * (interval[1] - interval[0]):.1f}"

    rows = []
    for row in board.rows:
        mean, change, paper = row.accuracy, row.difference, NONE
        after = [within(_hundred(mean.mean), row.interval, _interval) if mean else NONE]
        if board.baseline:
            after.append(within(points(change.mean), change.interval, _changes) if change else NONE)
        if row.paper:  # in parentheses if they are not comparable
            paper = "/".join(dict.fromkeys(_printed(each.accuracy) for each in row.paper)).replace(" %", "")
            paper = f"({paper})" if row.paper[0].details else paper
        cells = (row.label, *map(of_point, row.cells), *after, *[paper] * has_paper)
        rows.append(Row(row.label, cells, search=row.label))
    return rows, tuple(columns)


def of_trials(board: Board) -> list[Row]:
    rows = []
    for row in board.trials.rows if board.trials else ():
        name, rung = name_of(row), f"{row.rung}/{board.trials.rungs if board.trials else 0}"
        cells = [of_point(cell, trial=True) for cell in row.cells]
        score = "diverged" if row.lost else _hundred(row.score)
        tone: Tone = "muted" if row.out or row.lost else "plain"
        best = Cell("best", "gain") if row.is_best else ""
        rows.append(Row(name, (best, name, rung, *cells, score, row.words), tone, search=name))
    return rows


def name_of(trial: TrialRow) -> str:
    return f"{trial.method} t{trial.number:02d}"


def of_point(cell: PointCell | None, trial: bool = False) -> str | Cell:
    """A point's accuracy in per cent, the symbol of its state, and its round unless finished, between two spaces."""
    if cell is None:
        return ""
    glyph, tone = STATES["damaged"] if cell.error else STATES.get(cell.state, ("?", "plain"))
    text = glyph
    if cell.state == "waiting":
        text, tone = NONE, "muted"
    elif trial:
        text = f"r{cell.round} {glyph}"
    elif not cell.error:
        accuracy = "" if cell.accuracy is None else f"{_hundred(cell.accuracy)} "
        text = f"{accuracy}{glyph}{'' if cell.state == 'finished' else cell.round}"
    return Cell(f" {text} ", tone)


def facts(board: Board, row: BoardRow, seed: int) -> list[Fact]:
    found = _point_facts(row, seed)
    done, when = f"{row.finished} of {len(row.points)} seeds finished", after_round(board)
    if row.accuracy is None:
        found.append((row.label, f"no accuracy yet; {done}"))
    else:
        between = _interval(row.interval) if row.interval else "one seed: no interval"
        found.append((row.label, f"{percent(row.accuracy.mean)}{when}, {between}; {done}"))
    if (change := row.difference) is not None:
        between = _changes(change.interval) if change.interval else "one pair: no interval"
        said = f"{points(change.mean)} pp{when}, {between}, {change.pairs} paired"
        found.append((f"Δ vs {board.baseline}", said))
    elif board.baseline and row.method != board.baseline:
        found.append((f"Δ vs {board.baseline}", "no pair yet: both sessions of a seed need an accuracy"))
    if costs := [COST_TEXTS[cost](each) for cost, each in row.costs.items() if cost in COST_TEXTS]:
        found.append(("cost", f"{', '.join(costs)} per seed{when}"))
    if row.paper:
        values = dict.fromkeys(f"{_printed(each.accuracy)} ({each.place})" for each in row.paper)
        found.append(("paper", " / ".join(values)))
        if details := row.paper[0].details:
            found.append(("remark", f"Not comparable with the published value: {', '.join(details)}."))
    return [*found, *(("remark", note) for note in board.notes)]


def after_round(board: Board) -> str:
    """The round that an unfinished board compares its rows at, in words."""
    return "" if board.round is None else f" after round {board.round}"


def trial_facts(board: Board, row: TrialRow, seed: int) -> list[Fact]:
    if (trials := board.trials) is None:
        return []
    score = "no score yet"
    if row.lost:
        score = "a client diverged, so it loses"
    elif row.score is not None:
        score = f"{percent(row.score)} on eval after round {row.round}"
    fate = "; others were promoted" if row.out and not row.lost else ""
    chosen = "chosen" if row.method in trials.chosen else "best so far"
    found = [
        (name_of(row), f"{score}; rung {row.rung} of {trials.rungs}, to round {row.upto}{fate}"),
        (chosen if row.is_best else "values", row.words),
    ]
    if row.boundary:
        where = f"At the boundary of its range: {', '.join(row.boundary)}. A wider range may be better."
        found.append(("remark", where))
    return [*found, *_point_facts(row, seed), ("budget", trials.budget), ("score", trials.scored)]


def _point_facts(row: BoardRow | TrialRow, seed: int) -> list[Fact]:
    """The state of a row's point with the seed of this number, if there is one."""
    cell = row.cells[seed] if seed < len(row.cells) else None
    if cell is None:
        return []
    words = f"{cell.point}: {cell.state}"
    if cell.linked:
        words += f", uses the session {cell.linked}"
    if cell.state != "waiting" and not cell.error:
        words += f", round {cell.round} of {cell.rounds}"
    if cell.accuracy is not None:
        words += f", {percent(cell.accuracy)}, best {percent(cell.best)}"
    return [(f"seed {cell.seed}", words)] + [("damaged", cell.error)] * bool(cell.error)


def _changes(interval: Interval) -> str:
    return f"[{', '.join(map(points, interval))}]"


def _printed(accuracy: float | None) -> str:
    return "failed to converge" if accuracy is None else f"{100 * accuracy:.2f} %"


def _interval(interval: Interval) -> str:
    """The ends of an interval of accuracies, cut at 0 and 100."""
    return f"[{_hundred(max(interval[0], 0.0))}, {_hundred(min(interval[1], 1.0))}]"


def _hundred(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.1f}"


def _time(seconds: float) -> str:
    """A length of time. One of less than half a second has a significant digit."""
    return f"{seconds:.1g} s" if 0 < seconds < 0.5 else duration(seconds)


COST_TEXTS: dict[Cost, Callable[[float], str]] = {
    "bytes": size,
    "FLOPs": lambda value: f"{amount(value)} FLOPs",
    "seconds": _time,
    "simulated seconds": lambda value: f"{_time(value)} simulated",
    "joules": lambda value: f"{amount(value)} J",
}
POINTS, TRIALS, PARETO = "points", "trials", "Pareto"
READING = "Reading the study…"
NO_POINTS = "No final seed yet: each method first needs its choice of values."
NOTHING = "No point has an accuracy yet."


class StudyBoard(Container):
    """Shows one study at a time. Enter on a point opens its session."""

    DEFAULT_CSS = """
    StudyBoard { width: 1fr; height: 1fr; display: none; layout: vertical; }
    StudyBoard > .about { height: 35%; min-height: 5; max-height: 9; }
    SessionsPanel.-tall StudyBoard > .about { height: 11; }
    """

    def __init__(self) -> None:
        self._grid, self._chart, self._facts = Grid(), Tradeoff(), Facts()
        self._cells, self._plot = Part("study", self._grid), Part("Pareto", self._chart)
        self._about = Part("point", self._facts, classes="about")
        self._board: Board | None = None
        self._study: StudySummary | None = None
        self._mode = POINTS
        self._cost: Cost = "bytes"
        self.folder: Path | None = None
        """The study that is open."""
        super().__init__(self._cells, self._plot, self._about)

    def open(self, study: StudySummary) -> None:
        """Open a study. Its board comes with the next reading."""
        self.folder, self._board, self._study = Path(study.path), None, study
        self._mode = ""  # the first of `modes`, once they are known
        self._draw()

    def close(self) -> None:
        self.folder = self._board = self._study = None

    def follow(self, study: StudySummary | None, words: str) -> None:
        self._grid.filter(words)
        if study is not None and study != self._study:
            self._study = study
            self._draw()

    def show(self, board: Board) -> None:
        if board.folder == self.folder:
            self._board = board
            self._mode = self._mode if self._mode in self.modes else self.modes[0]
            self._draw()

    @property
    def modes(self) -> tuple[str, ...]:
        trials = (TRIALS,) if self._board is not None and self._board.trials else ()
        return (*trials, POINTS, PARETO)

    @property
    def next_mode(self) -> str:
        at = self.modes.index(self._mode) if self._mode in self.modes else 0
        return self.modes[(at + 1) % len(self.modes)]

    def cycle(self) -> None:
        self._mode = self.next_mode
        self._draw()
        self.call_after_refresh(self.take_focus)

    def next_cost(self) -> None:
        costs = self._costs()
        at = costs.index(self._cost) if self._cost in costs else -1
        self._cost = costs[(at + (self._mode == PARETO)) % len(costs)]
        if self._mode != PARETO:
            self._mode = PARETO
            self.call_after_refresh(self.take_focus)
        self._draw()

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    def take_focus(self) -> None:
        if self.folder is not None and self.is_on_screen:
            offer_focus(self.screen, self.first())

    def first(self) -> Widget:
        return self._chart if self._mode == PARETO else self._grid

    def _costs(self) -> tuple[Cost, ...]:
        rows = self._board.rows if self._board else ()
        known = {cost for row in rows for cost in row.costs}
        return tuple(each for each in (*COSTS, *SIMULATED) if each in known) or ("bytes",)

    def _draw(self) -> None:
        board, study = self._board, self._study
        plotted = self._mode == PARETO and board is not None
        self._cells.display, self._plot.display = not plotted, plotted
        if study is None:
            return
        if board is None or board.error:
            self._cells.caption(f"study {study.name}")
            self._cells.say(READING if board is None else board.error)
            self._facts.tell([])
            return
        if self._mode == PARETO:
            cost = self._cost if self._cost in self._costs() else self._costs()[0]
            figure = tradeoff(board, cost, str(self._grid.selected or ""))
            when = after_round(board)
            said = f"{study.name}: accuracy in % over {cost}{',' * bool(when)}{when}"
            self._plot.caption(f"{said}, means over seeds", said)
            self._plot.say(None if figure.points else NOTHING)
            self._chart.show(figure)
        else:
            self._draw_grid(board, f"{study.name}: {study.state}")
        self._draw_facts()

    def _draw_grid(self, board: Board, head: str) -> None:
        if self._mode == TRIALS and board.trials is not None:
            rows = of_trials(board)
            best = sum(bool(row.boundary) for row in board.trials.rows)
            warned = f", {best} best at a boundary" if best else ""
            self._cells.caption(f"{head}, {len(rows)} trials{warned}")
            self._grid.show_grid(rows, BEFORE_SEEDS, board.trials.seeds, AFTER_SEEDS)
        else:
            rows, columns = of_settings(board, wide=room(self).width >= WIDE)
            done, every = sum(row.finished for row in board.rows), sum(len(row.points) for row in board.rows)
            what = "final seeds" if board.trials else "points"
            lead = head.removesuffix("finished") if head.endswith(": finished") else f"{head}, "
            said = f"{lead}{done} of {every} {what} finished"
            self._cells.caption(f"{said}: accuracy in %, by seed", f"{said}: accuracy in %", said)
            self._grid.show_grid(rows, SETTINGS, board.seeds, columns)
        self._cells.say(None if rows else NO_POINTS)

    def _draw_facts(self) -> None:
        found, board, title, known = self._row(), self._board, "point", list[Fact]()
        if board is not None and found is not None:
            if isinstance(found, TrialRow):
                title, known = name_of(found), trial_facts(board, found, self._grid.seed)
            else:
                title, known = found.label, facts(board, found, self._grid.seed)
        self._about.caption(title)
        self._facts.tell(known)

    def _row(self) -> BoardRow | TrialRow | None:
        """The row under the cursor, or the chosen one of the chart."""
        if (board := self._board) is None:
            return None
        if self._mode == TRIALS and board.trials is not None:
            return next((each for each in board.trials.rows if name_of(each) == self._grid.selected), None)
        key = self._chart.figure.chosen if self._mode == PARETO else self._grid.selected
        return next((each for each in board.rows if each.label == key), None)

    def point(self) -> PointCell | None:
        row = self._row()
        cells = row.cells if row is not None else ()
        return cells[self._grid.seed] if self._grid.seed < len(cells) else None

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        message.stop()
        if message.table is self._grid:
            self._draw_facts()

    def on_tradeoff_chosen(self) -> None:
        self._draw_facts()

    def on_table_chosen(self, message: Table.Chosen) -> None:
        message.stop()
        cell = self.point()
        if cell is None or cell.state == "waiting":
            self.notify("This point has not begun, so it has no session yet.", markup=False)
        else:
            self.post_message(SessionOpened(cell.folder))

    def table(self) -> tuple[list[str], list[list[object]]]:
        """One row per point, with its setting's numbers."""
        columns = ["setting", "point", "state", "round", "rounds", "accuracy"]
        columns += ["mean", "low", "high", "difference", "difference_low", "difference_high", "paper"]
        rows: list[list[object]] = []
        for row in self._board.rows if self._board else ():
            change, ends = row.difference, row.interval or (None, None)
            between = (change.interval if change else None) or (None, None)
            paper = row.paper[0].accuracy if row.paper else None
            numbers = row.accuracy and row.accuracy.mean, *ends, change and change.mean, *between, paper
            rows += [
                [row.label, each.point, each.state, each.round, each.rounds, each.accuracy, *numbers]
                for each in row.points
            ]
        return columns, rows


def tradeoff(board: Board, cost: Cost, chosen: str = "") -> TradeoffFigure:
    """The settings of a board as points over a cost. Those without an accuracy or the cost are left out."""
    known = {
        row.label: (row.costs[cost], row.accuracy.mean)
        for row in board.rows
        if row.accuracy is not None and cost in row.costs
    }
    front, unit, one = pareto_front(known), str(cost), 1
    if cost == "bytes":
        unit, one = size_unit(max((x for x, _ in known.values()), default=0.0))
    unfinished, points = {row.label for row in board.rows if row.finished < len(row.points)}, []
    for label, (x, y) in known.items():
        points.append(TradeoffPoint(label, x / one, y * PERCENT, (x, y) in front, label in unfinished))
    return TradeoffFigure(tuple(points), unit, chosen if chosen in known else next(iter(known), ""))


class Tradeoff(CanvasWidget, can_focus=True):
    """A scatter plot with names. Arrows choose the next point by its cost."""

    DEFAULT_CSS = "Tradeoff { width: 1fr; height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l,down,j", "choose(1)", "next point", show=False),
        Binding("left,h,up,k", "choose(-1)", "point before", show=False),
    ]

    @dataclass
    class Chosen(Message):
        name: str

    def __init__(self) -> None:
        super().__init__()
        self.figure = TradeoffFigure()

    def show(self, figure: TradeoffFigure) -> None:
        if figure != self.figure:
            self.figure = figure
            self.changed()

    def action_choose(self, steps: int) -> None:
        names = [each.name for each in sorted(self.figure.points, key=lambda each: (each.x, each.y))]
        if names:
            at = names.index(self.figure.chosen) + steps if self.figure.chosen in names else 0
            self.show(replace(self.figure, chosen=names[min(max(at, 0), len(names) - 1)]))
            self.post_message(self.Chosen(self.figure.chosen))

    def draw(self, width: int, height: int, look: Look) -> Canvas:
        return draw_tradeoff(self.figure, width, height, look)
