"""Texts as tokens: a word is a token. The vocabulary has the most frequent words of the texts that are trained on."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from simulator.data.samples import Indices, Labels, SampleSet, UnfittedSet, Values
from simulator.data.specs import TokenSpec

PADDING, UNKNOWN = 0, 1
"""The tokens after the end of a text, and of a word outside the vocabulary."""
SPECIAL = ("", "<?>")
"""What people read in their place."""
WORDS = 32_000
"""Tokens of a vocabulary, padding and unknown words included, as in PFLlib's text data sets (610455c)."""
LENGTH = 200
"""Tokens of a text. Longer texts are cut, as in PFLlib (610455c)."""
SPEC = TokenSpec(LENGTH, WORDS, PADDING)
_WORD = re.compile(r"\w+|[.,!?;]")
_MARKUP = re.compile(r"<[^<>]{1,20}>")


def words(text: str) -> list[str]:
    """The words of a text in lower case, and the marks . , ! ? ; as words. Tags such as <br /> are left out."""
    return _WORD.findall(_MARKUP.sub(" ", text.lower()))


def vocabulary(texts: Iterable[str], size: int = WORDS) -> dict[str, int]:
    """The tokens of the most frequent words; of equally frequent ones, those that come first in the alphabet."""
    counts = Counter(itertools.chain.from_iterable(map(words, texts)))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))[: size - 2]
    return {word: number for number, word in enumerate(ranked, start=2)}


def tokenized(texts: Sequence[str], known: dict[str, int], length: int = LENGTH) -> Values:
    """Tokens int32 [n, length] of texts. Words outside the vocabulary are `UNKNOWN`."""
    tokens = np.full((len(texts), length), PADDING, dtype=np.int32)
    for row, text in zip(tokens, texts, strict=True):
        found = [known.get(word, UNKNOWN) for word in words(text)[:length]]
        row[: len(found)] = found
    return tokens


def of_texts(texts: Sequence[str], labels: Labels, classes: tuple[str, ...], test_from: int) -> UnfittedSet:
    """Texts with their labels, training texts first. They become tokens."""
    column = np.empty(len(texts), dtype=object)
    column[:] = texts
    return UnfittedSet((column,), _learned, labels, classes, test_from, titles=("text",))


def _learned(texts: UnfittedSet, held: Indices | None) -> Callable[[UnfittedSet], SampleSet]:
    """The form of texts, with the words of those at `held`. None: of the data set's training texts."""
    (column,) = texts.columns
    known = vocabulary(column[: texts.test_from] if held is None else column[held])
    return lambda each: each.formed(tokenized(each.columns[0].tolist(), known), SPEC, (*SPECIAL, *known))
