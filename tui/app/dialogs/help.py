"""All keys, from the one table of them."""

from collections.abc import Iterable

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.app.dialogs.base import Dialog
from tui.app.keys import GROUPS, PANEL_TITLES

WIDEST = 12


class Help(Dialog[None]):
    """The keys by group; those that do not work in the present panel say where they do."""

    hint = "up, down, page up, page down: scroll   escape: leave"

    def __init__(self, panel: str) -> None:
        super().__init__("Keys")
        self._panel = panel

    def body(self) -> Iterable[Widget]:
        yield VerticalScroll(Static(self._text()))

    def on_mount(self) -> None:
        self.set_focus(self.query_one(VerticalScroll))

    def _text(self) -> Content:
        lines: list[Content] = []
        for group, keys in GROUPS.items():
            lines += [Content("")] * bool(lines) + [Content.styled(group, "bold")]
            for key in keys:
                places = f" ({', '.join(PANEL_TITLES[each] for each in key.where)})" if key.where else ""
                style = "" if key.works_in(self._panel) else "dim"
                lines.append(
                    Content.assemble(
                        (f"  {key.print:<{WIDEST}}", "bold"), (self.spelled(key.about + places), style)
                    )
                )
        return Content("\n").join(lines)
