"""docs/results.md, whose tables `make results` writes, and the values beside it."""

import csv
import re
import shlex
import statistics
from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.figures import placed
from simulator.studies.search import Request
from tests.cli.conftest import call

TINY = "--dataset digits --clients 2 --set federation.group=tiny --set data.limit=200 --set data.split=4:2:4"


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
    from simulator.studies import tuning

    asked = []

    def instead(folder: Path, request: Request, *more: object, **rest: object) -> None:
        asked.append(request)
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "tune", instead)
    monkeypatch.setattr("tui.cli.machine.fetch_missing", lambda *rest: None)
    for name, arguments in result.studies.items():
        call("tune", name, *shlex.split(arguments), "--sessions-dir", tmp_path)
    assert len(asked) == len(result.studies)
    for request in asked:
        assert request.separate != (result.name == "vowels")  # whose 640 samples are too few to be divided
        assert request.sampler == "latin" and request.budget == 9


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
    assert len(re.findall(r"^\| fd \| ", page, re.MULTILINE)) == 1 and page.endswith("The end.\n")
    assert (results.VALUES / "tiny.txt").read_text("utf-8").startswith("htfl-sim tune tiny --over method=fd")
    methods, searches, seeds = (
        list(csv.DictReader((results.VALUES / f"tiny{kind}.csv").open("r", encoding="utf-8")))
        for kind in ("-methods", "-searches", "")
    )
    assert [row["method"] for row in methods] == ["standalone", "fd"] and len(seeds) == 4
    assert {row["trials"] for row in searches} == {"2"}


def test_the_short_table_keeps_the_mark_of_diverged_sessions_and_puts_no_score_last() -> None:
    last = f"last {results.LAST} rounds, %"
    tables = f"| method | {last} |\n|---|--:|\n| fd | no score (1 of 2 diverged) |\n| fml | 60.00 (1 of 2 diverged) |"
    rows = results.short(results.methods(tables)).splitlines()[2:]
    assert [row.split(" | ")[:2] for row in rows] == [
        ["| fml", "60.00 (1 of 2 diverged)"],
        ["| fd", "no score (1 of 2 diverged)"],
    ]


def test_a_short_table_has_standalone_and_then_the_highest_means() -> None:
    names = ["fd", "standalone", "fml", "fedgh", "fedkd", "fedssa", "fedgen"]
    lines = [f"| {name} | {10.0 + place:.2f} ± 1.00 |" for place, name in enumerate(names)]
    tables = "\n".join([f"| method | {results.MEAN} |", "|---|--:|", *lines])
    shown = [row.split(" | ")[0] for row in results.short(results.methods(tables)).splitlines()[2:]]
    assert shown == ["| standalone", "| fedgen", "| fedssa", "| fedkd", "| fedgh", "| fml"]


def test_the_values_of_every_seed_give_the_means_of_the_table_whose_first_rows_the_page_shows() -> None:
    page = results.PAGE.read_text("utf-8")
    for name, by in ((each.name, each.by) for each in results.RESULTS.values()):
        groups: dict[tuple[str, ...], list[float]] = {}
        for row in rows_of(results.VALUES / f"{name}.csv"):
            groups.setdefault(tuple(row[axis] for axis in by), []).append(100 * float(row["last"]))
        shown = {tuple(row[axis].strip("–") for axis in by): row for row in methods_of(name)}
        assert shown.keys() == groups.keys()
        for key, values in groups.items():
            mean, spread = statistics.fmean(values), statistics.stdev(values)
            said = (shown[key]["n"], shown[key][results.MEAN])
            assert said == (str(len(values)), f"{mean:.2f} ± {spread:.2f}"), (name, key)
        assert results.short(methods_of(name), by) in placed_text(page, name)


def rows_of(file: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with file.open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def methods_of(name: str) -> list[dict[str, str]]:
    """The rows of a place's table, as `make results` sorts them."""
    return [
        {title: cell for title, cell in row.items() if cell}
        for row in rows_of(results.VALUES / f"{name}-methods.csv")
    ]


def test_a_folder_that_cannot_be_one_ends_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("sys.argv", ["results", "inco", "--tables-only", "--folder", str(tmp_path / "file")])
    with pytest.raises(SystemExit, match=r"^error: .*file"):
        results.main()


def placed_text(page: str, name: str) -> str:
    """What stands in a place of the page."""
    return page[page.index(f"<!-- {name} -->") : page.index(f"<!-- /{name} -->")]


def test_the_readme_shows_the_numbers_of_the_page() -> None:
    page, readme = (file.read_text("utf-8") for file in (results.PAGE, results.README))
    assert placed_text(readme, results.IN_README) == placed_text(page, results.IN_README)


def test_how_many_actors_keep_a_driver_busy_follows_from_its_parts() -> None:
    """A driver serves 1000 / (19 + 6 + 17) = 24 clients of a second each; 64 need 64 times each part."""
    page = (results.PAGE.parent / "scale.md").read_text(encoding="utf-8")
    parts = [int(ms) for ms in re.findall(r"(\d+) ms per client", page)]
    assert f"takes {sum(parts)} ms of its time" in page
    assert f"about {1000 // sum(parts) + (1000 % sum(parts) > sum(parts) / 2)} actors" in page
    moved, states, written = (f"{64 * ms / 1000:.1f} s" for ms in parts)
    assert f"{moved} to move clients, {states} for their states, and {written} for checkpoints" in page


def test_the_table_of_schedules_has_the_means_and_differences_of_its_values() -> None:
    folder = results.PAGE.parent / "time"
    seeds = rows_of(folder / "schedules.csv")
    table = rows_of(folder / "schedules-methods.csv")
    assert len(table) == 2 * 8
    for shown in table:
        correlation = 1.0 if shown["largest models on"] == "fastest devices" else -1.0
        values = {
            schedule: {
                row["seed"]: 100 * float(row["last"])
                for row in seeds
                if (row["method"], row["system.schedule"], float(row["system.correlation"]))
                == (shown["method"], schedule, correlation)
            }
            for schedule in ("synchronous", "deadline", "buffered")
        }
        for schedule, found in values.items():
            mean, spread = (float(each) for each in shown[f"{schedule}, %"].split(" ± "))
            assert statistics.fmean(found.values()) == pytest.approx(mean, abs=0.05001)
            assert statistics.stdev(found.values()) == pytest.approx(spread, abs=0.05001)
        for schedule in ("deadline", "buffered"):
            gains = [values[schedule][seed] - values["synchronous"][seed] for seed in values[schedule]]
            mean = float(shown[f"{schedule} − synchronous, pp"].split(" [")[0].replace("−", "-"))
            assert statistics.fmean(gains) == pytest.approx(mean, abs=0.05001)


def test_the_page_shows_cells_of_the_table_of_schedules() -> None:
    part = results.PAGE.read_text("utf-8").partition("## Schedules on a clock")[2].partition("\n## ")[0]
    by_method: dict[str, list[str]] = {}
    for row in rows_of(results.PAGE.parent / "time" / "schedules-methods.csv"):  # fastest devices first
        cells = by_method.setdefault(row["method"], [f"`{row['method']}`", row["payload"]])
        cells += [row["synchronous, %"], row["buffered − synchronous, pp"]]
    assert len(by_method) == 8 and all(f"| {' | '.join(cells)} |" in part for cells in by_method.values())


def test_the_table_of_ranks_has_the_means_of_its_values() -> None:
    folder = results.PAGE.parent / "lora"
    seeds = rows_of(folder / "ranks.csv")
    orders = {"all clients": "turn", "more data, higher rank": "samples", "more data, lower rank": "inverse"}
    table = rows_of(folder / "ranks-methods.csv")
    assert 3 * len(table) == len(seeds)
    for shown in table:
        of_runs = (shown["ranks"].replace(", ", "-"), orders[shown["which clients"]], shown["aggregation"])
        own = [row for row in seeds if (row["ranks"], row["order"], row["aggregation"]) == of_runs]
        mean = {key: statistics.mean(float(row[key]) for row in own) for key in list(seeds[0])[4:]}
        assert len(own) == 3 and shown["accuracy, %"].startswith(f"{100 * mean['accuracy']:.1f} [")
        assert shown["bytes per round"] == f"{mean['bytes'] / 1024:.1f} KiB"
        assert shown["effective_rank"] == f"{mean['effective_rank']:.2f}"
        assert shown["energy_beyond_lowest, %"] == f"{100 * mean['energy_beyond_lowest']:.1f}"
