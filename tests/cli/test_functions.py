"""Every command has its function in Python, and every function that does something has its command."""

import inspect
import operator
from collections.abc import Iterator
from types import ModuleType

import typer.main

import htfl_sim as hs
from tui.cli import app

FUNCTIONS = {
    "checkpoint": "steering.checkpoint sessions.similarity",
    "compare": "compare gains pivot variance",
    "config": "catalog.settings config",
    "data check": "catalog.check_dataset",
    "data export": "catalog.export_federation",
    "data import": "catalog.import_federation",
    "data fetch": "catalog.fetch_dataset catalog.fetch_missing",
    "datasets": "catalog.datasets catalog.dataset catalog.report",
    "doctor": "machine.doctor",
    "export": "sessions.export sessions.export_partition sessions.export_weights",
    "fork": "fork",
    "inspect": "sessions.inspect",
    "methods": "catalog.methods catalog.method catalog.check_method plugin load_files register",
    "models": "catalog.models catalog.model_groups",
    "partition": "sessions.partition",
    "pause": "steering.pause",
    "plot": "plot",
    "presets": "catalog.presets catalog.preset catalog.preset_config preset",
    "prune": "sessions.prune",
    "report": "report",
    "resume": "resume steering.resume",
    "rm": (
        "sessions.remove sessions.leftovers sessions.remove_leftover sessions.dependents sessions.check_idle"
    ),
    "rename": "sessions.rename sessions.check_renamable",
    "run": "run catalog.without_downloads",
    "sessions": "sessions.search sessions.duplicates",
    "show": "sessions.details open",
    "stop": "steering.stop",
    "sweep": (
        "sweep studies.plan studies.check studies.cost studies.carry_out studies.open_point "
        "studies.status studies.write_slurm studies.linked"
    ),
    "switch": "steering.switch",
    "note": "steering.note sessions.note sessions.marks",
    "tag": "steering.tag sessions.tag sessions.tags",
    "tui": (
        "machine.library sessions.changed_stamp sessions.folders_in sessions.inside sessions.mark "
        "sessions.representations sessions.samples sessions.samples_of_clients sessions.state "
        "sessions.studies_in steering.answer_to steering.mark steering.now steering.post"
    ),
    "tune": "tune",
    "verify": "sessions.verify",
    "why": "sessions.why sessions.confusion",
}
"""What does in Python what a command does."""
NAMED = {name for names in FUNCTIONS.values() for name in names.split()}
HELPERS = {
    *("catalog.as_toml", "catalog.toml_value", "steering.progress", "studies.time_left"),
    *("errors.check_output", "errors.fault_of_others", "errors.is_of_memory"),
}
"""Functions that only word what others have found."""


def commands() -> Iterator[str]:
    group = typer.main.get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        yield from (f"{name} {each}" for each in inner) if inner else [name]


def offered() -> Iterator[str]:
    """The functions of the public API, its own and those of its modules; `hs.analysis` is what the app draws."""
    for name in hs.__all__:
        found = getattr(hs, name)
        if inspect.isfunction(found):
            yield name
        elif isinstance(found, ModuleType):
            names = () if found is hs.analysis else getattr(found, "__all__", ())
            yield from (f"{name}.{each}" for each in names if inspect.isfunction(getattr(found, each)))


def test_every_command_has_its_function_and_every_function_its_command() -> None:
    assert sorted(commands()) == sorted(FUNCTIONS)
    assert set(offered()) - HELPERS == NAMED
    every = sorted({*HELPERS, *NAMED})
    assert [name for name in every if not operator.attrgetter(name)(hs).__doc__] == []
