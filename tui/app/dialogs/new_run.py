"""The form for a new run: its settings, its size, and missing data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType

from htfl_sim import catalog
from htfl_sim.configuring import QUICKSTART, Choices, new_name
from htfl_sim.folders import checked_name, free_name, plain_name
from tui.app.dialogs.form import Field, Form, Known, assignments, form_hint, number, setting_names
from tui.common import reading
from tui.common.errors import explain
from tui.common.formatting import size

SETTLED_SECONDS = 0.4
"""Seconds without a change after which the form reads the user's own data."""
WARNINGS = 2
"""The maximum number of warnings below the form."""


@dataclass(frozen=True)
class NewRun:
    """A new run and its folder."""

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
        super().__init__(
            "New run",
            [
                Field("preset", "preset", choices.preset or "", f"{QUICKSTART}", _presets, only=True),
                Field(
                    "dataset",
                    "data set",
                    choices.dataset or "",
                    "from the preset; or a folder",
                    self._datasets,
                ),
                Field(
                    "method",
                    "method",
                    choices.method or "",
                    "from the preset",
                    partial(_methods, tuple(plugins)),
                    only=True,
                ),
                Field("rounds", "rounds", _text(choices.rounds), "from the preset", whole=True),
                Field("clients", "clients", _text(choices.clients), "from the preset", whole=True),
                Field("seed", "seed", _text(choices.seed), "from the preset", whole=True),
                Field(
                    "set",
                    "settings",
                    " ".join(choices.assignments),
                    "key=value …, such as training.epochs=2",
                    lambda: setting_names(method=self._method()),
                    words=True,
                ),
                Field("name", "session", name, "generated name"),
            ],
        )

    def _method(self) -> str | None:
        """The method of the form or its preset, if it is known."""
        preset, method = self.values["preset"] or QUICKSTART, self.values["method"]
        if not method and preset in catalog.preset_names():
            method = str(catalog.preset(preset).config.get("method", {}).get("name", ""))
        return method or None

    def remark(self, values: dict[str, str]) -> str:
        """The preset's values, as far as they are known without reading the whole configuration."""
        if self._fetching:
            return self._fetching
        name = values["preset"] or QUICKSTART
        if name not in catalog.preset_names():
            return ""  # the form says so
        preset = catalog.preset(name)
        raw = preset.config
        dataset = values["dataset"] or str(raw.get("data", {}).get("dataset", "digits"))
        method = values["method"] or str(raw.get("method", {}).get("name", ""))
        rounds = values["rounds"] or raw.get("rounds", "?")
        clients = values["clients"] or raw.get("federation", {}).get("clients", 10)
        about = f"{preset.title}\n{method} on {dataset}, {clients} clients, {rounds} rounds"
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
        if wanted == self._wanted and wanted not in self._reports:
            self.run_worker(partial(self._read, wanted), thread=True)

    def _read(self, wanted: tuple[str, str]) -> None:
        """Read the data on a thread."""
        name, words = wanted
        try:
            settings = [each for each in assignments(words) if each.startswith("data.")]
            report = catalog.report(name, settings, self._data)
            lines = [f"Read: {reading.summary(report)}"]
            lines += [f"Warning: {each}" for each in report["warnings"][:WARNINGS]]
            self._reports[wanted] = "\n".join(lines)
        except Exception as error:  # any error is shown in the dialog
            self._reports[wanted] = explain(error)[0]
        if self.is_running:
            self.app.call_from_thread(self._remark)

    def accept(self, values: dict[str, str]) -> NewRun:
        from htfl_sim.errors import ConfigError, DataError

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
        from textual.widgets import Input

        self.query_one("#field-dataset", Input).value = "digits"

    def action_fetch(self) -> None:
        """Download the data set on a thread, with the progress under the fields."""
        if not self._fetching:
            self._fetching = "downloading…"
            self.run_worker(partial(self._fetch, self.values), thread=True)

    def _fetch(self, values: dict[str, str]) -> None:
        raw = catalog.preset(values["preset"] or QUICKSTART).config
        name = values["dataset"] or str(raw.get("data", {}).get("dataset", "digits"))
        fault = ""
        try:
            catalog.fetch_dataset(name, self._data, partial(self._fetched, name))
        except Exception as error:  # any error is shown in the dialog
            fault = explain(error)[0]
        self.app.call_from_thread(self._fetch_ended, fault)

    def _fetched(self, name: str, done: int, total: int | None) -> None:
        share = f"{size(done)} of {size(total)}" if total else size(done)
        text = f"downloading {name}: {share}"
        if text != self._fetching:
            self._fetching = text
            self.app.call_from_thread(self._remark)

    def _fetch_ended(self, fault: str) -> None:
        self._fetching = ""
        self._remark()
        self.complain(fault)

    def _datasets(self) -> Sequence[Known]:
        return [
            (name, "not downloaded" if catalog.is_missing(name, self._data) else "here")
            for name in catalog.dataset_names()
        ]


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
    return [(name, "") for name in catalog.method_names(plugins)]


def _text(value: int | None) -> str:
    return "" if value is None else str(value)
