"""Why the selected client does as it does, on one page."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Static

from simulator.results.analysis.confusion import Confusion
from simulator.results.analysis.why import Why, why
from simulator.results.analysis.why_parts import ClassRow
from tui.app.charts.glyphs import Glyphs
from tui.app.dialogs import confusion
from tui.app.dialogs.base import Dialog
from tui.app.messages import ClientSelected, ConfusionWanted
from tui.app.view import View, client_of
from tui.app.widgets.surface import glyphs_of, scheme_of
from tui.common.cells import head, padded
from tui.common.formatting import percent, spelled, wrapped

TOPIC = 13  # cells before a sentence: the mark, and the topic
NAME, BAR = 14, 10  # cells of a class's name, and of the bar of its recall
CLASSES = 200
"""The most classes that are listed."""
BEGINNING = "No round is finished yet. The page starts after the first round."
NO_SESSION = "No session is open. Press n to start a run or a to open a session."


class WhyDialog(Dialog[None]):
    """The findings on a client at the round shown, or its confusion matrix.

    It follows the run, the round, and the client selected. A matrix stays at its round until another one is chosen.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "client(1)", "next client", show=False),
        Binding("up,k", "client(-1)", "client before", show=False),
        Binding("pagedown,space", "scroll(1)", "scroll down", show=False),
        Binding("pageup", "scroll(-1)", "scroll up", show=False),
        Binding("left_square_bracket", "app.travel(-1)", "round back", show=False),
        Binding("right_square_bracket", "app.travel(1)", "round on", show=False),
        Binding("L", "app.live", "newest round", show=False),
        Binding("m", "matrix", "confusion matrix", show=False),
        Binding("c", "app.steer('checkpoint')", "CKA", show=False),
        Binding("W", "cancel", "close", show=False),
    ]
    hint = "↑↓ client · [ ] round · m matrix · c CKA · space scroll · esc close"

    def __init__(self, view: View) -> None:
        super().__init__(title_of(view))
        self._view = view
        self._key: tuple[object, ...] | None = None
        self._page = Page()
        self._matrix: tuple[object, ...] | None = None
        """The client and the round that the matrix was requested for; None: the page has the findings."""
        self._kept: int | None = None
        """The kept round of the matrix; None: its checkpoint is gone."""

    def body(self) -> Iterable[Widget]:
        scroll = VerticalScroll(self._page)
        scroll.can_focus = False  # up and down move to other clients
        yield scroll

    def on_mount(self) -> None:
        self.follow(self._view)

    def follow(self, view: View) -> None:
        """Show another view. Computes again only if what the page is made of has changed."""
        self._view = view
        if self._matrix is not None and self._matrix != _place(view):
            self._request()
        key = self._content_key()
        if self._key is not None and all(
            mine is other or mine == other for mine, other in zip(self._key, key, strict=True)
        ):
            return
        self._key = key
        matrix = self._matrix is not None
        title = self._matrix_title() if matrix else title_of(view)
        self.query_one(".title", Static).update(self.spelled(title))
        self._page.tell(confusion.matrix_in(view, view.selected, self._kept) if matrix else found_in(view))

    def _content_key(self) -> tuple[object, ...]:
        """What the page is made of."""
        view = self._view
        if self._matrix is not None:
            client = view.selected
            return (*self._matrix, view.confusions.found.get((client_of(view.run, client), self._kept or 0)))
        paired = view.paired
        return (
            view.run.ledger, view.run.document, view.shown, view.selected, view.cka,
            paired and (paired.other.ledger, paired.partner),
        )  # fmt: skip

    def _matrix_title(self) -> str:
        where = f" · round {self._kept}" if self._kept else ""
        return f"Confusion matrix of client {self._view.selected}{where} · {self._view.run.name}"

    def action_matrix(self) -> None:
        """The confusion matrix in place of the findings, or the findings again."""
        if self._matrix is not None:
            self._matrix = None
        elif self._view.shown:
            self._request()
        self.follow(self._view)
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def _request(self) -> None:
        """Show the matrix of the selected client at the round shown, and ask for it if it is not known."""
        view = self._view
        self._matrix, self._kept = _place(view), view.kept
        if self._kept is None:
            return
        place = client_of(view.run, view.selected), self._kept
        known = isinstance(view.confusions.found.get(place), Confusion)
        if not known and view.confusions.under_way != place:
            self.post_message(ConfusionWanted(view.selected, self._kept))

    def action_client(self, step: int) -> None:
        """The client after this one, the worst first."""
        order, now = by_accuracy(self._view), self._view.selected
        if now in order:
            place = min(max(order.index(now) + step, 0), len(order) - 1)
            self.post_message(ClientSelected(order[place]))

    def action_scroll(self, step: int) -> None:
        scroll = self.query_one(VerticalScroll)
        (scroll.scroll_page_down if step > 0 else scroll.scroll_page_up)(animate=False)


class Page(Widget):
    """Findings, in as many lines as the width needs."""

    DEFAULT_CSS = "Page { width: 1fr; height: auto; }"

    def __init__(self) -> None:
        super().__init__()
        self._found: Why | Confusion | str = ""
        self._made = lru_cache(1)(self._content)

    def tell(self, found: Why | Confusion | str) -> None:
        """Show findings, a matrix, or a sentence in their place."""
        self._found = found
        self._made.cache_clear()
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._made(width).plain.count("\n") + 1

    def render(self) -> Content:
        return self._made(self.content_size.width)

    def _content(self, width: int) -> Content:
        found, glyphs = self._found, glyphs_of(self)
        if isinstance(found, str):
            return Content("\n".join(wrapped(spelled(found, glyphs), width)))
        if isinstance(found, Confusion):
            return Content("\n").join(confusion.lines(found, width, glyphs, scheme_of(self)))
        return Content("\n").join(lines(found, width, glyphs))


def lines(found: Why, width: int, glyphs: Glyphs) -> Iterator[Content]:
    """The page, line by line."""
    first, *rest = found.findings
    yield from (Content.styled(spelled(line, glyphs), "bold") for line in wrapped(first.text, width))
    yield Content("")
    for each in rest:
        mark = Content.styled("! ", "bold $text-warning") if each.bad else Content("  ")
        for place, line in enumerate(wrapped(each.text, width - TOPIC)):
            before = (
                mark + Content.styled(f"{each.topic:<{TOPIC - 2}}", "dim")
                if not place
                else Content(" " * TOPIC)
            )
            yield before + Content.styled(spelled(line, glyphs), "bold" if each.bad else "")
    if found.classes:
        yield Content("")
        yield Content.styled("Classes of the test part, by recall", "bold")
        yield from (Content(_class_line(row, width, glyphs)) for row in found.classes[:CLASSES])
        if len(found.classes) > CLASSES:
            yield Content.styled(f"{len(found.classes) - CLASSES} more", "dim")
    if found.missing:
        yield Content("")
        for sentence in found.missing:
            yield from (Content.styled(spelled(line, glyphs), "dim") for line in wrapped(sentence, width))


def _class_line(row: ClassRow, width: int, glyphs: Glyphs) -> str:
    """A class with the bar of its recall, and as many other numbers as fit."""
    full, empty = ("#", ".") if glyphs == "ascii" else ("━", "┈")
    share = row.recall
    filled = 0 if share is None else round(BAR * share)
    bar = " " * BAR if share is None else full * filled + empty * (BAR - filled)
    name = row.name if len(row.name) <= NAME else head(row.name, NAME)
    said = "no test samples" if share is None else f"{percent(share):>7} ({row.correct} of {row.samples})"
    line = f"{padded(spelled(name, glyphs), NAME)} {bar} {said:<22}"
    extras = [f"answered {row.answered}"]
    if row.before is not None and row.before != row.correct:
        extras.append(f"before {row.before}")
    if row.train is not None:
        extras.append(f"train {row.train}")
    for extra in extras:
        if len(line) + len(extra) + 2 <= width:
            line += f"  {extra}"
    return line[:width].rstrip()


def found_in(view: View) -> Why | str:
    """The findings at the round shown, or a sentence in their place."""
    if not view.run.document:
        return view.run.error or NO_SESSION
    if not view.shown:
        return BEGINNING
    paired = view.paired
    return why(
        view.run,
        view.selected,
        view.shown,
        cka=view.cka,
        baseline=None if paired is None else paired.other,
        shared=0 if paired is None else paired.partner.shared,
    )


def _place(view: View) -> tuple[object, ...]:
    """What a matrix is chosen by: the session, the client, and the round; a live run may go on."""
    return view.run.folder, view.selected, view.round


def by_accuracy(view: View) -> Sequence[int]:
    """The clients at the round shown, the worst first. Those without an accuracy are last."""
    if not view.shown:
        return []
    found: list[int] = np.argsort(view.curves.accuracy.after(view.shown), kind="stable").tolist()
    return found


def title_of(view: View) -> str:
    """The title of the page."""
    where = f" · round {view.shown}" if view.shown else ""
    replay = " (replay)" if view.replaying else ""
    return f"Why client {view.selected}{where}{replay} · {view.run.name}"
