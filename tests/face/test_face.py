"""`import htfl_sim`: what it offers, how it is typed, and what it does when another package stands in our place."""

import os
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import htfl_sim as hs
from simulator.results.analysis import tidy
from simulator.results.inspection import partition

ROOT = Path(__file__).parents[2]
FOREIGN = "load = print  # of another distribution"


def test_every_public_name_is_there_and_nothing_else_is_shown() -> None:
    assert dir(hs) == sorted(hs.__all__)
    assert all(getattr(hs, name).__doc__ for name in hs.__all__)


def test_help_tells_of_the_face() -> None:
    page = pydoc.plain(pydoc.render_doc(hs))
    assert "import htfl_sim as hs" in page and "with_(method__mu=0.7)" in page


@pytest.mark.slow
def test_a_users_program_passes_mypy_strict(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text((ROOT / "tests" / "face" / "as_a_user.py").read_text(encoding="utf-8"))
    options = ("--strict", "--config-file=", "--follow-imports=silent")
    command = [sys.executable, "-m", "mypy", *options, program.name]
    environment = os.environ | {"MYPYPATH": str(ROOT)}
    checked = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout


def run_beside_a_foreign_presets(tmp_path: Path, code: str) -> subprocess.CompletedProcess[str]:
    """A process in which another distribution's `presets` comes first on the path."""
    (tmp_path / "presets").mkdir(parents=True)
    (tmp_path / "presets" / "__init__.py").write_text(FOREIGN, encoding="utf-8")
    about = tmp_path / "model_presets-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: model-presets\nVersion: 1.0\n")
    (about / "top_level.txt").write_text("presets\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=tmp_path
    )


def test_a_foreign_package_in_our_place_is_said_by_command_and_face_with_the_remedy(tmp_path: Path) -> None:
    code = "import sys; from htfl_sim.command import main; sys.exit(main())"
    ended = run_beside_a_foreign_presets(tmp_path / "command", code)
    sentence = "'presets' is not htfl-sim's here but another package of model-presets"
    assert ended.returncode == 2 and ended.stderr.startswith(f"error: {sentence}")
    assert str(tmp_path / "command" / "presets") in ended.stderr
    assert "pip uninstall model-presets" in ended.stderr and "Traceback" not in ended.stderr
    ended = run_beside_a_foreign_presets(tmp_path / "face", "import htfl_sim as hs; hs.preset('quickstart')")
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith(f"htfl_sim.rooms.ForeignPackage: {sentence}")
    assert "ImportError" not in ended.stderr


def test_a_room_that_another_installation_overwrote_is_noticed(tmp_path: Path) -> None:
    for room in ("htfl_sim", "simulator", "tui", "presets", "checkpoints"):
        (tmp_path / room).mkdir()
        beginning = FOREIGN if room == "checkpoints" else (ROOT / room / "__init__.py").read_text()
        (tmp_path / room / "__init__.py").write_text(beginning)
    (tmp_path / "htfl_sim" / "rooms.py").write_text((ROOT / "htfl_sim" / "rooms.py").read_text())
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from htfl_sim import rooms; rooms.check()"
    ended = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert "'checkpoints' is not htfl-sim's here but another package" in ended.stderr


# The page


PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")


def listed(heading: str) -> dict[str, str]:
    """The rows of the table under a heading, but for those that stand for several columns."""
    part = PAGE.split(f"### `{heading}`")[1].split("\n#")[0]
    return dict(re.findall(r"\| `([a-z_]+)` \| (.+) \|", part))


def test_every_column_is_listed_with_what_it_is() -> None:
    assert listed("clients()") == tidy.CLIENT_COLUMNS
    assert listed("cka()") == tidy.CKA_COLUMNS
    assert listed("partition()") == partition.COLUMNS


def test_every_public_name_stands_on_the_page() -> None:
    assert [name for name in hs.__all__ if name not in PAGE] == []
