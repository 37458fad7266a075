"""CKA against its definition, which layers are compared on which images, and CKA of a session on disk."""

import json
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import simulator
from checkpoints import SessionUnreadable
from simulator.base.errors import ConfigError, DataError, SessionError
from simulator.base.tensors import floating
from simulator.config import Config
from simulator.data import datasets
from simulator.engine.builder import Built
from simulator.engine.client_states import State
from simulator.metrics import cka_matrices
from simulator.metrics.cka_matrices import Each, all_pairs, centred_gram, common_layers, measure, probe
from simulator.models import GROUPS
from simulator.results.inspection.checkpoint import cka
from simulator.sessions import history
from simulator.sessions.reader import CheckedReader
from tests import federations
from tests.federations import built, config, context, federation, generated, local, on_images, pixels, run

# Linear CKA against its definition, and what it must not depend on.


ESTIMATORS = pytest.mark.parametrize("debiased", [False, True], ids=["plain", "debiased"])


def outputs(seed: int, *shape: int, shift: float = 0.0) -> Tensor:
    """Normal numbers around `shift`."""
    return torch.from_numpy(np.random.default_rng(seed).normal(shift, 1.0, shape)).float()


def alike(x: Tensor, y: Tensor, debiased: bool = False) -> float:
    """What is under test: the CKA of two layers' outputs."""
    return float(all_pairs(torch.stack([centred_gram(x, debiased), centred_gram(y, debiased)]))[0, 1])


def by_definition(x: Tensor, y: Tensor) -> float:
    """tr(KHLH) / √(tr(KHKH) tr(LHLH)) with H = 1 − 11ᵀ/n, in float64 as it is written."""
    x, y = x.flatten(1).double().numpy(), y.flatten(1).double().numpy()
    n = len(x)
    h = np.eye(n) - 1 / n
    gram_x, gram_y = x @ x.T, y @ y.T

    def hsic(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.trace(a @ h @ b @ h)) / (n - 1) ** 2

    return hsic(gram_x, gram_y) / math.sqrt(hsic(gram_x, gram_x) * hsic(gram_y, gram_y))


def by_counting(x: Tensor, y: Tensor) -> float:
    """HSIC as Song et al. define the unbiased estimate: means over all tuples of *different* images.

    E[K_ij L_ij] + E[K_ij L_qr] − 2 E[K_ij L_iq], each over distinct indices.
    """
    x, y = x.double().numpy(), y.double().numpy()
    n = len(x)
    gram_x, gram_y = x @ x.T, y @ y.T

    def hsic(a: np.ndarray, b: np.ndarray) -> float:
        two = np.mean([a[i, j] * b[i, j] for i, j in permutations(range(n), 2)])
        three = np.mean([a[i, j] * b[i, q] for i, j, q in permutations(range(n), 3)])
        four = np.mean([a[i, j] * b[q, r] for i, j, q, r in permutations(range(n), 4)])
        return float(two + four - 2 * three)

    return hsic(gram_x, gram_y) / math.sqrt(hsic(gram_x, gram_x) * hsic(gram_y, gram_y))


@given(
    n=st.integers(4, 40), p=st.integers(1, 60), q=st.integers(1, 60), shift=st.sampled_from([0.0, 3.0, 50.0])
)
def test_it_is_what_the_formula_says(n: int, p: int, q: int, shift: float) -> None:
    """Also where the mean is fifty times the spread, as after a ReLU it can be many times."""
    x = outputs(1, n, p, shift=shift)
    y = outputs(2, n, q, shift=shift) + 0.5 * x[:, :1]
    assert alike(x, y) == pytest.approx(by_definition(x, y), abs=1e-5)


@given(n=st.integers(4, 8), p=st.integers(2, 5), q=st.integers(2, 5))
def test_the_debiased_one_is_the_mean_over_distinct_images(n: int, p: int, q: int) -> None:
    x, y = outputs(n, n, p, shift=1.0), outputs(n + 100, n, q)
    assert alike(x, y, debiased=True) == pytest.approx(by_counting(x, y), abs=1e-5)


@ESTIMATORS
@given(seed=st.integers(0, 99), scale=st.floats(1e-6, 1e6), shift=st.floats(-10, 10))
def test_a_model_is_like_itself_turned(debiased: bool, seed: int, scale: float, shift: float) -> None:
    x = outputs(seed, 24, 12)
    turn, _ = torch.linalg.qr(outputs(seed + 1, 12, 12))
    assert alike(x, x, debiased) == pytest.approx(1.0, abs=1e-6)
    assert alike(x, scale * (x @ turn + shift), debiased) == pytest.approx(1.0, abs=1e-4)


def test_independent_features_are_not_alike_once_debiased() -> None:
    """Plain CKA of 1000 features in 64 images calls two independent noises alike: each Gram matrix is nearly ∝ H."""
    pairs = [(outputs(seed, 64, 1000), outputs(seed + 500, 64, 1000)) for seed in range(20)]
    assert np.mean([alike(x, y) for x, y in pairs]) > 0.9
    assert abs(np.mean([alike(x, y, debiased=True) for x, y in pairs])) < 0.02


@ESTIMATORS
def test_all_pairs_at_once_are_the_pairs_one_by_one(debiased: bool) -> None:
    """In 96² > 8192 columns, so that the sum over their parts is put to the test."""
    shared = outputs(9, 96, 10)
    layers = [shared + outputs(seed, 96, 10) for seed in range(6)]
    together = all_pairs(torch.stack([centred_gram(x, debiased) for x in layers]))
    for i, x in enumerate(layers):
        for j, y in enumerate(layers):
            assert float(together[i, j]) == pytest.approx(alike(x, y, debiased), abs=1e-12)
    assert torch.equal(together, together.T)


def test_outputs_that_say_nothing_are_like_nothing_not_even_themselves() -> None:
    """Zero, constant, constant but for rounding, and with NaN or infinity."""
    some, three = outputs(1, 16, 5), torch.tensor([3])
    empties = [torch.zeros(16, 5), torch.full((16, 5), 0.1), 0.3 + 1e-8 * some]
    empties += [some.index_fill(0, three, float(each)) for each in ("nan", "inf")]
    for debiased in (False, True):
        for empty in empties:
            grams = [centred_gram(x, debiased) for x in (some, empty, outputs(2, 16, 5))]
            found = all_pairs(torch.stack(grams))
            assert found[1].isnan().all()
            assert found[:, 1].isnan().all()
            assert found[[0, 0, 2], [0, 2, 2]].isfinite().all()


def test_debiased_images_all_equally_far_apart_have_nothing_to_compare() -> None:
    """One feature per image: off the diagonal, the centred Gram matrix is one constant, and U-centred it is zero."""
    apart = centred_gram(torch.eye(16) * 1.7 + 0.3, debiased=True)
    assert apart.isnan().all()


# Which layers are compared, on which images, and what the ledger is given.


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
    for layer, why in (
        ("fc3", r"no client has a layer 'fc3'\. Did you mean 'fc[12]'\?"),
        ("conv1", r"only client 0 \(tiny_cnn\) has a layer 'conv1'"),
    ):
        with pytest.raises(ConfigError, match=why):
            common_layers(tiny, [layer])


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
    """Client 1's weights are NaN; the mean is over the three pairs of the other three. If all weights are 0, it is
    null.
    """
    parts, state = trained
    first, second, *others = state.clients
    broken = second | {name: torch.full_like(tensor, math.nan) for name, tensor in floating(second).items()}
    result = measured(parts, (first, broken, *others))
    fc2 = result["matrix"]["fc2"]
    assert fc2[1] == [row[1] for row in fc2] == [None] * 4
    assert result["layers"]["fc2"] == pytest.approx((fc2[0][2] + fc2[0][3] + fc2[2][3]) / 3, abs=1e-6)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    dead = [{name: torch.zeros_like(tensor) for name, tensor in tensors.items()} for tensors in state.clients]
    assert measured(parts, dead)["layers"] == {"conv1": None, "fc1": None, "fc2": None}


def test_threads_give_the_same_bits_however_many(trained: tuple[Built, State]) -> None:
    for workers in [1, 2, 3]:
        parts, state = trained
        with ThreadPoolExecutor(workers) as pool:
            at_once = measured(parts, state.clients, each=lambda clients, work: list(pool.map(work, clients)))
        assert at_once == measured(parts, state.clients)


def test_a_client_alone_has_nobody_to_be_like(tmp_path: Path) -> None:
    parts = built(config(federation={"clients": 1, "participation": 1.0}))
    assert measured(parts, run(parts.engine, 1).clients) == {"order": [], "layers": {}, "matrix": {}}


# More clients than are compared


def test_of_more_clients_some_are_drawn_and_the_matrix_is_theirs(trained: tuple[Built, State]) -> None:
    """They stay the same when others come to have been trained."""
    parts, state = trained
    layers, _ = cka_matrices.compared(parts.federation, 7, most=2)
    drawn = sorted(set().union(*layers.values()))
    assert len(drawn) == 2
    found = measure(context(parts), IN_TURN, state.clients.__getitem__, layers, probe(parts.data, 7), most=2)
    assert found["clients"] == drawn
    assert len(found["matrix"]["fc2"]) == 2
    for other in set(range(4)) - layers["fc2"].keys():
        those = {*layers["fc2"], other}
        later, _ = cka_matrices.compared(parts.federation, 7, clients=those, most=2)
        assert later["fc2"].keys() == layers["fc2"].keys()


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


def test_a_session_from_before_measures_cka_only_when_asked_and_compares_as_many_clients_as_it_did() -> None:
    raw = config().to_json()
    del raw["cka"]["every"]
    for older in (raw, {"method": {"name": "standalone"}}):
        assert Config.read(history.completed(older)).cka.every == 0
    for clients, compared in [(100, 100), (400, 400), (1000, 1000), (1001, 100)]:
        raw = config(federation={"clients": clients}).to_json()
        del raw["cka"]["clients"]
        assert Config.read(history.completed(raw)).cka.clients == compared


# CKA from a session on disk, after its run.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of three rounds that keeps the last two."""
    folder = tmp_path_factory.mktemp("sessions") / "done"
    with on_images(generated()), simulator.Session.create(settings(), folder, Path()) as session:
        session.run()
    return folder


def settings() -> Config:
    return config("fedlora", checkpoint={"keep_last": 2, "keep_best": False})


def after(folder: Path, *args: Any, **options: Any) -> dict[str, Any]:
    with on_images(generated()):
        return cka(folder, Path(), *args, **options)


def in_the_run(rounds: int, debiased: bool = False) -> dict[str, Any]:
    """What the same run measures while its models are in memory."""
    parts = built(settings())
    return measured(parts, federations.run(parts.engine, rounds).clients, debiased=debiased)


def test_it_is_what_the_run_would_have_recorded(folder: Path) -> None:
    for round, debiased in [(2, False), (3, True)]:
        assert after(folder, round, debiased=debiased) == {"round": round} | in_the_run(round, debiased)


def test_layers_and_images_can_be_chosen(folder: Path) -> None:
    chosen = after(folder, layers=["fc1"], images=8)
    assert chosen["order"] == ["fc1"]
    assert chosen["layers"]["fc1"] != after(folder)["layers"]["fc1"]


def test_it_writes_nothing(folder: Path) -> None:
    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

    before = files()
    after(folder)
    assert files() == before


def test_a_round_that_is_not_kept_and_other_data_are_refused(folder: Path) -> None:
    with pytest.raises(SessionUnreadable, match=r"no checkpoint of round 1; kept: 2, 3"):
        after(folder, 1)
    with on_images(generated(per_class=41)), pytest.raises(SessionError, match="data_dir=DIR"):
        cka(folder, Path())


def test_received_models_are_those_that_the_run_has_measured(tmp_path: Path) -> None:
    """FedRolex sends other parts of the server's model in each round."""
    wanted = config("fedrolex", rounds=1, cka={"every": 1, "model": "aggregated"})
    with on_images(generated()), simulator.Session.create(wanted, tmp_path / "s", Path()) as session:
        session.run()
    recorded = CheckedReader(tmp_path / "s").records()[-1]["cka"]
    assert after(tmp_path / "s") == {"round": 1} | recorded
