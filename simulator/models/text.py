"""Models of token sequences: HtFLlib's fastText, logistic regression, LSTM, GRU, and BiLSTM, and tiny ones.

Padding never reaches the features. A sequence of nothing but padding counts as one token for recurrent models.
"""

import math
from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.data.specs import TokenSpec
from simulator.models.network import Network
from simulator.models.recurrent import GRU, LSTM, Recurrent, attended, last, lengths, mean, turned
from simulator.models.registry import register

FEATURES = 512
"""K, HtFLlib's default width of embeddings, hidden layers, and features."""
SMALL, TINY = 64, 8


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
    """embeddings → layers of LSTM or GRU with dropout between → the state after the last token → dropout → head C.

    With `relu`, the last state passes a ReLU. Representation `state<i>` is the last state of layer i.
    """

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
    """embeddings → an LSTM in each direction → both final states → FC → head C.

    With attention, the final states weight all states by Luong's dot product, and a layer joins both.
    """

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


register("fasttext", "fastText: mean of embeddings of 512, FC 512", kind="tokens")(FastText)
register("text_lr", "logistic regression on the mean of embeddings of 512", kind="tokens")(TextLR)
register("lstm", "two layers of LSTM of 512", kind="tokens")(partial(RecurrentText, cell=LSTM, relu=True))
register("gru", "two layers of GRU of 512", kind="tokens")(partial(RecurrentText, cell=GRU))
register("bilstm", "an LSTM of 512 in each direction, FC 512", kind="tokens")(BiLSTM)
register("bilstm_attention", "the same with attention over all words", kind="tokens")(
    partial(BiLSTM, attention=True)
)
register("small_lstm", "two layers of LSTM of 64", kind="tokens")(
    partial(RecurrentText, cell=LSTM, features=SMALL, relu=True)
)
register("small_gru", "one layer of GRU of 64", kind="tokens")(
    partial(RecurrentText, cell=GRU, features=SMALL, depth=1)
)
register("small_bilstm", "an LSTM of 64 in each direction, FC 64", kind="tokens")(
    partial(BiLSTM, features=SMALL)
)
register("tiny_fasttext", "mean of embeddings of 8, FC 8", kind="tokens")(partial(FastText, features=TINY))
register("tiny_fasttext_w2", "mean of embeddings of 8, FC 8, at 1/2 of the width", kind="tokens")(
    partial(FastText, features=TINY, rate=1 / 2)
)
register("tiny_lstm", "two layers of LSTM of 8", kind="tokens")(
    partial(RecurrentText, cell=LSTM, features=TINY, relu=True)
)
register("tiny_gru", "one layer of GRU of 8", kind="tokens")(
    partial(RecurrentText, cell=GRU, features=TINY, depth=1)
)
register("tiny_bilstm", "an LSTM of 8 in each direction with attention", kind="tokens")(
    partial(BiLSTM, features=TINY, attention=True)
)
