"""`run --watch`: the watchers of a run, with their options, and how it ends if one stops it."""

import json
from pathlib import Path

import pytest

import checkpoints
from simulator.base.errors import ConfigError
from simulator.base.sections import WATCHERS, section_of
from simulator.studies import executor
from tests.cli.conftest import TINY, Cli
from tui.cli.options import with_watchers
from tui.common import errors

PLATEAU = "--watch=plateau:rounds=2,gain=0.99"
"""No round is 99 pp better than the first one, so this tells of a plateau after round 3."""


def test_what_a_watcher_notices_is_a_line_and_a_part_of_the_record(cli: Cli, sessions: Path) -> None:
    result = cli("run", *TINY, PLATEAU, "--rounds=4", "--session=s", "--json")
    assert result.code == 0
    first, second, third, fourth = map(json.loads, result.out.splitlines())
    assert not any("watch" in record for record in (first, second, fourth))
    (notice,) = third["watch"]
    best = f"{100 * first['accuracy']['mean']:.1f} % (round 1)"
    words = f"mean accuracy has not exceeded {best} by more than 99 pp for 2 rounds"
    assert notice == {"watcher": "plateau", "message": words, "clients": []}
    assert f"watch: plateau after round 3: {words}\n" in result.err


def test_a_run_that_a_watcher_stops_ends_with_code_10_and_can_be_resumed(cli: Cli, sessions: Path) -> None:
    result = cli("run", *TINY, f"{PLATEAU},action=stop", "--rounds=4", "--session=s")
    assert result.code == errors.WATCHED == executor.WATCHED == 10
    assert "; the run stops\n" in result.err
    assert "round 3 of 4, by watcher plateau: mean accuracy has not exceeded" in result.err
    assert cli("resume", "s").code == 0
    assert checkpoints.SessionReader(sessions / "s").state() == "finished"


def test_show_tells_it_in_words(cli: Cli, sessions: Path) -> None:
    cli("run", *TINY, PLATEAU, "--rounds=3", "--session=s")
    (line,) = (line for line in cli("show", "s").out.splitlines() if " noticed " in line)
    assert "round=3  plateau: mean accuracy has not exceeded" in line


def test_without_a_name_all_watchers_look(cli: Cli, sessions: Path) -> None:
    assert cli("run", *TINY, "--watch", "--rounds=1", "--session=s").code == 0
    watch = checkpoints.SessionReader(sessions / "s").document["config"]["watch"]
    assert watch["watchers"] == list(WATCHERS)
    assert cli("run", *TINY, "--rounds=1", "--session=t", "--watch").code == 0


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["run", "--watch"], ["run", "--watch", "all"]),
        (["run", "--watch", "--rounds", "3"], ["run", "--watch", "all", "--rounds", "3"]),
        (["run", "--watch", "plateau", "--watch"], ["run", "--watch", "plateau", "--watch", "all"]),
        (["run", "--watch=plateau", "--rounds", "3"], ["run", "--watch=plateau", "--rounds", "3"]),
        ([], []),
    ],
)
def test_a_bare_watch_stands_for_all(given: list[str], expected: list[str]) -> None:
    assert with_watchers(given) == expected


def test_words_are_options_of_the_section() -> None:
    assert section_of([]) == {}
    assert section_of(["plateau:rounds=20,action=stop", "collapse:action=log", "losing:action=pause"]) == {
        "watchers": ["plateau", "collapse", "losing"],
        "plateau_rounds": 20,
        "stop": ["plateau"],
        "pause": ["losing"],
    }
    assert section_of(["all:action=pause"]) == {"watchers": list(WATCHERS), "pause": list(WATCHERS)}


@pytest.mark.parametrize(
    ("word", "fault"),
    [
        ("platau", "`watch`: there is no watcher 'platau'. Did you mean 'plateau'?"),
        (
            "x",
            "`watch`: there is no watcher 'x'. Known: falling, divergence, plateau, collapse, losing, all.",
        ),
        (
            "plateau:round=3",
            "`watch`: 'round=3' is no option of 'plateau'. Use rounds=VALUE or gain=VALUE or action=pause or "
            "action=stop.",
        ),
        ("collapse:action=end", "`watch`: 'action=end' is no option of 'collapse'. Use share=VALUE or"),
        ("all:rounds=3", "`watch`: 'rounds=3' is no option of 'all'. Use action=pause or action=stop."),
    ],
)
def test_words_without_a_meaning_are_refused(word: str, fault: str) -> None:
    with pytest.raises(ConfigError) as refused:
        section_of([word])
    assert str(refused.value).startswith(fault)


def test_a_value_out_of_range_names_the_key(cli: Cli, sessions: Path) -> None:
    result = cli("run", *TINY, "--watch=plateau:rounds=0")
    assert result.code == 2
    assert "'watch.plateau_rounds' = 0" in result.err
