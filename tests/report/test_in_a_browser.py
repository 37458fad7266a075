"""A page opened in headless Chromium without a network: what its console says, and where its figures lie."""

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import TINY, call

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--enable-logging=stderr", "--dump-dom",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking", "--window-size=1300,900",
)  # fmt: skip
_CONSOLE = re.compile(r":INFO:CONSOLE.*?\] (.*)")
_MEASURED = re.compile(r'<pre id="measured">(.*?)</pre>', re.DOTALL)
# What a page loads is refused, and each refusal is a line on the console. A window is never as narrow as a phone; a
# frame is, and its page inherits the policy.
_HOST = """<!DOCTYPE html>
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<iframe style="border: 0; width: {width}px; height: 900px" srcdoc="{page}"></iframe>
<script>
addEventListener("load", () => {{
  const view = document.querySelector("iframe").contentWindow, page = view.document;
  const box = (each) => {{
    const {{left, right, width, height}} = each.getBoundingClientRect();
    return {{left, right, width, height, shown: view.getComputedStyle(each).visibility === "visible"}};
  }};
  const measured = document.createElement("pre");
  measured.id = "measured";
  measured.textContent = JSON.stringify({{
    width: view.innerWidth,
    content: page.documentElement.scrollWidth,
    figures: [...page.querySelectorAll("figure > svg")].map(box),
    requests: view.performance.getEntriesByType("resource").map((each) => each.name),
  }});
  document.body.append(measured);
}});
</script>
"""


@dataclass(frozen=True)
class Seen:
    """What a reader with a window so wide sees, in CSS pixels; `content` is how wide the page would like to be."""

    console: list[str]
    width: int
    content: int
    figures: list[dict[str, Any]]
    requests: list[str]

    def faults(self) -> list[str]:
        """What is wrong, as sentences."""
        said = [f"the console says {line}" for line in self.console]
        said += [f"it asks for {name}" for name in self.requests]
        if self.content > self.width:
            said.append(f"it is {self.content} wide in a window of {self.width}")
        for number, box in enumerate(self.figures, start=1):
            if not (box["width"] > 0 and box["height"] > 0 and box["shown"]):
                said.append(f"figure {number} is not to be seen")
            if box["left"] < 0 or box["right"] > self.width:
                said.append(f"figure {number} reaches from {box['left']} to {box['right']} of {self.width}")
        return said


def seen(chromium: str, page: str, width: int, scratch: Path) -> Seen:
    """Open a page's text in a window `width` CSS pixels wide; what is written meanwhile goes to `scratch`."""
    host = scratch / f"host-{width}.html"
    host.write_text(_HOST.format(width=width, page=html.escape(page)), encoding="utf-8")
    dom, console = _opened(chromium, host, scratch)
    found = _MEASURED.search(dom)
    assert found, dom[-2000:]
    return Seen(console, **json.loads(html.unescape(found[1])))


def _opened(chromium: str, file: Path, scratch: Path) -> tuple[str, list[str]]:
    command = [chromium, *_FLAGS, f"--user-data-dir={scratch / 'profile'}", file.as_uri()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    return ended.stdout, _CONSOLE.findall(ended.stderr)


CHROMIUM = shutil.which("chromium") or ""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not CHROMIUM, reason="no program 'chromium' here; on Debian it is the package chromium"
    ),
]
POINTS = (
    ("fedlora", "--seed=0"), ("fedlora", "--seed=1"), ("fedproto",), ("inco_avg", "--set=federation.group=tiny_resnet"),
)  # fmt: skip


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
    assert _opened(CHROMIUM, report, tmp_path)[1] == []
