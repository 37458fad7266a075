"""Options that commands share are declared once, as fields of a dataclass that stands among a command's parameters."""

from collections import Counter
from dataclasses import dataclass

import typer
from typer.testing import CliRunner

from tui.cli import app
from tui.cli.options import expanded


@dataclass(frozen=True)
class Pair:
    """Two options."""

    left: int = 1
    right_hand: int = 2


def test_a_command_gets_its_options_together() -> None:
    got: list[tuple[str, Pair, bool]] = []

    @expanded
    def command(name: str, pair: Pair, loud: bool = False) -> None:
        got.append((name, pair, loud))

    application = typer.Typer()
    application.command()(command)
    assert CliRunner().invoke(application, ["x", "--right-hand", "7", "--loud"]).exit_code == 0
    assert got == [("x", Pair(1, 7), True)]


def test_no_option_of_a_command_is_there_twice() -> None:
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        flags = Counter(flag for each in command.params for flag in each.opts)
        assert [flag for flag, times in flags.items() if times > 1] == [], name
