"""Which layers are compared, on which images, and what the ledger is given."""

import json
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from simulator.base.errors import ConfigError, DataError
from simulator.base.tensors import floating
from simulator.config import Config
from simulator.data import datasets
from simulator.engine.builder import Built
from simulator.engine.client_states import State
from simulator.metrics import cka_matrices
from simulator.metrics.cka_matrices import Each, all_pairs, centred_gram, common_layers, measure, probe
from simulator.models import GROUPS
from simulator.sessions import history
from tests import federations
from tests.federations import built, config, context, federation, local, pixels, run

IN_TURN: Each = lambda clients, work: [work(client) for client in clients]  # noqa: E731


@pytest.fixture(scope="module")
def trained() -> tuple[Built, State]:
    """Four clients after a round: two tiny CNNs (conv1, fc1, fc2) and two tiny MLPs (fc1, fc2), in turn."""
    parts = built(config())
    return parts, run(parts.engine, 1)


def measured(
    parts: Built, states: Mapping[int, Mapping[str, Tensor]] | Any, **settings: Any
) -> dict[str, Any]:
    wanted = settings.pop("layers", None)
    return measure(
        context(parts),
        settings.pop("each", IN_TURN),
        states.__getitem__,
        common_layers(parts.federation, wanted),
        settings.pop("probe", probe(parts.data, 7)),
        **settings,
    )


def names(*architectures: str, side: int = 32) -> dict[str, list[int]]:
    """Layer → the clients that are compared in it."""
    shape = federations.ImageShape(3, side, side)
    return {layer: list(who) for layer, who in common_layers(federation(architectures, shape=shape)).items()}


def test_resnets_that_end_early_are_compared_in_the_stages_they_have() -> None:
    assert names("resnet4", "resnet6", "resnet8", "resnet10", "resnet10") == {
        "stage1": [0, 1, 2, 3, 4],
        "stage2": [1, 2, 3, 4],
        "stage3": [2, 3, 4],
        "stage4": [3, 4],
        "features": [0, 1, 2, 3, 4],
    }


@pytest.mark.long
def test_transformers_are_compared_block_by_block_in_order_of_depth() -> None:
    """Ten blocks before the eleventh: an order by spelling, or by first meeting, would have it otherwise."""
    layers = names("vit_s8", "vit_s12", "vit_s11")
    assert list(layers) == [*(f"block{number}" for number in range(1, 12)), "features"]
    assert layers["block8"] == [0, 1, 2]
    assert layers["block11"] == [1, 2]


def test_different_families_meet_in_the_features_whatever_each_calls_its_last_layer() -> None:
    """HtFE4's 4-layer CNN calls it fc1; nobody shares its convolutions."""
    assert names(*GROUPS["htfe4"]) == {
        "stage1": [1, 2, 3],
        "stage2": [1, 2, 3],
        "stage3": [1, 2, 3],
        "stage4": [1, 2, 3],
        "features": [0, 1, 2, 3],
    }


def test_layers_can_be_chosen_and_stand_in_order_of_depth() -> None:
    tiny = federation(("tiny_cnn", "tiny_mlp"))
    assert list(common_layers(tiny, ["fc2", "fc1"])) == ["fc1", "fc2"]


def test_a_layer_nobody_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"no client has a layer 'fc3'\. Did you mean 'fc[12]'\?"):
        common_layers(federation(("tiny_cnn", "tiny_mlp")), ["fc3"])


def test_a_layer_of_one_client_alone_is_refused_by_the_clients_name() -> None:
    with pytest.raises(ConfigError, match=r"only client 0 \(tiny_cnn\) has a layer 'conv1'"):
        common_layers(federation(("tiny_cnn", "tiny_mlp")), ["conv1"])


def test_the_probe_depends_on_the_seed_and_on_nothing_else() -> None:
    data = built(config()).data
    assert torch.equal(probe(data, 7, 10), probe(built(config("fedavg", rounds=9)).data, 7, 10))
    assert not torch.equal(probe(data, 7, 10), probe(data, 8, 10))


def test_a_test_set_that_all_clients_share_is_drawn_from_once() -> None:
    """With the digits' own test set, all four clients hold the same 355 images."""
    images = datasets.load("digits", Path())
    data = built(config(data={"split": "global"}), images).data
    assert len(probe(data, 7, 10_000)) == len(images) - images.test_from == 355


def test_too_few_test_images_are_refused() -> None:
    data = pixels(torch.zeros(3, 1, 1, 1), torch.zeros(3, dtype=torch.int64), [torch.arange(3)], 1)
    with pytest.raises(DataError, match="3 test samples between them and CKA needs 4"):
        probe(data, 7)


def test_the_matrix_holds_the_cka_of_what_the_models_show(trained: tuple[Built, State]) -> None:
    for debiased in [False, True]:
        parts, state = trained
        indices = probe(parts.data, 7)
        result = measured(parts, state.clients, debiased=debiased)
        nets = [local(parts, client, state.clients[client]).nets.eval() for client in range(4)]
        x, _ = parts.data.batch(indices)
        with torch.no_grad():
            shown = [net.model.represent(x)["fc2"] for net in nets]
        expected = all_pairs(torch.stack([centred_gram(each, debiased) for each in shown]))
        matrix = result["matrix"]["fc2"]
        assert torch.tensor(matrix, dtype=torch.float64).sub(expected).abs().max() < 2e-6
        assert [matrix[i][i] for i in range(4)] == [1.0] * 4
        six = [matrix[i][j] for i in range(4) for j in range(i + 1, 4)]
        assert result["layers"]["fc2"] == pytest.approx(sum(six) / 6, abs=1e-6)


def test_a_client_without_the_layer_has_a_row_and_a_column_of_nulls(trained: tuple[Built, State]) -> None:
    parts, state = trained
    result = measured(parts, state.clients)
    assert result["order"] == ["conv1", "fc1", "fc2"]
    conv1 = result["matrix"]["conv1"]
    assert conv1[1] == conv1[3] == [None] * 4
    assert conv1[0] == [1.0, None, conv1[2][0], None]
    assert result["layers"]["conv1"] == conv1[0][2]


def test_a_broken_client_is_null_and_json_takes_it(trained: tuple[Built, State]) -> None:
    """Client 1's weights are NaN; the mean is over the three pairs of the other three."""
    parts, state = trained
    first, second, *others = state.clients
    broken = second | {name: torch.full_like(tensor, math.nan) for name, tensor in floating(second).items()}
    result = measured(parts, (first, broken, *others))
    fc2 = result["matrix"]["fc2"]
    assert fc2[1] == [row[1] for row in fc2] == [None] * 4
    assert result["layers"]["fc2"] == pytest.approx((fc2[0][2] + fc2[0][3] + fc2[2][3]) / 3, abs=1e-6)
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_where_nothing_can_be_compared_the_mean_is_null(trained: tuple[Built, State]) -> None:
    parts, state = trained
    dead = [{name: torch.zeros_like(tensor) for name, tensor in tensors.items()} for tensors in state.clients]
    assert measured(parts, dead)["layers"] == {"conv1": None, "fc1": None, "fc2": None}


def test_threads_give_the_same_bits_however_many(trained: tuple[Built, State]) -> None:
    for workers in [1, 2, 3]:
        parts, state = trained
        with ThreadPoolExecutor(workers) as pool:
            side_by_side = measured(
                parts, state.clients, each=lambda clients, work: list(pool.map(work, clients))
            )
        assert side_by_side == measured(parts, state.clients)


def test_a_client_alone_has_nobody_to_be_like(tmp_path: Path) -> None:
    parts = built(config(federation={"clients": 1, "participation": 1.0}))
    assert measured(parts, run(parts.engine, 1).clients) == {"order": [], "layers": {}, "matrix": {}}


# More clients than are compared


def test_of_more_clients_some_are_drawn_and_the_matrix_is_theirs(trained: tuple[Built, State]) -> None:
    parts, state = trained
    layers, _ = cka_matrices.compared(parts.federation, 7, most=2)
    drawn = sorted(set().union(*layers.values()))
    assert len(drawn) == 2
    found = measure(context(parts), IN_TURN, state.clients.__getitem__, layers, probe(parts.data, 7), most=2)
    assert found["clients"] == drawn
    assert len(found["matrix"]["fc2"]) == 2


def test_those_drawn_stay_the_same_when_others_come_to_have_been_trained(
    trained: tuple[Built, State],
) -> None:
    federation = trained[0].federation
    first = cka_matrices.compared(federation, 7, most=2)[0]["fc2"].keys()
    for other in set(range(4)) - first:
        layers, _ = cka_matrices.compared(federation, 7, clients={*first, other}, most=2)
        assert layers["fc2"].keys() == first


def test_matrices_that_a_record_has_no_room_for_are_refused_before_round_1() -> None:
    """1,200 clients with four layers are 4 · 1,200² = 5,760,000 numbers; 4 · 1,118² = 4,999,696 fit."""
    layers = {layer: dict.fromkeys(range(1200), layer) for layer in ("conv1", "conv2", "fc1", "fc2")}
    cka_matrices.check_size(layers, clients=1200, most=1118)
    with pytest.raises(ConfigError, match=r"5,760,000 numbers .* room for 5,000,000\. Use cka\.clients=1118"):
        cka_matrices.check_size(layers, clients=1200, most=1200)


def test_cka_takes_at_most_2_percent_of_training_by_default() -> None:
    for shown, trained, interval in [
        (2560, 56_000, 10),  # ten clients, 1.5 % of a round: 0.2 % of ten
        (25_600, 56_000, 10),  # a hundred, 15 %: 1.5 %
        (25_600, 5_600, 80),  # a tenth of a hundred takes part, 152 %: 1.9 % of eighty
        (64, 0, 1_070),  # nobody trains, as one sample: 64 / 3 / 1,070 = 2.0 %
    ]:
        assert cka_matrices.interval(shown, trained) == interval


def test_a_session_from_before_measures_cka_only_when_asked() -> None:
    raw = config().to_json()
    del raw["cka"]["every"]
    assert Config.read(history.completed(raw)).cka.every == 0
    assert Config.read(history.completed({"method": {"name": "standalone"}})).cka.every == 0


def test_a_session_from_before_compares_as_many_clients_as_it_did() -> None:
    for clients, compared in [(100, 100), (400, 400), (1000, 1000), (1001, 100)]:
        raw = config(federation={"clients": clients}).to_json()
        del raw["cka"]["clients"]
        assert Config.read(history.completed(raw)).cka.clients == compared
