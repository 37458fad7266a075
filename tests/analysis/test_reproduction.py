"""The command lines of a session give the same session again."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import checkpoints
from simulator.methods import registry
from simulator.results.analysis.reproduction import command_lines
from tests.own import METRIC, MODEL, another_process, written
from tui.cli import main

__all__ = ["another_process"]

HERE = ["--clients=3", "--workers=1", "--device=cpu", "--no-progress"]
TINY = [*HERE, "--set=federation.group=tiny", "--set=data.limit=200", "--set=training.lr=0.0123456789"]


def run(folder: Path, *words: object) -> None:
    assert main([*map(str, words), "--sessions-dir", str(folder)]) == 0


def results(folder: Path) -> list[dict[str, object]]:
    """The ledger without its clock."""
    return [
        {key: value for key, value in record.items() if key != "timing"}
        for record in checkpoints.SessionReader(folder).records()
    ]


@pytest.mark.long
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


PLUGIN = """
from simulator.methods import register
from simulator.methods.standalone import Standalone
from simulator.base.sections import MethodConfig

@register("mine")
class Mine(Standalone):
    class Config(MethodConfig):
        rho: float = 0.5
"""


def again(folder: Path, into: Path) -> list[list[str]]:
    """Type a session's command lines, as they are but for where the sessions lie; what was typed."""
    typed = [shlex.split(line) for line in command_lines(folder)]
    for words in typed:
        assert words[0] == "htfl-sim"
        run(into, *words[1:], "--no-progress", "--device", "cpu", "--workers", "1")
    return typed


def test_a_run_of_a_configuration_file_does_not_take_the_quickstart_s_settings(tmp_path: Path) -> None:
    settings = ("rounds = 1", "method.name = 'standalone'", "federation = { group = 'tiny', clients = 3 }")
    file = written(tmp_path, "mine.toml", "\n".join([*settings, "data.limit = 200"]))
    run(tmp_path, "run", "--config", file, "--session=mine", "--no-progress", "--device=cpu", "--workers=1")
    again(tmp_path / "mine", tmp_path / "again")
    assert results(tmp_path / "again" / "mine-again") == results(tmp_path / "mine")
    assert "--set cka.every=null" in command_lines(tmp_path / "mine")[0]


@pytest.mark.long
def test_the_settings_of_a_clock_are_in_the_line_where_they_are_not_the_defaults(tmp_path: Path) -> None:
    clock = ["--set", "system.devices.phone=2", "--set", "system.devices.laptop=1"]
    clock += ["--set", 'system.utilization={ "a.b" = 0.5 }', "--set", "system.default_utilization=1"]
    run(tmp_path, "run", *TINY, "--rounds=1", "--session=mine", "--method=standalone", *clock)
    again(tmp_path / "mine", tmp_path / "again")
    (line,) = command_lines(tmp_path / "mine")
    assert [word.partition("=")[0] for word in shlex.split(line) if word.startswith("system.")] == [
        "system.default_utilization", "system.devices", "system.utilization",
    ]  # fmt: skip
    made, before = (
        checkpoints.SessionReader(folder).document["config"]["system"]
        for folder in (tmp_path / "again" / "mine-again", tmp_path / "mine")
    )
    assert made == before


@pytest.mark.long
def test_files_of_one_s_own_are_named_in_every_line_that_needs_them(
    tmp_path: Path, another_process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in (("mynets.py", MODEL), ("right.py", METRIC), ("late.py", METRIC)):
        written(tmp_path, name, content)
    parts = [{"train": [*range(k, 80, 4)], "test": [*range(100 + k, 140, 4)]} for k in range(3)]
    indices = str(written(tmp_path, "indices.json", json.dumps(parts)))
    own = [
        "--model",
        "tiny_mlp",
        "--model",
        "mynets.py:Net@last",
        "--metric",
        "right.py",
        "--partition",
        indices,
    ]
    run(tmp_path, "run", "--session=own", "--rounds=2", "--method=fd", *own, *HERE)
    loaded = ["--model", "mynets.py", "--metric", "right.py", "--metric", "late.py"]
    metrics = ["--set", 'evaluation.metrics=["right", "late"]']
    run(tmp_path, "switch", "own", "standalone", "--set=rounds=3", *metrics, *loaded)
    run(tmp_path, "resume", "own", *loaded, "--no-progress")

    another_process()
    first, second = again(tmp_path / "own", tmp_path / "again")
    assert first[4 : 4 + len(own)] == own
    assert second[8 : 8 + len(loaded)] == loaded
    assert results(tmp_path / "again" / "own-again-2") == results(tmp_path / "own")


def test_a_plugin_is_named_also_by_a_process_that_has_not_loaded_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "mine.py", PLUGIN)
    methods = dict(registry._METHODS)
    monkeypatch.setattr(registry, "_ORIGINS", {})
    monkeypatch.setattr(registry, "_METHODS", {**methods})
    words = ["--plugin=mine.py", "--method=mine", "--set=method.rho=0.25"]
    run(tmp_path, "run", "--session=own", "--rounds=1", *words, *TINY)
    monkeypatch.setattr(registry, "_ORIGINS", {})
    monkeypatch.setattr(registry, "_METHODS", {**methods})

    (typed,) = again(tmp_path / "own", tmp_path / "again")
    assert typed[4:6] == ["--plugin", "mine.py"] and "method.rho=0.25" in typed
    assert results(tmp_path / "again" / "own-again") == results(tmp_path / "own")
