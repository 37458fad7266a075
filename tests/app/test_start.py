"""What `htfl-sim tui` opens on, from what the command line says."""

from pathlib import Path

import pytest

from checkpoints import SessionUnreadable
from htfl_sim.configuring import Choices
from simulator.base.errors import ConfigError
from tests import sessions
from tui.app.dialogs.run_forms import NewRun
from tui.app.runs import LaunchOptions
from tui.cli.tui import _start


@pytest.fixture
def places(tmp_path: Path) -> LaunchOptions:
    sessions.make(tmp_path / "main", rounds=1, clients=2)
    return LaunchOptions(tmp_path, tmp_path / "data")


def test_nothing_said_opens_the_list_of_sessions_whatever_the_workers(places: LaunchOptions) -> None:
    assert _start(Choices(), None, places) is None
    assert _start(Choices(workers=2), None, places) is None


def test_a_name_alone_is_a_session_that_must_be_there(places: LaunchOptions) -> None:
    assert _start(Choices(), "main", places) == places.sessions / "main"
    with pytest.raises(SessionUnreadable, match="Did you mean 'main'"):
        _start(Choices(), "mian", places)


def test_a_name_with_settings_is_a_new_run_that_must_not_be_there(places: LaunchOptions) -> None:
    choices = Choices(rounds=3)
    assert _start(choices, "new", places) == NewRun(choices, places.sessions / "new")
    with pytest.raises(ConfigError, match="exists already"):
        _start(choices, "main", places)


def test_a_run_without_a_name_is_named_after_what_was_said(places: LaunchOptions) -> None:
    begun = _start(Choices(method="fedgh"), None, places)
    assert isinstance(begun, NewRun)
    assert begun.folder.name.startswith("quickstart-fedgh-")


def test_a_run_whose_data_are_not_here_opens_the_form(places: LaunchOptions) -> None:
    choices = Choices(preset="fedlora_htm5")
    assert _start(choices, None, places) is choices
