"""All keys, from the one table of them."""

from collections.abc import Iterable

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.app.dialogs.base import Dialog
from tui.app.keys import GROUPS, PANEL_TITLES
from tui.common.formatting import wrapped

WIDEST = 12


class Help(Dialog[None]):
    """The keys by group; those that do not work in the present panel say where they do."""

    hint = "up, down, page up, page down: scroll   escape: leave"

    def __init__(self, panel: str) -> None:
        super().__init__("Keys")
        self._panel = panel

    def body(self) -> Iterable[Widget]:
        yield VerticalScroll(Static())

    def on_mount(self) -> None:
        super().on_mount()
        self.set_focus(self.query_one(VerticalScroll))

    def on_resize(self) -> None:
        self.call_after_refresh(self._write)  # once it has its new width

    def _write(self) -> None:
        scroll = self.query_one(VerticalScroll)
        scroll.query_one(Static).update(
            self._text(scroll.size.width - WIDEST - 3)
        )  # and one for the scrollbar

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
