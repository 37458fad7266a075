"""Keys one after the other: each goes where the one before it has led.

Textual hands a key to the part that has the focus now, which deals with it when its own turn comes, and passes it on.
Typed fast, or while a run has the processors, a letter after a tab would land in the field before, and one after the
key that opens a form nowhere. Where a form has to be prepared first, keys are kept for it, but for escape, which gives
it up.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from textual.app import App, ScreenStackError
from textual.events import Key
from textual.message import Message
from textual.widget import Widget

from tui.app.compatibility import MethodChoices

PATIENCE = 2.0
"""Seconds after which the next key no longer waits for one before it."""
PREPARING = 20.0
"""Seconds after which it no longer waits for a form."""


class Passed(Message):
    """Sent after a key on the same way; when the app has it, the key, and what was sent before, has been dealt with."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = asyncio.Event()


class KeyQueue:
    """Holds each key until the one before it has taken effect."""

    def __init__(
        self, app: App[Any], deliver: Callable[[Key], Awaitable[None]], choices: MethodChoices
    ) -> None:
        """`deliver` handles a key; a form that waits for `choices` holds the keys back."""
        self._app, self._deliver, self._choices = app, deliver, choices
        self._keys: deque[Key] = deque()
        self._following: asyncio.Task[None] | None = None

    async def put(self, key: Key) -> None:
        """Deliver a key now, or after those before it."""
        if key.key == "escape" and self._choices.awaited:
            self._keys.clear()
            self._choices.forget()
        elif self._following is not None:
            self._keys.append(key)
        else:
            await self._hand_out(key)

    async def _hand_out(self, key: Key) -> None:
        target = self._app.focused or self._app.screen
        await self._deliver(key)
        self._following = asyncio.create_task(self._follow(target))

    async def _follow(self, target: Widget) -> None:
        """Wait for the key; for the messages that it made its target send; for a form it has asked for; for what has
        the focus, or is new, now."""
        for part in (target, target, None):
            passed = Passed()
            with suppress(TimeoutError, ScreenStackError):  # the key may have ended the app
                if part is None:
                    await asyncio.wait_for(self._prepared(), PREPARING)
                if (part or self._app.focused or self._app.screen).post_message(passed):
                    await asyncio.wait_for(passed.arrived.wait(), PATIENCE)
        if self._keys:
            self._app.call_later(self._hand_out, self._keys.popleft())
        else:
            self._following = None

    async def _prepared(self) -> None:
        while self._choices.awaited:
            await asyncio.sleep(0.02)
