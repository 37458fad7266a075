"""Which folders a command line's names mean."""

import json
from pathlib import Path

import pytest

from checkpoints import Damaged, SessionUnreadable
from simulator.studies.selection import select
from tests import sessions as made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A session, a study of three points of which two have begun, and a folder that is neither."""
    for name in ("alone", "t3/fedgh-s0", "t3/fedlora-s0"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "session.json").write_text("{}")
    points = [point(name) for name in ("fedlora-s0", "standalone-s0", "fedgh-s0")]
    (tmp_path / "t3" / "points.json").write_text(json.dumps(points))
    (tmp_path / "notes").mkdir()
    return tmp_path


def names(home: Path, *wanted: str) -> list[str]:
    return [str(path.relative_to(home)) for path in select(wanted, home).sessions]


def test_a_session_and_a_point_are_named_as_they_lie(home: Path) -> None:
    assert names(home, "alone", "t3/fedgh-s0") == ["alone", "t3/fedgh-s0"]
    assert names(home, str(home / "alone")) == ["alone"]


def test_a_study_is_its_begun_sessions_in_the_order_of_its_points(home: Path) -> None:
    assert names(home, "t3") == ["t3/fedlora-s0", "t3/fedgh-s0"]


def test_a_glob_finds_sessions_by_name_and_the_sessions_of_studies(home: Path) -> None:
    assert names(home, "t3/*") == ["t3/fedgh-s0", "t3/fedlora-s0"]
    assert names(home, "*") == ["alone", "t3/fedlora-s0", "t3/fedgh-s0"]


def test_what_is_named_twice_comes_once(home: Path) -> None:
    assert names(home, "t3/fedgh-s0", "t3", "t3/*") == ["t3/fedgh-s0", "t3/fedlora-s0"]


def test_a_session_that_lost_its_session_json_is_still_found(home: Path) -> None:
    (home / "torn" / "manifests").mkdir(parents=True)
    assert names(home, "to*") == ["torn"]


def test_a_name_that_is_nothing_is_refused(home: Path) -> None:
    for name, said in (
        ("aloen", "no session and no study 'aloen'.* Did you mean 'alone'"),
        ("t4", "Did you mean 't3'"),
        ("x*", "'x\\*' matches no session"),
        ("", "no session and no study ''"),
        ("..", "no session and no study '..'"),
    ):
        with pytest.raises(SessionUnreadable, match=said):
            select([name], home)


def point(name: str) -> dict[str, object]:
    return {"name": name, "axes": {}, "config": made.whole(rounds=1)}


ODD = ["", "{}", "[3]", '[{"axes": {}}]', *(json.dumps([point(name)]) for name in ("../../etc", "..", "."))]


def test_a_damaged_list_of_points_is_named(home: Path) -> None:
    for text in ODD:
        (home / "t3" / "points.json").write_text(text)
        with pytest.raises(
            Damaged, match=r"points\.json (is not a list of points|has a point that htfl-sim did not write)"
        ):
            select(["t3"], home)


def test_a_list_of_points_that_is_a_link_is_not_followed(home: Path) -> None:
    points = home / "t3" / "points.json"
    points.rename(home / "elsewhere.json")
    points.symlink_to(home / "elsewhere.json")
    with pytest.raises(Damaged, match=r"points\.json"):
        select(["t3"], home)
