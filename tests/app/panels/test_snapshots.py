"""Every panel at every size, as text. After a change that is meant: HTFL_SNAPSHOTS=write pytest tests/app/panels.

The files hold characters, not colours. What NO_COLOR and ASCII glyphs change has files of its own, at one size: it is
the same at the others.
"""

import os
from pathlib import Path

import pytest

from tests import sessions
from tests.app.panels.stage import FRAME_ROWS, on_stage, read, settle, staged
from tui.app.panels import PANELS
from tui.app.view import Embeddings, View, session_of

FOLDER = Path(__file__).parent.parent / "snapshots" / "panels"
MIDDLE = (120, 40)
SIZES, BETWEEN = ((80, 24), (200, 60)), ((60, 16), (95, 50), (96, 16), (170, 24))


def view_of(home: Path, name: str = "main", round: int | None = None) -> View:
    compared = tuple(read(home / each) for each in ("main", "main-fork", "base"))
    run = read(home / name)
    return View(
        run,
        round=round,
        pinned=frozenset({1, 3}),
        marked=tuple(run.folder for run in compared),
        compared=compared,
        embeddings=Embeddings({(session_of(run), 19): sessions.embedding(10, 19)}),
    )


def check(name: str, text: str) -> None:
    """That the text is what the file of this name holds."""
    file = FOLDER / f"{name}.txt"
    if os.environ.get("HTFL_SNAPSHOTS") == "write":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"{name} looks different"


@pytest.mark.long
@pytest.mark.parametrize("panel", PANELS)
async def test_a_panel_holds_at_every_size_and_in_an_earlier_round(panel: str, at_home: Path) -> None:
    for name, round in (("120x40", None), ("120x40-round7", 7)):
        async with staged(panel, view_of(at_home, round=round), size=MIDDLE) as (_, pilot):
            check(f"{panel}-{name}", await settle(pilot))
    async with staged(panel, view_of(at_home), size=SIZES[0]) as (_, pilot):
        for size in (*SIZES, *BETWEEN):
            await pilot.resize_terminal(size[0], size[1] - FRAME_ROWS)
            text = await settle(pilot)
            if size in SIZES:
                check(f"{panel}-{size[0]}x{size[1]}", text)
            lines = text.splitlines()
            assert len(lines) == size[1] - FRAME_ROWS
            assert max(map(len, lines)) <= size[0]
            assert sum(bool(line.strip()) for line in lines) >= 6


@pytest.mark.long
@pytest.mark.parametrize("panel", PANELS)
def test_ascii_glyphs_leave_nothing_that_a_font_may_lack_and_without_colour_all_is_said_in_characters(
    panel: str, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, text = on_stage(panel, view_of(at_home), size=MIDDLE, glyphs="ascii")
    assert text.isascii(), sorted({character for character in text if not character.isascii()})
    check(f"{panel}-120x40-ascii", text)
    monkeypatch.setenv("NO_COLOR", "1")
    check(f"{panel}-120x40-no-colour", on_stage(panel, view_of(at_home), size=MIDDLE)[1])


@pytest.mark.long
@pytest.mark.parametrize("panel", PANELS)
def test_where_there_is_nothing_yet_a_sentence_says_what_to_do(panel: str, at_home: Path) -> None:
    empty = View(read(at_home / "begun"), sessions_dir=at_home / "none")
    check(f"{panel}-80x24-empty", on_stage(panel, empty, size=(80, 24))[1])
