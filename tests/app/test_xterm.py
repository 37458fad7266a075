"""What is sent to a terminal that has xterm's 256 colours."""

import colorsys
from pathlib import Path

import numpy as np
import pytest
from rich.color import ColorSystem, ColorType

from simulator.results.figures.palette import OKABE_ITO, channels, contrast
from tests import sessions
from tests.app.driving import drive, until
from tui.app.app import HtflApp
from tui.app.charts.look import VIRIDIS_256, Look
from tui.app.runs import LaunchOptions
from tui.app.terminal import COLOURS, FIRST, as_seen, nearest

TINTS = (0x242F38, 0x2A2218, 0x1E1E1E, 0x272727)  # of dark themes' panels


def sent(colour: int) -> tuple[int, int, int]:
    red, green, blue = COLOURS[nearest(*channels(colour)) - FIRST].tolist()
    return red, green, blue


def test_its_own_colours_are_sent_as_they_are() -> None:
    assert [COLOURS[nearest(*each) - FIRST].tolist() for each in COLOURS.tolist()] == COLOURS.tolist()
    assert [sent(colour) for colour in VIRIDIS_256.tolist()] == [
        channels(each) for each in VIRIDIS_256.tolist()
    ]


def test_white_is_lighter_than_black_and_greys_have_no_hue() -> None:
    seen = as_seen(np.array([[0, 0, 0], [128, 128, 128], [255, 255, 255]]))
    assert seen[:, 0] == pytest.approx([0, 0.6, 1], abs=0.01)
    assert abs(seen[:, 1:]).max() < 1e-3


@pytest.mark.parametrize("tint", TINTS)
def test_a_dark_tint_becomes_a_grey_and_not_a_blue_or_an_olive(tint: int) -> None:
    red, green, blue = sent(tint)
    assert red == green == blue


def test_the_lines_of_a_chart_stay_apart_and_legible() -> None:
    for scheme in (Look(exact=False), Look(0x202020, 0xF0F0F0, 0xB35C00, False, exact=False)):
        lines = [sent(scheme.series(place)) for place in range(len(OKABE_ITO))]
        seen = as_seen(np.array(lines))
        apart = np.linalg.norm(seen[:, None] - seen[None], axis=2)
        assert apart[np.triu_indices(len(lines), 1)].min() > 0.06
        ground = sent(scheme.background)
        for red, green, blue in lines:
            assert (
                contrast(red << 16 | green << 8 | blue, ground[0] << 16 | ground[1] << 8 | ground[2]) >= 2.5
            )


def test_the_cursor_is_not_red() -> None:
    hue, _, _ = colorsys.rgb_to_hsv(*(part / 255 for part in sent(Look(exact=False).highlight)))
    assert 25 <= hue * 360 <= 60  # orange to yellow


@pytest.mark.long
def test_status_row_panels_and_keys_are_all_sent_in_them(tmp_path: Path) -> None:
    sessions.make(tmp_path / "main", rounds=3, clients=4, samples=sessions.samples(4))
    app = HtflApp(LaunchOptions(tmp_path, tmp_path / "data"), tmp_path / "main")

    async def look(pilot: object) -> None:
        app.console._color_system = ColorSystem.EIGHT_BIT
        await until(pilot, lambda: app.view.run.round == 3)  # type: ignore[arg-type]
        for panel in ("live", "data"):
            app.show_panel(panel)
            app.refresh_css()
            await pilot.pause()  # type: ignore[attr-defined]
            rows = app.screen._compositor.render_strips()
            kinds = {
                colour.type
                for row in rows
                for segment in row
                if segment.style
                for colour in (segment.style.color, segment.style.bgcolor)
                if colour is not None
            }
            assert kinds <= {ColorType.EIGHT_BIT, ColorType.DEFAULT, ColorType.STANDARD}
            ground = next(
                segment.style.bgcolor for segment in rows[0] if segment.style and segment.style.bgcolor
            )
            red, green, blue = ground.get_truecolor()
            assert red == green == blue  # the status row's

    drive(app, look)  # type: ignore[arg-type]
