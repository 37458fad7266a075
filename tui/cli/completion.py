"""What the shell offers after <Tab>. Nothing here imports torch: it runs at every key press."""

from collections.abc import Callable, Iterable

import typer

from simulator.analysis import static_names

Completer = Callable[[str], list[str]]


def of(known: Callable[[], Iterable[str]]) -> Completer:
    """A completer for names that are known without looking at the rest of the command line."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in known() if name.startswith(incomplete)]

    return complete


def _presets() -> list[str]:
    import presets

    return presets.names()


def _datasets() -> list[str]:
    from simulator.data import datasets

    return datasets.names()


def sessions(ctx: typer.Context, incomplete: str) -> list[str]:
    """The sessions in the folder that the command line or the environment names."""
    import checkpoints
    from tui.common.folders import sessions_dir

    folder = sessions_dir(ctx.params.get("sessions_dir"))
    names = map(checkpoints.name_of, checkpoints.sessions(folder))
    return [name for name in names if name.startswith(incomplete)]


def studies(ctx: typer.Context, incomplete: str) -> list[str]:
    """The studies in the sessions folder, and those that come with htfl-sim."""
    import checkpoints
    from simulator.studies import shipped
    from tui.common.folders import sessions_dir

    found = [path.name for path in checkpoints.groups(sessions_dir(ctx.params.get("sessions_dir")))]
    return [name for name in dict.fromkeys([*found, *shipped.names()]) if name.startswith(incomplete)]


def steerable(ctx: typer.Context, incomplete: str) -> list[str]:
    """Sessions, and studies."""
    return [*sessions(ctx, incomplete), *(name for name in studies(ctx, incomplete) if _is_there(ctx, name))]


def _is_there(ctx: typer.Context, study: str) -> bool:
    from tui.common.folders import sessions_dir, study_folder

    return study_folder(study, sessions_dir(ctx.params.get("sessions_dir"))) is not None


def axes(incomplete: str) -> list[str]:
    """The keys of axes, for --over."""
    return [key for key in ("method=", "seed=", "preset=", *config_keys()) if key.startswith(incomplete)]


def methods(ctx: typer.Context, incomplete: str) -> list[str]:
    """The built-in methods, those of installed packages, and those of the plugins the command line names."""
    return [
        name for name in static_names.methods(ctx.params.get("plugin") or ()) if name.startswith(incomplete)
    ]


def assignments(ctx: typer.Context, incomplete: str) -> list[str]:
    """The configuration's dotted keys, for --set; of the method named on the line, or else of all, their own."""
    from simulator.analysis.static_keys import method_keys

    own = [f"method.{key}=" for key in method_keys(ctx.params.get("method"))]
    known = [*(f"{key}=" for key in config_keys()), *own]
    return [key for key in known if key.startswith(incomplete)]


def keys(incomplete: str) -> list[str]:
    """The same without what follows them, and every method's."""
    from simulator.analysis.static_keys import method_keys

    known = [*config_keys(), *(f"method.{key}" for key in method_keys())]
    return [key for key in known if key.startswith(incomplete)]


def config_keys() -> list[str]:
    """Every dotted key of the configuration but the methods'."""
    from simulator.config import keys

    return keys()


def _places() -> Iterable[str]:
    from simulator.studies.places import NAMES

    return NAMES


places = of(_places)
presets = of(_presets)
models = of(lambda: [*static_names.groups(), *static_names.models()])
datasets = of(_datasets)
