"""The partners of a session: which sessions of a folder have the same clients, and which of them come first."""

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import checkpoints
from simulator.results.analysis import partners
from simulator.results.analysis.feed import read
from simulator.results.analysis.partners import SHADOW, Partner, Partners
from tests import sessions


def session(
    folder: Path, method: str, rounds: int = 4, parent: tuple[Path, int] | None = None, **changes: object
) -> Path:
    """A session of two clients with these settings."""
    document = sessions.config(2, rounds, method) | changes
    about = None
    if parent is not None:
        about = (parent[0], str(checkpoints.SessionReader(parent[0]).document["id"]), parent[1])
    return sessions.make(folder, clients=2, rounds=rounds, method=method, document=document, parent=about)


def found(folder: Path, name: str, finder: Partners | None = None) -> list[str]:
    return [each.name for each in (finder or Partners()).find(read(folder / name), folder)]


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
    partners = Partners().find(read(tmp_path / "run"), tmp_path)
    assert (partners[0].name, partners[0].alike) == ("b-alike", True)
    assert {each.name for each in partners if not each.alike} == {"a-reseeded", "c-slow"}


def test_the_longest_comparison_comes_first_as_far_as_both_have_rounds(tmp_path: Path) -> None:
    session(tmp_path / "run", "fedlora", rounds=4)
    session(tmp_path / "a-short", "standalone", rounds=3)
    session(tmp_path / "b-long", "standalone", rounds=6)  # 4 rounds to compare, like the next
    session(tmp_path / "c-equal", "standalone", rounds=4)
    names = found(tmp_path, "run")
    assert (
        set(names[:2]) == {"b-long", "c-equal"} and names[2] == "a-short"
    )  # two that are as old as each other


def test_a_fork_is_a_shadow_from_its_round_on(tmp_path: Path) -> None:
    run = session(tmp_path / "run", "fedlora", rounds=6)
    session(tmp_path / "shadow", "standalone", rounds=6, parent=(run, 2))
    [partner] = Partners().find(read(run), tmp_path)
    assert (partner.name, partner.shared, partner.rounds) == ("shadow", 2, 6)


def test_two_forks_of_one_parent_share_the_rounds_before_the_earlier(tmp_path: Path) -> None:
    parent = session(tmp_path / "parent", "fedlora", rounds=6)
    session(tmp_path / "ssa", "fedssa", rounds=6, parent=(parent, 4))
    session(tmp_path / "alone", "standalone", rounds=6, parent=(parent, 3))
    [partner] = Partners().find(read(tmp_path / "ssa"), tmp_path)
    assert (partner.name, partner.shared) == ("alone", 3)


def test_a_shadow_of_another_method_counts_by_its_tag(tmp_path: Path) -> None:
    run = session(tmp_path / "run", "fedlora")
    session(tmp_path / "other", "fedgh", parent=(run, 2))
    assert found(tmp_path, "run") == []
    checkpoints.mark(tmp_path / "other", [SHADOW])
    assert found(tmp_path, "run") == ["other"]


def test_a_session_of_the_baseline_has_no_partner_of_it(tmp_path: Path) -> None:
    for name in ("one", "two"):
        session(tmp_path / name, "standalone")
    assert found(tmp_path, "one") == []


def test_unchanged_sessions_are_not_read_again_and_others_never(tmp_path: Path) -> None:
    for name, method in (("run", "fedlora"), ("alone", "standalone"), ("other", "fedgh")):
        session(tmp_path / name, method)
    finder, run, read_ones = Partners(), read(tmp_path / "run"), list[str]()
    look = partners._candidate

    def counted(path: Path) -> partners._Candidate | None:
        read_ones.append(path.name)
        return look(path)

    with patch.object(partners, "_candidate", counted):
        first = finder.find(run, tmp_path)
        assert finder.find(run, tmp_path) == first
    # The session itself is read, because it names its own id. The one of FedGH is left out by its text.
    assert sorted(read_ones) == ["alone", "run"]


def test_a_search_opens_every_document_once(tmp_path: Path) -> None:
    for name in ("run", "one", "two"):
        session(tmp_path / name, "fedgh")
    run, opened = read(tmp_path / "run"), list[str]()
    look = checkpoints.mentions

    def counted(path: Path, *texts: str, any_of: Sequence[str] = ()) -> bool:
        opened.append(path.name)
        return look(path, *texts, any_of=any_of)

    with patch.object(checkpoints, "mentions", counted):
        Partners().find(run, tmp_path)
    assert sorted(opened) == ["one", "run", "two"]


def test_a_partner_that_appears_or_breaks_is_noticed(tmp_path: Path) -> None:
    session(tmp_path / "run", "fedlora")
    finder = Partners()
    assert found(tmp_path, "run", finder) == []
    alone = session(tmp_path / "alone", "standalone")
    assert found(tmp_path, "run", finder) == ["alone"]
    (alone / "session.json").write_text('{"standalone"')
    assert found(tmp_path, "run", finder) == []


def test_a_folder_that_is_gone_has_no_partners(tmp_path: Path) -> None:
    run = read(session(tmp_path / "run", "fedlora"))
    assert Partners().find(run, tmp_path / "gone") == ()
    assert isinstance(Partner(tmp_path / "a", "fedgh", 0, 1, True, "").name, str)
