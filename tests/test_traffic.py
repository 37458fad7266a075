"""The traffic the papers print, measured on real payloads of HtM5 on images of CIFAR's shape. KB = 1024 B."""

import functools
from typing import Any

import pytest

from tests import federations

CLASSES_PER_CLIENT = {10: 2, 100: 10}


@functools.cache
def traffic(method: str, classes: int, rounds: int = 1, clients: int = 10) -> dict[str, Any]:
    """The last round's `bytes` when every client holds the papers' number of classes, and a handful of images."""
    config = federations.config(
        method,
        data={"classes_per_client": CLASSES_PER_CLIENT[classes], "quantity": "equal"},
        federation={"clients": clients, "participation": 1.0, "group": "htm5"},
        training={"batch_size": 64},
    )
    parts = federations.built(config, federations.generated(classes, 400 // classes, side=32, channels=3))
    assert all(len(client.classes) == CLASSES_PER_CLIENT[classes] for client in parts.federation.clients)
    record = federations.run(parts.engine, rounds).record
    assert record is not None
    return dict(record["bytes"])


@pytest.mark.parametrize(
    ("method", "classes", "rounds", "printed"),
    [
        ("fedgh", 10, 1, 23.45),  # 500·10 floats down; 2 · 500 floats and 2 labels up
        pytest.param("fedgh", 100, 1, 214.88, marks=pytest.mark.long),
        pytest.param("lg_fedavg", 10, 1, 39.14, marks=pytest.mark.long),  # 2 · (500·10 + 10) floats
        pytest.param("lg_fedavg", 100, 1, 391.41, marks=pytest.mark.long),  # 2 · (500·100 + 100) floats
        # Of these, the table counts the vectors alone, without labels and class counts, from round 2 on.
        pytest.param("fedproto", 10, 2, 7.81, marks=pytest.mark.long),  # 2 · 2 · 500 floats
        pytest.param("fedproto", 100, 2, 39.06, marks=pytest.mark.long),  # 2 · 10 · 500 floats
        pytest.param("fd", 10, 2, 0.16, marks=pytest.mark.long),  # 2 · 2 · 10 floats
    ],
)
def test_fedgh_table_3(method: str, classes: int, rounds: int, printed: float) -> None:
    """Kilobytes of a client, up and down together."""
    measured = traffic(method, classes, rounds)
    beside = ("labels", "counts") if rounds == 2 else ()
    counted = [size for name, size in measured["by_tensor"].items() if not name.endswith(beside)]
    assert round(sum(counted) / 10 / 1024, 2) == printed
    assert len({*measured["per_client_up"]}) == len({*measured["per_client_down"]}) == 1
    if (method, classes) == ("fedgh", 10):
        assert measured["by_tensor"]["up/labels"] == 10 * 2 * 4


@pytest.mark.long
def test_fedssa_sends_the_rows_of_seen_classes_and_fedlora_its_adapter_both_ways() -> None:
    """Two rows of 500 weights and a bias. 500 → 60 → 10: 30,670 floats."""
    for method, numbers in (("fedssa", 2 * 501), ("fedlora", 30_670)):
        measured = traffic(method, 10)
        assert set(measured["per_client_up"]) == set(measured["per_client_down"]) == {numbers * 4}


@pytest.mark.long
def test_fedavg_is_twice_the_model() -> None:
    """CNN-1 … CNN-5 in turn; 10.00 to 2.56 MiB (FedGH Table 2)."""
    measured = traffic("fedavg", 10, clients=5)
    mebibytes = [round(size / 2**20, 2) for size in measured["per_client_up"]]
    assert mebibytes == [10.00, 6.92, 5.04, 4.04, 2.56]
    assert measured["per_client_down"] == measured["per_client_up"]
