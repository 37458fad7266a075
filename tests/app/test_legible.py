"""Every letter and figure can be read: on dark and on light, in all colours and in xterm's 256."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.cells import cell_len
from rich.color import ColorSystem
from textual.pilot import Pilot

from simulator.results.figures.palette import contrast
from tests import sessions
from tests.app.driving import drive, until
from tui.app.app import HtflApp
from tui.app.panels import PANELS
from tui.app.runs import LaunchOptions
from tui.app.terminal import able

ROUNDS = 6
LEAST = {ColorSystem.TRUECOLOR: 3.0, ColorSystem.EIGHT_BIT: 2.5}
"""What WCAG 2.2 (1.4.11) asks of what is needed to understand, and what the nearest of 256 colours leaves of it."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("legible")
    for name, method in (("main", "fedlora"), ("other", "fedssa")):
        sessions.make(folder / name, rounds=ROUNDS, clients=6, method=method, samples=sessions.samples(6))
    return folder


def hard_to_read(app: HtflApp, least: float) -> set[tuple[str, float]]:
    """What is written with less contrast."""
    found = set()
    for row in app.screen._compositor.render_strips():
        for text, style, _ in row:
            if not any(character.isalnum() for character in text) or style is None:
                continue
            fg, bg = style.color, style.bgcolor
            if fg is None or bg is None or fg.is_default or bg.is_default:
                continue  # the terminal's own
            one, other = (int(each.get_truecolor().hex[1:], 16) for each in (fg, bg))
            if (ratio := contrast(one, other)) < least - 0.005:
                found.add((text.strip(), round(ratio, 2)))
    return found


@pytest.mark.parametrize(
    ("theme", "system"),
    [
        pytest.param("textual-dark", ColorSystem.EIGHT_BIT, id="dark-256"),
        pytest.param("textual-light", ColorSystem.TRUECOLOR, id="light-true", marks=pytest.mark.long),
        pytest.param("textual-dark", ColorSystem.TRUECOLOR, id="dark-true", marks=pytest.mark.slow),
        pytest.param("textual-light", ColorSystem.EIGHT_BIT, id="light-256", marks=pytest.mark.slow),
    ],
)
def test_every_panel_can_be_read(theme: str, system: ColorSystem, home: Path) -> None:
    app = HtflApp(LaunchOptions(home, home / "data"), home / "main")
    found: dict[str, set[tuple[str, float]]] = {}

    async def look(pilot: Pilot[str]) -> None:
        app.console._color_system = system
        app.theme = theme
        await until(pilot, lambda: app.view.run.round == ROUNDS)
        await pilot.press("2", "p", "left", "s", "x", "j", "x")
        for panel in PANELS:
            app.show_panel(panel)
            app.refresh_css()
            await pilot.pause()
            if hard := hard_to_read(app, LEAST[system]):
                found[panel] = hard

    drive(app, look)
    assert found == {}


@pytest.mark.long
def test_names_in_any_script_are_shown_as_they_are(tmp_path: Path) -> None:
    held = sessions.samples(4) | {"classes": ["猫", "飛行機", "🐦", "狗", "naïve", "ก็", "6", "7", "8", "9"]}
    for name in ("試験🙂", "試験🐦"):
        sessions.make(tmp_path / name, rounds=2, clients=4, samples=held)
    app = HtflApp(LaunchOptions(tmp_path, tmp_path / "data"), tmp_path / "試験🙂")
    seen: dict[str, str] = {}

    async def look(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: app.view.run.round == 2)
        for panel in PANELS:
            app.show_panel(panel)
            await pilot.pause()
            seen[panel] = text_of(app)
        await until(pilot, lambda: "試験🐦" in text_of(app))  # once the folder is read
        seen["sessions"] = text_of(app)
        assert all(cell_len(line) == 120 for each in seen.values() for line in each.splitlines())

    drive(app, look)
    assert [panel for panel, text in seen.items() if text.count("?") > text.count("? help")] == []
    assert [*seen][-1] == "sessions" and all("試験🙂" in text for text in seen.values())
    assert "飛行機" in seen["clients"]


def text_of(app: HtflApp) -> str:
    """The characters on the screen, line by line."""
    rows = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in row) for row in rows)


def test_a_terminal_whose_encoding_is_not_utf_8_gets_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEXTUAL_DRIVER", raising=False)
    for encoding, glyphs in (("utf-8", "block"), ("iso8859-1", "ascii"), ("ascii", "ascii"), (None, "ascii")):
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(encoding=encoding))
        assert able("block") == glyphs
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.web_driver:WebDriver")
    assert able("block") == "block"  # a browser
