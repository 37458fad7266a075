"""`htfl-sim compare`: sessions, studies, or globs as one table, grouped by the settings that differ."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import htfl_sim as hs
from tui.cli import completion, options, output
from tui.common.formatting import printable

if TYPE_CHECKING:
    from htfl_sim.comparing import TextTable


class Format(StrEnum):
    """The formats of a table."""

    TABLE = "table"
    MARKDOWN = "md"
    LATEX = "latex"
    CSV = "csv"
    JSON = "json"


class Select(StrEnum):
    """The samples that choose the settings and the round of a row."""

    EVAL = "eval"


class Test(StrEnum):
    """How a gain is tested."""

    T = "t"
    WILCOXON = "wilcoxon"


NAMES = "Sessions, studies, STUDY/POINT, globs in quotes, as 't3/*', or tag:NAME."
Names = Annotated[list[str], options.argument("NAMES...", completion.sessions, NAMES)]
BY = "What the rows are: method, dataset, a dotted setting, study, or session. May be repeated. Default: what differs."
By = Annotated[list[str] | None, options.option(BY, "--by", metavar="AXIS")]
TARGET = "Also print the cost of reaching this mean test accuracy, 0 to 1."
BASELINE = (
    "Also the difference from this row, seed by seed, with its 95 % interval: a value of the first axis. "
    "With --gain: the method that gains are over. Default there: standalone."
)
LAST = "Use the mean over this many last rounds as the last accuracy. Default: 1."
AT_TIME = (
    "Compare the sessions as they were at this simulated time, such as 90s, 30m, or 2h. They need a clock."
)
COLUMNS = "Column to print, by its heading or first words. May be repeated. See the page on compare for extra columns."
PIVOT = "Two axes, as method,data.alpha: print a row for each value of the first, a column for each of the second."
GAIN = "Print the gain of each client over the baseline: mean, interval, and the shares that gain and lose."
MARGIN = "With --gain: also test whether the gain is smaller than this many percentage points (TOST)."
TEST = "With --gain: also test whether there is a gain, by a paired t test or Wilcoxon's test."
CORRECT = "With --gain: correct p values for the number of rows, by Holm."
GAINS = "Gains over a baseline"
SELECT = "Part on which each row's settings and round are chosen. The table shows their test accuracy."


VARIANCE = (
    "Print how much seed.data, seed.init, and seed.training contribute to the variance of the accuracy."
)


def compare(
    names: Names,
    by: By = None,
    target: Annotated[float | None, options.option(TARGET, "--target", metavar="A")] = None,
    baseline: Annotated[str | None, options.option(BASELINE, "--baseline", metavar="VALUE")] = None,
    select: Annotated[Select | None, options.option(SELECT, "--select")] = None,
    last: Annotated[int, options.option(LAST, "--last", metavar="K", least=1)] = 1,
    at_time: Annotated[str | None, options.option(AT_TIME, "--at-time", metavar="T")] = None,
    columns: Annotated[list[str] | None, options.option(COLUMNS, "--columns", metavar="NAME")] = None,
    pivot: Annotated[str | None, options.option(PIVOT, "--pivot", metavar="AXIS,AXIS")] = None,
    gain: Annotated[bool, options.flag(GAIN, "--gain", panel=GAINS)] = False,
    margin: Annotated[float | None, options.option(MARGIN, "--margin", metavar="PP", panel=GAINS)] = None,
    test: Annotated[Test | None, options.option(TEST, "--test", panel=GAINS)] = None,
    correct: Annotated[bool, options.flag(CORRECT, "--holm", panel=GAINS)] = False,
    format: Annotated[Format, options.option("Output format. Default: table.", "--format")] = Format.TABLE,
    variance: Annotated[bool, options.flag(VARIANCE, "--variance")] = False,
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare sessions: accuracy over seeds, cost of a target, differences from a baseline, and published values.

    "best on test" is chosen on the data that measures it. For a fair choice, use --select eval.

    \b
    Examples
      htfl-sim compare t3 --by method --target 0.9 --baseline standalone
      htfl-sim compare t3 --by method --at-time 2h --baseline fedavg
      htfl-sim compare 'mu/*' --by method.mu --by method.hidden --select eval
      htfl-sim compare t3 --by method --format latex > table.tex
      htfl-sim compare t3 --by method --gain --last 10 --margin 0.5
      htfl-sim compare t3 --pivot method,data.alpha --format latex
      htfl-sim compare parts --variance
    """
    chosen: Literal["eval"] | None = None if select is None else "eval"
    result: TextTable[Any]
    if gain:
        _refuse("gain", target=target, select=select, pivot=pivot, at_time=at_time)
        result = hs.gains(
            names,
            by or (),
            baseline or "standalone",
            last=last,
            margin=None if margin is None else margin / 100,
            test=None if test is None else test.value,
            correct=correct,
            columns=columns or (),
            sessions_dir=sessions_dir,
            say=warn,
        )
    elif variance:
        _refuse("variance", target=target, baseline=baseline, select=select, columns=columns, pivot=pivot)
        _refuse("variance", at_time=at_time)
        result = hs.variance(names, by or (), sessions_dir=sessions_dir, say=warn)
    elif margin is not None or test is not None or correct:
        raise hs.ConfigError("`margin`, `test`, and `holm` are about gains. Add `gain=True`.")
    elif pivot is not None:
        _refuse("pivot", by=by, target=target, baseline=baseline, columns=columns)
        axes = [axis.strip() for axis in pivot.replace("×", ",").split(",")]
        if len(axes) != 2 or not all(axes):
            raise hs.ConfigError(f"'{pivot}' is not two axes. An example: `pivot=method,data.alpha`.")
        result = hs.pivot(
            names, axes[0], axes[1], chosen, last=last, at_time=at_time, sessions_dir=sessions_dir, say=warn
        )
    else:
        result = hs.compare(
            names,
            by or (),
            target,
            baseline,
            chosen,
            last=last,
            columns=columns or (),
            at_time=at_time,
            sessions_dir=sessions_dir,
            say=warn,
        )
    written = Format.JSON if as_json else format
    if written is Format.JSON:
        output.emit(result.to_json())
    elif written is Format.TABLE:
        output.show_table(result)
    else:
        texts = {
            Format.MARKDOWN: result.to_markdown,
            Format.LATEX: result.to_latex,
            Format.CSV: result.to_csv,
        }
        sys.stdout.write("".join(f"{printable(line)}\n" for line in texts[written]().splitlines()))


def warn(sentence: str) -> None:
    """Print notes about a table or a figure on stderr."""
    output.say(sentence, "yellow")


def _refuse(what: str, **others: object) -> None:
    """Raise ConfigError for an option that says nothing to a gain or a pivot."""
    for name, value in others.items():
        if value:
            raise hs.ConfigError(f"`{name}` changes nothing of `{what}`. Leave one of them out.")
