"""A study that is there goes on as it was asked for; what would change it is refused, or adds to it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import checkpoints
from checkpoints import SessionUnreadable
from simulator.base.errors import ConfigError
from simulator.base.nested import Raw
from simulator.studies.folder import Status, documents, text_of, time_left
from simulator.studies.search import Request, read_request
from simulator.studies.study import StudySpec
from simulator.studies.sweep import Plan, plan
from tests import sessions
from tests.studies.test_study import TINY

STUDY = StudySpec("quickstart", config=TINY, over={"method": ("fedgh", "fedssa"), "seed": (0, 1)})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study that has been asked for, and none of whose points has run."""
    plan(tmp_path / "t", STUDY).open().close("stopped")
    return tmp_path / "t"


def names(planned: Plan) -> Sequence[str]:
    return [point.name for point in planned.points]


def test_a_study_lies_in_its_folder_as_it_was_asked_for(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} >= {"study.toml", "points.json", "lock"}
    listed = json.loads((folder / "points.json").read_text())
    assert [(each["name"], each["axes"]) for each in listed][1] == (
        "fedgh-s1",
        {"method": "fedgh", "seed": 1},
    )
    assert StudySpec.read(folder / "study.toml") == STUDY
    assert checkpoints.groups(folder.parent) == [folder]


def test_asked_for_again_with_or_without_words_it_is_the_same_study(folder: Path) -> None:
    for again in (plan(folder), plan(folder, STUDY)):
        assert again.listed and again.points == plan(folder).points and len(again.unbegun) == 4


def test_more_values_are_refused_with_how_to_have_them_and_then_had(folder: Path) -> None:
    more = replace(STUDY, over={**STUDY.over, "seed": (0, 1, 2)})
    with pytest.raises(ConfigError, match=r"Use `extend=True` to add 2 points \(fedgh-s2, fedssa-s2\)"):
        plan(folder, more)
    extended = plan(folder, more, extend=True)
    assert names(extended) == ["fedgh-s0", "fedgh-s1", "fedgh-s2", "fedssa-s0", "fedssa-s1", "fedssa-s2"]
    extended.open().close("stopped")
    assert plan(folder).points == extended.points and plan(folder).listed


def test_another_study_under_the_same_name_is_refused_with_what_differs(folder: Path) -> None:
    for change, message in (
        ({"config": {**TINY, "rounds": 3}}, r"'fedgh-s0' would change \(rounds 2 → 3\)"),
        ({"over": {"method": ("fedgh",), "seed": (0, 1)}}, "leave out its point 'fedssa-s0'"),
        ({"over": {**STUDY.over, "training.lr": (0.1,)}}, "leave out its point 'fedgh-s0'"),
    ):
        for extend in (False, True):
            with pytest.raises(ConfigError, match=message):
                plan(folder, replace(STUDY, **change), extend=extend)


def test_a_study_file_that_was_edited_is_refused_with_what_differs(folder: Path) -> None:
    text = (folder / "study.toml").read_text()
    (folder / "study.toml").write_text(text.replace("rounds = 2", "rounds = 4"))
    with pytest.raises(ConfigError, match="rounds 2 → 4"):
        plan(folder)
    (folder / "study.toml").write_text(text.replace("seed = [0, 1]", "seed = [0, 1, 2]"))
    with pytest.raises(ConfigError, match="Use `extend=True`"):
        plan(folder)
    assert len(plan(folder, extend=True).points) == 6


def test_an_edit_that_changes_no_point_changes_nothing(folder: Path) -> None:
    text = (folder / "study.toml").read_text()
    (folder / "study.toml").write_text(f'# my notes\ntitle = "Mine"\n{text}')
    assert plan(folder).points == plan(folder, STUDY).points


def test_points_stay_as_listed_without_their_preset(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = plan(folder).points
    monkeypatch.setattr("presets.load", lambda *_: pytest.fail("the preset was asked"))
    assert plan(folder).points == before


def test_where_a_study_cannot_be_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SessionUnreadable, match="there is no study"):
        plan(tmp_path / "t")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "notes.txt").touch()
    with pytest.raises(SessionUnreadable, match=r"notes\.txt in it"):
        plan(tmp_path / "t", STUDY).open()


def older_config(study: StudySpec, sessions_dir: Path) -> Raw:
    """The first point's configuration without data.statistics: statistics then came from all samples."""
    config = study.points(sessions_dir)[0].config
    return config | {"data": {key: value for key, value in config["data"].items() if key != "statistics"}}


def test_points_that_an_older_program_listed_keep_its_rules(tmp_path: Path) -> None:
    points = [replace(point, config=older_config(STUDY, tmp_path)) for point in STUDY.points(tmp_path)]
    checkpoints.Group.open(tmp_path / "t", documents(STUDY, points)).close("stopped")
    assert {point.config["data"]["statistics"] for point in plan(tmp_path / "t").points} == {"all"}


def test_a_tuning_study_of_before_keeps_its_rules_for_its_next_points(tmp_path: Path) -> None:
    request = Request(older_config(STUDY, tmp_path), ("standalone",), rounds=1)
    with checkpoints.Group.open(tmp_path / "t", documents(STUDY, [])) as group:
        group.write({checkpoints.TUNING: text_of(asdict(request))})
    assert read_request(tmp_path / "t").base["data"]["statistics"] == "all"


def test_a_point_is_as_far_as_its_session_s_files_say(tmp_path: Path) -> None:
    waiting = Status("p", rounds=20)
    assert waiting.read(tmp_path / "p") == waiting, "it has none yet"
    sessions.make(tmp_path / "p", rounds=12, of=20, state="stopped")
    read = waiting.read(tmp_path / "p")
    assert (read.state, read.round, read.rounds, read.seconds) == ("stopped", 12, 20, (2.5,))
    assert read.accuracy is not None and read.best is not None and read.left == 8 * 2.5


def test_a_damaged_session_is_a_point_that_failed_with_its_reason(tmp_path: Path) -> None:
    folder = sessions.make(tmp_path / "p", rounds=2)
    (folder / "session.json").write_text("{")
    read = Status("p", rounds=2).read(folder)
    assert read.state == "failed" and "session.json" in read.reason


def test_points_that_have_not_begun_take_what_the_others_do() -> None:
    for statuses, jobs, seconds in (
        ([Status("a", 10)], 1, None),  # nothing has been timed
        ([Status("a", 10, "running", 4, seconds=(1.0, 3.0))], 1, 6 * 2.0),
        ([Status("a", 10, "running", 4, seconds=(2.0,)), Status("b", 10)], 1, 6 * 2.0 + 10 * 2.0),
        ([Status("a", 10, "running", 4, seconds=(2.0,)), Status("b", 10)], 2, (6 * 2.0 + 10 * 2.0) / 2),
        ([Status("a", 10, "running", 4, seconds=(2.0,)), Status("b", 10)], 9, (6 * 2.0 + 10 * 2.0) / 2),
        # four rounds took 8 s of simulated time, and 6 s are left: three rounds
        ([Status("a", 10, "running", 4, seconds=(2.0,), until_time=14.0, simulated=8.0)], 1, 3 * 2.0),
        ([Status("a", 10, "failed", 4, seconds=(2.0,)), Status("b", 5)], 1, 5 * 2.0),
        ([Status("a", 10, "finished", 10, seconds=(2.0,))], 1, 0.0),
    ):
        assert time_left(statuses, jobs) == seconds
