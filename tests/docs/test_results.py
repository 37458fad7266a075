"""docs/results.md, whose tables `make results` writes, and the values beside it."""

import csv
import re
import shlex
import statistics
from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.page import placed
from simulator.studies.search import Request
from tests.cli.conftest import call
from tui.cli.tune import Sampler

TINY = "--dataset digits --clients 2 --set federation.group=tiny --set data.limit=200 --set data.split=4:2:4"


@pytest.mark.parametrize("name", results.RESULTS)
def test_the_page_has_a_place_for_every_result(name: str) -> None:
    page = results.PAGE.read_text("utf-8")
    assert "| A |" in placed(page, name, "| A |")


def test_a_table_takes_the_place_of_the_one_before_and_of_nothing_else() -> None:
    page = "above\n<!-- a -->\n\nold\n\n<!-- /a -->\nbetween\n<!-- b -->\n<!-- /b -->\n"
    assert placed(page, "a", "new\n") == page.replace("old", "new")
    with pytest.raises(ValueError, match="no place for 'c'"):
        placed(page, "c", "new\n")


@pytest.mark.parametrize("result", results.RESULTS.values(), ids=results.RESULTS)
def test_its_commands_describe_studies_that_there_can_be(
    result: results.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything but the training: the request is read, checked, and its ranges are known."""
    from htfl_sim import tuning

    asked = []

    def instead(name: str, request: Request, **rest: object) -> None:
        asked.append(request)
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "carry_out", instead)
    monkeypatch.setattr("tui.cli.data.fetch_missing", lambda *rest: None)
    for name, arguments in result.studies.items():
        call("tune", name, *shlex.split(arguments), "--sessions-dir", tmp_path)
    assert len(asked) == len(result.studies)
    for request in asked:
        assert request.separate != (result.name == "vowels")  # whose 640 samples are too few to be divided
        assert request.sampler == Sampler.LATIN and request.budget == 9


@pytest.mark.slow
def test_a_result_is_made_and_written_from_its_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = results.Result(
        "tiny", {"tiny": f"--over method=fd {TINY} --key training.lr --budget 2 --rounds 2 --seeds 0,1"}
    )
    monkeypatch.setattr(results, "PAGE", tmp_path / "results.md")
    monkeypatch.setattr(results, "VALUES", tmp_path / "results")
    results.PAGE.write_text("<!-- tiny -->\n<!-- /tiny -->\nThe end.\n")
    results.run(tiny, 2, tmp_path)
    results.write(tiny, tmp_path)
    page = results.PAGE.read_text("utf-8")
    assert "```text\nhtfl-sim tune tiny --over method=fd" in page and page.endswith("The end.\n")
    assert len(re.findall(r"^\| fd \| 2 \|", page, re.MULTILINE)) == 3  # gains, accuracies, choices
    assert len(list(csv.DictReader((results.VALUES / "tiny.csv").open()))) == 4


def test_the_short_table_keeps_the_mark_of_diverged_sessions_and_puts_no_score_last() -> None:
    last = f"last {results.LAST} rounds, %"
    tables = f"| method | {last} |\n|---|--:|\n| fd | no score (1 of 2 diverged) |\n| fml | 60.00 (1 of 2 diverged) |"
    rows = results.short(tables).splitlines()[2:]
    assert [row.split(" | ")[:2] for row in rows] == [
        ["| `fml`", "60.00 (1 of 2 diverged)"],
        ["| `fd`", "no score (1 of 2 diverged)"],
    ]


@pytest.mark.parametrize("name", sorted(file.stem for file in results.VALUES.glob("*.csv")))
def test_the_values_beside_the_page_give_its_means(name: str) -> None:
    result = results.RESULTS[name]
    page = results.PAGE.read_text("utf-8")
    shown = page[page.index(f"<!-- {name} -->") : page.index(f"<!-- /{name} -->")]
    groups: dict[tuple[str, ...], list[float]] = {}
    with (results.VALUES / f"{name}.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            groups.setdefault(tuple(row[axis] for axis in result.by), []).append(100 * float(row["last"]))
    for key, values in groups.items():
        cells = " | ".join(each or "–" for each in key)
        mean, spread = statistics.fmean(values), statistics.stdev(values)
        assert f"| {cells} | {len(values)} | {mean:.2f} ± {spread:.2f} |" in shown


def test_a_folder_that_cannot_be_one_ends_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("sys.argv", ["results", "inco", "--tables-only", "--folder", str(tmp_path / "file")])
    with pytest.raises(SystemExit, match=r"^error: .*file"):
        results.main()


def test_results_that_stand_on_the_page_have_their_values_beside_it() -> None:
    page = results.PAGE.read_text("utf-8")
    shown = {name for name in results.RESULTS if "| --- |" in placed_text(page, name)}
    assert shown == {file.stem for file in results.VALUES.glob("*.csv")} >= {"htm5-dirichlet", "htm5-classes"}


def placed_text(page: str, name: str) -> str:
    """What stands in a place of the page."""
    return page[page.index(f"<!-- {name} -->") : page.index(f"<!-- /{name} -->")]


def test_the_readme_shows_the_numbers_of_the_page() -> None:
    page, readme = (file.read_text("utf-8") for file in (results.PAGE, results.README))
    shown = placed_text(readme, results.IN_README)
    assert results.short(placed_text(page, results.IN_README)) in shown
    assert len(re.findall(r"^\| `", shown, re.MULTILINE)) == 1 + len(results.EVERY.split(","))


def test_how_many_actors_keep_a_driver_busy_follows_from_its_parts() -> None:
    """A driver serves 1000 / (19 + 6 + 17) = 24 clients of a second each; 64 need 64 times each part."""
    page = (results.PAGE.parent / "scale.md").read_text(encoding="utf-8")
    parts = [int(ms) for ms in re.findall(r"(\d+) ms per client", page)]
    assert f"takes {sum(parts)} ms of its time" in page
    assert f"about {1000 // sum(parts) + (1000 % sum(parts) > sum(parts) / 2)} actors" in page
    moved, states, written = (f"{64 * ms / 1000:.1f} s" for ms in parts)
    assert f"{moved} to move clients, {states} for their states, and {written} for checkpoints" in page


def test_the_tables_of_schedules_have_the_means_and_differences_of_their_values() -> None:
    with (results.PAGE.parent / "time" / "schedules.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    page = results.PAGE.read_text("utf-8")
    tables = page.partition("The fastest devices hold")[2].partition("The slowest devices hold")
    for part, correlation in ((tables[0], 1.0), (tables[2].partition("What the tables show")[0], -1.0)):
        lines = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| `")]
        cells = {line[0].strip("`"): line[2:] for line in lines}
        assert len(cells) == 8
        for method, shown in cells.items():
            values = {
                schedule: {
                    row["seed"]: 100 * float(row["last"])
                    for row in rows
                    if (row["method"], row["system.schedule"], float(row["system.correlation"]))
                    == (method, schedule, correlation)
                }
                for schedule in ("synchronous", "deadline", "buffered")
            }
            for schedule, cell in zip(values, shown, strict=False):
                mean, spread = (float(each) for each in cell.split(" ± "))
                assert statistics.fmean(values[schedule].values()) == pytest.approx(mean, abs=0.05001)
                assert statistics.stdev(values[schedule].values()) == pytest.approx(spread, abs=0.05001)
            for schedule, cell in zip(("deadline", "buffered"), shown[3:], strict=True):
                gains = [values[schedule][seed] - values["synchronous"][seed] for seed in values[schedule]]
                mean = float(cell.split(" [")[0].replace("−", "-"))
                assert statistics.fmean(gains) == pytest.approx(mean, abs=0.05001)


def test_the_tables_of_ranks_have_the_means_of_their_values() -> None:
    page = results.PAGE.read_text("utf-8").partition("## LoRA's ranks")[2].partition("\n## ")[0]
    orders = {"all clients": "turn", "more data, higher rank": "samples", "more data, lower rank": "inverse"}
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    shown = [
        ((ranks.replace(", ", "-"), orders[clients], "flexlora"), found)
        for ranks, clients, *found in cells
        if clients in orders
    ]
    shown += [
        (("1-4-16", "samples", name.strip("`")), [accuracy, *found])
        for name, accuracy, _, *found in cells
        if name.startswith("`")
    ]
    with (results.PAGE.parent / "lora" / "ranks.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert 3 * len({of_runs for of_runs, _ in shown}) == len(rows)
    for of_runs, (accuracy, traffic, effective, energy) in shown:
        own = [row for row in rows if (row["ranks"], row["order"], row["aggregation"]) == of_runs]
        mean = {key: statistics.mean(float(row[key]) for row in own) for key in list(rows[0])[4:]}
        assert len(own) == 3 and accuracy.startswith(f"{100 * mean['accuracy']:.1f} [")
        assert traffic == f"{mean['bytes'] / 1024:.1f} KiB"
        assert (effective, energy) == (
            f"{mean['effective_rank']:.2f}",
            f"{100 * mean['energy_beyond_lowest']:.1f}",
        )
