"""Texts as tokens: a word is a token. The vocabulary has the most frequent words of the texts that are trained on."""

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from simulator.data.samples import Indices, LabeledSet, Labels, SampleSet, UnfittedSet, Values
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
UNKNOWN_SHARE = 0.2
"""A larger share of unknown words is said, because models see few of the words of new texts."""
_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Burmese
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
)
"""The scripts that have no spaces between words."""
_CHARACTER = re.compile(f"[{_UNSPACED}]")
_MARKS = (
    "\u0300-\u036f"  # accents, where they are characters of their own
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # Hebrew
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"  # Arabic
    "\u0900-\u0963\u0966-\u0dff"  # the scripts of India, with their letters
    "\u200c\u200d"  # joiners
)
"""What is part of a word and is no letter to the module `re`: most vowels of some scripts."""
_LETTERS = rf"[^\W{_UNSPACED}]"
_WORD = re.compile(rf"[{_UNSPACED}]|{_LETTERS}+(?:[{_MARKS}]+{_LETTERS}*)*|[.,!?;。，！？；、]")
CHARACTERS = "Each character of a script without spaces is a word."
_SPACED_WORD = re.compile(r"\w+|[.,!?;]")
_MARKUP = re.compile(r"<[^<>]{1,20}>")


Split = Callable[[str], list[str]]


def words(text: str) -> list[str]:
    """The words of a text in lower case, and the marks . , ! ? ; as words. Tags such as <br /> are left out.

    In scripts without spaces, such as Chinese, Japanese, and Thai, each character is a word, also between spaces.
    """
    return _WORD.findall(_MARKUP.sub(" ", unicodedata.normalize("NFC", text.lower())))


def spaced(text: str) -> list[str]:
    """The words by the rule of older sessions and of the built-in data sets: only spaces and marks divide them."""
    return _SPACED_WORD.findall(_MARKUP.sub(" ", text.lower()))


def vocabulary(texts: Iterable[str], size: int = WORDS, split: Split = words) -> dict[str, int]:
    """The tokens of the most frequent words; of equally frequent ones, those that come first in the alphabet."""
    counts = Counter(itertools.chain.from_iterable(map(split, texts)))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))[: size - 2]
    return {word: number for number, word in enumerate(ranked, start=2)}


def tokenized(
    texts: Sequence[str], known: dict[str, int], length: int = LENGTH, split: Split = words
) -> Values:
    """Tokens int32 [n, length] of texts. Words outside the vocabulary are `UNKNOWN`."""
    tokens = np.full((len(texts), length), PADDING, dtype=np.int32)
    for row, text in zip(tokens, texts, strict=True):
        found = [known.get(word, UNKNOWN) for word in split(text)[:length]]
        row[: len(found)] = found
    return tokens


def of_texts(
    texts: Sequence[str], labels: Labels, classes: tuple[str, ...], test_from: int, split: Split = words
) -> UnfittedSet:
    """Texts with their labels, training texts first. They become tokens."""
    column = np.empty(len(texts), dtype=object)
    column[:] = texts
    learn = partial(_learned, split=split)
    return UnfittedSet((column,), learn, ("text",), labels=labels, classes=classes, test_from=test_from)


def as_before(samples: LabeledSet) -> LabeledSet:
    """Texts with the words of older sessions. Other samples stay as they are."""
    if isinstance(samples, UnfittedSet) and samples.titles == ("text",):
        return replace(samples, learn=partial(_learned, split=spaced))
    return samples


def _learned(texts: UnfittedSet, held: Indices | None, split: Split) -> Callable[[UnfittedSet], SampleSet]:
    """The form of texts, with the words of those at `held`. None: of the data set's training texts."""
    (column,) = texts.columns
    known = vocabulary(column[: texts.test_from] if held is None else column[held], split=split)

    def formed(each: UnfittedSet) -> SampleSet:
        tokens = tokenized(each.columns[0].tolist(), known, split=split)
        new = np.ones(len(each), dtype=bool)
        if each is texts and held is not None:
            new[held] = False
        reading = each.reading
        if new.any():
            share = float((tokens[new] == UNKNOWN).sum() / max((tokens[new] != PADDING).sum(), 1))
            said = f"{100 * share:.1f} % of the words in texts that clients do not train on are unknown"
            if share <= UNKNOWN_SHARE:
                reading = reading.plus(notes=[f"{said}."])
            else:
                said = f"{said}, more than {100 * UNKNOWN_SHARE:.0f} %. Use more texts."
                reading = reading.plus(warnings=[said])
        if split is words and (blank := (tokens == PADDING).all(1)).any():
            said = f"{blank.sum():,} of {len(blank):,} texts have no words, such as that of row {blank.argmax() + 1:,}."
            reading = reading.plus(warnings=[said])
        if any(map(_CHARACTER.fullmatch, known)) and split is words:
            reading = reading.plus(notes=[CHARACTERS])
        return replace(each, reading=reading).formed(tokens, SPEC, (*SPECIAL, *known))

    return formed
