"""A partition by explicit indices: what a client holds is what the file says, and a bad file is refused by name."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError, DataError
from simulator.data import partition
from simulator.data.federated import FederatedData
from simulator.data.samples import joined
from tests import federations

CPU = torch.device("cpu")


def images() -> Any:
    """Ten images of labels 0, 1, 0, 1, …, the last two the data set's own test images."""
    pixels = np.arange(10, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 1), dtype=np.uint8)
    labels = np.arange(10) % 2
    return joined((pixels[:8], labels[:8]), (pixels[8:], labels[8:]), ("even", "odd"))


GOOD = [
    {"train": [4, 0, 1], "eval": [2], "test": [8, 9]},
    {"train": [3, 5], "test": [8, 9]},
]


def written(folder: Path, content: object) -> Path:
    path = folder / "mine.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def build(folder: Path, content: object, clients: int = 2) -> FederatedData:
    config = DataConfig(partition="indices", indices=str(written(folder, content)))
    return FederatedData.build(config, clients, 0, images(), CPU)


def test_every_client_holds_what_the_file_says(tmp_path: Path) -> None:
    first, second = build(tmp_path, GOOD).clients
    assert [part.tolist() for part in (first.train, first.eval, first.test)] == [[4, 0, 1], [2], [8, 9]]
    assert [part.tolist() for part in (second.train, second.eval, second.test)] == [[3, 5], [], [8, 9]]
    assert (first.classes, first.class_counts) == ((0, 1), (2, 1))
    assert (second.classes, second.class_counts) == ((1,), (2,))


def test_a_test_part_that_clients_share_is_one_tensor(tmp_path: Path) -> None:
    first, second = build(tmp_path, GOOD).clients
    assert first.test is second.test


def test_other_indices_are_other_data(tmp_path: Path) -> None:
    other = [GOOD[0] | {"train": [0, 4, 1]}, GOOD[1]]
    assert build(tmp_path, GOOD).fingerprint == build(tmp_path, GOOD).fingerprint
    assert build(tmp_path, GOOD).fingerprint != build(tmp_path, other).fingerprint


def changed(**parts: Any) -> list[dict[str, Any]]:
    return [GOOD[0], GOOD[1] | parts]


def test_a_bad_file_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for case, (content, why) in enumerate(
        [
            (changed(test=[3, 9]), "client 1: sample 3 is in both train and test"),
            (changed(eval=[5]), "client 1: sample 5 is in both train and eval"),
            (changed(eval=[8]), "client 1: sample 8 is in both eval and test"),
            (changed(train=[10]), "client 1, train: there is no sample 10; the data set has 0 to 9"),
            (changed(train=[-1]), "client 1, train: there is no sample -1"),
            (changed(train=[3, 3]), "client 1, train: sample 3 appears twice"),
            (changed(train=[]), "client 1: its train part is empty"),
            (changed(test=[]), "client 1: its test part is empty"),
            (changed(train=[True]), "client 1, train: must be a list of whole numbers"),
            (changed(train="all"), "client 1, train: must be a list of whole numbers"),
            (changed(tests=[1]), "client 1: must be"),
            ([GOOD[0], {"train": [1]}], "client 1: must be"),
            ([GOOD[0], [1, 2]], "client 1: must be"),
            (GOOD[:1], "has the indices of 1 clients, federation.clients is 2; use `clients=1`"),
            ({"0": GOOD[0]}, "must be a list"),
            ("[{", "is not JSON"),
            ("[" * 100_000, "is not JSON"),
        ]
    ):
        with subtests.test(case=case):
            place = tmp_path / str(case)
            place.mkdir()
            with pytest.raises(DataError, match=why.replace("(", r"\(")):
                build(place, content)


def test_a_missing_file_is_refused() -> None:
    config = DataConfig(partition="indices", indices="/nowhere/mine.json")
    with pytest.raises(DataError, match=r"cannot read the partition /nowhere/mine\.json"):
        FederatedData.build(config, 2, 0, images(), CPU)


def test_settings_that_do_not_go_together_are_refused(subtests: pytest.Subtests) -> None:
    for case, (data, why) in enumerate(
        [
            ({"partition": "indices"}, "belong together"),
            ({"indices": "mine.json"}, "belong together"),
            ({"partition": "indices", "indices": "mine.json", "limit": 5}, "limit would give other images"),
            (
                {"partition": "indices", "indices": "mine.json", "domains_per_client": 1},
                "has no effect with indices",
            ),
        ]
    ):
        with subtests.test(case=case), pytest.raises(ConfigError, match=why):
            federations.config(data=data)


def test_more_values_than_memory_should_hold_are_refused_before_they_are_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "many.json"
    file.write_text('[{"train": [0, 1], "test": [2]}]')  # 2 lists, 1 object, and 2 + 1 + 2 values
    monkeypatch.setattr(partition, "MOST_INDICES", 5)
    with pytest.raises(
        DataError, match=r"many\.json has more than 5 values\. Use fewer clients or samples\."
    ):
        partition.read_indices(file, 1, 3)
