"""The ledger's figures of a round's training: losses, seconds and operations."""

from typing import Any

from simulator.base.record import Flops, Loss, Record
from simulator.metrics import by_client
from simulator.runners.base import LocalUpdate
from simulator.training.phase import CROSS_ENTROPY


def losses(updates: list[LocalUpdate], clients: int | None, before: Record | None) -> Loss:
    """Mean training loss of each participant's first phase; null where it took no part, diverged or had no phase.

    The cross-entropy is the mean over the clients that recorded it. A session whose record `before` has none, because
    it is older, continues without.
    """
    sound = [update for update in updates if not update.diverged]
    firsts = {update.client.id: next(iter(update.losses.values()), None) for update in sound}
    known = {client: loss for client, loss in firsts.items() if loss is not None}
    plain = [update.losses[CROSS_ENTROPY] for update in sound if CROSS_ENTROPY in update.losses]
    found: Loss = {
        "mean": sum(known.values()) / len(known) if known else None,
        "per_client": by_client.written(known, clients),
    }
    if before is None or "cross_entropy" in before["loss"]:
        found["cross_entropy"] = sum(plain) / len(plain) if plain else None
    return found


def seconds(updates: list[LocalUpdate], clients: int | None) -> list[Any] | dict[str, Any]:
    """What each participant's update took; null for who took no part, and where an earlier program computed it."""
    known = {update.client.id: round(update.seconds, 4) for update in updates if update.seconds is not None}
    return by_client.written(known, clients)


def phase_losses(updates: list[LocalUpdate]) -> dict[str, float]:
    """The mean loss of every phase after a client's first, which the ledger has no other place for.

    Clients may have different phases. A mean is over those that have the phase.
    """
    found: dict[str, list[float]] = {}
    for update in updates:
        for phase in list(update.losses)[1:]:
            if phase == CROSS_ENTROPY:
                continue
            found.setdefault(f"{phase}_loss", []).append(update.losses[phase])
    return {name: sum(losses) / len(losses) for name, losses in found.items()}


def operations(clients: int, server: int) -> Flops:
    """Floating-point operations of training in this round; evaluation is not counted."""
    return {"clients": clients, "server": server, "total": clients + server}
