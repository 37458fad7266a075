"""Completions for the shell's <Tab> key. Nothing here imports torch, because it runs at every key press."""

from collections.abc import Callable, Iterable
from pathlib import Path

import typer

import htfl_sim as hs

Known = Callable[[typer.Context, str], Iterable[str]]


def _offered(known: Known) -> Callable[..., list[str]]:
    """Typer's form of a completion: the known names that begin as the word on the command line does."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        return [name for name in known(ctx, incomplete) if name.startswith(incomplete)]

    return complete


def _sessions(ctx: typer.Context, incomplete: str) -> list[str]:
    names = hs.folders.session_names(ctx.params.get("sessions_dir"))
    study, slash, _ = incomplete.partition("/")
    return names + (hs.folders.linked_names(study, ctx.params.get("sessions_dir")) if slash else [])


def _studies(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    from simulator.studies.study import shipped_studies

    return dict.fromkeys([*hs.folders.study_names(ctx.params.get("sessions_dir")), *shipped_studies()])


def _methods(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Built-in methods, those of installed packages, and those of the plugins on the command line."""
    from simulator.results.analysis import static_names

    return static_names.methods(map(Path, ctx.params.get("plugins") or ()))


def _assignments(ctx: typer.Context, incomplete: str) -> list[str]:
    """All keys for --set, with those of the method on the line, or else of all methods."""
    own = (f"method.{key}" for key in hs.catalog.method_keys(ctx.params.get("method")))
    return [f"{key}=" for key in (*hs.catalog.config_keys(), *own)]


def _models(*_: object) -> Iterable[str]:
    from simulator.base.federation_section import GROUPS
    from simulator.results.analysis import static_names

    return [*GROUPS, *static_names.models()]


def _watchers(*_: object) -> Iterable[str]:
    from simulator.base.sections import WATCHERS

    return ["all", *WATCHERS]


sessions, studies, methods, assignments = map(_offered, (_sessions, _studies, _methods, _assignments))
steerable = _offered(
    lambda ctx, incomplete: [
        *_sessions(ctx, incomplete),
        *hs.folders.study_names(ctx.params.get("sessions_dir")),
    ]
)
axes = _offered(lambda *_: ("method=", "seed=", "preset=", *hs.catalog.config_keys()))
keys = _offered(
    lambda *_: [*hs.catalog.config_keys(), *(f"method.{key}" for key in hs.catalog.method_keys())]
)
places, models, watchers = map(_offered, (lambda *_: ("here", "ray", "slurm"), _models, _watchers))
presets = _offered(lambda *_: hs.catalog.preset_names())
datasets = _offered(lambda *_: hs.catalog.dataset_names())
