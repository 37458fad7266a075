"""`htfl-sim compare`: sessions, studies or globs as one table, grouped by what they differ in."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import htfl_sim as hs
from tui.cli import completion, options, output
from tui.common.formatting import printable

if TYPE_CHECKING:
    from htfl_sim.comparing import Table


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
BY = "What the rows are: method, dataset, a dotted setting, or session. May be repeated. Default: what differs."
By = Annotated[list[str] | None, options.option(BY, "--by", metavar="AXIS")]
TARGET = "Also print the cost of reaching this mean test accuracy, 0 to 1."
BASELINE = (
    "Also the difference from this row, seed by seed, with its 95 % interval: a value of the first axis."
)
SELECT = "Part on which each row's settings and round are chosen. The table shows their test accuracy."


def compare(
    names: Names,
    by: By = None,
    target: Annotated[float | None, options.option(TARGET, "--target", metavar="A")] = None,
    baseline: Annotated[str | None, options.option(BASELINE, "--baseline", metavar="VALUE")] = None,
    select: Annotated[Select | None, options.option(SELECT, "--select")] = None,
    format: Annotated[Format, options.option("Output format. Default: table.", "--format")] = Format.TABLE,
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare sessions: accuracy over seeds, cost of a target, differences from a baseline, and published values.

    "best on test" is chosen on the data that measures it. For a fair choice, use --select eval.

    \b
    Examples
      htfl-sim compare t3 --by method --target 0.9 --baseline standalone
      htfl-sim compare 'mu/*' --by method.mu --by method.hidden --select eval
      htfl-sim compare t3 --by method --format latex > table.tex
    """
    result = hs.compare(
        names,
        by or (),
        target,
        baseline,
        None if select is None else "eval",
        sessions_dir=sessions_dir,
        say=warn,
    )
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


def warn(sentence: str) -> None:
    """What must be known of a table or a figure, on stderr."""
    output.say(sentence, "yellow")


def _show(result: "Table") -> None:
    columns = result.columns()
    rows = [[column.cell(row) for column in columns] for row in result.rows]
    names = [(">" if column.numeric else "") + column.name for column in columns]
    for remark in result.remarks():
        output.show(remark)
    output.show(output.table(names, rows, [column.name for column in columns if column.expendable]))
