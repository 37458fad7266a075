"""What a tuning study asks for, and the trials that are proposed for it: by a grid, at random, or by TPE (Optuna)."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from simulator import methods
from simulator.base.errors import ConfigError, nearest
from simulator.base.extras import library
from simulator.base.nested import Raw
from simulator.base.sections import TrainingConfig
from simulator.base.space import Choice, Linear, Log, Range, parsed

BATCH = 5
"""Trials that TPE proposes at a time: it learns from the batches before."""

Sampler = Literal["grid", "random", "tpe"]
SAMPLERS: tuple[Sampler, ...] = ("grid", "random", "tpe")


@dataclass(frozen=True)
class Request:
    """What a tuning study asks for; tuning.json has it.

    base: the study's settings; its section `method` holds values that are fixed for the methods that have such a key.
    budget: trials of each method. keys: the settings or sections to search; none: all that the method and training
    declare. ranges: by key, in place of the declared ones. halving: of each rung the best 1/halving continue; None: all
    trials run all rounds. last: rounds over whose mean a trial is scored. separate: trials and final runs draw their
    samples from two disjoint parts of the data set (`data.pool`).
    """

    base: Raw
    methods: tuple[str, ...]
    rounds: int
    budget: int = 10
    sampler: Sampler = "random"
    halving: int | None = None
    keys: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    tuning_seeds: tuple[int, ...] = (1000,)
    seeds: tuple[int, ...] = (0, 1, 2)
    last: int = 1
    separate: bool = False

    def checked(self) -> "Request":
        """The request, if it can be carried out. Raises ConfigError with the reason otherwise."""
        if self.sampler not in SAMPLERS:
            raise ConfigError(
                f"There is no sampler '{self.sampler}'.{nearest(self.sampler, SAMPLERS)} Use {', '.join(SAMPLERS)}."
            )
        if both := sorted({*self.tuning_seeds} & {*self.seeds}):
            raise ConfigError(f"Seed {both[0]} is a tuning seed and a final seed. Tune with other seeds.")
        if not self.tuning_seeds or not self.seeds or not self.methods:
            raise ConfigError("Tuning needs at least one method, one tuning seed, and one final seed.")
        if self.budget < 1 or self.last < 1:
            raise ConfigError("The budget and the number of last rounds are at least 1.")
        if self.halving is not None and self.halving < 2:
            raise ConfigError("Halving keeps one of 2 trials or more. Use `halving=3`.")
        if self.halving is not None and self.sampler == "tpe":
            raise ConfigError(
                "TPE learns from trials of all rounds, and halving ends most of them early. Use one of them."
            )
        return self

    def rungs(self) -> list[tuple[int, int]]:
        """The number of trials, and the round to which they run, of each rung: 9 trials by 3 to 30 rounds are
        (9, 4), (3, 10), (1, 30)."""
        if self.halving is None:
            return [(self.budget, self.rounds)]
        steps = min(
            int(math.log(self.budget, self.halving) + 1e-9), int(math.log(self.rounds, self.halving) + 1e-9)
        )
        return [
            (
                math.ceil(self.budget / self.halving**step),
                math.ceil(self.rounds / self.halving ** (steps - step)),
            )
            for step in range(steps + 1)
        ]

    def space(self, method: str) -> dict[str, Range]:
        """The ranges of a method by dotted key, its own and training's. Raises ConfigError for an unknown key."""
        own = {f"method.{key}": each for key, each in methods.get(method).Config.space.items()}
        training = {f"training.{key}": each for key, each in TrainingConfig.space.items()}
        optimizer = self.base.get("training", {}).get("optimizer", "sgd")
        if optimizer != "sgd":
            del training["training.momentum"]
        given = dict(map(parsed, self.ranges))
        known = {**training, **own}
        every = {f"method.{key}" for name in self.methods for key in methods.get(name).Config.model_fields}
        for key in self.keys:
            if key not in {*known, *every, *given, "method", "training"}:
                raise ConfigError(
                    f"Nothing is known to search for '{key}'.{nearest(key, known)} Give a range for it."
                )
        fields = methods.get(method).Config.model_fields
        mine = {
            key: each
            for key, each in given.items()
            if not key.startswith("method.") or key.removeprefix("method.") in fields
        }
        fixed = {f"method.{key}" for key in self.base.get("method", {})}
        found = {key: each for key, each in {**known, **mine}.items() if key not in fixed or key in mine}
        wanted = self.keys or ("method", "training")
        return {
            key: each
            for key, each in found.items()
            if key in wanted or key.partition(".")[0] in wanted or key in mine
        }

    def fixed(self, method: str) -> Raw:
        """The values of the method's own settings that are not searched."""
        fields = methods.get(method).Config.model_fields
        return {key: each for key, each in self.base.get("method", {}).items() if key in fields}


@dataclass(frozen=True)
class Trial:
    """Values that were tried. values: by dotted key; none for the first trial, which has the values without tuning."""

    method: str
    number: int
    values: Mapping[str, Any]

    def name(self, seed: int) -> str:
        """The point of the trial with a seed."""
        return f"{self.method}-t{self.number:02d}-s{seed}"


def proposed(request: Request, method: str, scores: Sequence[float]) -> list[Trial]:
    """The trials of a method so far, and the next ones: all of a grid or of random values, or a batch of TPE's.

    `scores` are those of the trials so far, which TPE learns from. The same scores give the same trials. Raises
    ConfigError without Optuna.
    """
    optuna = library("optuna", "tune")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = request.space(method)
    distributions = {key: _distribution(optuna, each) for key, each in space.items()}
    seed = int.from_bytes(hashlib.sha256(f"{method} {request.sampler}".encode()).digest()[:4], "big")
    match request.sampler:
        case "grid":
            sampler = optuna.samplers.GridSampler(
                {key: _grid(each) for key, each in space.items()}, seed=seed
            )
        case "tpe":
            sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=BATCH)
        case _:
            sampler = optuna.samplers.RandomSampler(seed=seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    count = request.budget if request.sampler != "tpe" else min(request.budget, len(scores) + BATCH)
    trials = [Trial(method, 0, {})]
    asked: list[Any] = []
    for number in range(1, count if space else 1):
        if request.sampler == "tpe" and number % BATCH == 0:
            for before in range(max(1, number - BATCH), number):
                study.tell(asked[before - 1], scores[before])
        asked.append(study.ask(distributions))
        trials.append(
            Trial(method, number, {key: _value(space[key], each) for key, each in asked[-1].params.items()})
        )
    return trials


def _distribution(optuna: Any, range: Range) -> Any:
    match range:
        case Choice(options):
            return optuna.distributions.CategoricalDistribution([json.dumps(each) for each in options])
        case Log(low, high):
            return optuna.distributions.FloatDistribution(low, high, log=True)
        case Linear(low, high):
            return optuna.distributions.FloatDistribution(low, high)


def _value(range: Range, given: Any) -> Any:
    """A value with four digits, as tables print it; a choice as it was declared."""
    return json.loads(given) if isinstance(range, Choice) else float(f"{given:.4g}")


def _grid(range: Range) -> list[Any]:
    """Values of a range on a grid: choices, or three even steps."""
    match range:
        case Choice(options):
            return [json.dumps(each) for each in options]
        case Log(low, high):
            return [float(each) for each in np.geomspace(low, high, 3)]
        case Linear(low, high):
            return [float(each) for each in np.linspace(low, high, 3)]
