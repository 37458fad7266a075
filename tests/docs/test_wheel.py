"""The package as it is installed: a wheel in a fresh environment, which runs the tutorial outside the checkout."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_tutorial import commands

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]
NO_BACKEND = ("Could not find a version that satisfies the requirement hatch", "No module named pip")
"""What pip says where it cannot have the tools that build a wheel."""


def shell(
    command: list[str | Path] | str, folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HTFL", "VIRTUAL"))
    }
    return subprocess.run(
        command,
        cwd=folder,
        env=kept | environment,
        shell=isinstance(command, str),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    built = shell([sys.executable, "-m", "pip", "wheel", ROOT, "--no-deps", "--wheel-dir", folder], folder)
    if any(each in built.stderr for each in NO_BACKEND):
        pytest.skip("no package index here to build a wheel with")
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("htfl_sim-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel in it, and the dependencies of this one, but not this checkout."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    done = shell([python, "-m", "pip", "install", "--no-deps", "--no-index", wheel], folder)
    assert done.returncode == 0, done.stderr
    own = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    # A path that such a file names is not searched for files of its kind: this checkout's is not followed.
    (own / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder / "bin"


def test_nothing_of_it_comes_from_the_checkout(installed: Path, tmp_path: Path) -> None:
    look = "import json, sys, checkpoints, htfl_sim, presets, simulator, tui\n"
    look += "print(json.dumps([sys.path, [m.__file__ for m in (checkpoints, htfl_sim, presets, simulator, tui)]]))"
    seen = shell([installed / "python", "-c", look], tmp_path)
    assert seen.returncode == 0, seen.stderr
    path, files = json.loads(seen.stdout)
    assert str(ROOT) not in path
    assert all(Path(file).is_relative_to(installed.parent) for file in files), files


def test_it_brings_what_is_no_python_file(installed: Path, tmp_path: Path) -> None:
    look = "import presets; import htfl_sim.catalog as of; print(len(presets.names()), len(of.shipped_studies()))"
    seen = shell([installed / "python", "-c", look], tmp_path)
    assert seen.returncode == 0, seen.stderr
    found = [*ROOT.glob("presets/*.toml")], [*ROOT.glob("presets/studies/*.toml")]
    assert [int(each) > 10 for each in seen.stdout.split()] == [True, True], found


def test_it_runs_the_tutorial_s_commands(installed: Path, tmp_path: Path) -> None:
    path = f"{installed}{os.pathsep}{os.environ['PATH']}"
    for line in commands():
        ran = shell(line, tmp_path, PATH=path)
        assert ran.returncode == 0, (line, ran.stderr)
    assert "<h2>Commands for the same bits</h2>" in (tmp_path / "t3.html").read_text(encoding="utf-8")
