"""The line for typed commands, and above it the words that complete it."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from tui.app.widgets.surface import glyphs_of
from tui.common.errors import explain
from tui.common.formatting import spelled

Known = tuple[str, str]
HISTORY = 100
"""Lines that are kept."""


class CommandLine(Vertical):
    """Appears on demand. Tab takes the next completion, shift+tab the one before, up and down show earlier lines.

    Enter carries the line out and leaves it. An error is shown in place of the completions, and the line stays.
    """

    DEFAULT_CSS = """
    CommandLine { display: none; height: auto; }
    CommandLine Static { height: 1; padding: 0 1; text-wrap: nowrap; background: $panel; }
    CommandLine.-fault Static { height: auto; max-height: 4; text-wrap: wrap; }
    CommandLine Input { height: 1; border: none; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave", show=False, priority=True),
        Binding("tab", "complete(1)", "complete", show=False, priority=True),
        Binding("shift+tab", "complete(-1)", "complete", show=False, priority=True),
        Binding("up", "recall(-1)", "earlier", show=False, priority=True),
        Binding("down", "recall(1)", "later", show=False, priority=True),
    ]

    def __init__(
        self,
        complete: Callable[[str], Sequence[Known]],
        carry_out: Callable[[str], None],
        left: Callable[[], None],
    ) -> None:
        """complete: the words in place of the last one. carry_out: may raise an error. left: sets the focus."""
        super().__init__(id="command-line")
        self._complete, self._carry_out, self._left = complete, carry_out, left
        self._known: Sequence[Known] = ()
        self._place: int | None = None
        """The completion that is taken; None: the line is as typed."""
        self._stem = ""
        """The line before its last word, as typed."""
        self._history: list[str] = []
        self._at = 0

    def compose(self) -> ComposeResult:
        yield Static(id="completions", markup=False)
        yield Input(placeholder="a command; tab completes, up recalls, esc leaves", compact=True)

    @property
    def line(self) -> Input:
        return self.query_one(Input)

    def ask(self) -> None:
        """Appear with an empty line."""
        self.display = True
        self._at = len(self._history)
        self._put("")
        self.line.focus()

    def action_leave(self) -> None:
        self.display = False
        self._left()

    def action_complete(self, step: int) -> None:
        """Put the next completion, or the one before, in place of the last word.

        If only one begins with the typed letters, it is complete: a space follows, and the next word is offered.
        """
        if not self._known:
            return
        typed = self.line.value[len(self._stem) :]
        begun = [value for value, _ in self._known if value.startswith(typed)]
        if self._place is None and typed and len(begun) == 1 and not begun[0].endswith("="):
            self._put(f"{self._stem}{begun[0]} ")
            return
        first = 0 if step > 0 else len(self._known) - 1
        self._place = first if self._place is None else (self._place + step) % len(self._known)
        self._write(self._stem + self._known[self._place][0])
        self._draw()

    def action_recall(self, step: int) -> None:
        """Show an earlier line, or a later one; after the last an empty one."""
        self._at = min(max(self._at + step, 0), len(self._history))
        self._put(self._history[self._at] if self._at < len(self._history) else "")

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._place is None or event.value != self._stem + self._known[self._place][0]:
            self._offer()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        line = event.value.strip()
        try:
            self._carry_out(line)
        except Exception as error:  # any error is shown, and the line stays
            self._show(Content.styled(self._spelled(explain(error)[0]), "bold $text-error"), fault=True)
            return
        if line and line not in self._history[-1:]:
            self._history = [*self._history, line][-HISTORY:]
        self.display = False
        self._left()

    def _put(self, line: str) -> None:
        self._write(line)
        self._offer()

    def _write(self, line: str) -> None:
        with self.prevent(Input.Changed):
            self.line.value = line
        self.line.cursor_position = len(line)

    def _offer(self) -> None:
        """Show the completions of the line as typed."""
        line = self.line.value
        self._place, self._stem = None, line[: line.rfind(" ") + 1]
        self._known = self._complete(line)
        self._draw()

    def _draw(self) -> None:
        """The completions that fit, from the taken one on, and the description of that one."""
        place = self._place or 0
        if not self._known:
            self._show(Content(""))
            return
        value, about = self._known[place]
        parts = [Content.styled(value, "reverse" if self._place is not None else "bold")]
        parts += [Content(f" {self._spelled(about)}" if about else "")]
        others = [name for name, _ in [*self._known[place + 1 :], *self._known[:place]]]
        parts += [Content.styled(f"  {name}", "dim") for name in others[:40]]
        self._show(Content("").join(parts))

    def _show(self, text: Content, fault: bool = False) -> None:
        self.set_class(fault, "-fault")
        self.query_one("#completions", Static).update(text, layout=fault)

    def _spelled(self, text: str) -> str:
        return spelled(text, glyphs_of(self))
