"""The texts of a study's board: its rows, and what there is to know of the row and the point under the cursor."""

from collections.abc import Callable, Mapping

from simulator.results.analysis.costs import Cost
from simulator.studies.board import Board, BoardRow
from simulator.studies.cells import PointCell
from simulator.studies.trial_board import TrialRow
from tui.app.charts.table import Cell, Column
from tui.app.panels.board_grid import GridRow
from tui.app.panels.session_list import STATES
from tui.common.formatting import NONE, amount, duration, percent, points, size

SETTINGS = (Column("setting", stretch=True, names=True, worth=10, least=10),)
TRIALS = (
    Column("", worth=9),
    Column("trial", stretch=True, names=True, worth=10, least=12),
    Column("rung", numeric=True, worth=9),
)
OF_TRIALS = (Column("eval", numeric=True, worth=9), Column("values", stretch=True, worth=7, least=12))
ONE_SEED = "one seed: no interval"
Fact = tuple[str, str]


def of_settings(board: Board, wide: bool) -> tuple[list[GridRow], tuple[Column, ...]]:
    """The rows of the settings, and the columns after the seeds.

    wide: intervals have their ends, and not half their width.
    """
    has_paper = any(row.paper for row in board.rows)
    mean = "mean" if board.round is None else f"mean at r{board.round}"
    columns = [Column(f"{mean} [95 %]" if wide else f"{mean} ±95 %", numeric=True, worth=9)]
    if board.baseline:
        title = f"Δ vs {board.baseline} [95 %]" if wide else "Δ ±95 %"
        columns.append(Column(title, "Δ", numeric=True, worth=7))
    if has_paper:
        columns.append(Column("paper", numeric=True, worth=6))
    rows = []
    for row in board.rows:
        after = [_mean(row, wide)]
        after += [_difference(row, wide)] * bool(board.baseline) + [_paper(row)] * has_paper
        rows.append(GridRow(row.label, (row.label,), tuple(map(of_point, row.cells)), tuple(after)))
    return rows, tuple(columns)


def of_trials(board: Board) -> list[GridRow]:
    """The rows of a tuning study's trials."""
    if board.trials is None:
        return []
    return [
        GridRow(
            name_of(row),
            (
                Cell("best", "gain") if row.is_best else "",
                name_of(row),
                f"{row.rung}/{board.trials.rungs}",
            ),
            tuple(map(_progress, row.cells)),
            ("diverged" if row.lost else _hundred(row.score), row.words),
            "muted" if row.out or row.lost else "plain",
        )
        for row in board.trials.rows
    ]


def name_of(trial: TrialRow) -> str:
    """A trial's method and number."""
    return f"{trial.method} t{trial.number:02d}"


def of_point(cell: PointCell | None) -> Cell | None:
    """A point's accuracy in per cent and the symbol of its state, with the round unless it is finished."""
    if cell is None:
        return None
    if cell.state == "waiting":
        return Cell(NONE, "muted")
    glyph, tone = STATES.get(cell.state, ("?", "plain"))
    if cell.error:
        return Cell(STATES["damaged"][0], "warning")
    accuracy = "" if cell.accuracy is None else f"{_hundred(cell.accuracy)} "
    return Cell(f"{accuracy}{glyph}{'' if cell.state == 'finished' else cell.round}", tone)


def _progress(cell: PointCell | None) -> Cell | None:
    """The round of a trial's point, and the symbol of its state."""
    if cell is None:
        return None
    if cell.state == "waiting":
        return Cell(NONE, "muted")
    glyph, tone = STATES["damaged"] if cell.error else STATES.get(cell.state, ("?", "plain"))
    return Cell(f"r{cell.round} {glyph}", tone)


def facts(board: Board, row: BoardRow, seed: int) -> list[Fact]:
    """What there is to know of a setting, and of its point with the seed of this number."""
    cell = row.cells[seed] if seed < len(row.cells) else None
    found = [(f"seed {cell.seed}", said(cell))] if cell else []
    if cell and cell.error:
        found.append(("damaged", cell.error))
    done, when = f"{row.finished} of {len(row.points)} seeds finished", after_round(board)
    if row.accuracy is None:
        found.append((row.label, f"no accuracy yet; {done}"))
    else:
        between = _interval(row.interval) if row.interval else ONE_SEED
        found.append((row.label, f"{percent(row.accuracy.mean)}{when}, {between}; {done}"))
    if (change := row.difference) is not None:
        between = (
            f"[{', '.join(map(points, change.interval))}]" if change.interval else "one pair: no interval"
        )
        found.append(
            (f"Δ vs {board.baseline}", f"{points(change.mean)} pp{when}, {between}, {change.pairs} paired")
        )
    elif board.baseline and row.method != board.baseline:
        found.append((f"Δ vs {board.baseline}", "no pair yet: both sessions of a seed need an accuracy"))
    if costs := _costs(row.costs):
        found.append(("cost", f"{costs} per seed{when}"))
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
    """What there is to know of a trial."""
    trials = board.trials
    if trials is None:
        return []
    cell = row.cells[seed] if seed < len(row.cells) else None
    score = (
        f"{percent(row.score)} on eval after round {row.round}" if row.score is not None else "no score yet"
    )
    if row.lost:
        score = "a client diverged, so it loses"
    fate = "; others were promoted" if row.out and not row.lost else ""
    found = [(name_of(row), f"{score}; rung {row.rung} of {trials.rungs}, to round {row.upto}{fate}")]
    if row.is_best:
        chosen = "chosen" if row.method in trials.chosen else "best so far"
        found.append((chosen, row.words))
    else:
        found.append(("values", row.words))
    if row.boundary:
        where = f"At the boundary of its range: {', '.join(row.boundary)}. A wider range may be better."
        found.append(("remark", where))
    if cell:
        found.append((f"seed {cell.seed}", said(cell)))
        found += [("damaged", cell.error)] * bool(cell.error)
    return [*found, ("budget", trials.budget), ("score", trials.scored)]


def said(cell: PointCell) -> str:
    """A point in words."""
    words = f"{cell.point}: {cell.state}"
    if cell.linked:
        words += f", uses the session {cell.linked}"
    if cell.state != "waiting" and not cell.error:
        words += f", round {cell.round} of {cell.rounds}"
    if cell.accuracy is not None:
        words += f", {percent(cell.accuracy)}, best {percent(cell.best)}"
    return words


def _mean(row: BoardRow, wide: bool) -> str:
    if row.accuracy is None:
        return NONE
    if row.interval is None:
        return _hundred(row.accuracy.mean)
    return f"{_hundred(row.accuracy.mean)} {_interval(row.interval) if wide else _half(row.interval)}"


def _difference(row: BoardRow, wide: bool) -> str:
    if row.difference is None:
        return NONE
    interval, mean = row.difference.interval, points(row.difference.mean)
    if interval is None:
        return mean
    return f"{mean} [{', '.join(map(points, interval))}]" if wide else f"{mean} {_half(interval)}"


def _half(interval: tuple[float, float]) -> str:
    """Half the width of an interval."""
    return f"±{50 * (interval[1] - interval[0]):.1f}"


def _paper(row: BoardRow) -> str:
    """The published values, in parentheses if they are not comparable."""
    if not row.paper:
        return NONE
    values = "/".join(dict.fromkeys(_printed(each.accuracy) for each in row.paper)).replace(" %", "")
    return f"({values})" if row.paper[0].details else values


def _printed(accuracy: float | None) -> str:
    return "failed to converge" if accuracy is None else f"{100 * accuracy:.2f} %"


def _interval(interval: tuple[float, float]) -> str:
    """The ends of an interval of accuracies, cut at 0 and 100."""
    low, high = max(interval[0], 0.0), min(interval[1], 1.0)
    return f"[{_hundred(low)}, {_hundred(high)}]"


def _hundred(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.1f}"


def _costs(costs: Mapping[Cost, float]) -> str:
    """The costs that there are."""
    formats: dict[Cost, Callable[[float], str]] = {
        "bytes": size,
        "FLOPs": lambda value: f"{amount(value)} FLOPs",
        "seconds": duration,
        "simulated seconds": lambda value: f"{duration(value)} simulated",
        "joules": lambda value: f"{amount(value)} J",
    }
    return ", ".join(
        formats[cost](value) for cost, value in costs.items() if cost in formats and value == value
    )
