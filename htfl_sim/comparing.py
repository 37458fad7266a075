"""Several sessions together: one table, one figure, one HTML page.

Sessions are given as on the command line: names, studies, STUDY/POINT, globs such as 't3/*', or tag:NAME.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoints import DiskError, SessionUnreadable
from htfl_sim import folders
from htfl_sim.choices import KINDS, OF_ONE
from htfl_sim.choices import Kind as Kind
from simulator.base.errors import ConfigError, cannot_write, check_output
from simulator.results.analysis import comparison, gain
from simulator.results.analysis.caveats import listed
from simulator.results.analysis.comparison import Pivot, Select, Table
from simulator.results.analysis.feed import read
from simulator.results.analysis.overview import read_overview, read_overviews
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.variance import VarianceTable, variances
from simulator.studies.folder import study_text
from simulator.studies.selection import select as selected

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["KINDS", "Report", "compare", "gains", "pivot", "plot", "report", "variance"]

Place = str | Path
Say = Callable[[str], object]


@dataclass(frozen=True)
class Report:
    """A written HTML page: its file, and its numbers of sessions and figures."""

    file: Path
    sessions: int
    figures: int


def compare(
    names: str | Sequence[str],
    by: str | Sequence[str] = (),
    target: float | None = None,
    baseline: str | None = None,
    select: Select | None = None,
    *,
    last: int = 1,
    columns: Sequence[str] = (),
    at_time: float | str | None = None,
    sessions_dir: Place | None = None,
    say: Say | None = None,
) -> Table:
    """Sessions as one table, grouped by `by`: 'method', 'dataset', any setting; by default, the settings that differ.

    target: also the cost until this mean test accuracy, 0…1. baseline: also the difference from this row. select
    'eval': each row has the settings and round that are best on the eval parts. last: the last accuracy is the mean
    over so many last rounds. columns: the columns to print, by their headings or first words. at_time: compare the
    sessions as they were at this simulated time, in seconds or as "2h". `say` receives notes about sessions that are
    left out; by default, they are warnings. Raises ConfigError, and SessionUnreadable if no session can be read.
    """
    runs, _ = chosen(names, sessions_dir, say)
    return comparison.table(runs, by, target, baseline, select, last, columns, at_time)


def pivot(
    names: str | Sequence[str],
    rows: str,
    columns: str,
    select: Select | None = None,
    *,
    last: int = 1,
    at_time: float | str | None = None,
    sessions_dir: Place | None = None,
    say: Say | None = None,
) -> Pivot:
    """A paper's table: a row for each value of an axis, such as 'method', and a column for each value of another.

    A cell is the mean test accuracy over sessions: selected on eval, or over the last rounds. Raises like `compare`.
    """
    by = (rows, columns)
    found = compare(names, by, select=select, last=last, at_time=at_time, sessions_dir=sessions_dir, say=say)
    if len(found.by) > len(by):
        raise ConfigError(
            "These are trials of a tuning study, and a cell would be their mean. "
            f"Use `by={rows}` for a row for each trial, or wait for the final seeds."
        )
    return Pivot(found)


def gains(
    names: str | Sequence[str],
    by: str | Sequence[str] = (),
    baseline: str = "standalone",
    *,
    last: int = 1,
    margin: float | None = None,
    test: gain.Test | None = None,
    correct: bool = False,
    columns: Sequence[str] = (),
    sessions_dir: Place | None = None,
    say: Say | None = None,
) -> gain.GainTable:
    """Who gains over a baseline method: each client's accuracy less that of the same client in the baseline's session.

    The table has the mean gain with its interval over seeds, the shares of clients that gain and that lose, and the
    gain by architecture and by data size. last: mean over so many last rounds. margin: an accuracy, 0…1; also test
    whether the gain is smaller (TOST). test 't' or 'wilcoxon': also test whether there is a gain. correct: correct
    p values for the number of rows (Holm). Raises like `compare`, and ConfigError where no session has a partner.
    """
    runs, _ = chosen(names, sessions_dir, say)
    return gain.gains(
        runs, by, baseline, last=last, margin=margin, test=test, correct=correct, columns=columns
    )


def variance(
    names: str | Sequence[str],
    by: str | Sequence[str] = (),
    *,
    sessions_dir: Place | None = None,
    say: Say | None = None,
) -> VarianceTable:
    """How much seed.data, seed.init, and seed.training contribute to the variance of the last mean accuracy.

    Groups and `say` are as in `compare`. Raises ConfigError if the seeds of a group are not crossed.
    """
    runs, _ = chosen(names, sessions_dir, say)
    return variances(runs, by)


def plot(
    kind: Kind,
    names: str | Sequence[str],
    out: Place | None = None,
    *,
    sessions_dir: Place | None = None,
    data_dir: Place | None = None,
    say: Say | None = None,
    **options: Any,
) -> "Figure":
    """A matplotlib figure of sessions. `out` also writes it, as .pdf, .svg, or .png.

    KINDS has each kind's options. Every kind takes width='column' or 'page'. partition, tsne, cka, and timeline show
    one session. `say` receives notes about the figure; by default, they are warnings. Raises ConfigError and DataError.
    """
    from simulator.results.figures import style

    checked(kind, options)
    if out is not None:
        if Path(out).suffix.lower() not in style.FORMATS:
            raise ConfigError(f"A figure is written as {', '.join(style.FORMATS)}; '{out}' ends otherwise.")
        check_output(Path(out))
    runs, _ = chosen(names, sessions_dir, say)
    figure = plot_runs(kind, runs, options, data_dir, say)
    if out is not None:
        style.save(figure, Path(out))
    return figure


def plot_runs(
    kind: str,
    runs: Sequence[SessionData],
    options: dict[str, Any],
    data_dir: Place | None,
    say: Say | None = None,
) -> "Figure":
    """A figure of sessions that were read. `say` receives notes; by default, they are warnings."""
    checked(kind, options)
    figure, notes = drawn(kind, runs, options, data_dir)
    _tell(notes, say)
    return figure


def report(
    names: str | Sequence[str],
    out: Place | None = None,
    by: str | Sequence[str] = (),
    target: float | None = None,
    baseline: str | None = None,
    select: Select | None = None,
    *,
    sessions_dir: Place | None = None,
    data_dir: Place | None = None,
    say: Say | None = None,
) -> Report:
    """Write one HTML page about sessions or a study: table, figures, settings, events, environment, and commands.

    out: by default, a file in this folder with the first session's name and .html. Raises like `compare`, and
    ConfigError if the file cannot be written.
    """
    from simulator.results.report.contents import gather, page, pictures

    names, home = _listed(names), folders.sessions_dir(sessions_dir)
    stem = folders.plain_name([names[0].replace("/", "-").rstrip("-*")]) or "report"
    file = Path(out or f"{stem}.html")
    if file.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"A report is written as .html; '{file}' ends otherwise.")
    check_output(file)
    runs, left_out = chosen(names, home, say, whole=True)
    result = comparison.table(runs, by, target, baseline, select)
    figures = pictures(names, runs, result.by, result.select, home, folders.data_folder(data_dir))
    asked, study = None, folders.study_folder(names[0], home) if len(names) == 1 else None
    if study:
        try:
            asked = study_text(study)
        except (SessionUnreadable, DiskError) as error:
            left_out.append(str(error))
    contents = gather(", ".join(names), runs, result, figures, asked, left_out)
    try:
        file.write_text(page(contents), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise cannot_write(file, error) from error
    return Report(file, len(runs), len(figures))


def chosen(
    names: str | Sequence[str], sessions_dir: Place | None, say: Say | None, whole: bool = False
) -> tuple[list[SessionData], list[str]]:
    """The named sessions (`whole`: with all records), and notes on others. Raises SessionUnreadable if none is left."""
    names = _listed(names)
    found = selected(names, folders.sessions_dir(sessions_dir))
    runs, faults = read_overviews(found.sessions, read if whole else read_overview)
    if not runs:
        raise SessionUnreadable(
            faults[0].error if faults else f"nothing has begun in {', '.join(names)} yet."
        )
    left_out = [f"{fault.folder.name} is damaged and left out: {fault.error}" for fault in faults]
    begun = [
        replace(run, trial=found.sessions[run.folder], studies=found.studies[run.folder])
        for run in runs
        if run.totals.rounds
    ]
    waiting = [*(run.name for run in runs if not run.totals.rounds), *found.waiting]
    if waiting:
        has, are = ("has", "is") if len(waiting) == 1 else ("have", "are")
        left_out.append(f"{listed(waiting)} {has} finished no round and {are} left out.")
    _tell(left_out, say)
    if not begun:
        raise SessionUnreadable("none of these sessions has finished a round yet.")
    return begun, left_out


def checked(kind: str, options: dict[str, Any]) -> None:
    """Raise ConfigError for an unknown kind, and for an option that the kind does not have."""
    if kind not in KINDS:
        raise ConfigError(f"'{kind}' is not a kind of figure. Choose one of {', '.join(KINDS)}.")
    for name in options:
        if name not in (*KINDS[kind], "width"):
            ours = ", ".join(KINDS[kind]) or "none"
            raise ConfigError(f"'{name}' changes nothing of '{kind}', which takes {ours}.")


def drawn(
    kind: str, runs: Sequence[SessionData], options: dict[str, Any], data_dir: Place | None
) -> "tuple[Figure, list[str]]":
    """The figure of a kind, and notes about it."""
    if kind == "tuning":
        from simulator.results.figures.sensitivity import tuning
        from simulator.studies.folder import sessions_of
        from simulator.studies.tuning import tried

        used = {run.folder for run in runs}
        parents = dict.fromkeys(folder.parent for folder in used)
        # A trial may use the session of another study.
        studies = [each for each in parents if len(parents) == 1 or used <= sessions_of(each)]
        if not studies:
            raise ConfigError(f"tuning shows one tuning study; these sessions are of {len(parents)} folders.")
        trials, logarithmic = tried(studies[0])
        return tuning(trials, logarithmic, **options), []
    if kind not in OF_ONE:
        from simulator.results.figures.kinds import OF_SESSIONS, notes

        figure = OF_SESSIONS[kind](runs, **options)
        return figure, [] if kind == "critical-difference" else notes(kind, runs, options)
    if len(runs) != 1:
        named = ", ".join(run.name for run in runs[:4])
        raise ConfigError(
            f"{kind} is of one session; these are {len(runs)}: {named}{', …' * (len(runs) > 4)}."
        )
    from simulator.results.figures import clients

    [run], data, options = runs, folders.data_folder(data_dir), dict(options)
    if kind == "partition":
        from simulator.results.inspection.partition import of_session

        return clients.partition(of_session(run.folder, data), **options), []
    if kind == "cka":
        return clients.cka_matrices(run, **options), []
    if kind == "timeline":
        from simulator.results.figures.timeline import timeline

        return timeline(run, **options), []
    from simulator.results.inspection.checkpoint import IMAGES, representations

    images, round = options.pop("images", IMAGES), options.pop("round", None)
    known = representations(run.folder, data, round, images=images)
    return clients.embedding(known.in_the_plane(), **options), []


def _listed(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _tell(sentences: Sequence[str], say: Say | None) -> None:
    for sentence in sentences:
        if say is not None:
            say(sentence)
        else:
            warnings.warn(sentence, stacklevel=4)
