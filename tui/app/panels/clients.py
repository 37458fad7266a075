"""The clients of a view as a table's rows, with remarks on each, and the Clients panel."""

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from textual.containers import Vertical

from simulator.base.sections import PARTS
from simulator.metrics.significance import FEW
from simulator.results.analysis import clients as client_values
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.costs import at_work
from simulator.results.analysis.ledger import Divergence
from simulator.results.analysis.measures import client_on_part, part_measures
from simulator.results.analysis.run import Samples, tested
from tui.app.charts.chart import Figure, Series
from tui.app.panels import base
from tui.app.view import ClientPinned, ClientSelected, PanelWanted, View, ViewChanged
from tui.app.widgets import Cell, Column, LineChart, Table, Trend
from tui.app.widgets.screen import room
from tui.app.widgets.table import AnyCell, Rows, Tone, Value, by_columns
from tui.common.cells import cell_count
from tui.common.formatting import NONE, number, percent, points, size

TREND = 40  # rounds in a sparkline
FEW_MARK = "~"  # before an accuracy on fewer than FEW test samples
CLASSES = 20  # maximum cells of a client's classes; with more classes, neighbors share a cell
SEEN = 0.0005  # the smallest change of accuracy that is shown as a change
CLASS_LINES = 2  # lines for the classes of a client

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
    match sort:
        case (str(name), bool(descending)) if name in [column.called for column in COLUMNS if column.sort]:
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
    """The rows of the clients listed. Before the first round, they say where each client is.

    An accuracy on few test samples is gray, after a "~".
    """
    curves, models, clients = view.curves.upto(view.shown), view.run.models, listed(view)
    samples, doing = Samples.of(view.run), () if view.shown else at_work(view.run)
    none = np.full(len(clients), np.nan)
    reached, changes, sent, received = none, none, none, none
    recent: list[tuple[float, ...]] = [()] * len(clients)
    if view.shown:
        sources = curves.accuracy, curves.client_up, curves.client_down
        reached, sent, received = (each.after(curves.rounds)[clients] for each in sources)
        changes = client_values.accuracy_changes(curves)[clients]
        histories = curves.accuracy.select(clients)[curves.evaluated[-TREND:] - 1].T
        recent = [tuple(each) for each in histories.tolist()]
    few = none > 0 if samples is None else samples.test[clients] < FEW
    seen = ~few & (np.abs(changes) >= SEEN)
    names, pinned = [models[client] for client in clients], view.pinned if view.shown else ()
    marks = ["●" if client in pinned else "" for client in clients]

    def reach(place: int, text: str) -> Cell:
        if doing and (word := doing[clients[place]]):
            return Cell(word, doing_tone(word))
        if few[place]:
            return Cell(FEW_MARK * (text != NONE) + text, "muted")
        return Cell(text, "strong")

    def moved(place: int, text: str) -> Cell:
        return Cell(text, ("gain" if changes[place] > 0 else "loss") if seen[place] else "muted")

    data: list[tuple[Sequence[AnyCell], Sequence[Value]]] = [([""] * len(clients), ())] * 2
    data.append(([Trend((), width=0)] * len(clients), ()))
    if samples is not None:  # test and training samples, and the histogram of classes
        test, train = samples.test[clients].tolist(), samples.train[clients]
        total, held = train.sum(axis=1).tolist(), np.where(train > 0, train, np.nan).tolist()
        tops, width = train.max(axis=1, initial=1).tolist(), min(train.shape[1], CLASSES)
        classes = [Trend(tuple(each), float(top), width) for each, top in zip(held, tops, strict=True)]
        data = [(list(map(str, test)), test), (list(map(str, total)), total), (classes, ())]
    columns: list[tuple[Sequence[AnyCell], Sequence[Value]]] = [
        (marks, [float(bool(mark)) for mark in marks]),
        (list(map(str, clients)), clients),
        (names, [name.casefold() for name in names]),
        ([reach(*each) for each in enumerate(each_once(percent, reached)[0])], reached.tolist()),
        ([moved(*each) for each in enumerate(each_once(points, changes)[0])], changes.tolist()),
        *data,
        each_once(size, sent),
        each_once(size, received),
        ([Trend(each) for each in recent], ()),
    ]
    about = zip(clients, names, marks, strict=True)
    words = [f"{client} {name} {'pinned' * bool(mark)}" for client, name, mark in about]
    return by_columns(clients, columns, words)


def each_once(write: Callable[[float], str], values: Array) -> tuple[list[str], list[float]]:
    """The texts of values, each of which is written once, and the values."""
    different, places = np.unique(values, return_inverse=True)
    texts = [write(value) for value in different.tolist()]
    return [texts[place] for place in places.tolist()], values.tolist()


def listed(view: View) -> list[int]:
    """The clients in lists and charts: if there are more than a thousand, a thousand and the pinned ones."""
    clients = view.curves.clients or len(view.run.models)
    return client_values.listed_clients(clients, view.curves.participated.upto(view.shown).named, view.pinned)


def sampled(view: View) -> str:
    """The note that not all of them are listed."""
    return ", a sample of those that took part" if len(listed(view)) < view.curves.clients else ""


def doing_tone(word: str) -> Tone:
    return "highlight" if word == "training" else "muted"


def diverged(view: View) -> str:
    """The number of clients that diverged up to the round shown; "" if none did."""
    found = Divergence.of(view.run.totals, view.shown)
    return f", {found.clients} diverged in {found.rounds} round{'s' * (found.rounds > 1)}" if found else ""


def behind(view: View) -> str:
    """The worst client at the round shown, and the one with the clearest drop; "" before the first evaluation."""
    curves, models, samples = view.curves.upto(view.shown), view.run.models, tested(view.run, view.shown)
    said = []
    if (worst := client_values.lowest_client(curves)) is not None:
        client, accuracy = worst
        correct = _correct(client, accuracy, samples)
        said.append(f"worst {client} {models[client]} {percent(accuracy)}{correct}")
    if (fallen := client_values.fell_most(curves, samples)) is not None:
        client, by = fallen
        now = _correct(client, float(curves.accuracy.after(curves.rounds)[client]), samples)
        drop = "largest" if samples is None else "clearest"
        said.append(f"{drop} drop: client {client}, {points(by)} pp{now}")
    return " · ".join(said)


def _correct(client: int, accuracy: float, samples: NDArray[np.int64] | None) -> str:
    """How many test samples of a client are correct, where their number is known."""
    return "" if samples is None else f" ({accuracy * samples[client]:.0f} of {samples[client]})"


def remarks(view: View, client: int) -> list[str]:
    if not view.shown:
        return []
    now = client_values.incidents(view.run.records[view.shown - 1 : view.shown], client)
    before = client_values.incidents(view.run.records[: view.shown - 1], client)
    found = ["diverged: its loss is not finite"] if now.diverged else []
    found += ["dropped: its update was lost"] if now.dropped else []
    found += ["did not take part in this round"] if now.absent else []
    for about, rounds in (("diverged", before.diverged), ("was dropped", before.dropped)):
        if rounds:
            found.append(f"{about} in {len(rounds)} earlier rounds, most recently in round {rounds[-1]}")
    return found


class ClientTable(base.SizedPanel):
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
        if isinstance(self._table.selected, int):
            self.post_message(ClientPinned(self._table.selected))

    def action_sort(self) -> None:
        self._table.cycle_sort()

    def action_reverse(self) -> None:
        self._table.reverse_sort()

    def on_table_sorted(self, message: Table.Sorted) -> None:
        if self.SHARES_ORDER:
            self.post_message(ViewChanged({"sort": self._table.sort}))


class ClientsPanel(ClientTable):
    """All clients, and one of them in detail."""

    OPENS = "similarity"
    DEFAULT_CSS = """
    ClientsPanel { layout: horizontal; }
    ClientsPanel > .one { width: 36; margin-left: 1; }
    ClientsPanel .loss { display: none; }
    ClientsPanel .facts { height: 10; }
    ClientsPanel.-wide > .one { width: 1fr; }
    ClientsPanel.-tall .loss { display: block; }
    ClientsPanel.-tall .facts { height: 15; }
    ClientsPanel.-few { layout: vertical; }
    ClientsPanel.-few > .one { layout: horizontal; margin-left: 0; }
    ClientsPanel.-few .facts { width: 40; height: 1fr; }
    ClientsPanel.-few .loss, ClientsPanel.-few .facts { margin-left: 1; }
    ClientsPanel.-few.-full .facts { width: 60; }
    ClientsPanel.-empty .loss { display: none; }
    """

    def __init__(self, id: str) -> None:
        self._table = Table(COLUMNS, cursor=True, sort="accuracy")
        self._accuracy, self._loss, self._facts = LineChart(), LineChart(), base.Facts()
        self._parts = {
            "clients": base.Part("clients", self._table),
            "accuracy": base.Part("accuracy", self._accuracy),
            "loss": base.Part("training loss", self._loss, classes="loss"),
            "facts": base.Part("client", self._facts, classes="facts"),
        }
        clients, *one = self._parts.values()
        self._room = Vertical(clients)  # not the part's own height, because z makes it the screen's
        super().__init__(id, self._room, Vertical(*one, classes="one"))

    def draw(self, view: View) -> None:
        count = view.curves.clients or len(view.run.models)
        few = self.has_class("-wide") and count + 2 < room(self).height // 2
        if few != self.has_class("-few"):  # a client's parts are below the table, in the room that it leaves
            self.set_class(few, "-few")
            self.call_after_refresh(self.redraw)  # once they have their new sizes
        base.at_most(self._room, count + 2 if few else None)
        self.draw_table(view)
        shown = len(self._table.rows)
        column, descending = self._table.sort
        order = f"by {column}, {'descending' if descending else 'ascending'}"
        if column == "accuracy":
            order = "best first" if descending else "worst first"
        some = f"{shown} of {count} clients" if shown != count else f"{count} clients"
        brief, samples, lost = some.removesuffix(" clients"), Samples.of(view.run), diverged(view)
        judged = samples is None or not (samples.test < FEW).any()
        note = "" if judged else f"; {FEW_MARK} on fewer than {FEW} test samples"
        whole, part = f"{some}{sampled(view)}, {order}{lost}", self._parts["clients"]
        part.caption(whole + note, whole, f"{brief}, {order}{lost}", f"{brief}{lost}", brief)
        part.say(None if shown or not count else base.no_match("client"))
        self._draw_client(view)

    def _draw_client(self, view: View) -> None:
        client, width = self._table.selected, room(self._facts).width
        facts = (view.curves, client, view.round, width, view.run.config, view.run.error)
        if not self.differs("client", *facts):
            return
        sentence = None if isinstance(client, int) else "Select a client in the table."
        if not view.curves.rounds:
            sentence = base.unread(view) or base.BEGINNING
        self._parts["accuracy"].say(sentence)
        self.set_class(sentence is not None, "-empty")
        self._parts["facts"].display = isinstance(client, int)
        if not isinstance(client, int):
            return
        after = f" after round {view.shown}" if view.shown else ""
        self._parts["facts"].caption(f"client {client}{after}")
        self._facts.tell(facts_of(view, client, width - base.NAMES))
        if sentence is None:
            self._draw_curves(view, client)

    def _draw_curves(self, view: View, client: int) -> None:
        curves, rounds = view.curves, view.curves.evaluated
        x, own = rounds.astype(float), curves.accuracy.of(client)[rounds - 1] * base.PERCENT
        series = [
            Series(view.run.models[client], own, x, pinned=True, key=str(client)),
            Series("mean", curves["accuracy"][rounds - 1] * base.PERCENT, x, key="m"),
        ]
        scale, milestones = (0.0, base.PERCENT), base.marks(view.run)
        self._accuracy.show(Figure(series, None, milestones, "round", "%", y_range=scale, over="rounds"))
        losses = [base.by_round("training loss", "l", curves.loss.of(client))]
        for part in PARTS:
            own = client_on_part(view.run.records, part, "loss", client)
            losses += [base.by_round(f"{part} loss", part[0], own)] * bool(np.isfinite(own).any())
        self._parts["loss"].caption(" and ".join(each.name for each in losses), "losses")
        self._loss.show(Figure(losses, x_label="round", over="rounds"))

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        if self._view is not None:
            self._draw_client(self._view)

    def idle(self, view: View) -> Sequence[str]:
        return () if view.run.models else ("pin", "sort", "reverse")

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """One row per client, in the order shown."""
        curves, samples = view.curves.upto(view.shown), Samples.of(view.run)
        shown = [row.key for row in self._table.rows if isinstance(row.key, int) and curves.rounds]
        columns = ["client", "model", "accuracy", "best", "loss", "up", "down"]
        columns += ["up_total", "down_total", "rounds"]
        if samples is not None:
            columns += ["test_samples", "train_samples", *(f"train {name}" for name in samples.classes)]
        if not shown:
            return columns, []
        accuracy, up, down = curves.accuracy.select(shown).T, curves.client_up, curves.client_down
        now = (each.after(curves.rounds)[shown] for each in (curves.loss, up, down))
        totals = (each.totals()[shown] for each in (up, down, curves.participated))
        loss, *counts = (*now, *totals)
        best = [client_values.best_round(own)[0] for own in accuracy]
        models = [view.run.models[each] for each in shown]
        values: list[base.Values] = [shown, models, accuracy[:, -1], best, loss]
        values += [each.astype(int) for each in counts]
        if samples is not None:
            train = samples.train[shown]
            values += [samples.test[shown], train.sum(axis=1), *train.T]
        return base.by_column(dict(zip(columns, values, strict=True)))


def facts_of(view: View, client: int, width: int) -> list[tuple[str, str]]:
    """The facts of a client at the round shown; before the first round, its model and its data."""
    curves, samples = view.curves.upto(view.shown), Samples.of(view.run)
    records = view.run.records[: view.shown]
    if not view.shown:
        return [("model", view.run.models[client]), *_data(samples, client, width)]
    accuracy = curves.accuracy.of(client)
    up, down = curves.client_up.of(client), curves.client_down.of(client)
    rounds = int(curves.participated.of(client).sum())
    losses = [f"training {number(curves.loss.of(client)[-1])}"]
    for part in PARTS:
        if np.isfinite(value := client_on_part(records, part, "loss", client)[-1]):
            losses.append(f"{part} {number(value)}")
    facts = [
        ("model", view.run.models[client]),
        ("accuracy", f"{percent(accuracy[-1])}, best {base.at_best(accuracy)}"),
        *_data(samples, client, width),
        ("loss", ", ".join(losses)),
        ("up", f"{size(up[-1])}, {size(up.sum())} total"),
        ("down", f"{size(down[-1])}, {size(down.sum())} total"),
        ("rounds", f"took part in {rounds} of {view.shown}"),
    ]
    for measure in part_measures(records):
        value = client_on_part(records, "test", measure, client)[-1]
        if measure != "loss" and np.isfinite(value):
            facts.append((base.titled(measure), percent(value) if measure == "f1" else number(value)))
    return facts + [("remark", remark) for remark in remarks(view, client)]


def _data(samples: Samples | None, client: int, width: int) -> list[tuple[str, str]]:
    """Its data, and its classes, the most frequent first: as many as fit."""
    if samples is None:
        return []
    few, shown, cells = ": few" if samples.few(client) else "", "", width * CLASS_LINES
    texts = [f"{name} ×{count}" for name, count in samples.largest(client)]
    for kept in range(min(len(texts), max(cells // len("1 ×1, "), 1)), 0, -1):
        rest = len(texts) - kept  # counted by the last words
        shown = ", ".join([*texts[:kept], *[f"{rest} more"] * bool(rest)])
        if cell_count(shown) <= cells:
            break
    data = f"{samples.train[client].sum()} train, {samples.test[client]} test{few}"
    return [("data", data), ("classes", shown)]
