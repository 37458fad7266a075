"""A choice of a few actions: confirmations, checkpoints, themes, leaving."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.events import Key
from textual.message import Message
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tui.app.dialogs.base import Dialog
from tui.common.cells import cell_count, padded
from tui.common.fuzzy import best

Choice = tuple[str, str, str]
"""The result, its name, and its effect."""


class Options(OptionList):
    """Textual's list, which typed letters narrow to the lines that fit, the best first. Backspace takes one back."""

    @dataclass
    class Narrowed(Message):
        """The list shows the lines that fit these letters; "" for all."""

        letters: str

    _letters = ""
    _all: tuple[Option, ...] = ()

    def on_key(self, event: Key) -> None:
        if event.key == "backspace" and self._letters:
            event.stop()
            self._narrow(self._letters[:-1])
        elif event.is_printable and event.character is not None and event.character.strip():
            for letters in (self._letters + event.character, event.character):
                if self._fitting(letters):
                    event.stop()
                    self._narrow(letters)
                    return

    def _fitting(self, letters: str) -> list[Option]:
        self._all = self._all or tuple(self.options)
        return best((each for each in self._all if not letters or not each.disabled), letters, _id)

    def _narrow(self, letters: str) -> None:
        chosen = self.highlighted_option
        found = self._fitting(letters)
        self._letters = letters
        self.clear_options().add_options(found)
        self.highlighted = found.index(chosen) if not letters and chosen in found else 0
        self.post_message(self.Narrowed(letters))


def _id(option: Option) -> str:
    return option.id or ""


class Choose(Dialog[str]):
    """Returns the id of the chosen line."""

    hint = "letters or ↑↓ choose · enter confirm · esc cancel"

    def __init__(self, title: str, text: str, choices: Sequence[Choice], selected: str | None = None) -> None:
        super().__init__(title)
        self._text = text
        self._choices = choices
        self._selected = selected

    def body(self) -> Iterable[Widget]:
        if self._text:
            yield Static(self.spelled(self._text), classes="text", markup=False)
        width = max(cell_count(name) for _, name, _ in self._choices) + 2
        yield Options(
            *(
                Option(
                    Content.assemble(
                        (padded(self.spelled(name), width), "bold" if about else ""), self.spelled(about)
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
