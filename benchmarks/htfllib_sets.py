"""A set of texts and one of signals that both libraries read, and one partition of them in both formats."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simulator.data import ArraySet, datasets
from simulator.data.federated import FederatedData

PLAYS = ("coriolanus", "hamlet", "othello", "richard_iii")
"""Four of the longest plays: the classes of the texts."""
WORDS, VOCABULARY = 40, 2_000
"""Words of a text, and words that have a number of their own."""
ACTIVITIES, CHANNELS, STEPS = 6, 9, 128
"""The form of UCI HAR, for which HtFLlib's models of signals are made."""
NOISE = 0.7
"""Standard deviation of the noise in the signals."""
Numbers = NDArray[np.int64]


def write_plays(file: Path, folder: Path) -> None:
    """Write an .npz of texts: 40 words in a row that roles of one play say. The class is the play.

    The words come from the data set `shakespeare` in that folder. Words that are not among the 2,000 most frequent ones
    are token 1. There is no padding, so token 0 is unused.
    """
    samples = datasets.get("shakespeare").load(folder)
    assert isinstance(samples, ArraySet)
    assert samples.user is not None
    letters = np.array(samples.names)
    windows = np.concatenate([samples.values, samples.labels[:, None] + 1], axis=1)
    plays = np.array([name.partition("/")[0] for name in samples.users])[samples.user]
    texts = ["".join(letters[windows[plays == play]].ravel()) for play in PLAYS]
    tokens, labels = numbered([re.findall("[a-z']+", text.lower()) for text in texts], WORDS, VOCABULARY)
    np.savez(file, tokens=tokens, labels=labels, vocabulary=VOCABULARY + 2, padding=0)


def numbered(texts: Sequence[Sequence[str]], length: int, vocabulary: int) -> tuple[Numbers, Numbers]:
    """Windows of so many words as tokens [n, length], and the number of each one's text [n].

    The most frequent words have the tokens 2, 3, …, words of equal frequency by the alphabet. All others are token 1.
    A remainder at the end of a text is left out.
    """
    counts = Counter(word for text in texts for word in text)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))[:vocabulary]
    number = {word: token for token, word in enumerate(ranked, start=2)}
    windows = []
    for text in texts:
        tokens = np.array([number.get(word, 1) for word in text], dtype=np.int64)
        windows.append(tokens[: len(tokens) // length * length].reshape(-1, length))
    return np.concatenate(windows), np.repeat(np.arange(len(texts)), [len(each) for each in windows])


def write_waves(file: Path, samples: int = 3_000) -> None:
    """Write an .npz of generated signals [n, 9, 128]: a sine in each channel, with noise.

    A class has its own frequency and amplitude in each channel. Phases are drawn for each sample.
    """
    draws = np.random.default_rng(29)
    labels = np.arange(samples) % ACTIVITIES
    frequencies = draws.integers(2, 9, (ACTIVITIES, CHANNELS))[labels]
    amplitudes = draws.uniform(0.2, 1, (ACTIVITIES, CHANNELS))[labels]
    phases = draws.uniform(0, 2 * np.pi, (samples, CHANNELS))
    angles = 2 * np.pi * frequencies[:, :, None] * np.arange(STEPS) / STEPS + phases[:, :, None]
    signals = amplitudes[:, :, None] * np.sin(angles) + draws.normal(0, NOISE, (samples, CHANNELS, STEPS))
    np.savez(file, signals=signals.astype(np.float32), labels=labels)


def write_clients(folder: Path, data: FederatedData, seed: int) -> None:
    """Write every client's samples as HtFLlib reads them: train/K.npz and test/K.npz in a folder.

    HtFLlib does not shuffle, so they are written in a random order. Samples are normalized as ours are. A text is a
    list of tokens with its length. A signal [channels, time] becomes an image of height 1. An image stays as it is.
    """
    for part in ("train", "test"):
        (folder / part).mkdir(parents=True)
        for number, client in enumerate(data.clients):
            indices = client.part(part)
            order = np.random.default_rng([seed, number]).permutation(len(indices))
            x, y = data.batch(indices[order])
            values: object = (x.unsqueeze(2) if x.ndim == 3 else x).numpy()
            if x.ndim == 2:
                values = [(text, len(text)) for text in x.tolist()]
            np.savez(folder / part / f"{number}.npz", data=np.array({"x": values, "y": y.numpy()}))
