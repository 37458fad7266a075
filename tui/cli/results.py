"""`htfl-sim compare`, `plot`, and `report`: sessions, studies, or globs as one table, a figure, or a page."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import htfl_sim as hs
from htfl_sim.choices import KINDS, Kind, Plugins
from tui.cli import completion, options, output
from tui.cli.options import Option, argument, flag
from tui.common.formatting import printable

if TYPE_CHECKING:
    from simulator.results.analysis.tabular import TextTable


NAMES = "Sessions, studies, STUDY/POINT, globs in quotes, as 't3/*', or tag:NAME."
Names = Annotated[list[str], argument("NAMES...", completion.sessions, NAMES)]
BY = "What the rows are: method, dataset, a dotted setting, study, or session. May be repeated. Default: what differs."
By = Annotated[Sequence[str], Option(BY, metavar="AXIS")]
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
Target = Annotated[float | None, Option(TARGET, metavar="A")]
Baseline = Annotated[str | None, Option(BASELINE, metavar="VALUE")]
Select = Annotated[Literal["eval"] | None, Option(SELECT)]
Format = Literal["table", "md", "latex", "csv", "json"]


def compare(
    names: Names,
    by: By = (),
    target: Target = None,
    baseline: Baseline = None,
    select: Select = None,
    last: Annotated[int, Option(LAST, "--last", metavar="K", least=1)] = 1,
    at_time: Annotated[str | None, Option(AT_TIME, "--at-time", metavar="T")] = None,
    columns: Annotated[Sequence[str], Option(COLUMNS, "--columns", metavar="NAME")] = (),
    pivot: Annotated[str | None, Option(PIVOT, "--pivot", metavar="AXIS,AXIS")] = None,
    gain: Annotated[bool, flag(GAIN, "--gain", panel=GAINS)] = False,
    margin: Annotated[float | None, Option(MARGIN, "--margin", metavar="PP", panel=GAINS)] = None,
    test: Annotated[Literal["t", "wilcoxon"] | None, Option(TEST, "--test", panel=GAINS)] = None,
    correct: Annotated[bool, flag(CORRECT, "--holm", panel=GAINS)] = False,
    format: Annotated[Format, Option("Output format. Default: table.")] = "table",
    variance: Annotated[bool, flag(VARIANCE, "--variance")] = False,
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
    result: TextTable[Any]
    how: dict[str, Any] = {"sessions_dir": sessions_dir, "say": warn}
    if gain:
        _refuse("gain", target=target, select=select, pivot=pivot, at_time=at_time)
        share = None if margin is None else margin / 100
        how |= {"last": last, "margin": share, "test": test, "correct": correct, "columns": columns}
        result = hs.gains(names, by, baseline or "standalone", **how)
    elif variance:
        _refuse("variance", target=target, baseline=baseline, select=select, columns=columns, pivot=pivot)
        _refuse("variance", at_time=at_time)
        result = hs.variance(names, by, **how)
    elif margin is not None or test is not None or correct:
        raise hs.ConfigError("`margin`, `test`, and `holm` are about gains. Add `gain=True`.")
    elif pivot is not None:
        _refuse("pivot", by=by, target=target, baseline=baseline, columns=columns)
        axes = [axis.strip() for axis in pivot.replace("×", ",").split(",")]
        if len(axes) != 2 or not all(axes):
            raise hs.ConfigError(f"'{pivot}' is not two axes. An example: `pivot=method,data.alpha`.")
        result = hs.pivot(names, axes[0], axes[1], select, last=last, at_time=at_time, **how)
    else:
        how |= {"last": last, "columns": columns, "at_time": at_time}
        result = hs.compare(names, by, target, baseline, select, **how)
    if as_json or format == "json":
        output.emit(result.to_json())
    elif format == "table":
        output.show_table(result)
    else:
        written = {"md": result.to_markdown, "latex": result.to_latex, "csv": result.to_csv}[format]()
        sys.stdout.write("".join(f"{printable(line)}\n" for line in written.splitlines()))


def warn(sentence: str) -> None:
    """Print notes about a table or a figure on stderr."""
    output.say(sentence, "yellow")


def _refuse(what: str, **others: object) -> None:
    """Raise ConfigError for an option that says nothing to a gain or a pivot."""
    for name, value in others.items():
        if value:
            raise hs.ConfigError(f"`{name}` changes nothing of `{what}`. Leave one of them out.")


COSTS = {"flops": "FLOPs", "simulated": "simulated seconds"}
"""Where Python has another name."""
KIND = f"Figure: {', '.join(KINDS)}."
FIGURE_OUT = "File to write: .pdf, .svg, or .png."
HORIZONTAL = (
    "Horizontal axis of accuracy, loss, and metrics: rounds (default), bytes, flops, or seconds. "
    "With a computed clock, also simulated (time) and joules."
)
ROUND = "Round that box, tsne, and cka show. Default: the last; for tsne, the newest checkpoint."
LAYER = "Layer that cka and cka-curves show. May be repeated. Default: all measured layers."
METRIC = (
    "Metric of a method that metrics shows, by default all. Or loss that loss shows, by default cross_entropy: also "
    "objective and PHASE_loss. May be repeated."
)
FIGURE_TARGET = "Accuracy, 0 to 1, whose cost tradeoff shows. Default: the best accuracy."
AXIS = "Setting along the axis of sensitivity. Give two for heatmap, down and across."
FIGURE_SELECT = "Part on which sensitivity and heatmap choose the best round, as in compare."
FIGURE_BASELINE = "Method that gains are over. Default: standalone."
IMAGES = "Number of test images per client in tsne."
ROUNDS = "Rounds that timeline shows: this many last ones, or a range such as 10-20. Default: the last 5."
WIDTH = "Width: 3.5 inches (column) or 7.16 (page). Default: what suits the kind."
X = Literal["rounds", "bytes", "flops", "seconds", "simulated", "joules"]


def plot(
    kind: Annotated[Kind, argument("KIND", lambda: list(KINDS), KIND)],
    names: Names,
    out: Annotated[Path, Option(FIGURE_OUT, "--out", "-o", metavar="FILE")],
    by: By = (),
    x: Annotated[X | None, Option(HORIZONTAL)] = None,
    round: Annotated[int | None, Option(ROUND, "--round", metavar="R", least=1)] = None,
    layer: Annotated[Sequence[str], Option(LAYER, "--layer", metavar="L")] = (),
    metric: Annotated[Sequence[str], Option(METRIC, "--metric", metavar="M")] = (),
    target: Annotated[float | None, Option(FIGURE_TARGET, "--target", metavar="A")] = None,
    axis: Annotated[Sequence[str], Option(AXIS, "--axis", metavar="KEY")] = (),
    select: Annotated[Literal["eval"] | None, Option(FIGURE_SELECT, "--select")] = None,
    baseline: Annotated[str | None, Option(FIGURE_BASELINE, "--baseline", metavar="METHOD")] = None,
    last: Annotated[int | None, Option(LAST, "--last", metavar="K", least=1)] = None,
    images: Annotated[int | None, Option(IMAGES, "--images", metavar="N", least=2)] = None,
    rounds: Annotated[str | None, Option(ROUNDS, "--rounds", metavar="N|A-B")] = None,
    width: Annotated[Literal["column", "page"] | None, Option(WIDTH, "--width")] = None,
    model: options.ModelFiles = (),
    plugins: Plugins = (),
    sessions_dir: options.SessionsDir = None,
    data_dir: options.DataDir = None,
) -> None:
    """Draw a figure for a paper: PDF, SVG, or PNG, with real text and colors that stay distinct in gray.

    partition, tsne, cka, and timeline are of one session. partition and tsne load its data.

    \b
    Examples
      htfl-sim plot accuracy t3 --by method --x bytes --out accuracy.pdf
      htfl-sim plot heatmap 'mu/*' --axis method.mu --axis method.hidden --out mu.pdf
      htfl-sim plot timeline t3/fedavg-s0 --rounds 10-20 --out timeline.pdf
      htfl-sim plot tsne t3/fedproto-s0 --out prototypes.png
    """
    if model or plugins:
        hs.load_files(plugins, model)
    given: dict[str, Any] = {"by": by, "x": x and COSTS.get(x, x), "round": round}
    given |= {"layer": layer, "metric": metric, "target": target, "axis": axis, "images": images}
    given |= {"select": select, "baseline": baseline, "last": last, "rounds": rounds}
    wanted = {name: value for name, value in given.items() if value not in (None, ())}
    known = [_OPTIONS.get(each, each) for each in KINDS[kind]]
    for name in wanted:
        if name not in known:
            ours = ", ".join(f"--{each}" for each in known) or "none of them"
            raise hs.ConfigError(f"--{name} changes nothing of '{kind}', which takes {ours}.")
    if kind == "heatmap" and len(axis) != 2:
        raise hs.ConfigError("heatmap takes two, as --axis method.mu --axis method.hidden.")
    if kind == "sensitivity" and len(axis) != 1:
        raise hs.ConfigError("sensitivity takes one --axis, as --axis method.mu.")
    wanted = {
        argument: wanted[name] for argument, name in zip(KINDS[kind], known, strict=True) if name in wanted
    }
    if kind == "sensitivity":
        wanted["axis"] = axis[0]
    if width is not None:
        wanted["width"] = width
    figure = hs.plot(kind, names, out, sessions_dir=sessions_dir, data_dir=data_dir, say=warn, **wanted)
    inches = " × ".join(f"{each:.2f}" for each in figure.get_size_inches())
    output.say(f"{out}: {inches} inches, {out.stat().st_size / 1024:.0f} KiB")


_OPTIONS = {"metrics": "metric", "layers": "layer", "axes": "axis"}
"""Options with other names than their arguments."""


PAGE_OUT = "File to write. Default: the first name with .html, in this folder."


def report(
    names: Names,
    out: Annotated[Path | None, Option(PAGE_OUT, "--out", "-o", metavar="FILE")] = None,
    by: By = (),
    target: Target = None,
    baseline: Baseline = None,
    select: Select = None,
    sessions_dir: options.SessionsDir = None,
    data_dir: options.DataDir = None,
) -> None:
    """Write one HTML page: table, figures, settings, events, environment, and commands that reproduce the bits.

    It needs no network and suits light, dark, phones, and paper.

    \b
    Examples
      htfl-sim report t3
      htfl-sim report 'mu/*' --by method.mu --select eval --out mu.html
    """
    places = {"sessions_dir": sessions_dir, "data_dir": data_dir}
    page = hs.report(names, out, by, target, baseline, select, **places, say=warn)
    kib = page.file.stat().st_size / 1024
    output.say(f"{page.file}: {page.sessions} sessions, {page.figures} figures, {kib:.0f} KiB")
