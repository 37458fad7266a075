"""Models of signals and tables: HARCNN's maps by hand, signals that are too short, and the layers of the MLPs."""

import pytest
import torch

from simulator import models
from simulator.base.errors import ConfigError
from simulator.data.specs import SignalSpec, TableSpec
from simulator.methods import needs
from simulator.models import ImageShape
from tests.federations import federation

UCI_HAR = SignalSpec(channels=9, time=128)


@pytest.mark.parametrize(
    ("name", "maps"),
    [
        ("harcnn2_s1", [(32, 60), (64, 26)]),  # 128 → 120 → 60 → 52 → 26
        ("harcnn2_s2", [(32, 30), (64, 5)]),  # 128 → 60 → 30 → 11 → 5
        ("harcnn1_s3", [(32, 20)]),  # 128 → 40 → 20
        ("harcnn3_s1", [(32, 62), (64, 29), (128, 12)]),  # 128 → 124 → 62 → 58 → 29 → 25 → 12
    ],
)
def test_maps_shrink_as_in_htfllib(name: str, maps: list[tuple[int, int]]) -> None:
    network = models.architecture(name, UCI_HAR, 6)
    shown = network.represent(torch.empty(2, 9, 128, device="meta"))
    assert [tuple(each.shape) for each in shown.values()] == [*((2, *each) for each in maps), (2, 512)]


@pytest.mark.parametrize(("name", "shortest"), [("harcnn2_s1", 28), ("harcnn2_s3", 78), ("harcnn3_s2", 127)])
def test_the_shortest_signal_works_and_one_step_less_is_refused(name: str, shortest: int) -> None:
    """Backwards: one step needs 2 before the pooling, so 1·3 + 9 = 12 before the convolution, then 23·3 + 9 = 78."""
    blank = torch.empty(2, 1, shortest, device="meta")
    assert models.architecture(name, SignalSpec(1, shortest), 3)(blank).shape == (2, 3)
    with pytest.raises(ConfigError, match=rf"at least {shortest} steps\. These have {shortest - 1}\."):
        models.architecture(name, SignalSpec(1, shortest - 1), 3)


def test_a_shallow_harcnn_is_part_of_a_deep_one() -> None:
    assert needs.nested(federation(models.GROUPS["tiny_signal"], shape=UCI_HAR)) is None


@pytest.mark.parametrize("group", ["htfe_sen2", "htfe_sen3", "htfe_sen5", "htfe_sen8"])
def test_the_groups_of_htfllib_share_a_head_of_512_features(group: str) -> None:
    facts = federation(models.GROUPS[group], shape=UCI_HAR)
    assert needs.same_head(facts) is None
    assert {each.num_features for each in facts.architectures.values()} == {512}


@pytest.mark.parametrize(
    ("name", "hidden"), [("mlp", 0), ("mlp_500", 500 * 5001), ("mlp_1000_500", 1000 * 5001 + 500 * 1001)]
)
def test_an_mlp_has_its_hidden_layers_and_one_of_100(name: str, hidden: int) -> None:
    """5,000 features and two classes, as HtFLlib's AmazonMLP."""
    network = models.architecture(name, TableSpec(5000), 2)
    read = 500 if hidden else 5000
    assert sum(each.numel() for each in network.parameters()) == hidden + 100 * (read + 1) + 2 * 101


def test_an_mlp_flattens_images_and_signals() -> None:
    for spec in (ImageShape(3, 4, 5), SignalSpec(3, 20), TableSpec(60)):
        network = models.architecture("mlp", spec, 2)
        assert network.get_parameter("hidden.0.weight").shape == (100, 60)


@pytest.mark.parametrize("group", ["tiny_mlp_widths", "tiny_table"])
def test_tiny_mlps_nest_by_width_or_by_depth(group: str) -> None:
    facts = federation(models.GROUPS[group], shape=TableSpec(6))
    assert (needs.nested_widths(facts) is None) == (group == "tiny_mlp_widths")
    assert (needs.nested(facts) is None) == (group == "tiny_table")
