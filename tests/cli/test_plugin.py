"""--plugin: a file's methods on the command line, in listings, and held to on a resume; a disturbed wire in `show`."""

from pathlib import Path

import pytest

from checkpoints import SessionReader
from simulator.methods import registry
from simulator.sessions.steering import Signals
from tests.cli.conftest import TINY, Cli, assert_refused
from tests.cli.test_output import complete
from tests.own import written

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "my_method.py"
RUN = ("run", *TINY, "--rounds=2", "--method=median_head", "--session=mine")


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins, and leaves, as a process that has loaded no plugin."""
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    monkeypatch.setattr(registry, "_ORIGINS", {})


def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = registry._ORIGINS
    kept = {name: each for name, each in registry._METHODS.items() if ("method", name) not in ours}
    monkeypatch.setattr(registry, "_METHODS", kept)
    monkeypatch.setattr(registry, "_ORIGINS", {})


def test_a_plugins_method_runs_takes_settings_and_is_shown(cli: Cli, sessions: Path) -> None:
    result = cli(*RUN, "--plugin", EXAMPLE, "--set=method.rho=0.2")
    assert result.code == 0, result.err
    method = SessionReader(sessions / "mine").document["config"]["method"]
    assert method == {"name": "median_head", "rho": 0.2}
    page = cli("show", "mine").out
    assert "median_head  rho=0.2" in page and "my_method.py" in page


def test_a_plugins_method_is_listed_with_the_others(cli: Cli) -> None:
    listed = {each["name"]: each for each in cli("methods", "--plugin", EXAMPLE, "--json").json()}
    assert {"fedavg", "median_head"} <= set(listed)
    assert listed["median_head"]["parameters"][0]["key"] == "rho"
    assert "ρ" in cli("methods", "median_head", "--plugin", EXAMPLE).out


def test_a_stopped_session_names_the_plugin_to_resume_with(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Signals, "stop", "SIGTERM")
    stopped = cli(*RUN, "--plugin", EXAMPLE)
    assert f"htfl-sim resume mine --plugin {EXAMPLE}" in stopped.err


def test_a_resume_needs_the_same_plugin(cli: Cli, sessions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli(*RUN, "--plugin", EXAMPLE).code == 0
    another_process(monkeypatch)
    assert_refused(cli(*RUN), 2, "unknown method 'median_head'")
    missing = cli("resume", "mine")
    assert missing.code == 4 and "Add --plugin my_method.py" in missing.err
    changed = sessions / "changed.py"
    changed.write_text(EXAMPLE.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    other = cli("resume", "mine", "--plugin", changed)
    assert other.code == 4 and "not the one this session was made with" in other.err
    another_process(monkeypatch)
    same = cli("resume", "mine", "--plugin", EXAMPLE)
    assert same.code == 0 and "is finished" in same.err


def test_a_bad_plugin_is_bad_usage(cli: Cli, tmp_path: Path) -> None:
    written(tmp_path, "bad.py", "1 / 0")
    for name, fault in (("gone.py", "cannot read the plugin"), ("bad.py", "failed, line 1")):
        assert_refused(cli(*RUN, "--plugin", name), 2, fault)


def test_the_shell_is_offered_the_plugins_methods_without_running_it(tmp_path: Path) -> None:
    source = 'raise SystemExit\n@register("fed_of_mine")\nclass Mine: ...\n'
    plugin = written(tmp_path, "mine.py", source)
    assert complete(f"htfl-sim run --plugin {plugin} --method fed_of") == ["fed_of_mine"]
    assert complete("htfl-sim run --plugin /none.py --method standal") == ["standalone"]


def test_a_lost_uplink_and_a_disturbed_wire_are_shown(cli: Cli) -> None:
    assert cli("run", *TINY, "--rounds=1", "--method=fedavg", "--session=x", "--set=wire.drop=0.5").code == 0
    page, shown = cli("show", "x").out, cli("show", "x", "--json").json()
    lost = [client["client"] for client in shown["clients"] if client["dropped"]]
    assert lost == shown["record"]["dropped"] != []
    assert "drop=0.5" in page and page.count("uplink lost") == len(lost)


@pytest.mark.long
def test_a_method_is_checked_against_what_every_method_promises(cli: Cli, tmp_path: Path) -> None:
    good = cli("methods", "median_head", "--plugin", EXAMPLE, "--check", "--json")
    assert good.code == 0, good.err
    assert all(each["kept"] for each in good.json()["promises"])


BREAKS = """
import numpy as np
from simulator.methods import Aggregated, Card, Method, register

@register("mine")
class Mine(Method):
    card = Card("M", "t", "h", "n", "–", "–")

    def aggregate(self, round, server, uplinks):
        return Aggregated({}, {"drawn": np.random.rand()})
"""


def test_a_method_that_breaks_a_promise_is_told_how(cli: Cli, tmp_path: Path) -> None:
    file = written(tmp_path, "mine.py", BREAKS)
    result = cli("methods", "mine", "--plugin", file, "--check")
    assert result.code == 2
    assert "BROKEN  the same seed gives the same bits" in result.out
    assert "method 'mine' breaks" in result.err
