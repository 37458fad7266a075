"""`make bench WHAT=htfllib ARGS=FOLDER`: accuracy and seconds of a round beside HtFLlib's, on the same split.

FOLDER is a checkout of TsingZ0/HtFLlib, in which nothing is changed. For each seed, the split, the batch size, the
learning rate, and the number of rounds are the same, with one local epoch and plain SGD. HtFLlib runs twice for each
seed: as it is, and with what differs changed from outside. A difference is paired by seed.

HtFLlib evaluates before it trains. Its "round number" r is the state after r rounds, as here.
"""

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import htfl_sim as hs
import simulator
from benchmarks.bench import at_least
from benchmarks.figures import Sheet
from benchmarks.htfllib_inside import CHANGES
from simulator.base.errors import HtflError
from simulator.base.record import Record
from simulator.config import Config
from simulator.data import ArraySet, datasets
from simulator.data.federated import FederatedData
from simulator.engine.builder import build

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
    """Write an .npz of 40 words each of `shakespeare`; the class is the play. Rare words are token 1, 0 is unused."""
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
    """Windows of so many words as tokens [n, length], and the number of each one's text [n]. A remainder is left out.

    The most frequent words have the tokens 2, 3, …, words of equal frequency by the alphabet. All others are token 1.
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
    """Write an .npz of signals [n, 9, 128]: by class a sine in each channel, by sample its phases, and noise."""
    draws = np.random.default_rng(29)
    labels = np.arange(samples) % ACTIVITIES
    frequencies = draws.integers(2, 9, (ACTIVITIES, CHANNELS))[labels]
    amplitudes = draws.uniform(0.2, 1, (ACTIVITIES, CHANNELS))[labels]
    phases = draws.uniform(0, 2 * np.pi, (samples, CHANNELS))
    angles = 2 * np.pi * frequencies[:, :, None] * np.arange(STEPS) / STEPS + phases[:, :, None]
    signals = amplitudes[:, :, None] * np.sin(angles) + draws.normal(0, NOISE, (samples, CHANNELS, STEPS))
    np.savez(file, signals=signals.astype(np.float32), labels=labels)


def write_clients(folder: Path, data: FederatedData, seed: int) -> None:
    """Write every client's samples as HtFLlib reads them, in a random order: train/K.npz and test/K.npz in a folder.

    Samples are normalized as ours are. A text is a list of tokens with its length. A signal [channels, time] becomes
    an image of height 1. An image stays as it is.
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


CONFIDENCE = 0.95
_ACCURACY = re.compile(r"^Averaged Test Accuracy: (\S+)$", re.MULTILINE)
_PROCESSOR = re.compile(r"^Processor seconds: (\S+)$", re.MULTILINE)
_SECONDS = re.compile(r"^-{25,}(?: time cost -{25,})? (\d\S*)$", re.MULTILINE)


@dataclass(frozen=True)
class Setting:
    """A set of samples with a group of models, in the words of both libraries.

    write: writes the samples; None: `data` names a data set. given: what HtFLlib gets from outside in all runs, and
    changes: in the second ones. threads: None: one per core, as both libraries do by themselves. more: further
    arguments of HtFLlib's script, for which a name with "News" is a set of texts.
    """

    name: str
    group: str
    family: str
    clients: int
    classes: int
    lr: float
    data: Mapping[str, Any]
    changes: tuple[str, ...] = ("batches", "weights")
    write: Callable[[Path], None] | None = None
    given: tuple[str, ...] = ()
    methods: tuple[str, ...] = ("standalone", "lg_fedavg", "fedproto")
    batch_size: int = 10
    threads: int | None = 1
    more: tuple[str, ...] = ()


_DIRICHLET = {"limit": 1_200, "partition": "dirichlet", "alpha": 5.0, "cap": False, "min_samples": 60}
SETTINGS = {
    "texts": Setting(
        "PlaysNews", "htfe_txt2", "HtFE-txt-2", 8, len(PLAYS), 0.2, _DIRICHLET, CHANGES,
        write=lambda file: write_plays(file, simulator.data_folder(None)),
        more=("-vs", str(VOCABULARY + 2), "-ml", str(WORDS)),
    ),
    "signals": Setting(
        "Waves", "htfe_sen8", "HtFE-sen-8", 8, ACTIVITIES, 0.1, _DIRICHLET, write=write_waves
    ),
    "images": Setting(
        "FashionMNIST", "htm5", "HtFE-img-5", 10, 10, 0.01,
        {"dataset": "fashion_mnist", "partition": "pathological", "classes_per_client": 2},
        given=("htm5",), methods=("standalone", "fedmrl"), batch_size=64, threads=None, more=("-fd", "500"),
    ),
}  # fmt: skip
METHODS: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
    "standalone": ({}, "Local", ()),
    "lg_fedavg": ({"evaluation": {"model": "aggregated"}}, "LG-FedAvg", ()),
    "fedproto": (
        {"method": {"lam": 1.0, "weighting": "plain", "collect": "all_epochs"}}, "FedProto", ("-lam", "1"),
    ),
    "fedmrl": (
        {"method": {"d_1": 128, "small": "cnn5"}, "evaluation": {"model": "aggregated"}}, "FedMRL", ("-sfd", "128"),
    ),
}  # fmt: skip
"""For each method: our settings, HtFLlib's name, and its further arguments."""


class Course(NamedTuple):
    """Accuracy after each round, and the median of the seconds, and processor seconds, of all rounds but the first."""

    accuracy: tuple[float, ...]
    seconds: float
    processor: float


def config(setting: Setting, method: str, file: Path, seed: int, rounds: int) -> Config:
    ours = METHODS[method][0]
    return hs.config(
        {
            "seed": seed,
            "rounds": rounds,
            "method": {"name": method} | ours.get("method", {}),
            "data": {"dataset": str(file), "split": "75:25"} | dict(setting.data),
            "federation": {"clients": setting.clients, "group": setting.group, "participation": 1.0},
            "training": {"batch_size": setting.batch_size, "epochs": 1, "optimizer": "sgd", "lr": setting.lr},
            "evaluation": ours.get("evaluation", {}),
            "runtime": {"device": "cpu"} | ({} if setting.threads is None else {"workers": setting.threads}),
        }
    )


def arguments(setting: Setting, method: str, rounds: int) -> list[str]:
    """The same run for HtFLlib's script."""
    _, algorithm, more = METHODS[method]
    same = {
        "-data": setting.name, "-m": setting.family, "-nc": setting.clients, "-ncl": setting.classes,
        "-lbs": setting.batch_size, "-ls": 1, "-lr": setting.lr, "-gr": rounds, "-jr": 1.0, "-dev": "cpu",
        "-algo": algorithm,
    }  # fmt: skip
    return [*(word for pair in same.items() for word in map(str, pair)), *setting.more, *more]


def ours(run: Config, folder: Path) -> Course:
    accuracy: list[float] = []
    ends: list[tuple[float, float]] = []

    def note(record: Record) -> None:
        weighted = record["accuracy"]["weighted"]
        assert weighted is not None  # every client has a test part
        accuracy.append(weighted)
        ends.append((time.perf_counter(), time.process_time()))

    hs.run(run, folder, progress=note)
    wall, processor = zip(*ends, strict=True)
    return Course(tuple(accuracy), statistics.median(steps(wall)), statistics.median(steps(processor)))


def steps(clock: Sequence[float]) -> list[float]:
    """The differences of neighbors."""
    return [after - before for before, after in pairwise(clock)]


def theirs(
    checkout: Path, work: Path, seed: int, changes: Sequence[str], threads: int | None, asked: Sequence[str]
) -> Course:
    """Run HtFLlib's script in the folder `work`/system. Raises ValueError with its last lines if it fails."""
    (work / "system").mkdir(exist_ok=True)
    inside, changed = Path(__file__).with_name("htfllib_inside.py"), ",".join(changes) or "none"
    limits = {} if threads is None else dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    done = subprocess.run(
        [sys.executable, str(inside), str(checkout.resolve()), str(seed), changed, *asked],
        cwd=work / "system", env=os.environ | limits, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise ValueError("HtFLlib failed:\n" + "\n".join(done.stdout.splitlines()[-8:]))
    return course(done.stdout)


def course(printed: str) -> Course:
    """What HtFLlib's script prints, aligned with our rounds.

    It evaluates, then trains, and does so once more than it has rounds. So its first accuracy is that before round 1.
    The last training is evaluated nowhere. Raises ValueError if accuracies or seconds are missing.
    """
    accuracy, seconds, clock = (
        [float(each) for each in pattern.findall(printed)] for pattern in (_ACCURACY, _SECONDS, _PROCESSOR)
    )
    if len(accuracy) < 3 or not len(accuracy) == len(seconds) == len(clock):
        raise ValueError(
            f"HtFLlib printed {len(accuracy)} accuracies, {len(seconds)} times of rounds, and {len(clock)} clocks"
        )
    return Course(tuple(accuracy[1:]), statistics.median(seconds[1:]), statistics.median(steps(clock)[1:]))


def difference(here: Sequence[float], there: Sequence[float], intervals: int) -> tuple[float, float]:
    """Here minus there by seed: mean, and half of Student's interval; all `intervals` hold at once (Bonferroni)."""
    from scipy.special import stdtrit

    each = [ours - others for ours, others in zip(here, there, strict=True)]
    quantile = float(stdtrit(len(each) - 1, 1 - (1 - CONFIDENCE) / intervals / 2))
    return statistics.fmean(each), quantile * statistics.stdev(each) / math.sqrt(len(each))


def in_words(mean: float, reach: float) -> str:
    """A difference in percent, marked if its interval excludes zero."""
    return f"{100 * mean:+.1f} ± {100 * reach:.1f}" + " *" * (abs(mean) > reach)


Courses = tuple[Course, Course, Course]
"""Ours, theirs as it is, and theirs changed, of one seed."""


def rows(found: Sequence[Courses], rounds: Sequence[int]) -> list[tuple[str, ...]]:
    """For each of these rounds: accuracies of ours, theirs, and theirs changed, with differences, in percent."""
    shown = []
    for round in rounds:
        ours, *others = (
            [each.accuracy[round - 1] for each in courses] for courses in zip(*found, strict=True)
        )
        cells = [str(round), spread(ours)]
        for there in others:
            cells += [spread(there), in_words(*difference(ours, there, len(rounds)))]
        shown.append(tuple(cells))
    return shown


def costs(found: Sequence[Courses]) -> tuple[str, ...]:
    """Seconds of ours, theirs as it is, and their ratio, then the same by processor time: medians over seeds."""
    cells: list[str] = []
    for pick in (attrgetter("seconds"), attrgetter("processor")):
        pairs = [(pick(here), pick(there)) for here, there, _ in found]
        here, there = (statistics.median(each) for each in zip(*pairs, strict=True))
        ratio = statistics.median(there / here for here, there in pairs)
        cells += [f"{here:.2f}", f"{there:.2f}", f"{ratio:.2f}"]
    return tuple(cells)


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation over seeds, in percent."""
    return f"{100 * statistics.fmean(values):.1f} ± {100 * statistics.stdev(values):.1f}"


def compared(checkout: Path, setting: Setting, method: str, seeds: int, rounds: int) -> list[Courses]:
    """Run ours and both of theirs for each seed, in turn."""
    found = list[Courses]()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "samples.npz"
        if setting.write is not None:
            setting.write(file)
        for seed in range(seeds):
            run, work = config(setting, method, file, seed, rounds), Path(folder) / str(seed)
            data = build(run, simulator.data_folder(None)).data
            # FedProto answers among all classes there, and among the client's own here.
            if method == "fedproto" and any(len(each.classes) < setting.classes for each in data.clients):
                raise ValueError(
                    f"seed {seed}: a client lacks a class, and FedProto would answer differently"
                )
            write_clients(work / "dataset" / setting.name, data, seed)
            mine, words = ours(run, work / "session"), arguments(setting, method, rounds)
            as_is, changed = (
                theirs(checkout, work, seed, changes, setting.threads, words)
                for changes in (setting.given, setting.given + setting.changes)
            )
            found.append((mine, as_is, changed))
            last = (f"{c.accuracy[-1]:.3f} {c.seconds:.2f} s ({c.processor:.2f})" for c in found[-1])
            print(f"{method} seed {seed}: {', '.join(last)}", file=sys.stderr)
    return found


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="python -m benchmarks.htfllib", description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="checkout of TsingZ0/HtFLlib")
    about = "(default: texts and signals; images take hours)"
    parser.add_argument("--sets", nargs="+", choices=SETTINGS, default=["texts", "signals"], help=about)
    parser.add_argument("--only", action="append", choices=METHODS, metavar="METHOD")
    parser.add_argument(
        "--changes", help=f"of HtFLlib's second runs: some of {','.join(CHANGES)} (default: all that differ)"
    )
    parser.add_argument("--seeds", type=at_least(2), default=6, help="(default: 6)")
    parser.add_argument("--rounds", type=at_least(2), default=15, help="(default: 15)")
    asked = parser.parse_args()
    shown = sorted({1, 5, 10, asked.rounds} & set(range(1, asked.rounds + 1)))
    clocks = ("htfl-sim s", "HtFLlib s", "HtFLlib / htfl-sim")
    times = Sheet(
        "A round, by the wall clock and in processor seconds",
        ("group", "method", *clocks, *(f"{each}, processor" for each in clocks)),
    )
    for name in asked.sets:
        setting = SETTINGS[name]
        if asked.changes is not None:
            setting = replace(setting, changes=tuple(asked.changes.split(",")))
        columns = ("htfl-sim", "HtFLlib", "Δ", "HtFLlib, changed", "Δ, changed")
        sheet = Sheet(
            f"{name}, {setting.group}: accuracy in %, {asked.seeds} seeds", ("method", "round", *columns)
        )
        for method in asked.only or setting.methods:
            found = compared(asked.checkout, setting, method, asked.seeds, asked.rounds)
            for row in rows(found, shown):
                sheet.add(method, *row)
                print(method, *row, sep=" | ", file=sys.stderr)  # an unfinished table shows nothing
            print(method, *costs(found), sep=" | ", file=sys.stderr)
            times.add(setting.group, method, *costs(found))
        print(sheet.markdown(), end="\n\n")
    print(times.markdown())


if __name__ == "__main__":
    try:
        main()
    except HtflError as error:
        raise SystemExit(f"error: {error}") from None
