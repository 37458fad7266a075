"""All keys, from their table."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial

from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Input

from tui.app.charts.look import Glyphs
from tui.app.dialogs.base import Searched
from tui.app.keys import GROUPS, PLACES, Key
from tui.app.widgets.surface import glyphs_of
from tui.common.formatting import spelled, wrapped
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
    """The keys of the present panel, then the others by group."""

    hint = "type to filter · ↑↓ page up, page down scroll · esc close"

    def __init__(self, panel: str) -> None:
        super().__init__("Keys")
        self._panel = panel

    def body(self) -> Iterable[Widget]:
        yield Input(placeholder=self.spelled("filter by words, such as pin or round"), compact=True)
        yield VerticalScroll(Keys(lambda _: Content("")))

    def narrow(self) -> None:
        self.query_one(Keys).tell(partial(listing, self._panel, glyphs_of(self), self.words))


@lru_cache(4)  # each layout asks twice, with and without a scroll bar
def listing(panel: str, glyphs: Glyphs, words: str, width: int) -> Content:
    """The groups of keys that fit the words, in `width` cells, for this panel."""
    lines: list[Content] = []
    for group, keys in _groups(panel):
        found = [key for key in keys if fits(key.found_by, words)]
        if found:
            lines += [Content("")] * bool(lines) + [Content.styled(group, "bold")]
        for key in found:
            elsewhere = key.where and not key.works_in(panel)
            places = f" ({', '.join(PLACES[each] for each in key.where)})" if elsewhere else ""
            about = spelled(key.about + places, glyphs)
            lines += _entry(key.print, about, width, "dim" if elsewhere else "")
    return Content("\n").join(lines or [Content("No key fits these words.")])


def _groups(panel: str) -> Iterator[tuple[str, Sequence[Key]]]:
    """The keys that work in this panel alone or in few others come first."""
    own = [key for keys in GROUPS.values() for key in keys if panel in key.where]
    if own:
        yield f"In {PLACES[panel]}", own
    for group, keys in GROUPS.items():
        if others := [key for key in keys if key not in own]:
            yield group, others


def _entry(name: str, about: str, width: int, style: str) -> list[Content]:
    return [
        Content.assemble((f"  {'' if place else name:<{WIDEST}}", "bold"), (text, style))
        for place, text in enumerate(wrapped(about, width - WIDEST - 2))
    ]
