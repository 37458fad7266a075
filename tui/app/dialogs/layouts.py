"""Layouts: the panel, its charts and parts, the order, and the pins, saved under a name among the preferences."""

from collections.abc import Mapping, Sequence
from typing import Any

from htfl_sim.errors import ConfigError
from tui.app.dialogs.form import Field, Form, Known
from tui.app.host import Host
from tui.app.keys import PANEL_TITLES
from tui.app.panels import client_rows
from tui.app.panels.base import Part
from tui.app.view import Panel

LOAD, SAVE, DELETE = "load", "save", "delete"
DO: tuple[Known, ...] = (
    (LOAD, "show the panels as they were saved"),
    (SAVE, "save the panels as they are now"),
    (DELETE, "forget the layout"),
)
NAME_LETTERS = 40
Layout = Mapping[str, Any]


class LayoutDialog(Form[tuple[str, str]]):
    """Returns what to do, one of DO, and the name of a layout."""

    def __init__(self, saved: Mapping[str, Layout]) -> None:
        self._saved = saved
        super().__init__(
            "Layouts",
            [
                Field("name", "name", placeholder="a saved one, or a new name", known=self._known),
                Field(
                    "do", "do", placeholder="load a saved one, save a new one", known=lambda: DO, only=True
                ),
            ],
        )

    def _known(self) -> Sequence[Known]:
        return known(self._saved)

    def remark(self, values: dict[str, str]) -> str:
        """What enter does."""
        name, do = values["name"], self._do(values)
        if not name:
            return ""
        kept = " in place of the saved one" if do == SAVE and name in self._saved else ""
        return f"Enter does this: {do} {name}{kept}."

    def accept(self, values: dict[str, str]) -> tuple[str, str]:
        return check(self._saved, self._do(values), values["name"])

    def _do(self, values: dict[str, str]) -> str:
        return values["do"] or (LOAD if values["name"] in self._saved else SAVE)


def check(saved: Mapping[str, Layout], do: str, name: str) -> tuple[str, str]:
    """What to do and with which layout, if both are possible. Raises ConfigError."""
    if do not in dict(DO):
        raise ConfigError(f"'{do}' is nothing to do with a layout. Choose load, save, or delete.")
    if not name or not name.isprintable() or len(name) > NAME_LETTERS or " " in name:
        raise ConfigError(f"'{name}' is no name of a layout. Use a word of up to {NAME_LETTERS} letters.")
    if do != SAVE and name not in saved:
        hint = f"Choose one of {', '.join(sorted(saved))}." if saved else "Save one first."
        raise ConfigError(f"No layout is named '{name}'. {hint}")
    return do, name


def carry_out(host: Host, do: str, name: str) -> None:
    """Load, save, or delete a layout. It was checked."""
    if do == LOAD:
        load(host, host.layouts[name])
    elif do == SAVE:
        host.layouts[name] = dict(present(host))
        host.keep_preferences()
        host.say(f"Saved the layout {name}.")
    else:
        del host.layouts[name]
        host.keep_preferences()
        host.say(f"Deleted the layout {name}.")


def present(host: Host) -> Layout:
    """What is shown now, as JSON."""
    view, parts = host.view, list(host.panel.query(Part))
    return {
        "panel": host.panel.id,
        "chart": view.mode,
        "sort": list(view.sort),
        "pins": sorted(view.pinned),
        "alone": next((place for place, each in enumerate(parts) if each is host.screen.maximized), None),
        "choices": {panel.id: panel.choices() for panel in host.panels if panel.CHOICES},
    }


def load(host: Host, layout: Layout) -> None:
    """Show it. What it has that does not exist in the session shown stays as it is."""
    panel, choices, pins, sort = (layout.get(key) for key in ("panel", "choices", "pins", "sort"))
    for each in host.panels:
        if isinstance(choices, dict) and isinstance(kept := choices.get(each.id), dict):
            each.choose(kept)
    if isinstance(panel, str) and panel in PANEL_TITLES:
        host.show_panel(panel)
    view = host.view
    if isinstance(sort, list) and len(sort) == 2:
        host.change(sort=client_rows.known((sort[0], sort[1])))
    if layout.get("chart") in view.charts:
        host.change(chart=view.charts.index(layout["chart"]))
    if isinstance(pins, list) and view.run.document:
        host.pin(each for each in pins if type(each) is int and 0 <= each < len(view.run.models))
    host.panel.call_after_refresh(_show_alone, host, host.panel, layout.get("alone"))


def _show_alone(host: Host, panel: Panel, place: object) -> None:
    """Give a part of the panel the whole screen, once the panel is laid out, if it is still shown."""
    parts = list(panel.query(Part))
    if host.panel is panel and type(place) is int and 0 <= place < len(parts):
        panel.screen.maximize(parts[place], container=False)


def known(saved: Mapping[str, Layout]) -> list[Known]:
    """The saved layouts, each with its panel, chart, and pins."""
    return [(name, _about(layout)) for name, layout in sorted(saved.items())]


def _about(layout: Layout) -> str:
    pins = layout.get("pins")
    pinned = f"{len(pins)} pinned" if isinstance(pins, list) and pins else ""
    panel = PANEL_TITLES.get(str(layout.get("panel")), "")
    return ", ".join(filter(None, (panel, str(layout.get("chart", "")), pinned)))
