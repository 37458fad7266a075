"""Comparing sessions, also at equal simulated seconds: targets, standings, settings that differ."""

import json
from pathlib import Path

import pytest

from simulator.base.errors import ConfigError
from simulator.base.units import span
from simulator.results.analysis.comparison import (
    Pivot,
    Row,
    Setting,
    Table,
    common_round,
    common_target,
    described,
    differences,
    parsed_time,
    standing,
    table,
    upto_time,
)
from simulator.results.analysis.ledger import Lines
from simulator.results.analysis.run import SessionData
from tests.analysis.runs import clocked, ledger, run
from tui.common.formatting import until_target


def run_of(*means: float | None, **config: object) -> SessionData:
    return SessionData(Path("s"), config=config, ledger=ledger(*means))


def test_the_target_begins_at_the_multiple_of_five_per_cent_that_all_have_been_at() -> None:
    assert common_target([run_of(0.2, 0.62, 0.3), run_of(0.9)]) == 0.6
    assert common_target([run_of(0.65)]) == 0.65  # not 0.6, which 0.65 · 20 = 13.000…02 or 12.999…98 decides
    assert common_target([run_of(0.9), run_of(None)]) == 0.9  # of those that have an accuracy
    assert common_target([]) == 0.0


def test_the_common_round_is_the_last_that_all_have_evaluated() -> None:
    whole, short, gaps = run_of(0.1, 0.2, 0.3, 0.4), run_of(0.1, 0.2, 0.3), run_of(None, 0.2, None, 0.4)
    assert common_round([whole, short]) == 3
    assert common_round([whole, short, gaps]) == 2
    assert common_round([short, run_of(None, None, None)]) == 3  # a run without accuracy yet does not count
    assert common_round([run_of(0.1, None), run_of(None, 0.2)]) is None
    assert (standing(whole, 0.1, 3).best, standing(whole, 0.1, 3).last) == (0.3, 0.3)


def test_a_standing_has_the_best_the_last_measured_and_what_the_target_took() -> None:
    stands = standing(run_of(0.2, 0.6, 0.5, None), 0.5)
    assert (stands.best, stands.last) == (0.6, 0.5)
    assert list((stands.reached or {}).values())[:4] == [2, 300.0, 14.0, 4.0]


def test_a_single_session_has_its_own_target_or_the_highest_that_it_reached() -> None:
    alone, wanted = standing(run_of(0.2, 0.62, 0.3)), standing(run_of(0.2, 0.62, until=0.9))
    assert alone.target == 0.6 and list((alone.reached or {}).values())[:4] == [2, 300.0, 14.0, 4.0]
    assert (wanted.target, wanted.reached) == (0.9, None)
    assert (until_target(alone), until_target(wanted)) == (
        "60.0 % in round 2, after 300 B",
        "90.0 % not reached",
    )
    assert until_target(standing(run_of(None))) is None


def test_only_settings_that_differ_are_listed_by_their_dotted_names() -> None:
    one = run_of(seed=1, training={"lr": 0.1, "epochs": 5}, data={"limit": None})
    other = run_of(seed=1, training={"lr": 0.2, "epochs": 5}, wire={"drop": [1]})
    assert differences([one, other]) == [("training.lr", (0.1, 0.2)), ("wire.drop", (None, [1]))]
    assert differences([one]) == differences([]) == []


OWN = {"rounds": 20, "training": {"lr": 0.01, "epochs": 5}, "method": {"name": "fedlora", "mu": 0.9}}


def test_settings_that_differ_come_first_and_the_others_in_their_order() -> None:
    other = {"rounds": 20, "training": {"lr": 0.05, "epochs": 5}, "method": {"name": "fedssa", "rank": 4}}
    assert described(OWN, other) == [
        Setting("training.lr", 0.01, 0.05, True),
        Setting("method.name", "fedlora", "fedssa", True),
        Setting("method.mu", 0.9, None, True),
        Setting("method.rank", None, 4, True),
        Setting("rounds", 20, 20, False),
        Setting("training.epochs", 5, 5, False),
    ]
    names = ["rounds", "training.lr", "training.epochs", "method.name", "method.mu"]
    assert [(each.name, each.differs) for each in described(OWN)] == [(name, False) for name in names]


approx = pytest.approx
BOTH = [
    clocked("fast0", [(10, 0.2), (20, 0.5), (30, 0.6), (40, 0.9)], 0, "fedlora"),
    clocked("fast1", [(10, 0.2), (20, 0.7), (30, 0.8), (40, 0.9)], 1, "fedlora"),
    clocked("slow0", [(25, 0.4), (50, 0.8)], 0, "standalone"),
    clocked("slow1", [(25, 0.5), (50, 0.8)], 1, "standalone"),
]
"""At 35 s, fedlora has done three rounds, and standalone one."""


def row(found: Table, label: str) -> Row:
    return next(each for each in found.rows if each.label == label)


def test_accuracies_and_differences_are_those_at_the_same_simulated_time() -> None:
    """0.6 and 0.8 less 0.4 and 0.5 are 0.2 and 0.3. All rounds would give 0.1 and 0.1."""
    found = table(BOTH, "method", baseline="standalone", at_time=35)
    assert found.columns()[2].name == "at 35 s, %"
    fedlora, standalone = row(found, "fedlora"), row(found, "standalone")
    assert fedlora.last is not None and fedlora.last.mean == approx(0.7)
    assert standalone.last is not None and standalone.last.mean == approx(0.45)
    assert fedlora.difference is not None
    assert (fedlora.difference.mean, fedlora.difference.pairs) == (approx(0.25), 2)
    low, high = fedlora.difference.interval or (0.0, 0.0)
    reach = 12.706205 * 0.05  # t(0.975; 1) · s / √2, with s = 0.1 / √2
    assert (low, high) == (approx(0.25 - reach, rel=1e-6), approx(0.25 + reach, rel=1e-6))


def test_a_round_counts_from_its_end_on() -> None:
    for at_time, rounds in ((30, 3), (30.5, 3), ("29.9s", 2), ("0.5m", 3), (40, 4)):
        found = table(BOTH[:1], "session", target=0.0, at_time=at_time)
        assert found.rows[0].last is not None
        assert found.rows[0].last.mean == [0.2, 0.5, 0.6, 0.9][rounds - 1]
    assert (parsed_time(0.25), parsed_time("2h")) == (0.25, 7200)


def test_sessions_that_end_before_or_begin_later_are_left_out_and_named() -> None:
    runs = [*BOTH, clocked("late", [(36, 0.9), (70, 0.9)], 2)]
    found = table(runs, "method", at_time=45)
    kept = {"standalone": ("slow0", "slow1"), "fedlora": ("late",)}
    assert {each.label: each.sessions for each in found.rows} == kept
    short = "they end before 45 s of simulated time: fast0 (40 s), fast1 (40 s)."
    late = "they have no round by 35 s of simulated time: late (first round: 36 s)."
    assert f"Left out, because {short}" in found.notes
    assert f"Left out, because {late}" in table(runs, "method", at_time=35).notes


def test_sessions_without_a_clock_times_that_are_none_and_times_of_nobody_are_refused() -> None:
    with pytest.raises(ConfigError, match="timeless has no computed clock"):
        table([*BOTH, run("timeless", [0.5])], "method", at_time=35)
    for at_time in ("2x", 0, -1, float("nan"), "inf"):
        with pytest.raises(ConfigError, match="at_time"):
            table(BOTH, "method", at_time=at_time)
    with pytest.raises(ConfigError, match="No session can be compared"):
        table(BOTH, "method", at_time=100)


def test_a_pivot_says_at_which_time_it_is() -> None:
    pivot = Pivot(table(BOTH, ("method", "seed"), at_time=5400 / 180))
    assert "in the last round by 30 s of simulated time" in pivot.remarks()[0]


def test_a_ledger_as_text_is_cut_as_one_that_was_read() -> None:
    whole = BOTH[0]
    lines = tuple(json.dumps(each, sort_keys=True, separators=(",", ":")).encode() for each in whole.records)
    text = clocked("text", [(10, 0.2)])
    object.__setattr__(text, "ledger", Lines(Path("text"), lines, 1))
    for each in upto_time([whole, text], 35)[0]:
        assert each.totals["accuracy"].tolist() == [0.2, 0.5, 0.6]


def test_a_length_of_time_is_exact_to_four_digits() -> None:
    texts = {0.25: "0.25 s", 59: "59 s", 90: "1.5 min", 7200: "2 h", 129600: "1.5 d", 123.456: "2.058 min"}
    assert {seconds: span(seconds) for seconds in texts} == texts
