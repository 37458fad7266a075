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


def test_its_commands_describe_possible_studies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything but the training: the request is read, checked, and its ranges are known."""
    asked: list[Request] = []

    def instead(folder: Path, request: Request, *more: object, **rest: object) -> None:
        asked.append(request)
        raise KeyboardInterrupt

    monkeypatch.setattr("simulator.studies.tuning.tune", instead)
    monkeypatch.setattr("tui.cli.machine.fetch_missing", lambda *rest: None)
    for result in results.RESULTS.values():
        for name, arguments in result.studies.items():
            asked.clear()
            call("tune", name, *shlex.split(arguments), "--sessions-dir", tmp_path)
            [request] = asked
            assert request.separate != (name == "vowels")  # whose 640 samples are too few to be divided
            assert (request.sampler, request.budget) == ("latin", 9)


@pytest.mark.slow
def test_a_result_is_made_from_its_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        rows_of(results.VALUES / f"tiny{kind}.csv") for kind in ("-methods", "-searches", "")
    )
    assert [row["method"] for row in methods] == ["standalone", "fd"] and len(seeds) == 4
    assert {row["trials"] for row in searches} == {"2"}


def test_a_short_table_has_standalone_then_the_highest_means_and_no_score_last() -> None:
    """The mark of diverged sessions stays."""
    names = ["fd", "standalone", "fml", "fedgh", "fedkd", "fedssa", "fedgen"]
    lines = [f"| {name} | {10.0 + place:.2f} ± 1.00 |" for place, name in enumerate(names)]
    few = ["| fd | no score (1 of 2 diverged) |", "| fml | 60.00 (1 of 2 diverged) |"]
    for rows, expected in (
        (lines, ["standalone | 11.00 ± 1.00", *(f"{name} | {10 + names.index(name)}.00 ± 1.00" for name in
                                                ("fedgen", "fedssa", "fedkd", "fedgh", "fml"))]),
        (few, ["fml | 60.00 (1 of 2 diverged)", "fd | no score (1 of 2 diverged)"]),
    ):  # fmt: skip
        tables = "\n".join([f"| method | {results.MEAN} |", "|---|--:|", *rows])
        shown = results.short(results.methods(tables)).splitlines()[2:]
        assert [" | ".join(row.removeprefix("| ").split(" | ")[:2]) for row in shown] == expected


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


def placed_text(page: str, name: str) -> str:
    return page[page.index(f"<!-- {name} -->") : page.index(f"<!-- /{name} -->")]


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def methods_of(name: str) -> list[dict[str, str]]:
    """The rows of a place's table, as `make results` sorts them."""
    found = rows_of(results.VALUES / f"{name}-methods.csv")
    return [{title: cell for title, cell in row.items() if cell} for row in found]


def test_a_folder_that_is_a_file_ends_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("sys.argv", ["results", "inco", "--tables-only", "--folder", str(tmp_path / "file")])
    with pytest.raises(SystemExit, match=r"^error: .*file"):
        results.main()


def test_the_readme_shows_the_numbers_of_the_page() -> None:
    page, readme = (file.read_text("utf-8") for file in (results.PAGE, results.README))
    assert placed_text(readme, results.IN_README) == placed_text(page, results.IN_README)
