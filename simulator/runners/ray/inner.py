"""The runner inside an actor: any runner that computes in one process."""

from simulator.base.errors import ConfigError, nearest
from simulator.base.sections import RuntimeConfig
from simulator.runners.base import Runner, get, names, names_within
from simulator.training.trainer import TrainingContext


def kind(settings: RuntimeConfig) -> type[Runner]:
    """The runner of `runtime.inner`. Raises ConfigError with the nearest name if an actor cannot hold it."""
    within = names_within()
    if settings.inner in within:
        return get(settings.inner)
    if settings.inner in names():
        what = f"runtime.inner = '{settings.inner}' would have actors start others."
    else:
        what = f"unknown runner '{settings.inner}' in runtime.inner.{nearest(settings.inner, within)}"
    raise ConfigError(f"{what} An actor can hold {', '.join(within)}.")


def at_once(settings: RuntimeConfig) -> int:
    """Clients that an actor computes at a time. A stack counts as one."""
    return settings.workers_per_actor if settings.inner == "parallel" else 1


def in_process(settings: RuntimeConfig) -> str:
    """The runner that gives the same bits without Ray."""
    alike = get("parallel").sums(settings) == kind(settings).sums(settings)
    return "parallel" if alike else settings.inner


def made(context: TrainingContext, settings: RuntimeConfig) -> Runner:
    """Make the runner. Raises ConfigError like `kind`, and if it cannot run these clients."""
    runner = kind(settings)(context, settings.model_copy(update={"workers": at_once(settings)}))
    runner.workers_key = "runtime.workers_per_actor"
    return runner
