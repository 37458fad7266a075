"""The names a module offers, with signatures and docstrings of the source, as Markdown."""

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

Definition = ast.ClassDef | ast.FunctionDef


def reference(module: str, *names: str) -> str:
    """These names of a module, or all that it offers, in order; modules in it have a part of their own."""
    found = importlib.import_module(module)
    offered = {name: getattr(found, name) for name in names or found.__all__}
    return "\n".join(_entry(name, each) for name, each in offered.items() if not inspect.ismodule(each))


def _entry(name: str, value: Any) -> str:
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return f"### {name}\n\n`{value!r}`\n"
    definition = _definition(value)
    parts = [f"### {name}\n", _code(_head(definition)), _about(definition)]
    if isinstance(definition, ast.ClassDef):
        for member in _members(definition):
            parts += [f"#### {name}.{member.name}\n", _code(_head(member)), _about(member)]
    return "\n".join(parts)


def _definition(value: Any) -> Definition:
    node = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    assert isinstance(node, Definition)
    return node


def _members(definition: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    """Its public methods and properties that have something to say."""
    for node in definition.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and ast.get_docstring(node):
            yield node


def _head(definition: Definition) -> str:
    if isinstance(definition, ast.FunctionDef):
        return _signature(definition)
    bases = ", ".join(ast.unparse(base) for base in definition.bases)
    head = f"class {definition.name}({bases})" if bases else f"class {definition.name}"
    fields = [
        f"    {ast.unparse(node)}"
        for node in definition.body
        if isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_")
    ]
    return "\n".join([f"{head}:", *fields]) if fields else head


def _signature(definition: ast.FunctionDef) -> str:
    """On one line, or an argument on each where that would be long."""
    kinds = {ast.unparse(each) for each in definition.decorator_list}
    returned = ast.unparse(definition.returns).strip("'") if definition.returns else "None"
    if kinds & {"property", "cached_property"}:
        return f"{definition.name}: {returned}"
    arguments = _arguments(definition.args)
    line = f"{definition.name}({', '.join(arguments)}) -> {returned}"
    if len(line) <= 100:
        return line
    return "\n".join([f"{definition.name}(", *(f"    {each}," for each in arguments), f") -> {returned}"])


def _arguments(given: ast.arguments) -> list[str]:
    """Every argument with its type and default, but for the object itself."""
    apart = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(apart) - len(given.defaults)) + [*given.defaults]
    said = [
        _argument(each, default)
        for each, default in zip(apart, defaults, strict=True)
        if each.arg not in ("self", "cls")
    ]
    if given.vararg:
        said.append(f"*{_argument(given.vararg, None)}")
    elif given.kwonlyargs:
        said.append("*")
    said += [_argument(*pair) for pair in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return said + ([f"**{_argument(given.kwarg, None)}"] if given.kwarg else [])


def _argument(given: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(given.annotation)}" if given.annotation else ""
    return f"{given.arg}{kind}" + (f" = {ast.unparse(default)}" if default else "")


def _about(definition: Definition) -> str:
    return f"{ast.get_docstring(definition) or ''}\n"


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n"
