"""A report as HTML: it has everything, needs nothing else, and nothing it tells can become markup."""

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

import checkpoints
from simulator.results.analysis.comparison import table
from simulator.results.analysis.feed import read
from simulator.results.report.contents import EVENTS, Picture, gather, inline, page
from tests import sessions

WARNING = "<script>alert(1)</script> & more"
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Elements(HTMLParser):
    """Every element of a page with its attributes; raises AssertionError where one is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def drawn(colour: str = "black") -> Figure:
    figure = Figure()
    figure.subplots().plot([1, 2], [3, 4], color=colour)
    return figure


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of a session that was switched, its fork and a baseline, with two figures."""
    folder = tmp_path_factory.mktemp("reported")
    main = sessions.make(
        folder / "main", rounds=20, switch=(12, "fedssa"), warning=WARNING, document=sessions.whole()
    )
    parent = checkpoints.SessionReader(main).document["id"]
    fork = sessions.make(folder / "fork", rounds=12, of=20, parent=(main, parent, 10), state="stopped")
    base = sessions.make(folder / "base", rounds=20, method="standalone", ceiling=0.8)
    runs = [read(each) for each in (main, fork, base)]
    figures = [Picture(f"Figure of {n} < 3.", "htfl-sim plot box 'a b'", drawn()) for n in (1, 2)]
    return gather(
        "t3", runs, table(runs, ("session",)), figures, asked='preset = "<x>"', left_out=("z is damaged.",)
    )


def test_it_tells_the_table_cell_for_cell(contents: dict[str, Any]) -> None:
    text = page(contents)
    assert text == page(contents), "the same bytes"
    for row in contents["table"].rows:
        for cell in row:
            assert f">{cell}</td>" in text


def test_it_tells(contents: dict[str, Any]) -> None:
    text = page(contents)
    assert [said for said in (
        "<h1>t3</h1>", "z is damaged.", "preset = &#34;&lt;x&gt;&#34;", "stopped", "12 of 20",
        "htfl-sim run --session main-again", "htfl-sim plot box &#39;a b&#39;", "Figure of 1 &lt; 3.",
        "fork — from main at round 10", "switched: method fedlora → fedssa", "method.name", "device",
    ) if said not in text] == []  # fmt: skip


def test_what_a_session_says_never_becomes_markup(contents: dict[str, Any]) -> None:
    text = page(contents)
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in text
    assert not [tag for tag, _ in Elements(text).found if tag == "script"]


def test_it_needs_nothing_from_elsewhere(contents: dict[str, Any]) -> None:
    text = page(contents)
    for tag, attributes in Elements(text).found:
        for name in ("src", "href", "xlink:href", "action", "data"):
            target = attributes.get(name) or "#"
            assert target.startswith(("#", "data:")), (tag, target)
    assert "url(http" not in text and "@import" not in text


def test_every_id_is_there_once_and_every_reference_finds_its_own(contents: dict[str, Any]) -> None:
    text = page(contents)
    ids = Counter(attributes["id"] for _, attributes in Elements(text).found if "id" in attributes)
    assert ids and max(ids.values()) == 1
    assert set(re.findall(r'(?:url\(#|href="#)([^)"]+)', text)) <= set(ids)


def test_a_figures_black_takes_the_colour_of_the_page_and_other_colours_stay() -> None:
    svg = inline(drawn("#d55e00"), 1)
    assert "#000000" not in svg and "stroke: currentColor" in svg
    assert "stroke: #d55e00" in svg
    assert svg.startswith("<svg") and svg.endswith("</svg>")


def test_routine_checkpoints_are_left_out_of_the_events(contents: dict[str, Any]) -> None:
    assert {event["session"] for event in contents["events"]} == {"main", "fork", "base"}
    assert not [event for event in contents["events"] if event["words"].startswith("checkpoint")]


def test_of_many_events_the_newest_are_told(tmp_path: Path) -> None:
    folder = sessions.make(tmp_path / "s", rounds=2)
    store = checkpoints.Store.open(folder)
    for number in range(EVENTS + 5):
        store.event("warning", message=f"number {number}")
    store.close("finished")
    runs = [read(folder)]
    told = gather("s", runs, table(runs))["events"]
    assert len(told) == EVENTS
    assert told[-1]["words"] == f"warning: number {EVENTS + 4}"


def test_a_single_session_has_no_settings_that_differ(tmp_path: Path) -> None:
    runs = [read(sessions.make(tmp_path / "s", rounds=2))]
    text = page(gather("s", runs, table(runs)))
    assert "Settings that differ" not in text and "Settings in force" in text
    assert "Lineage" not in text and "<p>1 session," in text
