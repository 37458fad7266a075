"""A form of lines, with possible values listed under the focused line."""

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any, ClassVar, TypeVar

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from htfl_sim import catalog
from htfl_sim.errors import ConfigError
from tui.app.charts.look import GLYPHS
from tui.app.dialogs.base import Dialog
from tui.app.widgets.screen import glyphs_of
from tui.common.cells import apart, cell_count, padded
from tui.common.errors import explain
from tui.common.fuzzy import best

Result = TypeVar("Result")
Found = TypeVar("Found")
Known = tuple[str, str]
"""A possible value of a field, and its description."""
VALUE_CELLS = 28
"""The maximum width of the column of values. A longer value moves its own description only."""
SCROLL_BAR = 1  # cells of the bar beside a long list
NEAR = 3
"""The number of names that are suggested for an unknown one."""
SLOW_SECONDS = 0.5
"""Seconds after which the form shows that it is working."""


@dataclass(frozen=True)
class Field:
    """A line of a form.

    known: returns the values to choose from. label: "" if it is the name. only: whether no other value is valid.
    whole: a whole number. words: it has several words, and a known value completes the last one.
    """

    name: str
    value: str = ""
    placeholder: str = ""
    known: Callable[[], Sequence[Known]] = tuple
    label: str = ""
    whole: bool = False
    only: bool = False
    words: bool = False

    @property
    def title(self) -> str:
        return self.label or self.name


def form_hint(enter: str) -> str:
    return f"tab next · ↑↓ choose · enter {enter} · esc cancel"


class Form(Dialog[Result]):
    """Fields in lines. Enter passes the values to `accept`, on a thread. Its errors appear in the dialog."""

    hint = form_hint("confirm")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "choose(-1)", "choose", show=False),
        Binding("down", "choose(1)", "choose", show=False),
    ]

    def __init__(self, title: str, fields: Sequence[Field]) -> None:
        super().__init__(title)
        self._fields = {field.name: field for field in fields}
        self._typed = ""
        self._taken: str | None = None
        """The focused field's value with the known value that was chosen last."""
        self._working = False

    def accept(self, values: dict[str, str]) -> Result:
        """The form's result for these values, on a thread. Raises the project's errors for invalid ones."""
        raise NotImplementedError

    def remark(self, values: dict[str, str]) -> str:
        """The text under the fields while they are edited. Must be quick."""
        return ""

    @property
    def values(self) -> dict[str, str]:
        return {name: self.query_one(f"#field-{name}", Input).value.strip() for name in self._fields}

    @property
    def known(self) -> OptionList:
        return self.query_one("#known", OptionList)

    def body(self) -> Iterable[Widget]:
        width = max(len(field.title) for field in self._fields.values()) + 2
        with Vertical(classes="fields"):
            for field in self._fields.values():
                label = Label(self.spelled(field.title), markup=False)
                label.styles.width = width
                about: Any = {"id": f"field-{field.name}", "type": "integer" if field.whole else "text"}
                about["placeholder"] = self.spelled(field.placeholder)
                entry = Input(field.value, valid_empty=True, compact=True, **about)
                yield Horizontal(label, entry, classes="field")
        yield OptionList(id="known", compact=True)
        yield Static("", id="remark", markup=False)

    def on_mount(self) -> None:
        self.known.can_focus = False
        self.begin()
        self._remark()

    def begin(self) -> None:
        self.set_focus(self.query(Input).first())

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self._typed = ""
        self._list_known()
        self.complain(self._unknown())

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self._list_known)  # in the new width

    def on_input_changed(self, event: Input.Changed) -> None:
        self.complain(self._unknown())
        self._remark()
        if event.input.has_focus and event.value != self._taken:
            self._typed = event.value[len(self._stem(event.value)) :]
            self._list_known()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.action_submit()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self._take(event.option_id or "")

    def action_choose(self, step: int) -> None:
        known = self.known
        if not known.display or not known.option_count:
            return
        place = -1 if known.highlighted is None and step > 0 else known.highlighted or 0
        known.highlighted = (place + step) % known.option_count
        self._take(known.get_option_at_index(known.highlighted).id or "")

    def action_submit(self) -> None:
        if self._working:
            return
        self._working = True
        self.complain("")
        self.set_timer(SLOW_SECONDS, self._entitle)
        self.work(partial(self.accept, self.values), self.dismiss, self._refuse)

    def work(
        self, do: Callable[[], Found], then: Callable[[Found], object], refuse: Callable[[str], object]
    ) -> None:
        """Do something slow on a thread, then show what comes of it, or the sentence of an error."""

        def carry_out() -> None:
            try:
                ending = partial(then, do())
            except Exception as error:  # any error is shown in the dialog
                ending = partial(refuse, explain(error)[0])
            self.tell(ending)

        self.run_worker(carry_out, thread=True)

    def tell(self, do: Callable[[], object]) -> None:
        """Call a function from a thread, unless the dialog has been left meanwhile."""
        self.app.call_from_thread(lambda: do() if self in self.app.screen_stack else None)

    def _refuse(self, fault: str) -> None:
        self._working = False
        self._entitle()
        self.complain(fault)

    def _entitle(self) -> None:
        working = " · checking…" if self._working else ""
        self.query_one(".title", Static).update(self.spelled(self._title + working))

    def _take(self, value: str) -> None:
        if isinstance(self.focused, Input):
            self._taken = self.focused.value = self._stem(self.focused.value) + value
            self.focused.cursor_position = len(self._taken)

    def _stem(self, value: str) -> str:
        """The words of the focused field before the one that a known value completes."""
        field = self._fields.get(self._place)
        return value[: value.rfind(" ") + 1] if field and field.words else ""

    def _remark(self) -> None:
        text = self.remark(self.values)
        line = self.query_one("#remark", Static)
        line.update(self.spelled(text))
        line.display = bool(text)

    def _list_known(self) -> None:
        """The values for the focused field that fit the typed text, the best first, or else the nearest ones."""
        known, self._taken = self.known, None
        field = self._fields.get(self._place)
        offered = field.known() if field else ()
        found = best(offered, self._typed, lambda each: each[0])  # in names before descriptions
        found += best((each for each in offered if each not in found), self._typed, " ".join)
        if not found and "=" not in self._typed:  # the value of a setting
            near = nearest_of(self._typed, [value for value, _ in offered])
            found = [each for name in near for each in offered if each[0] == name]
        known.clear_options()
        width = min(max((cell_count(value) for value, _ in found), default=0), VALUE_CELLS)
        texts = [self.spelled(about) for _, about in found]
        space = known.container_size.width - SCROLL_BAR - width - 2
        shown = apart({*texts}, space, GLYPHS[glyphs_of(self)].ellipsis) if space > 0 else {}
        known.add_options(
            Option(Content.assemble((f"{padded(value, width)}  ", "bold"), shown.get(about, about)), id=value)
            for (value, _), about in zip(found, texts, strict=True)
        )
        known.display = bool(found)

    @property
    def _place(self) -> str:
        return (self.focused.id or "").removeprefix("field-") if self.focused else ""

    def _unknown(self) -> str:
        """The fault of the first field with a value that it does not have. "" while one may still become known."""
        for name, field in self._fields.items():
            value = self.query_one(f"#field-{name}", Input).value.strip()
            names = [each for each, _ in field.known()] if value and field.only else []
            begun = name == self._place and any(value.lower() in each.lower() for each in names)
            if names and value not in names and not begun:
                near = nearest_of(value, names)
                remedy = f"Did you mean {' or '.join(near)}?" if near else "Press ↓ to choose one."
                return f"{field.title}: '{value}' is not in the list. {remedy}"
        return ""


def nearest_of(typed: str, names: Sequence[str]) -> list[str]:
    return get_close_matches(typed, names, n=NEAR, cutoff=0.5) if typed else []


def number(values: dict[str, str], name: str, least: int = 1) -> int | None:
    """A whole number from a field; None if it is empty. Raises ConfigError."""
    text = values[name]
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise ConfigError(f"{name}: '{text}' is not a whole number of at least {least}.")
    return int(text)


def setting_names(sections: Sequence[str] = (), method: str | None = None) -> list[Known]:
    """The settings of a method, and those of these sections (all by default), each as "key="."""
    keys = [key for key in catalog.config_keys() if not sections or key.partition(".")[0] in sections]
    return [(f"{key}=", "") for key in (*keys, *(f"method.{key}" for key in catalog.method_keys(method)))]


def assignments(text: str) -> list[str]:
    """`key=value` words, quoted as in a shell. Raises ConfigError."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"settings: {error} in '{text}'.") from error
    for word in words:
        if "=" not in word:
            raise ConfigError(f"settings: '{word}' is not key=value. Example: training.lr=0.005.")
    return words
