"""Points that use the finished session of an identical run: within a study, and with `reuse` in the sessions folder."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import checkpoints
import htfl_sim as hs
from checkpoints import SessionUnreadable
from htfl_sim.folders import linked_names
from simulator.base.environment import PROGRAM
from simulator.base.errors import SessionError
from simulator.results.analysis.overview import Summary, read_overview
from simulator.sessions.fingerprint import fingerprint_of
from simulator.studies.board import StudySummary
from simulator.studies.executor import Launch
from simulator.studies.folder import IN_SESSIONS, IN_STUDY, points_on, run_key, session_of
from simulator.studies.point import Reused, opened
from simulator.studies.selection import by_seed, select
from simulator.studies.study import Point, StudySpec
from simulator.studies.sweep import plan, sweep
from tests import federations
from tests.cli.conftest import call, rewrite
from tui.app.panels.sessions import study_facts

SEEDS = {"all": 7, "data": 1, "init": 1, "training": 1}
SETTINGS: dict[str, Any] = federations.config(rounds=1).to_json() | {"seed": SEEDS}
"""`seed` decides nothing here, so points along it are identical."""


def prepared(tmp_path: Path, name: str, *seeds: int) -> tuple[Path, list[Point]]:
    """A study in the sessions folder with a point for each seed."""
    planned = plan(tmp_path / name, StudySpec(config=SETTINGS, over={"seed": seeds}))
    planned.open().close("stopped")
    return planned.folder, list(planned.points)


def run(study: Path, point: Point, reuse: str | None) -> None:
    images = federations.on_images(federations.generated())
    with images, opened(study, point, Launch(study), reuse) as session:
        session.run()


def test_a_point_uses_an_identical_finished_point_of_its_study_and_of_others_on_request(
    tmp_path: Path,
) -> None:
    study, (first, second) = prepared(tmp_path, "t", 0, 1)
    run(study, first, IN_STUDY)
    with pytest.raises(Reused, match=r'{"session": "t/s0", "fingerprint": "[0-9a-f]{64}"}'):
        run(study, second, IN_STUDY)
    assert not (study / "s1").exists()
    run(study, second, None)  # --no-reuse
    assert federations.committed(study / "s1") == federations.committed(study / "s0")
    two, (point,) = prepared(tmp_path, "two", 0)
    with pytest.raises(Reused, match="t/s"):
        run(two, point, IN_SESSIONS)
    run(two, point, IN_STUDY)
    assert checkpoints.is_session(two / "s0")


def test_tables_and_states_read_a_linked_point_where_it_is(tmp_path: Path) -> None:
    study, points = prepared(tmp_path, "t", 0, 1)
    run(study, points[0], IN_STUDY)
    fingerprint = fingerprint_of(study / "s0")
    assert fingerprint is not None
    points[1] = replace(points[1], link={"session": "t/s0", "fingerprint": fingerprint})
    replace(plan(study), points=tuple(points), listed=False).open().close("stopped")
    assert [session_of(study, point) for point in points] == [study / "s0", study / "s0"]
    assert [*select(["t"], tmp_path).sessions] == [study / "s0"]
    assert [each.state for each in hs.studies.status(study)] == ["finished", "finished"]
    assert hs.studies.linked(study) == {"s1": "t/s0"}
    assert points_on(study / "s0")[0] == ["t/s1"]
    assert StudySummary.of(study, []).finished == 1  # beside its own
    assert hs.Study(study).sessions["s1"].path == study / "s0"
    assert [row.n for row in hs.Study(study).table().rows] == [1]

    shutil.rmtree(study / "s0")
    message = (
        "Point s1 of study t uses the session t/s0, which was deleted or changed. Run `htfl-sim sweep t`"
    )
    with pytest.raises(SessionUnreadable, match=message):
        select(["t"], tmp_path)
    assert [each.state for each in hs.studies.status(study)] == ["waiting", "waiting"]
    assert [point.name for point in plan(study).unbegun] == ["s0", "s1"]


def test_finished_points_of_other_code_are_named_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, (first, _) = prepared(tmp_path, "t", 0, 1)
    run(study, first, IN_STUDY)
    environment = checkpoints.SessionReader(study / "s0").document["environment"]
    rewrite(study / "s0", environment={**environment, "program": "0" * 64})
    named = f"Point s0 of study t was made with other code \\(program {'0' * 12} → {PROGRAM[:12]}\\)"
    with pytest.raises(
        SessionError, match=named + ". Go back to what it was made with, or use `allow_inexact=True`"
    ):
        sweep(plan(study), Launch(study))
    assert not (study / "s1").exists()
    # of a study that has finished, nothing runs
    alone, (point,) = prepared(tmp_path, "u", 0)
    shutil.copytree(study / "s0", alone / point.name)
    assert not sweep(plan(alone), Launch(alone)).failed


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sessions folder with the study `one` of one point, and `two`, whose point uses that session."""
    tmp_path = tmp_path_factory.mktemp("linked")
    one, (point,) = prepared(tmp_path, "one", 0)
    run(one, point, IN_STUDY)
    two, points = prepared(tmp_path, "two", 0)
    fingerprint = fingerprint_of(one / "s0")
    assert fingerprint is not None
    link = replace(points[0], link={"session": "one/s0", "fingerprint": fingerprint})
    replace(plan(two), points=(link,), listed=False).open().close("finished")
    return tmp_path


def test_commands_that_read_take_a_linked_point(linked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(linked)
    for words in ("show", "verify", "compare", "plot accuracy --out a.svg", "export"):
        done = call(*words.split(), "two/s0", "--sessions-dir", ".")
        assert done.code == 0, done.err
        if words in ("show", "verify"):
            assert "two/s0 uses one/s0, an identical run." in done.err
            assert "uses" not in call(words, "one/s0", "--sessions-dir", ".").err


def test_commands_that_change_a_session_name_the_linked_one(
    linked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(linked)
    more = {"rm": ["--yes"], "tag": ["paper"], "switch": ["fedgh"], "resume": ["--rounds", "2"]}
    before = federations.committed(linked / "one" / "s0")
    for words in ("rm", "prune", "tag", "resume", "switch", "stop"):
        refused = call(words, "two/s0", *more.get(words, []), "--sessions-dir", ".")
        assert refused.code == 2 and "two/s0 uses one/s0, an identical run." in refused.err
        assert federations.committed(linked / "one" / "s0") == before
    assert not checkpoints.tags_of(linked / "one" / "s0")
    refused = call("rename", "one/s0", "s9", "--sessions-dir", linked)
    assert refused.code == 2 and "s0 is a point of the study one" in refused.err


def test_a_session_that_a_study_names_keeps_its_name(linked: Path, tmp_path: Path) -> None:
    shutil.copytree(linked / "one" / "s0", tmp_path / "plain")
    link = {"session": "plain", "fingerprint": fingerprint_of(tmp_path / "plain")}
    branch = {"parent": "plain", "round": 1, "method": None, "set": []}
    two, (point,) = prepared(tmp_path, "two", 0)
    for uses, changes in (("uses", {"link": link}), ("continues from", {"branch": branch})):
        changed: Any = replace(point, **changes)  # type: ignore[arg-type]
        replace(plan(two), points=(changed,), listed=False).open().close("stopped")
        refused = call("rename", "plain", "other", "--sessions-dir", tmp_path)
        assert refused.code == 2 and f"The point two/s0 {uses} plain by its name" in refused.err
    assert (tmp_path / "plain").is_dir()


def test_a_dead_link_is_told_with_the_command_that_computes_the_point(linked: Path, tmp_path: Path) -> None:
    shutil.copytree(linked / "two", tmp_path / "two")
    for words in ("show", "compare", "rm"):
        refused = call(words, "two/s0", "--sessions-dir", tmp_path)
        assert refused.code == 4 and "`htfl-sim sweep two`" in refused.err


def test_a_session_that_two_studies_use_is_in_the_column_of_each(linked: Path) -> None:
    for names in (["one", "two"], ["two", "one"]):
        found = hs.pivot(names, "method", "study", sessions_dir=linked)
        assert [column.name for column in found.columns()][1:] == ["study one, %", "study two, %"]
        assert [row.n for row in found.table.rows] == [1, 1]
    [row] = hs.compare(["one", "two"], "method", sessions_dir=linked).rows
    assert row.n == 1
    [row] = hs.compare(["two"], "study", sessions_dir=linked).rows
    assert row.label == "two"


def test_the_app_shows_a_study_with_the_sessions_that_it_uses(linked: Path) -> None:
    two = linked / "two"
    assert hs.sessions.inside(two) == [linked / "one" / "s0"]
    summary = StudySummary.of(two, [])
    assert (summary.linked, summary.state) == (1, "finished")
    assert summary.accuracy == Summary.read(linked / "one" / "s0").accuracy is not None
    assert study_facts(summary)[0] == ("points", "1: 1 use an identical run")
    [line] = by_seed([read_overview(linked / "one" / "s0")], [two])
    assert line.name == "one/s0"
    assert linked_names("two", linked) == ["two/s0"] and linked_names("one", linked) == []


def test_only_points_that_may_be_identical_wait_for_each_other(tmp_path: Path) -> None:
    _, (first, second) = prepared(tmp_path, "t", 0, 1)
    assert run_key(first) == run_key(second)
    other = replace(first, config={**first.config, "seed": SEEDS | {"training": 2}})
    assert run_key(first) != run_key(other)
    assert run_key(replace(first, branch={"parent": "a", "round": 1, "method": None, "set": []})) is None


@pytest.mark.long
def test_a_sweep_computes_identical_points_once(tmp_path: Path) -> None:
    small = hs.preset(rounds=1, clients=2, data__limit=120, federation__group="tiny", runtime__workers=1)
    same = small.with_(seed__data=1, seed__init=1, seed__training=1)
    study = hs.sweep(tmp_path / "t", same, {"seed": [0, 1]}, jobs=2)
    assert hs.studies.linked(study.path) == {"s1": "t/s0"}
    assert not (study.path / "s1").exists()
    assert [each.state for each in study.status] == ["finished", "finished"]
    again = hs.sweep(study.path)  # changes nothing
    assert hs.studies.linked(again.path) == {"s1": "t/s0"}
