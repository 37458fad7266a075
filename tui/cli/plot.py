"""`htfl-sim plot`: figures for papers, from sessions, studies, or globs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import htfl_sim as hs
from tui.cli import options, output
from tui.cli.compare import By, Names, Select, warn


class Kind(StrEnum):
    """The kinds of figures."""

    ACCURACY = "accuracy"
    BOX = "box"
    TRADEOFF = "tradeoff"
    LOSS = "loss"
    METRICS = "metrics"
    PARTITION = "partition"
    TSNE = "tsne"
    CKA = "cka"
    CKA_CURVES = "cka-curves"
    INCO = "inco"
    SENSITIVITY = "sensitivity"
    HEATMAP = "heatmap"
    GAIN_MAP = "gain-map"
    GAIN_CLIENTS = "gain-clients"
    CRITICAL_DIFFERENCE = "critical-difference"
    PARETO = "pareto"
    TUNING = "tuning"
    TIMELINE = "timeline"


class Cost(StrEnum):
    """The x axes of a curve."""

    ROUNDS = "rounds"
    BYTES = "bytes"
    FLOPS = "flops"
    SECONDS = "seconds"
    SIMULATED = "simulated"
    JOULES = "joules"


COSTS = {Cost.FLOPS: "FLOPs", Cost.SIMULATED: "simulated seconds"}
"""Where Python has another name."""


class Width(StrEnum):
    """The widths of a figure on paper."""

    COLUMN = "column"
    PAGE = "page"


KIND = (
    "Figure: accuracy, box, tradeoff, loss, metrics, partition, tsne, cka, cka-curves, inco, sensitivity, heatmap, "
    "gain-map, gain-clients, critical-difference, pareto, tuning, timeline."
)
OUT = "File to write: .pdf, .svg, or .png."
X = (
    "Horizontal axis of accuracy, loss, and metrics: rounds (default), bytes, flops, or seconds. "
    "With a computed clock, also simulated (time) and joules."
)
ROUND = "Round that box, tsne, and cka show. Default: the last; for tsne, the newest checkpoint."
LAYER = "Layer that cka and cka-curves show. May be repeated. Default: all measured layers."
METRIC = (
    "Metric of a method that metrics shows, by default all. Or loss that loss shows, by default cross_entropy: also "
    "objective and PHASE_loss. May be repeated."
)
TARGET = "Accuracy, 0 to 1, whose cost tradeoff shows. Default: the best accuracy."
AXIS = "Setting along the axis of sensitivity. Give two for heatmap, down and across."
SELECT = "Part on which sensitivity and heatmap choose the best round, as in compare."
BASELINE = "Method that gains are over. Default: standalone."
LAST = "Use the mean over this many last rounds as the last accuracy. Default: 1."
IMAGES = "Number of test images per client in tsne."
ROUNDS = "Rounds that timeline shows: this many last ones, or a range such as 10-20. Default: the last 5."
WIDTH = "Width: 3.5 inches (column) or 7.16 (page). Default: what suits the kind."


def plot(
    kind: Annotated[Kind, options.argument("KIND", lambda: [each.value for each in Kind], KIND)],
    names: Names,
    out: Annotated[Path, options.option(OUT, "--out", "-o", metavar="FILE")],
    by: By = None,
    x: Annotated[Cost | None, options.option(X, "--x")] = None,
    round: Annotated[int | None, options.option(ROUND, "--round", metavar="R", least=1)] = None,
    layer: Annotated[list[str] | None, options.option(LAYER, "--layer", metavar="L")] = None,
    metric: Annotated[list[str] | None, options.option(METRIC, "--metric", metavar="M")] = None,
    target: Annotated[float | None, options.option(TARGET, "--target", metavar="A")] = None,
    axis: Annotated[list[str] | None, options.option(AXIS, "--axis", metavar="KEY")] = None,
    select: Annotated[Select | None, options.option(SELECT, "--select")] = None,
    baseline: Annotated[str | None, options.option(BASELINE, "--baseline", metavar="METHOD")] = None,
    last: Annotated[int | None, options.option(LAST, "--last", metavar="K", least=1)] = None,
    images: Annotated[int | None, options.option(IMAGES, "--images", metavar="N", least=2)] = None,
    rounds: Annotated[str | None, options.option(ROUNDS, "--rounds", metavar="N|A-B")] = None,
    width: Annotated[Width | None, options.option(WIDTH, "--width")] = None,
    model: options.ModelFiles = None,
    plugin: options.Plugins = None,
    sessions_dir: options.SessionsDir = None,
    data_dir: options.DataDir = None,
) -> None:
    """Draw a figure for a paper: PDF, SVG, or PNG, with real text and colors that stay distinct in gray.

    partition, tsne, cka, and timeline are of one session. partition and tsne load its data.
    docs/figures.md shows every kind.

    \b
    Examples
      htfl-sim plot accuracy t3 --by method --x bytes --out accuracy.pdf
      htfl-sim plot heatmap 'mu/*' --axis method.mu --axis method.hidden --out mu.pdf
      htfl-sim plot timeline t3/fedavg-s0 --rounds 10-20 --out timeline.pdf
      htfl-sim plot tsne t3/fedproto-s0 --out prototypes.png
    """
    options.Own(model, plugin=plugin).load()
    given: dict[str, Any] = {"by": by, "x": x and COSTS.get(x, x.value), "round": round}
    given |= {"layer": layer, "metric": metric, "target": target, "axis": axis, "images": images}
    given |= {"select": select and select.value, "baseline": baseline, "last": last, "rounds": rounds}
    wanted = {name: value for name, value in given.items() if value is not None}
    _refuse_others(kind, wanted)
    if width is not None:
        wanted["width"] = width.value
    which: Any = kind.value
    figure = hs.plot(
        which,
        names,
        out,
        sessions_dir=sessions_dir,
        data_dir=data_dir,
        say=warn,
        **_as_arguments(kind, wanted),
    )
    inches = " × ".join(f"{each:.2f}" for each in figure.get_size_inches())
    output.say(f"{out}: {inches} inches, {out.stat().st_size / 1024:.0f} KiB")


_OPTIONS = {"metrics": "metric", "layers": "layer", "axes": "axis"}
"""Options with other names than their arguments."""


def _refuse_others(kind: Kind, wanted: dict[str, Any]) -> None:
    """Raise ConfigError for an option that the kind does not have."""
    from htfl_sim.comparing import KINDS

    known = [_OPTIONS.get(each, each) for each in KINDS[kind.value]]
    for name in wanted:
        if name not in known:
            ours = ", ".join(f"--{each}" for each in known) or "none of them"
            raise hs.ConfigError(f"--{name} changes nothing of '{kind.value}', which takes {ours}.")


def _as_arguments(kind: Kind, wanted: dict[str, Any]) -> dict[str, Any]:
    """The options in the form of `hs.plot`. Raises ConfigError for too few or too many axes."""
    if kind is Kind.SENSITIVITY:
        (wanted["axis"],) = _axes(wanted, 1, "sensitivity takes one --axis, as --axis method.mu.")
        return wanted
    if kind is Kind.HEATMAP:
        wanted["axes"] = tuple(
            _axes(wanted, 2, "heatmap takes two, as --axis method.mu --axis method.hidden.")
        )
    arguments = {option: argument for argument, option in _OPTIONS.items()}
    return {arguments.get(name, name): value for name, value in wanted.items()}


def _axes(wanted: dict[str, Any], number: int, said: str) -> list[str]:
    axes: list[str] = wanted.pop("axis", [])
    if len(axes) != number:
        raise hs.ConfigError(said)
    return axes
