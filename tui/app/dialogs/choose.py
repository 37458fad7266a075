"""A choice of a few actions: confirmations, checkpoints, themes, leaving."""

from collections.abc import Iterable, Sequence

from textual.content import Content
from textual.events import Key
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tui.app.dialogs.base import Dialog

Choice = tuple[str, str, str]
"""The result, its name, and its effect."""


PAUSE = 1.0
"""Seconds after which the next character starts a new search."""


class Options(OptionList):
    """Textual's list, in which typed letters select a line."""

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


class Choose(Dialog[str]):
    """Returns the id of the chosen line."""

    hint = "↑↓ choose · enter confirm · esc cancel"

    def __init__(self, title: str, text: str, choices: Sequence[Choice], selected: str | None = None) -> None:
        super().__init__(title)
        self._text = text
        self._choices = choices
        self._selected = selected

    def body(self) -> Iterable[Widget]:
        if self._text:
            yield Static(self.spelled(self._text), classes="text", markup=False)
        width = max(len(name) for _, name, _ in self._choices) + 2
        yield Options(
            *(
                Option(
                    Content.assemble(
                        (self.spelled(name).ljust(width), "bold" if about else ""), self.spelled(about)
                    ),
                    id=id,
                )
                for id, name, about in self._choices
            ),
            compact=True,
        )

    def on_mount(self) -> None:
        options = self.query_one(OptionList)
        ids = [id for id, _, _ in self._choices]
        options.highlighted = ids.index(self._selected) if self._selected in ids else 0
        self.set_focus(options)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)


def confirm(title: str, text: str, yes: str) -> Choose:
    """A question with the harmless answer first."""
    return Choose(title, text, [("no", "no", "change nothing"), ("yes", "yes", yes)])
