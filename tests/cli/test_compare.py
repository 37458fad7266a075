"""`htfl-sim compare`: what is printed, and what is refused."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import htfl_sim as hs
from simulator.results.analysis.overview import read_overview
from simulator.studies.selection import by_seed
from tests import sessions as made
from tests.cli.conftest import TINY, Cli


@pytest.fixture
def three(sessions: Path) -> Path:
    """Two seeds of fedlora, of which fedgh at seed 0 is the better."""
    three = [("a-s0", "fedlora", 0, 0.8), ("a-s1", "fedlora", 1, 0.9), ("b-s0", "fedgh", 0, 0.9)]
    for name, method, seed, ceiling in three:
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


def test_every_format_is_all_there_is_on_stdout(cli: Cli, three: Path) -> None:
    begins = {"md": "| method", "latex": r"\begin{tabular}", "csv": "method,n,chosen", "json": "{"}
    for format, beginning in begins.items():
        result = cli("compare", "*", "--by", "method", "--baseline", "fedgh", "--format", format)
        assert (result.code, result.err) == (0, "")
        assert result.out.startswith(beginning)


def test_the_numbers_are_those_of_the_ledgers(cli: Cli, three: Path) -> None:
    printed = cli("compare", "a-s0", "b-s0", "--by", "session", "--format", "csv").out
    for row, ceiling in zip(csv.DictReader(printed.splitlines()), (0.8, 0.9), strict=True):
        last = made.record(6, 3, ceiling=ceiling)["accuracy"]
        assert float(row["last"]) == pytest.approx(last["mean"])
        assert float(row["worst"]) == pytest.approx(last["min"])
    assert cli("compare", "a-s0", "b-s0", "--json").json()["rows"][0]["sessions"] == ["a-s0"]


def test_a_session_that_is_damaged_or_has_no_round_is_named_and_left_out(cli: Cli, three: Path) -> None:
    (three / "b-s0" / "session.json").write_text("{")
    made.make(three / "new", clients=3, rounds=0, of=6)
    result = cli("compare", "*", "--by", "method", "--format", "csv")
    assert result.code == 0
    assert "b-s0 is damaged and left out" in result.err
    assert "new has finished no round and is left out" in result.err
    assert [line.split(",")[0] for line in result.out.splitlines()] == ["method", "fedlora"]
    assert cli("compare", "b*").code == cli("compare", "new").code == 4


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
                how: dict[str, Any] = {"clients": 3, "rounds": rounds, "of": 6, "ceiling": ceiling}
                document = made.config(3, 6, training=training) | {"seed": seed}
                made.make(sessions / "t" / name, **how, document=document, state="stopped")
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
    labels = [line.get_label() for line in figure.axes[0].lines if line.get_label()[0] != "_"]
    assert labels == ["FedLoRA, trial 0", "FedLoRA, trial 1"]
    assert "Trials of a tuning study are not seeds, so each trial stands alone." in say
    rows = hs.Study(tuning / "t").table("method").rows
    assert [row.label for row in rows] == ["fedlora, trial 0", "fedlora, trial 1"]
    with pytest.raises(hs.ConfigError, match="trials are not seeds"):
        hs.plot("sensitivity", "t", axis="rounds", sessions_dir=tuning, say=say.append)


def test_a_final_session_is_no_seed_of_the_trial_with_its_values(tuning: Path) -> None:
    folders = [tuning / "t" / f"fedlora-t00-s{seed}" for seed in (100, 101)]
    runs = [read_overview(folder) for folder in folders]
    final = replace(runs[0], folder=tuning / "t" / "fedlora-s0")
    assert [len(each.runs) for each in by_seed([*runs, final], [tuning / "t"])] == [2, 1]


# `htfl-sim plot`: every kind becomes a file, and what a kind cannot be asked is refused


@pytest.fixture
def drawn(sessions: Path) -> Path:
    """Two settings of fedlora with CKA, and a session of standalone, of four clients and six rounds."""
    for name, method, mu in [("a", "fedlora", 0.5), ("b", "fedlora", 0.7), ("c", "standalone", 0.7)]:
        document = made.config(4, 6, method) | {"method": {"name": method, "mu": mu}}
        made.make(sessions / name, clients=4, rounds=6, method=method, cka_every=3, document=document)
    return sessions


FIGURES = [
    "accuracy * --by method --x flops",
    "box * --by session --round 2",
    "tradeoff * --target 0.3 --width page",
    "loss * --by method --x bytes",
    "loss * --metric objective --metric cross_entropy",
    "cka a --layer conv1 --round 4",
    "cka-curves a b --by method",
    "sensitivity a b --axis method.mu",
    "heatmap * --axis method.mu --axis method",
]


@pytest.mark.long
def test_a_kind_becomes_a_file_and_a_line_says_how_large(cli: Cli, drawn: Path) -> None:
    for line in FIGURES:
        out = drawn.parent / "figure.svg"
        result = cli("plot", *line.split(), "--out", out)
        assert (result.code, result.out) == (0, "")
        assert f"{out}: " in result.err and "inches" in result.err
        assert out.read_text().startswith("<?xml")
        out.unlink()


def test_a_figure_that_averages_over_settings_says_so(cli: Cli, drawn: Path) -> None:
    line = ("plot", "accuracy", "*", "--by", "method")
    result = cli(*line, "--out", drawn.parent / "figure.svg")
    assert "FedLoRA is a mean over 2 settings of method.mu. Group by these to separate them." in result.err
    again = cli(*line, "--by", "method.mu", "--out", drawn.parent / "figure.svg")
    assert "is a mean over" not in again.err


def test_a_figure_over_an_axis_averages_over_the_others_alone(cli: Cli, drawn: Path) -> None:
    line = ("plot", "sensitivity", "a", "b", "--axis", "method.mu", "--out", drawn.parent / "figure.svg")
    assert "is a mean over" not in cli(*line).err
    document = made.config(4, 6) | {"method": {"name": "fedlora", "mu": 0.7, "hidden": 5}}
    made.make(drawn / "d", clients=4, rounds=6, document=document)
    said = "mu 0.7 is a mean over 2 settings of method.hidden."
    assert said in cli(*line[:4], "d", *line[4:]).err


def test_a_figure_says_which_training_settings_its_groups_differ_in(cli: Cli, drawn: Path) -> None:
    document = made.config(4, 6, "fedgh") | {"training": {"lr": 0.5}}
    made.make(drawn / "d", clients=4, rounds=6, method="fedgh", document=document)
    result = cli("plot", "box", "c", "d", "--by", "method", "--out", drawn.parent / "figure.svg")
    differ = "training.epochs: 1 (FedGH), 5 (Standalone); training.lr: 0.01 (Standalone)"
    assert f"Groups differ in {differ}" in result.err


@pytest.mark.long
def test_partition_and_the_plane_are_drawn_from_a_real_session(cli: Cli, sessions: Path) -> None:
    assert cli("run", *TINY, "--method=fedproto", "--rounds=1", "--session=s", "--no-progress").code == 0
    for kind, more in [("partition", []), ("tsne", ["--images", "4"])]:
        out = sessions.parent / f"{kind}.png"
        result = cli("plot", kind, "s", *more, "--out", out)
        assert (result.code, result.out) == (0, ""), result.err
        assert out.read_bytes().startswith(b"\x89PNG")


# `htfl-sim report` in this process: the file it writes, and what it refuses


POINTS = json.dumps([{"name": "p", "axes": {}, "config": made.whole(rounds=2)}])


@pytest.fixture
def two(sessions: Path) -> Path:
    made.make(sessions / "one", rounds=3, document=made.whole())
    made.make(sessions / "two", rounds=3, document=made.whole(method={"name": "standalone"}))
    return sessions


def test_the_page_is_named_after_the_session_and_lies_here(cli: Cli, two: Path, tmp_path: Path) -> None:
    result = cli("report", "one")
    assert result.code == 0 and "one.html: 1 session" in result.err
    assert "<h1>one</h1>" in (tmp_path / "one.html").read_text(encoding="utf-8")
    (two / "two" / "session.json").write_bytes(b"{}")
    assert cli("report", "*", "--out", "page.html").code == 0
    assert "two is damaged and left out: " in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.long
def test_settings_that_differ_between_rows_stand_above_the_table(cli: Cli, two: Path, tmp_path: Path) -> None:
    document = made.whole(method={"name": "fedgh"}, training={"epochs": 5, "batch_size": 8})
    made.make(two / "three", rounds=3, document=document)
    assert cli("report", "*", "--by", "method", "--out", "page.html").code == 0
    above, _, _ = (tmp_path / "page.html").read_text(encoding="utf-8").partition('<table class="results">')
    assert "Rows differ in training.batch_size: 8 (fedgh), 64 (others)." in above


def test_a_study_file_is_told_as_it_was_asked_and_a_link_is_not_followed(
    cli: Cli, two: Path, tmp_path: Path
) -> None:
    study = two / "t3"
    made.make(study / "p", rounds=2, document=made.whole())
    (study / "study.toml").write_text('preset = "quickstart"\n', encoding="utf-8")
    (study / "points.json").write_text(POINTS, encoding="utf-8")
    assert cli("report", "t3").code == 0
    assert "preset = &#34;quickstart&#34;" in (tmp_path / "t3.html").read_text(encoding="utf-8")
    (tmp_path / "private").write_text("a stranger's wish", encoding="utf-8")
    (study / "study.toml").unlink()
    (study / "study.toml").symlink_to(tmp_path / "private")
    assert cli("report", "t3").code == 0
    page = (tmp_path / "t3.html").read_text(encoding="utf-8")
    assert "wish" not in page and "study.toml" in page
