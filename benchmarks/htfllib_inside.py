"""Runs HtFLlib's system/main.py as it is: python htfllib_inside.py CHECKOUT SEED CHANGES ARGUMENTS …

The checkout stays as it is. Its relative paths (../dataset, ../results, temp) refer to the working directory. From
outside come:

- empty modules for FedKTL, which needs image generators, for higher, which FedL2G needs, and for calmsize;
- an h5py that keeps its arrays in memory;
- torch.load with pickled objects, which newer versions of torch refuse by default (by an environment variable);
- the seed: main.py and every client set torch's seed to 0, and nothing seeds NumPy's and Python's generators;
- a line with the processor's clock at the start of each round.

CHANGES names what else differs from the script, separated by commas, or is "none":

- `batches`: shuffled anew in each epoch, and an incomplete last batch is kept;
- `weights`: every client draws its own initial weights;
- `features`: models of text have no log-softmax before the head;
- `htm5`: the models are HtM5's, ours for Fashion-MNIST, and FedMRL's small model is CNN-5.
"""

import builtins
import importlib
import os
import random
import runpy
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHANGES = ("batches", "weights", "features")
_LEFT_OUT = ("stylegan_xl", "stylegan_3", "stable_diffusion")


class _File(dict[str, Any]):
    """A file of h5py, in memory: written once and read again by its path."""

    _all: dict[str, "_File"] = {}  # noqa: RUF012  # shared by all files

    def __new__(cls, path: str, mode: str) -> "_File":
        return cls._all.setdefault(path, super().__new__(cls))

    def __init__(self, path: str, mode: str) -> None:
        super().__init__()

    def __enter__(self) -> "_File":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def create_dataset(self, name: str, data: object) -> None:
        self[name] = data


def supply_modules() -> None:
    """Put the missing modules into sys.modules."""
    for name in _LEFT_OUT:
        module = types.ModuleType(f"flcore.servers.serverktl_{name}")
        vars(module)["FedKTL"] = None
        sys.modules[module.__name__] = module
    for name, entries in (("h5py", {"File": _File}), ("calmsize", {"size": float}), ("higher", {})):
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(entries)


def seed_all(seed: int, own: bool) -> None:
    """Replace torch.manual_seed, so that `seed` is what seed 0 is in the script. `own`: another seed for each call."""
    import numpy as np
    import torch

    original, calls = torch.manual_seed, 0

    def seeded(_: int) -> Any:
        nonlocal calls
        calls += 1
        return original(1_000_000 * (seed + 1) + (calls if own else 0))

    vars(torch)["manual_seed"] = seeded
    np.random.seed(seed)  # noqa: NPY002  # the generator that HtFLlib draws from
    random.seed(seed)


def note_clock() -> None:
    """Replace print: after the title of a round comes a line with the processor seconds of this process."""
    original = builtins.print

    def noting(*values: object, **more: Any) -> None:
        original(*values, **more)
        if values and str(values[0]).strip().startswith("-------------Round number"):
            original("Processor seconds:", time.process_time())

    vars(builtins)["print"] = noting


def shuffle_batches() -> None:
    """Replace torch's DataLoader: where it would drop an incomplete batch, it keeps and shuffles all samples."""
    import torch.utils.data

    original: Callable[..., Any] = torch.utils.data.DataLoader

    def loader(data: Any, batch_size: int, drop_last: bool, shuffle: bool) -> Any:
        return original(data, batch_size, shuffle=shuffle or drop_last)

    vars(torch.utils.data)["DataLoader"] = loader


def keep_features() -> None:
    """Replace the functional log-softmax, which the models of text apply. The loss has its own."""
    import torch.nn.functional

    vars(torch.nn.functional)["log_softmax"] = lambda values, dim: values


def supply_htm5() -> None:
    """Replace what HtFLlib builds by HtM5 in client order, and FedMRL's small model by the smallest of it."""
    import torch

    from simulator import models
    from simulator.data.specs import ImageSpec

    def build(self: Any, args: Any, cid: int = 0, feature_dim: int | None = None) -> None:
        torch.nn.Module.__init__(self)
        names = models.members("htm5")
        name, width = names[cid % len(names)], args.feature_dim
        if feature_dim is not None:
            name, width = names[-1], feature_dim
        stream = torch.Generator().manual_seed(torch.initial_seed())
        self.base = models.build(name, ImageSpec(1, 28, 28), args.num_classes, stream)
        self.base.head = torch.nn.AdaptiveAvgPool1d(width)
        self.head = torch.nn.Linear(width, args.num_classes)

    importlib.import_module("flcore.trainmodel.models").BaseHeadSplit.__init__ = build


def main() -> None:
    checkout, seed, changes, *arguments = sys.argv[1:]
    os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
    system = Path(checkout).resolve() / "system"
    sys.path[0] = str(system)
    sys.dont_write_bytecode = True
    supply_modules()
    asked = set(changes.split(","))
    seed_all(int(seed), "weights" in asked)
    if "batches" in asked:
        shuffle_batches()
    if "features" in asked:
        keep_features()
    if "htm5" in asked:
        supply_htm5()
    note_clock()
    sys.argv = ["main.py", *arguments]
    runpy.run_path(str(system / "main.py"), run_name="__main__")


if __name__ == "__main__":
    main()
