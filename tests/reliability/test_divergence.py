"""NaN or a diverging client: recorded and named, the others go on; if asked to, the run stops with a checkpoint."""

from pathlib import Path

import checkpoints
from simulator.config import Config
from simulator.sessions.session import RunOutcome, Session
from tests import federations
from tests.cli.conftest import TINY, Cli
from tests.federations import generated, on_images

DIVERGING = ("--method=standalone", "--set=training.lr=1e38", "--rounds=3", "--session=x")


def test_a_diverging_client_is_recorded_and_named_and_the_run_goes_on(cli: Cli, sessions: Path) -> None:
    assert cli("run", *TINY, *DIVERGING).code == 0
    session = checkpoints.SessionReader(sessions / "x")
    lost = session.records()[0]["diverged"]
    warned = [e["client"] for e in session.events() if e["event"] == "warning" and e["round"] == 1]
    assert sorted(warned) == lost != []
    assert len(session.records()) == 3


def test_a_run_told_to_stop_on_divergence_keeps_the_round_and_says_whose_it_was(
    cli: Cli, sessions: Path
) -> None:
    result = cli("run", *TINY, *DIVERGING, "--set=training.on_divergence=stop")
    session = checkpoints.SessionReader(sessions / "x")
    lost = session.records()[0]["diverged"]
    assert result.code == 0
    assert f"by divergence of client {', '.join(map(str, lost))}" in result.err
    assert (session.rounds(), session.state()) == ([1], "stopped")


def test_a_resume_after_a_divergence_goes_on_with_the_next_round(cli: Cli, sessions: Path) -> None:
    cli("run", *TINY, *DIVERGING, "--set=training.on_divergence=stop")
    assert cli("resume", "x").code == 0
    assert checkpoints.SessionReader(sessions / "x").rounds()[-1] == 2
    assert cli("switch", "x", "standalone", "--set=training.on_divergence=continue").code == 0
    assert cli("resume", "x").code == 0
    assert checkpoints.SessionReader(sessions / "x").state() == "finished"


def test_where_none_diverges_the_option_changes_no_bit(tmp_path: Path) -> None:
    with on_images(generated()):
        for name in ("continue", "stop"):
            settings = federations.config("fedssa", training={"on_divergence": name})
            assert Session.create(settings, tmp_path / name, tmp_path).run() == RunOutcome("finished", 3)
    assert federations.committed(tmp_path / "continue") == federations.committed(tmp_path / "stop")


def test_a_configuration_from_before_the_option_means_what_it_did() -> None:
    raw = federations.config("fedssa").to_json()
    del raw["training"]["on_divergence"]
    assert Config.read(raw) == federations.config("fedssa")
