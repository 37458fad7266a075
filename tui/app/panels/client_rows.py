"""The clients of a view as a table's rows, with remarks on each."""

import numpy as np
from numpy.typing import NDArray
from textual.widget import Widget

from htfl_sim.analysis import (
    FEW,
    Samples,
    accuracy_changes,
    at_work,
    fell_most,
    incidents,
    listed_clients,
    lowest_client,
    tested,
    worst_rank,
)
from tui.app.charts.table import Cell, Column, Row, Tone, Trend
from tui.app.messages import ClientSelected
from tui.app.view import View
from tui.app.widgets import Table
from tui.common.formatting import percent, points, size

TREND = 40  # rounds in a sparkline
CLASSES = 20  # maximum cells of a client's classes; with more classes, neighbors share a cell
SEEN = 0.0005  # the smallest change of accuracy that is shown as a change

COLUMNS = (
    Column("", name="pinned", worth=9, least=1, tone="highlight", sort="falling"),
    Column("id", numeric=True, worth=11, least=3, sort="rising"),
    Column("model", names=True, worth=6, least=5, most=14, tone="muted", sort="rising"),
    Column("acc", name="accuracy", numeric=True, worth=10, least=6, tone="strong", sort="rising"),
    Column("+/-", name="change", numeric=True, worth=8, least=5, tone="muted", sort="falling"),
    Column("test", numeric=True, worth=7, tone="muted", sort="rising"),
    Column("train", numeric=True, worth=3, tone="muted", sort="rising"),
    Column("classes", stretch=True, worth=5, least=7),
    Column("up", numeric=True, worth=2, tone="muted", sort="falling"),
    Column("down", numeric=True, worth=1, tone="muted", sort="falling"),
    Column("trend", stretch=True, worth=4, least=5),
)


def known(sort: tuple[object, ...]) -> tuple[str, bool]:
    """The saved column to sort by, and whether from high to low. If it is invalid, the worst come first."""
    names = [column.name or column.title for column in COLUMNS if column.sort]
    match sort:
        case (str(name), bool(descending)) if name in names:
            return name, descending
    return "accuracy", False


def follow(table: Table, view: View) -> None:
    """Put a table's cursor on the selected client. Without one, on the first row, the worst."""
    if view.client is not None:
        table.put_cursor(view.client)
    elif view.shown and table.rows:
        table.put_cursor(table.rows[0].key)


def tell(panel: Widget, message: Table.CursorMoved, table: Table) -> None:
    """Report the client under a table's cursor, unless the cursor has moved on since."""
    if isinstance(message.key, int) and message.key == table.selected:
        panel.post_message(ClientSelected(message.key))


def rows(view: View) -> list[Row]:
    """The clients of `shown` at the round shown, by id."""
    curves, models, samples = view.curves.upto(view.shown), view.run.models, Samples.of(view.run)
    if not view.shown:
        doing = at_work(view.run) or [""] * len(models)
        return [
            client_row(
                client, models[client], np.nan, np.nan, None, None, (), samples=samples, doing=doing[client]
            )
            for client in shown(view)
        ]
    clients, changes = shown(view), accuracy_changes(curves)
    accuracy, up, down = (
        each.after(curves.rounds) for each in (curves.accuracy, curves.client_up, curves.client_down)
    )
    rank = worst_rank(accuracy, tested(view.run, view.shown))
    rank = rank if np.isfinite(rank).any() else accuracy  # every client has too few samples
    trends = curves.accuracy.select(clients)[curves.evaluated[-TREND:] - 1].T.tolist()
    return [
        client_row(
            client,
            models[client],
            float(accuracy[client]),
            float(changes[client]),
            float(up[client]),
            float(down[client]),
            tuple(trend),
            "●" if client in view.pinned else "",
            samples,
            rank=float(rank[client]),
        )
        for client, trend in zip(clients, trends, strict=True)
    ]


def shown(view: View) -> list[int]:
    """The clients in lists and charts: if there are more than a thousand, a thousand and the pinned ones."""
    clients = view.curves.clients or len(view.run.models)
    return listed_clients(clients, view.curves.participated.upto(view.shown).named, view.pinned)


def drawn(view: View) -> str:
    """The note that not all of them are shown."""
    return ", a sample of those that took part" if len(shown(view)) < view.curves.clients else ""


def client_row(
    client: int,
    model: str,
    accuracy: float,
    change: float,
    up: float | None,
    down: float | None,
    history: tuple[float, ...],
    pinned: str = "",
    samples: Samples | None = None,
    doing: str = "",
    rank: float | None = None,
) -> Row:
    """A client's row.

    accuracy, change: 0…1, NaN = none; up, down: bytes; pinned: the mark of a pinned client; doing: replaces its first
    accuracy; rank: its place among the accuracies, NaN = last; None: the accuracy. An accuracy on few test samples is
    gray.
    """
    few = samples is not None and samples.few(client)
    tone: Tone = "muted" if few or not abs(change) >= SEEN else "gain" if change > 0 else "loss"
    reached = (
        Cell(doing, doing_tone(doing)) if doing else Cell(percent(accuracy), "muted" if few else "strong")
    )
    test, train, strip = "", "", Trend((), width=0)
    test_count, trained = None, None
    if samples is not None:
        counts = samples.train[client]
        test_count, trained = int(samples.test[client]), int(counts.sum())
        test, train = str(test_count), str(trained)
        held = tuple(np.where(counts > 0, counts, np.nan).tolist())
        strip = Trend(held, float(counts.max(initial=1)), min(len(counts), CLASSES))
    texts = (pinned, str(client), model, reached, Cell(points(change), tone), test, train)
    standing = accuracy if rank is None else rank
    values = (float(bool(pinned)), client, model.casefold(), standing, change, test_count, trained)
    search = f"{client} {model} {'pinned' if pinned else ''}"
    return Row(
        client,
        (*texts, strip, size(up), size(down), Trend(history)),
        values=(*values, None, up, down, None),
        search=search,
    )


def doing_tone(word: str) -> Tone:
    """The color of a client's place in the round: running ones stand out."""
    return "highlight" if word == "training" else "muted"


def behind(view: View) -> str:
    """The worst client at the round shown, and the one with the clearest drop; "" before the first evaluation.

    If the test samples are known, both have their correct ones, and clients with fewer than FEW are left out.
    """
    curves, models, samples = view.curves.upto(view.shown), view.run.models, tested(view.run, view.shown)
    if samples is not None and (samples < FEW).all():
        return f"every client has fewer than {FEW} test samples" if view.shown else ""
    said = []
    if (worst := lowest_client(curves, samples)) is not None:
        client, accuracy = worst
        said.append(
            f"worst {client} {models[client]} {percent(accuracy)}{_correct(client, accuracy, samples)}"
        )
    if (fallen := fell_most(curves, samples)) is not None:
        client, by = fallen
        now = _correct(client, float(curves.accuracy.after(curves.rounds)[client]), samples)
        drop = "largest" if samples is None else "clearest"
        said.append(f"{drop} drop: client {client}, {points(by)} pp{now}")
    return " · ".join(said)


def _correct(client: int, accuracy: float, samples: NDArray[np.int64] | None) -> str:
    """How many test samples of a client are correct, where their number is known."""
    return "" if samples is None else f" ({accuracy * samples[client]:.0f} of {samples[client]})"


def remarks(view: View, client: int) -> list[str]:
    """Events of a client in the round shown, and earlier ones."""
    if not view.shown:
        return []
    now = incidents(view.run.records[view.shown - 1 : view.shown], client)
    before = incidents(view.run.records[: view.shown - 1], client)
    found = []
    if now.diverged:
        found.append("diverged: its loss is not finite")
    if now.dropped:
        found.append("dropped: its update was lost")
    if now.absent:
        found.append("did not take part in this round")
    for about, rounds in (("diverged", before.diverged), ("was dropped", before.dropped)):
        if rounds:
            found.append(f"{about} in {len(rounds)} earlier rounds, most recently in round {rounds[-1]}")
    return found
