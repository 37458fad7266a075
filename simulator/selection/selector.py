"""Selects the participants of a round by the run's strategy.

Of htfl-sim's own, `utility` follows Oort: Lai et al., "Oort: Efficient Federated Learning via Guided Participant
Selection", OSDI 2021, and the authors' selector in FedScale (SymbioticLab/FedScale, thirdparty/oort/oort.py at commit
ce642665). Taken from the latter are the share of exploration, the clipped and normalized utility, the bonus of age, the
penalty of slow clients, and the draw above a cutoff. The pacer, which moves the preferred duration, and the list of
clients that have taken part too often are left out.
"""

import math
import statistics
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.base import rng
from simulator.base.sections import AVAILABLE, RANDOM, UTILITY, SelectionConfig
from simulator.models.federation import Federation
from simulator.selection import user_selection
from simulator.selection.history import NOTHING, Candidate, History, Strategy

Stays = Callable[[int], float]
"""The simulated seconds until a client leaves."""
CLIP = 0.9
"""Quantile of the utilities above which they count as equal."""
AGE = 0.1
"""Factor under the root of the bonus of age."""
LEAST = 1e-9
"""Smallest score, so that every client can be drawn."""


class Selector:
    """The strategy of one run. Raises ConfigError for a strategy whose file is not loaded."""

    def __init__(self, settings: SelectionConfig, federation: Federation, seed: int) -> None:
        self.settings, self._federation, self._seed = settings, federation, seed
        self._strategy: Strategy | None = None
        if settings.strategy == AVAILABLE:
            self._strategy = available
        elif settings.strategy == UTILITY:
            self._strategy = utility(settings)
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
        """So many of the free clients, ascending, or all. attempt: number of selections before in the same round."""
        if number >= len(free):
            return tuple(free)
        kind = "participants" if self._strategy is None else "selection"
        purpose = kind if not attempt else f"{kind}/{attempt}"
        draws = rng.numpy_stream(self._seed, purpose, round)
        if self._strategy is None:
            drawn = draws.choice(len(free), number, replace=False)
            return tuple(sorted(free[each] for each in drawn))
        candidates = []
        for client in free:
            info, past = self._federation.clients[client], history.get(client, NOTHING)
            facts = client, info.architecture, info.samples, tuple(info.classes)
            seen = past.rounds, past.last, past.loss, past.seconds
            candidates.append(Candidate(*facts, *seen, stays(client)))
        return tuple(sorted(self._strategy(candidates, number, round, draws)))


def available(
    candidates: Sequence[Candidate], number: int, round: int, draws: np.random.Generator
) -> list[int]:
    """Clients that stay as long as they last took (new ones: the median), at random; then others, longest first."""
    known = [each.seconds for each in candidates if each.seconds is not None]
    usual = statistics.median(known) if known else 0.0
    fitting, others = list[Candidate](), list[Candidate]()
    for each in candidates:
        fits = each.stays >= (usual if each.seconds is None else each.seconds)
        (fitting if fits else others).append(each)
    if len(fitting) > number:
        return [fitting[place].id for place in draws.choice(len(fitting), number, replace=False)]
    others.sort(key=lambda each: (-each.stays, each.id))
    return [each.id for each in (*fitting, *others)][:number]


def utility(settings: SelectionConfig) -> Strategy:
    """The clients of the largest utility, and a share of clients from which the server has received nothing yet."""

    def select(
        candidates: Sequence[Candidate], number: int, round: int, draws: np.random.Generator
    ) -> list[int]:
        tried = [each for each in candidates if each.last is not None]
        new = [each.id for each in candidates if each.last is None]
        decayed = settings.exploration * settings.exploration_decay ** (round - 1)
        share = max(decayed, settings.exploration_min)
        wanted = math.floor(number * share + draws.random())  # on average, exactly that share
        exploited = min(number - min(wanted, len(new)), len(tried))
        explored = draws.choice(len(new), number - exploited, replace=False) if number > exploited else ()
        chosen = [new[place] for place in explored]
        if not exploited:
            return chosen
        values = scores(tried, round, settings)
        least = settings.cutoff * np.sort(values)[-exploited]
        places = np.flatnonzero(values >= least)
        drawn = draws.choice(places, exploited, replace=False, p=values[places] / math.fsum(values[places]))
        return chosen + [tried[place].id for place in drawn]

    return select


def scores(tried: Sequence[Candidate], round: int, settings: SelectionConfig) -> NDArray[np.float64]:
    """(normalized utility + √(0.1 ln(round) / last round)) · (T / t)^α for t > T, of clients with a last round.

    The utility is samples × loss. It is clipped at its 0.9 quantile and normalized to 0…1. T is a quantile of the
    seconds t. Without a clock, there is no penalty.
    """
    utilities = np.array([each.samples * abs(each.loss or 0.0) for each in tried])
    utilities = np.minimum(utilities, np.quantile(utilities, CLIP, method="inverted_cdf"))
    spread = utilities.max() - utilities.min()
    found = (utilities - utilities.min()) / spread if spread > 0 else np.zeros(len(tried))
    found = found + np.sqrt(AGE * math.log(round) / np.array([each.last for each in tried], dtype=float))
    known = [each.seconds for each in tried if each.seconds is not None]
    if known and settings.speed_penalty:
        limit = float(np.quantile(known, settings.preferred, method="inverted_cdf"))
        seconds = np.array([limit if each.seconds is None else each.seconds for each in tried])
        shares = np.divide(limit, seconds, out=np.ones(len(tried)), where=seconds > limit)
        found = found * shares**settings.speed_penalty
    return np.maximum(found, LEAST)
