"""Selects the participants of a round by the run's strategy."""

import math
from collections.abc import Callable, Sequence

from simulator.base import rng
from simulator.base.selection_section import AVAILABLE, RANDOM, UTILITY, SelectionConfig
from simulator.models.federation import Federation
from simulator.selection import strategies, user_selection
from simulator.selection.candidates import Candidate, Strategy
from simulator.selection.history import NOTHING, History

Stays = Callable[[int], float]
"""The simulated seconds until a client leaves."""


class Selector:
    """The strategy of one run. Raises ConfigError for a strategy whose file is not loaded."""

    def __init__(self, settings: SelectionConfig, federation: Federation, seed: int) -> None:
        self.settings, self._federation, self._seed = settings, federation, seed
        self._strategy: Strategy | None = None
        if settings.strategy == AVAILABLE:
            self._strategy = strategies.available
        elif settings.strategy == UTILITY:
            self._strategy = strategies.utility(settings)
        elif settings.strategy != RANDOM:
            self._strategy = user_selection.strategy(settings.strategy)

    def select(
        self,
        free: Sequence[int],
        number: int,
        round: int,
        history: History,
        attempt: int = 0,
        stays: Stays = lambda client: math.inf,
    ) -> tuple[int, ...]:
        """So many of the free clients, without replacement, ascending. All of them if there are no more.

        attempt: the number of selections before in the same round. A selection depends on the seed, the round, the
        attempt, the free clients, and their past.
        """
        if number >= len(free):
            return tuple(free)
        kind = "participants" if self._strategy is None else "selection"
        purpose = kind if not attempt else f"{kind}/{attempt}"
        draws = rng.numpy_stream(self._seed, purpose, round)
        if self._strategy is None:
            drawn = draws.choice(len(free), number, replace=False)
            return tuple(sorted(free[each] for each in drawn))
        candidates = [self._candidate(client, history, stays) for client in free]
        return tuple(sorted(self._strategy(candidates, number, round, draws)))

    def _candidate(self, client: int, history: History, stays: Stays) -> Candidate:
        info, past = self._federation.clients[client], history.get(client, NOTHING)
        return Candidate(
            client,
            info.architecture,
            info.samples,
            tuple(info.classes),
            past.rounds,
            past.last,
            past.loss,
            past.seconds,
            stays(client),
        )
