"""Pages to read: all keys, all settings, why a client does as it does, and what each switch and fork changed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from htfl_sim.configuring import Choices
from htfl_sim.errors import HtflError
from simulator.results.analysis import feed
from simulator.results.analysis.classes import Confusion
from simulator.results.analysis.comparison import Setting, described
from simulator.results.analysis.events import Effect, read_effects
from simulator.results.analysis.why import ClassRow, Why, why
from simulator.sessions.reader import parent_folder
from tui.app.charts.look import HEAT_LEVELS, Glyphs, Look, text_on
from tui.app.dialogs.base import Dialog, Reflowed, Searched, Text
from tui.app.host import NO_SESSION, Host
from tui.app.keys import GROUPS, PLACES, Key
from tui.app.view import ClientSelected, View, Wanted, client_of, in_force
from tui.app.widgets.screen import glyphs_of, look_of
from tui.common import findings
from tui.common.cells import head, padded
from tui.common.formatting import NONE, percent, spelled, wrapped
from tui.common.fuzzy import fits

WIDEST = 12  # cells of the names of keys


class Help(Searched):
    hint = "type to filter · ↑↓ page up, page down scroll · esc close"
    example = "pin or round"

    def __init__(self, panel: str) -> None:
        super().__init__("Keys")
        self._panel = panel

    def text(self, words: str, width: int) -> Content:
        return listing(self._panel, glyphs_of(self), words, width)


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


Reference = tuple[str, Mapping[str, Any]]  # a session or preset to compare with, and its settings
NAME_CELLS = 28


class Describe(Searched):
    """Lists settings. Typed words filter them, tab compares with the next reference."""

    DEFAULT_CSS = "Describe #compared { text-style: bold; width: 100%; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "compare(1)", "compare", show=False, priority=True),
        Binding("shift+tab", "compare(-1)", "compare", show=False, priority=True),
    ]
    hint = "type to filter · tab compare with another · ↑↓ scroll · esc close"
    example = "lr or differs"

    def __init__(self, title: str, config: Mapping[str, Any], references: Sequence[Reference]) -> None:
        """references: the sessions or presets to compare with. Without any, nothing differs."""
        super().__init__(title)
        self._references, self._place = references, 0
        self._described = [described(config, other) for _, other in references] or [described(config)]

    def body(self) -> Iterable[Widget]:
        words, scroll = super().body()
        yield words
        yield Static("", id="compared", markup=False)
        yield scroll

    def action_compare(self, step: int) -> None:
        self._place = (self._place + step) % len(self._described)
        self.narrow()

    def narrow(self) -> None:
        super().narrow()
        compared = "Nothing to compare with: no parent, no preset, and no marked session."
        if self._references:
            every, (other, _) = self._described[self._place], self._references[self._place]
            number = len(self._references)
            which = f" ({self._place + 1} of {number})" if number > 1 else ""
            differ = sum(each.differs for each in every)
            compared = f"{differ} of {len(every)} settings differ from {other}{which}."
        self.query_one("#compared", Static).update(self.spelled(compared))

    def text(self, words: str, width: int) -> Content:
        found = []
        for each in self._described[self._place]:
            if fits(f"{each.name} {_said(each.value)}{' differs' * each.differs}", words):
                found.append(each)
        lines = [Content("\n").join(self._line(each).wrap(width)) for each in found]
        return Content("\n").join(lines or [Content("No setting fits these words.")])

    def _line(self, setting: Setting) -> Content:
        """The second cue of a difference, beside its color, is a mark in front."""
        name = padded(self.spelled(setting.name), NAME_CELLS)
        value, other = (self.spelled(_said(each)) for each in (setting.value, setting.other))
        if not setting.differs:
            return Content(f"  {name} {value}")
        mark = "!" if glyphs_of(self) == "ascii" else "≠"
        begins = f"{mark} {name} ", "bold $text-warning"
        return Content.assemble(begins, (value, "bold"), f"  there: {other}")


def _said(value: object) -> str:
    if value is None:
        return NONE
    return str(value).lower() if isinstance(value, bool) else str(value)


def show_settings(host: Host) -> None:
    view = host.view
    if not view.run.document:
        host.say_unread()
        return
    name, folder = view.run.name, view.run.folder
    title = f"Settings of {name} in round {view.shown}" if view.shown else f"Settings of {name}"

    def read(found: list[Reference]) -> None:
        if host.is_at(folder):
            host.ask(Describe(title, in_force(view.run, view.shown), found), lambda _: None)

    host.background.run("describe", "reading settings…", lambda: list(references(view)), read)


def references(view: View) -> Iterator[Reference]:
    """The parent at the round of the fork, the preset, and the marked sessions, as far as they can be read."""
    run = view.run
    if parent := run.document.get("parent"):
        with suppress(HtflError, OSError):
            if (folder := parent_folder(parent, view.library)) is not None:
                found = feed.read(folder)
                yield f"its parent {found.name}", in_force(found, int(parent["round"]))
    if preset := run.config.get("preset"):
        with suppress(HtflError):
            yield f"the preset {preset}", Choices(preset=str(preset)).read().to_json()
    for other in view.compared:
        if other.folder != run.folder and other.config:
            yield other.name, other.config


TOPIC = 13  # cells before a sentence: the mark, and the topic
NAME, BAR = 14, 10  # cells of a class's name, and of the bar of its recall
CLASSES = 200
"""The most classes that are listed."""
BEGINNING = "No round is finished yet. The page starts after the first round."


class WhyDialog(Dialog[None]):
    """Findings on the client selected at the round shown, or its confusion matrix, which stays at its round."""

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
        self._page = Reflowed(self._content)
        self.found: Why | Confusion | str = ""
        """Findings, a matrix, or a sentence in their place."""
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
        title = title_of(view)
        if matrix:
            where = f" · round {self._kept}" if self._kept else ""
            title = f"Confusion matrix of client {view.selected}{where} · {view.run.name}"
        self.query_one(".title", Static).update(self.spelled(title))
        self.found = matrix_in(view, view.selected, self._kept) if matrix else found_in(view)
        self._page.tell(self._content)

    def _content(self, width: int) -> Content:
        match self.found, glyphs_of(self):
            case str() as found, glyphs:
                made = paragraph(found, width, glyphs)
            case Confusion() as found, glyphs:
                made = matrix_lines(found, width, glyphs, look_of(self))
            case found, glyphs:
                made = lines(found, width, glyphs)
        return Content("\n").join(made)

    def _content_key(self) -> tuple[object, ...]:
        view, run, paired = self._view, self._view.run, self._view.paired
        if self._matrix is not None:
            return (
                *self._matrix,
                view.confusions.found.get((client_of(run, view.selected), self._kept or 0)),
            )
        of_pair = paired and (paired.other.ledger, paired.partner)
        return run.ledger, run.document, view.shown, view.selected, view.cka, of_pair

    def action_matrix(self) -> None:
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
            self.post_message(Wanted("confusions", self._kept, view.selected))

    def action_client(self, step: int) -> None:
        order, now = by_accuracy(self._view), self._view.selected
        if now in order:
            place = min(max(order.index(now) + step, 0), len(order) - 1)
            self.post_message(ClientSelected(order[place]))

    def action_scroll(self, step: int) -> None:
        scroll = self.query_one(VerticalScroll)
        (scroll.scroll_page_down if step > 0 else scroll.scroll_page_up)(animate=False)


def paragraph(text: str, width: int, glyphs: Glyphs, style: str = "") -> Iterator[Content]:
    return (Content.styled(line, style) for line in wrapped(spelled(text, glyphs), width))


def lines(found: Why, width: int, glyphs: Glyphs) -> Iterator[Content]:
    first, *rest = found.findings
    yield from paragraph(first.text, width, glyphs, "bold")
    yield Content("")
    for each in rest:
        mark = Content.styled("! ", "bold $text-warning") if each.bad else Content("  ")
        before = mark + Content.styled(f"{each.topic:<{TOPIC - 2}}", "dim")
        for line in paragraph(each.text, width - TOPIC, glyphs, "bold" if each.bad else ""):
            yield before + line
            before = Content(" " * TOPIC)
    if found.classes:
        yield Content("")
        yield Content.styled("Classes of the test part, by recall", "bold")
        yield from (Content(_class_line(row, width, glyphs)) for row in found.classes[:CLASSES])
        if len(found.classes) > CLASSES:
            yield Content.styled(f"{len(found.classes) - CLASSES} more", "dim")
    if found.missing:
        yield Content("")
        for sentence in found.missing:
            yield from paragraph(sentence, width, glyphs, "dim")


def _class_line(row: ClassRow, width: int, glyphs: Glyphs) -> str:
    """A class with the bar of its recall, and as many other numbers as fit."""
    full, empty = ("#", ".") if glyphs == "ascii" else ("━", "┈")
    share = row.recall
    filled = 0 if share is None else round(BAR * share)
    bar = " " * BAR if share is None else full * filled + empty * (BAR - filled)
    name = row.name if len(row.name) <= NAME else head(row.name, NAME)
    said = "no test samples" if share is None else f"{percent(share):>7} ({row.correct} of {row.samples})"
    line = f"{padded(spelled(name, glyphs), NAME)} {bar} {said:<22}"
    before = f"before {row.before}" if row.before not in (None, row.correct) else ""
    for extra in (f"answered {row.answered}", before, "" if row.train is None else f"train {row.train}"):
        if extra and len(line) + len(extra) + 2 <= width:
            line += f"  {extra}"
    return line[:width].rstrip()


def found_in(view: View) -> Why | str:
    """The findings at the round shown, or a sentence in their place."""
    if not view.run.document:
        return view.run.error or NO_SESSION
    if not view.shown:
        return BEGINNING
    baseline, shared = (pair.other, pair.partner.shared) if (pair := view.paired) else (None, 0)
    return why(view.run, view.selected, view.shown, cka=view.cka, baseline=baseline, shared=shared)


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
    where = f" · round {view.shown}" if view.shown else ""
    replay = " (replay)" if view.replaying else ""
    return f"Why client {view.selected}{where}{replay} · {view.run.name}"


def matrix_lines(found: Confusion, width: int, glyphs: Glyphs, look: Look) -> Iterator[Content]:
    """The matrix line by line. Colors repeat what the counts say: a count's share of its row."""
    yield from paragraph(findings.confusion_summary(found), width, glyphs)
    yield Content("")
    for line in findings.confusion_grid(found, width, "." if glyphs == "ascii" else "·"):
        parts = [
            spelled(each, glyphs) if isinstance(each, str) else (each.text, _cell_style(each, look))
            for each in line
        ]
        yield Content.assemble(*parts)
    for note in findings.confusion_notes(found):
        yield Content("")
        yield from paragraph(note, width, glyphs)


def matrix_in(view: View, client: int, round: int | None) -> Confusion | str:
    """The matrix of a client after a kept round, or a sentence in its place."""
    if round is None:
        kept = ", ".join(str(each) for each in view.run.checkpoints if each) or "none"
        return (
            f"The checkpoint of round {view.shown} is gone, and the matrix is computed from it. Kept rounds: {kept}. "
            "Press [ or ] to move to one, or m for the page."
        )
    found = view.confusions.found.get((client_of(view.run, client), round))
    if found is None:
        return f"The confusion matrix of client {client}, round {round}, is being computed…"
    return found


def _cell_style(cell: findings.Cell, look: Look) -> str:
    weight = "bold" if cell.correct else ""
    if not cell.share:
        return weight or "dim"
    if not look.coloured:
        return weight
    ground = int(look.heat[min(int(cell.share * HEAT_LEVELS), HEAT_LEVELS - 1)])
    return f"{weight} #{text_on(ground):06x} on #{ground:06x}".strip()


class EffectDialog(Text):
    """A block for each switch and fork, the newest first: a table of the rounds around it, and what it cannot show."""

    DEFAULT_CSS = "EffectDialog VerticalScroll { scrollbar-gutter: stable; }"
    hint = "↑↓ page up, page down scroll · esc close"

    def __init__(self, name: str, found: Sequence[Effect]) -> None:
        super().__init__(f"Before and after: {name}", self._blocks)
        self._found = found

    def _blocks(self, width: int) -> Content:
        if not self._found:
            return Content("\n").join(paragraph(findings.NO_EFFECT, width, glyphs_of(self)))
        blocks = [Content("\n").join(self._block(effect, width)) for effect in self._found]
        return Content("\n\n").join(blocks)

    def _block(self, effect: Effect, width: int) -> Iterable[Content]:
        glyphs = glyphs_of(self)
        yield from paragraph(findings.effect_title(effect), width, glyphs, "bold")
        yield from (Content(self.spelled(line)) for line in findings.effect_lines(effect, width))
        for note in findings.effect_notes(effect):
            yield from paragraph(note, width, glyphs, "dim")


def show_effects(host: Host) -> None:
    run = host.view.run
    if not run.document:
        host.say_unread()
        return

    def read(found: Sequence[Effect]) -> None:
        if host.is_at(run.folder):
            host.ask(EffectDialog(run.name, found), lambda _: None)

    host.background.run("effect", "", lambda: read_effects(run), read)
