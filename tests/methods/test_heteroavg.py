"""HeteroAvg: the layer-wise mean over nested models, by hand."""

import pytest

from simulator.base.errors import ConfigError
from simulator.base.tensors import part
from simulator.methods import Uplink
from simulator.methods.heteroavg import HeteroAvg
from tests import federations
from tests.methods import sharing

SMALL, LARGE = "tiny_resnet6", "tiny_resnet10"
DEEP = "layer1.1."
"""Layers of this block are the large model's alone."""


def method(architectures: list[str], samples: list[int] | None = None) -> HeteroAvg:
    return sharing.method("heteroavg", architectures, samples or [1] * len(architectures))


def sent(method: HeteroAvg, client: int, value: float) -> Uplink:
    start = sharing.filled(method.init_server(), 0.0)
    return sharing.trained_to(method, client, start, sharing.start(method, client), value)[1]


def test_a_layer_is_the_plain_mean_over_those_that_have_it() -> None:
    """Two small at 1 and 2, one large at 6: shared layers (1 + 2 + 6)/3 = 3, whatever the sample counts; the large
    model's own stay at its 6. Running statistics, too."""
    heteroavg = method([SMALL, SMALL, LARGE], samples=[1, 50, 7])
    uplinks = [sent(heteroavg, k, value) for k, value in enumerate((1.0, 2.0, 6.0))]
    server, _ = heteroavg.aggregate(1, sharing.filled(heteroavg.init_server(), 0.0), uplinks)
    merged = part(server, LARGE)
    for name in ("conv1.weight", "layer2.0.conv2.weight", "head.bias", "bn1.running_mean"):
        assert merged[name].eq(3.0).all(), name
    for name in (f"{DEEP}conv1.weight", f"{DEEP}bn2.running_var"):
        assert merged[name].eq(6.0).all(), name


def test_layers_that_nobody_sent_keep_their_values() -> None:
    heteroavg = method([SMALL, LARGE])
    start = heteroavg.init_server()
    server, _ = heteroavg.aggregate(1, start, [sent(heteroavg, 0, 1.0)])
    assert server[f"{LARGE}/conv1.weight"].eq(1.0).all()
    deep = [key for key in start if key.startswith(f"{LARGE}/{DEEP}")]
    assert deep
    assert federations.bits({k: server[k] for k in deep}) == federations.bits({k: start[k] for k in deep})


def test_a_layer_the_largest_model_lacks_is_refused_by_client_and_name() -> None:
    with pytest.raises(ConfigError, match=r"client 0 \(tiny_cnn\) has 'conv1.weight', which tiny_mlp lacks"):
        method(["tiny_cnn", "tiny_mlp"]).check()


def test_a_layer_of_another_shape_is_refused_with_both_shapes() -> None:
    with pytest.raises(
        ConfigError,
        match=r"client 1 \(tiny_resnet6\) has 'conv1.weight' \[4, 1, 3, 3\], resnet10 has it \[64",
    ):
        method(["resnet10", SMALL]).check()
