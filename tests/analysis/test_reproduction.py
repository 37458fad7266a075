"""The command lines of a session give the same session again."""

import shlex
from pathlib import Path

import checkpoints
from simulator.analysis.reproduction import command_lines
from tui.cli import main

TINY = [
    "--clients",
    "3",
    "--workers",
    "1",
    "--device",
    "cpu",
    "--no-progress",
    "--set",
    "federation.group=tiny",
]
TINY += ["--set", "data.limit=200", "--set", "training.lr=0.0123456789"]


def run(folder: Path, *words: object) -> None:
    assert main([*map(str, words), "--sessions-dir", str(folder)]) == 0


def results(folder: Path) -> list[dict[str, object]]:
    """The ledger without its clock."""
    return [
        {key: value for key, value in record.items() if key != "timing"}
        for record in checkpoints.SessionReader(folder).records()
    ]


def test_the_command_lines_of_a_switched_fork_give_its_very_ledger(tmp_path: Path) -> None:
    run(tmp_path, "run", "--session", "first", "--rounds", 4, "--set", "method.mu=0.75", *TINY)
    fork = ["fork", "first", "--at-round", 2, "--session", "second", "--method", "fedgh", "--seed", 5]
    run(tmp_path, *fork, "--set", "rounds=3", "--run", "--no-progress")
    run(tmp_path, "switch", "second", "fedproto", "--set", "method.lam=0.3", "--set", "rounds=4")
    run(tmp_path, "resume", "second", "--no-progress")

    again = tmp_path / "again"
    for name, last in (("first", "first-again"), ("second", "second-again-2")):
        for line in command_lines(tmp_path / name):
            words = [
                word.replace("first", "first-again") if word == "first" else word
                for word in shlex.split(line)
            ]
            assert words[0] == "htfl-sim"
            run(again, *words[1:], "--no-progress", "--device", "cpu", "--workers", "1")
        assert results(again / last) == results(tmp_path / name)
