"""The clients of a view as the table's rows, and what is to be remarked on each."""

from collections.abc import Sequence

import numpy as np

from tui.app.curves import Array
from tui.app.drawing.figure import KEYS
from tui.app.panels.history import change, evaluated
from tui.app.view import View
from tui.app.widgets import ClientRow

TREND = 40  # rounds of which a sparkline tells


def keys(pinned: frozenset[int]) -> dict[int, str]:
    """The character that names each pinned client, in charts and tables alike."""
    return dict(zip(sorted(pinned), KEYS, strict=False))


def rows(view: View) -> list[ClientRow]:
    """Every client at the round shown."""
    curves, round = view.curves.upto(view.shown), view.shown
    if not round:
        return [ClientRow(client, model) for client, model in enumerate(view.run.models)]
    changes, models, names = change(curves, round), models_of(view), keys(view.pinned)
    seen = curves.accuracy[evaluated(curves)[-TREND:] - 1]
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


def models_of(view: View) -> Sequence[str]:
    """The architecture of every client that the ledger knows; "?" where the settings do not say."""
    models = view.run.models
    return models + ["?"] * (view.curves.clients - len(models))


def participation(view: View) -> Array:
    """[n, N] whether a client took part in a round, up to the one shown."""
    there = np.zeros((view.shown, view.curves.clients), bool)
    for row, record in enumerate(view.run.records[: view.shown]):
        there[row, record["participants"]] = True
    return there


def remarks(view: View, client: int) -> list[str]:
    """What happened to a client in the round shown, and what has happened before."""
    found = []
    record = view.record
    if record is not None:
        if client in record.get("diverged", ()):
            found.append("diverged: its loss is not finite")
        if client in record.get("dropped", ()):
            found.append("dropped: its uplink was lost")
        if client not in record["participants"]:
            found.append("took no part in this round")
    for about, key in (("diverged", "diverged"), ("was dropped", "dropped")):
        rounds = [
            record["round"]
            for record in view.run.records[: max(view.shown - 1, 0)]
            if client in record.get(key, ())
        ]
        if rounds:
            found.append(f"{about} in {len(rounds)} earlier rounds, last in round {rounds[-1]}")
    return found


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
