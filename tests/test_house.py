"""The house: every import points down, no circle anywhere, no file too long to read."""

import ast
import functools
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib import resources
from pathlib import Path

import simulator

ROOT = Path(__file__).parents[1]

FLOORS = [
    "checkpoints", "presets",
    "simulator.base", "simulator.clock", "simulator.data", "simulator.models", "simulator.training",
    "simulator.methods",
    "simulator.runners", "simulator.metrics", "simulator.selection", "simulator.config", "simulator.engine",
    "simulator.sessions", "simulator.results", "simulator.contract", "simulator.studies",
    "htfl_sim",
    "tui.common", "tui.app", "tui.cli",
    "htfl_sim.command",
]  # fmt: skip
"""From the ground up; docs/architecture.md says what lives in each. A room imports only what stands before it."""

FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for room in ("checkpoints", "presets", "simulator", "htfl_sim", "tui")
    for path in sorted((ROOT / room).rglob("*.py"))
}
FACES = {"simulator", "tui"}
"""They offer what lies above them, by name and when asked for; nothing inside imports them."""


def imported(module: str) -> Iterator[str]:
    """The modules of the house that a module imports, anywhere in it, also inside functions and for types alone."""
    for node in ast.walk(ast.parse(FILES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in FILES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@functools.cache
def imports() -> dict[str, set[str]]:
    """Of every module, those of the house that it imports; read when a test asks, as it takes a while."""
    return {module: {other for other in imported(module) if other in FILES} for module in FILES}


def floor(module: str) -> int:
    """The number of the floor that a module stands on."""
    return max(
        number for number, room in enumerate(FLOORS) if module == room or module.startswith(f"{room}.")
    )


def test_every_module_has_a_floor() -> None:
    assert [module for module in FILES if module not in FACES and not any(
        module == room or module.startswith(f"{room}.") for room in FLOORS
    )] == []  # fmt: skip


def test_no_import_points_up() -> None:
    up = [
        f"{module} imports {other}"
        for module, others in imports().items()
        if module not in FACES
        for other in others
        if other in FACES or floor(other) > floor(module)
    ]
    assert up == []


def test_the_drawing_of_the_rooms_has_them_in_the_order_of_imports() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawing = page.partition("```text\n")[2].partition("```")[0].replace("── simulator ──", "")
    assert drawing.replace("─", "").split() == [room.removeprefix("simulator.") for room in reversed(FLOORS)]


def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as circle:
        raise AssertionError(" → ".join(circle.args[1])) from None


READ_BY_ALL = (
    "simulator.base.", "simulator.engine.progress", "simulator.metrics.significance", "simulator.results.",
    "simulator.sessions.history", "simulator.sessions.reader", "simulator.studies.",
)  # fmt: skip
"""What the commands and the app take of the simulator beside the public API: what is read and told of sessions."""


def test_the_commands_and_the_app_change_sessions_through_the_public_api_alone() -> None:
    assert [
        f"{module} imports {other}"
        for module in FILES
        if module.startswith("tui.")
        for other in imported(module)
        if other.split(".")[0] in ("simulator", "checkpoints", "presets")
        and not f"{other}.".startswith(READ_BY_ALL)
    ] == []


def test_no_file_is_over_1000_lines() -> None:
    lengths = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in FILES.items()}
    assert {module: lines for module, lines in lengths.items() if lines > 1000} == {}


UNTYPED = ("dict[str, Any]", "Mapping[str, Any]", "Json", "Raw")
"""An object of JSON of which nothing is known."""
COMMAND_LINES = (
    "checkpoints.layout", "checkpoints.lock",  # commands that take a session over, or fork it
    "simulator.results.analysis.reproduction",  # what computes a session
    "simulator.results.report.contents",  # what draws a figure
    "simulator.results.figures.clients", "simulator.runners.local", "simulator.sessions.history",
    "simulator.sessions.session",
    "simulator.sessions.committing", "simulator.studies.sweep",  # one command with its options as the remedy
    "simulator.studies.slurm",  # a script for the shell
    "simulator.runners.ray.cluster",  # Ray's own command
    "simulator.results.analysis.why",  # the commands that measure what is missing
    "simulator.data.datasets",  # pip's
    "simulator.data.other_tools",  # the command that allows to unpickle
)  # fmt: skip
"""They write whole command lines, and so know flags."""


def test_texts_below_the_public_api_name_no_flag_but_in_a_command_line() -> None:
    """An error names arguments and keys; tui.common.errors shows them as flags, and Python as they are."""
    assert [
        f"{module}:{node.lineno}: {node.value}"
        for module, file in FILES.items()
        if module.startswith(("simulator", "checkpoints")) and module not in COMMAND_LINES
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.search(r"(?<![\w-])--[a-z]", node.value)
    ] == []


DOCUMENTS = ("record", "records", "event", "events", "document", "history", "manifest")
BOUNDARY = (
    "checkpoints",  # it keeps JSON for others, and knows nothing of rounds
    "simulator.base.record.check_record",
    "simulator.base.documents.check_document", "simulator.base.documents.check_event",
    "simulator.sessions.reader.CheckedReader", "simulator.sessions.reader._fault_of",
    "simulator.sessions.metadata.of_new",
)  # fmt: skip
"""Where JSON becomes a record, an event, or a document."""


def signatures(module: str) -> Iterator[tuple[str, str, str]]:
    """Of every function and class of a module, its name, and each name that it annotates, with the annotation."""

    def walk(node: ast.AST, path: str) -> Iterator[tuple[str, str, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                where = f"{path}.{child.name}"
                if isinstance(child, ast.FunctionDef):
                    arguments = [*child.args.posonlyargs, *child.args.args, *child.args.kwonlyargs]
                    yield from (
                        (where, each.arg, ast.unparse(each.annotation))
                        for each in arguments
                        if each.annotation
                    )
                    if child.returns:
                        yield where, child.name, ast.unparse(child.returns)
                yield from walk(child, where)
            elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
                yield path, child.target.id, ast.unparse(child.annotation)

    return walk(ast.parse(FILES[module].read_text(encoding="utf-8")), module)


def test_records_events_and_documents_have_their_types_outside_the_json_boundary() -> None:
    """A parameter, a field, or a function of such a name takes or returns no object of which nothing is known."""
    assert [
        f"{where}: {name}: {annotation}"
        for module in FILES
        for where, name, annotation in signatures(module)
        if name in DOCUMENTS
        and any(re.search(rf"(?<!\w){re.escape(untyped)}(?!\w)", annotation) for untyped in UNTYPED)
        and not any(where == room or where.startswith(f"{room}.") for room in BOUNDARY)
    ] == []


def test_no_message_of_the_packages_names_a_page() -> None:
    """A wheel has no pages: errors, help, and descriptions of keys name commands. Comments and docstrings may."""
    silent = ("simulator.", "checkpoints.", "presets.", "tui.app")  # help shows the docstrings of the others

    def docstrings(tree: ast.Module) -> set[int]:
        bodies = [
            each.body
            for each in ast.walk(tree)
            if isinstance(each, ast.Module | ast.ClassDef | ast.FunctionDef)
        ]
        return {id(body[0].value) for body in bodies if body and isinstance(body[0], ast.Expr)}

    found = []
    for module, file in FILES.items():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        quiet = docstrings(tree) if module.startswith(silent) else set()
        found += [
            f"{module}:{node.lineno}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            if re.search(r"docs/[\w/-]+\.md", node.value) and id(node) not in quiet
        ]
    assert found == []


def test_every_public_name_is_what_it_says_even_after_its_module_was_imported() -> None:
    for module in ("engine", "sessions", "config", "results"):
        importlib.import_module(f"simulator.{module}")
    assert all(callable(getattr(simulator, name)) for name in simulator.__all__)


def test_reading_a_configuration_module_loads_no_torch() -> None:
    code = "import sys, simulator.config, presets, checkpoints; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_package_says_that_it_is_typed() -> None:
    for package in ("checkpoints", "htfl_sim", "presets", "simulator", "tui"):
        assert resources.files(package).joinpath("py.typed").is_file()
