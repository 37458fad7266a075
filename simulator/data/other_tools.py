"""Federations of other tools as files of htfl-sim: samples in an `.npz`, and the indices of each client in JSON.

PFLlib and HtFLlib read train/0.npz, test/0.npz, …, and config.json. TsingZ0/PFLlib@0154cff
(dataset/utils/dataset_utils.py) writes images and signals, and TsingZ0/PFLlib@82bc533 (dataset/utils/language_utils.py)
texts. TsingZ0/HtFLlib@bcb8af9 (system/utils/data_utils.py) reads both. The key `data` of a file is a pickled
dictionary: x [n, …] and y [n]. `write` makes such folders.

LEAF has JSON: TalwalkarLab/leaf@0d30b4d (data/femnist/preprocess/data_to_json.py) for images, and
TalwalkarLab/leaf@21f185e (data/shakespeare/preprocess/shake_utils.py, data/sent140/preprocess/data_to_json.py) for
texts.
"""

import json
import math
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from checkpoints import limits
from simulator.base import reading
from simulator.base.data_section import split_shares
from simulator.base.errors import ConfigError, DataError, cannot_write
from simulator.data import partition, unpickling, words
from simulator.data.array_sets import CHARACTER_NAMES, CHARACTERS
from simulator.data.partition import PARTS
from simulator.data.pictures import check_memory
from simulator.data.specs import TokenSpec

if TYPE_CHECKING:
    from simulator.data.federated import FederatedData  # it imports torch

Kind = Literal["images", "signals", "tokens", "features"]
Array = NDArray[Any]
Part = tuple[Array, Array]
"""The samples of a client's part, and their labels."""


@dataclass
class Federation:
    """The clients of another tool, in order. `facts` are entries of the `.npz` beside samples and labels."""

    kind: Kind
    clients: list[str] = field(default_factory=list)
    train: list[Part] = field(default_factory=list)
    test: list[Part] = field(default_factory=list)
    """Empty if the tool has no test parts."""
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def sizes(self) -> dict[str, int]:
        """The number of samples of each client."""
        tested = [len(y) for _, y in self.test] or [0] * len(self.train)
        parts = zip(self.clients, self.train, tested, strict=True)
        return {name: len(y) + count for name, (_, y), count in parts}


FILES = ("samples.npz", "clients.json")
"""What an import writes: the samples with their labels, and the indices of each client."""


def convert(
    folder: Path, target: Path, kind: str | None = None, unpickle: bool = False, split: str | None = None
) -> Federation:
    """Read the federation in `folder`, and write it into the new folder `target` as samples.npz and clients.json.

    `kind` is what the samples are, where they can be read in several ways. `split`: how the samples of each client are
    divided, if the federation has no test parts. PFLlib's files are read only with `unpickle`. Raises ConfigError, and
    DataError for a federation that cannot be read, or that htfl-sim cannot hold.
    """
    if kind not in (None, *get_args(Kind)):
        raise ConfigError(f"'{kind}' is no kind of samples. Use {', '.join(get_args(Kind))}.")
    _refuse_used(target)
    typed = [str(folder), str(target)]
    for option, value in (("--kind", kind), ("--split", split)):
        typed += [] if value is None else [option, value]
    found = _read(folder, cast(Kind | None, kind), unpickle, typed)
    divided = [*_divided(folder, found, split)]
    x, y = (np.concatenate(each) for each in zip(*found.train, *found.test, strict=True))
    clients = json.dumps(divided, separators=(",", ":")).encode()
    if len(clients) > partition.INDICES_BYTES or limits.values(clients) > partition.MOST_INDICES:
        raise DataError(
            f"{folder} has {len(y):,} samples, more than a partition can list. Import a part of it."
        )
    files = [target / name for name in FILES]
    try:
        target.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, Any] = {found.kind: x, "labels": y, **found.facts}
        np.savez_compressed(files[0], **arrays)
        files[1].write_bytes(clients)
    except OSError as failed:
        raise cannot_write(target, failed) from failed
    parts = {name: sum(len(each.get(name, ())) for each in divided) for name in PARTS}
    counts = ", ".join(f"{name} {count:,}" for name, count in parts.items() if count)
    found.notes.insert(0, f"{len(divided):,} clients with their own parts: {counts} samples.")
    return found


def _refuse_used(target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"{target} is there already. Name a new folder.")


_FOLDERS = ("train", "rem_user_data", "sampled_data", "all_data", ".")
"""Where LEAF's scripts put JSON, the last step first."""


def _read(folder: Path, kind: Kind | None, unpickle: bool, typed: Sequence[str]) -> Federation:
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder. Name the folder of a federation.")
    pickled = any(folder.glob("train/*.npz"))
    jsons = [name for name in _FOLDERS if _jsons(folder / name)]
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
    return _of_pfllib(folder, kind)


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
    ranges = np.split(np.arange(ends[-1]), ends[:-1])
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
        stream = rng.numpy_stream(0, "data/split", client=client)
        parts = partition.stratified(held, labels, shares, client, stream)
        yield {name: part.tolist() for name, part in zip(names, parts, strict=True)}


# PFLlib

_LARGEST_NPZ = 1 << 30
"""Bytes of a file."""
_LINE = 1 << 20
_DTYPE = re.compile(r"[<>|](?:[iu][1248]|f[248])")
_HALF = np.float32(0.5)
_FRACTIONS = np.arange(256, dtype=np.float32) / np.float32(255)
PIXELS = (_FRACTIONS - _HALF) / _HALF
"""PFLlib's value of each byte of an image. Most of its generators use the transforms ToTensor and Normalize(0.5, 0.5),
as TsingZ0/PFLlib@15f9987 (dataset/generate_Cifar10.py). Some use ToTensor alone, as generate_DomainNet.py there."""
_FORMS = {"(k/255 − 0.5)/0.5": PIXELS, "k/255": _FRACTIONS}


def _of_pfllib(folder: Path, kind: Kind | None) -> Federation:
    """The clients of a folder of PFLlib, unpickled in a process of its own. Raises DataError."""
    files = {part: _numbered(folder / part) for part in ("train", "test")}
    path, config = folder / "config.json", {}
    if path.exists():
        try:
            config = json.loads(reading.read_bytes(path, most=reading.TABLE, error=DataError))
        except (ValueError, RecursionError) as invalid:
            raise DataError(f"{path} is not JSON: {invalid}.") from invalid

    def declared(key: str, default: int) -> int:
        found = config.get(key) if isinstance(config, dict) else None
        return found if isinstance(found, int) else default

    count, tests = len(files["train"]), len(files["test"])
    if (others := declared("num_clients", count)) != count:
        raise DataError(
            f"{folder} has {count} files in train, and its config.json has {others} clients. Complete the folder."
        )
    if tests not in (0, count):
        raise DataError(
            f"{folder} has {count} files in train and {tests} in test. Complete the folder, or remove 'test' to divide "
            "the samples of 'train'."
        )
    beside = sorted({each.name for each in folder.iterdir()} - {"train", "test", "config.json"})
    found = Federation("images", left_out=dict.fromkeys(beside, "no part of PFLlib's clients"))
    first: _Reader | None = None
    with _unpickler() as opened:
        for part, into in (("train", found.train), ("test", found.test)):
            for file in files[part]:
                arrays, keys = opened(file)
                found.left_out |= {f"'{key}' in the files": "PFLlib does not read it" for key in keys}
                first = first or _Reader(file, arrays, kind)
                samples, y = first.samples(file, arrays), arrays["y"]
                if y.dtype.kind not in "iu" or y.shape != (len(samples),):
                    raise DataError(
                        f"{file}: 'y' must be {len(samples)} whole numbers, not {y.dtype} {list(y.shape)}."
                    )
                into.append((samples, y.astype(np.int64)))
    assert first is not None  # a folder of PFLlib has files
    found.kind, found.clients = first.kind, [str(number) for number in range(count)]
    first.tell(found)
    labels = np.unique(np.concatenate([y for _, y in found.train + found.test]))
    if (classes := declared("num_classes", len(labels))) != len(labels):
        found.notes.append(
            f"config.json has {classes} classes, and {len(labels)} of them have samples. Models get {len(labels)}."
        )
    if not np.array_equal(labels, np.arange(len(labels))):
        found.notes.append(f"Labels are not 0 to {len(labels) - 1}. Class {labels[0]} is the first.")
    return found


def _numbered(folder: Path) -> list[Path]:
    """The files 0.npz, 1.npz, … of a part. Raises DataError if a number is missing."""
    names = {path.name for path in folder.glob("*.npz")}
    wanted = [f"{number}.npz" for number in range(len(names))]
    if missing := [name for name in wanted if name not in names]:
        raise DataError(
            f"{folder} has {len(names)} files, and no {missing[0]}, but {min(names.difference(wanted))}. Complete the "
            "folder, or number its files from 0."
        )
    return [folder / name for name in wanted]


@contextmanager
def _unpickler() -> Iterator[Callable[[Path], tuple[dict[str, Array], list[str]]]]:
    """A process that unpickles files (`unpickling`).

    Of a file, it gives the arrays x, y, and perhaps `lengths`, and the names of what else it has. Raises DataError.
    """
    command = [sys.executable, "-I", "-S", unpickling.__file__]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}, cwd="/"
    ) as process:
        source, target = process.stdin, process.stdout
        assert source is not None and target is not None  # both are pipes

        def opened(file: Path) -> tuple[dict[str, Array], list[str]]:
            content = reading.read_bytes(file, most=_LARGEST_NPZ, error=DataError)
            try:
                source.write(len(content).to_bytes(8, "little"))
                source.write(content)
                source.flush()
                said = json.loads(target.readline(_LINE))
            except (OSError, ValueError) as ended:
                raise DataError(
                    f"{file} could not be read with {unpickling.MEMORY >> 30} GiB of memory in {unpickling.SECONDS} s. "
                    "Use smaller files."
                ) from ended
            if "error" in said:
                raise DataError(
                    f"{file} {said['error']}. Only numbers in arrays, lists, and dictionaries are read."
                )
            arrays = {}
            for name, (dtype, shape, order) in said["arrays"].items():
                assert _DTYPE.fullmatch(dtype)
                size = math.prod(shape) * np.dtype(dtype).itemsize
                check_memory(file, size)
                values = np.frombuffer(target.read(size), dtype=dtype).reshape(shape, order=order)
                arrays[name] = values.astype(values.dtype.newbyteorder("="), copy=False)
            return arrays, said["left_out"]

        try:
            yield opened
        finally:
            process.kill()


class _Reader:
    def __init__(self, file: Path, arrays: Mapping[str, Array], kind: Kind | None) -> None:
        """Raises DataError if the samples can be read in two ways, or in none, and `kind` does not say which."""
        x = arrays["x"]
        self.file, self.form, self.dtype, self.has_lengths = file, x.shape[1:], x.dtype, "lengths" in arrays
        self.values = next(iter(_FORMS))
        """The values of images, a key of `_FORMS`."""
        self.rounded = False
        kinds: list[Kind] = ["tokens"] if self.has_lengths else _kinds(x)
        if kind is None and len(kinds) == 1:
            kind = kinds[0]
        if kind is None or kind not in (*kinds, "features"):
            ways = " or ".join(f"`kind='{each}'`" for each in dict.fromkeys([*kinds, "features"]))
            what = f"is not read as {kind or 'images or signals'}"
            if kind is None and kinds:
                what = "can be read in several ways"
            raise DataError(
                f"{file}: 'x' {x.dtype} {list(x.shape)} {what}. Use {ways}. Features are a row of numbers for each "
                "sample."
            )
        self.kind: Kind = kind
        if kind == "images" and x.dtype != np.uint8 and len(x):
            fitting = [form for form in _FORMS if _bytes(x, form) is not None]
            if len(fitting) > 1:
                raise DataError(
                    f"{file}: the values of 'x' can be {' or '.join(fitting)} of bytes k. Save 'x' as uint8."
                )
            self.values = next(iter(fitting), self.values)

    def samples(self, file: Path, arrays: Mapping[str, Array]) -> Array:
        """The samples of a file, as the `.npz` has them. Raises DataError."""
        x, lengths = arrays["x"], arrays.get("lengths")
        if (x.shape[1:], x.dtype, lengths is not None) != (self.form, self.dtype, self.has_lengths):
            raise DataError(
                f"{file}: 'x' {x.dtype} {list(x.shape)} differs from {self.file}, which has {self.dtype} "
                f"[n, {', '.join(map(str, self.form))}]. All files need samples of one form."
            )
        if not len(x):
            raise DataError(
                f"{file} has no samples, and a client needs some in each part. Remove the files of this client, and "
                "number the others from 0."
            )
        if self.kind == "images":
            found = x if x.dtype == np.uint8 else _bytes(x, self.values)
            if found is None:
                raise DataError(
                    f"{file}: 'x' {list(x.shape)} has values from {x.min():g} to {x.max():g}, and some are not "
                    f"{self.values} of a whole number k from 0 to 255, as in PFLlib's images. Write it again with "
                    "ToTensor() and Normalize(0.5, 0.5), or read rows of numbers with `kind='features'`."
                )
            return np.ascontiguousarray(found.transpose(0, 2, 3, 1))
        if self.kind == "tokens":
            if x.size and x.min() < 0:
                raise DataError(
                    f"{file}: 'x' has the token {x.min()}, and tokens are numbered from 0. PFLlib writes -1 for a "
                    "character outside its alphabet. Give it a number of its own."
                )
            if lengths is not None and (x * (np.arange(x.shape[1]) >= lengths[:, None])).any():
                raise DataError(f"{file}: 'x' has a text with tokens after its length. Put zeros there.")
            return x
        if not np.isfinite(x).all():
            raise DataError(f"{file}: 'x' has a value that is not finite. Fill it in, or remove the sample.")
        with np.errstate(over="ignore"):
            numbers = x.astype(np.float32)
        self.rounded |= not np.array_equal(numbers, x)
        sides = x.shape[-1:] if self.kind == "signals" else ()
        return numbers.reshape(len(x), -1, *sides)

    def tell(self, found: Federation) -> None:
        """Add how the samples were read, and facts that the `.npz` needs."""
        if self.kind == "images":
            found.facts["axes"] = "nhwc"
            said = f"'x' has the values {self.values} of images, and becomes the bytes k again, without loss."
            found.notes.append("'x' has the bytes of images." if self.dtype == np.uint8 else said)
        elif self.kind == "tokens" and self.has_lengths:
            found.notes.append("'x' has tokens with lengths. Token 0 is padding, as in PFLlib.")
        elif self.kind == "tokens":
            largest = max(int(x.max()) for x, _ in found.train + found.test)
            found.facts |= {"vocabulary": largest + 2, "padding": largest + 1}
            found.notes.append(f"'x' has tokens up to {largest} without lengths, so none of them is padding.")
        else:
            if self.kind == "signals":
                found.facts["axes"] = "nct"
            found.notes.append(f"'x' [n, {', '.join(map(str, self.form))}] is read as {self.kind}.")
            found.notes += ["'x' is rounded to 32 bits."] * self.rounded


def _kinds(x: Array) -> list[Kind]:
    match x.shape[1:]:
        case (first, second, _):
            is_image = first in (1, 3) and x.dtype in (np.uint8, np.float32)
            found: list[Kind] = ["images"] if is_image else []
            return [*found, "signals"] if second == 1 or first not in (1, 3) else found
        case (first, second):
            return ["signals"] if first < second else ["signals", "features"]
        case (_,):
            return ["tokens"] if x.dtype.kind in "iu" else ["features"]
    return []


def _bytes(x: Array, form: str) -> NDArray[np.uint8] | None:
    """The bytes whose values in this form are exactly those of `x`. None if there are none."""
    with np.errstate(invalid="ignore", over="ignore"):
        fractions = x if form == "k/255" else x * _HALF + _HALF
        found = np.nan_to_num(np.rint(fractions * 255), posinf=0, neginf=0).clip(0, 255).astype(np.uint8)
    same = _FORMS[form][found].view(np.int32) == np.ascontiguousarray(x).view(np.int32)
    return found if same.all() else None


def write(data: "FederatedData", folder: Path, batch_size: int) -> list[str]:
    """Write the clients of round 1 as PFLlib does, into a new folder. Returns sentences on what it cannot hold.

    Images are float32 [n, c, h, w], signals float32 [n, channels, 1, time], rows float32 [n, features]. Texts with
    padding are pairs of tokens and length, and other tokens int64 [n, length]. Labels are int64 [n]. Raises
    ConfigError.
    """
    assert data.source is not None  # the data were loaded
    config = data.source.config
    if config.size is not None or config.rgb:
        raise ConfigError(
            "data.size and data.rgb change images batch by batch, and PFLlib has no such settings. Leave out "
            "data.size, and use `data.rgb=false`."
        )
    _refuse_used(folder)
    labels, spec, inputs = data.labels.numpy(), data.spec, cast(Any, data.inputs)  # a class for each kind
    in_pairs = isinstance(spec, TokenSpec) and bool((inputs.tokens == spec.padding).any())

    def samples(places: Array) -> Array:
        if spec.kind == "image":
            return np.ascontiguousarray(PIXELS[inputs.images.numpy()[places].transpose(0, 3, 1, 2)])
        if spec.kind != "tokens":
            numbers: Array = inputs.numbers.numpy()[places]
            return numbers[:, :, None] if spec.kind == "signal" else numbers
        tokens: Array = inputs.tokens.numpy()[places].astype(np.int64)
        if not in_pairs:
            return tokens
        pairs = np.empty((len(tokens), 2), dtype=object)
        for pair, text in zip(pairs, tokens.tolist(), strict=True):
            pair[:] = text, len(text)
        return pairs

    counts = [Counter(labels[np.concatenate([each.train, each.test])].tolist()) for each in data.clients]
    about = {
        "num_clients": len(data.clients),
        "num_classes": data.num_classes,
        "non_iid": config.partition != "iid",
        "balance": config.quantity == "equal",
        "partition": {"pathological": "pat", "dirichlet": "dir"}.get(config.partition),
        "Size of samples for labels in clients": [sorted(each.items()) for each in counts],
        "alpha": config.alpha,
        "batch_size": batch_size,
    }
    try:
        for part in ("train", "test"):
            (folder / part).mkdir(parents=True, exist_ok=True)
            for number, client in enumerate(data.clients):
                held = client.part(part).numpy() % len(labels)
                x = samples(held % (len(labels) // data.blocks))
                np.savez_compressed(folder / part / f"{number}.npz", data={"x": x, "y": labels[held]})  # type: ignore[arg-type]  # numpy pickles it
        (folder / "config.json").write_text(json.dumps(about), encoding="utf-8")
    except OSError as failed:
        raise cannot_write(folder, failed) from failed
    return list(_not_held(data, in_pairs))


def _not_held(data: "FederatedData", in_pairs: bool) -> Iterator[str]:
    if count := sum(len(each.eval) for each in data.clients):
        yield f"{count:,} samples of eval parts are left out. `data.split=8:2` makes none."
    if data.public is not None:
        yield "Public samples are left out."
    if data.later:
        yield "Changes of federation.timeline are left out. The data are those of round 1."
    if data.domains:
        yield "The names of domains are left out."
    if data.classes != tuple(map(str, range(data.num_classes))):
        yield f"Labels are 0 to {data.num_classes - 1}, in the order of classes: {', '.join(data.classes[:10])}."
    if in_pairs:
        yield "Texts are pairs of tokens and length, as in PFLlib. Every length is that of the padded text."
        if padding := cast(TokenSpec, data.spec).padding:
            yield f"Token {padding} is padding, and PFLlib's models take 0."
    elif isinstance(data.spec, TokenSpec):
        yield "Tokens have no padding. PFLlib and HtFLlib read them so if the folder's name begins with 'sh'."


# LEAF

_LARGEST_JSON = 512 << 20
"""Bytes of a file of LEAF. With 100 writers of FEMNIST, it has some 350 MB."""
MOST_VALUES = 24_000_000
"""Values in a file of LEAF. That one has 18,000,000."""
_BYTES = 72
"""The most bytes of memory of a parsed value, which is an empty dictionary. A number takes 32."""
_SMALLEST = 8
"""Pixels of the side of an image."""
_PICTURE = re.compile(r"\S+\.(jpe?g|png)", re.IGNORECASE)
_User = tuple[Any, list[Any]]
"""A user's samples and labels. Samples are texts, fractions k/255 as the bytes k, or other numbers [n, length]."""


def _jsons(folder: Path) -> list[Path]:
    """The JSON files of a folder in the order of their numbers. PFLlib's config.json is none of LEAF."""
    found = [path for path in folder.glob("*.json") if path.name != "config.json"]
    return sorted(
        found, key=lambda path: [int(part) if part.isdigit() else 0 for part in re.split(r"(\d+)", path.name)]
    )


def _of_leaf(folder: Path, found: Sequence[str], kind: Kind | None) -> Federation:
    used = found[0]
    if used != "train" and len(found) > 1:
        raise DataError(
            f"{folder} has JSON files in {' and in '.join(found)}. Name one of these folders, such as {folder / used}."
        )
    left_out = {f"folder {name}": "train and test have the samples" for name in found if name != used}
    federation = Federation("features", left_out=left_out)
    train = _users(_jsons(folder / used), federation)
    test = _users(_jsons(folder / "test"), federation) if used == "train" else {}
    if test and not train.keys() & test.keys():
        raise DataError(
            f"{folder}: train and test have different users, and a client needs samples in both. Divide by sample: "
            "LEAF's preprocess.sh does with `-t sample`."
        )
    for user in [*train.keys() ^ test.keys()] if test else []:
        left_out[f"user {user}"] = "has samples in only one of train and test"
    for user in [user for users in (train, test) for user, (_, y) in users.items() if not y]:
        left_out[f"user {user}"] = "has a part without samples"
    names = [user for user in train if f"user {user}" not in left_out]
    if not names:
        raise DataError(f"{folder} has no user with samples in each part.")
    federation.clients = names
    made = _samples(
        folder, federation, [users[user] for users in (train, test) if users for user in names], kind
    )
    federation.train, federation.test = made[: len(names)], made[len(names) :]
    return federation


def _users(files: Sequence[Path], federation: Federation) -> dict[str, _User]:
    users: dict[str, _User] = {}
    for file in files:
        content = reading.read_bytes(file, most=_LARGEST_JSON, error=DataError)
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
            compact = _compact(x, where, federation)
            if not any(all(type(each) is allowed for each in y) for allowed in (int, str)):
                raise DataError(f"{where}: 'y' must be whole numbers or texts, one for each sample.")
            users[user] = compact, y
    return users


def _listed(file: Path, given: Any, federation: Federation) -> Iterator[tuple[str, list[Any], list[Any]]]:
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


def _compact(x: list[Any], where: str, federation: Federation) -> list[str] | Array:
    if all(isinstance(each, str) for each in x):
        return x
    if all(isinstance(each, list) and each and all(isinstance(one, str) for one in each) for each in x):
        for number in range(1, max(map(len, x))):
            federation.left_out[f"column {number} of x"] = "the text is in the last column"
        return [row[-1] for row in x]
    try:
        values: Array = np.array(x)
    except ValueError:  # rows of different lengths
        values = np.array([])
    if values.dtype.kind not in "iuf" or values.ndim != 2 or not np.isfinite(values).all():
        raise DataError(f"{where}: 'x' must be texts, or rows of finite numbers of one length.")
    found: Array = np.rint(values * 255).clip(0, 255).astype(np.uint8)
    if values.dtype.kind == "f" and np.array_equal(found / 255, values) and (found % 255).any():
        return found
    with np.errstate(over="ignore"):  # what gets infinite is refused as the samples are read
        return values if values.dtype.kind == "i" else values.astype(np.float32)


def _samples(
    folder: Path, federation: Federation, users: Sequence[_User], kind: Kind | None
) -> list[tuple[Array, Array]]:
    """The samples and labels of users' parts, train first. Sets the kind, the facts, and the notes."""
    labels = [np.array([CHARACTER_NAMES.get(each, each) for each in y]) for _, y in users]
    if {each.dtype.kind for each in labels} not in ({"i"}, {"U"}):
        raise DataError(f"{folder}: 'y' must have whole numbers of 64 bits, or texts. Use one of them.")
    xs, kinds = [x for x, _ in users], list[Kind](["tokens"])
    if all(isinstance(x, list) for x in xs):
        arrays = _texts(folder, federation, users)
    elif any(isinstance(x, list) for x in xs) or len({x.shape[1] for x in xs}) > 1:
        raise DataError(
            f"{folder}: samples in 'x' have different forms. Use texts alone, or rows of one length."
        )
    else:
        kinds, arrays = _numbers(federation, xs, kind)
    if kind not in (None, *kinds):
        ways = " or ".join(f"`kind='{each}'`" for each in kinds)
        raise DataError(f"{folder}: 'x' is not read as {kind}. Use {ways}.")
    return list(zip(arrays, labels, strict=True))


def _numbers(
    federation: Federation, xs: Sequence[Array], kind: Kind | None
) -> tuple[list[Kind], list[Array]]:
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
    others = [f" `kind='{each}'` reads {each}." for each in kinds if each != federation.kind]
    federation.notes.append(f"'x' has {what}, read as {read_as}." + "".join(others))
    if federation.kind == "images":
        federation.facts["axes"] = "nhw"
        return kinds, [x.reshape(-1, side, side) for x in xs]
    if federation.kind == "tokens":
        return kinds, list(xs)
    return kinds, [((x / 255) if x.dtype == np.uint8 else x).astype(np.float32) for x in xs]


def _texts(folder: Path, federation: Federation, users: Sequence[_User]) -> list[Array]:
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
        other, padding = len(number) + 1, 0
        vocabulary = other + 1
        tokens = np.array([[number.get(each, other) for each in text] for text in texts], dtype=np.int32)
        said = (
            f"'x' has texts of {len(texts[0])} characters, read as tokens of LEAF's {len(number)} characters. "
            f"{(tokens == other).sum():,} other characters are token {other}."
        )
    else:
        read = [text for x, _ in users[: len(federation.clients)] for text in x]
        known = words.vocabulary(read)
        length = min(max([len(words.words(text)) for text in read]), words.LENGTH) or 1
        tokens = np.asarray(words.tokenized(texts, known, length), dtype=np.int32)
        vocabulary, padding = len(known) + 2, words.PADDING
        said = (
            f"'x' has texts, read as up to {length} words of a vocabulary of {len(known):,}: those of the training "
            "parts."
        )
    federation.facts |= {"vocabulary": vocabulary, "padding": padding}
    federation.notes.append(said)
    return np.split(tokens, np.cumsum([len(x) for x, _ in users])[:-1])
