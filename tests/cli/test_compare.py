"""`htfl-sim compare`: what is printed, and what is refused."""

import csv
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import htfl_sim as hs
from simulator.results.analysis.overview import read_overview
from simulator.studies.selection import by_seed
from tests import sessions as made
from tests.cli.conftest import Cli


@pytest.fixture
def three(sessions: Path) -> Path:
    """Two seeds of fedlora, of which fedgh at seed 0 is the better."""
    for name, method, seed, ceiling in [
        ("a-s0", "fedlora", 0, 0.8),
        ("a-s1", "fedlora", 1, 0.9),
        ("b-s0", "fedgh", 0, 0.9),
    ]:
        document = made.config(3, 6, method) | {"seed": seed}
        made.make(sessions / name, clients=3, rounds=6, method=method, ceiling=ceiling, document=document)
    return sessions


def test_a_table_has_a_row_a_group_under_its_headings(cli: Cli, three: Path) -> None:
    result = cli("compare", "*", "--by", "method", "--target", "0.99")
    heading, first, second, *_ = result.out.splitlines()
    assert result.code == 0
    assert heading.split()[:4] == ["method", "n", "last,", "%"]
    assert first.split()[:2] == ["fedlora", "2"]
    assert second.split()[:2] == ["fedgh", "1"]
    assert "0 of 1" in second and "≥ 6" in second


@pytest.mark.parametrize(
    ("format", "begins"),
    [("md", "| method"), ("latex", r"\begin{tabular}"), ("csv", "method,n,chosen"), ("json", "{")],
)
def test_every_format_is_all_there_is_on_stdout(cli: Cli, three: Path, format: str, begins: str) -> None:
    result = cli("compare", "*", "--by", "method", "--baseline", "fedgh", "--format", format)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(begins)


def test_the_numbers_are_those_of_the_ledgers(cli: Cli, three: Path) -> None:
    rows = list(
        csv.DictReader(cli("compare", "a-s0", "b-s0", "--by", "session", "--format", "csv").out.splitlines())
    )
    for row, ceiling in zip(rows, (0.8, 0.9), strict=True):
        last = made.record(6, 3, ceiling=ceiling)["accuracy"]
        assert float(row["last"]) == pytest.approx(last["mean"])
        assert float(row["worst"]) == pytest.approx(last["min"])
    assert cli("compare", "a-s0", "b-s0", "--json").json()["rows"][0]["sessions"] == ["a-s0"]


def test_without_eval_values_a_selection_is_not_measured(cli: Cli, three: Path) -> None:
    result = cli("compare", "*", "--by", "method", "--select", "eval")
    assert result.code == 0
    assert "Not measured on eval: fedlora (a-s0, a-s1) and fedgh (b-s0)." in result.out
    assert "not measured" in result.out.splitlines()[-3]


def test_a_damaged_session_in_a_glob_is_named_and_left_out(cli: Cli, three: Path) -> None:
    (three / "b-s0" / "session.json").write_text("{")
    result = cli("compare", "*", "--by", "method", "--format", "csv")
    assert result.code == 0
    assert "b-s0 is damaged and left out" in result.err
    assert [line.split(",")[0] for line in result.out.splitlines()] == ["method", "fedlora"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["c-s0"], 4, "no session and no study 'c-s0'"),
        (["x*"], 4, "matches no session"),
        (["*", "--by", "metod"], 2, "Did you mean 'method'?"),
        (["*", "--by", "method", "--baseline", "fedgg"], 2, "method is one of fedlora, fedgh"),
        (["*", "--target", "90"], 2, "an accuracy from 0 to 1"),
        (["*", "--select", "test"], 2, "'test'"),
        (["*", "--format", "html"], 2, "'html'"),
        (["*", "--variance", "--target", "0.5"], 2, "--target changes nothing of"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    cli: Cli, three: Path, arguments: list[str], code: int, said: str
) -> None:
    result = cli("compare", *arguments)
    assert (result.code, result.out) == (code, "")
    assert said in result.err and result.err.count("\n") == 1


def test_nothing_but_damage_is_an_error(cli: Cli, three: Path) -> None:
    (three / "b-s0" / "session.json").write_text("{")
    assert cli("compare", "b*").code == 4


def test_a_session_without_a_round_is_left_out(cli: Cli, three: Path) -> None:
    made.make(three / "new", clients=3, rounds=0, of=6)
    result = cli("compare", "*", "--format", "csv")
    assert "new has finished no round and is left out" in result.err
    assert cli("compare", "new").code == 4


@pytest.mark.long
def test_comparing_does_not_import_torch(three: Path) -> None:
    script = """
import sys
from tui.cli import main
code = main(["compare", "*", "--by", "method", "--baseline", "fedgh", "--target", "0.5"])
sys.exit(code or ("torch" in sys.modules) * 99)
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=three.parent, stdout=subprocess.DEVNULL)


@pytest.fixture
def tuning(sessions: Path) -> Path:
    """A tuning study under way: two trials of fedlora, of which one has stopped at round 3, and one that has not begun.

    A trial has two tuning seeds.
    """
    points = []
    for trial, rounds, ceiling in ((0, 6, 0.9), (1, 3, 0.5), (2, 0, 0.0)):
        for seed in (100, 101):
            name, training = f"fedlora-t{trial:02d}-s{seed}", {"lr": 0.01 * (1 + trial)}
            axes = {"method": "fedlora", "trial": trial, "seed": seed, "training.lr": training["lr"]}
            points.append({"name": name, "axes": axes, "config": made.whole(3, 6)})
            if rounds:
                document = made.config(3, 6, training=training) | {"seed": seed}
                made.make(
                    sessions / "t" / name,
                    clients=3,
                    rounds=rounds,
                    of=6,
                    ceiling=ceiling,
                    document=document,
                    state="stopped",
                )
    (sessions / "t" / "points.json").write_text(json.dumps(points))
    (sessions / "t" / "tuning.json").write_text("{}")
    return sessions


@pytest.mark.parametrize("names", [["t"], ["t/*"], ["*"]])
def test_trials_of_a_tuning_study_are_not_pooled_as_seeds(cli: Cli, tuning: Path, names: list[str]) -> None:
    result = cli("compare", *names, "--by", "method", "--json")
    table = json.loads(result.out)
    assert [(row["key"], row["n"]) for row in table["rows"]] == [
        ({"method": "fedlora", "trial": 0}, 2),
        ({"method": "fedlora", "trial": 1}, 2),
    ]
    assert "Trials of a tuning study are not seeds, so each trial stands alone." in table["notes"]
    assert any(note.startswith("Not finished: t/fedlora-t01-s100 (3 of 6") for note in table["notes"])
    if names == ["t"]:
        left_out = "t/fedlora-t02-s100 and t/fedlora-t02-s101 have finished no round and are left out."
        assert left_out in result.err


def test_a_cell_of_a_pivot_is_no_mean_over_trials(cli: Cli, tuning: Path) -> None:
    result = cli("compare", "t", "--pivot", "method,dataset")
    assert result.code == 2 and "a cell would be their mean" in result.err
    assert "--by method" in result.err


def test_a_figure_draws_each_trial_for_itself(tuning: Path) -> None:
    say: list[str] = []
    figure = hs.plot("accuracy", "t", by="method", sessions_dir=tuning, say=say.append)
    assert [line.get_label() for line in figure.axes[0].lines if line.get_label()[0] != "_"] == [
        "FedLoRA, trial 0",
        "FedLoRA, trial 1",
    ]
    assert "Trials of a tuning study are not seeds, so each trial stands alone." in say
    with pytest.raises(hs.ConfigError, match="trials are not seeds"):
        hs.plot("sensitivity", "t", axis="rounds", sessions_dir=tuning, say=say.append)


def test_a_study_read_in_python_keeps_its_trials_apart(tuning: Path) -> None:
    assert [row.label for row in hs.Study(tuning / "t").table("method").rows] == [
        "fedlora, trial 0",
        "fedlora, trial 1",
    ]


def test_a_final_session_is_no_seed_of_the_trial_with_its_values(tuning: Path) -> None:
    folders = [tuning / "t" / f"fedlora-t00-s{seed}" for seed in (100, 101)]
    runs = [read_overview(folder) for folder in folders]
    final = replace(runs[0], folder=tuning / "t" / "fedlora-s0")
    assert [len(each.runs) for each in by_seed([*runs, final], [tuning / "t"])] == [2, 1]
