"""LSTM and GRU cells as matrix products.

Torch's own layers are one fused operation each. Its FLOPs are not counted, it cannot be mapped over clients, and it has
no forward-mode derivative on a CPU.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


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
