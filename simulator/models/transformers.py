"""Transformers over tokens (Vaswani et al. 2017), as in HtFLlib: norms after additions, the first token's features.

Padding is masked. Attention is computed step by step: the fused kernels have no forward-mode derivative, which FedL2G
needs, and no dropout of each of several clients.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.data.specs import TokenSpec
from simulator.models.network import Network
from simulator.models.registry import Builder, register

FEATURES = 512
HIDDEN = 2048
DROPOUT = 0.1
HTFLLIB = ((8, 1), (8, 2), (8, 4), (8, 8), (8, 16), (1, 4), (2, 4), (4, 4), (16, 4), (1, 1), (2, 2), (16, 16))
"""Heads and blocks of the transformers in HtFLlib's groups."""


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
    """embeddings · √K + positions → dropout → blocks → the first token → head C.

    Representation `block<i>` holds all tokens [B, length, K]. Padding is zero in it.
    """

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


def _transformer(heads: int, depth: int) -> Builder:
    return lambda spec, num_classes: TextTransformer(spec, num_classes, heads, depth)


def _tiny(depth: int) -> Builder:
    return lambda spec, num_classes: TextTransformer(spec, num_classes, 2, depth, features=8, hidden=12)


for _heads, _depth in HTFLLIB:
    register(
        f"tr_h{_heads}_l{_depth}", f"transformer of 512: heads {_heads}, blocks {_depth}", kind="tokens"
    )(_transformer(_heads, _depth))
register("tiny_tr_l1", "transformer of 8: two heads, one block", kind="tokens")(_tiny(1))
register("tiny_tr_l2", "transformer of 8: two heads, two blocks", kind="tokens")(_tiny(2))
