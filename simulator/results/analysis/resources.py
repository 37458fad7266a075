"""Where a round's time goes, which client takes it, what the method tells of itself, and what goes on now."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from simulator.base.record import Record
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.curves import Curves
from simulator.results.analysis.run import SessionData

TIME_PARTS = ("clients", "server", "evaluation", "checkpoint", "waiting")
"""What a round's time is for; the first two are training. Waiting is a pause, and in no round's `seconds`."""
_AT_WORK = {"w": "waiting", "t": "training", "d": "done"}


def seconds_by_part(curves: Curves) -> dict[str, Array]:
    """[n] seconds of each of TIME_PARTS; NaN where the ledger does not say.

    `clients` includes the server's time where the ledger has no time of the server."""
    server = np.where(np.isfinite(curves["seconds_server"]), curves["seconds_server"], 0.0)
    seconds = (
        curves["seconds_train"] - server,
        curves["seconds_server"],
        curves["seconds_evaluate"],
        curves["seconds_checkpoint"],
        curves["seconds_waited"],
    )
    return dict(zip(TIME_PARTS, seconds, strict=True))


def busy_share(curves: Curves) -> Array:
    """[n] the share of their time, 0…1, in which the workers had a client while clients trained; NaN: not recorded.

    The rest is waiting for the last client. Clients that were kept of an interrupted round took no time in it, so the
    share may be more than the workers could do; it is 1 then.
    """
    worked = curves.client_seconds.sums()
    had = curves["workers"] * seconds_by_part(curves)["clients"]
    share = np.divide(worked, had, out=np.full(len(worked), np.nan), where=had > 0)
    return np.asarray(np.minimum(share, 1.0))


def method_metrics(records: Sequence[Record]) -> dict[str, Array]:
    """[n] the method's own figures, and the losses of its later phases, by name; NaN in rounds that lack them."""
    names = dict.fromkeys(name for record in records for name in record["method_metrics"])
    found = {
        name: np.array([_number(record["method_metrics"].get(name)) for record in records], float)
        for name in names
    }
    return {name: values for name, values in found.items() if np.isfinite(values).any()}


def at_work(run: SessionData) -> tuple[str, ...]:
    """Where each client is in the round under way: 'waiting', 'training', 'done', '' for one that takes no part.

    Empty where no round is under way, or the owner does not say.
    """
    each = _progress(run).get("each", "")
    return tuple(_AT_WORK.get(letter, "") for letter in each) if len(each) == _clients(run) else ()


def machine_use(run: SessionData) -> Mapping[str, Any]:
    """What the run takes of the machine now, as far as its owner says: memory, gpu_memory (bytes), cpu (processors)."""
    said = run.progress if run.live else {}
    return {name: said[name] for name in ("cpu", "memory", "gpu_memory") if name in said}


def _progress(run: SessionData) -> Mapping[str, Any]:
    return run.progress if run.live and run.progress.get("round", 0) > run.round else {}


def _clients(run: SessionData) -> int:
    return run.curves.clients or len(run.models)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else np.nan
