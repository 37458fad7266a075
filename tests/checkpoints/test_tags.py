"""Tags: words beside a session, which its owner writes and nothing of its rounds depends on."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import checkpoints
from checkpoints import Damaged, Locked, Store
from checkpoints.schema import seal
from tests.checkpoints.helpers import commit, make, record


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A session of two rounds that nobody runs."""
    return make(tmp_path / "s", rounds=2)


def everything_else(folder: Path) -> dict[str, bytes]:
    """All that a session holds but its tags and its owner's note."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if path.name not in ("tags.json", "owner.json")
    }


def test_words_are_added_and_removed_and_stand_in_order(folder: Path) -> None:
    assert checkpoints.tags_of(folder) == ()
    assert checkpoints.mark(folder, ["table-3", "paper"]).tags == ("paper", "table-3")
    assert checkpoints.mark(folder, ["paper", "old"], remove=["table-3", "absent"]).tags == ("old", "paper")
    assert checkpoints.tags_of(folder) == ("old", "paper")
    assert checkpoints.mark(folder, [], remove=["old", "paper"]).tags == ()


def test_a_note_stays_until_another_one_replaces_it(folder: Path) -> None:
    assert checkpoints.marks_of(folder) == ((), "")
    assert checkpoints.mark(folder, [], note="the lr of the paper, 10 clients") == (
        (),
        "the lr of the paper, 10 clients",
    )
    assert checkpoints.mark(folder, ["paper"]).note == "the lr of the paper, 10 clients"
    assert checkpoints.mark(folder, [], note="π ≈ 3") == (("paper",), "π ≈ 3")
    assert checkpoints.marks_of(folder) == (("paper",), "π ≈ 3")
    assert checkpoints.mark(folder, [], note="") == (("paper",), "")


NO_NOTES = [("two\nlines", "control characters"), ("\x1b[2J", "control characters"), ("x" * 1001, "has 1001")]


def test_a_note_is_one_line_of_at_most_a_thousand_letters(folder: Path) -> None:
    for text, fault in NO_NOTES:
        assert checkpoints.check_note("x" * 1000) == "x" * 1000
        with pytest.raises(ValueError, match=fault):
            checkpoints.mark(folder, ["paper"], note=text)
        assert not (folder / "tags.json").exists()


def test_nothing_else_of_a_session_changes_and_it_is_left_in_the_state_it_was_in(folder: Path) -> None:
    before, state = everything_else(folder), checkpoints.SessionReader(folder).state()
    checkpoints.mark(folder, ["paper"])
    assert everything_else(folder) == before
    assert checkpoints.SessionReader(folder).state() == state
    assert checkpoints.verify(folder) == []


def test_what_a_killed_session_has_after_its_checkpoint_stays_and_so_does_its_state(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "s", {})
    commit(store, 1)
    store.append(record(2))  # of a round without a checkpoint of its own, which the next opening cuts off
    store._owner.let_go()
    reader, before = checkpoints.SessionReader(tmp_path / "s"), everything_else(tmp_path / "s")
    assert checkpoints.mark(tmp_path / "s", ["killed"]).tags == ("killed",)
    assert (reader.state(), len(reader.records())) == ("interrupted", 2)
    assert everything_else(tmp_path / "s") == before


def test_who_does_not_own_a_session_writes_no_tags(folder: Path) -> None:
    with Store.open(folder) as owner:
        with pytest.raises(Locked):
            checkpoints.mark(folder, ["paper"])
        assert owner.tag(["mine"]).tags == ("mine",)
    assert checkpoints.tags_of(folder) == ("mine",)


@pytest.mark.long
@given(st.text(max_size=60))
def test_a_tag_is_a_short_plain_word(text: str) -> None:
    plain = 0 < len(text) <= 40 and text[0].isalnum() and text.isascii()
    plain = plain and all(each.isalnum() or each in "._-" for each in text)
    if plain:
        assert checkpoints.check_tag(text) == text
    else:
        with pytest.raises(ValueError, match="is not a tag: use up to 40 letters"):
            checkpoints.check_tag(text)


def test_there_are_at_most_fifty(folder: Path) -> None:
    checkpoints.mark(folder, [f"t{number}" for number in range(50)])
    with pytest.raises(ValueError, match="at most 50 tags"):
        checkpoints.mark(folder, ["one-more"])
    assert len(checkpoints.tags_of(folder)) == 50


OF_STRANGERS = [
    b"{}\n",
    b"\x00" * 100,
    b"[" * 65_537,
    seal({"tags": "paper"}),
    seal({"tags": [3]}),
    seal({"tags": ["\x1b[2Jcleared"]}),
    seal({"tags": ["x" * 41]}),
    seal({"tags": [f"t{number}" for number in range(51)]}),
    seal({"tags": [], "note": 3}),
    seal({"tags": [], "note": "\x1b[2Jcleared"}),
    seal({"tags": [], "note": "x" * 1001}),
    seal({"tags": ["paper"]}).replace(b"paper", b"papers"),
]


def test_a_stranger_s_file_is_damage_and_the_next_tag_replaces_it(folder: Path) -> None:
    for content in OF_STRANGERS:
        (folder / "tags.json").write_bytes(content)
        with pytest.raises(Damaged, match=r"tags\.json"):
            checkpoints.tags_of(folder)
        assert [(each.path, each.severity) for each in checkpoints.verify(folder)] == [
            ("tags.json", "damage")
        ]
        assert checkpoints.mark(folder, ["paper"]).tags == ("paper",)
        assert checkpoints.verify(folder) == []


def test_a_link_and_a_folder_in_its_place_are_neither_followed_nor_a_reason_to_stop(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").write_bytes(seal({"tags": ["theirs"]}))
    (folder / "tags.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Damaged):
        checkpoints.tags_of(folder)
    with Store.open(folder) as owner:
        with pytest.raises(ValueError, match="not a plain file"):
            owner.tag(["paper"])
        (folder / "tags.json").unlink()
        (folder / "tags.json").mkdir()
        with pytest.raises(ValueError, match="not a plain file"):
            owner.tag(["paper"])
        owner.event("warning", message="it goes on")
    assert (tmp_path / "elsewhere").read_bytes() == seal({"tags": ["theirs"]})
