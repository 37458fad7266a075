"""A shadow run: another method beside the session shown, from the same round on."""

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

import htfl_sim as hs
from htfl_sim.errors import ConfigError
from simulator.results.analysis.partners import SHADOW, Pair, Partners
from tests import sessions
from tests.app.driving import drive, opened, until
from tests.app.panels.stage import read
from tui.app.dialogs.run_forms import BESIDE, ForkWish, ShadowDialog

METHODS = [("fedlora", "FedLoRA"), ("fedgh", "FedGH"), ("standalone", "Standalone")]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """main: rounds 1 to 12 of 20, of 2.5 s each. Checkpoints are kept of rounds 5, 10 and 12."""
    sessions.make(tmp_path / "main", rounds=12, of=20, clients=4, state="stopped")
    return tmp_path


def form(home: Path, round: int = 12, pair: Pair | None = None) -> ShadowDialog:
    return ShadowDialog(read(home / "main"), round, home, METHODS, pair)


def test_standalone_from_the_round_shown_is_offered_under_a_name_that_tells(home: Path) -> None:
    dialog = form(home, 12)
    values = {name: field.value for name, field in dialog._fields.items()}
    assert values == {"method": "standalone", "round": "12"}
    assert dialog.accept(values) == ForkWish(home / "main-shadow-standalone", 12, "standalone", (), BESIDE)
    (home / "main-shadow-standalone").mkdir()
    assert dialog.accept(values).folder.name == "main-shadow-standalone-2"
    assert [name for name, _ in dialog._fields["method"].known()] == ["fedgh", "standalone"]


def test_what_cannot_be_is_refused(home: Path) -> None:
    for method, round, said in (
        ("standalone", "13", "main has rounds 0 to 12"),
        ("standalone", "", "main has rounds 0 to 12"),
        ("fedlora", "12", "continues with fedlora itself"),
        ("fedlorra", "12", "fedlora"),
    ):
        with pytest.raises(ConfigError, match=said):
            form(home).accept({"method": method, "round": round})


def test_it_says_what_is_computed_and_how_long_that_takes(home: Path) -> None:
    said = form(home).remark({"method": "standalone", "round": "9"})
    assert "First, 4 rounds are computed again, about 10 s." in said  # from round 5 on
    assert "Then 11 rounds run in a process of their own, about 28 s." in said  # 11 · 2.5
    assert "First" not in form(home).remark({"method": "standalone", "round": "10"})


def test_of_a_finished_run_it_begins_at_the_beginning(tmp_path: Path) -> None:
    sessions.make(tmp_path / "main", rounds=12, clients=4)
    assert form(tmp_path)._fields["round"].value == "0"
    said = form(tmp_path).remark({"method": "standalone", "round": "11"})
    assert "Then 1 round runs in a process of its own, about 2 s." in said


def test_it_says_that_a_partner_is_there(home: Path) -> None:
    sessions.make(home / "base", rounds=12, of=20, clients=4, method="standalone")
    run = read(home / "main")
    [partner] = Partners().find(run, home)
    pair = Pair(run.folder, partner, read(partner.folder))
    assert (
        form(home, pair=pair)
        .remark({"method": "", "round": ""})
        .startswith("main is already compared with base (B).")
    )


@pytest.mark.long
def test_a_made_one_runs_in_its_own_process_and_becomes_the_partner(home: Path) -> None:
    app = opened(home)

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: app.view.run.round == 12)
        run = app.view.run
        sessions.make(home / "base", rounds=12, of=20, clients=4, method="standalone")
        shadow = sessions.make(
            home / "shadow",
            rounds=12,
            of=20,
            clients=4,
            method="standalone",
            parent=(run.folder, run.document["id"], 5),
        )
        app.runs.forked(home / "main", ForkWish(shadow, 5, "standalone", (), BESIDE))
        assert app.runs.elsewhere == ["shadow"] and app.view.run.name == "main"
        assert not app.runs.running  # the session itself was not started
        await until(pilot, lambda: app.view.paired is not None)
        pair = app.view.paired
        assert pair is not None and (pair.partner.name, pair.partner.shared) == ("shadow", 5)

    drive(app, script)


@pytest.mark.slow
def test_a_key_starts_standalone_beside_a_real_session(tmp_path: Path) -> None:
    config = {
        "method": {"name": "fedgh"},
        "rounds": 2,
        "data": {"dataset": "digits", "limit": 200},
        "federation": {"clients": 2, "group": "tiny"},
    }
    hs.run(hs.Config.read(config), tmp_path / "real")
    app = opened(tmp_path, "real")

    async def script(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: app.view.run.round == 2)
        await pilot.press("A")
        await until(pilot, lambda: isinstance(app.screen, ShadowDialog))
        await until(pilot, lambda: bool(app.screen.query(Input)))
        await pilot.press("enter")
        folder = tmp_path / "real-shadow-standalone"
        await until(pilot, lambda: hs.sessions.state(folder) == "finished" if folder.exists() else False, 120)
        assert hs.sessions.tags(folder) == (SHADOW,)
        await until(pilot, lambda: app.view.paired is not None and app.view.paired.other.round == 2)
        pair = app.view.paired
        assert pair is not None and pair.partner.shared == 0
        samples = [each.document["data_fingerprint"] for each in (app.view.run, pair.other)]
        assert samples[0] == samples[1]

    drive(app, script)
