"""The selection of participants: the strategies by hand, and runs that go on as they would have."""

import math
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import Store
from simulator.base import own_files
from simulator.base.errors import ConfigError
from simulator.base.record import Record
from simulator.base.rng import numpy_stream
from simulator.base.sections import SelectionConfig
from simulator.config import Config, cautions
from simulator.engine.builder import Built
from simulator.engine.client_states import Known, State
from simulator.engine.drawing import drawn
from simulator.engine.progress import unobserved
from simulator.selection import Candidate, Past, history, user_selection
from simulator.selection.selector import available, scores, utility
from simulator.sessions import metadata, states
from simulator.sessions.committing import Commits
from simulator.sessions.forking import fork
from simulator.sessions.history import history_entry
from simulator.sessions.reader import CheckedReader
from simulator.sessions.session import Session
from tests import federations
from tests.own import another_process, written

pytestmark = pytest.mark.usefixtures("generated_images")


__all__ = ["another_process"]

UTILITY = SelectionConfig(strategy="utility")
ON_OFF = {"availability": "markov", "availability_on": 0.5, "availability_off": 0.1}
LAST = "def select(candidates, number, round, draws):\n    return [c.id for c in candidates][-number:]\n"


def candidate(id: int, **facts: Any) -> Candidate:
    return Candidate(id, "tiny_cnn", **{"samples": 10, "classes": (0, 1), **facts})


def draws(number: int = 0) -> np.random.Generator:
    return numpy_stream(number, "tests/selection")


# available


def test_clients_that_stay_too_short_come_last_and_the_longest_stay_first() -> None:
    """Client 1 needs 6 seconds and stays 5. Client 2 was never sent off, so it counts with (4 + 6) / 2 = 5."""
    three = [candidate(0, seconds=4.0, stays=10), candidate(1, seconds=6.0, stays=5), candidate(2, stays=1)]
    assert available(three, 1, 3, draws()) == [0]
    assert available(three, 2, 3, draws()) == [0, 1]


def test_clients_that_stay_long_enough_are_drawn_at_random() -> None:
    four = [candidate(k, seconds=2.0, stays=2.0 if k < 3 else 1.9) for k in range(4)]
    counts = Counter(client for number in range(300) for client in available(four, 1, 3, draws(number)))
    assert sorted(counts) == [0, 1, 2]
    assert all(abs(count - 100) < 3 * math.sqrt(300 * 2 / 9) for count in counts.values())


# utility


def tried(id: int, samples: int, loss: float | None, last: int, seconds: float | None = None) -> Candidate:
    return candidate(id, samples=samples, loss=loss, last=last, seconds=seconds)


THREE = [tried(0, 10, 1.0, 9, 1.0), tried(1, 20, 1.0, 9, 2.0), tried(2, 10, 4.0, 1, 4.0)]
"""Utilities 10, 20, and 40, so 0, 1/3, and 1. In round 10, √(0.1 ln 10 / 9) = 0.159951 and √(0.1 ln 10) = 0.479853."""


def test_a_score_is_the_normalized_utility_and_a_bonus_of_age_times_the_penalty_of_slow_clients() -> None:
    """T is the median, 2 seconds. Client 2 takes 4, so its penalty is (2 / 4)² = 1/4. Without a clock it is
    1.
    """
    found = scores(THREE, 10, SelectionConfig(strategy="utility", preferred=0.5))
    assert found == pytest.approx([0.159951, 0.493285, 0.369963], abs=1e-6)
    untimed = [tried(each.id, each.samples, each.loss, each.last or 0) for each in THREE]
    assert scores(untimed, 10, UTILITY) == pytest.approx([0.159951, 0.493285, 1.479853], abs=1e-6)


def test_utilities_above_their_quantile_of_0_9_count_as_equal() -> None:
    """Of ten utilities, the ninth is the quantile. The tenth, which is a hundred times larger, counts as that."""
    ten = [tried(k, k + 1, 1.0, 1) for k in range(9)] + [tried(9, 900, 1.0, 1)]
    found = scores(ten, 2, UTILITY)
    assert found[9] == found[8] == pytest.approx(1 + math.sqrt(0.1 * math.log(2)))


def test_with_a_cutoff_of_one_and_without_exploration_the_best_clients_are_selected() -> None:
    exact = SelectionConfig(strategy="utility", cutoff=1, exploration=0, exploration_min=0, preferred=0.5)
    assert sorted(utility(exact)([*THREE, candidate(3)], 2, 10, draws())) == [1, 2]
    assert utility(exact)([*THREE, candidate(3)], 1, 10, draws()) == [1]


def test_above_the_cutoff_clients_are_drawn_in_proportion_to_their_scores() -> None:
    """The best score is 0.493285. A cutoff of 0.5 leaves out 0.159951, and keeps 0.369963: 57 % and 43 %."""
    half = SelectionConfig(strategy="utility", cutoff=0.5, exploration=0, exploration_min=0, preferred=0.5)
    counts = Counter(utility(half)(THREE, 1, 10, draws(number))[0] for number in range(1000))
    assert sorted(counts) == [1, 2]
    share = 0.493285 / (0.493285 + 0.369963)
    assert abs(counts[1] - 1000 * share) < 3 * math.sqrt(1000 * share * (1 - share))


def test_the_share_of_new_clients_falls_from_round_to_round_to_its_minimum() -> None:
    """With 0.8 · 0.5^(t − 1) and at least 0.3, three clients have 2.4 new ones in round 1, 1.2 in round 2, and 0.9."""
    falls = SelectionConfig(strategy="utility", exploration=0.8, exploration_decay=0.5, exploration_min=0.3)
    old = [tried(k, 10, 1.0, 1) for k in range(6)]
    new = [candidate(k) for k in range(6, 12)]
    for round, expected in ((1, 2.4), (2, 1.2), (3, 0.9), (50, 0.9)):
        select = utility(falls)
        found = [sum(k >= 6 for k in select([*old, *new], 3, round, draws(n))) for n in range(500)]
        assert {*found} <= {math.floor(expected), math.floor(expected) + 1}
        assert abs(sum(found) / 500 - expected) < 3 * 0.5 / math.sqrt(500)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_strategy_selects_as_many_different_candidates_as_it_should(data: st.DataObject) -> None:
    times = st.none() | st.floats(0, 1e9)
    past = st.tuples(
        st.none() | st.integers(1, 9), st.none() | st.floats(-1e30, 1e30), times, st.floats(0, 1e9)
    )
    pasts = data.draw(st.lists(past, min_size=2, max_size=12))
    keys = ("last", "loss", "seconds", "stays")
    every = [candidate(3 * k, **dict(zip(keys, past, strict=True))) for k, past in enumerate(pasts)]
    number = data.draw(st.integers(1, len(every) - 1))
    for select in (available, utility(UTILITY)):
        chosen = select(every, number, 10, draws())
        assert len(chosen) == number == len({*chosen} & {each.id for each in every})


# What the server knows


def record(round: int, losses: dict[int, float], **more: Any) -> Record:
    per_client = {str(client): loss for client, loss in losses.items()}
    told: Any = {"round": round, "participants": sorted(losses), "loss": {"per_client": per_client}}
    return told | {"bytes": {"per_client_up": {}}} | more  # type: ignore[no-any-return]


def test_a_loss_is_known_when_the_uplink_has_arrived() -> None:
    """Client 1's uplink of round 1 arrives in round 2. Client 2 leaves after 3 seconds. The wire loses client 3's."""

    def flight(client: int, begins: float, arrives: float, fate: str) -> dict[str, Any]:
        return {"client": client, "begins": begins, "arrives": arrives, "fate": fate}

    first = record(
        1,
        {0: 0.5, 1: 0.25, 2: 0.125, 3: 2.0},
        dropped=[3],
        time={"flights": [flight(0, 0, 4, "used"), flight(2, 0, 3, "lost"), flight(3, 0, 4, "used")]},
    )
    second = record(2, {0: 0.75}, time={"flights": [flight(1, 0, 5, "late"), flight(0, 4, 6, "used")]})
    one = history.after({}, first)
    assert one[0] == Past(1, 1, 0.5, 4, 0.5)
    assert one[1] == Past(1, None, None, None, 0.25)
    assert one[2] == Past(1, None, None, 3, 0.125)
    assert one[3] == Past(1, None, None, 4, 2.0)
    both = history.after(one, second)
    assert both[0] == Past(2, 2, 0.75, 2, 0.75)
    assert both[1] == Past(1, 2, 0.25, 5, 0.25)
    assert one[1].last is None, "the pasts before stay as they were"


def test_without_a_clock_a_round_tells_the_losses_of_its_participants() -> None:
    told = record(3, {0: 0.5, 2: 1.5}, diverged=[1]) | {"participants": [0, 1, 2]}
    known = history.after({}, told)  # type: ignore[arg-type]
    assert known == {0: Past(1, 3, 0.5, None, 0.5), 1: Past(1, 3), 2: Past(1, 3, 1.5, None, 1.5)}


# Runs

SYSTEM = {"devices": ["phone", "laptop", "phone", "jetson", "desktop", "phone"], "jitter": 0.5, **ON_OFF}
SCHEDULES: dict[str, dict[str, Any]] = {
    "synchronous": {},
    "deadline": {"schedule": "deadline", "deadline_quantile": 0.5, "late": "next"},
    "over_selection": {"schedule": "over_selection", "select": 4},
    "buffered": {"schedule": "buffered", "buffer": 2},
    "asynchronous": {"schedule": "asynchronous"},
}


def config(strategy: str, schedule: str | None = None, **more: Any) -> Config:
    clock = {} if schedule is None else {"system": {**SYSTEM, **SCHEDULES[schedule]}}
    federation = {"clients": 6, "participation": 0.5}
    more |= {"federation": federation, "selection": {"strategy": strategy}}
    return federations.config("fedproto", rounds=5, **clock, **more)


@pytest.mark.parametrize(
    ("strategy", "schedule"),
    [
        ("utility", None),
        *(
            pytest.param(strategy, each, marks=pytest.mark.long)
            for strategy in ("available", "utility")
            for each in SCHEDULES
        ),
    ],
)
def test_a_resumed_run_selects_the_same_clients(tmp_path: Path, strategy: str, schedule: str | None) -> None:
    built = federations.built(config(strategy, schedule))
    through = built.engine.round(built.engine.initial_state(), unobserved)
    resumed = stored(built, through, tmp_path / "s")
    assert resumed.known == through.known != Known()
    for _ in range(2):
        through, resumed = (built.engine.round(each, unobserved) for each in (through, resumed))
        assert resumed.record is not None and through.record is not None
        assert resumed.record["participants"] == through.record["participants"]
    assert federations.state_bits(resumed) == federations.state_bits(through)


def stored(built: Built, state: State, folder: Path) -> State:
    """The state as another process reads it back."""
    config = built.engine._config
    document = metadata.of_new(config, built, None)
    with Store.create(folder, document, metadata.retention(config)) as store:
        Commits(store, state.round - 1).commit(state, [history_entry(config, 1)], [])
    reader = CheckedReader(folder)
    return states.restore(reader, reader.manifest(), federations.built(config))


@pytest.mark.long
def test_a_stopped_round_and_a_fork_go_on_with_the_selected_clients(tmp_path: Path) -> None:
    asked = iter(range(10**6))
    chosen = config("utility", "buffered")
    federations.assert_a_stop_changes_nothing(chosen, tmp_path, lambda _: next(asked) >= 7)
    fork(tmp_path / "stopped", tmp_path / "fork", tmp_path, 3)
    with Session.resume(tmp_path / "fork", tmp_path) as again:
        again.run()
    records = [CheckedReader(tmp_path / name).records() for name in ("fork", "stopped")]
    selected = [[each["participants"] for each in of_one] for of_one in records]
    assert selected[0] == selected[1]


@pytest.mark.long
def test_rounds_drawn_without_training_select_the_clients_that_the_run_selects() -> None:
    """FedAvg's payloads depend on the architecture alone."""
    for schedule in SCHEDULES:
        section = {**SYSTEM, **SCHEDULES[schedule]}
        federation = {"clients": 6, "participation": 0.5}
        sections = {"federation": federation, "selection": {"strategy": "available"}, "system": section}
        chosen = federations.config("fedavg", rounds=5, **sections)
        built = federations.built(chosen)
        state = built.engine.initial_state()
        for each in drawn(chosen, built):
            state = built.engine.round(state, unobserved)
            assert state.record is not None
            assert each["ends"] == pytest.approx(state.record["time"]["ends"], rel=1e-12)
            assert each["sent"] == len(state.record["time"]["sent"])


def test_rounds_cannot_be_drawn_without_the_losses_that_a_selection_needs() -> None:
    chosen = config("utility", "synchronous")
    with pytest.raises(ConfigError, match=r"'utility' can depend on training .*Use 'random' or 'available'"):
        next(drawn(chosen, federations.built(chosen)))


# Settings


def test_settings_that_cannot_act_are_refused() -> None:
    for selection, system, said in [
        ({"strategy": "available"}, None, "here they never leave; set system.availability"),
        ({"strategy": "available"}, {"devices": "phone"}, "here they never leave; set system.availability"),
        ({"strategy": "utility", "speed_penalty": 1.0}, None, "selection.speed_penalty is about seconds"),
        ({"exploration": 0.5}, None, "exploration belongs to strategy 'utility', and this is 'random'"),
        ({"strategy": "utility", "cutoff": 0}, None, "cutoff"),
        ({"strategy": ""}, None, "strategy"),
    ]:
        with pytest.raises(ConfigError, match=said):
            federations.config(selection=selection, **({} if system is None else {"system": system}))


def test_a_selection_without_a_choice_is_pointed_out() -> None:
    every = federations.config(federation={"participation": 1.0}, selection={"strategy": "utility"})
    assert any("selection.strategy = 'utility' changes nothing" in each for each in cautions(every))
    assert cautions(config("utility")) == []
    coming = federations.config(
        federation={"participation": 1.0},
        selection={"strategy": "utility"},
        system={"devices": "phone", "schedule": "buffered", "buffer": 1, "in_flight": 2},
    )
    assert cautions(coming) == []


# A user's file


def loaded(folder: Path, text: str, name: str = "mypick.py") -> str:
    return Path(user_selection.load(written(folder, name, text)).name).stem


@pytest.mark.parametrize("schedule", [None, *SCHEDULES])
def test_a_users_function_selects(tmp_path: Path, schedule: str | None) -> None:
    built = federations.built(config(loaded(tmp_path, LAST), schedule))
    state = built.engine.round(built.engine.initial_state(), unobserved)
    assert state.record is not None
    if schedule is None:
        assert state.record["participants"] == [3, 4, 5]
    else:
        assert set(state.record["participants"]) & {3, 4, 5}


def test_a_users_function_is_told_what_the_server_knows(tmp_path: Path) -> None:
    told = (
        "seen = []\n"
        "def select(candidates, number, round, draws):\n"
        "    seen.append((round, number, candidates, float(draws.random())))\n"
        "    return [each.id for each in candidates[:number]]\n"
    )
    built = federations.built(config(loaded(tmp_path, told), "synchronous"))
    state = built.engine.round(built.engine.initial_state(), unobserved)
    assert state.record is not None
    first = state.record
    built.engine.round(state, unobserved)
    (round, number, candidates, draw), (later, _, known, other) = user_selection._FUNCTIONS[
        "mypick"
    ].__globals__["seen"]
    assert (round, later, number) == (1, 2, 3) and draw != other
    assert all(each.last is None and each.rounds == 0 and each.stays > 0 for each in candidates)
    [flight] = [each for each in first["time"]["flights"] if each["client"] == first["participants"][0]]
    for each in known:
        if each.id == flight["client"] and flight["fate"] == "used":
            assert (each.rounds, each.last, each.loss) == (1, 1, first["loss"]["per_client"][each.id])
            assert each.seconds == flight["arrives"] - flight["begins"]


def test_a_users_function_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for body, said in [
        ("return [0, 1]", r"mypick.py in round 1 selects 2 clients. Return 3 ids"),
        ("return [0, 1, 1]", r"selects client 1 twice"),
        ("return [0, 1, 9]", r"selects 9, which is no candidate's id"),
        ("return candidates[:3]", r"selects Candidate\(id=0, .*which is no candidate's id"),
        ("return [0, 1, 2.5]", r"selects 2.5, which is no candidate's id"),
        ("return 1 / 0", r"mypick.py, in round 1, failed, line 2: ZeroDivisionError"),
    ]:
        monkeypatch.setattr(own_files, "_LOADED", {})
        text = f"def select(candidates, number, round, draws):\n    {body}\n"
        built = federations.built(config(loaded(tmp_path, text)))
        with pytest.raises(ConfigError, match=said):
            built.engine.round(built.engine.initial_state(), unobserved)


def test_ten_thousand_selected_clients_are_checked_quickly(tmp_path: Path) -> None:
    """Comparing each with each takes a second."""
    select = user_selection.strategy(loaded(tmp_path, LAST))
    every = [candidate(k) for k in range(10_001)]
    begun = time.process_time()
    assert select(every, 10_000, 1, draws()) == list(range(1, 10_001))
    assert time.process_time() - begun < 0.3


def test_a_file_that_cannot_select_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no function select\(candidates, number, round, draws\)"):
        loaded(tmp_path, "x = 1\n")
    with pytest.raises(ConfigError, match="has the name of a built-in strategy"):
        loaded(tmp_path, LAST, "utility.py")
    with pytest.raises(ConfigError, match=r"names 'mypick', which is neither .* nor a loaded file"):
        federations.built(config("mypick"))
    with pytest.raises(ConfigError, match="Did you mean 'utility'"):
        federations.built(config("utilty"))
