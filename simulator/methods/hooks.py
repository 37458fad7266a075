"""A method's hooks, as the engine and the runners call them.

Each draws from its own keyed stream. Its result is checked at once. An error in a user's code is reported with its
file, line, and hook, and with the client, phase, and step.
"""

import ctypes
import inspect
import pickle
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from simulator.base import rng
from simulator.base.errors import RAISED, HtflError, MethodError, is_of_memory
from simulator.base.own_files import is_users, line_in
from simulator.base.rng import drawing_from
from simulator.base.tensors import Tensors, named, of_module, part
from simulator.methods import checks
from simulator.methods.base import Aggregated, Method, Uplink
from simulator.models.federation import ClientInfo, Federation
from simulator.training.client import LocalClient
from simulator.training.loop import StepFailed
from simulator.training.phase import Phase
from simulator.training.trainer import CentralServer

MT19937_BYTES = 625 * 4  # 624 words, and the number of used ones


class Hooks:
    """The hooks of one method. Raises MethodError for faults of the method."""

    def __init__(self, method: Method, federation: Federation) -> None:
        self.method = method
        self.name = method.name
        self._federation = federation
        self._watch = GlobalDraws()
        self._at: dict[int, Hooks] = {}

    def at(self, round: int) -> "Hooks":
        """The hooks of the method over the clients as they are in a round."""
        federation = self._federation.at(round)
        if federation is self._federation:
            return self
        if federation.stage not in self._at:
            method = type(self.method)(self.method.config, federation)
            self._at[federation.stage] = Hooks(method, federation)
        return self._at[federation.stage]

    def init_server(self) -> Tensors:
        """Networks that the method leaves out have the weights that they draw."""
        networks = self.server_networks()  # first, so that errors of the networks name their own hook
        with self._calling("init_server"):
            state = checks.tensors(self.method.init_server())
            if left_out := [name for name in networks if not any(True for _ in part(state, name))]:
                drawn = self.method.server_networks()
                for name in left_out:
                    state |= named(name, of_module(drawn[name]))
            for name, network in networks.items():
                checks.weights(state, name, of_module(network))
            return checks.finite(state)

    def init_client(self, client: ClientInfo) -> Tensors:
        with self._calling("init_client", client=client):
            state = checks.tensors(self.method.init_client(client))
            if taken := [name for name in state if name.startswith("model/")]:
                raise checks.Unusable(f"keeps '{taken[0]}', but 'model/…' is the client's own model")
            return checks.finite(state)

    def adopt(self, server: Mapping[str, Tensor], fresh: Mapping[str, Tensor]) -> Tensors:
        """`fresh`: this method's initial state."""
        with self._calling("adopt"):
            return checks.finite(checks.adopted(self.method.adopt(server), fresh))

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        return self._downlink("downlink", round, server, client)

    def downlink_to_unseen(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        return self._downlink("downlink_to_unseen", round, server, client)

    def _downlink(self, hook: str, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        with self._calling(hook, round, client):
            payload = checks.payload(getattr(self.method, hook)(round, server, client))
            # The server's tensors are known to be finite. Only new ones are checked.
            kept = {tensor.untyped_storage().data_ptr() for tensor in server.values()}
            new = {
                name: each for name, each in payload.items() if each.untyped_storage().data_ptr() not in kept
            }
            checks.finite(new)
            return payload

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        with self._calling_on("receive", local):
            self.method.receive(local, payload)
            models = local.nets.model, self._federation.architecture_of(local.info)
            checks.fitting(*(named("model", model.state_dict()) for model in models))

    def phases(self, local: LocalClient) -> list[Phase]:
        with self._calling_on("phases", local):
            return checks.phases(self.method.phases(local), local.nets, local.state)

    def uplink(self, local: LocalClient, before: Mapping[str, Tensor]) -> tuple[Tensors, Tensors]:
        """The payload, and the kept tensors, those of `before`. Both may be not finite: then the client diverged."""
        with self._calling_on("uplink", local):
            payload = checks.payload(self.method.uplink(local))
            return payload, checks.state(local.tensors(), before)

    def rebased(
        self,
        round: int,
        server: Mapping[str, Tensor],
        client: ClientInfo,
        payload: Mapping[str, Tensor],
        received: Mapping[str, Tensor],
    ) -> Tensors:
        """A stale uplink as if the client had begun with the downlink of this round, and not with `received`."""
        present = self.downlink(round, server, client)
        with self._calling("rebased", round, client):
            return checks.payload(self.method.rebased(payload, received, present))

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        with self._calling("aggregate", round):
            result = self.method.aggregate(round, server, uplinks)
            if not isinstance(result, tuple) or len(result) != 2:
                raise checks.Unusable("must hand back Aggregated(server, metrics)")
            return Aggregated(checks.finite(checks.state(result[0], server)), checks.metrics(result[1]))

    def server_networks(self) -> dict[str, nn.Module]:
        """The modules that the server trains, without values."""
        with self._calling("server_networks"), torch.device("meta"):
            return checks.networks(self.method.server_networks())

    def server_phases(self, server: CentralServer, uplinks: Sequence[Uplink]) -> list[Phase]:
        with self._calling("server_phases", server.round):
            found = self.method.server_phases(server, uplinks)
            return checks.phases(found, server.nets, server.state, on_server=True)

    def after_server_phases(self, server: CentralServer, uplinks: Sequence[Uplink]) -> None:
        with self._calling("after_server_phases", server.round), torch.no_grad():
            self.method.after_server_phases(server, uplinks)

    def trained(self, server: CentralServer, before: Mapping[str, Tensor]) -> Tensors:
        """The server's state after its own training."""
        with self._calling("server_phases", server.round):
            return checks.finite(checks.state(server.tensors(), before))

    def before_answering(self, local: LocalClient) -> None:
        with self._calling_on("before_answering", local):
            self.method.before_answering(local)

    def predict(self, local: LocalClient, x: Tensor) -> Tensor:
        with self._calling_on("predict", local):
            answer = self.method.predict(local.nets, local.state, x)
            return checks.scores(answer, len(x), self._federation.num_classes)

    @contextmanager
    def training(self, phase: Phase, round: int, client: ClientInfo | None = None) -> Iterator[None]:
        """Wraps the steps of a phase. The training loop directs their draws."""
        with self._blaming(str(getattr(phase.loss, "__name__", "loss")), round, client, phase.name):
            yield

    def _calling_on(self, hook: str, local: LocalClient) -> AbstractContextManager[None]:
        return self._calling(hook, local.round, local.info, local.dispatch)

    @contextmanager
    def _calling(
        self, hook: str, round: int = 0, client: ClientInfo | None = None, dispatch: int | None = None
    ) -> Iterator[None]:
        """Wraps a hook: its draws come from its own stream, keyed by `dispatch`, or by the round."""
        number = rng.EVERYONE if client is None else client.id
        key = round if dispatch is None else dispatch
        seed = self._federation.seed_of_draws(initial=hook.startswith("init_"))
        stream = rng.torch_stream(seed, f"hook/{hook}", key, number)
        with self._blaming(hook, round, client), drawing_from(stream):
            yield

    @contextmanager
    def _blaming(
        self, hook: str, round: int, client: ClientInfo | None, phase: str | None = None
    ) -> Iterator[None]:
        """Wraps a method's code: turns its errors into a MethodError with the place."""
        during = f" for {client}" * (client is not None) + f" in round {round}" * (round > 0)
        whose = f"{hook}() of method '{self.name}'"
        try:
            with self._watch.during(hook) as drawn:
                yield
        except checks.Unusable as fault:
            when = f" ({during.strip()})" if during else ""
            raise MethodError(f"{self._place(hook)}{whose} {fault}{when}.") from fault
        except HtflError:
            raise
        except RAISED as error:
            if is_of_memory(error):
                raise
            cause = error.__cause__ if isinstance(error, StepFailed) and error.__cause__ else error
            line = line_in(cause)
            place = f"{line[0]}, line {line[1]}: " if line else ""
            place = place or self._place(hook) or (self._place("phases") if phase else "")
            if not place:
                raise  # an error of htfl-sim, with its details
            if isinstance(error, StepFailed):
                during += f", phase '{error.phase}', step {error.step}"
            called = f"it called sys.exit({cause.code!r})" if isinstance(cause, SystemExit) else str(cause)
            reason = called.rstrip(".") or "no reason given"
            raise MethodError(f"{place}{whose} failed{during}: {type(cause).__name__}: {reason}.") from error
        if drawn.generators:
            raise MethodError(
                f"{self._place(hook)}{' or '.join(f'{name}()' for name in drawn.hooks)} of method '{self.name}' drew "
                f"from {' and '.join(drawn.generators)}, which no run can repeat; draw from "
                "self.federation.stream(purpose, round, client) or local.stream(purpose)."
            )

    def _place(self, hook: str) -> str:
        """'my_method.py, line 41: ' for a user's hook."""
        function = getattr(type(self.method), hook, None)
        code = getattr(inspect.unwrap(function), "__code__", None) if function is not None else None
        if code is None or not is_users(code.co_filename):
            return ""
        return f"{code.co_filename}, line {code.co_firstlineno}: "


class Drawn(NamedTuple):
    """Global generators that moved, and the hooks that ran meanwhile, on any thread."""

    generators: list[str]
    hooks: list[str]


class GlobalDraws:
    """Finds draws from generators of the whole process, and the hooks that may have made them."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._open: list[set[str]] = []

    @contextmanager
    def during(self, hook: str) -> Iterator[Drawn]:
        """Wraps a hook. Afterwards, the yielded list names the generators that moved, if any."""
        drawn = Drawn([], [])
        with self._guard:
            meanwhile = {hook, *(name for each in self._open for name in each)}
            for each in self._open:
                each.add(hook)
            self._open.append(meanwhile)
            before = _generators()
        try:
            yield drawn
        finally:
            with self._guard:
                self._open = [each for each in self._open if each is not meanwhile]
                after = _generators()
        drawn.generators.extend(name for name in before if before[name] != after[name])
        drawn.hooks.extend(sorted(meanwhile))


def _generators() -> dict[str, bytes]:
    """The states of the global generators. Python's own is left out, because the terminal's display uses it."""
    usual = np.random.get_bit_generator()  # type: ignore[attr-defined]  # numpy's stubs leave it out
    # Read in memory: its `state` copies words one by one, which takes longer than many hooks.
    fast = isinstance(usual, np.random.MT19937)
    return {
        "torch's global generator": torch.get_rng_state().numpy().tobytes(),
        "numpy's global generator": (
            ctypes.string_at(usual.ctypes.state_address, MT19937_BYTES) if fast else pickle.dumps(usual.state)
        ),
    }
