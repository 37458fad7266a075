"""FedRolex: windows that roll forwards, by hand, and three whole rounds against a reference."""

import torch
from torch import Tensor

from simulator.base.tensors import part
from simulator.methods.fedrolex import FedRolex
from tests import federations
from tests.methods import reference
from tests.methods.reference import ce, logits

WIDE, HALF = "tiny_cnn", "tiny_cnn_w2"


def method(*architectures: str) -> FedRolex:
    return FedRolex(federations.config("fedrolex").method, federations.federation(architectures))


def rows(fedrolex: FedRolex, round: int, name: str) -> list[int]:
    """The rows that client 1 has of a weight in a round."""
    return fedrolex.places(round, fedrolex.federation.clients[1])[name][0].flatten().tolist()


def test_of_eight_units_half_roll_forwards_with_the_rounds() -> None:
    """The window of round t (from 1) begins at (t − 1) mod 8. The authors' code rolls backwards: 5, 6, 7, 0 in the
    fourth round."""
    fedrolex = method("tiny_resnet10", "tiny_resnet10_w2")
    windows = [rows(fedrolex, round, "layer2.0.conv1.weight") for round in (1, 4, 7, 9)]
    assert windows == [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 0, 1], [0, 1, 2, 3]]


def test_layers_of_equal_width_have_the_same_window_so_that_shortcuts_add_like_to_like() -> None:
    fedrolex = method("tiny_resnet10", "tiny_resnet10_w2")
    place = fedrolex.places(4, fedrolex.federation.clients[1])
    block, shortcut = place["layer2.0.conv2.weight"], place["layer2.0.downsample.0.weight"]
    assert block[0].tolist() == shortcut[0].tolist() == [[3], [4], [5], [6]]
    assert shortcut[1].tolist() == [3, 0]  # stage 1 has four channels, of which the half has two
    assert place["head.weight"][1].tolist() == [3, 4, 5, 6]


def test_a_channel_takes_its_columns_of_the_flattened_map_along() -> None:
    """Round 4: of four channels the half has the last and the first, and so columns 12 … 15 and 0 … 3 of sixteen."""
    fedrolex = method(WIDE, HALF)
    columns = fedrolex.places(4, fedrolex.federation.clients[1])["fc1.weight"][1]
    assert columns.tolist() == [12, 13, 14, 15, 0, 1, 2, 3]


def test_after_a_switch_the_window_starts_at_the_first_unit() -> None:
    fedrolex = method("tiny_resnet10", "tiny_resnet10_w2")
    fedrolex.federation.__dict__["begun"] = 30
    assert rows(fedrolex, 31, "layer2.0.conv1.weight") == [0, 1, 2, 3]


UNITS = {
    "conv1.weight": (1, 0), "conv1.bias": (1,), "fc1.weight": (1, 4), "fc1.bias": (1,), "fc2.weight": (1, 1),
    "fc2.bias": (1,), "head.weight": (0, 1), "head.bias": (0,),
}  # fmt: skip
"""Entries to a unit of every dimension that is cut; 0 for one that stays whole."""


def rolled(weight: Tensor, name: str, by: int) -> Tensor:
    for dimension, unit in enumerate(UNITS[name]):
        if unit:
            weight = weight.roll(by * unit, dimension)
    return weight


def halved(weight: Tensor, name: str) -> tuple[slice, ...]:
    return tuple(
        slice(weight.shape[dimension] // 2 if unit else None) for dimension, unit in enumerate(UNITS[name])
    )


def test_three_whole_rounds_equal_the_reference() -> None:
    """W rolled back by t, cut at the half, trained, and rolled on again: three of four channels come into use."""
    everybody = {"clients": 3, "participation": 1.0, "group": [WIDE, HALF, HALF]}
    config = federations.config(
        "fedrolex", federation=everybody, training={"lr": 0.05, "momentum": 0.5}, data={"partition": "iid"}
    )
    ran = reference.Rounds(config, 3)
    whole = part(ran.server, WIDE)
    for t in range(3):
        sums = {name: torch.zeros_like(weight) for name, weight in whole.items()}
        holders = {name: torch.zeros_like(weight) for name, weight in whole.items()}
        for client in range(3):
            turn, wide = (0, True) if client == 0 else (t, False)
            view = {name: rolled(weight, name, -turn) for name, weight in whole.items()}
            spans = {name: (...,) if wide else halved(weight, name) for name, weight in view.items()}
            w = reference.leaves({name: weight[spans[name]] for name, weight in view.items()})
            speed = {name: torch.zeros_like(weight) for name, weight in w.items()}
            for x, y in ran.batches("model", t + 1, client, epochs=1):
                ce(logits(w, x, 1.0 if wide else 0.5), y).backward()
                for name, weight in w.items():
                    assert weight.grad is not None
                    speed[name] = 0.5 * speed[name] + weight.grad
                    weight.grad = speed[name].clone()
                reference.step(list(w.values()), 0.05)
            for name, weight in w.items():
                place, held = torch.zeros_like(whole[name]), torch.zeros_like(whole[name])
                place[spans[name]], held[spans[name]] = weight.detach(), 1.0
                sums[name] += rolled(place, name, turn)
                holders[name] += rolled(held, name, turn)
        whole = {name: torch.where(n > 0, sums[name] / n, whole[name]) for name, n in holders.items()}
    ran.assert_ended({WIDE: whole}, {})
