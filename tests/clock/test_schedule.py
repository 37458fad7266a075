"""The order of rounds on the clock, derived by hand for clients that take so many seconds."""

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from simulator.base.errors import ConfigError
from simulator.base.record import Flight
from simulator.base.system_section import SystemConfig
from simulator.clock.schedule import Ended, Round

S = (2.0, 3.0, 7.0)
DEFAULTS: dict[str, Any] = {
    "schedule": "synchronous", "deadline": None, "deadline_quantile": None, "late": "drop", "select": None,
    "buffer": None, "in_flight": None, "max_staleness": None,
}  # fmt: skip


def rules(**changes: Any) -> SystemConfig:
    return SimpleNamespace(**{**DEFAULTS, **changes})  # type: ignore[return-value]


def flown(client: int, seconds: float, dispatch: int, at: float = 0.0, lost: bool = False) -> Flight:
    return Flight(at + seconds, client, dispatch, at, 0.0, 0.0, seconds, 0.0, lost)


def run(
    rules: SystemConfig,
    seconds: Sequence[float] = S,
    participants: int = 3,
    rounds: int = 1,
    *,
    now: float = 0.0,
    flying: Sequence[Flight] = (),
    again: Mapping[int, float] = {},
    leave: Sequence[int] = (),
    lose: Sequence[int] = (),
) -> Ended:
    """The last of some rounds, in which the lowest numbers are chosen first.

    again: seconds of later dispatches, if others. leave: who leaves. lose: whose uplinks are lost.
    """
    begun = set[int]()

    def choose(number: int, at: float, busy: frozenset[int], attempt: int) -> list[int]:
        return [client for client in range(len(seconds)) if client not in busy][:number]

    def send(clients: Sequence[int], at: float) -> list[Flight]:
        took = [again.get(k, seconds[k]) if k in begun else seconds[k] for k in clients]
        begun.update(clients)
        return [flown(k, s, round, at, k in leave) for k, s in zip(clients, took, strict=True)]

    def loses(flight: Flight) -> bool:
        return flight.client in lose

    for round in range(1, rounds + 1):
        going = Round(rules, round, participants, now, flying, choose, send, lambda *_: math.inf, loses)
        ended = going.carry_out()
        now, flying = ended.ends, ended.flying
    return ended


def brief(ended: Ended) -> tuple[float, list[tuple[int, int, str]], list[int]]:
    """When it ends, what landed as (client, dispatch, fate), and who still flies."""
    landed = [(flight.client, flight.dispatch, fate) for flight, fate in ended.landed]
    return ended.ends, landed, [flight.client for flight in ended.flying]


NEXT = {"schedule": "deadline", "deadline": 4.0, "late": "next"}
OVER = {"schedule": "over_selection", "select": 3}
BOTH = [(0, 2, "used"), (1, 2, "used")]
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "a late uplink can count in the next round": (NEXT, {"rounds": 2}, (7, [*BOTH, (2, 1, "used")], [])),
    "unless it is too old": (
        NEXT | {"max_staleness": 0}, {"rounds": 2}, (7, [*BOTH, (2, 1, "stale")], []),
    ),
    "a deadline before the first uplink waits for it": (
        {"schedule": "deadline", "deadline": 1.0}, {}, (2, [(0, 1, "used")], [1, 2]),
    ),
    "dropped late uplinks hold up no round, which begins at 4.25": (
        {"schedule": "deadline", "deadline": 4.25}, {"seconds": (2.0, 2.5, 7.0), "rounds": 2}, (6.75, BOTH, [2]),
    ),
    "and end none: that of client 1 arrives at 2.5": (
        {"schedule": "deadline", "deadline": 1.0}, {"seconds": (2.0, 2.5, 7.0), "rounds": 2},
        (4, [(1, 1, "late"), (0, 2, "used")], [2]),
    ),
    "the first uplink after a deadline is not that of who leaves": (
        {"schedule": "deadline", "deadline": 1.0}, {"leave": [0]}, (3, [(0, 1, "lost"), (1, 1, "used")], [2]),
    ),
    "over-selection does not wait for a late client in place of one that left": (
        OVER, {"seconds": (2.0, 4.0, 6.0), "leave": [1], "flying": [flown(3, 100.0, 0)]},
        (6, [(0, 1, "used"), (1, 1, "lost"), (2, 1, "used")], [3]),
    ),
    "over-selection uses the lowest numbers of those that arrive together": (
        OVER, {"seconds": (5.0, 5.0, 5.0), "participants": 2},
        (5, [(0, 1, "used"), (1, 1, "used"), (2, 1, "late")], []),
    ),
    "a buffer ends with fewer uplinks where no other client is there": (
        {"schedule": "buffered", "buffer": 2}, {"seconds": (2.0,)}, (2, [(0, 1, "used")], []),
    ),
    "a client whose stale uplink is back is not sent off again in the round": (
        {"schedule": "buffered", "buffer": 2, "max_staleness": 0}, {"rounds": 3, "again": {2: 1.0}},
        (9, [(2, 1, "stale"), (0, 3, "used"), (1, 3, "used")], []),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "how", "expected"), CASES.values(), ids=CASES)
def test_a_round_ends_by_its_rules(changes: dict[str, Any], how: dict[str, Any], expected: Any) -> None:
    assert brief(run(rules(**changes), **how)) == expected


def test_a_round_that_nobody_is_free_for_ends_when_somebody_is() -> None:
    """Both clients fly to 7 and 9. While the server trains to 12, the first one arrives: the clock does not go back."""
    flying = [flown(0, 7.0, 0), flown(1, 9.0, 0)]
    for now, expected in ((6.0, 7.0), (8.0, 8.0), (12.0, 12.0)):
        ended = run(rules(schedule="deadline", deadline=0.5), (), 2, now=now, flying=flying)
        assert ended.ends == expected
        assert {fate for _, fate in ended.landed} == {"late"}


LOST = [
    ({}, 7, 3),
    ({"schedule": "deadline", "deadline": 2.5}, 3, 2),
    (OVER, 7, 3),
    ({"schedule": "buffered", "buffer": 2, "in_flight": 3}, 7, 3),
    ({"schedule": "asynchronous", "in_flight": 3}, 3, 2),
]


def test_an_uplink_that_the_wire_loses_fills_no_place() -> None:
    """The uplink of client 0 is lost. Two uplinks end a round of over-selection."""
    for changes, ends, landed in LOST:
        ended = run(rules(**changes), participants=2 if changes is OVER else 3, lose=[0])
        fates = [(0, 1, "dropped"), (1, 1, "used"), (2, 1, "used")]
        assert brief(ended) == (ends, fates[:landed], [0, 1, 2][landed:])


def test_rules_under_which_no_round_could_end_are_refused() -> None:
    with pytest.raises(ConfigError, match="fewer than the 3 participants"):
        run(rules(schedule="over_selection", select=2))
    with pytest.raises(ConfigError, match="would wait for clients that wait for it"):
        run(rules(schedule="buffered", buffer=3, in_flight=2))
