"""The finished clients of an unfinished round, as they are kept in the session and taken up again."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from checkpoints import SessionUnreadable, Store, UnfinishedRound
from simulator.engine import State
from simulator.federation import Federation
from simulator.runners.base import LocalUpdate
from simulator.sessions.states import specs


def save(
    store: Store, round: int, history: Sequence[Mapping[str, Any]], updates: Sequence[LocalUpdate]
) -> None:
    """Keep these updates of a round; whoever diverged is trained again. Raises DiskError."""
    states, notes = {}, {}
    for update in updates:
        if update.diverged is None:
            client = update.client.id
            states[f"client/{client}/state"] = store.put(update.tensors)
            states[f"client/{client}/uplink"] = store.put(update.uplink)
            losses = list(
                map(list, update.losses.items())
            )  # in order: sealed JSON sorts the keys of an object
            notes[str(client)] = {"losses": losses, "flops": update.flops}
    store.save_unfinished_round(round, {"history": list(history), "clients": notes}, states)


def load(
    store: Store, history: Sequence[Mapping[str, Any]], state: State, federation: Federation
) -> dict[int, LocalUpdate]:
    """The kept updates of the round after `state`, by client; none if the round is begun with other settings.

    A note that this program did not write is no reason to refuse the session: its clients are trained again.
    """
    unfinished = store.unfinished_round()
    try:
        if unfinished is None or unfinished.note["history"] != list(history):
            return {}
        return {
            int(number): _update(store, unfinished, int(number), note, state, federation)
            for number, note in unfinished.note["clients"].items()
        }
    except (SessionUnreadable, KeyError, TypeError, ValueError, IndexError, AttributeError) as fault:
        store.event(
            "warning", message=f"the finished clients of round {state.round + 1} are trained again: {fault}"
        )
        return {}


def _update(
    store: Store,
    unfinished: UnfinishedRound,
    client: int,
    note: Mapping[str, Any],
    state: State,
    federation: Federation,
) -> LocalUpdate:
    tensors = store.load_unfinished(unfinished, f"client/{client}/state", specs(state.clients[client]))
    uplink = store.load_unfinished(unfinished, f"client/{client}/uplink")
    device: torch.device = federation.device
    return LocalUpdate(
        client=federation.clients[client],
        tensors={name: tensor.to(device) for name, tensor in tensors.items()},
        uplink={name: tensor.to(device) for name, tensor in uplink.items()},
        losses=dict(note["losses"]),
        finite=True,
        flops=note["flops"],
    )
