"""An unfinished round whose files are sealed and in order, and whose uplinks are not this round's: computed again."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

import checkpoints
from checkpoints.objects import ObjectWriter
from checkpoints.schema import seal, unseal
from simulator import methods
from simulator.engine.progress import ClientTrained, Event
from simulator.sessions import states
from simulator.sessions.session import Session
from simulator.sessions.states import uplink_specs
from tests import federations

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("generated_images")]

CONFIG = federations.config("fedgh", rounds=2)
PARTIAL = "partial/000002.json"
Tensors = dict[str, Tensor]


def filled(tensor: Tensor) -> Tensor:
    return torch.full_like(tensor, torch.nan) if tensor.is_floating_point() else tensor


WRONG: dict[str, Callable[[Tensors], Tensors]] = {
    "uplink, renamed": lambda tensors: {f"other/{name}": each for name, each in tensors.items()},
    "uplink, reshaped": lambda tensors: {name: torch.stack([each, each]) for name, each in tensors.items()},
    "uplink, of other numbers": lambda tensors: {name: each.double() for name, each in tensors.items()},
    "uplink, not finite": lambda tensors: {name: filled(each) for name, each in tensors.items()},
    "state, reshaped": lambda tensors: {name: torch.stack([each, each]) for name, each in tensors.items()},
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_uplink_is_computed_again(tmp_path: Path, what: str) -> None:
    part, change = what.split(",")[0], WRONG[what]
    session = federations.stopped(tmp_path / "s", CONFIG, round=2)
    note = unseal((session / PARTIAL).read_bytes(), PARTIAL)
    name = next(each for each in sorted(note["states"]) if each.endswith(part))
    sha256 = note["states"][name]["sha256"]
    kept = load((session / "objects" / sha256[:2] / f"{sha256}.safetensors").read_bytes())
    note["states"][name] = vars(ObjectWriter(session).put(change(kept)))
    (session / PARTIAL).write_bytes(seal(note))
    assert save(change(kept)) != save(kept)

    again: list[Event] = []
    Session.resume(session, tmp_path).run(again.append)
    assert sum(isinstance(event, ClientTrained) for event in again) == 3, (
        "all clients of the round, also those that were done"
    )
    said = [event["message"] for event in checkpoints.SessionReader(session).events() if "message" in event]
    assert [message for message in said if "clients of round 2 are trained again" in message] == said[-1:]
    Session.create(CONFIG, tmp_path / "alone", tmp_path).run()
    assert federations.committed(session) == federations.committed(tmp_path / "alone")


@pytest.mark.long
def test_what_a_client_sends_is_known_before_it_has_trained() -> None:
    """Of every method that is built in: else a stop would cost its finished clients."""
    unknown = []
    for method in methods.names():
        parts = federations.built(federations.config(method))
        state = federations.run(parts.engine, 1)
        for client in (0, 1):
            info = parts.federation.clients[client]
            payload = dict(parts.method.downlink(2, state.server, info))
            sent = federations.updated(parts, client, state.clients[client], payload, round=2).uplink
            if uplink_specs(client, state, parts) != states.specs(sent):
                unknown.append((method, client))
    assert unknown == []
