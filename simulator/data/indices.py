"""A partition from the user: the indices of every client's train, eval, and test samples, in JSON."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from checkpoints import limits
from simulator.base.errors import DataError
from simulator.base.reading import read_bytes
from simulator.data.samples import Indices

PARTS = ("train", "eval", "test")
LARGEST = 32 << 20
"""Bytes of a file."""
MOST_VALUES = 3_000_000
"""Indices in a file. A parsed one takes some 140 bytes of memory until it is in an array."""


def read(path: Path, clients: int, samples: int) -> list[tuple[Indices, Indices, Indices]]:
    """Train, eval, and test indices of every client, from a list with an object for each: {"train": [...], ...}.

    An index is a sample's position in the data set, from 0. The data set's own test samples come after those for
    training. `eval` may be missing. Clients may share samples, and equal parts of two clients are one array. Raises
    DataError with the client and the part for an unreadable file, too few or too many clients, an index out of range or
    twice, and an empty train or test part.
    """
    described = _parsed(path)
    if len(described) != clients:
        raise DataError(
            f"{path} has the indices of {len(described)} clients, federation.clients is {clients}; "
            f"use `clients={len(described)}`, or complete the file."
        )
    known: dict[bytes, Indices] = {}
    divisions = []
    for client, parts in enumerate(described):
        where = f"{path}, client {client}"
        if not isinstance(parts, dict) or parts.keys() - set(PARTS) or not {"train", "test"} <= parts.keys():
            raise DataError(
                f'{where}: must be {{"train": [...], "eval": [...], "test": [...]}}, without or with eval.'
            )
        arrays = [_checked(parts.get(name, []), samples, f"{where}, {name}") for name in PARTS]
        for name, array in zip(PARTS, arrays, strict=True):
            if not len(array) and name != "eval":
                raise DataError(f"{where}: its {name} part is empty; give it samples.")
        _refuse_overlap(where, arrays)
        train, evaluation, test = (known.setdefault(array.tobytes(), array) for array in arrays)
        divisions.append((train, evaluation, test))
    return divisions


def _parsed(path: Path) -> list[Any]:
    content = read_bytes(path, f"the partition {path}", LARGEST, DataError)
    if limits.values(content) > MOST_VALUES:
        raise DataError(f"{path} has more than {MOST_VALUES:,} values. Use fewer clients or samples.")
    try:
        described = json.loads(content)
    except (ValueError, RecursionError) as invalid:
        raise DataError(f"{path} is not JSON: {invalid}.") from invalid
    if not isinstance(described, list):
        raise DataError(f"{path} must be a list with an object of indices for each client.")
    return described


def _checked(given: Any, samples: int, where: str) -> Indices:
    if not isinstance(given, list) or not all(type(index) is int for index in given):
        raise DataError(f"{where}: must be a list of whole numbers.")
    if outside := [index for index in given if not 0 <= index < samples]:
        raise DataError(f"{where}: there is no sample {outside[0]}; the data set has 0 to {samples - 1}.")
    array = np.array(given, dtype=np.int64)
    values, counts = np.unique(array, return_counts=True)
    if (counts > 1).any():
        raise DataError(f"{where}: sample {values[counts > 1][0]} appears twice.")
    return array


def _refuse_overlap(where: str, arrays: list[Indices]) -> None:
    for one, other in ((0, 2), (0, 1), (1, 2)):
        if len(common := np.intersect1d(arrays[one], arrays[other])):
            raise DataError(
                f"{where}: sample {common[0]} is in both {PARTS[one]} and {PARTS[other]}; it can be in one of them."
            )
