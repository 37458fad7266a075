"""What holds on every clock: rounds of random federations, drawn by the clock of the engine without training."""

import functools
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulator.base.errors import ConfigError
from simulator.base.record import Flight
from simulator.base.rng import numpy_stream
from simulator.base.sections import SelectionConfig
from simulator.base.system_section import SystemConfig
from simulator.clock.durations import Work
from simulator.clock.schedule import Ended, Fate, Round
from simulator.engine.timing import Clock, equipped
from simulator.models.federation import Federation
from simulator.selection.selector import Selector
from tests import federations

CLIENTS, ROUNDS = 6, 15
UNSEEN = 5
"""The client that never trains."""
DEVICES = ("phone", "raspberry_pi", "jetson", "laptop")
SCHEDULES: list[dict[str, Any]] = [
    {},
    {"schedule": "deadline", "deadline": 3.0},
    {"schedule": "deadline", "deadline": 3.0, "late": "next", "max_staleness": 2},
    {"schedule": "deadline", "deadline_quantile": 0.5, "late": "next"},
    {"schedule": "over_selection", "select": 5},
    {"schedule": "buffered", "buffer": 2, "in_flight": 4, "max_staleness": 3},
    {"schedule": "buffered", "buffer": 3, "in_flight": 5},
    {"schedule": "asynchronous", "in_flight": 4},
]


@dataclass
class Rounds:
    """Rounds one after the other on a clock, and what each dispatch had to do."""

    clock: Clock
    seed: int
    drop: float
    server: float
    found: list[tuple[float, Ended]] = field(default_factory=list)
    works: dict[tuple[int, int], Work] = field(default_factory=dict)

    def carry_out(self) -> None:
        """Up to ROUNDS rounds; fewer if no client is available any more."""
        now, flying = 0.0, list[Flight]()
        for round in range(1, ROUNDS + 1):

            def choose(
                number: int, at: float, busy: frozenset[int], attempt: int, t: int = round
            ) -> tuple[int, ...]:
                return self.clock.choose(number, at, busy, t, attempt, {})

            def send(chosen: Any, at: float, t: int = round) -> list[Flight]:
                works = [self._work(client, t) for client in chosen]
                self.works.update(((client, t), work) for client, work in zip(chosen, works, strict=True))
                return self.clock.flights(chosen, at, t, works)

            def wait(at: float, busy: frozenset[int], t: int = round) -> float:
                return self.clock.wait(at, busy, t)

            participants = self.clock.participants(round)
            try:
                ended = Round(
                    self.clock.system, round, participants, now, flying, choose, send, wait, self._loses
                ).carry_out()
            except ConfigError as over:
                assert "No client is available any more" in str(over)
                return
            self.found.append((now, ended))
            now, flying = ended.ends + self.server, ended.flying

    def _work(self, client: int, round: int) -> Work:
        """Some work, nearly none, or none at all."""
        draw = numpy_stream(self.seed, "tests/work", round, client)
        flops, down, up = draw.integers(0, 10 ** draw.integers(1, 11)), *draw.integers(0, 10**7, 2)
        return Work(float(flops), int(down) * int(draw.integers(2)), int(up) * int(draw.integers(2)))

    def _loses(self, flight: Flight) -> bool:
        return bool(
            numpy_stream(self.seed, "tests/loss", flight.dispatch, flight.client).random() < self.drop
        )

    def landed(self) -> list[tuple[int, Flight, Fate]]:
        return [(number, *each) for number, (_, ended) in enumerate(self.found, 1) for each in ended.landed]


@functools.cache
def federation() -> Federation:
    """Six clients, of which the last one is unseen."""
    whole = federations.federation(["tiny_mlp"] * CLIENTS, samples=[20] * CLIENTS)
    return replace(whole, unseen=(UNSEEN,))


def clock_of(system: SystemConfig, participants: int, seed: int, strategy: str) -> Clock:
    """The engine's clock of that federation."""
    config = SimpleNamespace(
        system=system,
        training_seed=seed,
        federation=SimpleNamespace(participants_of=lambda present: participants),
    )
    method = SimpleNamespace(card=SimpleNamespace(stale="any", title="Method"))
    selector = Selector(SelectionConfig(strategy=strategy), federation(), seed)
    return Clock(config, equipped(federation(), system), method, selector)  # type: ignore[arg-type]


def intervals(folder: Path, seed: int) -> str:
    """A file in which each client comes and goes; from some time on, nobody comes."""
    lines, draw = ["client,from,to"], numpy_stream(seed, "tests/intervals")
    for client in range(CLIENTS):
        at = 0.0
        for away, there in draw.exponential(size=(8, 2)) * (2.0, 6.0):
            lines.append(f"{client},{at + away},{at + away + there + 0.01}")
            at += away + there + 0.02
    (folder / "there.csv").write_text("\n".join(lines) + "\n")
    return str(folder / "there.csv")


@pytest.mark.long
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6),
    jitter=st.sampled_from([0.0, 0.3, 2.0]),
    availability=st.sampled_from(["always", "markov", "diurnal", "intervals"]),
    strategy=st.sampled_from(["random", "available"]),
    participants=st.integers(3, 5),
    drop=st.sampled_from([0.0, 0.4]),
    server=st.sampled_from([0.0, 0.01, 20.0]),
    bandwidth=st.sampled_from([None, 5.0]),
    devices=st.lists(st.sampled_from(DEVICES), min_size=CLIENTS, max_size=CLIENTS),
)
def test_invariants_of_rounds_on_the_clock(
    tmp_path: Path, schedule: dict[str, Any], seed: int, jitter: float, availability: str, strategy: str,
    participants: int, drop: float, server: float, bandwidth: float | None, devices: list[str],
) -> None:  # fmt: skip
    section: dict[str, Any] = {"devices": devices, "jitter": jitter, "availability": availability, **schedule}
    match availability:
        case "markov":
            section |= {"availability_on": 4.0, "availability_off": 2.0, "availability_spread": 0.5}
        case "diurnal":
            section |= {"availability_hours": 8.0, "availability_spread": 0.5}
        case "intervals":
            section |= {"availability_file": intervals(tmp_path, seed)}
    at_work = schedule.get("schedule") in ("buffered", "asynchronous")
    if bandwidth and not at_work:
        section |= {"server_bandwidth": bandwidth}
    system = SystemConfig(**section)
    rounds = Rounds(clock_of(system, participants, seed, strategy), seed, drop, server)
    rounds.carry_out()

    there = rounds.clock.availability
    before = 0.0
    for number, (began, ended) in enumerate(rounds.found, 1):
        # The clock is monotone, and flights end in the order of time, ties by client.
        assert before <= began <= ended.ends < math.inf
        before = ended.ends
        order = [(flight.arrives, flight.client) for flight, _ in ended.landed]
        assert order == sorted(order)
        assert all(flight.arrives <= ended.ends for flight, _ in ended.landed)
        # Nobody who is at work, away, or unseen is sent off.
        assert UNSEEN not in ended.sent and len(set(ended.sent)) == len(ended.sent)
        assert len({flight.client for flight in ended.flying}) == len(ended.flying)
        used = len(ended.used)
        match system.schedule:
            case "over_selection":
                assert used <= participants and len(ended.sent) <= 5
            case "buffered" | "asynchronous":
                assert used <= (system.buffer or 1) and len(ended.flying) <= (system.in_flight or 0)
            case "synchronous":
                assert ended.flying == []
        ages = [number - flight.dispatch for flight in ended.used]
        assert all(
            0 <= age <= (math.inf if system.max_staleness is None else system.max_staleness) for age in ages
        )
        assert rounds.clock.can_be_stale or not any(ages)
    for number, flight, fate in rounds.landed():
        # Completion is dispatch plus parts, and a client works while it is there.
        parts = (flight.latency, flight.down, flight.compute, flight.up)
        assert all(0 <= part < math.inf for part in parts)
        assert flight.arrives == pytest.approx(flight.begins + math.fsum(parts), rel=1e-9)
        assert there.next_available(flight.client, flight.begins) == flight.begins
        leaves = there.leaves_at(flight.client, flight.begins)
        assert leaves == flight.arrives if fate == "lost" else leaves >= flight.arrives
        assert number >= flight.dispatch
        energy = rounds.clock.joules(flight, 0.0)
        assert 0 <= energy.total < math.inf
    # No client is at two places at once.
    ends_of = defaultdict[int, float](float)
    for _, flight, _ in sorted(rounds.landed(), key=lambda each: each[1].begins):
        assert flight.begins >= ends_of[flight.client]
        ends_of[flight.client] = flight.arrives
    # Every dispatch ends once, or is under way: so operations and bytes are used, wasted, or under way.
    under_way = rounds.found[-1][1].flying if rounds.found else []
    dispatches = Counter((each.client, each.dispatch) for _, each, _ in rounds.landed())
    dispatches += Counter((each.client, each.dispatch) for each in under_way)
    sent = Counter((k, number) for number, (_, ended) in enumerate(rounds.found, 1) for k in ended.sent)
    assert dispatches == sent and set(sent.values()) <= {1}
    assert sent.keys() <= rounds.works.keys()
