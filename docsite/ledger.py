"""The table of a ledger record's keys, made from its types and its scalars."""

import ast
import inspect
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin

from typing_extensions import get_type_hints, is_typeddict

from checkpoints.schema import Also, InJson, Share
from simulator.base.record import SCALARS, Record, When

HEAD = "| key | type | setting | column | meaning |\n|---|---|---|---|---|\n"
_WORDS = {int: "whole number", float: "number", str: "text", bool: "true or false", NoneType: "null"}


def table() -> str:
    """Every key of a record: its type, the setting that it needs, its column in tables of rounds, and its meaning."""
    columns: dict[str, list[str]] = {}
    for scalar in SCALARS:
        for path in scalar.paths:
            columns.setdefault(path, []).append(f"`{scalar.column}`")
    rows = [
        f"| `{key}` | {kind} | {f'`{when}`' if when else ''} | {', '.join(columns.get(key, ()))} | {text} |"
        for key, kind, when, text in _rows()
    ]
    return HEAD + "\n".join(row.replace("|  |", "| |").replace("|  |", "| |") for row in rows) + "\n"


def _rows() -> Iterator[tuple[str, str, str, str]]:
    yield from _of_object(Record, "", "", "")


def _of_object(kind: Any, path: str, when: str, about: str) -> Iterator[tuple[str, str, str, str]]:
    described = _described(get_origin(kind) or kind)
    given = dict(zip(getattr(get_origin(kind), "__parameters__", ()), get_args(kind), strict=True))
    for name, hint in get_type_hints(get_origin(kind) or kind, include_extras=True).items():
        text = described.get(name, "")
        yield from _of_value(hint, f"{path}{name}", when, ": ".join(filter(None, (about, text))), given)


def _of_value(
    hint: Any, path: str, when: str, text: str, given: dict[Any, Any]
) -> Iterator[tuple[str, str, str, str]]:
    hint, rules = _bare(hint, given)
    when = next((rule.setting for rule in rules if isinstance(rule, When)), when)
    arms = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    first = next(each for each in (_bare(arm, given)[0] for arm in arms) if each is not NoneType)
    if is_typeddict(get_origin(first) or first):
        if NoneType in arms:
            yield path, "null", "", text
            text = ""
        yield from _of_object(first, f"{path}.", when, text)
    elif get_origin(first) is list and (kinds := _objects(*_bare(get_args(first)[0], given))):
        for kind in kinds:
            yield from _of_object(kind, f"{path}[].", when, text)
    elif len(arms) == 1 and get_origin(first) is dict and get_args(first)[1] is not Any:
        yield from _of_value(get_args(first)[1], f"{path}.*", when, text, given)
    else:
        yield path, _in_words(hint, given), when, text


def _objects(hint: Any, rules: list[Any]) -> list[Any]:
    """The types that describe an object, if they name its keys."""
    if is_typeddict(hint):
        return [hint]
    return [kind for rule in rules if isinstance(rule, Also) for kind in rule.kinds]


def _in_words(hint: Any, given: dict[Any, Any]) -> str:
    """A type as the page has it: 'list of share or null'."""
    if given.get(hint, hint) == Share:
        return "share"
    hint, _ = _bare(hint, given)
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        lists = [each for each in parts if get_origin(_bare(each, given)[0]) is list]
        return " or ".join(_in_words(each, given) for each in lists or parts)
    if origin is list:
        return f"list of {_in_words(parts[0], given)}"
    return "object" if origin is dict else _WORDS[hint]


def _bare(hint: Any, given: dict[Any, Any]) -> tuple[Any, list[Any]]:
    """The type without what is said of it, and that."""
    rules: list[Any] = []
    while True:
        hint = given.get(hint, hint)
        if get_origin(hint) is NotRequired:
            hint = get_args(hint)[0]
        elif get_origin(hint) is Annotated:
            rules += hint.__metadata__
            hint = next(
                (rule.kind for rule in hint.__metadata__ if isinstance(rule, InJson)), hint.__origin__
            )
        else:
            return hint, rules


def _described(kind: type) -> dict[str, str]:
    """The text under each key of a type, those of the types that it extends included."""
    found: dict[str, str] = {}
    classes = {
        node.name: node
        for node in ast.parse(inspect.getsource(inspect.getmodule(kind) or kind)).body
        if isinstance(node, ast.ClassDef)
    }
    names = [kind.__name__]
    while names:
        node = classes[names.pop()]
        names += [base.id for base in node.bases if isinstance(base, ast.Name) and base.id in classes]
        for key, text in zip(node.body, node.body[1:], strict=False):
            if isinstance(key, ast.AnnAssign) and isinstance(key.target, ast.Name) and _is_text(text):
                found[key.target.id] = " ".join(ast.literal_eval(text.value).split())  # type: ignore[attr-defined]
    return found


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
