"""Federations of other tools as files of htfl-sim: samples in an `.npz`, and the indices of each client in JSON.

It reads the folders of PFLlib and HtFLlib (`pfllib`), and the JSON of LEAF: TalwalkarLab/leaf@0d30b4d
(data/femnist/preprocess/data_to_json.py) for images, and TalwalkarLab/leaf@21f185e
(data/shakespeare/preprocess/shake_utils.py, data/sent140/preprocess/data_to_json.py) for texts.
"""

import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from checkpoints import limits
from simulator.base import reading
from simulator.base.data_section import split_shares
from simulator.base.errors import ConfigError, DataError, cannot_write
from simulator.data import pfllib, words
from simulator.data.partition import INDICES_BYTES, MOST_INDICES, PARTS, stratified
from simulator.data.pfllib import Federation, Kind
from simulator.data.pictures import check_memory
from simulator.data.text_sets import CHARACTER_NAMES, CHARACTERS

LARGEST = 512 << 20
"""Bytes of a file of LEAF. With 100 writers of FEMNIST, it has some 350 MB."""
MOST_VALUES = 24_000_000
"""Values in a file of LEAF. That one has 18,000,000."""
_BYTES = 72
"""The most bytes of memory of a parsed value, which is an empty dictionary. A number takes 32."""
_FOLDERS = ("train", "rem_user_data", "sampled_data", "all_data", ".")
"""Where LEAF's scripts put JSON, the last step first."""
_SMALLEST = 8
"""Pixels of the side of an image."""
_PICTURE = re.compile(r"\S+\.(jpe?g|png)", re.IGNORECASE)


@dataclass(frozen=True)
class Imported:
    """A federation as files of htfl-sim."""

    files: tuple[Path, Path]
    """The samples, and the indices of each client."""
    clients: Mapping[str, int]
    """The other tool's names of the clients, in order, with their numbers of samples."""
    notes: Sequence[str]
    left_out: Mapping[str, str]


def convert(
    folder: Path, target: Path, kind: str | None = None, unpickle: bool = False, split: str | None = None
) -> Imported:
    """Read the federation in `folder`, and write it into the new folder `target`.

    `kind` is what the samples are, where they can be read in several ways. `split`: how the samples of each client are
    divided, if the federation has no test parts. PFLlib's files are read only with `unpickle`. Raises ConfigError, and
    DataError for a federation that cannot be read, or that htfl-sim cannot hold.
    """
    if kind not in (None, *get_args(Kind)):
        raise ConfigError(f"'{kind}' is no kind of samples. Use {', '.join(get_args(Kind))}.")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"{target} is there already. Name a new folder.")
    found = _read(folder, cast(Kind | None, kind), unpickle, [str(folder), str(target), *_typed(kind, split)])
    divided = [*_divided(folder, found, split)]
    x, y = (np.concatenate(each) for each in zip(*found.train, *found.test, strict=True))
    clients = json.dumps(divided, separators=(",", ":")).encode()
    if len(clients) > INDICES_BYTES or limits.values(clients) > MOST_INDICES:
        raise DataError(
            f"{folder} has {len(y):,} samples, more than a partition can list. Import a part of it."
        )
    samples, partition = target / "samples.npz", target / "clients.json"
    try:
        target.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, Any] = {found.kind: x, "labels": y, **found.facts}
        np.savez_compressed(samples, **arrays)
        partition.write_bytes(clients)
    except OSError as failed:
        raise cannot_write(target, failed) from failed
    sizes = [sum(map(len, parts.values())) for parts in divided]
    parts = {name: sum(len(each.get(name, ())) for each in divided) for name in PARTS}
    counts = ", ".join(f"{name} {count:,}" for name, count in parts.items() if count)
    notes = [f"{len(divided):,} clients with their own parts: {counts} samples.", *found.notes]
    return Imported((samples, partition), dict(zip(found.clients, sizes, strict=True)), notes, found.left_out)


def _typed(kind: str | None, split: str | None) -> Iterator[str]:
    for option, value in (("--kind", kind), ("--split", split)):
        if value is not None:
            yield from (option, value)


def _read(folder: Path, kind: Kind | None, unpickle: bool, typed: Sequence[str]) -> Federation:
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder. Name the folder of a federation.")
    pickled = any(folder.glob("train/*.npz"))
    jsons = [name for name in _FOLDERS if any(_jsons(folder / name))]
    if pickled == bool(jsons):
        has = "files of PFLlib and of LEAF. Keep one kind" if pickled else "no federation that htfl-sim knows"
        raise DataError(
            f"{folder} has {has}. PFLlib's folders have train/0.npz, and LEAF's have JSON files in train, in all_data, "
            "or in the folder itself."
        )
    if not pickled:
        return _of_leaf(folder, jsons, kind)
    if not unpickle:
        command = ["htfl-sim", "data", "import", *typed, "--unpickle"]
        raise DataError(
            f"{folder}: the files of PFLlib are pickled, and a pickle can run any program when it is read. Only "
            "numbers in arrays, lists, and dictionaries would be read, in a process of its own that can open no file. "
            f"To allow that: `{shlex.join(command)}`"
        )
    return pfllib.read(folder, kind)


def _divided(folder: Path, found: Federation, split: str | None) -> Iterator[dict[str, list[int]]]:
    """The positions of each client's samples, where all training parts come before all test parts."""
    if found.test and split is not None:
        raise ConfigError(
            f"{folder} has test parts of its own, and `split` is for one without. Leave it out."
        )
    if not found.test and split is None:
        raise DataError(
            f"{folder} has no test parts. Divide the samples of each client: `split='8:2'`, or `split='8:1:1'` with "
            "an eval part."
        )
    ends = np.cumsum([len(y) for _, y in (*found.train, *found.test)])
    ranges = [np.arange(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    if split is None:
        for train, test in zip(ranges[: len(found.train)], ranges[len(found.train) :], strict=True):
            yield {"train": train.tolist(), "test": test.tolist()}
        return
    from simulator.base import rng  # it imports torch

    try:
        shares = split_shares(split)
    except ValueError as wrong:
        raise ConfigError(f"{wrong}.") from wrong
    names = PARTS if len(shares) == 3 else ("train", "test")
    for client, (held, (_, labels)) in enumerate(zip(ranges, found.train, strict=True)):
        parts = stratified(held, labels, shares, client, rng.numpy_stream(0, "data/split", client=client))
        yield {name: part.tolist() for name, part in zip(names, parts, strict=True)}


def _jsons(folder: Path) -> list[Path]:
    """The JSON files of a folder in the order of their numbers. PFLlib's config.json is none of LEAF."""
    found = [path for path in folder.glob("*.json") if path.name != "config.json"]
    return sorted(
        found, key=lambda path: [int(part) if part.isdigit() else 0 for part in re.split(r"(\d+)", path.name)]
    )


_Samples = list[str] | NDArray[Any]
"""Texts, fractions k/255 as the bytes k, or other numbers [n, length]."""
_User = tuple[Any, list[Any]]
"""A user's `_Samples` and labels."""


def _of_leaf(folder: Path, found: Sequence[str], kind: Kind | None) -> Federation:
    """The users of a folder of LEAF's JSON. Raises DataError."""
    used = found[0]
    if used != "train" and len(found) > 1:
        raise DataError(
            f"{folder} has JSON files in {' and in '.join(found)}. Name one of these folders, such as {folder / used}."
        )
    federation = Federation("features", [], [], [])
    federation.left_out |= {
        f"folder {name}": "train and test have the samples" for name in found if name != used
    }
    train = _users(_jsons(folder / used), federation)
    test = _users(_jsons(folder / "test"), federation) if used == "train" else {}
    if test and not train.keys() & test.keys():
        raise DataError(
            f"{folder}: train and test have different users, and a client needs samples in both. Divide by sample: "
            "LEAF's preprocess.sh does with `-t sample`."
        )
    for user in [*train.keys() ^ test.keys()] if test else []:
        federation.left_out[f"user {user}"] = "has samples in only one of train and test"
    for users in (train, test):
        federation.left_out |= {
            f"user {user}": "has a part without samples" for user, (_, y) in users.items() if not y
        }
    names = [user for user in train if f"user {user}" not in federation.left_out]
    if not names:
        raise DataError(f"{folder} has no user with samples in each part.")
    federation.clients = names
    parts = [[users[user] for user in names] for users in (train, test) if users]
    _set_samples(folder, federation, parts, kind)
    return federation


def _users(files: Sequence[Path], federation: Federation) -> dict[str, _User]:
    users: dict[str, _User] = {}
    for file in files:
        content = reading.read_bytes(file, most=LARGEST, error=DataError)
        count = limits.values(content)
        if count > MOST_VALUES:
            raise DataError(f"{file} has more than {MOST_VALUES:,} values. Write fewer users into each file.")
        check_memory(file, _BYTES * count + 2 * len(content))
        try:
            given = json.loads(content)
        except (ValueError, RecursionError) as invalid:
            raise DataError(f"{file} is not JSON: {invalid}.") from invalid
        del content
        for user, x, y in _listed(file, given, federation):
            where = f"{file}, user '{user}'"
            if user in users:
                raise DataError(f"{where}: another file has this user too. Keep one of them.")
            users[user] = _compact(x, where, federation), _label_values(y, where)
    return users


def _listed(file: Path, given: Any, federation: Federation) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """The users of a parsed file, with samples and labels."""
    try:
        data = given["user_data"]
        found = [
            (user, data[user]["x"], data[user]["y"], size)
            for user, size in zip(given["users"], given["num_samples"], strict=True)
        ]
    except (KeyError, TypeError, ValueError) as wrong:
        raise DataError(
            f"{file} is not as LEAF writes it: it needs users, num_samples, and user_data with x and y of each user."
        ) from wrong
    for user, x, y, size in found:
        if not (isinstance(x, list) and isinstance(y, list) and len(x) == len(y) == size):
            raise DataError(
                f"{file}, user '{user}': x, y, and num_samples must have the same number of samples."
            )
        yield user, x, y
    names = {*given} - {"users", "num_samples", "user_data"} | {*data} - {*given["users"]}
    federation.left_out |= dict.fromkeys(sorted(names), f"{file.name} does not list it as a user")


def _compact(x: list[Any], where: str, federation: Federation) -> _Samples:
    if all(isinstance(each, str) for each in x):
        return x
    if all(isinstance(each, list) and each and all(isinstance(one, str) for one in each) for each in x):
        for number in range(1, max(map(len, x))):
            federation.left_out[f"column {number} of x"] = "the text is in the last column"
        return [row[-1] for row in x]
    values: NDArray[Any]
    try:
        values = np.array(x)
    except ValueError:  # rows of different lengths
        values = np.array([])
    if values.dtype.kind not in "iuf" or values.ndim != 2 or not np.isfinite(values).all():
        raise DataError(f"{where}: 'x' must be texts, or rows of finite numbers of one length.")
    found: NDArray[Any] = np.rint(values * 255).clip(0, 255).astype(np.uint8)
    if values.dtype.kind == "f" and np.array_equal(found / 255, values) and (found % 255).any():
        return found
    with np.errstate(over="ignore"):  # what gets infinite is refused as the samples are read
        return values if values.dtype.kind == "i" else values.astype(np.float32)


def _label_values(y: list[Any], where: str) -> list[Any]:
    for allowed in (int, str):
        if all(type(each) is allowed for each in y):
            return y
    raise DataError(f"{where}: 'y' must be whole numbers or texts, one for each sample.")


def _set_samples(
    folder: Path, federation: Federation, parts: Sequence[Sequence[_User]], kind: Kind | None
) -> None:
    """Give a federation the samples of its users' parts, train first."""
    users = [user for part in parts for user in part]
    labels = [np.array([CHARACTER_NAMES.get(each, each) for each in y]) for _, y in users]
    if {each.dtype.kind for each in labels} not in ({"i"}, {"U"}):
        raise DataError(f"{folder}: 'y' must have whole numbers of 64 bits, or texts. Use one of them.")
    xs = [x for x, _ in users]
    kinds: list[Kind] = ["tokens"]
    if all(isinstance(x, list) for x in xs):
        arrays = _texts(folder, federation, users, len(parts[0]))
    elif any(isinstance(x, list) for x in xs) or len({x.shape[1] for x in xs}) > 1:
        raise DataError(
            f"{folder}: samples in 'x' have different forms. Use texts alone, or rows of one length."
        )
    else:
        kinds, arrays = _numbers(federation, xs, kind)
    if kind not in (None, *kinds):
        ways = " or ".join(f"`kind='{each}'`" for each in kinds)
        raise DataError(f"{folder}: 'x' is not read as {kind}. Use {ways}.")
    made = list(zip(arrays, labels, strict=True))
    federation.train, federation.test = made[: len(parts[0])], made[len(parts[0]) :]


def _numbers(
    federation: Federation, xs: Sequence[NDArray[Any]], kind: Kind | None
) -> tuple[list[Kind], list[NDArray[Any]]]:
    """The kinds that rows of numbers can be, and the rows as the chosen one, or as the first."""
    width = xs[0].shape[1]
    side = math.isqrt(width)
    kinds: list[Kind] = ["features"]
    what = f"rows of {width} numbers"
    if all(x.dtype == np.uint8 for x in xs) and side**2 == width and side >= _SMALLEST:
        kinds, what = ["images", "features"], f"rows of {width} fractions k/255"
    elif all(x.dtype.kind == "i" for x in xs):
        kinds, what = ["features", "tokens"], f"rows of {width} whole numbers"
    federation.kind = kind or kinds[0]
    read_as = f"gray images of {side}×{side} pixels" if federation.kind == "images" else federation.kind
    others = [each for each in kinds if each != federation.kind]
    federation.notes.append(
        f"'x' has {what}, read as {read_as}." + "".join(f" `kind='{each}'` reads {each}." for each in others)
    )
    if federation.kind == "images":
        federation.facts["axes"] = "nhw"
        return kinds, [x.reshape(-1, side, side) for x in xs]
    if federation.kind == "tokens":
        return kinds, list(xs)
    return kinds, [((x / 255) if x.dtype == np.uint8 else x).astype(np.float32) for x in xs]


def _texts(folder: Path, federation: Federation, users: Sequence[_User], trains: int) -> list[NDArray[Any]]:
    """Texts as tokens: characters if all have one length and a character as label, else words."""
    federation.kind = "tokens"
    texts = [text for x, _ in users for text in x]
    if all(map(_PICTURE.fullmatch, texts)):
        raise DataError(
            f"{folder}: 'x' has the names of image files, and the images are not there. Use a folder of images with a "
            "CSV file of labels (`data.labels=labels.csv`)."
        )
    if len({*map(len, texts)}) == 1 and all(
        isinstance(each, str) and len(each) == 1 for _, y in users for each in y
    ):
        number = {character: token for token, character in enumerate(CHARACTERS, start=1)}
        other = len(number) + 1
        tokens = np.array([[number.get(each, other) for each in text] for text in texts], dtype=np.int32)
        federation.facts |= {"vocabulary": other + 1, "padding": 0}
        federation.notes.append(
            f"'x' has texts of {len(texts[0])} characters, read as tokens of LEAF's {len(number)} characters. "
            f"{(tokens == other).sum():,} other characters are token {other}."
        )
    else:
        read = [text for x, _ in users[:trains] for text in x]
        known = words.vocabulary(read)
        length = min(max([len(words.words(text)) for text in read]), words.LENGTH) or 1
        tokens = np.asarray(words.tokenized(texts, known, length), dtype=np.int32)
        federation.facts |= {"vocabulary": len(known) + 2, "padding": words.PADDING}
        federation.notes.append(
            f"'x' has texts, read as up to {length} words of a vocabulary of {len(known):,}: those of the training "
            "parts."
        )
    return np.split(tokens, np.cumsum([len(x) for x, _ in users])[:-1])
