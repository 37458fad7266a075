"""A report in headless Chromium, on a phone and on a desk, with the network off."""

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import TINY, call
from tests.report.browser import console_of, seen

CHROMIUM = shutil.which("chromium") or ""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not CHROMIUM, reason="no program 'chromium' here; on Debian it is the package chromium"
    ),
]
POINTS = (
    ("fedlora", "--seed=0"),
    ("fedlora", "--seed=1"),
    ("fedproto",),
    ("inco_avg", "--set=federation.group=tiny_resnet"),
)
BAD = """<!DOCTYPE html><meta name="viewport" content="width=device-width">
<figure><svg width="900" height="10"></svg></figure><figure><svg width="0" height="0"></svg></figure>
<img src="http://example.org/a.png"><script>console.error("it cannot be")</script>
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of real sessions that have something to show in every kind of figure that a report has."""
    folder = tmp_path_factory.mktemp("reported")
    for number, (method, *words) in enumerate(POINTS):
        run = (
            "run",
            *TINY,
            f"--session=s{number}",
            f"--method={method}",
            "--rounds=3",
            "--set=cka.every=1",
            *words,
        )
        result = call(*run, "--sessions-dir", folder)
        assert result.code == 0, result.err
    result = call("report", "*", "--sessions-dir", folder, "--out", folder / "report.html")
    assert result.code == 0, result.err
    return folder / "report.html"


@pytest.mark.parametrize("width", [400, 1200])
def test_every_figure_is_seen_nothing_is_wider_than_the_window_and_nothing_is_asked_for(
    report: Path, width: int, tmp_path: Path
) -> None:
    text = report.read_text(encoding="utf-8")
    found = seen(CHROMIUM, text, width, tmp_path)
    assert found.width == width
    assert len(found.figures) == text.count("<figure") >= 8
    assert found.faults() == []


def test_opened_as_it_is_the_console_says_nothing(report: Path, tmp_path: Path) -> None:
    assert console_of(CHROMIUM, report, tmp_path) == []


def test_a_page_that_is_wrong_in_each_of_these_ways_is_found_out(tmp_path: Path) -> None:
    faults = "\n".join(seen(CHROMIUM, BAD, 400, tmp_path).faults())
    for fault in (
        'the console says "it cannot be"',
        "Loading the image 'http://example.org/a.png' violates",
        "it is 9",
        "figure 1 reaches from",
        "figure 2 is not to be seen",
    ):
        assert fault in faults, faults
