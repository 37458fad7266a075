"""What each switch and fork of a session changed, the newest first."""

from collections.abc import Iterable, Sequence

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget

from simulator.results.analysis.effect import Effect, read_effects
from tui.app.background import Background
from tui.app.dialogs.base import Dialog
from tui.app.dialogs.help import Keys
from tui.app.host import Host
from tui.common import effects
from tui.common.formatting import wrapped


class EffectDialog(Dialog[None]):
    """A block for each change: a table of the rounds around it, and what it cannot show."""

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


def show(host: Host, background: Background) -> None:
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
