"""Find lines by a few of their letters: `c1` finds `cnn1`, and `fssa` finds `fedssa`.

`textual.fuzzy` finds more than a filter should, as its letters may be anywhere in a line: 12 finds 1024, and `cp` finds
`cnn1 pinned`. It also tries all places of all letters, which takes 70 ms for seven letters in one long line of the log.
The command palette uses it, where lines are short and only their order counts.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

Each = TypeVar("Each")


def fits(text: str, query: str) -> bool:
    """Whether every word of `query` is in the text, or is spread over a word of it from the beginning of a part."""
    return rank(text, query) is not None


def rank(text: str, query: str) -> tuple[int, ...] | None:
    """How well a text fits: the smaller, the better. None: not at all."""
    folded = text.casefold()
    found = [_rank(folded, word) for word in query.casefold().split()]
    return None if None in found else tuple(sum(parts) for parts in zip(*filter(None, found), strict=True))


def best(choices: Iterable[Each], query: str, text: Callable[[Each], str]) -> list[Each]:
    """Those that fit, the best first. Equal ones keep their order."""
    ranked = ((rank(text(each), query), each) for each in choices)
    found = [(place, each) for place, each in ranked if place is not None]
    return [each for _, each in sorted(found, key=lambda pair: pair[0])]


def _rank(text: str, word: str) -> tuple[int, int] | None:
    """0: the whole first token, 1: its beginning, 2: of a part, 3: inside, 4: spread; and the place or length."""
    at = text.find(word)
    if at == 0:
        return 0 if len(text.split(maxsplit=1)[0]) == len(word) else 1, 0
    if at > 0:
        begins = re.search(rf"(?<![^\W_]){re.escape(word)}", text)
        return (2, begins.start()) if begins else (3, at)
    if word.isdigit():
        return None
    spans = [len(found[1]) for found in _spread(word).finditer(text)]
    return (4, min(spans)) if spans else None


@lru_cache
def _spread(word: str) -> re.Pattern[str]:
    """The letters in order in one word of a text, each time from the beginning of a part. It never searches back."""
    later = "".join(rf"(?>\S*?{re.escape(letter)})" for letter in word[1:])
    return re.compile(rf"(?<![^\W_])(?=[^\W_])(?=({re.escape(word[0])}{later}))")
