"""Typed commands: the one table of them, from which completion, help, and errors are made."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from htfl_sim import catalog
from htfl_sim.analysis import static_names
from htfl_sim.compatibility import MethodChoice
from htfl_sim.errors import ConfigError
from htfl_sim.folders import checked_note, own_session, session_folder, session_names
from htfl_sim.sessions import check_renamable, state
from tui.app.background import Background
from tui.app.compatibility import MethodChoices
from tui.app.dialogs import layouts, upkeep
from tui.app.host import Host
from tui.app.keys import PANEL_TITLES, PANELS_SHOW
from tui.app.navigation import Navigation
from tui.app.panels import client_rows
from tui.app.remote_control import RemoteControl
from tui.common.fuzzy import best

Known = tuple[str, str]
"""A possible word, and its description."""


class TypedHost(Host, Protocol):
    """The app, as far as commands use it alone."""

    theme: Any

    @property
    def available_themes(self) -> Mapping[str, object]:
        """The themes by name."""

    def call_later(self, callback: Any, *arguments: Any) -> bool:
        """Call it after this message."""

    async def run_action(self, action: str) -> bool:
        """Run an action as a key does."""


@dataclass(frozen=True)
class Desk:
    """What typed commands act on."""

    host: TypedHost
    navigation: Navigation
    control: RemoteControl
    background: Background
    choices: MethodChoices

    def act(self, action: str) -> None:
        """Run the action of a key."""
        self.host.call_later(self.host.run_action, action)


@dataclass(frozen=True)
class Typed:
    """A command. usage: its arguments as help prints them.

    do: receives the words after the name, and raises ConfigError with what to type instead. values: the possible next
    words after those that are complete.
    """

    name: str
    usage: str
    about: str
    do: Callable[[Desk, list[str]], None]
    values: Callable[[Desk, list[str]], Sequence[Known]] | None = None
    short: str = ""


def complete(desk: Desk, line: str) -> list[Known]:
    """The words that fit in place of the last one, the best first."""
    *before, last = line.lstrip().split(" ")
    given = [word for word in before if word]
    if not given:
        return best(((each.name, each.about) for each in COMMANDS), last, lambda known: known[0])
    typed = next((each for each in COMMANDS if given[0] in (each.name, each.short)), None)
    known = typed.values(desk, given[1:]) if typed and typed.values else ()
    return best(known, last, lambda each: each[0])


def carry_out(desk: Desk, line: str) -> None:
    """Carry out a command. Raises ConfigError for an unknown one, and for words that it does not take."""
    name, *words = line.split() or [""]
    if name:
        named(name).do(desk, words)


def named(name: str) -> Typed:
    """A command by its name, its short name, or the beginning of only one name. Raises ConfigError."""
    exact = [each for each in COMMANDS if name in (each.name, each.short)]
    begun = exact or [each for each in COMMANDS if each.name.startswith(name)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise ConfigError(f"'{name}' may be {' or '.join(each.name for each in begun)}. Type more letters.")
    near = difflib.get_close_matches(name, [each.name for each in COMMANDS], 1)
    hint = f"Did you mean '{near[0]}'?" if near else "Press tab for the list of commands."
    raise ConfigError(f"No command is named '{name}'. {hint}")


def _key(action: str) -> Callable[[Desk, list[str]], None]:
    """A command that is the action of a key."""

    def do(desk: Desk, words: list[str]) -> None:
        if words:
            raise ConfigError(f"'{' '.join(words)}' is too much: this command has no arguments.")
        desk.act(action)

    return do


def _one(words: list[str], what: str) -> str:
    if len(words) != 1:
        raise ConfigError(f"Type one {what} after the command. Tab completes it.")
    return words[0]


def _of(value: str, known: Sequence[str], what: str) -> str:
    """A value that must be one of these."""
    if value in known:
        return value
    near = difflib.get_close_matches(value, known, 1)
    hint = f"Did you mean '{near[0]}'?" if near else f"Choose one of {', '.join(known)}."
    raise ConfigError(f"No {what} is named '{value}'. {hint}")


def _goto(desk: Desk, words: list[str]) -> None:
    word, rounds = _one(words, "round"), desk.host.view.run.round
    if word == "live":
        desk.navigation.live()
        return
    signed = word[:1] in ("+", "-")
    digits = word[1:] if signed else word
    at = int(digits) if digits.isdecimal() else 0
    at = desk.host.view.shown + (at if word[0] == "+" else -at) if signed else at
    if not rounds:
        raise ConfigError("No round is finished yet. Try again after the first round.")
    if not digits.isdecimal() or not 1 <= at <= rounds:
        raise ConfigError(f"No round is '{word}'. Type 1 to {rounds}, a step such as -5, or live.")
    desk.navigation.show_round(at)


def _clients(desk: Desk, words: list[str]) -> list[int]:
    number = len(desk.host.view.run.models)
    for word in words:
        if not word.isdecimal() or int(word) >= number:
            raise ConfigError(f"No client is '{word}'. Type numbers from 0 to {number - 1}.")
    return [int(word) for word in words]


def _client(desk: Desk, words: list[str]) -> None:
    (client,) = _clients(desk, [_one(words, "client")])
    desk.host.change(client=client)


def _pin(desk: Desk, words: list[str]) -> None:
    if not words:
        raise ConfigError("Type the numbers of clients, such as `pin 3 5`.")
    desk.host.pin(desk.host.view.pinned | {*_clients(desk, words)})


def _unpin(desk: Desk, words: list[str]) -> None:
    pinned = desk.host.view.pinned
    desk.host.pin(pinned - {*_clients(desk, words)} if words else frozenset())


def _filter(desk: Desk, words: list[str]) -> None:
    desk.host.filter(" ".join(words))


def _open(desk: Desk, words: list[str]) -> None:
    folder = session_folder(_one(words, "session"), desk.host.sessions_dir)
    state(folder)  # raises for an unknown session
    desk.host.open_session(folder)
    desk.navigation.show_panel("live")


def _note(desk: Desk, words: list[str]) -> None:
    if not words:
        desk.act("edit('note')")
    elif (folder := upkeep.chosen(desk.host)) is not None:
        text = " ".join(words)
        upkeep.write(desk.host, desk.background, folder, None, "" if text == NO_NOTE else checked_note(text))


def _layout(desk: Desk, words: list[str]) -> None:
    if not words:
        desk.act("layouts")
    elif len(words) == 1:
        raise ConfigError("Type load, save, or delete, and a name, such as `layout save wide`.")
    else:
        layouts.carry_out(desk.host, *layouts.check(desk.host.layouts, words[0], " ".join(words[1:])))


def _layouts(desk: Desk, words: list[str]) -> Sequence[Known]:
    return [] if len(words) > 1 else layouts.known(desk.host.layouts) if words else layouts.DO


def _rename(desk: Desk, words: list[str]) -> None:
    *before, name = words or [""]
    if not words:
        desk.act("edit('rename')")
    elif (folder := _session(desk, before)) is not None:
        desk.background.run(
            "typed",
            "checking…",
            lambda: check_renamable(folder, name),
            lambda _: upkeep.rename(desk.host, desk.background, folder, name),
        )


def _delete(desk: Desk, words: list[str]) -> None:
    if not words:
        desk.act("edit('delete')")
    elif (folder := _session(desk, words)) is not None:
        upkeep.ask_delete(desk.host, desk.background, [folder])


def _session(desk: Desk, words: list[str]) -> Path | None:
    """The named session; without a name, the one under the cursor or shown."""
    return own_session(_one(words, "session"), desk.host.sessions_dir) if words else upkeep.chosen(desk.host)


def _mark(desk: Desk, words: list[str]) -> None:
    folder = session_folder(_one(words, "session"), desk.host.sessions_dir)
    state(folder)
    desk.navigation.mark(folder)


def _show(desk: Desk, words: list[str]) -> None:
    desk.navigation.show_panel(_of(_one(words, "panel"), list(PANEL_TITLES), "panel"))


def _set(desk: Desk, words: list[str]) -> None:
    if len(words) != 2:
        raise ConfigError("Type a setting and its value, such as `set theme textual-light`.")
    setting, value = words
    if _of(setting, ("theme", "sort"), "setting") == "theme":
        known = sorted(desk.host.available_themes)
        full = f"{PREFIX}{value}"
        desk.host.theme = full if full in known else _of(value, known, "theme")
    else:
        desk.host.change(sort=(_of(value, SORTED, "column"), value in FALLING))


def _checkpoint(desk: Desk, words: list[str]) -> None:
    if words not in ([], ["cka"]):
        raise ConfigError("A checkpoint takes no argument but cka, which also measures CKA.")
    view = desk.host.view
    if view.replaying or not view.run.live:
        desk.act("steer('checkpoint')")  # it computes CKA, or says why not
    elif desk.control.steerable("a checkpoint", live=True):
        desk.control.post("checkpoint", {"cka": True} if words else {})


def _pause(kind: str) -> Callable[[Desk, list[str]], None]:
    """`pause` and `resume`. A session that no process runs is resumed with the form of space."""

    def do(desk: Desk, words: list[str]) -> None:
        run = desk.host.view.run
        if kind == "resume" and not run.live:
            desk.act("steer('pause')")
        elif desk.control.steerable(f"a {kind}", live=True):
            desk.control.post(kind)

    return do


def _until(desk: Desk, words: list[str]) -> None:
    word = _one(words, "accuracy, such as 80%, or off,")
    try:
        share = 0.0 if word == "off" else float(word.rstrip("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ConfigError(f"'{word}' is no accuracy. Type 80%, 0.8, or off.")
    _change(desk, None, [f"until={share:g}"])


def _switch(desk: Desk, words: list[str]) -> None:
    if not words:
        desk.act("steer('switch')")
        return
    method, settings = (None, words) if "=" in words[0] else (words[0], words[1:])
    if wrong := next((word for word in settings if "=" not in word), ""):
        raise ConfigError(f"'{wrong}' is not key=value. Example: `switch fedssa training.lr=0.005`.")
    choice = next((each for each in _choices(desk) if each.name == method), None)
    if method is not None and choice is not None and choice.obstacle:
        raise ConfigError(f"The models cannot run {method}: {choice.obstacle}")
    if method is not None and choice is None:
        _of(method, [name for name, _ in _methods(desk, [])], "method")
    _change(desk, method, settings)


def _change(desk: Desk, method: str | None, settings: list[str]) -> None:
    """Switch after the round, once it is known to be valid."""
    from htfl_sim.configuring import check_switch

    if not desk.control.steerable("a switch"):
        return
    run = desk.host.view.run

    def checked(_: object) -> None:
        desk.control.post("switch", {"method": method, "set": settings}, run.folder)

    desk.background.run("typed", "checking…", lambda: check_switch(run.config, method, settings), checked)


# Possible words


def _choices(desk: Desk) -> Sequence[MethodChoice]:
    run = desk.host.view.run
    return desk.choices.known(run.config) if run.document else ()


def _methods(desk: Desk, words: list[str]) -> Sequence[Known]:
    """The methods that the models can run. While this is unknown, all methods. Then the method's parameters."""
    if words:
        return [(f"method.{key}=", "") for key in catalog.method_keys(words[0])]
    if choices := _choices(desk):
        return [(each.name, each.title) for each in choices if each.obstacle is None]
    return [(name, "") for name in static_names.methods()]


def _models(desk: Desk, words: list[str]) -> Sequence[Known]:
    return [(str(client), model) for client, model in enumerate(desk.host.view.run.models)]


def _pinned(desk: Desk, words: list[str]) -> Sequence[Known]:
    return [known for known in _models(desk, words) if int(known[0]) in desk.host.view.pinned]


def _architectures(desk: Desk, words: list[str]) -> Sequence[Known]:
    return [(name, "") for name in dict.fromkeys(desk.host.view.run.models)]


def _sessions(desk: Desk, words: list[str]) -> Sequence[Known]:
    return [] if words else [(name, "") for name in session_names(desk.host.sessions_dir)]


def _panels(desk: Desk, words: list[str]) -> Sequence[Known]:
    return [] if words else list(PANELS_SHOW.items())


def _settings(desk: Desk, words: list[str]) -> Sequence[Known]:
    match words:
        case []:
            return [("theme", "the colors"), ("sort", "the column by which clients are sorted")]
        case ["theme"]:
            return [(name.removeprefix(PREFIX), "") for name in sorted(desk.host.available_themes)]
        case ["sort"]:
            return [(name, "") for name in SORTED]
    return []


PREFIX = "textual-"
NO_NOTE = "-"
"""Typed in place of a note, it removes the note."""
SORTED = tuple(column.name or column.title for column in client_rows.COLUMNS if column.sort)
FALLING = tuple(column.name or column.title for column in client_rows.COLUMNS if column.sort == "falling")

COMMANDS: tuple[Typed, ...] = (
    Typed("open", "NAME", "Show another session.", _open, _sessions),
    Typed("show", "PANEL", "Show a panel.", _show, _panels),
    Typed("goto", "ROUND", "Show a round: a number, a step such as -5, or live.", _goto),
    Typed("client", "N", "Select a client.", _client, _models),
    Typed("pin", "N …", "Pin clients.", _pin, _models),
    Typed("unpin", "[N …]", "Unpin these clients, or all.", _unpin, _pinned),
    Typed("filter", "[WORDS]", "Show only what has these words. Without words: all.", _filter, _architectures),
    Typed("mark", "NAME", "Mark a session for comparison, or remove its mark.", _mark, _sessions),
    Typed("compare", "", "Compare the marked sessions with the one shown.", _key("compare")),
    Typed("set", "theme|sort VALUE", "Choose the colors, or the order of the clients.", _set, _settings),
    Typed("pause", "", "Pause the run.", _pause("pause")),
    Typed("resume", "", "Resume a paused or stopped run.", _pause("resume")),
    Typed("stop", "", "Stop the run, with a checkpoint.", _key("steer('stop')")),
    Typed(
        "checkpoint", "[cka]", "Write a checkpoint, with cka also CKA.", _checkpoint,
        lambda desk, words: [("cka", "at the end of the round, with CKA")],
    ),
    Typed(
        "switch", "[METHOD] [KEY=VALUE …]", "Use another method or settings after this round.", _switch, _methods
    ),
    Typed("until", "ACCURACY", "End the run at this mean accuracy, such as 80%; off: all rounds.", _until),
    Typed("fork", "", "Fork a new session from the round shown.", _key("steer('fork')")),
    Typed("new", "", "Begin a new run.", _key("steer('new_run')")),
    Typed(
        "note", "[TEXT]", "Write a note about the session under the cursor in Sessions, or the one shown; -: none.",
        _note, lambda desk, words: [] if words else [(NO_NOTE, "no note")],
    ),
    Typed("rename", "[NAME] NEW", "Give this session, or the named one, another name.", _rename, _sessions),
    Typed("delete", "[NAME]", "Delete this session, or the named one, after a question.", _delete, _sessions),
    Typed("describe", "", "List all settings, and what differs from the parent.", _key("describe")),
    Typed("layout", "load|save|delete NAME", "Load, save, or delete a layout of the panels.", _layout, _layouts),
    Typed("undo", "", "Undo the last change of pins, marks, or filter.", _key("undo")),
    Typed("export", "", "Write what is shown to a file.", _key("export")),
    Typed("help", "", "List all keys.", _key("help")),
    Typed("quit", "", "Leave the app.", _key("quit"), short="q"),
)  # fmt: skip
"""All of them, in the order in which completion and help show them."""
