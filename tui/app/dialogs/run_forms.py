"""Forms for runs: a new one, a fork, a run of another method beside it, its resumption, and a switch of its method."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from htfl_sim import catalog
from htfl_sim.catalog import MethodCard
from htfl_sim.configuring import QUICKSTART, Choices, new_name
from htfl_sim.errors import ConfigError, DataError
from htfl_sim.folders import checked_name, free_name, plain_name
from htfl_sim.sessions import changeable_sections
from simulator.results.analysis import static_names
from simulator.results.analysis.costs import rounds_again, seconds_left
from simulator.results.analysis.gain import BASELINE, Pair
from simulator.results.analysis.run import SessionData
from simulator.sessions.history import next_change
from tui.app.dialogs.base import Options
from tui.app.dialogs.form import Field, Form, Known, assignments, form_hint, number, setting_names
from tui.app.view import in_force
from tui.common import findings
from tui.common.cells import padded
from tui.common.formatting import counted, duration, size

SETTLED_SECONDS = 0.4
"""Seconds without a change after which the form reads the user's own data."""
WARNINGS = 2
"""The maximum number of warnings below the form."""


@dataclass(frozen=True)
class NewRun:
    choices: Choices
    folder: Path


class NewRunDialog(Form[NewRun]):
    """Returns a NewRun whose data are here."""

    hint = f"{form_hint('start')}\nctrl+f download the data set · ctrl+d use digits (no download)"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+f", "fetch", "fetch", show=False, priority=True),
        Binding("ctrl+d", "digits", "digits", show=False, priority=True),
    ]

    def __init__(
        self, sessions: Path, data: Path, choices: Choices, name: str = "", plugins: Sequence[Path] = ()
    ) -> None:
        """`choices` fill in the form, and include settings without a line in the form. `plugins` add methods."""
        self._sessions, self._data, self._choices = sessions, data, choices
        self._fetching = ""
        self._reports: dict[tuple[str, str], str] = {}
        """What was read of the user's own data, by path and settings."""
        self._wanted = ("", "")
        usual, given = "from the preset", {name: str(value) for name, value in vars(choices).items() if value}
        if choices.seed is not None:
            given["seed"] = str(choices.seed)
        methods = partial(_methods, tuple(plugins))
        example = " ".join(choices.assignments), "key=value …, such as training.epochs=2"
        or_folder = given.get("dataset", ""), f"{usual}; or a folder"
        fields = [
            Field("preset", given.get("preset", ""), QUICKSTART, _presets, only=True),
            Field("dataset", *or_folder, self._datasets, label="data set"),
            Field("method", given.get("method", ""), usual, methods, only=True),
            *(Field(each, given.get(each, ""), usual, whole=True) for each in ("rounds", "clients", "seed")),
            Field("set", *example, self._settings, label="settings", words=True),
            Field("name", name, "generated name", label="session"),
        ]
        super().__init__("New run", fields)

    def _settings(self) -> Sequence[Known]:
        """Those of the method of the form or its preset, if it is known."""
        return setting_names(method=_method(self.values) or None)

    def remark(self, values: dict[str, str]) -> str:
        if self._fetching:
            return self._fetching
        name = values["preset"] or QUICKSTART
        if name not in catalog.preset_names():
            return ""  # the form says so
        raw = _raw(values)
        dataset = _dataset(values)
        rounds = values["rounds"] or raw.get("rounds", "?")
        clients = values["clients"] or raw.get("federation", {}).get("clients", 10)
        about = f"{catalog.preset(name).title}\n{_method(values)} on {dataset}, {clients} clients, {rounds} rounds"
        missing = _missing(dataset, self._data)
        return "\n".join(filter(None, (about, missing and f"Missing: {missing}", self._report(values))))

    def _report(self, values: dict[str, str]) -> str:
        """What a run would read of the user's own data. Empty for other data, and while it is read."""
        name = values["dataset"]
        if not name or name in catalog.dataset_names() or not Path(name).expanduser().exists():
            return ""
        wanted = (name, values["set"])
        if wanted != self._wanted:
            self._wanted = wanted
            self.set_timer(SETTLED_SECONDS, partial(self._begin_reading, wanted))
        return self._reports.get(wanted, "")

    def _begin_reading(self, wanted: tuple[str, str]) -> None:
        def read() -> str:
            name, words = wanted
            settings = [each for each in assignments(words) if each.startswith("data.")]
            report = catalog.report(name, settings, self._data)
            warnings = [f"Warning: {each}" for each in report["warnings"][:WARNINGS]]
            return "\n".join([f"Read: {findings.data_summary(report)}", *warnings])

        def show(text: str) -> None:
            self._reports[wanted] = text
            self._remark()

        if wanted == self._wanted and wanted not in self._reports:
            self.work(read, show, show)

    def accept(self, values: dict[str, str]) -> NewRun:
        choices = replace(
            self._choices,
            preset=values["preset"] or (None if self._choices.file else QUICKSTART),
            profile=self._choices.profile if values["preset"] == self._choices.preset else None,
            dataset=values["dataset"] or None,
            method=values["method"] or None,
            rounds=number(values, "rounds"),
            clients=number(values, "clients"),
            seed=number(values, "seed", 0),
            assignments=assignments(values["set"]),
        )
        config = choices.read()
        if missing := _missing(config.data.dataset, self._data):
            raise DataError(f"{missing}. Press ctrl+f to download it, or ctrl+d to use digits.")
        name = checked_name(values["name"]) if values["name"] else None
        folder = self._sessions / (name or new_name(config, self._sessions, datetime.now().astimezone()))
        if folder.exists():
            raise ConfigError(f"{folder.name} exists. Choose another name, or open it with a.")
        return NewRun(choices, folder)

    def action_digits(self) -> None:
        self.query_one("#field-dataset", Input).value = "digits"

    def action_fetch(self) -> None:
        """Download the data set on a thread, with the progress under the fields."""
        if not self._fetching:
            name = _dataset(self.values)
            doing = "downloading" if catalog.is_missing(name, self._data) else "checking"
            self._fetching = f"{doing} {name}…"
            self._remark()
            fetch = partial(catalog.fetch_dataset, name, self._data, partial(self._fetched, name))
            self.work(fetch, lambda _: self._fetch_ended(""), self._fetch_ended)

    def _fetched(self, name: str, done: int, total: int | None) -> None:
        share = f"{size(done)} of {size(total)}" if total else size(done)
        text = f"downloading {name}: {share}"
        if text != self._fetching:
            self._fetching = text
            self.tell(self._remark)

    def _fetch_ended(self, fault: str) -> None:
        self._fetching = ""
        self._remark()
        self.complain(fault)

    def _datasets(self) -> Sequence[Known]:
        missing = {name: catalog.is_missing(name, self._data) for name in catalog.dataset_names()}
        return [(name, "not downloaded" if gone else "here") for name, gone in missing.items()]


def _raw(values: Mapping[str, str]) -> Mapping[str, Any]:
    """The settings in the preset of a form; none if it is unknown."""
    name = values["preset"] or QUICKSTART
    return catalog.preset(name).config if name in catalog.preset_names() else {}


def _method(values: Mapping[str, str]) -> str:
    """The method of a form or its preset; "" if it is unknown."""
    return values["method"] or str(_raw(values).get("method", {}).get("name", ""))


def _dataset(values: Mapping[str, str]) -> str:
    """The data set of a form or its preset."""
    return values["dataset"] or str(_raw(values).get("data", {}).get("dataset", "digits"))


def is_here(choices: Choices, data: Path) -> bool:
    """Whether the data of a run are here, as far as its preset and options tell."""
    name = choices.dataset
    if name is None and choices.file is None:
        name = catalog.preset(choices.preset or QUICKSTART).config.get("data", {}).get("dataset")
    return name is None or not _missing(str(name), data)


def made_up(choices: Choices, sessions: Path) -> str:
    """A name for a run, from its options alone."""
    stem = choices.preset or (choices.file.stem if choices.file else QUICKSTART)
    plain = plain_name([stem, *(Path(word).stem for word in (choices.method, choices.dataset) if word)])
    return free_name(sessions, f"{plain}-{datetime.now().astimezone():%Y%m%d-%H%M%S}")


def _missing(dataset: str, data: Path) -> str:
    """The missing data in words; empty if nothing is missing, or only the loader can tell."""
    if dataset in catalog.dataset_names():
        return f"{dataset} is not in {data}" if catalog.is_missing(dataset, data) else ""
    return "" if Path(dataset).expanduser().exists() else f"no data set or folder is named '{dataset}'"


@cache
def _presets() -> Sequence[Known]:
    return [(preset.name, preset.title) for preset in catalog.presets()]


@cache
def _methods(plugins: tuple[Path, ...]) -> Sequence[Known]:
    return [(name, "") for name in static_names.methods(plugins)]


THEN: tuple[Known, ...] = (
    ("show", "show the fork when it is ready"),
    ("run", "show the fork and run it here"),
    ("stay", "find it in Sessions (s)"),
)
"""What to do after the fork is made."""
BESIDE = "beside"
"""What to do after the fork is made: run it in its own process, and compare its parent with it."""


@dataclass(frozen=True)
class ForkWish:
    """The arguments of `simulator.fork` for a new session in `folder`, and what to do then."""

    folder: Path
    round: int
    method: str | None
    settings: tuple[str, ...]
    then: str
    """One of THEN, or BESIDE."""


class ForkDialog(Form[ForkWish]):
    """Returns a ForkWish. Empty lines keep the parent's values."""

    hint = form_hint("fork")

    def __init__(self, run: SessionData, round: int, sessions: Path, methods: Sequence[Known]) -> None:
        self._run, self._round, self._sessions = run, round, sessions
        before = in_force(run, round)
        self._method = method = before["method"]["name"]
        name, draws = free_name(sessions, plain_name([run.name, f"at{round}"])), "the same random draws"
        example = "key=value …, such as training.lr=0.005"
        super().__init__(
            f"Fork {run.name} after round {round} of {run.round}",
            [
                Field("name", name),
                Field("method", "", f"unchanged: {method}", lambda: methods, only=True),
                Field("seed", "", f"unchanged: {draws}", whole=True),
                Field("rounds", "", f"unchanged: {before['rounds']}", label="total rounds", whole=True),
                Field("set", "", example, self._settings, label="settings", words=True),
                Field("then", "show", known=lambda: THEN, only=True),
            ],
        )

    def _settings(self) -> Sequence[Known]:
        return setting_names((*changeable_sections(), "seed"), self.values["method"] or self._method)

    def remark(self, values: dict[str, str]) -> str:
        rounds, took = rounds_again(self._run, self._round)
        count = counted(rounds, "round")
        said = [f"{count} must be computed again, about {duration(took)}."] if rounds else []
        if not any(values[name] for name in ("method", "seed", "rounds", "set")):
            changed = next_change(self._run.history, self._run.events, self._round)
            until = f"continues with {self._method}, which its parent used until round {changed}."
            ends = "repeats its parent bit for bit." if changed is None else until
            said.append(f"Without changes, the fork {ends}")
        return " ".join(said)

    def accept(self, values: dict[str, str]) -> ForkWish:
        folder = self._sessions / checked_name(values["name"])
        if folder.exists():
            raise ConfigError(f"{folder.name} exists. Choose another name.")
        if values["method"]:
            catalog.method(values["method"])  # raises for an unknown one
        if values["then"] not in dict(THEN):
            raise ConfigError(f"then: one of {', '.join(dict(THEN))}.")
        seed, rounds = number(values, "seed", 0), number(values, "rounds")
        if rounds is not None and rounds <= self._round:
            raise ConfigError(f"The fork starts after round {self._round}. Enter more total rounds.")
        quick = [f"{key}={value}" for key, value in (("seed", seed), ("rounds", rounds)) if value is not None]
        settings = (*quick, *assignments(values["set"]))
        return ForkWish(folder, self._round, values["method"] or None, settings, values["then"])


class ShadowDialog(Form[ForkWish]):
    """Returns a ForkWish. methods: those that the models can run."""

    hint = form_hint("start")

    def __init__(
        self, run: SessionData, round: int, sessions: Path, methods: Sequence[Known], pair: Pair | None
    ) -> None:
        self._run, self._sessions, self._pair = run, sessions, pair
        begins = round if round < run.rounds else 0
        others = [(name, about) for name, about in methods if name != self._method_after(begins)]
        first = BASELINE if BASELINE in dict(others) else ""
        super().__init__(
            f"Run another method beside {run.name}",
            [
                Field("method", first, known=lambda: others, only=True),
                Field("round", str(begins), "0: from the beginning", label="after round", whole=True),
            ],
        )

    def _method_after(self, round: int) -> str:
        return str(in_force(self._run, round)["method"]["name"])

    def remark(self, values: dict[str, str]) -> str:
        run, text = self._run, values["round"]
        said = ["A fork continues after this round with the method, on the same data and weights."]
        if self._pair is not None:
            said = [f"{run.name} is already compared with {self._pair.partner.name} (B). {said[0]}"]
        if text.isdigit() and int(text) <= run.round:
            rounds, took = rounds_again(run, int(text))
            left = run.rounds - int(text)
            if rounds:
                are = f"{counted(rounds, 'round')} {'is' if rounds == 1 else 'are'}"
                said.append(f"First, {are} computed again, about {duration(took)}.")
            if (seconds := seconds_left(run.curves, left)) is not None:
                runs = "runs in a process of its" if left == 1 else "run in a process of their"
                said.append(f"Then {counted(left, 'round')} {runs} own, about {duration(seconds)}.")
        said.append("Both runs share the processors of this machine.")
        return " ".join(said)

    def accept(self, values: dict[str, str]) -> ForkWish:
        run, name = self._run, values["method"]
        round = number(values, "round", 0)
        if round is None or round > run.round:
            raise ConfigError(f"after round: {run.name} has rounds 0 to {run.round}. Enter one of them.")
        if round >= run.rounds:
            raise ConfigError(f"after round: no round is left after {round}. Enter an earlier one.")
        catalog.method(name)  # raises for an unknown one
        if name == self._method_after(round):
            raise ConfigError(f"method: {run.name} continues with {name} itself. Choose another method.")
        folder = self._sessions / free_name(self._sessions, plain_name([run.name, "shadow", name]))
        return ForkWish(folder, round, name, (), BESIDE)


@dataclass(frozen=True)
class ResumeWish:
    """The total number of rounds, None for no change; and whether other bits are accepted."""

    rounds: int | None
    allow_inexact: bool


INEXACT: tuple[Known, ...] = (
    ("no", "resume only if the result stays bit-identical"),
    ("yes", "accept small numeric differences from another torch, device, or thread setting"),
)


class ResumeDialog(Form[ResumeWish]):
    hint = form_hint("resume")

    def __init__(self, run: SessionData) -> None:
        self._run = run
        rounds = run.rounds + 10 if run.round >= run.rounds else run.rounds
        fields = [
            Field("rounds", str(rounds), label="total rounds", whole=True),
            Field("inexact", "no", known=lambda: INEXACT, label="numeric differences"),
        ]
        super().__init__(f"Resume {run.name} from round {run.round}", fields)

    def remark(self, values: dict[str, str]) -> str:
        done = self._run.round
        repeated, _ = rounds_again(self._run, done)
        first = done - repeated + 1
        last = int(values["rounds"]) if values["rounds"].isdecimal() else self._run.rounds
        if last <= done:
            return ""
        took = seconds_left(self._run.curves, last - first + 1)
        text = f"Computes rounds {first} to {last}" + (f", about {duration(took)}." if took else ".")
        again = f" Rounds {first} to {done} have no checkpoint and are computed again."
        return text + again * bool(repeated)

    def accept(self, values: dict[str, str]) -> ResumeWish:
        rounds = number(values, "rounds")
        if rounds is not None and rounds <= self._run.round:
            raise ConfigError(f"Round {self._run.round} is done. Enter more total rounds.")
        if values["inexact"] not in dict(INEXACT):
            raise ConfigError("numeric differences: enter yes or no.")
        return ResumeWish(None if rounds == self._run.rounds else rounds, values["inexact"] == "yes")


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

    def __init__(self, config: Mapping[str, Any], choices: Sequence[MethodCard], when: str) -> None:
        self._config = config
        self._choices = {choice.name: choice for choice in choices}
        self._present = str(config["method"]["name"])
        self._when = when
        example = "key=value, such as training.lr=0.005"
        other = Field("other", "", example, self._settings, label="other settings", words=True)
        super().__init__("Switch the method or its settings", [other])

    def _settings(self) -> Sequence[Known]:
        return setting_names(changeable_sections(), self.values["method"])

    def body(self) -> Iterable[Widget]:
        yield Static(self.spelled(self._when), classes="text", markup=False)
        lines = []
        for choice in self._choices.values():
            name, title = padded(choice.name, 16), self.spelled(choice.title)
            now = "  (now)" if choice.name == self._present else ""
            line = Content.assemble((name, "bold"), title, (now, "bold"))
            if choice.obstacle:
                line = Content.assemble(name, title, "\n  cannot: ", self.spelled(choice.obstacle))
            lines.append(Option(line, id=choice.name, disabled=choice.obstacle is not None))
        yield Options(*lines, id="methods", compact=True)
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
        chosen = self.query_one("#methods", OptionList).highlighted_option
        entries = self.query("#parameters Input").results(Input)
        parameters = {f"{PARAMETER}{entry.name}": entry.value.strip() for entry in entries}
        return {**super().values, **parameters, "method": str(chosen.id) if chosen else self._present}

    def accept(self, values: dict[str, str]) -> SwitchWish:
        from htfl_sim.configuring import check_switch

        method = values["method"]
        replaced = None if method == self._present else method
        settings = [
            f"{name}={text}"
            for name, text in values.items()
            if name.startswith(PARAMETER) and text not in ("", self._value(method, name))
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
        lines = []
        for parameter in choice.parameters:
            key, usual = parameter["key"], "" if parameter["default"] is None else str(parameter["default"])
            about = self.spelled(f"{usual}  {parameter['description']}".strip())
            entry = Input(
                self._value(choice.name, PARAMETER + key), placeholder=about, name=key, compact=True
            )
            lines.append(Horizontal(Label(key.ljust(16), markup=False), entry, classes="field"))
        await rows.mount_all(lines)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        if event.option_list.id == "methods":
            self.action_submit()

    def _value(self, method: str, parameter: str) -> str:
        """The present value of a hyper-parameter; "" for those of other methods."""
        key = parameter.removeprefix(PARAMETER)
        value = self._config["method"].get(key) if method == self._present else None
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
