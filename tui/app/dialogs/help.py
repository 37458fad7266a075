"""All keys, from the one table of them."""

from collections.abc import Callable, Iterable
from functools import lru_cache

from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from tui.app.dialogs.base import Dialog
from tui.app.keys import GROUPS, PANEL_TITLES
from tui.common.formatting import wrapped

WIDEST = 12


class Keys(Widget):
    """A text that depends on its width."""

    DEFAULT_CSS = "Keys { width: 1fr; height: auto; }"

    def __init__(self, text: Callable[[int], Content]) -> None:
        super().__init__()
        self._made = lru_cache(1)(text)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._made(width).plain.count("\n") + 1

    def render(self) -> Content:
        return self._made(self.content_size.width)


class Help(Dialog[None]):
    """The keys by group. Those without an effect in the present panel name their panels."""

    DEFAULT_CSS = """
    Help VerticalScroll { scrollbar-gutter: stable; }  /* or it would be laid out twice */
    """
    hint = "↑↓ page up, page down scroll · esc close"

    def __init__(self, panel: str) -> None:
        super().__init__("Keys")
        self._panel = panel

    def body(self) -> Iterable[Widget]:
        yield VerticalScroll(Keys(self._text))

    def on_mount(self) -> None:
        self.set_focus(self.query_one(VerticalScroll))

    def _text(self, width: int) -> Content:
        """The groups of keys, in `width` cells."""
        lines: list[Content] = []
        for group, keys in GROUPS.items():
            lines += [Content("")] * bool(lines) + [Content.styled(group, "bold")]
            for key in keys:
                places = f" ({', '.join(PANEL_TITLES[each] for each in key.where)})" if key.where else ""
                style = "" if key.works_in(self._panel) else "dim"
                for place, text in enumerate(wrapped(self.spelled(key.about + places), width - WIDEST - 2)):
                    name = "" if place else key.print
                    lines.append(Content.assemble((f"  {name:<{WIDEST}}", "bold"), (text, style)))
        return Content("\n").join(lines)
