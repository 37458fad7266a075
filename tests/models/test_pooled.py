"""`models.features`, which pools the features of any model to one width; and the papers' groups at work."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from simulator import methods, models
from simulator.base import rng
from simulator.base.errors import ConfigError
from simulator.contract.promises import bits
from simulator.data.inputs import random
from simulator.models import ImageShape, registry
from simulator.models.network import HiddenHead, Pooled
from tests import federations

DIGIT = ImageShape(1, 8, 8)


def stream() -> torch.Generator:
    return rng.torch_stream(0, "tests/pooled")


def built(name: str, features: int | None, weights: str | bool = False) -> models.Network:
    return models.build(name, DIGIT, 3, stream(), weights, features).eval()


def test_features_are_means_of_even_windows_or_repeat() -> None:
    """Of 8 features, 4 are the means of pairs. 16 have each of them twice. A width of 8 changes nothing."""
    x = random(DIGIT, 5, stream())
    for name in ("tiny_cnn", "tiny_mlp_h4", "tiny_resnet6", "tiny_vit1"):
        plain, narrow, wide = (built(name, width).features(x) for width in (None, 4, 16))
        torch.testing.assert_close(narrow, plain.unflatten(1, (4, 2)).mean(2))
        torch.testing.assert_close(wide, plain.repeat_interleave(2, 1))
        assert bits(built(name, 8).state_dict()) == bits(built(name, None).state_dict())


def test_the_weights_before_the_head_are_those_drawn_without_pooling() -> None:
    plain, pooled = built("tiny_resnet6", None).state_dict(), built("tiny_resnet6", 5).state_dict()
    before = {f"body.{name}": weight for name, weight in plain.items() if not name.startswith("head.")}
    assert bits(before) == bits({name: each for name, each in pooled.items() if name in before})
    assert set(pooled) - set(before) == {"head.weight", "head.bias"}
    assert pooled["head.weight"].shape == (3, 5)


def test_a_hidden_layer_of_the_head_stays() -> None:
    head = built("tiny_mlp_h4", 6).head
    assert isinstance(head, HiddenHead)
    assert [tuple(each.shape) for each in head.parameters()] == [(4, 6), (4,), (3, 4), (3,)]


def test_the_architecture_has_the_same_names_and_shapes() -> None:
    for name in ("tiny_resnet6", "tiny_mlp_h4"):
        network, architecture = built(name, 6), models.architecture(name, DIGIT, 3, 6)
        shapes = [{k: each.shape for k, each in one.state_dict().items()} for one in (network, architecture)]
        assert shapes[0] == shapes[1]
        assert all(each.is_meta for each in architecture.state_dict().values())
        assert tuple(network.represent(random(DIGIT, 2, stream()))) == network.layers


def test_published_weights_are_read_into_the_pooled_network(tmp_path: Path) -> None:
    drawn = built("tiny_resnet6", None).state_dict()
    file = tmp_path / "tiny_resnet6.safetensors"
    save_file({name: torch.full_like(each, 2.0) for name, each in drawn.items()}, file)
    pooled = built("tiny_resnet6", 5, str(tmp_path))
    read = [each for name, each in pooled.named_parameters() if not name.startswith("head.")]
    assert read and all((each == 2.0).all() for each in read)
    found = models.pretrained.weights("tiny_resnet6", pooled, str(tmp_path))
    assert found.keys() == {name for name in pooled.state_dict() if not name.startswith("head.")}


@pytest.mark.long
def test_a_librarys_model_is_pooled_too() -> None:
    name, shape = "timm:mobilenetv3_small_050", ImageShape(3, 32, 32)
    assert models.architecture(name, shape, 10).num_features == 1024
    network = models.architecture(name, shape, 10, 64).eval()
    assert network.features(torch.empty(2, 3, 32, 32, device="meta")).shape == (2, 64)


def test_a_head_of_an_unknown_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def builder(spec: ImageShape, num_classes: int) -> models.Network:
        network = models.get("tiny_cnn").builder(spec, num_classes)
        network.head = torch.nn.LazyConv1d(3, 1)  # type: ignore[assignment]
        vars(network.head)["in_features"] = 8
        return network

    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    registry.register("odd", "an odd head")(builder)
    with pytest.raises(
        ConfigError, match=r"models\.features .* of 'odd', because its head is a LazyConv1d\. Le"
    ):
        built("odd", 5)


@pytest.mark.parametrize("method", ["fedproto", "lg_fedavg"])
def test_methods_that_need_one_width_run_on_models_of_several(method: str) -> None:
    """8 and 4 features: refused alone, and pooled to 6 with heads of one shape."""
    settings = {"federation": {"group": ["tiny_cnn", "tiny_cnn_w2"]}, "rounds": 1}
    with pytest.raises(ConfigError, match=r"needs .* client 1 \(tiny_cnn_w2\) has"):
        federations.built(federations.config(method, **settings))
    parts = federations.built(federations.config(method, **settings, models={"features": 6}))
    assert {type(each) for each in parts.federation.architectures.values()} == {Pooled}
    record = federations.run(parts.engine, 1).record
    assert record is not None and record["diverged"] == [] and record["flops"]["total"] > 0


@pytest.mark.long
def test_stacked_clients_take_the_step_of_clients_side_by_side() -> None:
    federation = {"clients": 4, "participation": 1.0, "group": ["tiny_cnn_w2", "tiny_mlp"]}
    ends = []
    for runner in ("stacked", "parallel"):
        sections = {"federation": federation, "models": {"features": 6}, "runtime": {"runner": runner}}
        config = federations.config("fedproto", **sections)
        ends.append(federations.run(federations.built(config).engine, 2))
    for one, other in zip(ends[0].clients, ends[1].clients, strict=True):
        for name, tensor in one.items():
            torch.testing.assert_close(tensor, other[name], rtol=1e-4, atol=1e-5)


def test_widths_do_not_nest_if_their_features_are_pooled() -> None:
    """A window of half of the features is another one than the same window of all."""
    config = federations.config("heterofl", models={"features": 6}, federation={"group": "tiny_widths"})
    with pytest.raises(ConfigError, match="a part of the rows is no narrower layer"):
        federations.built(config)


def test_depths_nest_and_layers_are_mixed_with_pooled_features() -> None:
    group = {"group": "tiny_resnet"}
    config = federations.config("inco_avg", models={"features": 6}, federation=group, rounds=1)
    assert federations.run(federations.built(config).engine, 1).record is not None


# The papers' groups at work: a round of each kind of method on generated images, and HtM10 with every method


LINEAR_HEADS = {"fedclassavg", "fedgen", "fedgh", "fedre", "fedssa", "lg_fedavg"}
OF_INCO = [name for name in methods.names() if name.startswith("inco_")]
NESTED = {"heteroavg", "heterofl", "fedrolex", *OF_INCO}


def round_of(method: str, group: str | list[str], clients: int, side: int, channels: int) -> None:
    settings = federations.config(
        method,
        rounds=1,
        federation={"clients": clients, "participation": 1.0, "group": group},
        training={"batch_size": 16, "lr": 0.01},
        data={"partition": "iid"},
    )
    parts = federations.built(settings, federations.generated(2, 5 * clients, side, channels))
    record = federations.run(parts.engine, 1).record
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


def round_or_refusal(method: str, group: str, other_head: str, **shape: int) -> None:
    """A round of a method, or its refusal if it shares heads, of which one is another, or weights that nest."""
    if method in LINEAR_HEADS or method in NESTED:
        with pytest.raises(ConfigError, match=other_head if method in LINEAR_HEADS else "nest"):
            round_of(method, group, **shape)
    else:
        round_of(method, group, **shape)


@pytest.mark.slow
@pytest.mark.parametrize("method", methods.names())
def test_htm10_runs_a_round_of_every_method_that_can_run_it(method: str) -> None:
    round_or_refusal(method, "htm10", r"client 8 \(vit_b_16\)", clients=10, side=32, channels=3)


@pytest.mark.parametrize(
    "names", [["fml", "fedgh"], pytest.param(methods.names(), marks=pytest.mark.long)], ids=["two", "all"]
)
def test_different_heads_run_every_method_that_shares_none(
    names: list[str], subtests: pytest.Subtests
) -> None:
    """The first client's head is linear, the second's has a hidden layer of 4."""
    said = r"one linear layer: client 1 \(tiny_mlp_h4\) has a head 8→2 of"
    for method in names:
        with subtests.test(method):
            round_or_refusal(method, "tiny_heads", said, clients=3, side=8, channels=1)
