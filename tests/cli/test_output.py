"""What reaches the terminal, the pipe and the shell: tables, numbers, errors, help, completion, and no torch."""

import io
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path
from unittest import mock

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Cli, Terminal
from tui.cli import app, main, output

WORDS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=90)


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=5))
def test_in_a_pipe_every_cell_of_a_table_is_whole(rows: list[tuple[str, str, str]]) -> None:
    lines = _captured(lambda: output.show(output.table(["a", ">b", "c"], rows)))
    assert [tuple(line.split()) for line in lines] == [("a", "b", "c"), *rows]


def test_a_closed_standard_output_has_an_exit_code(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["methods"]) == 141


def test_an_unforeseen_error_is_a_bug_an_interrupt_is_none(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = mock.Mock(side_effect=ZeroDivisionError("by a bug"))
    monkeypatch.setattr("presets.all", broken)
    plain = cli("presets")
    assert plain.code == 1 and plain.err.count("\n") == 1
    assert "bug" in plain.err and "--debug" in plain.err and "ZeroDivisionError" in plain.err
    for line in (["--debug", "presets"], ["presets", "--debug"]):
        shown = cli(*line)
        assert shown.code == 1 and "Traceback" in shown.err and "in presets" in shown.err
    broken.side_effect = KeyboardInterrupt
    result = cli("presets")
    assert result.code == 130 and "Traceback" not in result.err


def test_a_reader_that_has_seen_enough_is_no_error(capfd: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    kept = os.dup(1)
    os.dup2(writer, 1)
    try:
        with os.fdopen(1, "w", closefd=False) as stdout, pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", stdout)
            assert main(["presets"]) == 141
            assert main(["presets", "--json"]) == 0  # to /dev/null by now
    finally:
        os.dup2(kept, 1)
    assert capfd.readouterr().err == ""


@pytest.mark.long
def test_no_room_for_the_output_is_an_error_of_storage(cli: Cli) -> None:
    command = [sys.executable, "-c", "import sys, tui.cli; sys.exit(tui.cli.main(['presets']))"]
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 5
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1


def test_an_ascii_terminal_gets_question_marks(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert main(["presets"]) == 0
    assert b"CNN-1?CNN-5" in written.getvalue()


def test_every_help_teaches_by_example(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert cli("--version").out == f"htfl-sim {version('htfl-sim')}\n"
    assert cli().out == cli("--help").out
    groups = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    inner = [f"data {name}" for name in groups["data"].commands]
    for command in ("", *groups, *inner):
        page = cli(*command.split(), "--help")
        assert page.code == 0
        assert f"htfl-sim {command}".strip() in page.out.partition("Examples")[2], command
    for name, group in groups.items():
        flags = Counter(flag for each in group.params for flag in each.opts)
        assert [flag for flag, times in flags.items() if times > 1] == [], name


OFFERED = {
    "run --preset fedlora_htm5_n": ["fedlora_htm5_n50", "fedlora_htm5_n100"],
    "run --dataset fa": ["fashion_mnist", "fashion_mnist_domains"],
    "run --method lg": ["lg_fedavg"],
    "run --set training.e": ["training.epochs="],
    "run --set see": ["seed=", "seed.data=", "seed.init=", "seed.training="],
    "show do": ["done"],
    "pause do": ["done"],
    "switch done lg": ["lg_fedavg"],
    "switch done fedlora --set training.e": ["training.epochs="],
    "models tiny_c": ["tiny_cnn", "tiny_cnn_h6"],
    "data fetch cifar10": ["cifar10", "cifar100"],
    "methods lg": ["lg_fedavg"],
    "sweep t --over meth": ["method="],
    "sweep t --on s": ["slurm"],
    "config method.mu_": ["method.mu_0"],
}


def test_the_shell_is_offered_the_names_there_are(done: Path) -> None:
    for line, offered in OFFERED.items():
        assert complete(f"htfl-sim {line}") == offered, line


def complete(line: str) -> list[str]:
    """What bash would offer."""
    words = line.split()
    asked = {"_HTFL_SIM_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}

    def run() -> None:
        with pytest.raises(SystemExit):
            main([])

    with mock.patch.dict(os.environ, asked):
        return [line for line in _captured(run) if line]


def _captured(run: Callable[[], object]) -> list[str]:
    with redirect_stdout(io.StringIO()) as out:
        run()
    return out.getvalue().splitlines()


def test_a_narrow_terminal_drops_columns_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [["a-session-name", "x" * 16, "y" * 16, "z" * 16]]
    for width, kept in ((80, "nxyz"), (60, "nyz"), (40, "nz")):
        for name, value in {"COLUMNS": str(width), "NO_COLOR": "1", "TERM": "xterm"}.items():
            monkeypatch.setenv(name, value)
        with redirect_stdout(Terminal()) as screen:
            output.show(output.table(["n", "x", "y", "z"], rows, ["x", "y"]))
        page = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
        assert "".join(page.splitlines()[0].split()) == kept
        assert ("wider terminal" in page) == (kept != "nxyz")
