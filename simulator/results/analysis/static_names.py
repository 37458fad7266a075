"""Names of methods, model groups and models, read from the source text: importing them would import torch."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from simulator.base.errors import ConfigError
from simulator.base.own_files import LARGEST
from simulator.base.reading import read_bytes


def methods(plugins: Iterable[Path] = ()) -> tuple[str, ...]:
    """The names in `@register("…")` of simulator/methods and of the plugin files, and what installed packages offer."""
    offered = [point.name for point in entry_points(group="htfl_sim.methods")]
    own = [name for path in plugins for name in _of_plugin(path)]
    return tuple(sorted({*_built_in(), *offered, *own}))


@cache
def _built_in() -> tuple[str, ...]:
    return tuple(name for path in method_files() for name in _registered(parsed(path)))


@cache
def titles() -> dict[str, str]:
    """What papers call the built-in methods, by name: 'FedLoRA' for 'fedlora'."""
    found: dict[str, str] = {}
    for path in method_files():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                names = [name for decorator in node.decorator_list for name in _registered_by(decorator)]
                found |= {name: title for name in names for title in _title(node)}
    return found


def method_files() -> list[Path]:
    """The files of the built-in methods."""
    return sorted((_simulator() / "methods").glob("*.py"))


@cache
def groups() -> dict[str, tuple[str, ...]]:
    """The model groups, by name."""
    for node in parsed(_simulator() / "models" / "groups.py").body:
        match node:
            case ast.AnnAssign(target=ast.Name("GROUPS"), value=ast.Dict() as value):
                return dict(ast.literal_eval(value))
    return {}


def models() -> list[str]:
    """The models that are in a group."""
    return list(dict.fromkeys(model for members in groups().values() for model in members))


def assigned(group: object, client: int) -> str | None:
    """The model of a client (i mod X) of a group as a configuration names it; None for an unknown group."""
    known = members(group)
    return known[client % len(known)] if known else None


def members(group: object) -> tuple[str, ...]:
    """The models of a group as a configuration names it; none for an unknown group."""
    known = groups().get(group, (group,)) if isinstance(group, str) else group
    return tuple(map(str, known)) if isinstance(known, list | tuple) else ()


def _of_plugin(path: Path) -> list[str]:
    """What a plugin registers; nothing where it cannot be read: running it will say why."""
    try:
        return list(_registered(parsed(Path(path).expanduser())))
    except (ConfigError, ValueError, SyntaxError):
        return []


def _registered(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        yield from _registered_by(node)


def _registered_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Name("register"), args=[ast.Constant(str(name)), *_]):
            yield name


def _title(method: ast.ClassDef) -> Iterator[str]:
    """The title on the card of a method's class."""
    for node in method.body:
        match node:
            case ast.Assign(targets=[ast.Name("card")], value=ast.Call(args=[ast.Constant(str(title)), *_])):
                yield title
            case ast.Assign(targets=[ast.Name("card")], value=ast.Call(keywords=given)):
                yield from (
                    str(each.value.value)
                    for each in given
                    if each.arg == "title" and isinstance(each.value, ast.Constant)
                )


def parsed(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(read_bytes(path, most=LARGEST))


def _simulator() -> Path:
    spec = find_spec("simulator")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent
