"""A page opened in headless Chromium without a network: what its console says, and where its figures lie."""

import html
import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def console_of(chromium: str, file: Path, scratch: Path) -> list[str]:
    """What the console says when a file is opened as it is."""
    return _opened(chromium, file, scratch)[1]


def _opened(chromium: str, file: Path, scratch: Path) -> tuple[str, list[str]]:
    command = [chromium, *_FLAGS, f"--user-data-dir={scratch / 'profile'}", file.as_uri()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    return ended.stdout, _CONSOLE.findall(ended.stderr)
