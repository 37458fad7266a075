"""Availability: answers derived by hand, and the same ones in any order of questions."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.base.errors import ConfigError
from simulator.base.system_section import SystemConfig
from simulator.clock.availability import (
    DAY,
    HOUR,
    Availability,
    Diurnal,
    Intervals,
    Markov,
    availability,
    read_intervals,
)  # fmt: skip


def made(seed: int = 0, clients: int = 3, **system: Any) -> Availability:
    return availability(SystemConfig(devices={"phone": 1}, **system), clients, seed)


def intervals(model: Availability, client: int, count: int) -> list[tuple[float, float]]:
    """The first intervals of a client."""
    found, at = [], 0.0
    for _ in range(count):
        start = model.next_available(client, at)
        at = model.leaves_at(client, start)
        found.append((start, at))
    return found


def test_clients_are_always_available_by_default() -> None:
    model = made()
    assert type(model) is Availability
    assert (model.next_available(2, 5.0), model.leaves_at(2, 5.0), model.share(2)) == (5.0, math.inf, 1.0)


def test_intervals_begin_with_their_start_and_end_before_their_end() -> None:
    model = Intervals([[(10.0, 20.0), (30.0, 40.0)]])
    for at, following, leaves in [
        (0.0, 10.0, 0.0), (10.0, 10.0, 20.0), (19.0, 19.0, 20.0), (20.0, 30.0, 20.0), (30.0, 30.0, 40.0),
        (40.0, math.inf, 40.0),
    ]:  # fmt: skip
        assert (model.next_available(0, at), model.leaves_at(0, at)) == (following, leaves)


def test_the_share_of_an_interval_counts_to_the_last_end_of_all_clients() -> None:
    model = Intervals([[(10.0, 20.0), (30.0, 40.0)], [(0.0, 50.0)]])
    assert (model.share(0), model.share(1)) == (0.4, 1.0)


def test_a_file_of_intervals_is_sorted_and_joined(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("client,from,to\n0,30,40\n1,0,5\n0,10,20\n0,20,25\n")
    model = made(clients=2, availability="intervals", availability_file=str(path))
    assert intervals(model, 0, 2) == [(10.0, 25.0), (30.0, 40.0)]
    assert intervals(model, 1, 1) == [(0.0, 5.0)]


WRONG_FILES = [
    ("client,from\n0,1\n", "has no column to"),
    ("client,from,to\n0,1,1\n", "line 2: the interval from 1 to 1 is empty"),
    ("client,from,to\n0,-1,1\n", "from = -1 is not a number ≥ 0"),
    ("client,from,to\n2,0,1\n", "no client 2 among 2 clients"),
    ("client,from,to\n0,0,9\n", "no interval for client 1"),
    ("client,from,to\n0,0,9\n1,0,9\n1,8,12\n", "two intervals of client 1 overlap at 8 s"),
]


def test_a_file_of_intervals_is_checked(tmp_path: Path) -> None:
    for text, said in WRONG_FILES:
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(ConfigError, match=said):
            read_intervals(tmp_path / "a.csv", 2)


def test_a_diurnal_client_is_available_for_its_hours_of_each_day() -> None:
    model = Diurnal(hours=8, spread=0, seed=1)
    (first, leaves), (second, _) = intervals(model, 4, 2)[-2:]
    if first == 0.0:  # it was available at midnight
        first, leaves = second, model.leaves_at(4, second)
        second = model.next_available(4, leaves)
    assert leaves - first == pytest.approx(8 * HOUR)
    assert second - first == pytest.approx(DAY)
    assert model.share(4) == 8 / 24


def test_diurnal_clients_begin_at_times_of_their_own_all_over_the_day() -> None:
    model = Diurnal(hours=1, spread=0, seed=1)
    ends = [model.leaves_at(client, model.next_available(client, DAY)) % DAY for client in range(400)]
    assert np.mean(ends) == pytest.approx(DAY / 2, abs=4 * DAY / 12**0.5 / 20)
    assert min(ends) < HOUR < 23 * HOUR < max(ends)


def test_a_client_with_all_hours_of_the_day_never_leaves() -> None:
    model = Diurnal(hours=24, spread=1, seed=1)
    assert (model.next_available(0, 7.0), model.leaves_at(0, 7.0), model.share(0)) == (7.0, math.inf, 1.0)


def test_a_markov_client_is_on_and_off_for_exponential_times() -> None:
    """2,000 cycles: means and standard deviations are both the mean of the law, within 4 standard errors."""
    found = np.array(intervals(Markov(on=30, off=10, spread=0, seed=3), 0, 2001))[1:]
    on, off = found[:, 1] - found[:, 0], found[1:, 0] - found[:-1, 1]
    for times, mean in ((on, 30), (off, 10)):
        assert times.mean() == pytest.approx(mean, abs=4 * mean / 2000**0.5)
        assert times.std() == pytest.approx(mean, abs=4 * mean * (2 / 2000) ** 0.5)


def test_markov_clients_begin_in_the_stationary_state() -> None:
    model = Markov(on=30, off=10, spread=0, seed=3)
    on = [model.next_available(client, 0.0) == 0.0 for client in range(2000)]
    assert np.mean(on) == pytest.approx(0.75, abs=4 * (0.75 * 0.25 / 2000) ** 0.5)


def test_a_spread_gives_clients_shares_of_their_own_with_the_usual_one_in_the_middle() -> None:
    for model in (Markov(on=30, off=10, spread=0.5, seed=3), Diurnal(hours=18, spread=0.5, seed=3)):
        odds = [math.log(share / (1 - share)) for share in map(model.share, range(1000))]
        assert np.median(odds) == pytest.approx(math.log(3), abs=4 * 1.2533 * 0.5 / 1000**0.5)
        assert np.std(odds) == pytest.approx(0.5, abs=4 * 0.5 / 2000**0.5)


SYSTEMS: list[dict[str, Any]] = [
    {"availability": "markov", "availability_on": 20, "availability_off": 5, "availability_spread": 0.5},
    {"availability": "diurnal", "availability_hours": 9, "availability_spread": 0.5},
    {"availability": "always"},
]


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
@given(
    questions=st.lists(st.tuples(st.integers(0, 2), st.floats(0, 1e6)), min_size=1, max_size=6),
    seed=st.integers(0, 9),
)
def test_answers_do_not_depend_on_earlier_questions(
    system: dict[str, Any], questions: list[tuple[int, float]], seed: int
) -> None:
    model = made(seed, **system)
    answers = [(model.next_available(*each), model.leaves_at(*each)) for each in questions]
    for question, answer in zip(questions, answers, strict=True):
        fresh = made(seed, **system)
        assert (fresh.next_available(*question), fresh.leaves_at(*question)) == answer


@pytest.mark.parametrize("system", SYSTEMS)
@given(client=st.integers(0, 2), at=st.floats(0, 1e6), seed=st.integers(0, 9))
def test_a_client_that_comes_stays_for_a_time_and_then_is_away(
    system: dict[str, Any], client: int, at: float, seed: int
) -> None:
    model = made(seed, **system)
    start = model.next_available(client, at)
    assert start >= at
    assert model.next_available(client, start) == start
    leaves = model.leaves_at(client, start)
    assert leaves > start
    if leaves < math.inf:
        assert model.next_available(client, leaves) > leaves
        assert model.leaves_at(client, leaves) == leaves
    if start > at:
        assert model.leaves_at(client, at) == at
