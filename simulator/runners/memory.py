"""Report missing memory with the client and the setting that helps. The session stays at its last checkpoint."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from simulator.base.errors import NotEnoughMemory, is_of_memory
from simulator.runners.base import Runner

LONGEST = 200


@contextmanager
def for_training(runner: Runner, round: int, client: int, at_once: int) -> Iterator[None]:
    """Wraps a client's part of round t, with `at_once` clients at a time. Raises NotEnoughMemory."""
    size = runner.context.federation.training.batch_size
    doing = f"in round {round}, in training on batches of {size} samples"
    with _needed(runner, client, doing, at_once, "training.batch_size", size):
        yield


@contextmanager
def for_evaluation(runner: Runner, round: int, client: int, batch_size: int, at_once: int) -> Iterator[None]:
    """Wraps a client's answers on its test images, with `at_once` clients at a time. Raises NotEnoughMemory."""
    doing = f"in round {round}, in evaluation on {batch_size} samples at a time"
    with _needed(runner, client, doing, at_once, "evaluation.batch_size", batch_size):
        yield


@contextmanager
def for_stack(runner: Runner, round: int, clients: Sequence[int], largest: int) -> Iterator[None]:
    """Wraps the steps of a stack of clients. Raises NotEnoughMemory."""
    size = runner.context.federation.training.batch_size
    doing = f"and {len(clients) - 1} more as one, in round {round}, in training on batches of {size} samples"
    remedy = f"`htfl-sim resume SESSION --set runtime.stack={max(largest // 2, 1)} --allow-inexact`"
    try:
        yield
    except Exception as error:
        if not is_of_memory(error):
            raise
        raise _said(runner, clients[0], doing, error, f"continue with smaller stacks: {remedy}") from error


@contextmanager
def _needed(runner: Runner, client: int, doing: str, at_once: int, key: str, size: int) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not is_of_memory(error):
            raise
        if at_once > 1:
            fewer = f"`htfl-sim resume SESSION --set {runner.workers_key}={at_once // 2}`"
            remedy = f"continue with fewer clients at a time: {fewer}"
        elif size > 1:
            remedy = (
                f"continue with smaller batches: `htfl-sim switch SESSION --set {key}={size // 2}`, then "
                "`htfl-sim resume SESSION`"
            )
        else:
            remedy = "use a smaller model, or smaller samples"
        raise _said(runner, client, doing, error, remedy) from error


def _said(runner: Runner, client: int, doing: str, error: Exception, remedy: str) -> NotEnoughMemory:
    where = "the GPU" if runner.context.federation.device.type == "cuda" else "this machine"
    words = " ".join(str(error).split()) or type(error).__name__
    words = words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"
    return NotEnoughMemory(
        f"{where} has not enough memory for {runner.info(client)} {doing} ({words}); the session is at its last "
        f"checkpoint: {remedy}."
    )
