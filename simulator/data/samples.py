"""A data set in memory: all samples, with the data set's own test set at the end, and the report of what was read.

The form of some samples follows from the data: the columns of a table, the vocabulary of texts, the channels of images.
Such an `UnfittedSet` gets its form once the clients' training parts are known (`FederatedData.build`).
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import islice
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from simulator.base.documents import Report
from simulator.base.errors import DataError
from simulator.base.nested import toml_value
from simulator.data.specs import ImageSpec, InputSpec, TokenSpec

Labels = NDArray[np.int64]
Indices = NDArray[np.int64]
Values = NDArray[np.generic]
Images = NDArray[np.uint8]
CHUNK = 1024
"""Images measured at a time. All at once would take eight times their memory."""


def _stored(values: Values, spec: InputSpec) -> Values:
    """Samples [n, …] in the stored dtype. Raises DataError if they do not fit the spec."""
    if values.shape[1:] != spec.shape or len(values) == 0:
        sides = ", ".join(map(str, spec.shape))
        raise DataError(f"samples have the shape {list(values.shape)}, and their spec says [n, {sides}].")
    if not isinstance(spec, TokenSpec):
        with np.errstate(over="ignore"):
            numbers = np.ascontiguousarray(values, dtype=np.float32)
        if not np.isfinite(numbers).all():
            raise DataError("a sample has a value that is not finite; fill it in or remove the sample.")
        return numbers
    smallest, largest = int(values.min()), int(values.max())
    if smallest < 0 or largest >= spec.vocabulary:
        odd = smallest if smallest < 0 else largest
        raise DataError(
            f"token {odd} is outside the vocabulary of {spec.vocabulary}: tokens are 0 … vocabulary − 1."
        )
    return np.ascontiguousarray(values, dtype=np.int32)


@dataclass(frozen=True)
class Reading:
    """What a reader did with a source, beside the samples themselves. It changes no result."""

    left_out: tuple[tuple[str, str], ...] = ()
    """Columns, files, and folders that were not read, each with the reason."""
    warnings: tuple[str, ...] = ()
    """Sentences about what was read, and may not be meant so."""
    notes: tuple[str, ...] = ()
    """How the source was read, where it has no other place: the separator of a table."""

    def plus(
        self,
        left_out: Iterable[tuple[str, str]] = (),
        warnings: Iterable[str] = (),
        notes: Iterable[str] = (),
    ) -> "Reading":
        return Reading((*self.left_out, *left_out), (*self.warnings, *warnings), (*self.notes, *notes))


NOTHING_SAID = Reading()


@dataclass(frozen=True, eq=False, kw_only=True)
class LabeledSet(ABC):
    """Samples with labels int64 [n], training samples first, then test samples.

    `test_from` is the index of the first sample of the data set's own test set, n if it has none. In a data set of
    several `domains` (photographs and drawings of the same classes), `domain` holds each sample's, int64 [n]. In a data
    set whose samples come from several `users` (persons, speaking roles), `user` holds each sample's, int64 [n].
    """

    labels: Labels
    classes: tuple[str, ...]
    test_from: int
    domains: tuple[str, ...] = ()
    domain: Labels | None = None
    users: tuple[str, ...] = ()
    user: Labels | None = None
    reading: Reading = NOTHING_SAID

    @abstractmethod
    def learned(self, held: Indices | None) -> "Form":
        """The form of samples that follows from the samples at `held`. None: the rule of older sessions."""

    @abstractmethod
    def taken(self, indices: Indices) -> Self:
        """The samples at `indices`. The other fields stay."""

    @abstractmethod
    def features(self) -> dict[str, int]:
        """The columns of a table with the number of their different texts, 0 for numbers. Empty for other samples."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def has_test_set(self) -> bool:
        return self.test_from < len(self)

    def take(self, indices: Indices) -> Self:
        """The samples at ascending `indices`, as a data set with the same classes."""
        return replace(
            self.taken(indices),
            labels=self.labels[indices],
            test_from=int(np.searchsorted(indices, self.test_from)),
            domain=None if self.domain is None else self.domain[indices],
            user=None if self.user is None else self.user[indices],
        )

    def of_users(self, users: Sequence[str]) -> Self:
        """The same samples with the name of each one's user, in the order of samples: those of training, then test."""
        number: dict[str, int] = {}
        owner = np.array([number.setdefault(name, len(number)) for name in users], dtype=np.int64)
        return replace(self, users=tuple(number), user=owner)

    @property
    def common(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(LabeledSet)}


@dataclass(frozen=True, eq=False, kw_only=True)
class SampleSet(LabeledSet):
    """Samples whose form is known.

    `names` are for people who look at samples: the text of each token, or the name of each channel or feature. They are
    empty if unknown, and change no result. `unknown` are values that the form has no place for, with the number of
    their samples.
    """

    names: tuple[str, ...] = ()
    unknown: tuple[tuple[str, int], ...] = ()

    @property
    @abstractmethod
    def spec(self) -> InputSpec:
        """The form of the samples."""

    @property
    @abstractmethod
    def values(self) -> Values:
        """All samples [n, …] as they are stored."""

    @abstractmethod
    def facts(self) -> list[Any]:
        """Other values that can change a result, as JSON."""

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of everything that can change a result: samples, labels, shape, classes, constants."""
        digest = hashlib.sha256(json.dumps(self.facts()).encode())
        digest.update(np.ascontiguousarray(self.values).data)
        digest.update(np.ascontiguousarray(self.labels, dtype="<i8").data)
        for names, numbers in ((self.domains, self.domain), (("users", *self.users), self.user)):
            if numbers is not None:
                digest.update(json.dumps(names).encode())
                digest.update(np.ascontiguousarray(numbers, dtype="<i8").data)
        return digest.hexdigest()

    def learned(self, held: Indices | None) -> "Form":
        return lambda samples: cast(SampleSet, samples)

    def features(self) -> dict[str, int]:
        if self.spec.kind != "table":
            return {}
        return dict.fromkeys(self.names or map(str, range(self.spec.shape[0])), 0)


Form = Callable[[LabeledSet], SampleSet]
"""Gives samples of one source their form."""


@dataclass(frozen=True, eq=False)
class ImageSet(SampleSet):
    """Images uint8 [n, h, w, c].

    `mean` and `std` are constants that the data set publishes: per channel, of pixel values divided by 255. None: they
    are measured (`inputs_of`).
    """

    images: Images
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    @property
    def spec(self) -> ImageSpec:
        _, height, width, channels = self.images.shape
        return ImageSpec(channels, height, width)

    @property
    def values(self) -> Images:
        return self.images

    def facts(self) -> list[Any]:
        return [self.images.shape, self.classes, self.mean, self.std, self.test_from]

    def taken(self, indices: Indices) -> Self:
        return replace(self, images=self.images[indices])

    def learned(self, held: Indices | None) -> Form:
        if held is None and self.mean is None:  # older sessions measured before the samples were divided
            mean, std = measured(self.images, np.arange(self.test_from))
            return lambda samples: replace(cast(ImageSet, samples), mean=mean, std=std)
        return super().learned(held)


def joined(
    train: tuple[Images, Labels],
    test: tuple[Images, Labels] | None,
    classes: tuple[str, ...],
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
) -> ImageSet:
    """An image set of (images, labels) for training and, optionally, for test."""
    images, labels = train
    test_from = len(labels)
    if test is not None:
        images, labels = np.concatenate([images, test[0]]), np.concatenate([labels, test[1]])
    images = np.ascontiguousarray(images)
    labels = labels.astype(np.int64)
    return ImageSet(images, mean, std, labels=labels, classes=classes, test_from=test_from)


def measured(images: Images, held: Indices) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel of the images at `held` / 255. The deviation is 1 for a constant channel.

    Sums are whole numbers, so every machine gets the same bits.
    """
    means, deviations = [], []
    values = np.arange(256)
    counts = np.zeros((images.shape[3], 256), dtype=np.int64)
    for start in range(0, len(held), CHUNK):
        chunk = images[held[start : start + CHUNK]]
        for channel, count in enumerate(counts):
            count += np.bincount(chunk[..., channel].ravel(), minlength=256)
    for count in counts:
        pixels, total, squares = (int((count * values**power).sum()) for power in (0, 1, 2))
        variance = (pixels * squares - total * total) / (pixels * 255) ** 2
        means.append(total / (pixels * 255))
        deviations.append(variance**0.5 or 1.0)
    return tuple(means), tuple(deviations)


@dataclass(frozen=True, eq=False)
class ArraySet(SampleSet):
    """Tokens int32 [n, length], signals float32 [n, channels, time], or table rows float32 [n, features]."""

    array: Values
    form: InputSpec

    @classmethod
    def of(
        cls,
        spec: InputSpec,
        train: tuple[Values, NDArray[Any]],
        test: tuple[Values, NDArray[Any]] | None = None,
        classes: tuple[str, ...] | None = None,
    ) -> "ArraySet":
        """Samples of this form with labels from 0, for training and, optionally, for test.

        Without `classes`, the names of classes are their numbers. Raises DataError for arrays that do not fit the spec.
        """
        parts = [part for part in (train, test) if part is not None]
        array = np.concatenate([_stored(values, spec) for values, _ in parts])
        labels = np.concatenate([given for _, given in parts])
        if not np.issubdtype(labels.dtype, np.integer) or labels.shape != array.shape[:1]:
            raise DataError(
                f"{len(array)} samples need as many labels, whole numbers, not {labels.dtype} {list(labels.shape)}."
            )
        names = classes or tuple(str(label) for label in range(int(labels.max()) + 1))
        if labels.min() < 0 or labels.max() >= len(names):
            raise DataError(f"a label is not in 0 … {len(names) - 1}, the numbers of the classes.")
        return cls(array, spec, labels=labels.astype(np.int64), classes=names, test_from=len(train[1]))

    def named(self, names: Sequence[str]) -> "ArraySet":
        """The same samples with the text of each token, or the name of each channel or feature."""
        return replace(self, names=tuple(names))

    @property
    def spec(self) -> InputSpec:
        return self.form

    @property
    def values(self) -> Values:
        return self.array

    def facts(self) -> list[Any]:
        return [self.spec.to_json(), self.array.shape, str(self.array.dtype), self.classes, self.test_from]

    def taken(self, indices: Indices) -> Self:
        return replace(self, array=self.array[indices])


@dataclass(frozen=True, eq=False)
class UnfittedSet(LabeledSet):
    """Samples as their source has them: arrays whose first dimension is n, and what makes a form of them."""

    columns: tuple[NDArray[Any], ...]
    learn: Callable[["UnfittedSet", Indices | None], Callable[["UnfittedSet"], SampleSet]]
    """Learns the form, as `learned` does."""
    titles: tuple[str, ...] = ()
    """What the columns are. Other sets with the same titles can take the form of these samples. None can without."""

    def learned(self, held: Indices | None) -> Form:
        form = self.learn(self, held)
        return lambda samples: form(cast(UnfittedSet, samples))

    def taken(self, indices: Indices) -> Self:
        return replace(self, columns=tuple(column[indices] for column in self.columns))

    def features(self) -> dict[str, int]:
        if self.titles in ((), ("text",), ("tokens",)):
            return {}
        return {
            name: len(set(values.tolist()) - {None}) if values.dtype == object else 0
            for name, values in zip(self.titles, self.columns, strict=True)
        }

    def formed(
        self,
        values: Values,
        spec: InputSpec,
        names: Sequence[str] = (),
        unknown: Sequence[tuple[str, int]] = (),
    ) -> ArraySet:
        """The same samples as these values. Raises DataError if they do not fit the spec."""
        array = _stored(values, spec)
        return ArraySet(array, spec, names=tuple(names), unknown=tuple(unknown), **self.common)


MOST_LISTED = 100
"""The maximum number of names in a list that a session records."""
LONGEST = 300
"""The maximum number of characters of a name or sentence that a session records."""


def report_of(samples: LabeledSet, read: Reading) -> Report:
    """The report of a sample set, and of what was said when it was read and formed."""

    def counts(names: Sequence[str], numbers: Labels | None) -> dict[str, int]:
        if numbers is None:
            return {}
        return dict(zip(names, np.bincount(numbers, minlength=len(names)).tolist(), strict=True))

    return {
        "samples": len(samples),
        "test": len(samples) - samples.test_from,
        "classes": counts(samples.classes, samples.labels),
        "domains": counts(samples.domains, samples.domain),
        "clients": counts(samples.users, samples.user),
        "features": samples.features(),
        "left_out": dict(read.left_out),
        "notes": list(read.notes),
        "warnings": list(read.warnings),
    }


def check_report(report: Report, dataset: str) -> None:
    """Raise DataError for samples on which an accuracy says nothing."""
    held = [name for name, count in report["classes"].items() if count]
    if len(held) < 2:
        raise DataError(
            f"{dataset} has a single class, '{''.join(held)}', so every answer is right. Use data with two classes or "
            "more, or a setting that reads them: `htfl-sim config data.labels`."
        )
    texts = sorted(((count, name) for name, count in report["features"].items() if count), reverse=True)
    ones, rows = sum(count for count, _ in texts), report["samples"]
    if 2 * ones > rows:
        drop, left = [name for name in report["left_out"] if name not in report["features"]], ones
        for count, name in texts:
            if 2 * left > rows:
                drop.append(name)
                left -= count
        way = f"Leave out columns of many different texts: `data.ignore={toml_value(drop)}`"
        if {*report["features"]} <= {*drop}:
            way = f"Train on the texts of one column instead: `data.text={texts[0][1]}`"
        raise DataError(
            f"{dataset}: texts would become {ones:,} columns of zeros and ones, more than half of its {rows:,} rows. "
            f"{way}."
        )


def recorded_report(report: Report) -> Report:
    """The report as session.json keeps it: long lists are cut, and names are printable."""

    def cut(found: Any) -> Any:
        if isinstance(found, Mapping):
            return {cut(name): cut(each) for name, each in islice(found.items(), MOST_LISTED)}
        if isinstance(found, Sequence) and not isinstance(found, str):
            return [cut(each) for each in found[:MOST_LISTED]]
        if isinstance(found, str):
            return "".join(each if each.isprintable() else " " for each in found[:LONGEST])
        return found

    given = cast(dict[str, Any], report)
    counted = ("classes", "domains", "clients", "features", "left_out", "warnings")
    numbers = {key: len(given[key]) for key in counted}
    return cast(Report, {**{key: cut(each) for key, each in given.items()}, "numbers": numbers})
