"""What explains results: why the selected client does as it does, and what each switch and fork changed."""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from simulator.results.analysis.classes import Confusion
from simulator.results.analysis.events import Effect, read_effects
from simulator.results.analysis.why import ClassRow, Why, why
from tui.app.background import Background
from tui.app.charts.look import HEAT_LEVELS, Glyphs, Look, text_on
from tui.app.dialogs.base import Dialog
from tui.app.dialogs.help import Keys
from tui.app.host import Host
from tui.app.messages import ClientSelected, ConfusionWanted
from tui.app.view import View, client_of
from tui.app.widgets.surface import glyphs_of, look_of
from tui.common import effects
from tui.common.cells import head, padded
from tui.common.confusion import Cell, Line, grid, notes, summary
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
        self._page.show(matrix_in(view, view.selected, self._kept) if matrix else found_in(view))

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


class Page(Keys):
    """Findings, in as many lines as the width needs."""

    def __init__(self) -> None:
        super().__init__(self._content)
        self._found: Why | Confusion | str = ""

    def show(self, found: Why | Confusion | str) -> None:
        """Show findings, a matrix, or a sentence in their place."""
        self._found = found
        self.tell(self._content)

    def _content(self, width: int) -> Content:
        found, glyphs = self._found, glyphs_of(self)
        if isinstance(found, str):
            return Content("\n".join(wrapped(spelled(found, glyphs), width)))
        if isinstance(found, Confusion):
            return Content("\n").join(matrix_lines(found, width, glyphs, look_of(self)))
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


def matrix_lines(found: Confusion, width: int, glyphs: Glyphs, look: Look) -> Iterator[Content]:
    """The matrix line by line. Colors repeat what the counts say: a count's share of its row."""
    yield from (Content(spelled(line, glyphs)) for line in wrapped(summary(found), width))
    yield Content("")
    empty = "." if glyphs == "ascii" else "·"
    yield from (_matrix_line(line, glyphs, look) for line in grid(found, width, empty))
    for note in notes(found):
        yield Content("")
        yield from (Content(spelled(line, glyphs)) for line in wrapped(note, width))


def matrix_in(view: View, client: int, round: int | None) -> Confusion | str:
    """The matrix of a client after a kept round, or a sentence in its place."""
    if round is None:
        kept = ", ".join(str(each) for each in view.run.checkpoints if each) or "none"
        return (
            f"The checkpoint of round {view.shown} is gone, and the matrix is computed from it. Kept rounds: {kept}. "
            "Press [ or ] to move to one, or m for the page."
        )
    found = view.confusions.found.get((client_of(view.run, client), round))
    return (
        f"The confusion matrix of client {client}, round {round}, is being computed…"
        if found is None
        else found
    )


def _matrix_line(line: Line, glyphs: Glyphs, look: Look) -> Content:
    return Content.assemble(
        *(
            (each.text, _cell_style(each, look)) if isinstance(each, Cell) else spelled(each, glyphs)
            for each in line
        )
    )


def _cell_style(cell: Cell, look: Look) -> str:
    weight = "bold" if cell.correct else ""
    if not cell.share:
        return weight or "dim"
    if not look.coloured:
        return weight
    ground = int(look.heat[min(int(cell.share * HEAT_LEVELS), HEAT_LEVELS - 1)])
    return f"{weight} #{text_on(ground):06x} on #{ground:06x}".strip()


class EffectDialog(Dialog[None]):
    """A block for each switch and fork, the newest first: a table of the rounds around it, and what it cannot show."""

    DEFAULT_CSS = """
    EffectDialog VerticalScroll { scrollbar-gutter: stable; }
    """
    hint = "↑↓ page up, page down scroll · esc close"

    def __init__(self, name: str, found: Sequence[Effect]) -> None:
        super().__init__(f"Before and after: {name}")
        self._found = found

    def body(self) -> Iterable[Widget]:
        yield VerticalScroll(Keys(self._text))

    def on_mount(self) -> None:
        self.set_focus(self.query_one(VerticalScroll))

    def _text(self, width: int) -> Content:
        """The blocks in `width` cells."""
        if not self._found:
            return Content("\n".join(wrapped(self.spelled(effects.NOTHING), width)))
        blocks = [Content("\n").join(self._block(effect, width)) for effect in self._found]
        return Content("\n\n").join(blocks)

    def _block(self, effect: Effect, width: int) -> Iterable[Content]:
        for line in wrapped(self.spelled(effects.title(effect)), width):
            yield Content.styled(line, "bold")
        for line in effects.lines(effect, width):
            yield Content(self.spelled(line))
        for note in effects.notes(effect):
            for line in wrapped(self.spelled(note), width):
                yield Content.styled(line, "dim")


def show_effects(host: Host, background: Background) -> None:
    """Show the effects of the session shown, once its parent has been read."""
    run = host.view.run
    if not run.document:
        why = f"{run.name} is not open yet." if run.name else "No session is open. Press a to open one."
        host.say(why, holds=lambda: host.view.run.name == run.name and not host.view.run.document)
        return

    def read(found: Sequence[Effect]) -> None:
        if host.is_at(run.folder):
            host.ask(EffectDialog(run.name, found), lambda _: None)

    background.run("effect", "", lambda: read_effects(run), read)
