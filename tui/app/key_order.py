"""Keys in order: each goes to the part that the key before it has focused.

Textual sends a key to the part that has the focus now. That part handles it in its own turn, and passes it on. With
fast typing, or while a run uses the processors, a letter after a tab would reach the previous field, and one after the
key that opens a form would be lost. If a form has to be prepared first, keys are kept for it. Escape cancels it.
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
"""Seconds after which a key no longer waits for the one before it."""
PREPARING = 20.0
"""Seconds after which it no longer waits for a form."""


class Passed(Message):
    """Sent after a key on the same way. When the app receives it, the key and earlier messages have been handled."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = asyncio.Event()


class KeyQueue:
    """Holds each key until the one before it has taken effect."""

    def __init__(
        self, app: App[Any], deliver: Callable[[Key], Awaitable[None]], choices: MethodChoices
    ) -> None:
        """`deliver` handles a key. A form that waits for `choices` holds the keys back."""
        self._app, self._deliver, self._choices = app, deliver, choices
        self._keys: deque[Key] = deque()
        self._following: asyncio.Task[None] | None = None

    @property
    def under_way(self) -> bool:
        """Whether a key has not taken effect yet, for another reason than a form that is being prepared."""
        return self._following is not None and not self._choices.awaited

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
        """Wait for the key, for the messages that it caused, for a form that it requested, and for the focused or new
        part.
        """
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
