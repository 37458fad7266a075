"""How a client goes through its data."""

import functools
from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simulator.engine.builder import Built
from simulator.methods.base import cross_entropy
from simulator.training.client import batch_sizes
from simulator.training.phase import Phase
from tests import federations

PHASE = Phase("model", cross_entropy)


@given(st.integers(1, 500), st.integers(1, 70))
def test_batches_cover_all_samples_and_none_is_a_lone_one(samples: int, batch_size: int) -> None:
    sizes = batch_sizes(samples, batch_size)
    assert sum(sizes) == samples
    assert all(size <= batch_size + 1 for size in sizes)
    if samples > 1 and batch_size > 1:
        assert min(sizes) > 1


def test_a_rest_of_one_joins_the_batch_before_it() -> None:
    """Batches of four."""
    for samples, expected in [(3, [3]), (4, [4]), (5, [5]), (6, [4, 2]), (8, [4, 4]), (9, [4, 5]), (1, [1])]:
        assert batch_sizes(samples, 4) == expected


@functools.cache
def parts() -> Built:
    return federations.built(federations.config(training={"batch_size": 8}))


def order(client: int = 0, round: int = 1, phase: Phase = PHASE) -> list[list[float]]:
    """The images of every batch, each told apart by its sum."""
    state = parts().engine.initial_state()
    local = federations.local(parts(), client, state.clients[client], round)
    return [batch.x.sum((1, 2, 3)).tolist() for batch in local.batches(phase)]


def test_an_epoch_shows_every_training_image_once() -> None:
    x, _ = parts().data.batch(parts().data.clients[0].train)
    shown = [value for batch in order() for value in batch]
    assert sorted(shown) == sorted(x.sum((1, 2, 3)).tolist())


def test_labels_stay_with_their_images() -> None:
    data, client = parts().data, parts().data.clients[0]
    label_of = {x.numpy().tobytes(): y for x, y in zip(*data.batch(client.train), strict=True)}
    local = federations.local(parts(), 0, parts().engine.initial_state().clients[0])
    for batch in local.batches(PHASE):
        for x, y in zip(*batch, strict=True):
            assert label_of[x.numpy().tobytes()] == y


def test_the_order_is_a_function_of_seed_phase_round_and_client() -> None:
    assert order() == order()
    assert order(round=2) != order(round=1)
    assert order(phase=Phase("adapter", cross_entropy)) != order()


def test_epochs_differ_in_order_and_not_in_content() -> None:
    both = order(phase=Phase("model", cross_entropy, epochs=2))
    first, second = both[: len(both) // 2], both[len(both) // 2 :]
    assert first == order()
    assert first != second
    assert sorted(chain(*first)) == sorted(chain(*second))


def test_images_are_normalized_on_the_clients_training_images() -> None:
    x, _ = parts().data.batch(torch.cat([client.train for client in parts().data.clients]))
    assert x.mean().item() == pytest.approx(0, abs=1e-5)
    assert x.std(correction=0).item() == pytest.approx(1, abs=1e-5)


def test_a_phase_may_train_on_some_of_the_samples() -> None:
    some = parts().data.clients[0].train[:5]
    local = federations.local(parts(), 0, parts().engine.initial_state().clients[0])
    phase = Phase("model", cross_entropy, samples=some, epochs=2)
    assert [len(batch.y) for batch in local.batches(phase)] == [5, 5]
    assert local.steps(phase) == 2
