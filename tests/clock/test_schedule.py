"""The order of rounds on the clock, derived by hand for three clients that take 2, 3, and 7 seconds."""

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from simulator.base.errors import ConfigError
from simulator.base.record import Flight
from simulator.base.system_section import SystemConfig
from simulator.clock.schedule import Ended, carry_out

SECONDS = (2.0, 3.0, 7.0)
DEFAULTS: dict[str, Any] = {
    "schedule": "synchronous", "deadline": None, "deadline_quantile": None, "late": "drop", "select": None,
    "buffer": None, "in_flight": None, "max_staleness": None,
}  # fmt: skip


def rules(**changes: Any) -> SystemConfig:
    return SimpleNamespace(**{**DEFAULTS, **changes})  # type: ignore[return-value]


def run(
    rules: SystemConfig, rounds: int, participants: int = 3, seconds: Sequence[float] = SECONDS
) -> list[Ended]:
    """Rounds one after the other. All clients are always there; the lowest numbers are chosen first."""
    now, flying, found = 0.0, list[Flight](), []
    for round in range(1, rounds + 1):

        def choose(number: int, at: float, busy: frozenset[int], attempt: int) -> list[int]:
            return [client for client in range(len(seconds)) if client not in busy][:number]

        def send(clients: Sequence[int], at: float, round: int = round) -> list[Flight]:
            return [
                Flight(at + seconds[client], client, round, at, 0.0, 0.0, seconds[client], 0.0, lost=False)
                for client in clients
            ]

        def wait(at: float, busy: frozenset[int]) -> float:
            raise AssertionError("somebody is always there")

        ended = carry_out(rules, round, participants, now, flying, choose, send, wait)
        now, flying = ended.ends, ended.flying
        found.append(ended)
    return found


def brief(ended: Ended) -> tuple[float, list[tuple[int, int, str]], list[int]]:
    """When it ends, what landed as (client, dispatch, fate), and who still flies."""
    landed = [(flight.client, flight.dispatch, fate) for flight, fate in ended.landed]
    return ended.ends, landed, [flight.client for flight in ended.flying]


def test_a_late_uplink_can_count_in_the_next_round() -> None:
    second = run(rules(schedule="deadline", deadline=4.0, late="next"), 2)[1]
    assert brief(second) == (7, [(0, 2, "used"), (1, 2, "used"), (2, 1, "used")], [])
    fresh_only = rules(schedule="deadline", deadline=4.0, late="next", max_staleness=0)
    assert brief(run(fresh_only, 2)[1])[1][2] == (2, 1, "stale")


def test_a_deadline_before_the_first_uplink_waits_for_it() -> None:
    assert brief(run(rules(schedule="deadline", deadline=1.0), 1)[0]) == (2, [(0, 1, "used")], [1, 2])


def test_late_uplinks_that_are_dropped_neither_hold_up_a_round_nor_end_it() -> None:
    """Clients take 2, 2.5, and 7 seconds. Round 2 begins at 4.25, and has all that can count at 6.75. With a deadline
    of 1 second, client 1's late uplink arrives at 2.5, in a round whose first uplink that counts arrives at 4.
    """
    seconds = (2.0, 2.5, 7.0)
    second = run(rules(schedule="deadline", deadline=4.25), 2, seconds=seconds)[1]
    assert brief(second) == (6.75, [(0, 2, "used"), (1, 2, "used")], [2])
    second = run(rules(schedule="deadline", deadline=1.0), 2, seconds=seconds)[1]
    assert brief(second) == (4, [(1, 1, "late"), (0, 2, "used")], [2])


def test_a_round_that_nobody_is_free_for_ends_when_somebody_is() -> None:
    """Both clients fly to 7 and 9. While the server trains to 12, the first one arrives: the clock does not go back."""
    flying = [
        Flight(7.0, 0, 1, 0.0, 0.0, 0.0, 7.0, 0.0, lost=False),
        Flight(9.0, 1, 1, 0.0, 0.0, 0.0, 9.0, 0.0, lost=False),
    ]
    for now, expected in ((6.0, 7.0), (8.0, 8.0), (12.0, 12.0)):
        ended = alone(rules(schedule="deadline", deadline=0.5), 2, now, flying, {})
        assert ended.ends == expected
        assert {fate for _, fate in ended.landed} == {"late"}


def alone(
    rules: SystemConfig,
    participants: int,
    now: float,
    flying: Sequence[Flight],
    arrivals: dict[int, float],
    *,
    leave: Sequence[int] = (),
    lose: Sequence[int] = (),
) -> Ended:
    """Round 2 alone, in which these clients can be sent off: when each arrives or leaves, and whose uplink is lost."""

    def choose(number: int, at: float, busy: frozenset[int], attempt: int) -> list[int]:
        return [client for client in arrivals if client not in busy][:number]

    def send(clients: Sequence[int], at: float) -> list[Flight]:
        return [Flight(arrivals[k], k, 2, at, 0.0, 0.0, arrivals[k] - at, 0.0, k in leave) for k in clients]

    def wait(at: float, busy: frozenset[int]) -> float:
        return math.inf

    return carry_out(
        rules, 2, participants, now, flying, choose, send, wait, lambda flight: flight.client in lose
    )


def test_the_first_uplink_after_a_deadline_is_not_that_of_a_client_that_leaves() -> None:
    """The deadline is 1. Client 0 leaves at 2, client 1 arrives at 3, and client 2 later."""
    ended = alone(rules(schedule="deadline", deadline=1.0), 3, 0.0, [], {0: 2.0, 1: 3.0, 2: 7.0}, leave=[0])
    assert brief(ended) == (3, [(0, 2, "lost"), (1, 2, "used")], [2])


def test_over_selection_does_not_wait_for_a_late_client_in_place_of_one_that_left() -> None:
    """Client 3 flies from round 1 to 100. Of those sent off, client 1 leaves at 4, and client 2 arrives last, at 6."""
    old = [Flight(100.0, 3, 1, 0.0, 0.0, 0.0, 100.0, 0.0, lost=False)]
    settings = rules(schedule="over_selection", select=3)
    ended = alone(settings, 3, 0.0, old, {0: 2.0, 1: 4.0, 2: 6.0}, leave=[1])
    assert brief(ended) == (6, [(0, 2, "used"), (1, 2, "lost"), (2, 2, "used")], [3])


def test_over_selection_uses_the_lowest_numbers_of_clients_that_arrive_together() -> None:
    ended = run(rules(schedule="over_selection", select=3), 1, participants=2, seconds=(5.0, 5.0, 5.0))[0]
    assert brief(ended) == (5, [(0, 1, "used"), (1, 1, "used"), (2, 1, "late")], [])


LOST = [
    ({}, 7, 3),
    ({"schedule": "deadline", "deadline": 2.5}, 3, 2),
    ({"schedule": "over_selection", "select": 3}, 7, 3),
    ({"schedule": "buffered", "buffer": 2, "in_flight": 3}, 7, 3),
    ({"schedule": "asynchronous", "in_flight": 3}, 3, 2),
]


def test_an_uplink_that_the_wire_loses_fills_no_place() -> None:
    """Clients arrive at 2, 3, and 7, and the uplink of client 0 is lost. Two uplinks end a round of over-selection."""
    for changes, ends, landed in LOST:
        participants = 2 if changes.get("schedule") == "over_selection" else 3
        ended = alone(rules(**changes), participants, 0.0, [], dict(enumerate(SECONDS)), lose=[0])
        fates = [(0, 2, "dropped"), (1, 2, "used"), (2, 2, "used")]
        assert brief(ended) == (ends, fates[:landed], [0, 1, 2][landed:])


def test_a_buffer_ends_with_fewer_uplinks_where_no_other_client_is_there() -> None:
    """Client 0 is back, and clients 1 and 2 have left for good."""
    ended = alone(rules(schedule="buffered", buffer=2), 3, 0.0, [], {0: 2.0})
    assert brief(ended) == (2, [(0, 2, "used")], [])


def test_over_selection_of_fewer_than_the_round_needs_is_refused() -> None:
    with pytest.raises(ConfigError, match="fewer than the 3 participants"):
        run(rules(schedule="over_selection", select=2), 1)


def test_a_buffer_larger_than_the_clients_at_work_is_refused() -> None:
    with pytest.raises(ConfigError, match="would wait for clients that wait for it"):
        run(rules(schedule="buffered", buffer=3, in_flight=2), 1)


def test_a_client_whose_stale_uplink_is_back_is_not_sent_off_again_in_the_round() -> None:
    """Client 2 flies from 0 to 7, two rounds long. A second dispatch of it in round 3 would take 1 second only, and the
    round would have two uplinks of one client.
    """
    seconds = iter((7.0, 1.0))

    def send(clients: Sequence[int], at: float) -> list[Flight]:
        found = [SECONDS[client] if client < 2 else next(seconds) for client in clients]
        return [
            Flight(at + s, client, round, at, 0.0, 0.0, s, 0.0, lost=False)
            for client, s in zip(clients, found, strict=True)
        ]

    def choose(number: int, at: float, busy: frozenset[int], attempt: int) -> list[int]:
        return [client for client in range(3) if client not in busy][:number]

    now, flying = 0.0, list[Flight]()
    for round in (1, 2, 3):
        settings = rules(schedule="buffered", buffer=2, max_staleness=0)
        ended = carry_out(settings, round, 3, now, flying, choose, send, lambda at, busy: at)
        now, flying = ended.ends, ended.flying
    assert brief(ended) == (9, [(2, 1, "stale"), (0, 3, "used"), (1, 3, "used")], [])
