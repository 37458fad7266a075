"""A few clients in rounds of their own, whose work stands for that of all clients of their architectures."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simulator.base.errors import ConfigError
from simulator.base.tensors import Tensors
from simulator.config import Config
from simulator.engine.builder import Built
from simulator.engine.wire import Wire
from simulator.methods import Uplink
from simulator.methods.hooks import Hooks
from simulator.runners import Job, Jobs, LocalUpdate, Work, central, synchronous
from simulator.runners.sequential import SequentialRunner
from simulator.training.context import TrainingContext
from simulator.training.flops import FlopCache
from simulator.training.precision import tf32_in_force


@dataclass(frozen=True)
class SampledRound:
    """What clients and server did in one round."""

    updates: tuple[LocalUpdate, ...]
    seconds: tuple[float, ...]
    """Of each client, from its downlink to its uplink."""
    wire: Wire
    server_flops: int
    server_seconds: float


class Sample:
    """Some clients of a federation, one after the other, and the server that aggregates them."""

    def __init__(
        self,
        config: Config,
        built: Built,
        clients: Sequence[int],
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`timer` returns seconds."""
        self._built, self._chosen, self._timer = built, sorted(clients), timer
        self._precision = config.training.precision
        self._hooks = Hooks(built.method, built.federation)
        self._context = TrainingContext(built.federation, built.data, FlopCache())
        self._runner = SequentialRunner(self._context, config.runtime)
        state = built.engine.initial_state()
        self._round = 0
        self._server: Tensors = dict(state.server)
        self._local = {k: state.clients[k] for k in self._chosen}

    def round(self) -> SampledRound:
        """The next round. Before the first one, some servers have nothing to send, so its work is less.

        Raises ConfigError for a client that diverges.
        """
        with tf32_in_force(self._precision, self._built.federation.device):
            return self._next()

    def _next(self) -> SampledRound:
        self._round += 1
        t, clients = self._round, self._built.federation.clients
        wire = Wire(len(clients))

        def job(k: int) -> Job:
            payload = self._hooks.downlink(t, self._server, clients[k])
            return Job(self._local[k], wire.down(k, payload))

        updates, seconds = list[LocalUpdate](), list[float]()
        for k in self._chosen:
            began = self._timer()
            updates += synchronous.carry_out(self._runner, Work(self._hooks, t, Jobs([k], job)))
            seconds.append(self._timer() - began)
        if lost := [update.client for update in updates if update.diverged]:
            raise ConfigError(
                f"{lost[0]} diverges in round {t}, so its work cannot be measured. Use a smaller `training.lr`."
            )
        uplinks = [Uplink(update.client, update.uplink) for update in updates]
        began = self._timer()
        (self._server, _), flops = central.update(self._hooks, self._context, t, self._server, uplinks)
        served = self._timer() - began
        self._local = {update.client.id: update.tensors for update in updates}
        return SampledRound(tuple(updates), tuple(seconds), wire, flops, served)
