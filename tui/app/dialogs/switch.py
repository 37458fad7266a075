"""Which method goes on from the next round, and with what hyper-parameters."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from tui.app.compatibility import MethodChoice
from tui.app.dialogs.base import Dialog
from tui.app.dialogs.form import assignments
from tui.common.errors import explain


@dataclass(frozen=True)
class SwitchWish:
    """A switch command's arguments; None: the method stays, and only settings change."""

    method: str | None
    settings: tuple[str, ...]


class SwitchDialog(Dialog[SwitchWish]):
    """Gives back a SwitchWish that the configuration accepts. Methods the models cannot run are grey and say why."""

    hint = "up, down: method   tab: its settings   enter: switch   escape: leave"

    def __init__(self, config: Mapping[str, Any], choices: Sequence[MethodChoice], when: str) -> None:
        super().__init__("Switch the method or its settings")
        self._config = config
        self._choices = {choice.name: choice for choice in choices}
        self._present = str(config["method"]["name"])
        self._when = when
        self._working = False

    def body(self) -> Iterable[Widget]:
        yield Static(self.spelled(self._when), classes="text", markup=False)
        yield OptionList(*map(self._option, self._choices.values()), id="methods", compact=True)
        yield Static("", id="needs", markup=False)
        yield VerticalScroll(id="parameters", can_focus=False)
        with Horizontal(classes="field"):
            yield Label("other settings  ", markup=False)
            yield Input(id="other", placeholder="key=value, such as training.lr=0.005", compact=True)

    def on_mount(self) -> None:
        methods = self.query_one("#methods", OptionList)
        if self._present in self._choices:
            methods.highlighted = list(self._choices).index(self._present)
        methods.focus()

    async def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Lay out the method's hyper-parameters: those in force for the present one, else its defaults."""
        choice = self._choices[str(event.option_id)]
        self.complain("")
        self.query_one("#needs", Static).update(self.spelled(f"needs {choice.needs}"))
        rows = self.query_one("#parameters", VerticalScroll)
        await rows.remove_children()
        await rows.mount_all(
            Horizontal(
                Label(parameter.key.ljust(16), markup=False),
                Input(
                    self._in_force(choice.name, parameter.key),
                    placeholder=self.spelled(f"{parameter.default}  {parameter.about}".strip()),
                    name=parameter.key,
                    compact=True,
                ),
                classes="field",
            )
            for parameter in choice.parameters
        )

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self._submit()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._submit()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.complain("")

    def _option(self, choice: MethodChoice) -> Option:
        now = "  (now)" if choice.name == self._present else ""
        line = Content.assemble((choice.name.ljust(16), "bold"), self.spelled(choice.title), (now, "bold"))
        if choice.obstacle:
            line = Content.assemble(
                choice.name.ljust(16),
                self.spelled(choice.title),
                "\n  cannot: ",
                self.spelled(choice.obstacle),
            )
        return Option(line, id=choice.name, disabled=choice.obstacle is not None)

    def _in_force(self, method: str, key: str) -> str:
        value = self._config["method"].get(key) if method == self._present else None
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    def _submit(self) -> None:
        methods = self.query_one("#methods", OptionList)
        if self._working or methods.highlighted is None:
            return
        method = str(methods.get_option_at_index(methods.highlighted).id)
        entries = self.query("#parameters Input").results(Input)
        given = {str(entry.name): entry.value.strip() for entry in entries}
        changed = {key: text for key, text in given.items() if text != self._in_force(method, key)}
        self._working = True
        self.run_worker(
            partial(self._check, method, changed, self.query_one("#other", Input).value), thread=True
        )

    def _check(self, method: str, changed: dict[str, str], other: str) -> None:
        """Whether the configuration takes it; on a thread."""
        from simulator.config import Config
        from simulator.sessions.history import asked_for

        replaced = None if method == self._present else method
        try:
            settings = [f"method.{key}={text}" for key, text in changed.items() if text] + assignments(other)
            asked_for(Config.read(self._config), {"method": replaced, "set": settings})
        except Exception as error:  # said in the dialog, whatever it is
            self.app.call_from_thread(self._refuse, explain(error)[0])
        else:
            self.app.call_from_thread(self.dismiss, SwitchWish(replaced, tuple(settings)))

    def _refuse(self, fault: str) -> None:
        self._working = False
        self.complain(fault)
