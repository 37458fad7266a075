"""What a round costs, as the pages of the methods say: bytes of each client's messages, and operations of training."""

from typing import Any, NamedTuple

import pytest

from simulator.engine.progress import unobserved
from tests import federations

CNN, MLP, HALF = "tiny_cnn", "tiny_mlp", "tiny_cnn_w2"
K, C, SEEN, PIXELS = 8, 4, 2, 64
"""The width of the features, classes, those of each client, and pixels of a gray image."""
HEAD = (K + 1) * C
OF_CNN = (9 + 1) * 4 + (16 + 1) * 12 + (12 + 1) * 8 + HEAD
OF_HALF = (9 + 1) * 2 + (8 + 1) * 6 + (6 + 1) * 4
"""Numbers of tiny_cnn at half its width, without a head."""
OF_MLP = (64 + 1) * 12 + 4 * 12 + (12 + 1) * 8 + HEAD


class Cost(NamedTuple):
    """Numbers of four bytes in rounds 1 and 2: of every client alike, or of each of four."""

    up: int | list[int]
    down: int | list[int]
    later_up: int | list[int] | None = None
    later_down: int | list[int] | None = None
    options: dict[str, Any] = {}  # noqa: RUF012
    group: str | list[str] = CNN


PARTS = [OF_CNN, OF_HALF + (4 + 1) * C] * 2
GENERATOR = (3 + C) * 5 + 4 * 5 + (5 + 1) * K
"""3 + C inputs, 5 hidden with BatchNorm in place of a bias, K out."""
COSTS = {
    "fedavg": Cost(OF_CNN, OF_CNN),
    "feddf": Cost(OF_CNN, OF_CNN, options={"server_steps": 1}),
    "fedper": Cost(OF_CNN - HEAD, OF_CNN - HEAD),
    "fednova": Cost(OF_CNN + 1, OF_CNN),
    "scaffold": Cost(2 * OF_CNN, 2 * OF_CNN),
    "heterofl": Cost(PARTS, PARTS, group=[CNN, HALF]),
    "fedrolex": Cost(PARTS, PARTS, group=[CNN, HALF]),
    "fml": Cost(OF_MLP, OF_MLP, group=MLP),
    "fedapen": Cost(OF_MLP, OF_MLP, group=MLP),
    "fedmrl": Cost(OF_HALF + 3 * C, OF_HALF + 3 * C, options={"d_1": 2}, group=[CNN, HALF]),
    "pfedafm": Cost(OF_HALF, OF_HALF, group=[CNN, HALF]),
    "pfedmoe": Cost(OF_HALF, OF_HALF, group=[CNN, HALF]),
    "pfedes": Cost(18 * 8 + 8 + 1, 18 * 8 + 8 + 1),
    "lora": Cost(*[2 * (16 + 12) + 2 * (12 + 8) + HEAD] * 2, options={"ranks": [2]}),
    "fedre": Cost(K + 2 * SEEN, HEAD),
    "fedtgp": Cost(SEEN * (K + 1), 0, None, C * K, {"server_epochs": 1}),
    "fedmd": Cost(6 * C, 0, None, 6 * C, {"subset": 6, "public_epochs": 1, "private_epochs": 1}),
    "fedktl": Cost(SEEN * (C + 1), 0, None, C * (PIXELS + 64), {"server_epochs": 1}),
    "fedkwaz": Cost(SEEN * (2 * (K + C) + 1), 0, None, C * (2 * (K + C) + 1)),
    "fedgen": Cost(
        HEAD + SEEN, HEAD + 1, HEAD, HEAD + GENERATOR + C, {"server_steps": 1, "noise_width": 3, "hidden": 5}
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", COSTS)
def test_messages_have_the_bytes_of_the_page(name: str) -> None:
    cost = COSTS[name]
    config = federations.config(
        name, method=cost.options, federation={"participation": 1.0, "group": cost.group}
    )
    parts = federations.built(config)
    state, found = parts.engine.initial_state(), []
    assert {len(client.classes) for client in parts.federation.clients} == {SEEN}
    for _ in (1, 2):
        state = parts.engine.round(state, unobserved)
        assert state.record is not None
        found += [state.record["bytes"][f"per_client_{way}"] for way in ("up", "down")]
    later = [cost.up if cost.later_up is None else cost.later_up]
    later += [cost.down if cost.later_down is None else cost.later_down]
    expected = [each if isinstance(each, list) else [each] * 4 for each in (cost.up, cost.down, *later)]
    assert found == [[4 * numbers for numbers in each] for each in expected]


def flops(method: str, architecture: str, **options: object) -> float:
    """The FLOPs of training on one sample: those of a round of one client, over its number of samples."""
    config = federations.config(
        method, method=options, federation={"clients": 1, "participation": 1.0, "group": [architecture]}
    )
    parts = federations.built(config)
    record = federations.run(parts.engine, 1).record
    assert record is not None
    return record["flops"]["clients"] / len(parts.data.clients[0].train)


TRAINED = {
    CNN: 4 * 9 * 36 * 4 + 6 * (16 * 12 + 12 * 8 + 8 * 4),
    HALF: 4 * 9 * 36 * 2 + 6 * (8 * 6 + 6 * 4 + 4 * 4),
}
"""A step per sample: 2 operations for each product forward, as many for the gradient of the weights, and, but for the
first layer, of the input. A 3×3 kernel sees 36 places of 8×8 pixels."""
FORWARD, BACKWARD = 2 * (64 * 12 + 12 * 8 + 8 * 4), 2 * (64 * 12 + 12 * 8 + 8 * 4) + 2 * (12 * 8 + 8 * 4)
"""Of tiny_mlp."""
IMAGE = 2 * 9 * 8 * 64
"""A convolution of pFedES between 1 and 8 channels of 8×8 pixels."""
GATE = 4 * 64 * 32 + 6 * 32 * 2
ADAPTER = (8 * 60, 60 * 4)
OPERATIONS: dict[str, tuple[str, dict[str, object], int]] = {
    "standalone": (MLP, {}, FORWARD + BACKWARD),
    # FedGH adds a pass of the features over all samples.
    "fedgh": (MLP, {}, FORWARD + BACKWARD + 2 * (64 * 12 + 12 * 8)),
    # First, the adapter is frozen: forward, and back to its input. Then, the model is read up to FC2.
    "fedlora": (
        MLP,
        {},
        FORWARD + BACKWARD + 4 * sum(ADAPTER) + 2 * (64 * 12 + 12 * 8) + 4 * ADAPTER[0] + 6 * ADAPTER[1],
    ),
    "fml": (CNN, {"meme": HALF}, TRAINED[CNN] + TRAINED[HALF]),
    # Both models without the extractor's head; a gate, whose first layer passes no gradient on; pooling 4 numbers to 8.
    "pfedmoe": (CNN, {"small": HALF}, TRAINED[CNN] + TRAINED[HALF] - 6 * 4 * C + GATE + 4 * 4 * 8),
    # The same, a pass of the extractor, and one through the client's head and back; pooling twice, its gradient once.
    "pfedafm": (
        CNN,
        {"small": HALF},
        TRAINED[CNN]
        + TRAINED[HALF]
        - 6 * 4 * C
        + 2 * (9 * 36 * 2 + 8 * 6 + 6 * 4)
        + 4 * K * C
        + 3 * 2 * 4 * 8,
    ),
    # Phase `model`: two convolutions forward, two steps of the model. Phase `extractor`, twice: forward, both
    # gradients of weights, the second convolution's input, and through the model and back to its input.
    "pfedes": (
        CNN,
        {"extractor_epochs": 2},
        2 * TRAINED[CNN] + 2 * IMAGE + 2 * (5 * IMAGE + 4 * (9 * 36 * 4 + 16 * 12 + 12 * 8 + 8 * 4)),
    ),
    # Both networks. Stage I: F + B. Stage II: 4F + 3B without the head's 64 and 128. The means: F. Nine pairs: 9F.
    "fedkwaz": (
        MLP,
        {"every": 1},
        2 * (FORWARD + BACKWARD + 4 * FORWARD + 3 * BACKWARD - 64 - 128 + 10 * FORWARD),
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_training_has_the_operations_of_the_page(name: str) -> None:
    architecture, options, expected = OPERATIONS[name]
    assert flops(name, architecture, **options) == expected
