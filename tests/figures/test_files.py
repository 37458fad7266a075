"""Figures as files: a paper's sizes, text that stays text, the same bytes each time, no torch and no pyplot."""

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import simulator.results.figures
from simulator.base.errors import ConfigError
from simulator.results.figures import accuracy, style
from tests.analysis.runs import run

RUNS = [run("a", [0.1, 0.3], 0), run("b", [0.2, 0.5], 1)]


@pytest.mark.parametrize("name", ["f.pdf", "f.svg", "f.png"])
def test_the_same_figure_is_the_same_file(tmp_path: Path, name: str) -> None:
    texts = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        style.save(accuracy.over(RUNS), tmp_path / folder / name)
        texts.append((tmp_path / folder / name).read_bytes())
    assert texts[0] == texts[1]
    assert b"CreationDate" not in texts[0] and b"<dc:date>" not in texts[0]


def test_text_stays_text(tmp_path: Path) -> None:
    style.save(accuracy.over(RUNS), tmp_path / "f.svg")
    assert "mean test accuracy, %</text>" in (tmp_path / "f.svg").read_text()
    style.save(accuracy.over(RUNS), tmp_path / "f.pdf")
    assert b"/FontFile2" in (tmp_path / "f.pdf").read_bytes()  # TrueType, embedded


@pytest.mark.parametrize(("width", "inches"), [("column", 3.5), ("page", 7.16)])
def test_a_figure_is_as_wide_as_a_papers_column_or_page(width: style.Width, inches: float) -> None:
    assert accuracy.over(RUNS, width=width).get_figwidth() == inches


def test_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.pdf, \.svg, \.png; 'f\.jpg' is none"):
        style.save(accuracy.over(RUNS), tmp_path / "f.jpg")


def test_drawing_leaves_matplotlibs_settings_as_they_are() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    accuracy.over(RUNS)
    assert dict(mpl.rcParams) == before


def test_no_file_of_the_room_imports_torch_a_terminal_or_pyplot() -> None:
    files = [
        f"simulator.results.figures.{each.name}"
        for each in pkgutil.iter_modules(simulator.results.figures.__path__)
    ]
    assert len(files) > 8
    script = f"""
import importlib, sys
for name in {files}:
    importlib.import_module(name)
    loaded = [each for each in ("torch", "textual", "rich", "tui", "matplotlib.pyplot") if each in sys.modules]
    assert not loaded, (name, loaded)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
