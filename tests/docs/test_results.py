"""docs/results.md, whose tables `make results` writes."""

from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.page import placed


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
    for method in comparison.methods:
        config.with_(method={"name": method})
    assert not {0} & set(results.SEEDS), "seed 0 is the one that learning rates are chosen on"


def test_a_folder_that_cannot_be_one_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("sys.argv", ["results", "inco", "--folder", str(tmp_path / "file")])
    with pytest.raises(SystemExit, match=r"^error: .*file/inco-grid"):
        results.main()
