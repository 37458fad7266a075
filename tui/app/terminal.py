"""The terminal under the app: what it can show, and what happens if there is none, after a signal, and at its end.

poll notices a closed pty even if SIGHUP is ignored. Nothing may continue to read or write it: both fail at once, again
and again, and would keep a core busy.
"""

import asyncio
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.color import Color, ColorType
from rich.segment import Segment, Segments
from rich.style import Style
from textual.color import Color as TextualColor
from textual.driver import Driver
from textual.filter import LineFilter
from textual.scrollbar import ScrollBar, ScrollBarRender

from tui.app.charts.look import Glyphs
from tui.common.formatting import writes_unicode

HANGUP = 128 + signal.SIGHUP
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def is_web() -> bool:
    """Whether a browser is the terminal: textual-serve starts the app with this driver."""
    return os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver")


def is_there() -> bool:
    """Whether input, output, and messages all go to a terminal, or to a browser."""
    streams = sys.stdin, sys.stdout, sys.stderr
    return is_web() or all(stream is not None and stream.isatty() for stream in streams)


def able(glyphs: Glyphs) -> Glyphs:
    """These glyphs, or ASCII if the terminal's encoding is not UTF-8. A browser always has it."""
    return glyphs if is_web() or writes_unicode() else "ascii"


def on_signals(do: Callable[[signal.Signals], None]) -> None:
    """Call `do` in the running loop for a signal that ends the app. Signals that were ignored before stay ignored."""
    loop = asyncio.get_running_loop()
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, do, number)


class Hangup(threading.Thread):
    """Waits, asleep, until the terminal is closed. Then it calls `stop`, and ends the process."""

    def __init__(self, stop: Callable[[], None]) -> None:
        super().__init__(name="hangup", daemon=True)
        self._stop = stop
        self.disarmed = False
        """Set when the app has ended by itself and the process continues."""

    def run(self) -> None:
        poller = select.poll()
        # Only the events that cannot be masked: HUP and ERR.
        poller.register(sys.__stdin__.fileno() if sys.__stdin__ else 0, 0)
        poller.poll()
        if not self.disarmed:
            silence()
            self._stop()
            os._exit(HANGUP)


def silence() -> None:
    """Make reads of the terminal wait forever, and discard writes."""
    with suppress(OSError):
        never, _ = os.pipe()
        os.dup2(never, 0)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)


def write(driver: object, characters: str) -> None:
    """Send characters to the app's terminal, between two of its updates."""
    # Textual has no public way for it but the bell, which its drivers write like this.
    if isinstance(driver, Driver) and not driver.is_headless:
        driver.write(characters)


def switch_mouse(app: Any) -> None:
    """Give the mouse of an app to its terminal, or take it back, and say so."""
    app.has_mouse = has_mouse = not app.has_mouse
    give_mouse(app._driver, has_mouse)
    terminals = "The mouse selects text in the terminal. Press % to give it back to the app."
    said = "The mouse controls the app again." if has_mouse else terminals
    app.say(said, holds=lambda: app.has_mouse == has_mouse)


def give_mouse(driver: object, to_app: bool) -> None:
    """Make the terminal report the mouse to the app, or keep it for its own selection."""
    # Textual has no public switch for it. Its drivers for real terminals have this pair.
    switch = getattr(driver, f"_{'enable' if to_app else 'disable'}_mouse_support", None)
    if switch is not None:
        switch()


RUNS = "{name} runs in this process, so suspending the app would stop it. Press q to leave the app and keep training."
CANNOT = "The app cannot be suspended in this terminal. Press q to leave it."


def suspend(app: Any) -> None:
    """Give the terminal back to the shell until `fg`, or say why not."""
    if app.runs.running:
        app.say(RUNS.format(name=app.runs.name), holds=lambda: app.runs.running)
    elif app._driver is None or not app._driver.can_suspend:
        app.say(CANNOT)
    else:
        # Textual takes the mouse when the app continues, also if it was left to the terminal.
        app.app_resume_signal.subscribe(app.main, lambda app: give_mouse(app._driver, app.has_mouse))
        app.action_suspend_process()


class AsciiScrollBar(ScrollBarRender):
    """For terminals without block characters, and visible without color: `#` for the visible part, `|` for the rest."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    """No eighths of a cell: a bar begins and ends with a whole one."""

    @classmethod
    def render_bar(cls, *about: Any, **more: Any) -> Segments:
        drawn = super().render_bar(*about, **more)
        whole = Style(reverse=False)
        styles = [style or whole for _, style, _ in drawn.segments]
        return Segments(
            [Segment("#" if each.reverse else "|", each + whole) for each in styles], new_lines=True
        )


def use_scroll_bars(glyphs: Glyphs) -> None:
    """Use scroll bars for these glyphs. Textual has one renderer per process."""
    ScrollBar.renderer = AsciiScrollBar if glyphs == "ascii" else ScrollBarRender


STEPS = (0, 95, 135, 175, 215, 255)
FIRST = 16  # users may have changed those before it
COLOURS = np.array(
    [(red, green, blue) for red in STEPS for green in STEPS for blue in STEPS]
    + [(grey, grey, grey) for grey in range(8, 239, 10)]
)
"""[240, 3] red, green, and blue of the colors from FIRST on."""

_CONES = np.array(
    [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
     [0.0883024619, 0.2817188376, 0.6299787005]]
)  # fmt: skip
_OPPONENTS = np.array(
    [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
     [0.0259040371, 0.7827717662, -0.8086757660]]
)  # fmt: skip


def as_seen(rgb: NDArray[np.int_]) -> NDArray[np.float64]:
    """Colors [n, 3] in a space of perceived distances: OKLab (Ottosson 2020), lightness first."""
    share = rgb / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return np.asarray(np.cbrt(linear @ _CONES.T) @ _OPPONENTS.T)


_SEEN = as_seen(COLOURS)


@lru_cache(maxsize=4096)
def nearest(red: int, green: int, blue: int) -> int:
    distance = np.linalg.norm(_SEEN - as_seen(np.array([[red, green, blue]])), axis=1)
    return FIRST + int(distance.argmin())


@lru_cache(maxsize=4096)
def _style(style: Style) -> Style:
    def known(colour: Color | None) -> Color | None:
        if colour is None or colour.type is not ColorType.TRUECOLOR or colour.triplet is None:
            return colour
        return Color.from_ansi(nearest(*colour.triplet))

    return style + Style.from_color(known(style.color), known(style.bgcolor))


class XtermFilter(LineFilter):
    """Converts a drawing to xterm's 256 colors, which a terminal over SSH has: each color to the nearest of them.

    By default, red, green, and blue are rounded separately, which makes a dark blue-gray navy blue, and an orange tint
    olive.
    """

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:
        return [Segment(text, style and _style(style), control) for text, style, control in segments]
