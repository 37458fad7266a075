"""The clients of a view as the table's rows, and what is to be remarked on each."""

import numpy as np

from simulator.analysis.clients import change, incidents
from tui.app.drawing.figure import KEYS
from tui.app.view import View
from tui.app.widgets import ClientRow

TREND = 40  # rounds of which a sparkline tells


def keys(pinned: frozenset[int]) -> dict[int, str]:
    """The character that names each pinned client, in charts and tables alike."""
    return dict(zip(sorted(pinned), KEYS, strict=False))


def rows(view: View) -> list[ClientRow]:
    """Every client at the round shown."""
    curves, models = view.curves.upto(view.shown), view.run.models
    if not view.shown:
        return [ClientRow(client, model) for client, model in enumerate(models)]
    changes, names = change(curves), keys(view.pinned)
    seen = curves.accuracy[curves.evaluated[-TREND:] - 1]
    return [
        ClientRow(
            id=client,
            model=models[client],
            accuracy=_known(curves.accuracy[-1, client]),
            change=_known(changes[client]),
            up=float(curves.client_up[-1, client]),
            down=float(curves.client_down[-1, client]),
            history=seen[:, client].tolist(),
            pinned=client in view.pinned,
            key=names.get(client, ""),
        )
        for client in range(curves.clients)
    ]


def remarks(view: View, client: int) -> list[str]:
    """What happened to a client in the round shown, and what has happened before."""
    if not view.shown:
        return []
    now = incidents(view.run.records[view.shown - 1 : view.shown], client)
    before = incidents(view.run.records[: view.shown - 1], client)
    found = []
    if now.diverged:
        found.append("diverged: its loss is not finite")
    if now.dropped:
        found.append("dropped: its uplink was lost")
    if now.absent:
        found.append("took no part in this round")
    for about, rounds in (("diverged", before.diverged), ("was dropped", before.dropped)):
        if rounds:
            found.append(f"{about} in {len(rounds)} earlier rounds, last in round {rounds[-1]}")
    return found


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
