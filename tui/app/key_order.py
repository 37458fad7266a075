"""Keys one after the other: each goes where the one before it has led.

Textual hands a key to the part that has the focus now, which deals with it when its own turn comes, and passes it on.
Typed fast, or while a run has the processors, a letter after a tab would land in the field before, and one after the
key that opens a form nowhere. Where a form has to be prepared first, keys are kept for it, but for escape, which gives
it up.
"""

import asyncio
from collections import deque
from contextlib import suppress

from textual.app import ScreenStackError
from textual.events import Event, Key
from textual.message import Message
from textual.widget import Widget

from tui.app.xterm import XtermApp

PATIENCE = 2.0
"""Seconds after which the next key no longer waits for one before it."""
PREPARING = 20.0
"""Seconds after which it no longer waits for a form."""


class Passed(Message):
    """Sent after a key on the same way; when the app has it, the key, and what was sent before, has been dealt with."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = asyncio.Event()


class KeysInOrder(XtermApp):
    """An app in which a key waits until the one before it has had its effects."""

    def __init__(self) -> None:
        super().__init__()
        self._keys: deque[Key] = deque()
        self._following: asyncio.Task[None] | None = None

    @property
    def form_awaited(self) -> bool:
        """Whether a key has asked for a form that is not there yet."""
        return False

    def give_up_form(self) -> None:
        """Do not show it any more."""

    async def on_event(self, event: Event) -> None:
        if not isinstance(event, Key) or event.is_forwarded:
            await super().on_event(event)
        elif event.key == "escape" and self.form_awaited:
            self._keys.clear()
            self.give_up_form()
        elif self._following is not None:
            self._keys.append(event)
        else:
            await self._hand_out(event)

    async def _hand_out(self, key: Key) -> None:
        target = self.focused or self.screen
        await super().on_event(key)
        self._following = asyncio.create_task(self._follow(target))

    async def _follow(self, target: Widget) -> None:
        """Wait for the key; for the messages that it made its target send; for a form it has asked for; for what has
        the focus, or is new, now."""
        for part in (target, target, None):
            passed = Passed()
            with suppress(TimeoutError, ScreenStackError):  # the key may have ended the app
                if part is None:
                    await asyncio.wait_for(self._prepared(), PREPARING)
                if (part or self.focused or self.screen).post_message(passed):
                    await asyncio.wait_for(passed.arrived.wait(), PATIENCE)
        if self._keys:
            self.call_later(self._hand_out, self._keys.popleft())
        else:
            self._following = None

    async def _prepared(self) -> None:
        while self.form_awaited:
            await asyncio.sleep(0.02)

    def on_passed(self, message: Passed) -> None:
        message.arrived.set()
