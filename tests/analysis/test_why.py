"""Why a client does as it does: sentences with numbers that are derived by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.base.errors import ConfigError
from simulator.results.analysis.ledger import CkaMeasurement, Ledger
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.why import ClassRow, Finding, Why, why
from tests import sessions

BEFORE, NOW = [19 / 24, 0.7, 0.8, 0.9], [10 / 24, 0.75, 0.8, 0.9]  # the mean of NOW is 0.71667
ROWS = [[[4, 5, 4, 5], [7, 19, 15, 19]], [[4, 5, 1, 2], [7, 19, 9, 22]]]  # of client 0, round by round
HELD = ({7: 100, 4: 20}, {7: 50, 1: 50}, {2: 300}, {4: 60, 7: 240})
TEST = [24, 40, 40, 40]


def record(round: int, accuracy: list[float | None], rows: Any = None, **changes: Any) -> Any:
    """A round of four clients; `rows` are the counts by class of client 0."""
    known = [each for each in accuracy if each is not None]
    mean = sum(known) / len(known)
    found = sessions.record(round, 4, participants=[0, 1, 2, 3], diverged=[])
    found["accuracy"] |= {"per_client": accuracy, "mean": mean}
    found["loss"]["per_client"] = [None] * 4
    if rows is not None:
        own = {"mean": mean, "weighted": mean, "per_client": accuracy}
        classes = {"per_client": [rows, [], [], []]}
        found["evaluation"] = {"test": {"accuracy": own, "loss": own, "f1": own, "classes": classes}}
    return found | changes


def session(*records: Any, test: list[int] = TEST, **document: Any) -> SessionData:
    settings = sessions.config(4, 10) | {
        "federation": {"clients": 4, "group": ["cnn2", "cnn1"], "participation": 1.0}
    }
    train = [[held.get(label, 0) for label in range(10)] for held in HELD]
    counted = {"classes": [str(label) for label in range(10)], "train": train, "test": test}
    whole: Any = {"id": "a", "config": settings, "samples": counted, **document}
    return SessionData(Path("mine"), whole, config=settings, ledger=Ledger.of(records))


@pytest.fixture
def run() -> SessionData:
    return session(record(1, [*BEFORE], ROWS[0]), record(2, [*NOW], ROWS[1]))


def of(found: Why, topic: str) -> list[Finding]:
    return [each for each in found.findings if each.topic == topic]


def said(found: Why, topic: str) -> list[str]:
    return [each.text for each in of(found, topic)]


def test_the_accuracy_comes_first_in_counts_and_beside_the_others(run: SessionData) -> None:
    first = why(run, 0, parameters={"cnn2": 812330, "cnn1": 105000}).findings[0]
    assert first.text == (
        "Client 0 (cnn2, 812,330 parameters): 41.7 % (10 of 24 test samples), 30.0 pp below the mean. "
        "Of 4 clients, 0 are lower and 3 are higher."
    )
    assert first.facts["mean"] == pytest.approx(2.866667 / 4)
    third = why(run, 3).findings[0].text
    assert third.startswith("Client 3 (cnn1): 90.0 % (36 of 40 test samples), 18.3 pp above")
    few = why(session(record(1, [0.5, 0.7, 0.8, 0.9]), test=[8, 40, 40, 40]), 0).findings[1].text
    assert few == "It has only 8 test samples: each one changes its accuracy by 12.5 pp."
    never = why(session(record(1, [None, 0.7, 0.8, 0.9])), 0).findings[0].text
    assert never == "Client 0 (cnn2) was not evaluated up to round 1."


def test_what_may_explain_a_low_accuracy_comes_before_the_rest(run: SessionData) -> None:
    bad = [each.bad for each in why(run, 0).findings[1:]]
    assert bad == sorted(bad, reverse=True) and {*bad} == {True, False}


def test_the_last_round_says_what_it_lost(run: SessionData) -> None:
    assert said(why(run, 0), "round") == [
        "In round 2, it fell from 79.2 % to 41.7 % (19 → 10 of 24).",
        # class 4 has 5 samples, too few to judge; class 7: 15 → 9 is not by half
        "In round 2, it lost class 4: recall 80.0 % → 20.0 % (4 → 1 of 5). This can be chance.",
    ]
    assert said(why(run, 0, 1), "round") == []  # there was no round before


def test_a_change_that_can_be_chance_is_said_to_be_and_is_no_reason(run: SessionData) -> None:
    # 70 % → 75 % of 40: 0.05 is 0.5 standard errors of √(2 · 0.725 · 0.275 / 40) = 0.0998
    [found] = of(why(run, 1), "round")
    assert found.text == "In round 2, it rose from 70.0 % to 75.0 % (28 → 30 of 40). This can be chance."
    assert not found.bad and found.facts["significant"] is False


def test_classes_name_what_is_confused(run: SessionData) -> None:
    assert said(why(run, 0), "classes") == [
        "Recall, lowest first: class 4 20.0 % (1 of 5); class 7 47.4 % (9 of 19).",
        "It answers class 7 for 22 of 24 test samples; 19 are of this class.",
    ]
    assert [row.label for row in why(run, 0).classes] == [4, 7]


def test_a_class_that_is_never_answered_or_never_trained_on_is_named() -> None:
    # 10 of 24 samples, never answered: 0.417 is 3.6 standard errors of √(2 · 0.208 · 0.792 / 24) = 0.117
    rows = [[3, 4, 0, 0], [4, 6, 0, 0], [7, 14, 10, 24]]
    found = why(session(record(1, [*NOW], rows)), 0)
    untrained = "It has no training samples of class 3, but 4 of 24 test samples (0 correct)."
    assert "It never answers class 4 and class 3 (10 of 24 test samples)." in said(found, "classes")
    assert untrained in said(found, "data")
    assert [each.bad for each in of(found, "classes")] == [True, True, False]


def test_data_are_compared_with_the_median_and_with_peers(run: SessionData) -> None:
    # The shares of client 0 are 1/6 and 5/6; those of client 3 are 0.2 and 0.8: min 1/6 + 0.8 = 0.967
    assert said(why(run, 0), "data") == [
        "It trains on 120 samples of 2 of 10 classes: class 7 (100), class 4 (20). The median client has 210.",
        "Client 3 has the most similar classes: overlap 0.97, 2 of 2 in common. Client 2 shares none of its classes.",
    ]
    [alone] = [each for each in why(run, 2).findings if "nearest" in each.facts and each.topic == "data"]
    assert alone.facts["without_common_classes"] == [0, 1, 3]
    assert not alone.bad  # client 2 has 80 %, more than the mean of the others: there is nothing to explain


def test_clients_with_its_model_are_compared_with_others(run: SessionData) -> None:
    sizes = {"cnn2": 812330, "cnn1": 105000}
    [found] = of(why(run, 0, parameters=sizes), "model")
    assert found.text == (
        "1 other client with cnn2: 80.0 % on average. 2 with other models: 82.5 %. "  # (75 + 90) / 2
        "Its model has 812,330 parameters; the models here have 105,000 to 812,330."
    )
    assert not found.bad  # 2.5 pp
    [found] = of(why(run, 2), "model")
    assert found.facts["same_mean"] == 10 / 24  # 40.8 pp lower
    assert not found.bad  # client 2 is not low itself
    # Client 0 has 10 of 40, the others 68.3 %. Client 2, of its model, has 40 % of 40; clients 1 and 3 have 82.5 %.
    for tested, bad in ((40, True), (10, False)):
        low = session(record(1, [0.25, 0.75, 0.4, 0.9]), test=[40, 40, tested, 40])
        assert [each.bad for each in of(why(low, 0), "model")] == [bad]


def test_similarity_is_that_of_the_deepest_layer(run: SessionData) -> None:
    rows = [[1, 0.3, 0.5, 0.1], [0.3, 1, 0.9, 0.8], [0.5, 0.9, 1, 0.7], [0.1, 0.8, 0.7, 1]]
    cka = {"layers": {"a": 0.9, "b": 0.55}, "matrix": {"a": [[1.0] * 4] * 4, "b": rows}}
    [found] = of(why(run, 0, cka=CkaMeasurement(2, ("a", "b"), cka)), "similarity")
    assert found.text == (
        "By CKA of b after round 2, client 2 (cnn2) is nearest (0.500) and client 3 (cnn1) furthest (0.100). "
        "Its mean is 0.300, that of all pairs is 0.550."  # (0.3 + 0.5 + 0.1) / 3
    )
    assert found.bad  # no client has a lower mean, and it is 0.25 below that of all pairs


def test_the_gain_over_a_baseline_is_that_of_the_same_client_and_round(run: SessionData) -> None:
    other = session(record(1, [0.5, 0.5, 0.5, 0.5], method="standalone"))
    other = replace(other, folder=Path("alone"), config=other.config | {"method": {"name": "standalone"}})
    [found] = of(why(run, 0, baseline=other), "baseline")
    assert found.text == (
        "Against standalone (session alone) it gains 29.2 pp: 79.2 % against 50.0 % after round 1, the last of that "
        "session (19 against 12 of 24)."
    )
    assert not said(why(run, 0, baseline=other, shared=1), "baseline")  # the same rounds in both


def test_participation_divergence_and_lost_uplinks_are_said() -> None:
    records = [
        record(1, [*NOW], dropped=[0]),
        record(2, [*NOW], diverged=[0]),
        record(3, [*NOW], participants=[1, 2, 3]),
    ]
    last, never = session(*records), session(record(1, [*NOW], participants=[1, 2, 3]))
    absent = "It was not selected in round 3. It took part in 2 of 3 rounds, most recently in round 2."
    for run, round, expected in (
        (last, 3, [absent]),
        (last, 1, ["In round 1, its uplink was lost."]),
        (never, 1, ["It was not selected in round 1. It has not taken part in any of 1 rounds."]),
    ):
        assert said(why(run, 0, round), "round") == expected
        assert not any(each.bad for each in of(why(run, 0, round), "round")) or (round == 1 and run is last)
    assert {
        "It diverged in 1 earlier round, most recently in round 2.",
        "Its uplink was lost in 1 earlier round, most recently in round 1.",
    } <= {*said(why(last, 0), "training")}
    assert said(why(last, 0, 2), "round")[0].startswith("In round 2, it diverged: its loss or weights")


def test_on_a_clock_the_age_of_the_uplink_is_said() -> None:
    for fate, dispatch, text in (
        ("used", 1, "The server used its uplink when it was 2 rounds old (sent off in round 1)."),
        ("stale", 1, "Its uplink, sent off in round 1, was too old and was not used."),
        ("late", 3, "Its uplink, sent off in round 3, arrived after the end of the round and was not used."),
        ("used", 3, None),
    ):
        records = [record(each, [*NOW]) for each in (1, 2, 3)]
        joules = dict.fromkeys(("compute", "radio", "idle"), 0.0)
        flights = [{"client": 0, "dispatch": dispatch, "fate": fate}]
        records[2]["time"] = {"flights": flights, "ends": 1.0, "joules": joules}
        assert said(why(session(*records), 0), "round") == ([text] if text else [])


def overfitting(accuracies: list[float], tested: int) -> Why:
    """What is said of client 0, whose test loss rises from 0.8 to 1.2 in round 3 while its training loss falls."""
    records = []
    losses = [(2.0, 1.0), (1.0, 0.8), (0.5, 1.2)]
    for round, ((trained, loss), accuracy) in enumerate(zip(losses, accuracies, strict=True), 1):
        one = record(round, [accuracy, *NOW[1:]], [])
        one["evaluation"]["test"]["loss"] = {"mean": loss, "weighted": loss, "per_client": [loss] * 4}
        one["loss"]["per_client"] = [trained] * 4
        records.append(one)
    return why(session(*records, test=[tested, 40, 40, 40]), 0)


LOSSES = (
    "round 2 to 3, its test loss rose from 0.800 to 1.200, and its training loss fell from 1.000 to 0.500."
)


def test_it_overfits_if_its_accuracy_also_falls_significantly() -> None:
    # 80 % → 50 % of 40: √(2 · 0.65 · 0.35 / 40) = 0.107, so 0.3 is 2.8 standard errors
    found = overfitting([0.6, 0.8, 0.5], 40)
    assert f"It overfits: from {LOSSES}" in said(found, "training")
    assert [each.bad for each in found.findings if each.text.startswith("It overfits")] == [True]


def test_a_test_loss_that_rises_alone_is_no_overfitting() -> None:
    for accuracies, tested in (([0.6, 0.8, 0.75], 40), ([0.5, 1.0, 0.5], 2)):
        found = overfitting(accuracies, tested)
        assert f"From {LOSSES} Its accuracy did not fall by more than chance." in said(found, "training")
        assert not any(each.bad for each in found.findings if each.topic == "training")


def test_what_holds_in_every_round_explains_only_an_accuracy_that_is_significantly_lower() -> None:
    """Client 1 has half of the median's training samples, 100 of 210."""
    for own, bad in ((0.45, True), (0.6, False)):
        # Of 40, against 70.0 %: 25 pp are 2.3 standard errors of √(2 · 0.575 · 0.425 / 40), 10 pp are 0.9
        found = why(session(record(1, [0.7, own, 0.7, 0.7]), test=[40, 40, 40, 40]), 1)
        assert [each.bad for each in found.findings if "median" in each.facts] == [bad]


def test_a_sound_client_on_few_test_samples_has_no_remark() -> None:
    rows = [[3, 1, 0, 0], [4, 2, 0, 1], [7, 15, 13, 17]]  # it never answers class 3, and class 7 for 17 of 18
    found = why(session(record(1, [13 / 18, 0.7, 0.8, 0.9], rows), test=[18, 40, 40, 40]), 0)
    assert not any(each.bad for each in found.findings)


def test_a_loss_against_the_baseline_that_can_be_chance_is_said_to_be() -> None:
    other = session(record(1, [0.5, 0.8, 0.8, 0.9], method="standalone"))
    mine = session(record(1, [0.4, 0.4, 0.8, 0.9]))
    (own,), (lost,) = (of(why(mine, client, baseline=other), "baseline") for client in (0, 1))
    assert own.text.endswith("This can be chance.") and not own.bad  # 10 pp of 24
    assert "chance" not in lost.text and lost.bad  # 40 pp of 40


def test_facts_that_are_missing_are_named_with_what_to_do() -> None:
    timeline = {"joined": [], "left": [], "data": [0], "present": 4}
    changed = session(record(1, [*NOW], timeline=timeline))
    counts, alone = "evaluation.classes=true", "`--method standalone`"
    cka = "`htfl-sim checkpoint mine --cka`"
    for run, expected in (
        (session(record(1, [*NOW])), [counts, cka, alone]),
        (session(record(1, [*NOW]), samples=None), [counts, "`htfl-sim partition mine`", cka, alone]),
        (session(record(1, [*NOW], method="standalone")), [counts, cka]),  # it is the baseline
        (changed, [counts, "The timeline has changed the data", cka, alone]),
    ):
        missing = why(run, 0).missing
        assert len(missing) == len(expected)
        assert [text for text, part in zip(missing, expected, strict=True) if part not in text] == []
    assert not said(why(changed, 0), "data")[1:]
    assert said(why(changed, 0), "round") == ["At the beginning of round 1, its data changed."]


def test_a_client_or_a_round_that_does_not_exist_is_refused(run: SessionData) -> None:
    for session_of, asked, fault in (
        (run, (4,), r"mine has no client 4. It has clients 0 to 3."),
        (run, (0, 3), r"mine has no round 3. It has rounds 1 to 2."),
        (session(), (0,), r"No round is finished yet."),
    ):
        with pytest.raises(ConfigError, match=fault):
            why(session_of, *asked)


@given(st.integers(0, 30), st.integers(0, 30))
def test_a_class_is_lost_if_half_of_its_correct_answers_are_and_at_least_two(
    before: int, correct: int
) -> None:
    row = ClassRow(0, "0", 30, correct, 30, None, before)
    assert row.lost == (before - correct >= 2 and before >= 2 * correct)
    assert row.gained == (correct - before >= 2 and correct >= 2 * before)
    assert not (row.lost and row.gained)
