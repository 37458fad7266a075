"""The papers' groups at work: a round of each kind of method on generated images, and HtM10 with every method."""

import pytest

from simulator import methods
from simulator.base.errors import ConfigError
from tests.federations import built, config, generated, run

LINEAR_HEADS = {"fedclassavg", "fedgen", "fedgh", "fedre", "fedssa", "lg_fedavg"}
NESTED = {
    *("heteroavg", "inco_avg", "inco_moon", "inco_nova", "inco_prox", "inco_scaffold"),
    *("heterofl", "fedrolex"),
}


def round_of(method: str, group: str | list[str], clients: int, side: int, channels: int) -> None:
    settings = config(
        method,
        rounds=1,
        federation={"clients": clients, "participation": 1.0, "group": group},
        training={"batch_size": 16, "lr": 0.01},
        data={"partition": "iid"},
    )
    parts = built(settings, generated(2, 5 * clients, side, channels))
    record = run(parts.engine, 1).record
    assert record is not None
    assert record["diverged"] == []
    assert all(loss > 0 for loss in record["loss"]["per_client"])


@pytest.mark.parametrize(
    ("method", "side", "channels"),
    [
        ("fedgh", 28, 1),
        *(pytest.param(each, 32, 3, marks=pytest.mark.long) for each in ("fedavg", "fedl2g_f")),
    ],
)
def test_two_families_of_512_features_run_a_round(method: str, side: int, channels: int) -> None:
    round_of(method, ["cnn_4layer", "resnet6"], clients=2, side=side, channels=channels)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["standalone", "fedavg", "fedgh", "fedlora"])
def test_htfe2_and_4_run_a_round(method: str) -> None:
    round_of(method, "htfe2", clients=2, side=32, channels=3)
    round_of(method, "htfe4", clients=4, side=28, channels=1)


@pytest.mark.slow
@pytest.mark.parametrize("method", methods.names())
def test_htm10_runs_a_round_of_every_method_that_can_run_it(method: str) -> None:
    if method in LINEAR_HEADS:
        with pytest.raises(ConfigError, match=r"client 8 \(vit_b_16\)"):
            round_of(method, "htm10", clients=10, side=32, channels=3)
    elif method in NESTED:
        with pytest.raises(ConfigError, match="nest"):
            round_of(method, "htm10", clients=10, side=32, channels=3)
    else:
        round_of(method, "htm10", clients=10, side=32, channels=3)


@pytest.mark.parametrize(
    "names",
    [["fml", "fedgh"], pytest.param(methods.names(), marks=pytest.mark.long)],
    ids=["two", "all"],
)
def test_different_heads_run_a_round_of_every_method_that_shares_none(
    names: list[str], subtests: pytest.Subtests
) -> None:
    """The first client's head is linear, the second's has a hidden layer of 4."""
    for method in names:
        with subtests.test(method):
            if method in LINEAR_HEADS:
                with pytest.raises(
                    ConfigError, match=r"one linear layer: client 1 \(tiny_mlp_h4\) has a head 8→2 of"
                ):
                    round_of(method, "tiny_heads", clients=3, side=8, channels=1)
            elif method in NESTED:
                with pytest.raises(ConfigError, match="nest"):
                    round_of(method, "tiny_heads", clients=3, side=8, channels=1)
            else:
                round_of(method, "tiny_heads", clients=3, side=8, channels=1)
