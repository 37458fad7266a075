"""`htfl-sim compare`: sessions, studies or globs as one table, grouped by what they differ in."""

import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from checkpoints import SessionUnreadable
from tui.cli import completion, options, output
from tui.common import folders
from tui.common.formatting import printable

if TYPE_CHECKING:
    from simulator.analysis.run import Run
    from simulator.analysis.table import Table


class Format(StrEnum):
    """How a table is written."""

    TABLE = "table"
    MARKDOWN = "md"
    LATEX = "latex"
    CSV = "csv"
    JSON = "json"


class Select(StrEnum):
    """By what the settings and the round of a row are chosen."""

    EVAL = "eval"


NAMES = "Sessions, studies, STUDY/POINT, globs in quotes, as 't3/*', or tag:NAME."
Names = Annotated[list[str], options.argument("NAMES...", completion.sessions, NAMES)]
BY = "What the rows are: method, dataset, a dotted setting, session; may be repeated. Default: what they differ in."
By = Annotated[list[str] | None, options.option(BY, "--by", metavar="AXIS")]
TARGET = "Also what it took to reach this mean test accuracy, 0 to 1."
BASELINE = (
    "Also the difference from this row, seed by seed, with its 95 % interval: a value of the first axis."
)
SELECT = "Of each row the settings and the round that are best on the clients' eval parts, and their test accuracy."


def compare(
    names: Names,
    by: By = None,
    target: Annotated[float | None, options.option(TARGET, "--target", metavar="A")] = None,
    baseline: Annotated[str | None, options.option(BASELINE, "--baseline", metavar="VALUE")] = None,
    select: Annotated[Select | None, options.option(SELECT, "--select")] = None,
    format: Annotated[
        Format, options.option("How it is written; default: table.", "--format")
    ] = Format.TABLE,
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare sessions: accuracies over seeds, what a target took, differences from a baseline, what papers printed.

    "best on test" is chosen on the very data it is measured on; for a fair choice take --select eval.

    \b
    Examples
      htfl-sim compare t3 --by method --target 0.9 --baseline standalone
      htfl-sim compare 'mu/*' --by method.mu --by method.hidden --select eval
      htfl-sim compare t3 --by method --format latex > table.tex
    """
    from simulator.analysis.comparison import table

    runs = readable(names, sessions_dir)
    result = table(runs, by or (), target, baseline, None if select is None else "eval")
    written = Format.JSON if as_json else format
    if written is Format.JSON:
        output.emit(result.to_json())
    elif written is Format.TABLE:
        _show(result)
    else:
        texts = {
            Format.MARKDOWN: result.to_markdown,
            Format.LATEX: result.to_latex,
            Format.CSV: result.to_csv,
        }
        sys.stdout.write(printable(texts[written]()))


def readable(names: list[str], sessions_dir: options.SessionsDir) -> "list[Run]":
    """The sessions that are named, at a glance; raises like `chosen`."""
    from simulator.analysis.glance import glance

    return chosen(names, sessions_dir, glance)[0]


def chosen(
    names: list[str], sessions_dir: options.SessionsDir, look: "Callable[[Path], Run]"
) -> "tuple[list[Run], list[str]]":
    """The sessions that are named, read by `look`; and in sentences, also on stderr, which are left out and why.

    Raises SessionUnreadable where none can be read or none has a round.
    """
    from simulator.analysis.glance import glances
    from simulator.studies.selection import select as sessions_named

    runs, faults = glances(sessions_named(names, folders.sessions_dir(sessions_dir)), look)
    if not runs:
        raise SessionUnreadable(
            faults[0].error if faults else f"nothing has begun in {', '.join(names)} yet."
        )
    left_out = [f"{fault.folder.name} is damaged and left out: {fault.error}" for fault in faults]
    begun = [run for run in runs if run.totals.rounds]
    left_out += [f"{run.name} has finished no round and is left out." for run in runs if run not in begun]
    for sentence in left_out:
        output.say(sentence, "yellow")
    if not begun:
        raise SessionUnreadable("none of these sessions has finished a round yet.")
    return begun, left_out


def _show(result: "Table") -> None:
    columns = result.columns()
    rows = [[column.cell(row) for column in columns] for row in result.rows]
    names = [(">" if column.numeric else "") + column.name for column in columns]
    for remark in result.remarks():
        output.show(remark)
    output.show(output.table(names, rows, [column.name for column in columns if column.expendable]))
