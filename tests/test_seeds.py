"""seed.data, seed.init and seed.training: each decides one part of a run's draws, and is `seed` by default."""

import hashlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simulator.base import rng
from simulator.base.errors import ConfigError
from simulator.base.nested import flattened, merged, with_overrides
from simulator.config import Config
from simulator.engine.client_states import State
from simulator.studies.study import StudySpec
from tests import federations


def seeded(seed: Any, method: str = "standalone") -> Config:
    """A run of one round with these seeds."""
    return federations.config(method, seed=seed, rounds=1)


def parts(seed: Any, method: str = "standalone") -> tuple[str, list[torch.Tensor], list[int], State]:
    """The partition's fingerprint, client 0's initial tensors, the participants of round 1, and the state after it."""
    built = federations.built(seeded(seed, method))
    first = built.engine.initial_state()
    weights = [*first.clients[0].values(), *first.server.values()]
    after = federations.run(built.engine, 1)
    assert after.record is not None
    return built.data.fingerprint, weights, list(after.record["participants"]), after


def tensors(state: State) -> list[torch.Tensor]:
    return [*state.server.values(), *(each for client in state.clients for each in client.values())]


def equal(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return len(some) == len(others) and all(map(torch.equal, some, others))


def test_three_equal_seeds_give_the_bits_of_one() -> None:
    """FedGH's server and FedMRL's clients draw initial weights of their own; FedL2G-l divides each client's samples."""
    for method in ("standalone", "fedgh", "fedmrl", "fedl2g_l"):
        one, three = parts(5, method), parts({"data": 5, "init": 5, "training": 5}, method)
        assert three[0] == one[0]
        assert equal(tensors(three[3]), tensors(one[3]))


@pytest.mark.long
@pytest.mark.parametrize(
    ("part", "changes"),
    [("data", (True, False, False)), ("init", (False, True, False)), ("training", (False, False, True))],
)
@pytest.mark.parametrize("method", ["fedgh", "fedmrl"])
def test_each_seed_changes_its_own_draws_alone(part: str, changes: tuple[bool, ...], method: str) -> None:
    partition, weights, participants, after = parts(7, method)
    others = [parts({"all": 7, part: seed}, method) for seed in (8, 9, 10, 11)]
    found = (
        any(each[0] != partition for each in others),
        not all(equal(each[1], weights) for each in others),
        any(each[2] != participants for each in others),  # three of four clients: four seeds suffice
    )
    assert found == changes
    assert not any(equal(tensors(each[3]), tensors(after)) for each in others)


def test_separate_seeds_are_recorded_as_a_table_and_read_back() -> None:
    config = seeded({"all": 3, "init": 1})
    assert config.to_json()["seed"] == {"all": 3, "init": 1}
    assert Config.read(config.to_json()) == config
    assert (config.data_seed, config.init_seed, config.training_seed) == (3, 1, 3)
    assert flattened(config.to_json())["seed"] == 3
    assert flattened(config.to_json())["seed.init"] == 1


def test_a_seed_can_be_set_alone_and_in_any_order() -> None:
    for assignments, said in (
        (["seed.data=1"], {"all": 7, "data": 1}),
        (["seed.data=1", "seed=2"], {"all": 2, "data": 1}),
        (["seed=2", "seed.data=1"], {"all": 2, "data": 1}),
        (["data.seed=1"], {"all": 7, "data": 1}),  # the former name
        (["seed=2"], 2),
        (["seed={ all = 1, training = 4 }"], {"all": 1, "training": 4}),
    ):
        raw = with_overrides(seeded(7).to_json(), assignments)
        assert Config.read(raw).to_json()["seed"] == said


def test_with_and_merged_keep_the_other_seeds() -> None:
    config = seeded({"all": 7, "data": 1})
    assert config.with_(seed=5).to_json()["seed"] == {"all": 5, "data": 1}
    assert seeded(7).with_(seed__init=2).to_json()["seed"] == {"all": 7, "init": 2}
    assert merged({"seed": 7}, {"seed": {"init": 2}}) == {"seed": {"all": 7, "init": 2}}


def test_a_seed_that_is_none_is_refused_by_its_key() -> None:
    for seed, message in (
        (-1, r"'seed' = -1: input should be greater than or equal to 0"),
        ({"init": -1}, r"'seed.init' = -1: input should be greater than or equal to 0"),
        ({"inti": 1}, r"unknown key 'seed.inti'. Did you mean 'seed.init'\?"),
    ):
        with pytest.raises(ConfigError, match=message):
            seeded(seed)


def test_a_study_crosses_the_seeds(tmp_path: Path) -> None:
    study = StudySpec("quickstart", config={"seed": 4}, over={"seed.data": (0, 1), "seed.init": (0, 1)})
    points = study.points(tmp_path)
    assert [point.name for point in points] == ["data0-init0", "data0-init1", "data1-init0", "data1-init1"]
    assert points[1].config["seed"] == {"all": 4, "data": 0, "init": 1}


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
