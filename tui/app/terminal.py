"""The terminal under the app: what happens if there is none, after a signal, and when it is closed.

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
from typing import Any

from textual.driver import Driver

HANGUP = 128 + signal.SIGHUP
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def is_web() -> bool:
    """Whether a browser is the terminal: textual-serve starts the app with this driver."""
    return os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver")


def is_there() -> bool:
    """Whether input, output, and messages all go to a terminal, or to a browser."""
    return is_web() or all(
        stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)
    )


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
        poller.register(
            sys.__stdin__.fileno() if sys.__stdin__ else 0, 0
        )  # only events that cannot be masked: HUP, ERR
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
