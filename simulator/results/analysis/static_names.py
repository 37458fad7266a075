"""Names of methods, model groups and models, without torch, which importing them would import."""

import ast
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from simulator.base.errors import ConfigError
from simulator.base.federation_section import GROUPS
from simulator.base.own_files import LARGEST
from simulator.base.reading import read_bytes
from simulator.methods import declarations


def methods(plugins: Iterable[Path] = ()) -> tuple[str, ...]:
    """The built-in methods, those in `@register("…")` of the plugin files, and what installed packages offer."""
    offered = [point.name for point in entry_points(group="htfl_sim.methods")]
    own = [name for path in plugins for name in _of_plugin(path)]
    return tuple(sorted({*declarations.modules(), *offered, *own}))


@cache
def titles() -> dict[str, str]:
    """What papers call the built-in methods, by name: 'FedLoRA' for 'fedlora'."""
    return {name: declarations.declared(name).card.title for name in declarations.modules()}


def models() -> list[str]:
    return list(dict.fromkeys(model for members in GROUPS.values() for model in members))


def assigned(group: object, client: int) -> str | None:
    """The model of a client (i mod X) of a group as a configuration names it; None for an unknown group."""
    known = members(group)
    return known[client % len(known)] if known else None


def members(group: object) -> tuple[str, ...]:
    """The models of a group as a configuration names it; none for an unknown group."""
    known = GROUPS.get(group, (group,)) if isinstance(group, str) else group
    return tuple(map(str, known)) if isinstance(known, list | tuple) else ()


def _of_plugin(path: Path) -> list[str]:
    """What a plugin registers; nothing where it cannot be read: running it will say why."""
    found = []
    with suppress(ConfigError, ValueError, SyntaxError):
        for node in ast.walk(ast.parse(read_bytes(Path(path).expanduser(), most=LARGEST))):
            match node:
                case ast.Call(func=ast.Name("register"), args=[ast.Constant(str(name)), *_]):
                    found.append(name)
    return found
