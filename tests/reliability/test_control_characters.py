"""Names and notes of others steer no program that shows them: terminals, spreadsheets, Python, matplotlib, LaTeX."""

import ast
import csv
import io
import os
import shutil
from pathlib import Path

import pytest
from PIL import Image
from safetensors import safe_open

from checkpoints.schema import seal, unseal
from simulator.base.errors import ConfigError
from simulator.base.units import cell
from simulator.studies.study import StudySpec
from tests.cli.conftest import TINY, Cli

pytestmark = pytest.mark.long

EVIL = "\x9b31mevil"
"""Red from here on, where a terminal heeds the one-character form of escape and bracket."""


def the_host_and_the_state_of_an_owner(session: Path) -> Path:
    """Another machine's, which is asked where and how the session runs."""
    note = unseal((session / "owner.json").read_bytes(), "owner.json")
    elsewhere = {"host": EVIL, "boot_id": "another", "closed": False, "state": EVIL}
    (session / "owner.json").write_bytes(seal(note | elsewhere))
    return session


def the_name_of_a_folder(session: Path) -> Path:
    return Path(shutil.move(session, session.with_name(f"s{EVIL}")))


def an_event(session: Path) -> Path:
    event = {"at": "2026-01-01T00:00:00.000Z", "event": "warning", "round": 3, "message": EVIL}
    with (session / "events.jsonl").open("ab") as file:
        file.write(seal(event))
    return session


COMMANDS = ("sessions", "sessions --json", "show", "show --json", "verify", "verify --json", "resume")
PLACES = [the_host_and_the_state_of_an_owner, an_event, the_name_of_a_folder]


def test_no_control_character_reaches_a_terminal(cli: Cli, done: Path) -> None:
    for put in PLACES:
        session = put(done)
        for command in COMMANDS:
            ended = cli(*command.split(), *([] if "sessions" in command else [session]))
            said = ended.out + ended.err
            assert said and all(char.isprintable() or char == "\n" for char in said), command


def test_what_was_escaped_for_the_terminal_is_whole_in_json(cli: Cli, done: Path) -> None:
    (listed,) = [each for each in cli("sessions", "--json").json() if each["name"] == "done"]
    session = the_name_of_a_folder(done)
    (renamed,) = cli("sessions", "--json").json()
    assert renamed == listed | {"name": session.name, "path": str(session)}


NAMES = ('a"""\nimport os #\\', "$x_{", "$a$b", "_u", os.fsdecode(b"\xffbad"), "=1+1", "\x1b[31m<b>")


def test_sessions_of_any_names_can_be_plotted_compared_and_reported(cli: Cli, done: Path) -> None:
    named = [Path(shutil.copytree(done, done.with_name(name))) for name in NAMES]
    for kind in ("accuracy", "box", "tradeoff"):
        ended = cli("plot", kind, *named, "--out", f"{kind}.svg")
        assert ended.code == 0, ended.err
    ended = cli("report", *named, "--out", "page.html")
    assert ended.code == 0, ended.err
    assert "<b>" not in Path("page.html").read_text(encoding="utf-8").split("</style>")[1]
    for form in ("md", "latex", "csv", "json"):
        assert cli("compare", *named, "--format", form).code == 0


def test_a_name_in_an_exported_program_is_text_and_no_code(cli: Cli, done: Path) -> None:
    session = Path(shutil.move(done, done.with_name(NAMES[0])))
    assert cli("export", session, "--weights=client/0", "--out=models").code == 0
    program = ast.parse(Path("models/client_0.py").read_bytes())
    assert (ast.get_docstring(program) or "").startswith(
        'Client 0 of the session a"""\nimport os #\\ after round 3'
    )
    imported = [name.name for node in program.body if isinstance(node, ast.Import) for name in node.names]
    assert imported == ["json", "torch"]
    with safe_open(Path("models/client_0.safetensors"), "pt") as file:
        assert file.metadata()["session"] == r'a"""\nimport os #' + "\\"


def test_a_class_folder_of_any_name_is_text_in_a_table_and_in_a_figure(cli: Cli, tmp_path: Path) -> None:
    classes = (b"caf\xe9", b"=1+1", b"a\x1b[31mb", b"$x$y_{", b"_u", b"-5")
    for name in classes:
        folder = tmp_path / "own" / os.fsdecode(name)
        folder.mkdir(parents=True)
        for number in range(12):
            Image.new("L", (8, 8), number).save(folder / f"{number}.png")
    asked = (*TINY, "--set=data.limit=72", "--rounds=1", "--session=s", "--dataset", tmp_path / "own")
    assert cli("run", *asked).code == 0
    shown = ["$x$y_{", "-5", "'=1+1", "_u", r"a\x1b[31mb", r"caf\udce9"]
    written = cli("export", "s", "--what=partition").out
    assert [row["class"] for row in csv.DictReader(io.StringIO(written))][:6] == shown
    assert cli("export", "s", "--what=partition", "--out=p.csv").code == 0
    assert Path("p.csv").read_text(encoding="utf-8") == written
    for kind in ("partition", "tsne"):
        ended = cli("plot", kind, "s", "--out", f"{kind}.svg")
        assert ended.code == 0, ended.err
        assert r"caf\udce9</text>" in Path(f"{kind}.svg").read_text(encoding="utf-8")


def test_a_study_refuses_a_file_whose_name_is_not_unicode() -> None:
    with pytest.raises(ConfigError, match=r"not valid UTF-8 .*own\\udcff.*; rename that file"):
        StudySpec(config={"data": {"dataset": os.fsdecode(b"own\xff")}}, over={"seed": (0, 1)}).to_toml()


def test_a_cell_that_a_spreadsheet_would_compute_is_quoted_and_a_number_is_not() -> None:
    values = ["=1+1", "@x", "+x", "-x", "-1.5", "+2", -1.5]
    assert [cell(value) for value in values] == ["'=1+1", "'@x", "'+x", "'-x", "-1.5", "+2", -1.5]
