"""Answers of several models of one architecture on the same images as one: stacked weights, shared images."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from simulator.base.tensors import Tensors
from simulator.methods.hooks import Hooks
from simulator.training.client import LocalClient
from simulator.training.stacking import CannotStack, refuse_unlike_networks, values


class Stacked:
    """Clients ready to answer that differ only in the values of tensors. Raises CannotStack otherwise."""

    def __init__(self, hooks: Hooks, clients: Sequence[LocalClient]) -> None:
        self._hooks = hooks
        self._first = first = clients[0]
        for other in clients[1:]:
            refuse_unlike_networks(first, other)
            if {name: each.shape for name, each in other.state.items()} != {
                name: each.shape for name, each in first.state.items()
            }:
                raise CannotStack("they keep other tensors")
        of_each = [values(client.nets) for client in clients]
        self._values = {
            f"nets.{name}": torch.stack([each[name].detach() for each in of_each]) for name in of_each[0]
        }
        self._state = {name: torch.stack([client.state[name] for client in clients]) for name in first.state}

    @torch.no_grad()
    def scores(self, x: Tensor) -> Tensor:
        """[n, B, C] of images x [B, …]. Raises torch's error if an answer cannot be mapped."""

        def of_one(tensors: Tensors, state: Tensors) -> Tensor:
            answer: Tensor = functional_call(_Answer(self._hooks, self._first), tensors, (state, x))
            return answer

        answers: Tensor = vmap(of_one, randomness="error")(self._values, self._state)
        return answers


class _Answer(nn.Module):
    """A client's answer as a module of its networks, so that their tensors can be replaced."""

    def __init__(self, hooks: Hooks, client: LocalClient) -> None:
        super().__init__()
        self.nets = client.nets
        self._hooks, self._client = hooks, client

    def forward(self, state: Tensors, x: Tensor) -> Tensor:
        client = copy.copy(self._client)
        client.state = state
        return self._hooks.predict(client, x)
