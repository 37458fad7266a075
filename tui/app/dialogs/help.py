"""All keys and typed commands, from their tables."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Input

from tui.app.dialogs.base import Searched
from tui.app.keys import GROUPS, PLACES, Key
from tui.app.typed import COMMANDS
from tui.common.formatting import wrapped
from tui.common.fuzzy import fits

WIDEST = 12


class Keys(Widget):
    """A text that depends on its width."""

    DEFAULT_CSS = "Keys { width: 1fr; height: auto; }"

    def __init__(self, text: Callable[[int], Content]) -> None:
        super().__init__()
        self.tell(text)

    def tell(self, text: Callable[[int], Content]) -> None:
        """Show another text."""
        self._made = lru_cache(1)(text)
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._made(width).plain.count("\n") + 1

    def render(self) -> Content:
        return self._made(self.content_size.width)


class Help(Searched):
    """The keys of the present panel, then the others by group, then the typed commands."""

    hint = "type to filter · ↑↓ page up, page down scroll · esc close"

    def __init__(self, panel: str) -> None:
        super().__init__("Keys")
        self._panel = panel

    def body(self) -> Iterable[Widget]:
        yield Input(placeholder=self.spelled("filter by words, such as pin or round"), compact=True)
        yield VerticalScroll(Keys(lambda _: Content("")))

    def narrow(self) -> None:
        words = self.words
        self.query_one(Keys).tell(lambda width: self._text(width, words))

    def _groups(self) -> Iterator[tuple[str, Sequence[Key]]]:
        """The keys that work in this panel alone or in few others come first."""
        own = [key for keys in GROUPS.values() for key in keys if self._panel in key.where]
        if own:
            yield f"In {PLACES[self._panel]}", own
        for group, keys in GROUPS.items():
            if others := [key for key in keys if key not in own]:
                yield group, others

    def _text(self, width: int, words: str) -> Content:
        """The groups of keys that fit the words, in `width` cells."""
        lines: list[Content] = []
        for group, keys in self._groups():
            found = [key for key in keys if fits(f"{key.print} {key.label} {key.about}", words)]
            if found:
                lines += [Content("")] * bool(lines) + [Content.styled(group, "bold")]
            for key in found:
                elsewhere = key.where and not key.works_in(self._panel)
                places = f" ({', '.join(PLACES[each] for each in key.where)})" if elsewhere else ""
                lines += self._entry(key.print, key.about + places, width, "dim" if elsewhere else "")
        commands = [each for each in COMMANDS if fits(f"{each.name} {each.usage} {each.about}", words)]
        if commands:
            lines += [Content("")] * bool(lines) + [Content.styled("Typed commands, after :", "bold")]
        for each in commands:
            lines += self._entry(
                each.name, f"{each.usage}: {each.about}" if each.usage else each.about, width
            )
        return Content("\n").join(lines or [Content("No key and no command fits these words.")])

    def _entry(self, name: str, about: str, width: int, style: str = "") -> list[Content]:
        return [
            Content.assemble((f"  {'' if place else name:<{WIDEST}}", "bold"), (text, style))
            for place, text in enumerate(wrapped(self.spelled(about), width - WIDEST - 2))
        ]
