"""docs/results.md, whose tables `make results` writes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import htfl_sim as hs
from benchmarks import results
from benchmarks.page import placed
from simulator.base.nested import Raw

TINY: Raw = {"rounds": 1, "data": {"dataset": "digits", "split": "4:2:4"}, "federation": {"clients": 2}}


@pytest.mark.parametrize("name", results.COMPARISONS)
def test_the_page_has_a_place_for_every_table(name: str) -> None:
    page = results.PAGE.read_text("utf-8")
    assert "| A |" in placed(page, name, "| A |")


def test_a_table_takes_the_place_of_the_one_before_and_of_nothing_else() -> None:
    page = "above\n<!-- a -->\n\nold\n\n<!-- /a -->\nbetween\n<!-- b -->\n<!-- /b -->\n"
    assert placed(page, "a", "new\n") == page.replace("old", "new")
    with pytest.raises(ValueError, match="no place for 'c'"):
        placed(page, "c", "new\n")


@pytest.mark.parametrize("comparison", results.COMPARISONS.values(), ids=results.COMPARISONS)
def test_what_it_asks_for_are_settings_that_there_are(comparison: results.Comparison) -> None:
    config = results.shared(comparison)
    assert config.method.name == comparison.baseline
    for method, own in comparison.methods.items():
        default = config.with_(method={"name": method})
        for value in own[1] if own else ():
            default.with_(method={"name": method, own[0]: value})
        if own:
            assert default.to_json()["method"][own[0]] in own[1], "the default is among what is tried"
    assert not {0} & set(results.SEEDS), "seed 0 is the one that settings are chosen on"


def test_a_grid_grows_where_its_best_rate_has_no_neighbour() -> None:
    assert results.widened((0.03, 0.1), 0.1) == (0.03, 0.1, 0.3)
    assert results.widened((0.03, 0.1), 0.03) == (0.01, 0.03, 0.1)
    assert results.widened((0.01, 0.03, 0.1), 0.03) == (0.01, 0.03, 0.1)
    assert results.widened((0.3, 1.0), 1.0) == (0.3, 1.0), "there is no larger one"


@pytest.mark.slow
def test_each_method_runs_with_what_was_best_on_eval(tmp_path: Path) -> None:
    tiny = results.Comparison(
        name="tiny",
        config=TINY | {"rounds": 2},
        methods={"standalone": None, "fd": ("gamma", (0.1, 1.0))},
        rates=(0.01, 0.03),
        tried=2,
        target=0.0,
    )
    results.run(tiny, [1, 2], tmp_path, jobs=2)
    for method in tiny.methods:
        grid = hs.Study(tmp_path / f"grid-tiny-{method}")
        found = max(grid.sessions.values(), key=_best_on_eval)
        study = results._study(tiny, method, tmp_path, found.settings["training"]["lr"])
        for session in hs.Study(study).sessions.values():
            assert session.settings["method"] == found.settings["method"]
            assert session.settings["training"] == found.settings["training"]
    page = results.text(tiny, tmp_path)
    assert "| standalone | 2 |" in page and "| fd | 2 |" in page


@pytest.mark.slow
def test_a_search_goes_on_where_it_had_grown(tmp_path: Path) -> None:
    tiny = results.Comparison(
        name="tiny",
        config=TINY,
        methods={"standalone": None},
        rates=(0.003, 0.01),
        tried=1,
        target=0.0,
    )
    results.run(tiny, [1], tmp_path, jobs=2)
    grown = [*hs.Study(tmp_path / "grid-tiny-standalone").sessions]
    assert len(grown) > len(tiny.rates)
    results.run(tiny, [1, 2], tmp_path, jobs=2)
    assert [*hs.Study(tmp_path / "grid-tiny-standalone").sessions] == grown
    (study,) = tmp_path.glob("tiny-standalone-*")
    assert len(hs.Study(study).sessions) == 2


@pytest.mark.slow
def test_what_diverges_is_not_the_best_and_does_not_end_the_search(tmp_path: Path) -> None:
    tiny = results.Comparison(
        name="tiny",
        config=TINY | {"rounds": 2},
        methods={"fedgh": ("eta_theta", (0.01, 3e38))},
        rates=(0.003, 0.01),
        tried=2,
        target=0.0,
    )
    results.run(tiny, [1], tmp_path, jobs=2)
    tried = hs.Study(tmp_path / "grid-tiny-fedgh").sessions
    states = {session.settings["method"]["eta_theta"]: session.state for session in tried.values()}
    assert states == {0.01: "finished", 3e38: "stopped"}
    (study,) = tmp_path.glob("tiny-fedgh-*")
    (one,) = hs.Study(study).sessions.values()
    assert one.settings["method"]["eta_theta"] == 0.01


@pytest.mark.slow
def test_a_rate_at_which_a_seed_diverges_is_compared_with_the_next_lower_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = results.Comparison("tiny", TINY, {"standalone": None}, rates=(0.003, 0.01), tried=1, target=0.0)
    swept = results._swept

    def diverging(study: Path, *rest: Any) -> bool:
        return swept(study, *rest) or study == first

    results._search(tiny, "standalone", tmp_path, jobs=2)
    best, lower, *_ = results._downwards(tmp_path / "grid-tiny-standalone")
    first = results._study(tiny, "standalone", tmp_path, best)
    monkeypatch.setattr(results, "_swept", diverging)
    results.run(tiny, [1, 2], tmp_path, jobs=2)
    rates = {each.name.partition("-lr")[2] for each in tmp_path.glob("tiny-standalone-*")}
    assert rates == {f"{best:g}", f"{lower:g}"}
    assert f"`standalone` {best:g}." in results.text(tiny, tmp_path), "a round is too short for a lower rate"
    assert "| standalone | training.lr=" in results.text(tiny, tmp_path)


@pytest.mark.slow
def test_a_study_in_which_a_loss_was_not_finite_has_diverged(tmp_path: Path) -> None:
    config = hs.config(TINY | {"rounds": 2, "method": {"name": "standalone"}})
    assert not results._swept(tmp_path / "low", config.with_(training__lr=0.01), {"seed": [1]}, 1)
    assert results._swept(tmp_path / "high", config.with_(training__lr=1e25), {"seed": [1]}, 1)


def _best_on_eval(session: hs.Results) -> float:
    rounds = (session.path / "ledger.jsonl").read_text("utf-8").splitlines()
    return max(float(json.loads(each)["evaluation"]["eval"]["accuracy"]["mean"]) for each in rounds)


def test_a_folder_that_cannot_be_one_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("sys.argv", ["results", "inco", "--folder", str(tmp_path / "file")])
    with pytest.raises(SystemExit, match=r"^error: .*file/grid-inco"):
        results.main()


def methods_of(table: str) -> list[str]:
    """The first cells of a Markdown table's rows."""
    cells = (line.split("|")[1].strip(" `") for line in table.splitlines() if line.startswith("| "))
    return [cell for cell in cells if cell not in ("method", "---")]


def test_the_readme_shows_every_method_of_the_fair_table() -> None:
    page = results.PAGE.read_text(encoding="utf-8")
    table = page[page.index("<!-- htm5 -->") : page.index("<!-- /htm5 -->")]
    readme = (results.PAGE.parents[1] / "README.md").read_text(encoding="utf-8")
    numbers = readme[readme.index("## Numbers") : readme.index("After Holm's correction")]
    assert sorted(methods_of(numbers)) == sorted(methods_of(table)) == sorted(results.HTM5.methods)


def test_the_table_of_inco_has_both_of_its_rules() -> None:
    page = results.PAGE.read_text(encoding="utf-8")
    table = page[page.index("<!-- inco -->") : page.index("<!-- /inco -->")]
    assert {"inco_avg, variant=paper", "inco_avg, variant=released_code"} <= set(methods_of(table))


def test_the_page_says_how_many_trials_each_method_had() -> None:
    """Every value of a method's option is tried with at least three rates: the two that the grid begins with, and one
    beside the best."""
    page = results.PAGE.read_text(encoding="utf-8")
    found = re.search(r"Standalone had (\d+) trials in the grid, FD (\d+), FedTGP (\d+)", page)
    assert found is not None
    for trials, method in zip(map(int, found.groups()), ("standalone", "fd", "fedtgp"), strict=True):
        own = results.HTM5.methods[method]
        rates, rest = divmod(trials, len(own[1]) if own else 1)
        assert (rates >= len(results.HTM5.rates) + 1, rest) == (True, 0), method


def test_how_many_actors_keep_a_driver_busy_follows_from_its_parts() -> None:
    """A driver serves 1000 / (19 + 6 + 17) = 24 clients of a second each; 64 need 64 times each part."""
    page = (results.PAGE.parent / "scale.md").read_text(encoding="utf-8")
    parts = [int(ms) for ms in re.findall(r"(\d+) ms per client", page)]
    assert f"takes {sum(parts)} ms of its time" in page
    assert f"about {1000 // sum(parts) + (1000 % sum(parts) > sum(parts) / 2)} actors" in page
    moved, states, written = (f"{64 * ms / 1000:.1f} s" for ms in parts)
    assert f"{moved} to move clients, {states} for their states, and {written} for checkpoints" in page
