"""Floating-point operations of one thread, by the formulas of torch's own counter, which hooks the whole process."""

import contextlib
from collections.abc import Hashable, Iterator
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class Operations(TorchDispatchMode):
    """A base class that is never compiled. torch's own imports the compiler, which delays a run's start by seconds."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class counting_flops(Operations):
    """A context that counts the floating-point operations of this thread."""

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
    """FLOPs of one step of each kind, counted in the first such step. A kind is all that determines the count."""

    def __init__(self) -> None:
        self._steps: dict[tuple[Hashable, ...], int] = {}

    @contextlib.contextmanager
    def step(self, *kind: Hashable) -> Iterator[None]:
        """Wraps a step and counts it if it is the first of its kind. Clients in parallel count the same number."""
        if self.knows(*kind):
            yield
        else:
            with counting_flops() as flops:
                yield
            self._steps[kind] = flops.total

    def knows(self, *kind: Hashable) -> bool:
        """Whether a step of that kind has been counted."""
        return kind in self._steps

    def of(self, *kind: Hashable) -> int:
        """The FLOPs of a step that has been counted."""
        return self._steps[kind]
