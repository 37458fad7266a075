"""Floating-point operations, by the formulas of torch's own counter.

`torch.utils.flop_counter.FlopCounterMode` hooks every module of the process and so cannot run beside training
threads; this reads its table of formulas from a mode that sees one thread only.
"""

import contextlib
from collections.abc import Hashable, Iterator
from typing import Any

from torch.utils.flop_counter import flop_registry

from simulator.training.operations import Operations


class counting_flops(Operations):
    """A context that adds up the floating-point operations of what this thread computes in it."""

    def __init__(self) -> None:
        super().__init__()
        self.total: int = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if (formula := flop_registry.get(func._overloadpacket)) is not None:
            self.total += int(formula(*args, **kwargs, out_val=result))
        return result


class FlopCache:
    """FLOPs of one step of each kind: counted on the first, looked up ever after.

    A kind is whatever decides the count: the architecture, the phase and the batch size, say.
    """

    def __init__(self) -> None:
        self._steps: dict[tuple[Hashable, ...], int] = {}

    @contextlib.contextmanager
    def step(self, *kind: Hashable) -> Iterator[None]:
        """Around a step: counts it if it is the first of its kind. Clients side by side count the same number."""
        if self.knows(*kind):
            yield
        else:
            with counting_flops() as flops:
                yield
            self._steps[kind] = flops.total

    def knows(self, *kind: Hashable) -> bool:
        """Whether a step of that kind has been taken before."""
        return kind in self._steps

    def of(self, *kind: Hashable) -> int:
        """The FLOPs of a step that has been taken before."""
        return self._steps[kind]
