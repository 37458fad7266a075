"""InCo Aggregation: the cross-layer rule by hand, where it applies, and its bases."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from simulator.base.errors import ConfigError
from simulator.base.sections import TrainingConfig
from simulator.base.tensors import part
from simulator.engine.progress import unobserved
from simulator.methods import Aggregated
from simulator.methods.inco import InCo, InCoConfig, mixed
from tests import federations
from tests.methods import sharing

SMALL, LARGE = "tiny_resnet6", "tiny_resnet10"
NAMES = ["inco_avg", "inco_moon", "inco_nova", "inco_prox", "inco_scaffold"]


def rule(**options: object) -> InCoConfig:
    return InCoConfig.model_validate({"name": "inco_avg", **options})


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def method(name: str = "inco_avg", samples: tuple[int, ...] = (4, 4), **options: object) -> InCo:
    """Clients of the small and the large model in turn, batches of two."""
    architectures = [(SMALL, LARGE)[k % 2] for k in range(len(samples))]
    return sharing.method(name, architectures, samples, TrainingConfig(batch_size=2, lr=0.5), **options)


def test_the_rule_by_hand() -> None:
    """g_0 = (3, 4), g_k = (10, 0): g_0' = (0.6, 0.8), g_k' = (1, 0), α = 1, θ = β = 0.6, and
    (1 − 0.36, −0.48) · (5 + 10)/2 = (4.8, −3.6).
    """
    update, theta, beta = mixed(vector(10, 0), vector(3, 4), rule())
    torch.testing.assert_close(update, vector(4.8, -3.6))
    assert (theta.item(), beta.item()) == (pytest.approx(0.6), pytest.approx(0.6))


def test_a_layer_that_did_not_move_mixes_nothing_and_agreeing_directions_may_be_left_alone() -> None:
    """g_0 = 0 has no direction: θ = β = 0, and g_k keeps its own, (10, 0)/10 · (0 + 10)/2. With only_conflicting,
    β > 0: g_k itself, (10, 0). For g_k = (−10, 0), β = −0.6: (−1 + 0.36, 0.48) · 7.5, as without the option.
    """
    update, theta, beta = mixed(vector(10, 0), vector(0, 0), rule())
    torch.testing.assert_close(update, vector(5, 0))
    assert (theta.item(), beta.item()) == (0.0, 0.0)
    config = rule(only_conflicting=True)
    torch.testing.assert_close(mixed(vector(10, 0), vector(3, 4), config).update, vector(10, 0))
    for other in (config, rule()):
        torch.testing.assert_close(mixed(vector(-10, 0), vector(3, 4), other).update, vector(-4.8, 3.6))


def test_the_released_code_by_hand() -> None:
    """Two kernel slices, both with g_0 = (3, 4)/1000.

    g_k = (10, 0)/1000: α = 25, β = 30 millionths, weight 1.2; ((1, 0) + 1.2 · (0.6, 0.8)) · 0.0075 = (0.0129, 0.0072).
    g_k = (−100, 0)/1000: |β|/α = 12, clamped to 5; ((−1, 0) + 5 · (0.6, 0.8)) · 0.0525 = (0.105, 0.21), clamped.
    """
    for kernel in [(1, 2), (2, 1)]:
        g_0 = vector(3, 4, 3, 4).reshape(1, 2, *kernel) / 1000
        g_k = vector(10, 0, -100, 0).reshape(1, 2, *kernel) / 1000
        update, theta, beta = mixed(g_k, g_0, rule(variant="released_code", epsilon=0.0))
        torch.testing.assert_close(update.flatten(), vector(0.0129, 0.0072, 0.1, 0.1))
        assert theta.item() == pytest.approx((1.2 + 5) / 2)
        assert beta.item() == pytest.approx((30e-6 - 300e-6) / 2)


def test_the_released_code_adds_a_little_to_norms_and_alpha() -> None:
    """g_0 = (6, 8)·10⁻⁵, g_k = (0, 1)·10⁻⁴, both of norm 10⁻⁴: α = 10⁻⁸, β = 8·10⁻⁹, so the weight is 8/(10 + 100) in
    place of 0.8, and ((0, 1) + 0.072727·(0.6, 0.8))/1.001 · 10⁻⁴.
    """
    update, theta, _ = mixed(
        vector(0, 1) / 1e4, vector(6, 8) / 1e5, rule(variant="released_code", epsilon=1e-7)
    )
    assert theta.item() == pytest.approx(8 / 110)
    torch.testing.assert_close(update, vector(4.359277e-6, 1.0571247e-4), rtol=1e-6, atol=0)


def test_the_released_code_without_its_parts() -> None:
    """The same vectors, in thousandths: ((1, 0) + (0.6, 0.8)) · 7.5, (10, 0) + 1.2 · (3, 4), and (10, 0) + (3, 4)."""
    for options, expected in [
        ({"optimize": False}, (0.012, 0.006)),
        ({"normalize": False}, (0.0136, 0.0048)),
        ({"optimize": False, "normalize": False}, (0.013, 0.004)),
    ]:
        config = rule(variant="released_code", epsilon=0.0, **options)
        update = mixed(vector(10, 0) / 1000, vector(3, 4) / 1000, config).update
        torch.testing.assert_close(update, vector(*expected))


components = st.lists(st.floats(-10, 10), min_size=3, max_size=3)


@given(components, components)
def test_the_update_is_at_right_angles_to_layer_zeros(first: list[float], second: list[float]) -> None:
    """And finite, whatever is zero."""
    g_k, g_0 = vector(*first), vector(*second)
    for config in (rule(), rule(normalize=False), rule(variant="released_code"), rule(optimize=False)):
        assert mixed(g_k, g_0, config).update.isfinite().all()
    product = (mixed(g_k, g_0, rule()).update * g_0).sum().abs()
    assert product <= 1e-9 * (1 + g_0.norm() * (g_0.norm() + g_k.norm()))


def test_layer_zero_is_the_first_of_its_shape_in_its_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stage 2 begins with a convolution that widens it, of which there is one. In the released code it is the first
    block's second convolution. What a transformer's block names: here two norms of a ResNet stand for them.
    """
    paper, released = method(), method(variant="released_code")
    later = ("layer2.1.conv1.weight", "layer2.1.conv2.weight")
    stage_1 = ("layer1.0.conv2.weight", "layer1.1.conv1.weight", "layer1.1.conv2.weight")
    of_stage_2 = dict.fromkeys(later, "layer2.0.conv2.weight")
    assert dict(paper.cross_layers()) == dict.fromkeys(stage_1, "layer1.0.conv1.weight") | of_stage_2
    assert dict(released.cross_layers()) == dict.fromkeys(stage_1[1:], stage_1[0]) | of_stage_2
    block = ("layer1.0.bn1.weight", "layer1.0.bn2.weight")
    for inco in (paper, released):
        monkeypatch.setattr(inco.federation.architectures[LARGE], "stages", lambda: (block,))
        assert list(inco.cross_layers()) == [("layer1.0.bn2.weight", "layer1.0.bn1.weight")]


@pytest.mark.parametrize("name", NAMES)
def test_the_rule_acts_on_what_the_base_method_merges(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers without a layer 0 are the base method's bit for bit; the others are w + the rule, in double precision."""
    merge, merged_by_base = InCo.aggregate, []

    def listening(self: InCo, round: int, server: Any, uplinks: Any) -> Aggregated:
        merged_by_base.append(super(InCo, self).aggregate(round, server, uplinks).server)
        return merge(self, round, server, uplinks)

    monkeypatch.setattr(InCo, "aggregate", listening)
    parts = federations.built(federations.config(name, federation={"participation": 1.0}))
    inco, start = parts.method, parts.engine.initial_state()
    assert isinstance(inco, InCo)
    before, end = start.server, parts.engine.round(start, unobserved).server
    (base,) = merged_by_base
    crossed = {f"{LARGE}/{layer}": f"{LARGE}/{zero}" for layer, zero in inco.cross_layers()}
    plain = [key for key in before if key not in crossed]
    assert federations.bits({k: end[k] for k in plain}) == federations.bits({k: base[k] for k in plain})
    for key, zero in crossed.items():
        g_k, g_0 = ((base[k] - before[k]).double().flatten() for k in (key, zero))
        unit_k, unit_0 = g_k / g_k.norm(), g_0 / g_0.norm()
        update = (unit_k - unit_0.dot(unit_k) * unit_0) * (g_k.norm() + g_0.norm()) / 2
        expected = before[key].double().flatten() + update
        torch.testing.assert_close(end[key].double().flatten(), expected, rtol=1e-4, atol=1e-6)
        assert not torch.equal(end[key], base[key])


def test_layers_that_nobody_sent_stay_and_have_no_theta() -> None:
    inco = method()
    start = inco.init_server()
    _, uplink = sharing.trained_to(inco, 0, start, sharing.start(inco, 0), 1.0)
    merged, metrics = inco.aggregate(1, start, [uplink])
    deep = f"{LARGE}/layer1.1.conv1.weight"
    assert torch.equal(merged[deep], start[deep])
    assert metrics["theta/layer1.1.conv1.weight"] is None
    assert metrics["theta/layer1.0.conv2.weight"] is not None


def test_scaffolds_control_variates_count_the_clients_that_have_a_layer() -> None:
    """Two small and two large clients, one large one takes part: four samples in batches of two at η = ½ are τη = 1,
    from 4 to 0 is c_k = 4. Shared layers: c = 4/4 = 1; the large model's own: 4/2 = 2.
    """
    inco = method("inco_scaffold", samples=(4, 4, 4, 4))
    server = inco.init_server()
    server |= sharing.filled({k: server[k] for k in server if not k.startswith("control/")}, 4.0)
    _, uplink = sharing.trained_to(inco, 1, server, sharing.start(inco, 1), 0.0)
    control = part(inco.aggregate(1, server, [uplink]).server, f"control/{LARGE}")
    assert control["conv1.weight"].eq(1.0).all()
    assert control["layer1.1.conv1.weight"].eq(2.0).all()


def test_fednovas_step_is_the_mean_over_the_clients_that_have_a_layer() -> None:
    """τ = 2 and 6; from 10 to 4 in both: d = 3 and 1. Shared: 10 − (2 + 6)/2 · (3 + 1)/2 = 2; the large model's own:

    10 − 6 · 1 = 4. (Weighed by samples, 4 and 12, the first would be 10 − 5 · 1½ = 2½.)
    """
    inco = method("inco_nova", samples=(4, 12))
    server = sharing.filled(inco.init_server(), 10.0)
    uplinks = [sharing.trained_to(inco, k, server, sharing.start(inco, k), 4.0)[1] for k in (0, 1)]
    merged = part(inco.aggregate(1, server, uplinks).server, LARGE)
    assert merged["conv1.weight"].eq(2.0).all()
    assert merged["layer1.1.bn1.weight"].eq(4.0).all()


def test_only_conflicting_goes_with_the_papers_optimized_rule() -> None:
    for options in ({"variant": "released_code"}, {"optimize": False}):
        with pytest.raises(ConfigError, match="only_conflicting"):
            federations.config("inco_avg", method={"only_conflicting": True, **options})


def test_models_that_are_not_nested_are_refused() -> None:
    for name in NAMES:
        with pytest.raises(ConfigError, match="nested architectures"):
            federations.built(federations.config(name, federation={"group": "tiny"}))


def test_updates_may_be_sent_divided_by_the_local_epochs() -> None:
    """Five epochs, one batch of all, from 0 to 10: the update is sent as 2. FedNova sends (0 − 10)/5 steps, over 5."""
    for name in ["heteroavg", "inco_avg", "inco_nova"]:
        training = TrainingConfig(batch_size=4, epochs=5)
        base = sharing.method(name, [SMALL, LARGE], (4, 4), training, per_epoch=True)
        server = {key: torch.zeros_like(tensor) for key, tensor in base.init_server().items()}
        _, sent = sharing.trained_to(base, 0, server, sharing.start(base, 0), 10.0)
        key, value = ("update/conv1.weight", -0.4) if name == "inco_nova" else ("model/conv1.weight", 2.0)
        torch.testing.assert_close(sent.payload[key], torch.full_like(sent.payload[key], value))
        assert (sent.payload["model/bn1.running_mean"] == 10.0).all()
