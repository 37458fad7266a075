"""Models of token sequences, as in HtFLlib: fastText, logistic regression, LSTM, GRU, BiLSTM, transformers; tiny ones.

Padding never reaches the features. A sequence of nothing but padding counts as one token for recurrent models.

Cells and attention are matrix products. Torch's own LSTM and GRU are one fused operation each. Its FLOPs are not
counted, it cannot be mapped over clients, and it has no forward-mode derivative on a CPU. Nor have the fused kernels of
attention, which FedL2G needs, and they have no dropout of each of several clients.
"""

import math
from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.data.specs import TokenSpec
from simulator.models.network import Network
from simulator.models.registry import Builder, register

FEATURES = 512
"""K, HtFLlib's default width of embeddings, hidden layers, and features."""
SMALL, TINY = 64, 8
HIDDEN = 2048
DROPOUT = 0.1
HTFLLIB = ((8, 1), (8, 2), (8, 4), (8, 8), (8, 16), (1, 4), (2, 4), (4, 4), (16, 4), (1, 1), (2, 2), (16, 16))
"""Heads and blocks of the transformers in HtFLlib's groups."""


class Recurrent(nn.Module):
    """One layer in one direction: words [B, length, given] → the states after every word [B, length, hidden]."""

    gates: int

    def __init__(self, given: int, hidden: int) -> None:
        super().__init__()
        bound = hidden**-0.5  # as torch draws them
        rows = self.gates * hidden
        self.of_input, self.of_state = nn.Linear(given, rows), nn.Linear(hidden, rows)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)
        self.hidden = hidden

    def forward(self, words: Tensor) -> Tensor:
        inputs = self.of_input(words)  # of all words at once
        # In the dtype of the weights: in bf16, sums over many words would lose too much.
        h = torch.zeros(words.shape[0], self.hidden, dtype=self.of_state.weight.dtype, device=words.device)
        memory, states = h, []
        for word in inputs.unbind(1):
            h, memory = self.step(word, h, memory)
            states.append(h)
        return torch.stack(states, 1)

    def step(self, word: Tensor, h: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """The state and the memory after a word, of which `word` [B, gates · hidden] is the part of the input."""
        raise TypeError(f"{type(self).__name__} has no step")


class LSTM(Recurrent):
    """Hochreiter and Schmidhuber 1997, with forget gates."""

    gates = 4

    def step(self, word: Tensor, h: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        sums = word + self.of_state(h)
        keep, write, show = sums[:, : 3 * self.hidden].sigmoid().chunk(3, 1)
        memory = keep * memory + write * sums[:, 3 * self.hidden :].tanh()
        return show * memory.tanh(), memory


class GRU(Recurrent):
    """Cho et al. 2014. The reset gate acts on the product with the state, as in torch."""

    gates = 3

    def step(self, word: Tensor, h: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        of_state = self.of_state(h)
        both = 2 * self.hidden
        reset, keep = (word[:, :both] + of_state[:, :both]).sigmoid().chunk(2, 1)
        new = (word[:, both:] + reset * of_state[:, both:]).tanh()
        return new + keep * (h - new), memory


def lengths(tokens: Tensor, padding: int) -> Tensor:
    """The number of tokens up to the last one that is no padding, at least 1: [B]."""
    place = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
    return ((tokens != padding) * place).amax(1).clamp(min=1)


def turned(tokens: Tensor, count: Tensor) -> Tensor:
    """Each row's first `count` entries in reverse order. The others stay."""
    place = torch.arange(tokens.shape[1], device=tokens.device)
    mirrored = count[:, None] - 1 - place
    return tokens.gather(1, torch.where(mirrored >= 0, mirrored, place))


def last(states: Tensor, count: Tensor) -> Tensor:
    """The state after each row's word number `count`: [B, hidden]."""
    return states.gather(1, (count - 1)[:, None, None].expand(-1, 1, states.shape[2])).squeeze(1)


def mean(words: Tensor, real: Tensor) -> Tensor:
    """The mean of the words [B, length, width] that are `real` [B, length], 0 if none is: [B, width]."""
    return (words * real[:, :, None]).sum(1) / real.sum(1, keepdim=True).clamp(min=1)


def attended(states: Tensor, query: Tensor, real: Tensor) -> Tensor:
    """The states [B, length, width] weighted by the softmax of their products with `query` [B, width]: [B, width]."""
    scores = (states @ query[:, :, None]).squeeze(2)
    weights = F.softmax(scores.masked_fill(~real, torch.finfo(scores.dtype).min), 1)
    return (weights[:, None] @ states).squeeze(1)


class FastText(Network):
    """mean of the tokens' embeddings → FC → head C (Joulin et al. 2017). There is no activation between them."""

    layers = ("mean", "fc1")

    def __init__(
        self, spec: TokenSpec, num_classes: int, features: int = FEATURES, rate: float = 1.0
    ) -> None:
        super().__init__()
        width = math.ceil(features * rate)
        self.rate = rate
        self.padding = spec.padding
        self.embedding = nn.Embedding(spec.vocabulary, width)
        self.fc1 = nn.Linear(width, width)
        self.head = nn.Linear(width, num_classes)

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        words = mean(self.embedding(x), x != self.padding)
        return {"mean": words, "fc1": self.fc1(words)}

    def flattened(self) -> Mapping[str, int]:
        return {}


class TextLR(Network):
    """mean of the tokens' embeddings → head C: logistic regression on learned words."""

    layers = ("mean",)

    def __init__(self, spec: TokenSpec, num_classes: int, features: int = FEATURES) -> None:
        super().__init__()
        self.padding = spec.padding
        self.embedding = nn.Embedding(spec.vocabulary, features)
        self.head = nn.Linear(features, num_classes)

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        return {"mean": mean(self.embedding(x), x != self.padding)}


class RecurrentText(Network):
    """embeddings → LSTM or GRU layers (`state<i>`), dropout between → last token's state → ReLU → dropout → head C."""

    def __init__(
        self,
        spec: TokenSpec,
        num_classes: int,
        cell: type[Recurrent],
        features: int = FEATURES,
        depth: int = 2,
        relu: bool = False,
    ) -> None:
        super().__init__()
        self.padding = spec.padding
        self.relu = relu
        self.embedding = nn.Embedding(spec.vocabulary, features)
        self.cells = nn.ModuleList(cell(features, features) for _ in range(depth))
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(features, num_classes)
        self.layers = (*(f"state{number + 1}" for number in range(depth)), "features")

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        count = lengths(x, self.padding)
        words = self.embedding(x)
        shown: dict[str, Tensor] = {}
        for number, cell in enumerate(self.cells, start=1):
            words = cell(words if number == 1 else self.dropout(words))
            shown[f"state{number}"] = state = last(words, count)
        return shown | {"features": self.dropout(F.relu(state) if self.relu else state)}


class BiLSTM(Network):
    """embeddings → LSTMs in both directions → final states, with attention also all states by them → FC → head C."""

    layers = ("states", "fc1")

    def __init__(
        self, spec: TokenSpec, num_classes: int, features: int = FEATURES, attention: bool = False
    ) -> None:
        super().__init__()
        self.padding = spec.padding
        self.embedding = nn.Embedding(spec.vocabulary, features)
        self.ahead, self.back = LSTM(features, features), LSTM(features, features)
        self.attention = nn.Linear(4 * features, 2 * features) if attention else None
        self.fc1 = nn.Linear(2 * features, features)
        self.head = nn.Linear(features, num_classes)

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        count = lengths(x, self.padding)
        ahead, back = self.ahead(self.embedding(x)), self.back(self.embedding(turned(x, count)))
        states = torch.cat((last(ahead, count), last(back, count)), 1)
        if self.attention is None:
            return {"states": states, "fc1": self.fc1(states)}
        place = torch.arange(x.shape[1], device=x.device).expand_as(x)
        order = turned(place, count)[:, :, None].expand_as(back)
        both = torch.cat((ahead, back.gather(1, order)), 2)
        seen = attended(both, states, place < count[:, None])
        return {"states": states, "fc1": self.fc1(self.attention(torch.cat((seen, states), 1)))}


class Block(nn.Module):
    """attention → add → norm → FC → ReLU → FC → add → norm, with dropout on the weights and before each addition."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(DROPOUT)
        nn.init.xavier_uniform_(self.qkv.weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.out.bias)

    def forward(self, words: Tensor, real: Tensor) -> Tensor:
        words = self.norm1(words + self.dropout(self._attention(words, real)))
        made: Tensor = self.norm2(words + self.dropout(self.fc2(self.dropout(F.relu(self.fc1(words))))))
        return made

    def _attention(self, words: Tensor, real: Tensor) -> Tensor:
        query, key, value = self.qkv(words).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
        # Not −∞: without any real token, the softmax must still be a number.
        scores = scores.masked_fill(~real[:, None, None], torch.finfo(scores.dtype).min)
        seen = self.dropout(scores.softmax(-1)) @ value
        made: Tensor = self.out(seen.transpose(1, 2).flatten(2))
        return made


class TextTransformer(Network):
    """embeddings · √K + positions → dropout → blocks (tokens [B, length, K], padding 0) → the first token → head C."""

    def __init__(
        self,
        spec: TokenSpec,
        num_classes: int,
        heads: int,
        depth: int,
        features: int = FEATURES,
        hidden: int = HIDDEN,
    ) -> None:
        super().__init__()
        self.padding = spec.padding
        self.embedding = nn.Embedding(spec.vocabulary, features)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.dropout = nn.Dropout(DROPOUT)
        self.blocks = nn.ModuleList(Block(features, heads, hidden) for _ in range(depth))
        self.head = nn.Linear(features, num_classes)
        self.layers = (*(f"block{number + 1}" for number in range(depth)), "features")

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        real = x != self.padding
        words = self.embedding(x) * math.sqrt(self.num_features)
        words = self.dropout(words + positions(x.shape[1], self.num_features, x.device))
        shown = {}
        for number, block in enumerate(self.blocks, start=1):
            shown[f"block{number}"] = words = block(words, real) * real[:, :, None]
        return shown | {"features": words[:, 0]}

    def stages(self) -> tuple[tuple[str, ...], ...]:
        return tuple(
            (f"blocks.{number}.norm1.weight", f"blocks.{number}.norm2.weight")
            for number in range(len(self.blocks))
        )


def positions(length: int, width: int, device: torch.device) -> Tensor:
    """Sines and cosines of each position, in turn: [length, width]. They are no state, so no message holds them."""
    rates = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(10_000.0) / width))
    angles = torch.arange(length, device=device)[:, None] * rates
    return torch.stack((angles.sin(), angles.cos()), 2).flatten(1)


_RELU_LSTM = partial(RecurrentText, cell=LSTM, relu=True)
_GRU = partial(RecurrentText, cell=GRU)
_MODELS: tuple[tuple[str, str, Builder], ...] = (
    ("fasttext", "fastText: mean of embeddings of 512, FC 512", FastText),
    ("text_lr", "logistic regression on the mean of embeddings of 512", TextLR),
    ("lstm", "two layers of LSTM of 512", _RELU_LSTM),
    ("gru", "two layers of GRU of 512", _GRU),
    ("bilstm", "an LSTM of 512 in each direction, FC 512", BiLSTM),
    ("bilstm_attention", "the same with attention over all words", partial(BiLSTM, attention=True)),
    ("small_lstm", "two layers of LSTM of 64", partial(_RELU_LSTM, features=SMALL)),
    ("small_gru", "one layer of GRU of 64", partial(_GRU, features=SMALL, depth=1)),
    ("small_bilstm", "an LSTM of 64 in each direction, FC 64", partial(BiLSTM, features=SMALL)),
    ("tiny_fasttext", "mean of embeddings of 8, FC 8", partial(FastText, features=TINY)),
    (
        "tiny_fasttext_w2",
        "mean of embeddings of 8, FC 8, at 1/2 of the width",
        partial(FastText, features=TINY, rate=1 / 2),
    ),
    ("tiny_lstm", "two layers of LSTM of 8", partial(_RELU_LSTM, features=TINY)),
    ("tiny_gru", "one layer of GRU of 8", partial(_GRU, features=TINY, depth=1)),
    (
        "tiny_bilstm",
        "an LSTM of 8 in each direction with attention",
        partial(BiLSTM, features=TINY, attention=True),
    ),
    *(
        (
            f"tr_h{heads}_l{depth}",
            f"transformer of 512: heads {heads}, blocks {depth}",
            partial(TextTransformer, heads=heads, depth=depth),
        )
        for heads, depth in HTFLLIB
    ),
    *(
        (
            f"tiny_tr_l{depth}",
            f"transformer of 8: two heads, {blocks}",
            partial(TextTransformer, heads=2, depth=depth, features=8, hidden=12),
        )
        for depth, blocks in ((1, "one block"), (2, "two blocks"))
    ),
)
for _name, _title, _builder in _MODELS:
    register(_name, _title, kind="tokens")(_builder)
