"""What others named or wrote is shown in a terminal and does not steer it: C1 controls too, and JSON too."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from checkpoints.seal import seal, unseal
from tests.cli.conftest import Cli

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


@pytest.mark.parametrize("put", [the_host_and_the_state_of_an_owner, the_name_of_a_folder, an_event])
def test_no_control_character_reaches_a_terminal(cli: Cli, done: Path, put: Callable[[Path], Path]) -> None:
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
