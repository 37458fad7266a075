"""Contexts that see every torch operation of one thread."""

from torch.utils._python_dispatch import TorchDispatchMode


class Operations(TorchDispatchMode):
    """To be derived from, with a `__torch_dispatch__`. It is never compiled.

    The base class guards against being compiled, and loads torch's compiler to do so: seconds of a run's start.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
