"""Which sessions have the same clients, which come first, and the gains over them round by round."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checkpoints
from simulator.results.analysis import gain
from simulator.results.analysis.feed import read
from simulator.results.analysis.run import SessionData
from tests import sessions
from tests.analysis.runs import of, record


def session(
    folder: Path, method: str, rounds: int = 4, parent: tuple[Path, int] | None = None, **changes: object
) -> Path:
    """A session of two clients with these settings."""
    document = sessions.config(2, rounds, method) | changes
    about = None
    if parent is not None:
        about = (parent[0], str(checkpoints.SessionReader(parent[0]).document["id"]), parent[1])
    return sessions.make(folder, clients=2, rounds=rounds, method=method, document=document, parent=about)


def found(folder: Path, name: str, finder: gain.Partners | None = None) -> list[str]:
    return [each.name for each in (finder or gain.Partners()).find(read(folder / name), folder)]


def test_only_the_same_clients_are_partners(tmp_path: Path) -> None:
    session(tmp_path / "run", "fedlora")
    session(tmp_path / "alone", "standalone")
    session(tmp_path / "other-method", "fedgh")
    session(tmp_path / "other-data", "standalone", data={"dataset": "digits", "classes_per_client": 3})
    session(tmp_path / "other-seed", "standalone", seed=1)
    session(tmp_path / "other-models", "standalone", federation={"clients": 2, "group": "cnn1"})
    sessions.make(tmp_path / "switched", clients=2, rounds=4, method="fedlora", switch=(2, "standalone"))
    assert found(tmp_path, "run") == ["alone"]


def test_other_training_is_a_partner_and_comes_after_the_same_training(tmp_path: Path) -> None:
    session(tmp_path / "run", "fedlora", seed=3)
    parts = {"all": 3, "training": 9}  # data and first weights as with seed 3
    session(tmp_path / "a-reseeded", "standalone", seed=parts)
    session(tmp_path / "b-alike", "standalone", seed=3)
    session(tmp_path / "c-slow", "standalone", seed=3, training={"lr": 0.001, "epochs": 5})
    partners = gain.Partners().find(read(tmp_path / "run"), tmp_path)
    assert (partners[0].name, partners[0].alike) == ("b-alike", True)
    assert {each.name for each in partners if not each.alike} == {"a-reseeded", "c-slow"}


def test_the_longest_comparison_comes_first_as_far_as_both_have_rounds(tmp_path: Path) -> None:
    session(tmp_path / "run", "fedlora", rounds=4)
    session(tmp_path / "a-short", "standalone", rounds=3)
    session(tmp_path / "b-long", "standalone", rounds=6)  # 4 rounds to compare, like the next
    session(tmp_path / "c-equal", "standalone", rounds=4)
    names = found(tmp_path, "run")
    # Two are as old as each other.
    assert set(names[:2]) == {"b-long", "c-equal"} and names[2] == "a-short"


def test_a_fork_is_a_shadow_from_its_round_on(tmp_path: Path) -> None:
    run = session(tmp_path / "run", "fedlora", rounds=6)
    session(tmp_path / "shadow", "standalone", rounds=6, parent=(run, 2))
    [partner] = gain.Partners().find(read(run), tmp_path)
    assert (partner.name, partner.shared, partner.rounds) == ("shadow", 2, 6)


def test_two_forks_of_one_parent_share_the_rounds_before_the_earlier(tmp_path: Path) -> None:
    parent = session(tmp_path / "parent", "fedlora", rounds=6)
    session(tmp_path / "ssa", "fedssa", rounds=6, parent=(parent, 4))
    session(tmp_path / "alone", "standalone", rounds=6, parent=(parent, 3))
    [partner] = gain.Partners().find(read(tmp_path / "ssa"), tmp_path)
    assert (partner.name, partner.shared) == ("alone", 3)


def test_a_shadow_of_another_method_counts_by_its_tag(tmp_path: Path) -> None:
    run = session(tmp_path / "run", "fedlora")
    session(tmp_path / "other", "fedgh", parent=(run, 2))
    assert found(tmp_path, "run") == []
    checkpoints.mark(tmp_path / "other", [gain.SHADOW])
    assert found(tmp_path, "run") == ["other"]


def test_a_session_of_the_baseline_has_no_partner_of_it(tmp_path: Path) -> None:
    for name in ("one", "two"):
        session(tmp_path / name, "standalone")
    assert found(tmp_path, "one") == []


def test_searches_open_the_document_of_an_unchanged_session_once(tmp_path: Path) -> None:
    for name, method in (("run", "fedlora"), ("alone", "standalone"), ("other", "fedgh")):
        session(tmp_path / name, method)
    finder, run, opened = gain.Partners(), read(tmp_path / "run"), list[str]()
    look = checkpoints.mentions

    def counted(path: Path, *texts: str, any_of: Sequence[str] = ()) -> bool:
        opened.append(path.name)
        return look(path, *texts, any_of=any_of)

    with patch.object(checkpoints, "mentions", counted):
        assert finder.find(run, tmp_path) == finder.find(run, tmp_path) != ()
    assert sorted(opened) == ["alone", "other", "run"]


def test_a_partner_that_appears_or_breaks_is_noticed(tmp_path: Path) -> None:
    session(tmp_path / "run", "fedlora")
    finder = gain.Partners()
    assert found(tmp_path, "run", finder) == []
    alone = session(tmp_path / "alone", "standalone")
    assert found(tmp_path, "run", finder) == ["alone"]
    (alone / "session.json").write_text('{"standalone"')
    assert found(tmp_path, "run", finder) == []
    assert finder.find(read(tmp_path / "run"), tmp_path / "gone") == ()


approx = pytest.approx


def run(rounds: Sequence[Sequence[float | None]], test: Sequence[int] = (), seed: int = 0) -> SessionData:
    """A session with these accuracies; test: the test samples of its clients."""
    means = [None if None in each else sum(each) / len(each) for each in rounds]
    each_round = enumerate(zip(means, rounds, strict=True), 1)
    made = of("s", [record(number, mean, clients=clients) for number, (mean, clients) in each_round], seed)
    samples = {"classes": ["a"], "train": [[1]] * len(test), "test": list(test)}
    return replace(made, document=made.document | ({"samples": samples} if test else {}))


OWN = [[0.50, 0.50, 0.30], [0.75, 0.50, 0.25]]
OTHER = [[0.50, 0.25, 0.50], [0.50, 0.55, 0.35], [0.1, 0.1, 0.1]]


def test_three_clients_by_hand() -> None:
    """In round 1, client 0 neither gains nor loses. In round 2, client 2 has 35 % against 25 % of 3 samples: 1 each."""
    for own, round, counts in ((run(OWN), 1, (3, 1, 1)), (run(OWN, [40, 20, 3]), 2, (3, 1, 2))):
        found = gain.gain_after(own, run(OTHER), round)
        assert found is not None and (found.clients, found.better, found.worse) == counts
    assert found is not None and found.mean == approx((0.25 - 0.05 - 0.10) / 3)
    assert (found.worst, found.least, found.correct) == (2, approx(-0.10), (1, 1, 3))
    unsaid = gain.gain_after(run(OWN), run(OTHER), 2)  # how many samples it tests
    assert unsaid is not None and (unsaid.worst, unsaid.correct) == (2, None)


def test_a_verdict_names_the_round_the_losing_clients_and_the_test() -> None:
    """Gains of 5, −1, 5, and 7 pp: their mean is 4 pp, their std √(36/3) = 3.46, and t(3) is 3.182: 4 ± 5.5 pp."""
    own, other = [[0.1] * 4, [0.55, 0.49, 0.55, 0.57]], [[0.1] * 4, [0.5] * 4]
    one, two = run(own), run(other)
    assert gain.verdict([one], [two], 2) == (
        "+4.0 pp at round 2, 1 of 4 clients loses, within noise (paired t over 4 clients, 95 %: −1.5 to +9.5 pp)"
    )
    clear = run([[0.1] * 4, [0.55, 0.54, 0.55, 0.56]])
    assert str(gain.verdict([clear], [two], 2)).startswith(
        "+5.0 pp at round 2, 0 of 4 clients lose, more than noise ("
    )


def test_a_verdict_over_seeds_pairs_them_and_tests_over_them() -> None:
    """Differences of 2 and 4 pp: 3 ± 12.706 · 1.414 / √2 = 3 ± 12.7 pp."""
    runs = [run([[0.52, 0.52]], seed=0), run([[0.54, 0.54]], seed=1)]
    others = [run([[0.5, 0.5]], seed=seed) for seed in (1, 0)]
    assert gain.verdict(runs, others, 1) == (
        "+3.0 pp at round 1, 0 of 2 clients lose, within noise (paired t over 2 seeds, 95 %: −9.7 to +15.7 pp)"
    )
    assert str(gain.verdict(runs, others[:1], 1)).startswith(
        "+4.0 pp at round 1 over 1 common seed, 0 of 2 clients lose, "
    )
    strangers = [run([[0.5, 0.5]], seed=seed) for seed in (2, 3)]  # no seed in common
    assert gain.verdict(runs, strangers, 1) is None


def test_a_client_of_several_seeds_counts_once_by_its_mean() -> None:
    """Client 0: −4 and 2 pp, which is −1. Client 1: −1 and 3 pp, which is 1."""
    runs = [run([[0.46, 0.49]], seed=0), run([[0.52, 0.53]], seed=1)]
    others = [run([[0.5, 0.5]], seed=seed) for seed in (0, 1)]
    assert ", 1 of 2 clients loses, " in str(gain.verdict(runs, others, 1))


def test_clients_that_differ_or_a_single_one_give_no_test() -> None:
    one, two = run([[0.5, 0.6]]), run([[0.4, 0.5]], seed=1)
    assert gain.verdict([one], [two], 1) == "+10.0 pp at round 1; no test, because their clients differ"
    assert gain.verdict([run([[0.5]])], [run([[0.4]])], 1) == (
        "+10.0 pp at round 1, 0 of 1 clients lose; no test of a single client"
    )
    assert gain.verdict([one], [run([])], 1) is None


def test_a_round_that_one_of_them_lacks_has_no_gains() -> None:
    assert gain.gain_after(run(OWN), run(OTHER), 3) is None
    assert gain.gain_after(run(OWN), run(OTHER), 0) is None
    assert gain.gain_after(run([[0.5, 0.5]]), run(OTHER), 1) is None  # two clients and three


def test_rounds_are_those_that_both_evaluated_after_the_shared_ones() -> None:
    own = run([[0.1], [None], [0.3], [0.4]])
    assert gain.common_rounds(own, run([[0.1], [0.2], [0.3]])).tolist() == [1, 3]
    assert gain.common_rounds(own, run([[0.1], [0.2], [0.3]]), shared=1).tolist() == [3]


def test_a_client_without_an_accuracy_is_in_no_count() -> None:
    own, other = run([[0.5, None]]), run([[0.4, 0.9]])
    assert np.isnan(gain.client_gains(own, other, 1)).tolist() == [False, True]
    found = gain.gain_after(own, other, 1)
    assert found is not None and (found.clients, found.better) == (1, 1)


@given(st.lists(st.lists(st.floats(0, 1), min_size=2, max_size=2), min_size=1, max_size=9), st.integers(1, 4))
def test_a_table_in_pieces_is_the_table(rounds: list[list[float]], cells: int) -> None:
    own, other = run(rounds), run(rounds[::-1])
    which = gain.common_rounds(own, other)
    whole = gain.gains_of(own, other, [0, 1], which)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gain, "CELLS", cells)
        pieces = gain.gains_by_round(own, other, which, lambda gains: gains.mean(axis=1))
    assert pieces.tolist() == whole.mean(axis=1).tolist()
    assert np.abs(whole).max() <= 1
