"""The board of a study: its points as they fill, its settings over their costs, or the trials of a tuning study."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message
from textual.widget import Widget

from simulator.base.units import size_unit
from simulator.results.analysis.costs import COSTS, SIMULATED, Cost
from simulator.results.analysis.pareto import pareto_front
from simulator.studies.board import Board, BoardRow
from simulator.studies.cells import PointCell
from simulator.studies.summary import StudySummary
from simulator.studies.trial_board import TrialRow
from tui.app.charts.canvas import Canvas
from tui.app.charts.colours import ColourScheme
from tui.app.charts.glyphs import GlyphSet
from tui.app.charts.tradeoff import TradeoffFigure, TradeoffPoint, draw_tradeoff
from tui.app.messages import SessionOpened
from tui.app.panels import board_words
from tui.app.panels.base import WIDE, Part
from tui.app.panels.board_grid import Grid
from tui.app.panels.chart_parts import PERCENT
from tui.app.panels.facts import Facts
from tui.app.widgets import Table
from tui.app.widgets.canvas_widget import CanvasWidget
from tui.app.widgets.screen import offer_focus
from tui.app.widgets.surface import room

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
        super().__init__()
        self._grid, self._chart, self._facts = Grid(), Tradeoff(), Facts()
        self._cells, self._plot = Part("study", self._grid), Part("Pareto", self._chart)
        self._about = Part("point", self._facts, classes="about")
        self._board: Board | None = None
        self._study: StudySummary | None = None
        self._mode = POINTS
        self._cost: Cost = "bytes"
        self.folder: Path | None = None
        """The study that is open."""

    def compose(self) -> ComposeResult:
        yield self._cells
        yield self._plot
        yield self._about

    def open(self, study: StudySummary) -> None:
        """Open a study. Its board comes with the next reading."""
        self.folder, self._board, self._study = Path(study.path), None, study
        self._mode = ""  # the first of `modes`, once they are known
        self._draw()

    def close(self) -> None:
        self.folder = self._board = self._study = None

    def follow(self, study: StudySummary | None, words: str) -> None:
        """Show the study's present state, and only rows with these words."""
        self._grid.filter(words)
        if study is not None and study != self._study:
            self._study = study
            self._draw()

    def show(self, board: Board) -> None:
        """Show the board of the open study as it is now."""
        if board.folder != self.folder:
            return
        self._board = board
        if self._mode not in self.modes:
            self._mode = self.modes[0]
        self._draw()

    @property
    def modes(self) -> tuple[str, ...]:
        """What there is to show."""
        trials = (TRIALS,) if self._board is not None and self._board.trials else ()
        return (*trials, POINTS, PARETO)

    @property
    def next_mode(self) -> str:
        """The mode after the present one."""
        at = self.modes.index(self._mode) if self._mode in self.modes else 0
        return self.modes[(at + 1) % len(self.modes)]

    def cycle(self) -> None:
        """Show the next of `modes`."""
        self._mode = self.next_mode
        self._draw()
        self.call_after_refresh(self.take_focus)

    def next_cost(self) -> None:
        """Show Pareto over the next cost."""
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
        """The part that takes keys."""
        return self._chart if self._mode == PARETO else self._grid

    def _costs(self) -> tuple[Cost, ...]:
        """The costs that some setting has."""
        rows = self._board.rows if self._board else ()
        known = {cost for row in rows for cost, value in row.costs.items() if value == value}
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
        head = f"{study.name}: {study.state}"
        if self._mode == PARETO:
            self._draw_pareto(board, study.name)
        else:
            self._draw_grid(board, head)
        self._draw_facts()

    def _draw_grid(self, board: Board, head: str) -> None:
        if self._mode == TRIALS and board.trials is not None:
            rows = board_words.of_trials(board)
            best = sum(bool(row.boundary) for row in board.trials.rows)
            warned = f", {best} best at a boundary" if best else ""
            self._cells.caption(f"{head}, {len(rows)} trials{warned}")
            self._grid.show_grid(rows, board_words.TRIALS, board.trials.seeds, board_words.OF_TRIALS)
        else:
            rows, columns = board_words.of_settings(board, wide=room(self).width >= WIDE)
            done = sum(row.finished for row in board.rows)
            every = sum(len(row.points) for row in board.rows)
            what = "final seeds" if board.trials else "points"
            lead = head.removesuffix("finished") if head.endswith(": finished") else f"{head}, "
            said = f"{lead}{done} of {every} {what} finished"
            self._cells.caption(f"{said}: accuracy in %, by seed", f"{said}: accuracy in %", said)
            self._grid.show_grid(rows, board_words.SETTINGS, board.seeds, columns)
        self._cells.say(None if rows else NO_POINTS)

    def _draw_pareto(self, board: Board, name: str) -> None:
        cost = self._cost if self._cost in self._costs() else self._costs()[0]
        figure = tradeoff(board, cost, str(self._grid.selected or ""))
        when = board_words.after_round(board)
        said = f"{name}: accuracy in % over {cost}{',' * bool(when)}{when}"
        self._plot.caption(f"{said}, means over seeds", said)
        self._plot.say(None if figure.points else NOTHING)
        self._chart.show(figure)

    def _draw_facts(self) -> None:
        found = self._row()
        if self._board is None or found is None:
            self._about.caption("point")
            self._facts.tell([])
        elif isinstance(found, TrialRow):
            self._about.caption(board_words.name_of(found))
            self._facts.tell(board_words.trial_facts(self._board, found, self._grid.seed))
        else:
            self._about.caption(found.label)
            self._facts.tell(board_words.facts(self._board, found, self._grid.seed))

    def _row(self) -> BoardRow | TrialRow | None:
        """The row under the cursor, or the chosen one of the chart."""
        board = self._board
        if board is None:
            return None
        if self._mode == TRIALS and board.trials is not None:
            return next(
                (each for each in board.trials.rows if board_words.name_of(each) == self._grid.selected), None
            )
        key = self._chart.figure.chosen if self._mode == PARETO else self._grid.selected
        return next((each for each in board.rows if each.label == key), None)

    def point(self) -> PointCell | None:
        """The point under the cursor."""
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
            numbers: list[object] = [
                row.accuracy and row.accuracy.mean,
                *ends,
                change and change.mean,
                *between,
            ]
            numbers.append(row.paper[0].accuracy if row.paper else None)
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
        if row.accuracy is not None and row.costs.get(cost, float("nan")) == row.costs.get(cost)
    }
    front = pareto_front(known)
    unit, one = (
        size_unit(max((x for x, _ in known.values()), default=0.0)) if cost == "bytes" else (str(cost), 1)
    )
    unfinished = {row.label for row in board.rows if row.finished < len(row.points)}
    points = tuple(
        TradeoffPoint(label, x / one, y * PERCENT, (x, y) in front, label in unfinished)
        for label, (x, y) in known.items()
    )
    names = [each.name for each in points]
    return TradeoffFigure(points, unit, chosen if chosen in names else next(iter(names), ""))


class Tradeoff(CanvasWidget, can_focus=True):
    """A scatter plot with names. Arrows choose the next point by its cost."""

    DEFAULT_CSS = "Tradeoff { width: 1fr; height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l,down,j", "choose(1)", "next point", show=False),
        Binding("left,h,up,k", "choose(-1)", "point before", show=False),
    ]

    @dataclass
    class Chosen(Message):
        """Another point is highlighted."""

        name: str

    def __init__(self) -> None:
        super().__init__()
        self.figure = TradeoffFigure()

    def show(self, figure: TradeoffFigure) -> None:
        """Replace the contents."""
        if figure != self.figure:
            self.figure = figure
            self.changed()

    def action_choose(self, steps: int) -> None:
        names = [each.name for each in sorted(self.figure.points, key=lambda each: (each.x, each.y))]
        if not names:
            return
        at = names.index(self.figure.chosen) + steps if self.figure.chosen in names else 0
        self.show(replace(self.figure, chosen=names[min(max(at, 0), len(names) - 1)]))
        self.post_message(self.Chosen(self.figure.chosen))

    def draw(self, width: int, height: int, scheme: ColourScheme, glyphs: GlyphSet) -> Canvas:
        return draw_tradeoff(self.figure, width, height, scheme, glyphs)
