"""`htfl-sim config` and `htfl-sim partition`: the settings, and the samples that each client would hold."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import htfl_sim as hs
from tui.cli import completion, options, output

if TYPE_CHECKING:
    from htfl_sim.catalog import Setting
    from htfl_sim.sessions import Partition

UNSET = "not set"


def config(
    key: Annotated[str | None, options.argument("[KEY]", completion.keys, "Key to show.")] = None,
    method: Annotated[
        str | None,
        options.option("Also list this method's own keys.", metavar="M", complete=completion.methods),
    ] = None,
    plugin: options.Plugins = None,
    as_json: options.AsJson = False,
) -> None:
    """List every configuration key with its values, default, and meaning, or show one key.

    A run's own values: `htfl-sim show NAME`, or `htfl-sim presets NAME`.

    \b
    Examples
      htfl-sim config
      htfl-sim config training.lr
      htfl-sim config method.mu
      htfl-sim config --method fedlora
    """
    options.load_plugins(plugin)
    found = hs.catalog.settings(key, method)
    if as_json:
        output.emit([asdict(each) for each in found])
    elif key is not None:
        for number, each in enumerate(found):
            output.show(*([""] if number else []), output.facts(_facts(each)))
    else:
        rows = [[each.key, each.takes, _default(each), each.description] for each in found]
        output.show(output.table(["key", "takes", "default", "meaning"], rows))
        if not method:
            output.say(
                "A method's own keys: htfl-sim config --method M, or htfl-sim config method.KEY", "dim"
            )


def partition(
    name: Annotated[
        str, options.argument("NAME", completion.sessions, "Name or path of a session, or name of a preset.")
    ],
    settings: options.Settings = None,
    sessions_dir: options.SessionsDir = None,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Show the partition: training samples per class and client, and the sizes of the parts.

    \b
    Examples
      htfl-sim partition mu07
      htfl-sim partition fedlora_htm5 --set data.partition=dirichlet --set data.alpha=0.1
      htfl-sim partition mu07 --json
    """
    found = hs.sessions.partition(name, settings or (), sessions_dir=sessions_dir, data_dir=data_dir)
    if as_json:
        output.emit(list(found.rows()))
    else:
        output.show(_table(found))


def _table(found: "Partition") -> Any:
    """One row per class and one column per client, then the sizes of the parts.

    A dot is a class that a client lacks.
    """
    clients = range(len(found.train))
    rows: list[list[object]] = [
        [
            name,
            *(found.train[client][label] or "·" for client in clients),
            sum(each[label] for each in found.train),
        ]
        for label, name in enumerate(found.classes)
    ]
    for part, counts in (("train", found.train), ("eval", found.eval), ("test", found.test)):
        sizes = [sum(counts[client]) for client in clients]
        rows.append([f"all {part}", *sizes, sum(sizes)])
    return output.table(["class", *(f">{client}" for client in clients), ">all"], rows)


def _facts(each: "Setting") -> list[tuple[str, object]]:
    return [
        ("key", each.key),
        ("takes", each.takes),
        ("default", _default(each)),
        ("meaning", each.description or None),
        ("methods", ", ".join(each.methods) or None),
        ("set it", f"--set {each.key}=VALUE"),
    ]


def _default(each: "Setting") -> str:
    return UNSET if each.default is None else hs.catalog.toml_value(each.default)
