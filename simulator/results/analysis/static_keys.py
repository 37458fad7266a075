"""The keys of the methods' own settings, read from the source text: completion needs them at every key press."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from simulator.results.analysis import static_names


@dataclass(frozen=True)
class _Class:
    """A class as its text has it: its bases, the annotated names in it, what `Config` is set to, its method's name."""

    bases: tuple[str, ...]
    fields: tuple[str, ...]
    config: str | None
    registered: str | None


def method_keys(method: str | None = None) -> list[str]:
    """The keys of a built-in method's section, without `name`; of all of them for None, and for an unknown one."""
    by_method = _by_method()
    chosen = (
        by_method[method] if method in by_method else [key for keys in by_method.values() for key in keys]
    )
    return sorted(set(chosen))


@cache
def _by_method() -> dict[str, list[str]]:
    known = dict(each for path in static_names.method_files() for each in _classes(path))
    return {
        each.registered: _fields(_config(name, known), known)
        for name, each in known.items()
        if each.registered is not None
    }


def _config(name: str, known: dict[str, _Class]) -> str:
    """The configuration of a method's class, its own or the first of its bases that has one."""
    here = known.get(name)
    if here is None:
        return ""
    return here.config or next(filter(None, (_config(base, known) for base in here.bases)), "")


def _fields(name: str, known: dict[str, _Class]) -> list[str]:
    here = known.get(name)
    return (
        [] if here is None else [*(key for base in here.bases for key in _fields(base, known)), *here.fields]
    )


def _classes(path: Path) -> Iterator[tuple[str, _Class]]:
    for node in static_names.parsed(path).body:
        if isinstance(node, ast.ClassDef):
            bases = tuple(base.id for base in node.bases if isinstance(base, ast.Name))
            yield node.name, _Class(bases, tuple(_annotated(node)), _set_config(node), _registered(node))


def _annotated(node: ast.ClassDef) -> Iterator[str]:
    """Fields of a configuration: annotated names, as long as the class is one."""
    if not node.name.endswith("Config"):
        return
    for each in node.body:
        match each:
            case ast.AnnAssign(target=ast.Name(name)) if not name.startswith("_") and name not in (
                "name",
                "space",
            ):
                yield name


def _set_config(node: ast.ClassDef) -> str | None:
    for each in node.body:
        match each:
            case ast.Assign(targets=[ast.Name("Config")], value=ast.Name(name)):
                return name
            case ast.AnnAssign(target=ast.Name("Config"), value=ast.Name(name)):
                return name
    return None


def _registered(node: ast.ClassDef) -> str | None:
    for each in node.decorator_list:
        match each:
            case ast.Call(func=ast.Name("register"), args=[ast.Constant(str(name)), *_]):
                return name
    return None
