"""What the built-in methods declare: their cards and their settings, without the code that computes.

Importing a method imports torch, which takes seconds. Listings, completion, and checks of a configuration need only its
attributes `card`, `answers`, and `Config`. They are evaluated from the method's own source, with no more statements of
the module than they use.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from simulator.base.sections import MethodConfig

PACKAGE = "simulator.methods"
MOVES_LESS = "moves the server by its change, or less far towards it"
"""What a stale uplink of averaged weights does. Local training begins with the downlink's tensors of equal names."""
COUNTS_FULLY = "counts like any other"
"""What the uplink of a client does that has not taken all its steps."""
BY_ITS_STEPS = "counts by the number of its steps"
"""The same where the method knows that number."""


@dataclass(frozen=True)
class Card:
    """A method's entry in listings: its description, its source, its needs, and its messages.

    stale: what a stale uplink does, or nothing if the method takes none. partial: the same for the uplink of a client
    that has taken only the first steps of its training, which is then in one phase.
    """

    title: str
    paper: str
    kind: str
    needs: str
    down: str
    up: str
    stale: str = ""
    partial: str = ""


class Declared:
    """A method's class as its source declares it."""

    def __init__(self, name: str, module: "_Module", node: ast.ClassDef) -> None:
        self.name = name
        self._module = module
        self._node = node

    @cached_property
    def card(self) -> Card:
        """Its entry in listings."""
        card: Card = self._declared("card")
        return card

    @cached_property
    def answers(self) -> Literal["local", "aggregated"]:
        """The default model that is evaluated."""
        answers: Literal["local", "aggregated"] = self._declared("answers")
        return answers

    @cached_property
    def Config(self) -> type[MethodConfig]:
        """Its settings. The imported method has this class too, and not the one that its module makes."""
        config: type[MethodConfig] = self._declared("Config")
        return config

    def _declared(self, attribute: str) -> Any:
        """The attribute of the class, or of the first of its bases that has it."""
        for each in self._node.body:
            match each:
                case (
                    ast.Assign(targets=[ast.Name(name)], value=value)
                    | ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value)
                ) if name == attribute:
                    return self._module.evaluated(value)
                case ast.AnnAssign(ast.Name("config"), section, None) if attribute == "Config":
                    return self._module.evaluated(section)
        bases = map(self._module.evaluated, self._node.bases)
        return next(getattr(base, attribute) for base in bases if hasattr(base, attribute))


@cache
def modules() -> dict[str, str]:
    """The module of each built-in method, without its package."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return {
        name: file.stem
        for file in files
        for name in re.findall(r'^@register\("(\w+)"\)', file.read_text(encoding="utf-8"), re.MULTILINE)
    }


@cache
def declared(name: str) -> Declared:
    """A built-in method. Raises KeyError for any other name."""
    return _Module(modules()[name]).registered[name]


def settings(name: str) -> type[MethodConfig]:
    """The settings of a built-in method. Of any other, which may not be loaded, only those that all methods have."""
    return declared(name).Config if name in modules() else MethodConfig


@cache
class _Module:
    """A module of methods. Its statements run one by one, when something that is evaluated uses their names."""

    def __init__(self, name: str) -> None:
        statements = ast.parse(Path(__file__).with_name(f"{name}.py").read_bytes()).body
        self._waiting = {bound: each for each in statements for bound in _bound(each)}
        self._names: dict[str, Any] = {"__name__": f"{PACKAGE}.{name}"}
        self.registered: dict[str, Declared] = {}
        for each in statements:
            if isinstance(each, ast.ClassDef) and not each.name.endswith("Config"):
                self._names[each.name] = made = Declared(each.name, self, each)
                match each.decorator_list:
                    case [ast.Call(func=ast.Name("register"), args=[ast.Constant(str(method))])]:
                        made.name = method
                        self.registered[method] = made

    def evaluated(self, expression: ast.expr) -> Any:
        """The value of an expression of the module."""
        self._provide(expression)
        return eval(compile(ast.Expression(expression), str(self._names["__name__"]), "eval"), self._names)

    def _provide(self, node: ast.AST) -> None:
        """Run the statements that bind the names in `node`."""
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and each.id in self._waiting and each.id not in self._names:
                self._run(each.id, self._waiting.pop(each.id))

    def _run(self, name: str, statement: ast.stmt) -> None:
        if not (isinstance(statement, ast.ImportFrom) and statement.module):
            self._provide(statement)
            exec(compile(ast.Module([statement], []), str(self._names["__name__"]), "exec"), self._names)
            return
        [original] = [each.name for each in statement.names if name == (each.asname or each.name)]
        module = statement.module if statement.module != PACKAGE else f"{PACKAGE}.base"
        package, _, other = module.rpartition(".")
        read = package == PACKAGE and statement.module != __name__
        self._names[name] = (
            _Module(other).evaluated(ast.Name(original, ast.Load(), lineno=1, col_offset=0))
            if read
            else getattr(import_module(statement.module), original)
        )


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module binds."""
    match statement:
        case ast.ImportFrom(names=names) | ast.Import(names=names):
            yield from (each.asname or each.name for each in names)
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
            yield name
