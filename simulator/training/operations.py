"""Contexts that see every torch operation of one thread."""

from torch.utils._python_dispatch import TorchDispatchMode


class Operations(TorchDispatchMode):
    """Base class with a `__torch_dispatch__` that subclasses define. It is never compiled.

    torch's own base class imports the compiler to prevent compilation, which delays a run's start by seconds.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
