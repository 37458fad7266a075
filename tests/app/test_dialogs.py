"""Every dialog at every size, as text. After a change that is meant: HTFL_SNAPSHOTS=write pytest on this file.

In ASCII and without colours they are looked at in one size: what these change is the same at the others.
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.events import MouseDown, MouseMove, MouseUp
from textual.widgets import Input

from htfl_sim.configuring import Choices
from simulator.results.analysis.events import Effect, Window
from simulator.results.analysis.ledger import Ledger
from simulator.results.analysis.run import SessionData
from tests import sessions
from tests.app.driving import driven, method_choice, opened, text, until
from tests.app.panels.stage import read
from tui.app.app import HtflApp
from tui.app.dialogs.base import SMALLEST, Choose, Dialog, Text, TooSmall, confirm
from tui.app.dialogs.pages import EffectDialog, Help, WhyDialog
from tui.app.dialogs.run_forms import ForkDialog, NewRunDialog, ResumeDialog, ShadowDialog, SwitchDialog
from tui.app.dialogs.upkeep import AttachDialog
from tui.app.view import View

FOLDER = Path(__file__).parent / "snapshots" / "dialogs"
MIDDLE = (120, 40)
SIZES = ((80, 24), MIDDLE, (200, 60))
OBSTACLE = "needs nested architectures: client 1 (cnn2) has 'conv2.weight' [16, 16, 5, 5], cnn1 has it [32, 16, 5, 5]"
EPOCHS = (("server_epochs", "1", "epochs E_s"),)
ADAPTER = (("mu", "0.9", "μ, weight of the local loss"), ("hidden", None, "hidden width"))
CHOICES = [
    method_choice("fedgh", "FedGH", "the same head on every client", None, EPOCHS),
    method_choice(
        "fedlora", "FedLoRA", "the same width of the representation the adapter reads", None, ADAPTER
    ),
    method_choice("heteroavg", "HeteroAvg", "nested architectures", OBSTACLE, ()),
    method_choice("standalone", "Standalone", "nothing", None, ()),
]
KNOWN = [(choice.name, choice.title) for choice in CHOICES]


def counted(run: SessionData) -> SessionData:
    """The run with counts by class of client 1, which lost class 4 in the last round, and with the clients' data."""
    records: list[Any] = [{**record} for record in run.records]
    counts = [[4, 5, 4, 5], [7, 9, 8, 9]], [[4, 5, 1, 2], [7, 9, 8, 12]]
    for record, rows in zip(records[-2:], counts, strict=True):
        measured = {"mean": 0.5, "weighted": 0.5, "per_client": [0.5] * 4}
        part = {"accuracy": measured, "loss": measured, "f1": measured}
        record["evaluation"] = {"test": part | {"classes": {"per_client": [None, rows, None, None]}}}
    more = {"samples": sessions.samples(4), "parameters": {"cnn1": 582026, "cnn2": 281354}}
    return replace(run, ledger=Ledger.of(records), document=run.document | more)  # type: ignore[operator]


BEFORE = Window("main", "fedlora", 3, 12, 0.612, 0.021, 2_400_000, 2.5, None)
AFTER = Window("main", "fedssa", 13, 20, 0.702, 0.011, 800_000, 3.0, None)
BESIDE = Window("parent", "fedlora", 13, 20, 0.688, 0.01, 2_400_000, 2.5, None)
EFFECTS = [
    Effect(12, "fork", ("method fedlora → fedssa",), BEFORE, AFTER, BESIDE, "parent"),
    Effect(2, "switch", ("training.lr 0.01 → 0.005",), None, BEFORE),
]

DIALOGS: dict[str, Callable[[SessionData, Path], Dialog[Any]]] = {
    "attach": lambda run, home: AttachDialog(home, lambda: [("main", "finished"), ("other", "running")]),
    "choose": lambda run, home: Choose(
        "Leave", "main runs here.", [("keep", "keep training", "without the app")]
    ),
    "confirm": lambda run, home: confirm("Stop main?", "The clients at work finish and are kept.", "stop"),
    "effect": lambda run, home: EffectDialog("main", EFFECTS),
    "fork": lambda run, home: ForkDialog(run, 7, home, KNOWN),
    "help": lambda run, home: Help("live"),
    "new_run": lambda run, home: NewRunDialog(home, Path("data"), Choices(preset="fedlora_htm5")),
    "resume": lambda run, home: ResumeDialog(run),
    "shadow": lambda run, home: ShadowDialog(run, 7, home, KNOWN, None),
    "switch": lambda run, home: SwitchDialog(run.config, CHOICES, "Takes hold at the end of the round."),
    "text": lambda run, home: Text("Wrote main-again.txt", "htfl-sim run --session main-again"),
    "why": lambda run, home: WhyDialog(View(counted(run), client=1)),
}


def check(name: str, shown: str) -> None:
    file = FOLDER / f"{name}.txt"
    if os.environ.get("HTFL_SNAPSHOTS") == "write":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8"), f"{name} looks different"


def unreadable(app: HtflApp) -> list[str]:
    """What the screen on top writes in the colour it writes on."""
    segments = (segment for row in app.screen._compositor.render_strips() for segment in row)
    return [
        each.text
        for each in segments
        if each.text.strip() and each.style and each.style.color == each.style.bgcolor
    ]


async def pictures(
    name: str,
    home: Path,
    sizes: Sequence[tuple[int, int]] = SIZES,
    *,
    glyphs: Any = "braille",
    legible: bool = False,
) -> dict[tuple[int, int], str]:
    """The dialog at each size, its terminal being resized under it."""
    app = opened(home, None, glyphs=glyphs)
    seen: dict[tuple[int, int], str] = {}

    async with driven(app, sizes[0]) as pilot:
        dialog = DIALOGS[name](read(home / "main"), home)
        app.push_screen(dialog)
        await until(pilot, lambda: app.screen is dialog)
        for size in sizes:
            await pilot.resize_terminal(*size)
            await pilot.pause()
            await pilot.pause()
            seen[size] = text(app)
            assert not legible or unreadable(app) == []
    return seen


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "fork" else pytest.mark.long) for name in DIALOGS]
)
async def test_a_dialog_holds_at_each_size(name: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each size its last line is in sight, also in the smallest terminal."""
    seen = await pictures(name, home, [*SIZES, SMALLEST])
    for (width, height), shown in seen.items():
        lines = shown.splitlines()
        last = [
            row for row, line in enumerate(lines) if re.search("esc (cancel|close|skip)|^ *│ *close", line)
        ]
        assert last, f"its last line is out of sight at {width}×{height}"
        assert any("╰" in line and "╯" in line for line in lines[last[0] :])
        if (width, height) != SMALLEST:
            assert shown.count("╭") == shown.count("╯") == 1
            check(f"{name}-{width}x{height}", shown)
    [in_ascii] = (await pictures(name, home, [MIDDLE], glyphs="ascii")).values()
    assert in_ascii.isascii()
    check(f"{name}-120x40-ascii", in_ascii)
    monkeypatch.setenv("NO_COLOR", "1")
    assert await pictures(name, home, [MIDDLE], legible=True) == {MIDDLE: seen[MIDDLE]}


@pytest.mark.long
async def test_an_error_in_a_form_is_in_sight_in_the_smallest_terminal(home: Path) -> None:
    app = opened(home, None)
    async with driven(app, SMALLEST) as pilot:
        for name in ("new_run", "fork", "switch"):
            dialog = DIALOGS[name](read(home / "main"), home)
            await app.push_screen(dialog)
            await pilot.pause()
            dialog.complain("method: 'x' is not in the list.")
            await pilot.pause()
            assert "'x' is not in the list" in text(app) and "esc cancel" in text(app)


@pytest.mark.long
async def test_with_ascii_glyphs_a_list_that_scrolls_is_ascii(home: Path) -> None:
    many = tuple((f"p{number}", "1", "") for number in range(12))
    app = opened(home, glyphs="ascii")
    async with driven(app, (80, 24)) as pilot:
        await until(pilot, lambda: app.view.run.round == 12)
        choices = [method_choice("fedlora", "FedLoRA", "x", None, many)]
        app.push_screen(SwitchDialog(app.view.run.config, choices, "x"))
        await until(pilot, lambda: bool(app.screen.query("#parameters Input")))
        await pilot.pause()
        assert "p3" in text(app) and "p11" not in text(app)
        assert text(app).isascii()
        bar = app.screen.query_one("#parameters").region.right - 1
        rows = [line[bar] for line in text(app).splitlines() if line[bar : bar + 1] in ("#", "|")]
        assert "".join(rows).startswith("#") and rows.count("#") < len(
            rows
        )  # what is in sight, and what is not
        await pilot.press("escape", "ctrl+p", *"clients x")
        await until(pilot, lambda: "rounds" in text(app))
        assert text(app).isascii()


async def test_a_press_on_a_field_that_was_just_removed_does_nothing(home: Path) -> None:
    app = opened(home)
    async with driven(app) as pilot:
        app.push_screen(AttachDialog(home))
        await pilot.pause()
        field = app.screen.query_one(Input)
        await pilot.press("down")
        assert field.value == "main"  # the first of the list
        x, y = field.region.offset
        await field.remove()
        assert app.screen.get_widget_at(x, y)[0] is field  # until the next layout
        for kind in (MouseDown, MouseMove, MouseUp):
            app.screen._forward_event(kind(None, x, y, 0, 0, 1, False, False, False))
        await pilot.pause()
        assert app.is_running and not app.screen.query(Input)


@pytest.mark.long
async def test_a_terminal_under_60_by_16_is_told_so_until_it_grows(home: Path) -> None:
    app = opened(home)
    async with driven(app) as pilot:
        await pilot.press("question_mark")
        await pilot.resize_terminal(59, 16)
        await until(pilot, lambda: isinstance(app.screen, TooSmall))
        await pilot.pause()
        assert "59 columns and 16 rows" in " ".join(text(app).split())
        await pilot.resize_terminal(60, 16)
        await until(pilot, lambda: isinstance(app.screen, Help))
