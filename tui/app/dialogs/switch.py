"""A dialog for the method from the next round on, and its hyper-parameters."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from htfl_sim.compatibility import MethodChoice
from htfl_sim.details import changeable_sections
from tui.app.dialogs.choose import Options
from tui.app.dialogs.form import Field, Form, assignments, setting_names
from tui.common.cells import padded

PARAMETER = "method."
"""The prefix of the method's hyper-parameters among the values."""


@dataclass(frozen=True)
class SwitchWish:
    """A switch command's arguments. None: the method stays, and only settings change."""

    method: str | None
    settings: tuple[str, ...]


class SwitchDialog(Form[SwitchWish]):
    """Returns a valid SwitchWish. Methods that the models cannot run are gray, with the reason."""

    hint = "letters or ↑↓ method · tab settings · enter switch · esc cancel"

    def __init__(self, config: Mapping[str, Any], choices: Sequence[MethodChoice], when: str) -> None:
        self._config = config
        self._choices = {choice.name: choice for choice in choices}
        self._present = str(config["method"]["name"])
        self._when = when
        other = Field(
            "other",
            "other settings",
            placeholder="key=value, such as training.lr=0.005",
            known=lambda: setting_names(changeable_sections(), self.values["method"]),
            words=True,
        )
        super().__init__("Switch the method or its settings", [other])

    def body(self) -> Iterable[Widget]:
        yield Static(self.spelled(self._when), classes="text", markup=False)
        yield Options(*map(self._option, self._choices.values()), id="methods", compact=True)
        yield Static("", id="needs", markup=False)
        yield VerticalScroll(id="parameters", can_focus=False)
        yield from super().body()

    def begin(self) -> None:
        methods = self.query_one("#methods", OptionList)
        if self._present in self._choices:
            methods.highlighted = list(self._choices).index(self._present)
        self.set_focus(methods)

    @property
    def values(self) -> dict[str, str]:
        methods = self.query_one("#methods", OptionList)
        parameters = self.query("#parameters Input").results(Input)
        return {
            **super().values,
            **{f"{PARAMETER}{entry.name}": entry.value.strip() for entry in parameters},
            "method": str(methods.highlighted_option.id) if methods.highlighted_option else self._present,
        }

    def accept(self, values: dict[str, str]) -> SwitchWish:
        from htfl_sim.configuring import check_switch

        method = values["method"]
        replaced = None if method == self._present else method
        settings = [
            f"{name}={text}"
            for name, text in values.items()
            if name.startswith(PARAMETER) and text not in ("", self._in_force(method, name))
        ] + assignments(values["other"])
        check_switch(self._config, replaced, settings)
        return SwitchWish(replaced, tuple(settings))

    async def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Fill in the method's hyper-parameters: the present values of the present method, else the defaults."""
        if event.option_list.id != "methods":
            return
        choice = self._choices[str(event.option_id)]
        self.complain("")
        self.query_one("#needs", Static).update(self.spelled(f"needs {choice.needs}"))
        rows = self.query_one("#parameters", VerticalScroll)
        await rows.remove_children()
        await rows.mount_all(
            Horizontal(
                Label(parameter.key.ljust(16), markup=False),
                Input(
                    self._in_force(choice.name, PARAMETER + parameter.key),
                    placeholder=self.spelled(f"{parameter.default}  {parameter.about}".strip()),
                    name=parameter.key,
                    compact=True,
                ),
                classes="field",
            )
            for parameter in choice.parameters
        )

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        if event.option_list.id == "methods":
            self.action_submit()

    def _option(self, choice: MethodChoice) -> Option:
        now = "  (now)" if choice.name == self._present else ""
        line = Content.assemble((padded(choice.name, 16), "bold"), self.spelled(choice.title), (now, "bold"))
        if choice.obstacle:
            line = Content.assemble(
                padded(choice.name, 16),
                self.spelled(choice.title),
                "\n  cannot: ",
                self.spelled(choice.obstacle),
            )
        return Option(line, id=choice.name, disabled=choice.obstacle is not None)

    def _in_force(self, method: str, parameter: str) -> str:
        key = parameter.removeprefix(PARAMETER)
        value = self._config["method"].get(key) if method == self._present else None
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
