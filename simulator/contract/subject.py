"""A method under test: tiny models that meet its needs, on real digits or on samples of another kind."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from simulator import methods, runners
from simulator.base.errors import ConfigError
from simulator.base.nested import merged
from simulator.config import Config
from simulator.data.datasets import data_folder
from simulator.data.specs import Kind
from simulator.engine.builder import Built, build
from simulator.engine.client_states import State
from simulator.engine.progress import unobserved
from simulator.methods.hooks import Hooks
from simulator.runners import Job, local
from simulator.training.context import TrainingContext
from simulator.training.flops import FlopCache
from simulator.training.phase import Batch, Nets, Phase
from simulator.training.precision import Precision

GROUPS: dict[Kind, tuple[str, ...]] = {
    "image": ("tiny", "tiny_resnet", "tiny_vit", "tiny_widths"),
    "tokens": ("tiny_text", "tiny_text_depths", "tiny_text_widths"),
    "signal": ("tiny_signal", "tiny_mlp_widths"),
    "table": ("tiny_table", "tiny_mlp_widths"),
}
"""The groups of tiny models for each kind of samples, in the order in which they are tried."""
CLIENTS, ROUNDS = 4, 2
"""The second round is the first that starts from another round's state."""


class Subject:
    """A method under test, on four clients. Three take part in each of two rounds."""

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Any] | None = None,
        *,
        runner: str | None = None,
        precision: Precision | None = None,
        dataset: str | None = None,
        kind: Kind = "image",
    ) -> None:
        """`settings` are the method's own. It is tested with every runner and precision, or only with these.

        `dataset` is a name or path as in a configuration, of samples of that kind. Default: the digits.

        Raises ConfigError if no group of tiny models meets its needs.
        """
        self.method = methods.get(name)
        self.settings = {"name": name, **(settings or {})}
        self.runners = runners.names_within() if runner is None else [runner]
        self.precisions: list[Precision] = ["float32", "bf16"] if precision is None else [precision]
        self.dataset = {} if dataset is None else {"dataset": dataset}
        refusals = []
        for group in GROUPS[kind]:
            self.group = group
            try:
                self.built()
            except ConfigError as refused:
                refusals.append(f"{group}: {refused}")
            else:
                return
        raise ConfigError(
            f"method '{name}' cannot be tried: none of the tiny models meets its needs ({refusals[0]})"
        )

    def config(self, **sections: Any) -> Config:
        """The tiny federation; `sections` change it."""
        base = {
            "seed": 7,
            "rounds": ROUNDS,
            "method": self.settings,
            "data": {"limit": 200, "public": 0.2} | self.dataset,
            "federation": {"clients": CLIENTS, "participation": 0.75, "group": self.group},
            "training": {"batch_size": 16, "lr": 0.1, "precision": self.precisions[0]},
            "cka": {"every": 0},
            "runtime": {"workers": 1, "device": "cpu", "runner": self.runners[0]},
        }
        return Config.read(merged(base, sections))

    def built(self, **sections: Any) -> Built:
        """The parts of that federation."""
        return build(self.config(**sections), data_folder(None))

    def states(self, rounds: int = ROUNDS, **sections: Any) -> list[State]:
        """The state after each of this many rounds."""
        engine = self.built(**sections).engine
        state, after = engine.initial_state(), []
        for _ in range(rounds):
            after.append(state := engine.round(state, unobserved))
        engine.close()
        return after

    @property
    def first(self) -> State:
        """The state after round 1, computed once."""
        return self._undisturbed[0]

    @property
    def last(self) -> State:
        """The state after the last round, computed once."""
        return self._undisturbed[-1]

    @cached_property
    def _undisturbed(self) -> list[State]:
        return self.states()

    def phases(self) -> Iterator[tuple[Nets, Phase, Batch]]:
        """Every phase of the first client of each architecture, in round 2, with a batch of its data."""
        parts = self.built()
        context = TrainingContext(parts.federation, parts.data, FlopCache())
        for client in self.one_of_each(parts):
            info = parts.federation.clients[client]
            payload = parts.method.downlink(2, self.first.server, info)
            job = Job(self.first.clients[client], {name: tensor.clone() for name, tensor in payload.items()})
            prepared = local.prepare(Hooks(parts.method, parts.federation), context, info, 2, job)
            for phase in prepared.phases:
                yield prepared.local.nets, phase, next(prepared.local.batches(phase))

    def one_of_each(self, parts: Built) -> list[int]:
        return list(
            {client.architecture: client.id for client in reversed(parts.federation.clients)}.values()
        )
