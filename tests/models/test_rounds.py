"""The papers' groups at work: a round of each kind of method on generated images, and HtM10 with every method."""

import pytest

from simulator import methods
from simulator.base.errors import ConfigError
from tests.federations import built, config, generated, run

LINEAR_HEADS = {"fedclassavg", "fedgh", "fedssa", "lg_fedavg"}
NESTED = {"heteroavg", "inco_avg", "inco_moon", "inco_nova", "inco_prox", "inco_scaffold"}


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


@pytest.mark.parametrize(("side", "channels"), [(28, 1), (32, 3)])
@pytest.mark.parametrize("method", ["standalone", "fedavg", "fedgh", "fedlora", "fedl2g_f"])
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
        with pytest.raises(ConfigError, match="nested"):
            round_of(method, "htm10", clients=10, side=32, channels=3)
    else:
        round_of(method, "htm10", clients=10, side=32, channels=3)
