"""Public samples: which they are, that clients have none of them, and that they have the clients' form."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError
from simulator.base.nested import with_overrides
from simulator.config import Config
from simulator.data.federated import FederatedData, PublicData, Source, load, of_data_set, set_apart
from simulator.data.samples import ArraySet, ImageSet, SampleSet, joined
from simulator.data.specs import SignalSpec, TokenSpec
from tests import federations

CPU = torch.device("cpu")


def numbered(train: int = 200, test: int = 50, side: int = 4, classes: int = 5) -> ImageSet:
    """Image i has i as its first byte, so that it tells where it came from."""
    count = train + test
    pixels = np.zeros((count, side, side, 1), dtype=np.uint8)
    pixels[:, 0, 0, 0] = np.arange(count)
    labels = np.arange(count) % classes
    names = tuple(f"class {label}" for label in range(classes))
    return joined((pixels[:train], labels[:train]), (pixels[train:], labels[train:]) if test else None, names)


def build(shown: SampleSet | None = None, held: SampleSet | None = None, **config: Any) -> FederatedData:
    settings = DataConfig(partition="iid", **config)
    return FederatedData.build(settings, 4, 3, held or numbered(), CPU, shown=shown)


def public_of(data: FederatedData) -> PublicData:
    assert data.public is not None
    return data.public


def numbers(images: torch.Tensor) -> list[int]:
    return images[:, 0, 0, 0].tolist()


def of_clients(data: FederatedData) -> list[int]:
    indices = torch.cat([part for each in data.clients for part in (each.train, each.eval, each.test)])
    return numbers(data.inputs.images[indices.unique()])


def test_a_share_is_taken_out_of_all_samples_and_no_client_has_any_of_it() -> None:
    data = build(public=0.2)
    public = numbers(public_of(data).inputs.images)
    assert len(public) == len(public_of(data)) == 50
    assert sorted(public + of_clients(data)) == [*range(250)]


def test_a_share_keeps_the_shares_of_the_classes_and_has_their_labels() -> None:
    public = public_of(build(public=0.2))
    assert torch.bincount(public.labels).tolist() == [10] * 5
    assert [number % 5 for number in numbers(public.inputs.images)] == public.labels.tolist()
    assert public.num_classes == 5


def test_with_a_global_test_set_the_share_is_of_the_training_samples() -> None:
    public = numbers(public_of(build(public=0.2, split="global")).inputs.images)
    assert len(public) == 40
    assert max(public) < 200


def test_clients_divide_the_rest_as_if_there_were_no_other_samples() -> None:
    private, _ = set_apart(numbered(), DataConfig(public=0.2), 3)
    alone, data = build(held=private), build(public=0.2)
    assert of_clients(alone) == of_clients(data)
    assert all(
        torch.equal(one.train, other.train) for one, other in zip(alone.clients, data.clients, strict=True)
    )


def test_a_share_follows_from_the_partitions_seed() -> None:
    config = DataConfig(public=0.2)
    first, again, other = (numbers(set_apart(numbered(), config, seed)[1].images) for seed in (3, 3, 4))
    assert first == again != other


@pytest.mark.parametrize(("share", "reason"), [(0.004, "less than two public"), (0.999, "only public")])
def test_a_share_leaves_samples_on_both_sides(share: float, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"{share} of 250 samples leaves {reason} samples"):
        build(public=share)


def test_another_data_set_leaves_the_clients_data_as_they_are() -> None:
    without, data = build(), build(numbered(side=4, classes=3), public="other")
    assert all(
        torch.equal(one.train, other.train) for one, other in zip(without.clients, data.clients, strict=True)
    )
    assert without.public is None
    assert data.fingerprint != without.fingerprint
    assert public_of(data).num_classes == 3


def test_other_public_samples_are_other_data() -> None:
    one, other = build(numbered(100), public="other"), build(numbered(101), public="other")
    assert one.fingerprint != other.fingerprint


def test_of_another_data_set_the_training_samples_are_public(subtests: pytest.Subtests) -> None:
    for case, (limit, left) in enumerate([(None, 200), (20, 20), (1000, 200)]):
        with subtests.test(case=case):
            shown = of_data_set(numbered(), DataConfig(public="other", public_limit=limit), 3)
            found = [image[0, 0, 0] for image in shown.images]
            assert len(found) == left
            assert max(found) < 200
            assert np.bincount(shown.labels).tolist() == [left // 5] * 5


def test_images_of_another_size_fit_once_they_are_scaled() -> None:
    larger = numbered(side=8)
    with pytest.raises(
        ConfigError, match=r"images of 1×8×8, and 'digits' has images of 1×4×4. Use data\.size"
    ):
        build(larger, public="other")
    assert public_of(build(larger, public="other", size=8)).batch(torch.tensor([0])).shape == (1, 1, 8, 8)


def test_samples_of_another_kind_are_refused() -> None:
    with pytest.raises(ConfigError, match="'other' has table rows of 6 features, and 'digits' has images"):
        build(federations.samples("table"), public="other")


def test_signals_are_normalized_as_the_clients_are() -> None:
    """Public samples are ten times the clients': with their own scale, both would look alike."""
    held = federations.samples("signal")
    spec, labels = SignalSpec(3, 20), held.labels
    data = build(ArraySet.of(spec, (held.values * 10, labels)), held, public="other")
    inputs = data.inputs
    torch.testing.assert_close(
        public_of(data).batch(torch.tensor([7])),
        torch.from_numpy(held.values[[7]] * 10) * inputs.scale + inputs.shift,
    )


def test_tokens_with_another_meaning_are_refused() -> None:
    spec = TokenSpec(2, 3)
    arrays = np.array([[1, 2]] * 40), np.arange(40) % 2
    held, other = (ArraySet.of(spec, arrays).named(words) for words in (["", "a", "b"], ["", "b", "a"]))
    assert len(public_of(build(held, held, public="other"))) == 40
    with pytest.raises(ConfigError, match="other tokens, channels, or features"):
        build(other, held, public="other")


def test_public_tokens_of_another_length_are_the_public_files_fault(tmp_path: Path) -> None:
    for name, length in (("own", 4), ("other", 6)):
        np.savez(tmp_path / name, tokens=np.ones((40, length), int), labels=np.arange(40) % 2)
    own, other = (str(tmp_path / f"{name}.npz") for name in ("own", "other"))
    config = DataConfig(dataset=own, partition="iid", public=other)
    with pytest.raises(
        ConfigError, match=r"data\.public = '.*other\.npz' has samples of 6 tokens, and '.*own\.npz' of 4"
    ):
        load(Source(config, 2, 0, tmp_path), CPU)


def test_settings_that_cannot_be_meant_are_refused(subtests: pytest.Subtests) -> None:
    for case, (settings, reason) in enumerate(
        [
            ({"public": 0.0}, "no share between 0 and 1"),
            ({"public": 1.0}, "no share between 0 and 1"),
            ({"public": 0.1, "partition": "indices", "indices": "file.json"}, "a share in public would give"),
            ({"public_limit": 10}, "public_limit is for a data set"),
            ({"public": 0.1, "public_limit": 10}, "public_limit is for a data set"),
            ({"public": "digits", "public_limit": 1}, "greater than or equal to 2"),
        ]
    ):
        with subtests.test(case=case), pytest.raises(ValueError, match=reason):
            DataConfig(**settings)


@pytest.mark.parametrize(("given", "read"), [("0.1", 0.1), ("fashion_mnist", "fashion_mnist")])
def test_a_share_and_a_name_can_be_typed(given: str, read: object) -> None:
    raw = with_overrides({"method": {"name": "standalone"}}, [f"data.public={given}"])
    assert Config.read(raw).data.public == read


def test_all_samples_are_of_every_round_unless_fewer_are_asked_for() -> None:
    public = public_of(build(public=0.2))
    assert [public.of_round(1, most).tolist() for most in (None, 50, 51)] == [[*range(50)]] * 3


def test_each_round_draws_other_samples_from_the_partitions_seed() -> None:
    public, again = public_of(build(public=0.2)), public_of(build(public=0.2))
    first, second = public.of_round(1, 10).tolist(), public.of_round(2, 10).tolist()
    assert len(set(first)) == 10
    assert first == sorted(first) == again.of_round(1, 10).tolist()
    assert first != second


def test_a_data_set_by_name_is_loaded_for_everybody() -> None:
    """The digits with 30 digits besides, as if they were another data set."""
    config = DataConfig(public="digits", public_limit=30, limit=300, partition="iid")
    data = load(Source(config, 4, 3, Path()), CPU)
    assert len(public_of(data)) == 30
    assert public_of(data).inputs.spec == data.inputs.spec
