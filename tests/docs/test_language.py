"""Pages are in plain English: short sentences, American spelling, and no phrases that readers stumbled over."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import AT_THE_TOP, PAGES, ROOT

LONGEST = 28
"""Words in a sentence."""
BANNED = [
    r"whom?\b a round",
    r"\bof (?:which|whom|whose)\b",
    r"\bthat there (?:is|are) (?:not|none)\b",
    r"\bnothing but\b",
    r"\bnobody's\b",
    r"\b(?:is|are) said (?:once|in|of)\b",
    r"\bhas news\b|\bnews of\b",
    r"\bset back\b",
    r"\bas it (?:lies|stands) there\b",
    r"\blaid over\b",
    r"\bwhat was printed\b",
    r"\bless standalone\b",
    r"\basked for (?:otherwise|again)\b",
    r"\bgoes? on (?:with|there|from)\b",
    r"\bmade up\b",
    r"\btakes? hold\b",
    r"\bas ever\b",
    r"\bwhoever\b",
    r"\bsaid aloud\b",
    r"\bnot (?:yet )?seen\b|\bbeen seen\b",
    r"\bhave it \w+(?:ed|n)\b",
    r"\bhow alike\b|\bleast alike\b",
    r"\bbrought back\b",
    r"\ball the same\b",
    r"\bwants? (?:no|a|the) \w+ (?:to|for)\b",
]
EVERY_PAGE = [*AT_THE_TOP, *PAGES]


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page, without code and addresses. Cells, headings, and points of lists stand by themselves."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "Code", text)
    text = re.sub(r"^\s*(?:[-*>#]+|\d+\.)\s", "\n\n", text, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n|\||·", text):
        words = " ".join(block.split())
        yield from (each for each in re.split(r"(?<=[.!?:])[*_)]*\s+(?=[*_(]*[A-Z0-9])", words) if each)


def faults(text: str) -> list[str]:
    """Sentences of a page that are too long, or hold a banned phrase."""
    found = []
    for sentence in sentences(text):
        if (length := sum(any(map(str.isalpha, word)) for word in sentence.split())) > LONGEST:
            found.append(f"{length} words: {sentence}")
        found += [f"'{match[0]}': {sentence}" for phrase in BANNED if (match := re.search(phrase, sentence))]
    return found


def misspelled(*pages: Path) -> str:
    """What codespell finds outside of code in a line, British spellings included."""
    command = [
        sys.executable,
        "-m",
        "codespell_lib",
        "--builtin",
        "clear,rare,en-GB_to_en-US",
        "--ignore-regex",
        "`[^`\n]+`",
        *map(str, pages),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_short_sentences_and_plain_phrases(page: Path) -> None:
    assert faults(page.read_text(encoding="utf-8")) == []


def test_pages_are_spelled_as_in_american_english() -> None:
    assert misspelled(*EVERY_PAGE) == ""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Clients whom a round set back.", "'whom a round'"),
        (" ".join(["word"] * 29) + ".", "29 words"),
        ("| a cell | " + " ".join(["word"] * 28) + " |", None),
        ("```\n" + " ".join(["word"] * 40) + "\n```", None),
        ("One sentence of four. " * 8, None),
    ],
)
def test_what_is_to_be_found_is_found(text: str, fault: str | None) -> None:
    found = faults(text)
    assert (found and fault is not None and found[0].startswith(fault)) or found == []
    assert bool(found) is (fault is not None)


def test_a_british_spelling_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("The colour of a licence.", encoding="utf-8")
    assert "colour ==> color" in misspelled(page)
