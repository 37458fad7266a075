"""Random streams are named by what they are for."""

import hashlib
import random

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from simulator.base import rng

coordinates = st.tuples(
    st.integers(0, 2**63 - 1), st.text("ab/1-", max_size=6), st.integers(0, 9999), st.integers(-1, 9999)
)


def test_a_key_is_the_head_of_a_hash_of_its_coordinates() -> None:
    """Spelled out, since every result ever recorded depends on it."""
    digest = hashlib.sha256(b"3/participants/12/-1").digest()
    assert rng.seed_of(3, "participants", 12) == int.from_bytes(digest[:8], "little")


@given(coordinates, coordinates)
def test_different_coordinates_have_different_keys(one: tuple, other: tuple) -> None:
    assert (rng.seed_of(*one) == rng.seed_of(*other)) == (one == other)


@given(coordinates)
def test_the_same_coordinates_give_the_same_draws(at: tuple) -> None:
    assert (
        rng.numpy_stream(*at).integers(0, 2**62, 4).tolist()
        == rng.numpy_stream(*at).integers(0, 2**62, 4).tolist()
    )
    first, second = (torch.rand(4, generator=rng.torch_stream(*at)) for _ in range(2))
    assert torch.equal(first, second)


def test_drawing_touches_no_global_generator() -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    rng.numpy_stream(0, "a").random(10)
    torch.rand(10, generator=rng.torch_stream(0, "a"))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002
    assert random.getstate() == before[2]
