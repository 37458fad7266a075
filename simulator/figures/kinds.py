"""The figures that are drawn of several sessions, by the names that users know them by."""

from collections.abc import Callable, Mapping

from matplotlib.figure import Figure

from simulator.figures import accuracy, coefficients, losses, sensitivity, similarity

OF_SESSIONS: Mapping[str, Callable[..., Figure]] = {
    "accuracy": accuracy.over,
    "box": accuracy.boxes,
    "tradeoff": accuracy.tradeoff,
    "loss": losses.losses,
    "metrics": losses.metrics,
    "cka-curves": similarity.curves,
    "inco": coefficients.coefficients,
    "sensitivity": sensitivity.curve,
    "heatmap": sensitivity.heatmap,
}
"""Each takes the sessions, and by name what its own signature says."""
