"""Models of tokens: cells against torch's own, means and attention by hand, and padding that changes nothing."""

import itertools

import pytest
import torch
from torch import Tensor, nn

from simulator import models
from simulator.base import rng
from simulator.base.rng import drawing_from
from simulator.data.inputs import random
from simulator.data.specs import InputSpec, SignalSpec, TableSpec, TokenSpec
from simulator.methods import needs
from simulator.models import ImageShape
from simulator.models import text as recurrent
from simulator.models.text import positions
from simulator.training.forward_mode import derivative_along
from tests.federations import federation

SPEC = TokenSpec(length=6, vocabulary=11, padding=3)
TINY = ["tiny_fasttext", "tiny_lstm", "tiny_gru", "tiny_bilstm", "tiny_tr_l1", "tiny_tr_l2"]
OTHERS: list[tuple[str, InputSpec]] = [
    *((name, SignalSpec(2, 12)) for name in ("tiny_harcnn1", "tiny_harcnn2", "tiny_mlp2")),
    *((name, TableSpec(5)) for name in ("tiny_mlp", "mlp_500")),
    ("tiny_vit1", ImageShape(1, 8, 8)),
]


def stream() -> torch.Generator:
    return rng.torch_stream(0, "tests/text")


def built(name: str, spec: InputSpec = SPEC) -> models.Network:
    return models.build(name, spec, 4, stream()).double().eval()


def drawn(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=stream(), dtype=torch.float64)


@pytest.mark.parametrize(
    ("kind", "published", "order"),
    [(recurrent.LSTM, nn.LSTM, (1, 0, 3, 2)), (recurrent.GRU, nn.GRU, (0, 1, 2))],
)
def test_a_cell_computes_what_torchs_own_computes(
    kind: type[recurrent.Recurrent], published: type[nn.LSTM | nn.GRU], order: tuple[int, ...]
) -> None:
    """Torch's gates of an LSTM are input, forget, cell, output. Ours are forget, input, output, cell."""
    torchs = published(5, 6, batch_first=True).double()
    with drawing_from(stream()):
        ours = kind(5, 6).double()
    for part, suffix in ((ours.of_input, "ih"), (ours.of_state, "hh")):
        for name, own in part.named_parameters():
            rows = own.detach().chunk(kind.gates)
            theirs = torchs.get_parameter(f"{name}_{suffix}_l0")
            theirs.data = torch.cat([rows[order.index(gate)] for gate in range(kind.gates)])
    words = drawn(3, 7, 5).requires_grad_()
    told, expected = ours(words), torchs(words)[0]
    torch.testing.assert_close(told, expected)
    torch.testing.assert_close(*(torch.autograd.grad(y.square().sum(), words) for y in (told, expected)))


def test_lengths_end_at_the_last_token_that_is_no_padding() -> None:
    """A padding token between others counts. A sequence of padding alone has one word."""
    tokens = torch.tensor([[5, 3, 7, 3], [5, 6, 7, 8], [3, 3, 3, 3]])
    assert recurrent.lengths(tokens, padding=3).tolist() == [3, 4, 1]


def test_turning_moves_the_words_and_leaves_the_padding() -> None:
    tokens = torch.tensor([[1, 2, 3, 0], [4, 5, 6, 7]])
    assert recurrent.turned(tokens, torch.tensor([3, 4])).tolist() == [[3, 2, 1, 0], [7, 6, 5, 4]]


def test_means_and_attention_are_of_real_words_alone() -> None:
    """The products with the query (1, 0) are ln 3 and 0, so the weights are 3/4 and 1/4."""
    words = torch.tensor([[[1.0986123, 4.0], [0.0, 8.0], [9.0, 9.0]]])
    real = torch.tensor([[True, True, False]])
    torch.testing.assert_close(recurrent.mean(words, real), torch.tensor([[0.5493061, 6.0]]))
    seen = recurrent.attended(words, torch.tensor([[1.0, 0.0]]), real)
    torch.testing.assert_close(seen, torch.tensor([[0.75 * 1.0986123, 0.75 * 4 + 0.25 * 8]]))
    assert recurrent.mean(words, ~real & real).tolist() == [[0.0, 0.0]]


def test_positions_are_sines_and_cosines_of_falling_rates() -> None:
    """Of width 4, the rates are 1 and 1/100."""
    x = torch.tensor([0.0, 1.0, 2.0])
    expected = torch.stack((x.sin(), x.cos(), (x / 100).sin(), (x / 100).cos()), 1)
    torch.testing.assert_close(positions(3, 4, x.device), expected)


def test_padding_at_the_end_changes_no_score() -> None:
    """Each text alone and without padding, against all of them padded to six tokens."""
    texts = [torch.tensor([[(row + 4) % 11 or 1 for row in range(length)]]) for length in (1, 3, 4)]
    padded = torch.cat([nn.functional.pad(each, (0, 6 - each.shape[1]), value=3) for each in texts])
    for name in (*TINY, "text_lr"):
        network = built(name)
        torch.testing.assert_close(network(padded), torch.cat([network(each) for each in texts]))


def test_a_text_of_padding_alone_has_finite_scores_and_gradients() -> None:
    tokens = torch.full((2, 6), 3)
    tokens[1, 0] = 5
    for name in TINY:
        network = built(name).train()
        with drawing_from(stream()):
            scores = network(tokens)
        scores.square().sum().backward()
        assert scores.isfinite().all(), name
        assert all(each.grad is not None and each.grad.isfinite().all() for each in network.parameters())


def test_every_kind_of_layer_has_a_forward_mode_derivative() -> None:
    """FedL2G needs it, and checks only models that are not built in. Fused kernels of attention have none."""
    for name, spec in [*((name, SPEC) for name in TINY), *OTHERS]:
        _has_a_forward_mode_derivative(name, spec)


def _has_a_forward_mode_derivative(name: str, spec: InputSpec) -> None:
    network = built(name, spec)
    weights = {key: weight.detach() for key, weight in network.named_parameters()}
    direction = {key: torch.ones_like(weight) for key, weight in weights.items()}
    x = random(spec, 3, stream())
    x = x if isinstance(spec, TokenSpec) else x.double()

    def scores(of: dict[str, Tensor]) -> Tensor:
        told: Tensor = torch.func.functional_call(network, of, (x,))
        return told

    step = 1e-6
    ahead, behind = (scores({key: w + sign * step for key, w in weights.items()}) for sign in (1, -1))
    found = derivative_along(scores, weights, direction)
    torch.testing.assert_close(found, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-6)


def test_dropout_draws_from_the_stream_given() -> None:
    tokens, before = torch.tensor([[4, 5, 6, 7, 3, 3]]), torch.get_rng_state()
    for name in ("tiny_lstm", "tiny_tr_l1"):
        network, scores = built(name).train(), []
        for number in (1, 1, 2):
            with drawing_from(rng.torch_stream(number, "tests/dropout")):
                scores.append(network(tokens))
        assert torch.equal(scores[0], scores[1]) and not torch.equal(scores[0], scores[2])
    assert torch.equal(torch.get_rng_state(), before)


def test_the_groups_of_transformers_nest() -> None:
    """Heads have no weights of their own."""
    for group in ("htfe_txt5_1", "htfe_txt5_2", "htfe_txt5_3", "tiny_text_depths"):
        assert needs.nested(federation(models.GROUPS[group], shape=SPEC)) is None, group


def test_the_groups_of_htfllib_have_512_features() -> None:
    groups = ("htfe_txt2", "htfe_txt4", "htfe_txt5_1", "htfe_txt6")
    names = set(itertools.chain.from_iterable(models.GROUPS[group] for group in groups))
    assert {models.architecture(name, SPEC, 4).num_features for name in names} == {512}


def test_a_transformer_block_has_the_parameters_of_its_layers() -> None:
    """One block of 512 with a hidden layer of 2048, and the head of four classes; embeddings of eleven tokens."""
    attention = 3 * 512 * 513 + 512 * 513
    hidden, norms = 2048 * 513 + 512 * 2049, 2 * 2 * 512
    network = models.architecture("tr_h8_l1", SPEC, 4)
    found = sum(each.numel() for each in network.parameters())
    assert found == 11 * 512 + attention + hidden + norms + 4 * 513


def test_the_projections_of_attention_begin_with_biases_of_zero() -> None:
    """As those of torch.nn.MultiheadAttention."""
    block = recurrent.Block(8, 2, 16)
    assert not block.qkv.bias.any() and not block.out.bias.any()
