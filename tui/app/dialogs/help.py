"""All keys, from the one table of them."""

from collections.abc import Callable, Iterable

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.app.dialogs.base import Dialog
from tui.app.keys import GROUPS, PANEL_TITLES
from tui.common.formatting import wrapped

WIDEST = 12


class Keys(VerticalScroll):
    """A text that is made for the width there is."""

    def __init__(self, text: Callable[[int], Content]) -> None:
        super().__init__(Static())
        self._text = text

    def on_resize(self) -> None:
        beside = WIDEST + 3  # the names of keys, and the scrollbar
        self.query_one(Static).update(self._text(self.outer_size.width - beside))


class Help(Dialog[None]):
    """The keys by group; those that do not work in the present panel say where they do."""

    hint = "up, down, page up, page down: scroll   escape: leave"

    def __init__(self, panel: str) -> None:
        super().__init__("Keys")
        self._panel = panel

    def body(self) -> Iterable[Widget]:
        yield Keys(self._text)

    def on_mount(self) -> None:
        super().on_mount()
        self.set_focus(self.query_one(Keys))

    def _text(self, width: int) -> Content:
        """The groups of keys; what is said of each in `width` cells."""
        lines: list[Content] = []
        for group, keys in GROUPS.items():
            lines += [Content("")] * bool(lines) + [Content.styled(group, "bold")]
            for key in keys:
                places = f" ({', '.join(PANEL_TITLES[each] for each in key.where)})" if key.where else ""
                style = "" if key.works_in(self._panel) else "dim"
                for place, text in enumerate(wrapped(self.spelled(key.about + places), width)):
                    name = "" if place else key.print
                    lines.append(Content.assemble((f"  {name:<{WIDEST}}", "bold"), (text, style)))
        return Content("\n").join(lines)
