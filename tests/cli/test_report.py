"""`htfl-sim report` in this process: the file it writes, and what it refuses."""

import json
from pathlib import Path

import pytest

from tests import sessions as made
from tests.cli.conftest import Cli
from tests.cli.test_bad_input import assert_refused

POINTS = json.dumps([{"name": "p", "axes": {}, "config": made.whole(rounds=2)}])


@pytest.fixture
def two(sessions: Path) -> Path:
    made.make(sessions / "one", rounds=3, document=made.whole())
    made.make(sessions / "two", rounds=3, document=made.whole(method={"name": "standalone"}))
    return sessions


def test_the_page_is_named_after_the_session_and_lies_here(cli: Cli, two: Path, tmp_path: Path) -> None:
    result = cli("report", "one")
    assert result.code == 0 and "one.html: 1 session" in result.err
    assert "<h1>one</h1>" in (tmp_path / "one.html").read_text(encoding="utf-8")


def test_what_cannot_be_read_is_named_on_the_page(cli: Cli, two: Path, tmp_path: Path) -> None:
    (two / "two" / "session.json").write_bytes(b"{}")
    assert cli("report", "*", "--out", "page.html").code == 0
    assert "two is damaged and left out: " in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.long
def test_settings_that_differ_between_rows_stand_above_the_table(cli: Cli, two: Path, tmp_path: Path) -> None:
    document = made.whole(method={"name": "fedgh"}, training={"epochs": 5, "batch_size": 8})
    made.make(two / "three", rounds=3, document=document)
    assert cli("report", "*", "--by", "method", "--out", "page.html").code == 0
    above, _, _ = (tmp_path / "page.html").read_text(encoding="utf-8").partition('<table class="results">')
    assert "Rows differ in training.batch_size: 8 (fedgh), 64 (others)." in above


def test_a_study_file_is_told_as_it_was_asked(cli: Cli, two: Path, tmp_path: Path) -> None:
    study = two / "t3"
    study.mkdir()
    made.make(study / "p", rounds=2, document=made.whole())
    (study / "study.toml").write_text('preset = "quickstart"\n', encoding="utf-8")
    (study / "points.json").write_text(POINTS, encoding="utf-8")
    assert cli("report", "t3").code == 0
    assert "preset = &#34;quickstart&#34;" in (tmp_path / "t3.html").read_text(encoding="utf-8")


def test_a_study_file_that_is_a_link_is_not_followed(cli: Cli, two: Path, tmp_path: Path) -> None:
    study = two / "t3"
    made.make(study / "p", rounds=2, document=made.whole())
    (study / "points.json").write_text(POINTS, encoding="utf-8")
    (tmp_path / "private").write_text("a stranger's wish", encoding="utf-8")
    (study / "study.toml").symlink_to(tmp_path / "private")
    assert cli("report", "t3").code == 0
    page = (tmp_path / "t3.html").read_text(encoding="utf-8")
    assert "wish" not in page and "study.toml" in page


def test_a_file_that_cannot_be_written_is_said(cli: Cli, two: Path) -> None:
    assert_refused(
        cli("report", "one", "--out", "nowhere/page.html"), 2, "nowhere/page.html", "cannot be written"
    )


def test_an_unknown_axis_names_the_nearest(cli: Cli, two: Path) -> None:
    assert_refused(cli("report", "one", "--by", "metod"), 2, "metod", "method")
