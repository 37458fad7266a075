"""`python -m benchmarks.operations`: which of torch's operations a round's training goes into, and what each reaches.

Standalone, HtM5 on Fashion-MNIST, one thread, by torch's profiler; a kind's rate is its floating-point operations by
its shapes over its time, beside the rate of matrix products on one thread before and after. What computes nothing that
is counted (pooling, ReLU, zeros, the update) has no rate, and lowers that of the whole.
"""

import argparse
import math
import statistics
from collections import defaultdict
from dataclasses import dataclass

import torch
from rich.console import Console
from torch.autograd.profiler_util import FunctionEventAvg
from torch.profiler import ProfilerActivity, profile

import simulator
from benchmarks import matrix
from benchmarks.bench import at_least
from benchmarks.settings import GROUPS, config
from benchmarks.sheet import Sheet
from simulator.base.errors import HtflError
from simulator.engine.builder import build
from simulator.engine.progress import unobserved

REST = "all else, each under 1 %"
KINDS = {
    "aten::addmm": "linear layers, forward",
    "aten::mm": "linear layers, backward",
    "aten::max_pool2d_with_indices": "pooling, forward",
    "aten::max_pool2d_with_indices_backward": "pooling, backward",
    "aten::clamp_min": "ReLU",
    "aten::threshold_backward": "ReLU",
    "aten::fill_": "zeros",
    "aten::zero_": "zeros",
    "aten::_fused_sgd_": "update",
}


@dataclass
class Kind:
    """Microseconds that went into operations of a kind, and what they computed."""

    microseconds: float = 0.0
    operations: float = 0.0


def kind_of(name: str, shapes: list[list[int]]) -> str:
    """What kind an operation is of, by torch's name for it and the shapes of what it takes."""
    if name == "aten::mkldnn_convolution":
        return f"convolution of {_channels(shapes[1])}, forward"
    if name == "aten::convolution_backward":
        return f"convolution of {_channels(shapes[2])}, backward"
    return KINDS.get(name, REST)


def operations(name: str, shapes: list[list[int]], image_channels: int) -> int:
    """Multiplications and additions of one such operation; 0 where torch's formulas count nothing.

    A convolution without padding: its gradient is one of the weights and one of the input, which images need not.
    """
    if name == "aten::mkldnn_convolution":
        image, weight = shapes[0], shapes[1]
        sides = [side - kernel + 1 for side, kernel in zip(image[2:], weight[2:], strict=True)]
        return 2 * image[0] * math.prod(sides) * math.prod(weight)
    if name == "aten::convolution_backward":
        gradient, weight = shapes[0], shapes[2]
        one = 2 * gradient[0] * math.prod(gradient[2:]) * math.prod(weight)
        return one if weight[1] == image_channels else 2 * one
    if name in ("aten::addmm", "aten::mm"):
        left, right = shapes[-4:-2] if name == "aten::addmm" else shapes[:2]
        return 2 * left[0] * left[1] * right[1]
    return 0


def _channels(weight: list[int]) -> str:
    return f"{weight[1]} channel" + "s" * (weight[1] != 1)


def measured(group: str, batch: int) -> dict[str, Kind]:
    """The kinds of a round's operations, the longest first; one client's evaluation is among them."""
    asked = config(group, batch, runtime={"runner": "sequential", "device": "cpu"})
    parts = build(asked, simulator.data_folder(None))
    state = parts.engine.round(parts.engine.initial_state(), unobserved)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as found:
        parts.engine.round(state, unobserved)
    parts.engine.close()
    channels = parts.federation.spec.shape[0]
    kinds: dict[str, Kind] = defaultdict(Kind)
    events: list[FunctionEventAvg] = list(found.key_averages(group_by_input_shape=True))
    whole = sum(event.self_cpu_time_total for event in events)
    for event in events:
        name, shapes = str(event.key), event.input_shapes or []
        kind = kinds[kind_of(name, shapes)]
        kind.microseconds += event.self_cpu_time_total
        kind.operations += event.count * operations(name, shapes, channels)
    small = [name for name, kind in kinds.items() if kind.microseconds < whole / 100 and name != REST]
    for name in small:
        gone = kinds.pop(name)
        kinds[REST].microseconds += gone.microseconds
        kinds[REST].operations += gone.operations
    ordered = sorted(kinds, key=lambda name: (name == REST, -kinds[name].microseconds))
    return {name: kinds[name] for name in ordered}


def main() -> None:
    """Measure and print."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.operations", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--group", choices=GROUPS, default="htm5")
    parser.add_argument("--batch", type=at_least(2), default=64)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    before = matrix.rate(1)
    kinds = measured(asked.group, asked.batch)
    rate = statistics.fmean([before, matrix.rate(1)])
    whole = sum(kind.microseconds for kind in kinds.values())
    sheet = Sheet(
        f"A round of {asked.group}, batch {asked.batch}, one thread; matrix products: {rate / 1e9:.0f} GFLOP/s",
        ("operations", "share of time", "GFLOP/s", "over matrix products"),
    )
    all_of_it = Kind(whole, sum(kind.operations for kind in kinds.values()))
    for name, kind in {**kinds, "all": all_of_it}.items():
        reached = kind.operations / kind.microseconds * 1e6
        rates = (f"{reached / 1e9:.0f}", f"{reached / rate:.2f}") if kind.operations else ("–", "–")
        sheet.add(name, f"{kind.microseconds / whole:.1%}", *rates)
    Console(width=120).print(sheet.shown())


if __name__ == "__main__":
    try:
        main()
    except HtflError as error:
        raise SystemExit(f"error: {error}") from None
