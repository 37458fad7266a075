"""The clients of a view as a table's rows, with remarks on each."""

from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from simulator.metrics.significance import FEW
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.clients import (
    accuracy_changes,
    fell_most,
    incidents,
    listed_clients,
    lowest_client,
)
from simulator.results.analysis.costs import at_work
from simulator.results.analysis.ledger import Divergence
from simulator.results.analysis.run import Samples, tested
from tui.app.panels.base import SizedPanel
from tui.app.view import ClientPinned, ClientSelected, PanelWanted, View, ViewChanged
from tui.app.widgets import Table
from tui.app.widgets.table import AnyCell, Cell, Column, Rows, Tone, Trend, Value, by_columns
from tui.common.formatting import NONE, percent, points, size

TREND = 40  # rounds in a sparkline
FEW_MARK = "~"  # before an accuracy on fewer than FEW test samples
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
    names = [column.called for column in COLUMNS if column.sort]
    match sort:
        case (str(name), bool(descending)) if name in names:
            return name, descending
    return "accuracy", False


def follow(table: Table, view: View) -> None:
    """Put a table's cursor on the selected client. Without one, on the first row, which selects its client."""
    if view.client is not None:
        table.put_cursor(view.client)
    elif view.shown and table.rows:
        table.put_cursor(table.rows[0].key)
        if isinstance(table.selected, int):
            table.post_message(ClientSelected(table.selected))  # the cursor may have been there before


def rows(view: View) -> Rows:
    """The clients of `shown` at the round shown, by id."""
    curves, run, clients = view.curves.upto(view.shown), view.run, shown(view)
    samples = Samples.of(run)
    if not view.shown:
        doing = at_work(run)
        return rows_of(clients, run.models, samples=samples, doing=[doing[each] for each in clients if doing])
    accuracy, up, down = (
        each.after(curves.rounds) for each in (curves.accuracy, curves.client_up, curves.client_down)
    )
    rounds = curves.evaluated[-TREND:] - 1
    return rows_of(
        clients,
        run.models,
        *(each[clients] for each in (accuracy, accuracy_changes(curves), up, down)),
        histories=curves.accuracy.select(clients)[rounds].T,
        pinned=view.pinned,
        samples=samples,
    )


def shown(view: View) -> list[int]:
    """The clients in lists and charts: if there are more than a thousand, a thousand and the pinned ones."""
    clients = view.curves.clients or len(view.run.models)
    return listed_clients(clients, view.curves.participated.upto(view.shown).named, view.pinned)


def drawn(view: View) -> str:
    """The note that not all of them are shown."""
    return ", a sample of those that took part" if len(shown(view)) < view.curves.clients else ""


def rows_of(
    clients: Sequence[int],
    models: Sequence[str],
    accuracy: Array | None = None,
    change: Array | None = None,
    up: Array | None = None,
    down: Array | None = None,
    *,
    histories: Array | None = None,
    pinned: Collection[int] = (),
    samples: Samples | None = None,
    doing: Sequence[str] = (),
) -> Rows:
    """The rows of n clients, whose numbers are in the same order; None: there are none yet.

    models, samples: of all clients. accuracy, change [n]: 0…1, NaN = none. up, down [n]: bytes. histories [n, rounds]:
    accuracies. doing [n]: replaces the first accuracy. An accuracy on few test samples is gray, after a "~".
    """
    none = np.full(len(clients), np.nan)
    reached, changes, sent, received = (
        none if each is None else each for each in (accuracy, change, up, down)
    )
    few = none > 0 if samples is None else samples.test[clients] < FEW
    seen = ~few & (np.abs(changes) >= SEEN)
    names, marks = [models[client] for client in clients], ["●" if each in pinned else "" for each in clients]
    words = doing or [""] * len(clients)

    def reach(place: int, text: str) -> Cell:
        if words[place]:
            return Cell(words[place], doing_tone(words[place]))
        if few[place]:
            return Cell(FEW_MARK * (text != NONE) + text, "muted")
        return Cell(text, "strong")

    def change_tone(place: int) -> Tone:
        return ("gain" if changes[place] > 0 else "loss") if seen[place] else "muted"

    moves = each_once(points, changes)
    recent = [()] * len(clients) if histories is None else [tuple(each) for each in histories.tolist()]
    columns: list[tuple[Sequence[AnyCell], Sequence[Value]]] = [
        (marks, [float(bool(mark)) for mark in marks]),
        (list(map(str, clients)), clients),
        (names, [name.casefold() for name in names]),
        ([reach(*each) for each in enumerate(each_once(percent, reached))], reached.tolist()),
        ([Cell(text, change_tone(place)) for place, text in enumerate(moves)], changes.tolist()),
        *_data_columns(clients, samples),
        (each_once(size, sent), sent.tolist()),
        (each_once(size, received), received.tolist()),
        ([Trend(each) for each in recent], ()),
    ]
    about = zip(clients, names, marks, strict=True)
    return by_columns(
        clients, columns, [f"{client} {name} {'pinned' * bool(mark)}" for client, name, mark in about]
    )


def _data_columns(
    clients: Sequence[int], samples: Samples | None
) -> list[tuple[Sequence[AnyCell], Sequence[Value]]]:
    """The test and training samples, and the histogram of classes."""
    if samples is None:
        none = [""] * len(clients)
        return [(none, ()), (none, ()), ([Trend((), width=0)] * len(clients), ())]
    test, train = samples.test[clients].tolist(), samples.train[clients]
    total, held = train.sum(axis=1).tolist(), np.where(train > 0, train, np.nan).tolist()
    tops, width = train.max(axis=1, initial=1).tolist(), min(train.shape[1], CLASSES)
    classes = [Trend(tuple(each), float(top), width) for each, top in zip(held, tops, strict=True)]
    return [(list(map(str, test)), test), (list(map(str, total)), total), (classes, ())]


def each_once(write: Callable[[float], str], values: Array) -> list[str]:
    """The texts of values, each of which is written once."""
    different, places = np.unique(values, return_inverse=True)
    texts = [write(value) for value in different.tolist()]
    return [texts[place] for place in places.tolist()]


def doing_tone(word: str) -> Tone:
    """The color of a client's place in the round: running ones stand out."""
    return "highlight" if word == "training" else "muted"


def diverged(view: View) -> str:
    """The number of clients that diverged up to the round shown; "" if none did."""
    found = Divergence.of(view.run.totals, view.shown)
    return f", {found.clients} diverged in {found.rounds} round{'s' * (found.rounds > 1)}" if found else ""


def behind(view: View) -> str:
    """The worst client at the round shown, and the one with the clearest drop; "" before the first evaluation."""
    curves, models, samples = view.curves.upto(view.shown), view.run.models, tested(view.run, view.shown)
    said = []
    if (worst := lowest_client(curves)) is not None:
        client, accuracy = worst
        correct = _correct(client, accuracy, samples)
        said.append(f"worst {client} {models[client]} {percent(accuracy)}{correct}")
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
    found = ["diverged: its loss is not finite"] if now.diverged else []
    found += ["dropped: its update was lost"] if now.dropped else []
    found += ["did not take part in this round"] if now.absent else []
    for about, rounds in (("diverged", before.diverged), ("was dropped", before.dropped)):
        if rounds:
            found.append(f"{about} in {len(rounds)} earlier rounds, most recently in round {rounds[-1]}")
    return found


class ClientTable(SizedPanel):
    """A panel with a table of clients, and the keys for it."""

    SHARES_ORDER: ClassVar[bool] = True
    """Whether its order is that of the clients in other panels."""
    OPENS: ClassVar[str] = "clients"
    """The panel that Enter on a client leads to."""
    _table: Table

    def draw_table(self, view: View) -> int:
        """Show the rows of `rows` in the view's order. Returns the number of clients, listed or not."""
        begins = None if view.curves.rounds else view.run.progress
        if self.differs("clients", view.curves, view.run.config, view.pinned, view.shown, begins):
            self._table.show(rows(view))
        if self._table.sort != view.sort:
            self._table.sort_by(*view.sort)
        self._table.filter(view.filter)
        follow(self._table, view)
        return view.curves.clients or len(view.run.models)

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        key = message.key  # of an older message, if the cursor has moved on since
        if message.table is self._table and key == self._table.selected and isinstance(key, int):
            self.post_message(ClientSelected(key))

    def on_table_chosen(self, message: Table.Chosen) -> None:
        if message.table is self._table:
            self.post_message(PanelWanted(self.OPENS))

    def action_pin(self) -> None:
        """Pin the client under the cursor."""
        if isinstance(self._table.selected, int):
            self.post_message(ClientPinned(self._table.selected))

    def action_sort(self) -> None:
        """Sort by the next column."""
        self._table.cycle_sort()

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._table.reverse_sort()

    def on_table_sorted(self, message: Table.Sorted) -> None:
        if self.SHARES_ORDER:
            self.post_message(ViewChanged({"sort": self._table.sort}))
