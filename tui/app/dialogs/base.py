"""The simple dialogs, and what all are made of: a title, a body that scrolls, a line for errors, and a line of keys."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar, TypeVar

from rich.console import RenderableType
from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.events import Key, Resize
from textual.geometry import Size
from textual.message import Message
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.app.view import View
from tui.app.widgets.screen import AppScreen, glyphs_of
from tui.common.cells import cell_count, padded
from tui.common.formatting import spelled
from tui.common.fuzzy import best

Result = TypeVar("Result")
WIDE, TALL, LOW = 120, 40, 24
"""From this many columns of the screen on, a dialog is -wide. From this many rows on, it is -tall, below -short. With
fewer rows than LOW, it is also -low."""
OPENED_SECONDS = 0.02
"""Seconds without drawing, in which Textual lays a new dialog out twice."""
SCROLLS = {"up": "scroll_up", "down": "scroll_down", "pageup": "page_up", "pagedown": "page_down"}


class Behind(BackgroundScreen):
    """The screen behind a dialog, in colors that are computed once. A screen has few, each in hundreds of places."""

    @classmethod
    def process_segments(cls, segments: Iterable[Segment], color: Color) -> Iterable[Segment]:
        for text, style, control in segments:
            yield Segment(text, style if control else _tinted(style, color), control)


@lru_cache(4096)
def _tinted(style: Style | None, color: Color) -> Style | None:
    return next(iter(BackgroundScreen.process_segments([Segment(" ", style)], color))).style


class Dialog(ModalScreen[Result], AppScreen[Result]):
    """Base class of the dialogs: `title` above, the widgets of `body` in the middle, `hint` below."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "leave", show=False)]
    hint = "esc cancel"

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def spelled(self, text: object) -> str:
        return spelled(text, glyphs_of(self))

    def body(self) -> Iterable[Widget]:
        return ()

    def compose(self) -> ComposeResult:
        self.app.delay_update(OPENED_SECONDS)
        self.set_class(glyphs_of(self) == "ascii", "-ascii", update=False)
        self._fit(self.app.size, update=False)  # so that the first layout includes them
        with Vertical(classes="dialog"):
            yield Static(self.spelled(self._title), classes="title", markup=False)
            yield from self.body()
            with Vertical(classes="foot"):
                yield Static("", id="fault", markup=False)
                yield Static(self.spelled(self.hint), classes="hint", markup=False)

    def render(self) -> RenderableType:
        made = super().render()
        return Behind(made.screen, made.color) if isinstance(made, BackgroundScreen) else made

    def _compositor_refresh(self) -> None:
        """Textual draws also while updates are delayed, and then drops what it has drawn."""
        if not self.app._batch_count:
            super()._compositor_refresh()

    def on_resize(self, event: Resize) -> None:
        self._fit(event.size)

    def _fit(self, size: Size, update: bool = True) -> None:
        """Set the classes by which style.tcss sizes dialogs."""
        wide, tall, low = size.width >= WIDE, size.height >= TALL, size.height < LOW
        classes = {"-wide": wide, "-tall": tall, "-short": not tall, "-low": low}
        self.update_classes(classes, update=update, animate=False)

    def complain(self, fault: str) -> None:
        line = self.query_one("#fault", Static)
        line.update(self.spelled(fault))
        line.display = bool(fault)

    def on_options_narrowed(self, message: Any) -> None:
        """Show the letters by which a list is narrowed, in front of the keys."""
        typed = f"{message.letters}_ backspace · " if message.letters else ""
        self.query_one(".hint", Static).update(self.spelled(typed + self.hint))

    def follow(self, view: View) -> None:
        """Show what has become of the view, if this is a page of it."""

    def action_cancel(self) -> None:
        self.dismiss(None)


class Searched(Dialog[None]):
    """A text that scrolls, and a line of words that narrow it."""

    DEFAULT_CSS = """
    Searched Input { border: none; height: 1; background: $boost; }
    Searched VerticalScroll { scrollbar-gutter: stable; }  /* or it would be laid out twice */
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, f"scroll('{key}')", "scroll", show=False, priority=True) for key in SCROLLS
    ]
    example: ClassVar[str]
    """Words to filter by."""

    def body(self) -> Iterable[Widget]:
        yield Input(placeholder=self.spelled(f"filter by words, such as {self.example}"), compact=True)
        yield VerticalScroll(Reflowed(lambda _: Content("")))

    def text(self, words: str, width: int) -> Content:
        raise NotImplementedError

    def narrow(self) -> None:
        self.query_one(Reflowed).tell(partial(self.text, self.query_one(Input).value))

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).can_focus = False
        self.set_focus(self.query_one(Input))
        self.narrow()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.narrow()
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def action_scroll(self, key: str) -> None:
        getattr(self.query_one(VerticalScroll), f"action_{SCROLLS[key]}")()


class Reflowed(Widget):
    """A text that depends on its width."""

    DEFAULT_CSS = "Reflowed { width: 1fr; height: auto; }"

    def __init__(self, text: Callable[[int], Content]) -> None:
        super().__init__()
        self.tell(text)

    def tell(self, text: Callable[[int], Content]) -> None:
        self._made = lru_cache(1)(text)
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._made(width).plain.count("\n") + 1

    def render(self) -> Content:
        return self._made(self.content_size.width)


class Text(Dialog[None]):
    """A text to read; as a function, one that depends on its width."""

    hint = "esc close"

    def __init__(self, title: str, text: str | Callable[[int], Content]) -> None:
        super().__init__(title)
        self._text = text

    def body(self) -> Iterable[Widget]:
        text = self._text
        shown = Reflowed(text) if callable(text) else Static(self.spelled(text), markup=False)
        yield VerticalScroll(shown)

    def on_mount(self) -> None:
        self.set_focus(self.query_one(VerticalScroll))


SMALLEST = (60, 16)
"""Columns and rows that the app needs."""


class TooSmall(ModalScreen[None]):
    """Covers everything until there is enough room again. A run continues meanwhile."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "app.quit", "quit", show=False)]

    def compose(self) -> ComposeResult:
        yield Static(id="small", markup=False)

    def on_resize(self) -> None:
        width, height = self.app.size
        self.query_one("#small", Static).update(
            f"This terminal has {width} columns and {height} rows. The app needs {SMALLEST[0]} and {SMALLEST[1]}. "
            "Make it larger, or press q to quit."
        )


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
        able = (each for each in self._all if not letters or not each.disabled)
        return best(able, letters, lambda each: each.id or "")

    def _narrow(self, letters: str) -> None:
        chosen = self.highlighted_option
        found = self._fitting(letters)
        self._letters = letters
        self.clear_options().add_options(found)
        self.highlighted = found.index(chosen) if not letters and chosen in found else 0
        self.post_message(self.Narrowed(letters))


class Choose(Dialog[str]):
    """Returns the id of the chosen line."""

    hint = "letters or ↑↓ choose · enter confirm · esc cancel"

    def __init__(self, title: str, text: str, choices: Sequence[Choice], selected: str | None = None) -> None:
        super().__init__(title)
        self._text, self._choices, self._selected = text, choices, selected

    def body(self) -> Iterable[Widget]:
        if self._text:
            yield Static(self.spelled(self._text), classes="text", markup=False)
        width = max(cell_count(name) for _, name, _ in self._choices) + 2
        lines = []
        for id, name, about in self._choices:
            named = padded(self.spelled(name), width), "bold" if about else ""
            lines.append(Option(Content.assemble(named, self.spelled(about)), id=id))
        yield Options(*lines, compact=True)

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
