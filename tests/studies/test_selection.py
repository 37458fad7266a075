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


def test_names_of_sessions_points_studies_and_globs_select_each_session_once_in_order(home: Path) -> None:
    """A study is its begun sessions, in the order of its points."""
    for wanted, found in (
        (["alone", "t3/fedgh-s0"], ["alone", "t3/fedgh-s0"]),
        ([str(home / "alone")], ["alone"]),
        (["t3"], ["t3/fedlora-s0", "t3/fedgh-s0"]),
        (["t3/*"], ["t3/fedgh-s0", "t3/fedlora-s0"]),
        (["*"], ["alone", "t3/fedlora-s0", "t3/fedgh-s0"]),
        (["t3/fedgh-s0", "t3", "t3/*"], ["t3/fedgh-s0", "t3/fedlora-s0"]),
    ):
        assert names(home, *wanted) == found


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


ODD = [
    "",
    "{}",
    "[3]",
    "[" * 100_000,
    '[{"axes": {}}]',
    '[{"name": "a", "axes": {}, "config": {"rounds": 2}}]',
    '[{"name": "a", "axes": {}, "config": {"rounds": 2, "method": 3, "runtime": []}}]',
    *(json.dumps([point(name)]) for name in ("../../etc", "..", ".")),
]


def test_a_damaged_list_of_points_is_named(home: Path) -> None:
    for text in ODD:
        (home / "t3" / "points.json").write_text(text)
        with pytest.raises(
            Damaged, match=r"points\.json (is not a list of points|has a point that htfl-sim did not write)"
        ):
            select(["t3"], home)
    points = home / "t3" / "points.json"
    points.rename(home / "elsewhere.json")
    points.symlink_to(home / "elsewhere.json")  # which is not followed
    with pytest.raises(Damaged, match=r"points\.json"):
        select(["t3"], home)
