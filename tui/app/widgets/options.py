"""A list to choose from, in which typing goes to the first line whose id begins so."""

from textual.events import Key
from textual.widgets import OptionList

PAUSE = 1.0
"""Seconds after which the next character begins anew."""


class Options(OptionList):
    """As Textual's, and a letter or several lead to a line that can be chosen."""

    _typed = ""
    _typed_at = 0.0

    def on_key(self, event: Key) -> None:
        if not event.is_printable or event.character is None:
            return
        begun = self._typed if event.time - self._typed_at < PAUSE else ""
        self._typed_at = event.time
        for words in (begun + event.character.lower(), event.character.lower()):
            if (found := self._first(words)) is not None:
                self._typed, self.highlighted = words, found
                event.stop()
                return

    def _first(self, words: str) -> int | None:
        ids = ("" if option.disabled else option.id or "" for option in self.options)
        return next((place for place, id in enumerate(ids) if id.lower().startswith(words)), None)
