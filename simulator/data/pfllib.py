"""Folders of clients as PFLlib and HtFLlib read them: train/0.npz, test/0.npz, …, and config.json.

Their formats: TsingZ0/PFLlib@0154cff (dataset/utils/dataset_utils.py) writes images and signals, and
TsingZ0/PFLlib@82bc533 (dataset/utils/language_utils.py) texts. TsingZ0/HtFLlib@bcb8af9 (system/utils/data_utils.py)
reads both. The key `data` of a file is a pickled dictionary: x [n, …] and y [n].
"""

import json
import math
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from simulator.base import reading
from simulator.base.errors import ConfigError, DataError, cannot_write
from simulator.data import unpickling
from simulator.data.pictures import check_memory
from simulator.data.specs import TokenSpec

if TYPE_CHECKING:
    from simulator.data.federated import FederatedData  # it imports torch

Kind = Literal["images", "signals", "tokens", "features"]
Part = tuple[NDArray[Any], NDArray[Any]]
"""The samples of a client's part, and their labels."""
LARGEST = 1 << 30
"""Bytes of a file."""
_LINE = 1 << 20
_DTYPE = re.compile(r"[<>|](?:[iu][1248]|f[248])")
_HALF = np.float32(0.5)
_FRACTIONS = np.arange(256, dtype=np.float32) / np.float32(255)
PIXELS = (_FRACTIONS - _HALF) / _HALF
"""PFLlib's value of each byte of an image. Most of its generators use the transforms ToTensor and Normalize(0.5, 0.5),
as TsingZ0/PFLlib@15f9987 (dataset/generate_Cifar10.py). Some use ToTensor alone, as generate_DomainNet.py there."""
_FORMS = {"(k/255 − 0.5)/0.5": PIXELS, "k/255": _FRACTIONS}


@dataclass
class Federation:
    """The clients of another tool, in order. `facts` are entries of the `.npz` beside samples and labels."""

    kind: Kind
    clients: list[str]
    train: list[Part]
    test: list[Part]
    """Empty if the tool has no test parts."""
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def read(folder: Path, kind: Kind | None) -> Federation:
    """The clients of a folder of PFLlib, unpickled in a process of its own.

    `kind`: what the samples are, where they can be read in several ways. Raises DataError.
    """
    files = {part: _numbered(folder, part) for part in ("train", "test")}
    config = _config(folder)
    count = len(files["train"])
    declared = _number(config, "num_clients", count)
    if declared != count:
        raise DataError(
            f"{folder} has {count} files in train, and its config.json has {declared} clients. Complete the folder."
        )
    if files["test"] and len(files["test"]) != count:
        raise DataError(
            f"{folder} has {count} files in train and {len(files['test'])} in test. Complete the folder, or remove "
            "'test' to divide the samples of 'train'."
        )
    others = sorted({path.name for path in folder.iterdir()} - {"train", "test", "config.json"})
    found = Federation(
        kind or "images", [], [], [], left_out=dict.fromkeys(others, "no part of PFLlib's clients")
    )
    first: _Reading | None = None
    with _unpickler() as opened:
        for part, into in (("train", found.train), ("test", found.test)):
            for file in files[part]:
                arrays, keys = opened(file)
                found.left_out |= {f"'{key}' in the files": "PFLlib does not read it" for key in keys}
                first = first or _Reading.of(file, arrays, kind)
                into.append((first.samples(file, arrays), _labels(file, arrays["y"], len(arrays["x"]))))
    assert first is not None  # a folder of PFLlib has files
    found.kind, found.clients = first.kind, [str(number) for number in range(count)]
    found.notes += first.said(found)
    _say_classes(found, config)
    return found


def _numbered(folder: Path, part: str) -> list[Path]:
    """The files 0.npz, 1.npz, … of a part. Raises DataError if a number is missing."""
    names = {path.name for path in (folder / part).glob("*.npz")}
    wanted = [f"{number}.npz" for number in range(len(names))]
    if missing := [name for name in wanted if name not in names]:
        odd = sorted(names.difference(wanted))
        raise DataError(
            f"{folder / part} has {len(names)} files, and no {missing[0]}, but {odd[0]}. Complete the folder, or "
            "number its files from 0."
        )
    return [folder / part / name for name in wanted]


def _config(folder: Path) -> Mapping[str, Any]:
    path = folder / "config.json"
    if not path.exists():
        return {}
    try:
        found = json.loads(reading.read_bytes(path, most=reading.TABLE, error=DataError))
    except (ValueError, RecursionError) as invalid:
        raise DataError(f"{path} is not JSON: {invalid}.") from invalid
    return found if isinstance(found, dict) else {}


def _number(config: Mapping[str, Any], key: str, default: int) -> int:
    found = config.get(key)
    return found if isinstance(found, int) else default


class _Unpickler:
    """A process that unpickles files (`unpickling`)."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def __call__(self, file: Path) -> tuple[dict[str, NDArray[Any]], list[str]]:
        """The arrays x, y, and perhaps `lengths` of a file, and the names of what else it has. Raises DataError."""
        content = reading.read_bytes(file, most=LARGEST, error=DataError)
        source, target = self._process.stdin, self._process.stdout
        assert source is not None and target is not None  # both are pipes
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
        arrays = {name: _received(file, target, *each) for name, each in said["arrays"].items()}
        return arrays, said["left_out"]


def _received(
    file: Path, source: Any, dtype: str, shape: list[int], order: Literal["C", "F"]
) -> NDArray[Any]:
    assert _DTYPE.fullmatch(dtype)
    size = math.prod(shape) * np.dtype(dtype).itemsize
    check_memory(file, size)
    values = np.frombuffer(source.read(size), dtype=dtype).reshape(shape, order=order)
    return values.astype(values.dtype.newbyteorder("="), copy=False)


@contextmanager
def _unpickler() -> Iterator[_Unpickler]:
    command = [sys.executable, "-I", "-S", unpickling.__file__]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}, cwd="/"
    ) as process:
        try:
            yield _Unpickler(process)
        finally:
            process.kill()


@dataclass
class _Reading:
    """How the samples of the first file are read, and so of all."""

    file: Path
    form: tuple[int, ...]
    dtype: "np.dtype[Any]"
    kind: Kind
    has_lengths: bool
    values: str = ""
    """The values of images, a key of `_FORMS`."""
    rounded: bool = False

    @classmethod
    def of(cls, file: Path, arrays: Mapping[str, NDArray[Any]], kind: Kind | None) -> "_Reading":
        """Raises DataError if the samples can be read in two ways, or in none, and `kind` does not say which."""
        x, has_lengths = arrays["x"], "lengths" in arrays
        kinds = ["tokens"] if has_lengths else _kinds(x)
        if kind is None and len(kinds) == 1:
            (kind,) = kinds  # type: ignore[assignment]  # a name of a kind
        if kind is None or kind not in (*kinds, "features"):
            ways = " or ".join(f"`kind='{each}'`" for each in dict.fromkeys([*kinds, "features"]))
            what = f"is not read as {kind or 'images or signals'}"
            if kind is None and kinds:
                what = "can be read in several ways"
            raise DataError(
                f"{file}: 'x' {x.dtype} {list(x.shape)} {what}. Use {ways}. Features are a row of numbers for each "
                "sample."
            )
        found = cls(file, x.shape[1:], x.dtype, kind, has_lengths)
        if kind == "images" and x.dtype != np.uint8 and len(x):
            fitting = [form for form in _FORMS if _bytes(x, form) is not None]
            if len(fitting) > 1:
                raise DataError(
                    f"{file}: the values of 'x' can be {' or '.join(fitting)} of bytes k. Save 'x' as uint8."
                )
            found.values = next(iter(fitting), next(iter(_FORMS)))
        return found

    def samples(self, file: Path, arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """The samples of a file, as the `.npz` has them. Raises DataError."""
        x = arrays["x"]
        if (x.shape[1:], x.dtype, "lengths" in arrays) != (self.form, self.dtype, self.has_lengths):
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
            return _tokens(file, x, arrays.get("lengths"))
        if not np.isfinite(x).all():
            raise DataError(f"{file}: 'x' has a value that is not finite. Fill it in, or remove the sample.")
        with np.errstate(over="ignore"):
            numbers = x.astype(np.float32)
        self.rounded |= not np.array_equal(numbers, x)
        if self.kind == "features":
            return numbers.reshape(len(x), -1)
        return numbers.reshape(len(x), -1, x.shape[-1])

    def said(self, found: Federation) -> list[str]:
        """How the samples were read. Adds facts that the `.npz` needs."""
        if self.kind == "images":
            found.facts["axes"] = "nhwc"
            if self.dtype == np.uint8:
                return ["'x' has the bytes of images."]
            return [
                f"'x' has the values {self.values} of images, and becomes the bytes k again, without loss."
            ]
        if self.kind == "tokens" and self.has_lengths:
            return ["'x' has tokens with lengths. Token 0 is padding, as in PFLlib."]
        if self.kind == "tokens":
            largest = max(int(x.max()) for x, _ in found.train + found.test)
            found.facts |= {"vocabulary": largest + 2, "padding": largest + 1}
            return [f"'x' has tokens up to {largest} without lengths, so none of them is padding."]
        if self.kind == "signals":
            found.facts["axes"] = "nct"
        said = [f"'x' [n, {', '.join(map(str, self.form))}] is read as {self.kind}."]
        return [*said, "'x' is rounded to 32 bits."] if self.rounded else said


def _kinds(x: NDArray[Any]) -> list[str]:
    """What an array of samples can be, by its axes."""
    sides = x.shape[1:]
    if len(sides) == 3:
        is_image = sides[0] in (1, 3) and x.dtype in (np.uint8, np.float32)
        return ["images"] * is_image + ["signals"] * (sides[1] == 1 or sides[0] not in (1, 3))
    if len(sides) == 2:
        return ["signals"] if sides[0] < sides[1] else ["signals", "features"]
    if len(sides) == 1:
        return ["tokens"] if x.dtype.kind in "iu" else ["features"]
    return []


def _bytes(x: NDArray[Any], form: str) -> NDArray[np.uint8] | None:
    """The bytes whose values in this form are exactly those of `x`. None if there are none."""
    with np.errstate(invalid="ignore", over="ignore"):
        fractions = x if form == "k/255" else x * _HALF + _HALF
        found = np.nan_to_num(np.rint(fractions * 255), posinf=0, neginf=0).clip(0, 255).astype(np.uint8)
    same = _FORMS[form][found].view(np.int32) == np.ascontiguousarray(x).view(np.int32)
    return found if same.all() else None


def _tokens(file: Path, x: NDArray[Any], lengths: NDArray[Any] | None) -> NDArray[Any]:
    if x.size and x.min() < 0:
        raise DataError(
            f"{file}: 'x' has the token {x.min()}, and tokens are numbered from 0. PFLlib writes -1 for a character "
            "outside its alphabet. Give it a number of its own."
        )
    if lengths is not None:
        after = np.arange(x.shape[1]) >= lengths[:, None]
        if (x * after).any():
            raise DataError(f"{file}: 'x' has a text with tokens after its length. Put zeros there.")
    return x


def _labels(file: Path, y: NDArray[Any], count: int) -> NDArray[Any]:
    if y.dtype.kind not in "iu" or y.shape != (count,):
        raise DataError(f"{file}: 'y' must be {count} whole numbers, not {y.dtype} {list(y.shape)}.")
    return y.astype(np.int64)


def _say_classes(found: Federation, config: Mapping[str, Any]) -> None:
    labels = np.unique(np.concatenate([y for _, y in found.train + found.test]))
    declared = _number(config, "num_classes", len(labels))
    if declared != len(labels):
        found.notes.append(
            f"config.json has {declared} classes, and {len(labels)} of them have samples. Models get {len(labels)}."
        )
    if not np.array_equal(labels, np.arange(len(labels))):
        found.notes.append(f"Labels are not 0 to {len(labels) - 1}. Class {labels[0]} is the first.")


def write(data: "FederatedData", folder: Path, batch_size: int) -> list[str]:
    """Write the clients of round 1 as PFLlib does, into a new folder. Returns sentences on what it cannot hold.

    Images are float32 [n, c, h, w], signals float32 [n, channels, 1, time], rows float32 [n, features]. Texts with
    padding are pairs of tokens and length, and other tokens int64 [n, length]. Labels are int64 [n]. Raises
    ConfigError.
    """
    source = data.source
    assert source is not None  # the data were loaded
    config = source.config
    if config.size is not None or config.rgb:
        raise ConfigError(
            "data.size and data.rgb change images batch by batch, and PFLlib has no such settings. Leave out "
            "data.size, and use `data.rgb=false`."
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is there already. Name a new folder.")
    labels = data.labels.numpy()
    spec = data.spec
    in_pairs = isinstance(spec, TokenSpec) and bool((data.inputs.tokens == spec.padding).any())  # type: ignore[attr-defined]
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
                x = _as_pfllib(data, held % (len(labels) // data.blocks), in_pairs)
                np.savez_compressed(folder / part / f"{number}.npz", data={"x": x, "y": labels[held]})  # type: ignore[arg-type]  # numpy pickles it
        (folder / "config.json").write_text(json.dumps(about), encoding="utf-8")
    except OSError as failed:
        raise cannot_write(folder, failed) from failed
    return list(_not_held(data, in_pairs))


def _as_pfllib(data: "FederatedData", places: NDArray[Any], in_pairs: bool) -> NDArray[Any]:
    inputs: Any = data.inputs  # a class for each kind of samples
    if data.spec.kind == "image":
        return np.ascontiguousarray(PIXELS[inputs.images.numpy()[places].transpose(0, 3, 1, 2)])
    if data.spec.kind != "tokens":
        numbers: NDArray[Any] = inputs.numbers.numpy()[places]
        return numbers[:, :, None] if data.spec.kind == "signal" else numbers
    tokens: NDArray[Any] = inputs.tokens.numpy()[places].astype(np.int64)
    if not in_pairs:
        return tokens
    pairs = np.empty((len(tokens), 2), dtype=object)
    for pair, text in zip(pairs, tokens.tolist(), strict=True):
        pair[:] = text, len(text)
    return pairs


def _not_held(data: "FederatedData", in_pairs: bool) -> Iterator[str]:
    if count := sum(each.num_eval for each in data.clients):
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
        if data.spec.padding:  # type: ignore[attr-defined]
            yield f"Token {data.spec.padding} is padding, and PFLlib's models take 0."  # type: ignore[attr-defined]
    elif isinstance(data.spec, TokenSpec):
        yield "Tokens have no padding. PFLlib and HtFLlib read them so if the folder's name begins with 'sh'."
