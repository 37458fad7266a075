"""The house: every import points down, no circle anywhere, no file too long to read."""

import ast
import functools
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]

FLOORS = [
    "checkpoints", "presets",
    "simulator.errors", "simulator.units", "simulator.sections", "simulator.nested", "simulator.names",
    "simulator.own_files", "simulator.rng", "simulator.record", "simulator.documents",
    "simulator.tensors", "simulator.environment", "simulator.devices", "simulator.off_device",
    "simulator.data", "simulator.models", "simulator.federation", "simulator.training", "simulator.methods",
    "simulator.config", "simulator.reference", "simulator.idle",
    "simulator.wire", "simulator.runners", "simulator.metrics", "simulator.progress",
    "simulator.own",
    "simulator.client_states", "simulator.engine", "simulator.builder", "simulator.sessions", "simulator.contract",
    "simulator.inspection", "simulator.analysis", "simulator.figures", "simulator.report", "simulator.studies",
    "simulator.export",
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


def test_the_commands_call_the_public_api_alone() -> None:
    below = ("simulator", "checkpoints", "presets")
    assert [
        f"{module} imports {other}"
        for module in FILES
        if module.startswith("tui.cli")
        for other in imported(module)
        if other.split(".")[0] in below
    ] == []


def test_no_file_is_over_450_lines() -> None:
    lengths = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in FILES.items()}
    assert {module: lines for module, lines in lengths.items() if lines > 450} == {}
