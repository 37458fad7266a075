"""The keys of the methods' own settings and their ranges, read from the source text, because importing takes seconds.

Completion needs the keys at every key press, and the app the ranges.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from simulator.base.space import Choice, Limits, Linear, Log, Range, Space
from simulator.config import limits_of
from simulator.results.analysis import static_names


@dataclass(frozen=True)
class _Class:
    """A class as its text has it: its bases, the annotated names in it, what `Config` is set to, its method's name."""

    bases: tuple[str, ...]
    fields: tuple[str, ...]
    config: str | None
    registered: str | None
    space: Space | None = None
    answers: str | None = None
    kind: str | None = None
    limits: Mapping[str, Limits] = field(default_factory=dict)


def method_keys(method: str | None = None) -> list[str]:
    """The keys of a built-in method's section, without `name`; of all of them for None, and for an unknown one."""
    by_method = _by_method()
    chosen = (
        by_method[method] if method in by_method else [key for keys in by_method.values() for key in keys]
    )
    return sorted(set(chosen))


def method_space(method: str) -> Space:
    """The declared ranges of a built-in method's settings, without `method.`; none of an unknown one."""
    return _spaces().get(method, {})


def limits(key: str, method: str) -> Limits:
    """What numbers a setting may have, by its dotted key; nothing is known of a method of the user's."""
    section, _, name = key.partition(".")
    if section != "method":
        return limits_of(key)
    known = (_known()[each].limits for each in _bases(_configs().get(method, "")))
    return next((each[name] for each in known if name in each), {})


def evaluated(method: str) -> str:
    """Which weights of a client's model a method evaluates by default: 'local', or 'aggregated' for received ones.

    Methods that receive no weights of the model evaluate the client's own, also if they use what they receive next. A
    method of the user's counts as 'local'.
    """
    known = _known()
    name = next((name for name, each in known.items() if each.registered == method), "Method")
    every = [known[each] for each in _bases(name)]
    answers = next((each.answers for each in every if each.answers), "local")
    kind = next((each.kind for each in every if each.kind), None)
    return answers if kind == "weights" else "local"


def _bases(name: str) -> Iterator[str]:
    """A class and all of its bases, each before its own."""
    if name in _known():
        yield name
        for base in _known()[name].bases:
            yield from _bases(base)


@cache
def _spaces() -> dict[str, Space]:
    return {method: _space(config, _known()) for method, config in _configs().items()}


def _space(name: str, known: dict[str, _Class]) -> Space:
    """The ranges of a configuration's class, its own or those of the first of its bases that has some."""
    here = known.get(name)
    if here is None:
        return {}
    return (
        here.space
        if here.space is not None
        else next(filter(None, (_space(base, known) for base in here.bases)), {})
    )


@cache
def _known() -> dict[str, _Class]:
    return dict(each for path in static_names.method_files() for each in _classes(path))


@cache
def _by_method() -> dict[str, list[str]]:
    return {method: _fields(config, _known()) for method, config in _configs().items()}


@cache
def _configs() -> dict[str, str]:
    """The name of each method's class of settings; "" for none."""
    known = _known()
    return {
        each.registered: _config(name, known) for name, each in known.items() if each.registered is not None
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
            about = (tuple(_annotated(node)), _set_config(node), _registered(node), _set_space(node))
            yield node.name, _Class(bases, *about, _set_answers(node), _kind(node), dict(_limited(node)))


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


def _limited(node: ast.ClassDef) -> Iterator[tuple[str, Limits]]:
    """The limits of a configuration's fields, as far as they are plain numbers."""
    for each in node.body:
        match each:
            case ast.AnnAssign(target=ast.Name(name), value=ast.Call(func=ast.Name("Field"), keywords=given)):
                yield (
                    name,
                    {
                        str(one.arg): one.value.value
                        for one in given
                        if one.arg in ("gt", "ge", "lt", "le")
                        and isinstance(one.value, ast.Constant)
                        and isinstance(one.value.value, int | float)
                    },
                )


def _set_config(node: ast.ClassDef) -> str | None:
    for each in node.body:
        match each:
            case ast.Assign(targets=[ast.Name("Config")], value=ast.Name(name)):
                return name
            case ast.AnnAssign(target=ast.Name("Config"), value=ast.Name(name)):
                return name
    return None


def _set_space(node: ast.ClassDef) -> Space | None:
    for each in node.body:
        match each:
            case ast.AnnAssign(target=ast.Name("space"), value=ast.Dict(keys, values)):
                found = zip(keys, map(_range, values), strict=True)
                return {str(ast.literal_eval(key)): one for key, one in found if key and one}
    return None


def _set_answers(node: ast.ClassDef) -> str | None:
    for each in node.body:
        match each:
            case ast.Assign(targets=[ast.Name("answers")], value=ast.Constant(str(value))):
                return value
    return None


def _kind(node: ast.ClassDef) -> str | None:
    """What kind of method the card says it is."""
    for each in node.body:
        match each:
            case ast.Assign(targets=[ast.Name("card")], value=ast.Call(keywords=given)):
                return next((one.value.value for one in given if one.arg == "kind"), None)  # type: ignore[attr-defined]
    return None


def _range(call: ast.expr) -> Range | None:
    match call:
        case ast.Call(func=ast.Name("Log" | "Linear" | "Choice" as kind), args=given):
            values = [ast.literal_eval(each) for each in given]
            kinds: dict[str, type[Range]] = {"Log": Log, "Linear": Linear, "Choice": Choice}
            return kinds[kind](*values)
    return None


def _registered(node: ast.ClassDef) -> str | None:
    for each in node.decorator_list:
        match each:
            case ast.Call(func=ast.Name("register"), args=[ast.Constant(str(name)), *_]):
                return name
    return None
