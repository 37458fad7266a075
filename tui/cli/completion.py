"""Completions for the shell's <Tab> key. Nothing here imports torch, because it runs at every key press."""

from collections.abc import Callable, Iterable
from pathlib import Path

import typer

import htfl_sim as hs

Completer = Callable[[str], list[str]]


def of(known: Callable[[], Iterable[str]]) -> Completer:
    """A completer for names that do not depend on the rest of the command line."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in known() if name.startswith(incomplete)]

    return complete


def sessions(ctx: typer.Context, incomplete: str) -> list[str]:
    """The sessions in the folder from the command line or the environment."""
    names = hs.folders.session_names(ctx.params.get("sessions_dir"))
    study, slash, _ = incomplete.partition("/")
    if slash:
        names += hs.folders.linked_names(study, ctx.params.get("sessions_dir"))
    return [name for name in names if name.startswith(incomplete)]


def studies(ctx: typer.Context, incomplete: str) -> list[str]:
    """The studies in the sessions folder, and the shipped ones."""
    from simulator.studies.study import shipped_studies

    found = hs.folders.study_names(ctx.params.get("sessions_dir"))
    return [name for name in dict.fromkeys([*found, *shipped_studies()]) if name.startswith(incomplete)]


def steerable(ctx: typer.Context, incomplete: str) -> list[str]:
    """Sessions, and studies."""
    there = hs.folders.study_names(ctx.params.get("sessions_dir"))
    return [*sessions(ctx, incomplete), *(name for name in studies(ctx, incomplete) if name in there)]


def axes(incomplete: str) -> list[str]:
    """The keys of axes, for --over."""
    return [
        key
        for key in ("method=", "seed=", "preset=", *hs.catalog.config_keys())
        if key.startswith(incomplete)
    ]


def methods(ctx: typer.Context, incomplete: str) -> list[str]:
    """The methods: built-in ones, those of installed packages, and those of the plugins on the command line."""
    from simulator.results.analysis import static_names

    known = static_names.methods(map(Path, ctx.params.get("plugins") or ()))
    return [name for name in known if name.startswith(incomplete)]


def assignments(ctx: typer.Context, incomplete: str) -> list[str]:
    """The configuration's dotted keys, for --set, with those of the method on the line, or else of all methods."""
    own = [f"method.{key}=" for key in hs.catalog.method_keys(ctx.params.get("method"))]
    known = [*(f"{key}=" for key in hs.catalog.config_keys()), *own]
    return [key for key in known if key.startswith(incomplete)]


def keys(incomplete: str) -> list[str]:
    """The keys without '=', and every method's."""
    known = [*hs.catalog.config_keys(), *(f"method.{key}" for key in hs.catalog.method_keys())]
    return [key for key in known if key.startswith(incomplete)]


def model_names() -> list[str]:
    """The names of the groups and models, from the source."""
    from simulator.base.federation_section import GROUPS
    from simulator.results.analysis import static_names

    return [*GROUPS, *static_names.models()]


def watcher_names() -> list[str]:
    """The names of all watchers of a run, and of all of them at once."""
    from simulator.base.sections import WATCHERS

    return ["all", *WATCHERS]


places = of(lambda: ("here", "ray", "slurm"))
presets = of(lambda: hs.catalog.preset_names())
models = of(model_names)
watchers = of(watcher_names)
datasets = of(lambda: hs.catalog.dataset_names())
