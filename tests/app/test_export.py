"""What is exported can be used: command lines that give the same session again, CSV that a program reads."""

import csv
import math
import shlex
from pathlib import Path

import pytest

import checkpoints
from tui.app.export import command_lines, free_path, write_csv
from tui.app.survey import survey
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


def test_a_csv_file_has_a_line_per_row_and_nothing_where_there_is_no_value(tmp_path: Path) -> None:
    path = free_path(tmp_path, "live", "csv")
    write_csv(path, ["round", "mean", "what"], [[1, 0.5, "a, b"], [2, math.nan, None]])
    with path.open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["round", "mean", "what"], ["1", "0.5", "a, b"], ["2", "", ""]]
    assert free_path(tmp_path, "live", "csv").name == "live-2.csv"
    with pytest.raises(FileExistsError):
        write_csv(path, [], [])


def test_the_survey_says_what_the_owner_of_a_session_would_say() -> None:
    from simulator.config import Config

    config = Config.read({"method": {"name": "fedlora"}, "federation": {"group": "htm5"}})
    offers = {offer.name: offer for offer in survey(config.to_json())}
    assert offers["fedgh"].obstacle is None
    assert "client 1 (cnn2) has 'conv2.weight'" in str(offers["heteroavg"].obstacle)
    assert [parameter.key for parameter in offers["fedlora"].parameters] == [
        "mu",
        "structure",
        "hidden",
        "eta_theta",
    ]
    assert offers["fedlora"].parameters[0].default == "0.9"
