"""An extension of Python-Markdown: what NAME makes replaces a comment `<!-- made by NAME arguments -->` in a page."""

import re
from collections.abc import Callable
from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

from docsite import api, tables

MAKERS: dict[str, Callable[..., str]] = {
    "docsite.configuration": tables.reference,
    "docsite.method": tables.method,
    "docsite.api": api.reference,
    "docsite.ledger": tables.record,
}
_COMMENT = re.compile(r"<!-- made by ([\w.]+)((?: [\w.]+)*) -->")
_BEFORE_FENCES = 30
"""Priority among the preprocessors: those of code blocks, with 25, are to see what was made."""


class Directives(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.register(_Maker(md), "docsite", _BEFORE_FENCES)


class _Maker(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        return [made for line in lines for made in _made(line)]


def _made(line: str) -> list[str]:
    comment = _COMMENT.fullmatch(line)
    return MAKERS[comment[1]](*comment[2].split()).splitlines() if comment else [line]


def makeExtension(**options: Any) -> Extension:
    return Directives(**options)
