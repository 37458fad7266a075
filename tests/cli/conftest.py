"""The command line, called in this process: its exit code and what it wrote."""

import io
import json
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from checkpoints.schema import seal, unseal
from tui.cli import main

TINY = (
    "--set=federation.group=tiny",
    "--set=data.limit=200",
    "--set=data.partition=iid",
    "--set=training.epochs=1",
    "--clients=4",
    "--workers=1",
)
"""A federation of 4 tiny models on 200 digits: a hundredth of a second a round."""


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Result]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def call(*arguments: object) -> Result:
    """Run one command line in this process."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main([str(argument) for argument in arguments])
    return Result(code, out.getvalue(), err.getvalue())


def assert_refused(result: Result, code: int, *fragments: str) -> None:
    """It wrote one error on stderr, as a sentence with these fragments, and nothing on stdout."""
    assert (result.code, result.out) == (code, ""), result.err
    last = result.err.splitlines()[-1]
    assert last.startswith("error: ") and last.endswith((".", "?"))
    assert "Traceback" not in result.err
    for fragment in fragments:
        assert fragment in last


def flip(path: Path) -> None:
    """One bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def rewrite(session: Path, **changes: object) -> None:
    """Change session.json and seal it again, as another version or another machine would have written it."""
    document = unseal((session / "session.json").read_bytes(), "session.json")
    (session / "session.json").write_bytes(seal(document | changes))


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty sessions folder, which the environment names; the data folder beside it is empty too."""
    monkeypatch.setenv("HTFL_SESSIONS", str(tmp_path / "sessions"))
    monkeypatch.setenv("HTFL_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "sessions"


@pytest.fixture
def cli(sessions: Path) -> Cli:
    return call


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    result = call("run", *TINY, "--rounds=3", "--session=done", "--sessions-dir", folder)
    assert result.code == 0, result.err
    return folder / "done"


@pytest.fixture
def done(_made: Path, sessions: Path) -> Path:
    """A finished session of three rounds, named 'done', to read or to damage."""
    return Path(shutil.copytree(_made, sessions / "done"))
