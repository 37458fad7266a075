"""Every block of code on the pages works: what one types is typed, on small data or as a rehearsal; programs run.

A block without a language is what one types. A language says what else there is: `python` is run, `toml` and `json` are
read, `text` is shown. docs/tutorial.md has a test of its own.
"""

import importlib
import json
import re
import shlex
import shutil
import subprocess
import textwrap
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import click
import numpy as np
import pytest

from simulator.data import datasets
from simulator.methods import registry
from simulator.models import generator_conversion
from tests import own
from tests.cli.conftest import Result, call
from tests.docs import world
from tests.docs.pages import DOCS, PAGES, ROOT, Block, blocks
from tests.docs.test_pages import COMMAND

another_process = own.another_process

WITH_BLOCKS = [page for page in [ROOT / "README.md", *PAGES] if page.name != "tutorial.md" and blocks(page)]
SLOW = {"studies.md"}
NAMED = re.compile(r"# (\w+\.py)\n")
"""How a program begins that is a file, which commands name."""

TINY = 'federation__group="tiny", data__limit=300, clients=4, runtime__workers=1'
SMALLER = {
    "README.md": {"rounds=100)": f"rounds=12, {TINY})", "range(3)": "range(1)"},
    "docs/api.md": {"rounds=5": f"rounds=2, {TINY}"},
    "docs/checkpoints.md": {'"sessions/demo/objects/ab/abcd….safetensors"': "an_object()"},
    "docs/cka.md": {'round=40, layers=["stage4"]': 'round=12, layers=["fc1"]'},
    "docs/methods/fedktl.md": {"steps = 800": "steps = 1"},
    "docs/python.md": {
        "rounds=100)": f"rounds=12, {TINY})",
        "range(3)": "range(1)",
        '"rounds": 2': '"rounds": 2, "federation.group": "tiny", "data.limit": 300, "federation.clients": 4',
    },
    "docs/studies.md": {"@50": "@1", "[2, 4, 6, 8, 10]": "[2, 4]"},
    "docs/training.md": {"training.precision=float32": "training.precision=bf16"},
    "docs/your-own.md": {"60000": "1500", "60001": "1501"},
}
"""What is replaced on a page before its blocks run: sizes, and names of what this machine lacks."""
ONLY_READ = ("--on ray", "NAME --runner ray", "pretrained=", "--check", "--to wandb", "--to mlflow")
"""In commands that need a cluster, a download, a service, or minutes. They are parsed; tests elsewhere run the like."""


@pytest.fixture(scope="session")
def _sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    world.make_sessions(folder)
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, another_process: Any) -> Iterator[Path]:
    """The working folder of a page's blocks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HTFL_SESSIONS", str(tmp_path / "sessions"))
    monkeypatch.syspath_prepend(tmp_path / "mu07-round-10")  # docs/export.md writes programs there
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    monkeypatch.setattr(registry, "_ORIGINS", dict(registry._ORIGINS))
    monkeypatch.setattr(datasets, "_DATASETS", dict(datasets._DATASETS))
    world.make_files(tmp_path)
    shutil.copy(DOCS / "examples" / "my_method.py", tmp_path)
    for block in map(smaller, blocks(DOCS / "your-own.md")):
        if named := NAMED.match(block.text):
            Path(named[1]).write_text(block.text, encoding="utf-8")
        elif block.language == "json":
            Path("indices.json").write_text(block.text, encoding="utf-8")
    with ExitStack() as patches:
        patches.enter_context(world.small_data())
        patches.enter_context(world.points_here())
        patches.enter_context(mock.patch("tui.app.terminal.is_there", lambda: True))
        patches.enter_context(mock.patch("tui.cli.tui._carry_out", lambda app: None))
        yield tmp_path


def smaller(block: Block) -> Block:
    """The block with what SMALLER says in place."""
    text = block.text
    for words, instead in SMALLER.get(block.page, {}).items():
        text = text.replace(words, instead)
    return replace(block, text=text)


class Page:
    """A page's blocks, carried out one after the other in the working folder."""

    def __init__(self, made: Path) -> None:
        self._made = made
        self._names: dict[str, Any] = {
            "images": np.zeros((2, 32, 32, 1), np.uint8),
            "an_object": lambda: next((self._made / "demo" / "objects").rglob("*.safetensors")),
        }
        self._live = world.Live()

    def carry_out(self, block: Block) -> None:
        """Raises AssertionError or the program's own error where a block does not work."""
        match block.language:
            case "":
                try:
                    self._type(block)
                finally:
                    self._live.stop()
            case "python":
                self._program(block)
            case "toml":
                tomllib.loads(block.text)
            case "json":
                json.loads(block.text)
            case _:
                assert block.language == "text", f"there is no way to run a block of '{block.language}'"

    def _program(self, block: Block) -> None:
        if (
            block.page == "docs/writing-a-method.md"
        ):  # parts of a class, which tests/test_plugins.py finds in the file
            compile(textwrap.dedent(block.text), block.page, "exec")
            return
        self._need(block.text)
        importlib.invalidate_caches()  # a command may have written what is imported
        exec(compile(block.text, f"{block.page}:{block.line}", "exec"), self._names)

    def _type(self, block: Block) -> None:
        for name in world.SESSIONS:  # what an earlier block made of them
            shutil.rmtree(Path("sessions") / name, ignore_errors=True)
        for command, shown in typed(block.text):
            self._enter(command, shown, fails=shown.startswith("error:"))

    def _enter(self, line: str, shown: str, fails: bool) -> None:
        line, _, file = line.partition(" > ")
        line, _, query = line.partition(" | ")
        words = shlex.split(line, comments=True)
        if fails or not makes(words):
            self._need(line)
        match words[0].rpartition("/")[2]:
            case "htfl-sim":
                said = self._ours(words[1:], fails)
                assert (said.code != 0) == fails, f"{line}: exit code {said.code}\n{said.err}"
                if file:
                    Path(shlex.split(file, comments=True)[0]).write_text(said.out, encoding="utf-8")
                if query:
                    self._queried(shlex.split(query), said.out)
            case "jq":
                self._queried(words, Path(words[-1]).read_text(encoding="utf-8"))
            case "cat":
                Path(words[1]).write_text(shown, encoding="utf-8")
            case "make":
                assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
            case "pip":
                packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
                for extra in re.findall(r"htfl-sim\[(\w+)\]", line):
                    assert extra in packages["optional-dependencies"]
            case "sbatch":
                at = next(place for place, word in enumerate(words) if word.endswith(".sbatch"))
                assert subprocess.run(["bash", "-n", ROOT / words[at]], check=False).returncode == 0
                assert self._ours(["run", *words[at + 1 :]], fails).code == 0
            case "python" if words[1:3] == ["-m", "simulator.models.generator_conversion"]:
                assert generator_conversion.main(words[3:]) == 0
            case _:
                assert words in (["python3", "-m", "venv", ".venv"],), f"there is no way to run '{line}'"

    def _ours(self, words: list[str], fails: bool) -> Result:
        line = " ".join(words)
        if any(each in f"{line} " for each in ONLY_READ):
            parsed(words)
            return Result(0, "", "")
        match words[0]:
            case "run" if "--json" not in words and "--session" not in words:
                return call(*words, "--dry-run")
            case "run":
                return call(*words, *world.small(words))
            case "sweep" if makes(["", *words]) and "tiny" not in line:
                return call(*words, *world.small(words))
            case "pause" if not fails:
                self._live.start(Path("sessions") / words[1])
        return call(*words)

    def _need(self, text: str) -> None:
        """Have the sessions there that a block names, but for those that it makes."""
        for name in world.SESSIONS:
            place = Path("sessions") / name
            if re.search(rf'(sweep\(|Session\.create\(.*)"(sessions/)?{name}"', text):
                shutil.rmtree(place, ignore_errors=True)
            elif re.search(rf"(?<![\w.]){name}\b(?!\.)", text) and not place.exists():
                shutil.copytree(self._made / name, place)

    def _queried(self, words: list[str], text: str) -> None:
        """That every path that jq is asked for is in every line."""
        for path in re.findall(r"\.[a-z_.]+", words[-1] if len(words) == 2 else words[-2]):
            for line in text.splitlines():
                found = json.loads(line)
                for key in path.strip(".").split("."):
                    found = found[key]


def makes(words: list[str]) -> bool:
    """Whether a command line makes a session or a study of its own."""
    match words[1:]:
        case ["run", *rest]:
            return "--session" in rest
        case ["sweep", *rest]:
            return "--extend" not in rest and (
                "--over" in rest or any(each.endswith(".toml") for each in rest)
            )
    return False


def typed(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a block, each with what is shown under it; with prompts, what has none is shown."""
    lines = text.replace("\\\n", " ").splitlines()
    if not any(line.startswith("$ ") for line in lines):
        yield from ((line, "") for line in lines if line.strip())
        return
    for part in re.split(r"^\$ ", "\n".join(lines), flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def parsed(words: list[str]) -> None:
    """Raise click.UsageError unless htfl-sim takes these words."""
    command: Any = COMMAND
    while isinstance(command, click.Group):
        command, words = command.commands[words[0]], words[1:]
    command.make_context("htfl-sim", list(words))


def tier(page: Path) -> Any:
    return pytest.mark.slow if page.name in SLOW else () if page.name == "README.md" else pytest.mark.long


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=str(page.relative_to(ROOT)), marks=tier(page)) for page in WITH_BLOCKS]
)
def test_the_blocks_of_a_page_do_what_they_say(page: Path, here: Path, _sessions: Path) -> None:
    carried = Page(_sessions)
    for block in (smaller(each) for each in blocks(page)):
        try:
            carried.carry_out(block)
        except BaseException as error:
            error.add_note(f"{block.page}:{block.line}")
            raise


def test_what_the_readme_calls_the_same_in_the_app_is_the_same() -> None:
    lines = [line for block in blocks(ROOT / "README.md") for line in block.text.splitlines()]
    [shown] = [pair for pair in pairwise(lines) if pair[1].endswith("# the same in the terminal app")]
    run, app = (shlex.split(line, comments=True) for line in shown)
    assert (run[:2], app[:2], run[2:]) == (["htfl-sim", "run"], ["htfl-sim", "tui"], app[2:])


@pytest.mark.parametrize(
    ("language", "text", "amiss"),
    [
        ("", "cmake .", "there is no way to run 'cmake .'"),
        ("", "htfl-sim run --set training.lr=-1", "exit code 2"),
        ("", "$ htfl-sim show mu07\nerror: no", "exit code 0"),
        ("python", "import htfl_sim as hs\nhs.open('sessions/mu07').lines()", "has no attribute 'lines'"),
    ],
)
def test_a_block_that_fails_is_noticed(
    language: str, text: str, amiss: str, here: Path, _sessions: Path
) -> None:
    with pytest.raises((AssertionError, AttributeError), match=amiss):
        Page(_sessions).carry_out(Block("docs/page.md", 1, language, text))
