"""The Live panel: accuracy and other measures over the rounds, gains over the partner, and the parts beside them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from textual.containers import Container, Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import Static

from simulator.base.sections import PARTS
from simulator.results.analysis.clients import best_round
from simulator.results.analysis.costs import at_work
from simulator.results.analysis.ledger import NO_SCORE, CkaMeasurement, Divergence
from simulator.results.analysis.measures import part_means, part_measures
from simulator.results.figures.palette import OKABE_ITO
from tui.app.charts.chart import Band, Figure, Series
from tui.app.panels import base, gains, log
from tui.app.panels.clients import COLUMNS, ClientTable, behind, diverged, listed, sampled
from tui.app.panels.sessions import SessionList
from tui.app.view import ACCURACIES, GAIN, ClientSelected, SessionOpened, View, ViewChanged, in_sight
from tui.app.widgets import Heatmap, LineChart, Table
from tui.app.widgets.screen import glyphs_of, room
from tui.common.formatting import number, percent, size, spelled

MEAN = OKABE_ITO[0]


class AccuracyChart(Container):
    """The chart in `View.chart`'s mode, with the pinned clients on top."""

    DEFAULT_CSS = "AccuracyChart { width: 1fr; height: 1fr; }"

    def __init__(self) -> None:
        self._lines, self._map = LineChart(), Heatmap(axes=("client", "round"), decimals=1)
        self._map.display = False
        self.comparing = False
        """Whether the gains over the partner are shown as a map, in place of the chart."""
        self._rounds: NDArray[np.int_] = np.empty(0, int)
        self._column: int | None = None
        self._clients: list[int] = []
        super().__init__(self._lines, self._map)

    def show(self, view: View) -> None:
        self._map.display = self.comparing or view.mode == ACCURACIES[2]
        self._lines.display = not self._map.display
        if self._map.display:
            self._show_map(view)
        elif view.mode == GAIN:
            self._lines.show(gains.figure(view))
        elif view.mode in ACCURACIES:
            self._show_lines(view)
        else:
            self._lines.show(base.measures(view, view.mode))

    def _show_lines(self, view: View) -> None:
        curves, models, every = view.curves, view.run.models, view.mode == ACCURACIES[1]
        rounds = curves.evaluated
        mean, x = curves["accuracy"][rounds - 1] * base.PERCENT, rounds.astype(float)
        series = [Series("mean", mean, x, pinned=True, colour=MEAN, key="m")]
        series += gains.partner_mean(view)
        drawn = base.pinned(view)
        drawn += [client for client in listed(view) if client not in view.pinned] if every else []
        accuracy = curves.accuracy.select(drawn)[rounds - 1].T * base.PERCENT
        series += [
            Series(models[client], own, x, pinned=client in view.pinned, key=str(client))
            for client, own in zip(drawn, accuracy, strict=True)
        ]
        band = None
        if not every:
            low, high = curves.accuracy.by_round(gains.band_of)[rounds - 1].T * base.PERCENT
            band = Band(spelled(gains.BAND, glyphs_of(self)), low, high, x, colour=MEAN)
        marks = base.marks(view.run)
        self._lines.show(Figure(series, band, marks, "round", "%", crowd="clients", over="rounds"))

    def _show_map(self, view: View) -> None:
        if self.comparing:
            self._clients, self._rounds, found = gains.table(view)
            self._map.change(value_range=gains.reach(found), unit="pp", signed=True)
        else:
            self._clients, self._rounds = listed(view), view.curves.evaluated
            found = view.curves.accuracy.select(self._clients)[self._rounds - 1].T * base.PERCENT
            self._map.change(value_range=(0.0, base.PERCENT), unit="%", signed=False)
        self._map.show(found, [*map(str, self._clients)], [*map(str, self._rounds)])
        self._map.home = (_first_row(view), max(len(self._rounds) - 1, 0))

    def point(self, view: View) -> None:
        """Put the map's cursor in the view's column. The cursor of the lines is set with all others."""
        at = view.cursor()
        self._column = None if at is None else max(int((self._rounds <= at).sum()) - 1, 0)
        if not self._map.display:
            return
        row, _ = self._map.cursor or (_first_row(view), None)
        selected = self._clients.index(view.client) if view.client in self._clients else None
        self._map.change(marked=(selected, None))
        row = row if selected is None else selected
        if self._column is None:
            if self._map.cursor is not None:
                self._map.action_hide_cursor()
        elif (row, self._column) != self._map.cursor:
            self._map.put_cursor(row, self._column)

    def on_heatmap_cursor_moved(self, message: Heatmap.CursorMoved) -> None:
        """The crosshair and the selected client follow the map's cursor."""
        message.stop()  # its rows may be a part of the clients
        if message.cell != self._map.cursor:  # an older message, from before the cursor moved on
            return
        if message.cell is not None and self._map.has_focus:
            self.post_message(ClientSelected(self._clients[message.cell[0]]))
        column = message.cell and message.cell[1]
        if column != self._column:
            place = None if column is None else ("rounds", float(self._rounds[column]))
            self.post_message(ViewChanged({"crosshair": place}))


def _first_row(view: View) -> int:
    clients = listed(view)
    first = min(view.pinned, default=0) if view.client is None else view.client
    return clients.index(first) if first in clients else 0


UNMEASURED = (
    "CKA has not been measured yet. Press c to measure it now, or start the run with --set cka.every=5."
)
NOT_YET = "CKA of round {round} was not measured. Press c to compute it from the checkpoint."
NEVER_MEASURED = "CKA was not measured. Use --set cka.every=5 to measure it every fifth round."
FEW = 4  # running clients with a name
CROWD = 40  # from this many clients on, the matrix sorts similar clients next to each other if there is room


class LivePanel(ClientTable):
    """Accuracy and the log. If there is room, also the clients, the bytes, the similarity, and the other sessions."""

    DEFAULT_CSS = """
    LivePanel { layout: vertical; }
    LivePanel > .upper { height: 1fr; }
    LivePanel > .lower { height: 2; }
    LivePanel > .behind { height: 1; padding: 0 1; }
    LivePanel.-wide > .behind { display: none; }
    LivePanel.-wide.-paired > .behind { display: block; }
    LivePanel .side, LivePanel .trend, LivePanel .similarity, LivePanel .sessions { display: none; }
    LivePanel.-wide > .lower { height: 7; }
    LivePanel.-wide.-tall > .lower { height: 12; }
    LivePanel.-wide .side { display: block; width: 52; margin-left: 1; }
    LivePanel.-wide.-tall .similarity { display: block; }
    LivePanel.-unmeasured .similarity { height: 6; }
    LivePanel.-wide .trend { display: block; }
    LivePanel.-wide .log { margin-left: 1; }
    LivePanel.-full.-tall > .lower { height: 14; }
    LivePanel.-full .side { width: 66; }
    LivePanel.-full .sessions { display: block; width: 38; margin-left: 1; }
    """

    def __init__(self, id: str) -> None:
        self._accuracy = AccuracyChart()
        self._table = Table(COLUMNS, cursor=True, sort="accuracy")
        self._behind = Static(classes="behind", markup=False)
        self._trend = LineChart()
        self._map = Heatmap(value_range=(0.0, 1.0), axes=("client", "client"))
        self._log = Table(log.COLUMNS, follows=True)
        self._sessions = SessionList(brief=True)
        self._parts = {
            "accuracy": base.Part("accuracy", self._accuracy, classes="accuracy"),
            "clients": base.Part("clients", self._table, classes="clients"),
            "trend": base.Part("bytes per round", self._trend, classes="trend"),
            "similarity": base.Part("CKA", self._map, classes="similarity"),
            "log": base.Part("log", self._log, classes="log -bare"),
            "sessions": base.Part("sessions", self._sessions, classes="sessions"),
        }
        self._room = Vertical(self._parts["clients"])  # not the part's own height, because of z
        side = Vertical(self._room, self._parts["similarity"], classes="side")
        upper = Horizontal(self._parts["accuracy"], side, classes="upper")
        lower = Horizontal(*(self._parts[each] for each in ("trend", "log", "sessions")), classes="lower")
        super().__init__(id, upper, self._behind, lower)

    def draw(self, view: View) -> None:
        wide, full = self.has_class("-wide"), self.has_class("-full")
        found = view.cka
        self.set_class(found is None, "-unmeasured")
        self._parts["log"].set_class(not wide, "-bare")
        self._draw_accuracy(view)
        # One line per event if there are only two. One checkpoint per round would push out important events.
        width = room(self._log).width - 15 if wide else 1000
        if self.differs("log", view.run.events, view.run.outages, width, view.shown):
            self._log.show(log.lines(log.upto(view), width, routine=False))
        if wide:
            self._draw_clients(view)
            self._draw_trend(view)
            self._draw_similarity(view, found)
        if full:
            self._sessions.show_view(view)
            self._parts["sessions"].say("Reading sessions…" if self._sessions.found is None else None)

    def point(self, view: View) -> None:
        super().point(view)
        self._accuracy.point(view)

    def _draw_accuracy(self, view: View) -> None:
        run, begins = view.run, None if view.curves.rounds else view.run.progress
        about = (view.curves, run.error, run.config, run.events, run.checkpoints, view.pinned, view.chart)
        if not self.differs("accuracy", *about, view.round, view.pair, self._accuracy.comparing, begins):
            return
        part, comparing = self._parts["accuracy"], self._accuracy.comparing
        sentence = None if view.curves.rounds else view.run.error or beginning(view)
        if sentence is None and comparing:
            sentence = gains.missing(view)
        part.say(sentence)
        if view.record is None:
            part.caption("accuracy")
        else:
            part.caption(*((gains.caption(view),) if comparing else measured(view)))
            if sentence is None:
                self._accuracy.show(view)
        self._behind.update(spelled(self._below(view), glyphs_of(self)), layout=False)

    def _below(self, view: View) -> str:
        """The line under the charts: the worst client, and the gain over the partner if there is room for both."""
        width = room(self).width - 2
        gain = gains.line(view, width)
        self.set_class(bool(gain), "-paired")
        if self.has_class("-wide"):
            return gain
        worst = behind(view)
        both = " · ".join(filter(None, (worst, gains.line(view, max(width - len(worst) - 3, 0)))))
        return both if len(both) <= width else gain if self._accuracy.comparing else worst or gain

    def _draw_clients(self, view: View) -> None:
        count, shown = self.draw_table(view), len(self._table.rows)
        some = f"{shown} of {count} clients{sampled(view)}" if shown != count else f"{count} clients"
        self._parts["clients"].caption(some)
        base.at_most(self._room, max(count, 1) + 2)  # the matrix gets the room that it does not need
        nobody = base.no_match("client") if count else base.unread(view) or base.BEGINNING
        self._parts["clients"].say(None if shown else nobody)

    def _draw_trend(self, view: View) -> None:
        """Bytes by round. If they are equal in all rounds, a sentence shows them, and the chart shows the loss."""
        if not self.differs("trend", view.curves, view.round, base.unread(view)):
            return
        curves, record, part = view.curves, view.record, self._parts["trend"]
        part.say(None if curves.rounds else base.unread(view) or base.BEGINNING)
        if record is None:
            part.caption("bytes per round")
            return
        losses = base.measures(view, "loss", brief=True)
        if base.steady(curves) and losses.series:
            names, sent = [each.name for each in losses.series], base.in_each_round(record)
            part.caption(f"{' and '.join(names)}; {sent}", f"losses; {sent}", sent)
            self._trend.show(losses)
        elif base.silent(curves):
            part.caption("bytes per round")
            part.say(f"{base.in_each_round(record)}.")
        else:
            about = record["bytes"]
            part.caption(f"{size(about['up_total'])} up, {size(about['down_total'])} down in total")
            self._trend.show(base.traffic(curves["bytes_up"], curves["bytes_down"]))

    def _draw_similarity(self, view: View, found: CkaMeasurement | None) -> None:
        client, cursor = view.client, self._map.cursor
        compared = () if found is None else found.clients
        if cursor is not None and client in compared and cursor[0] != (row := compared.index(client)):
            self._map.put_cursor(row, cursor[1])
        said = _unmeasured(view) if found is None else None
        if not self.differs("similarity", found, said):
            return
        part = self._parts["similarity"]
        part.say(said)
        part.caption("CKA")
        if found is not None:
            layer, titles = found.layers[-1], base.named_clients(view.run, found.clients)
            part.caption(f"CKA of {layer}, round {found.round}: {number(found.mean(layer))}{found.whom}")
            self._map.cluster(self.has_class("-full") and len(found.clients) >= CROWD)
            names = list(map(str, found.clients))
            self._map.show(found.matrix(layer), names, names, titles=(titles, titles))

    def on_table_chosen(self, message: Table.Chosen) -> None:
        if message.table is self._sessions and self._sessions.folder is not None:
            self.post_message(SessionOpened(self._sessions.folder))

    def on_heatmap_cursor_moved(self, message: Heatmap.CursorMoved) -> None:
        # Not if `draw` has moved it, or if it has moved on since.
        if self._view is None or not message.heatmap.has_focus or message.cell != message.heatmap.cursor:
            return
        found = self._view.cka
        if message.cell is not None and found is not None:
            self.post_message(ClientSelected(found.clients[message.cell[0]]))

    def on_session_list_listed(self) -> None:
        self._parts["sessions"].say(None)
        self.call_after_refresh(self._sessions.show_cursor)  # it had no rows to scroll in

    def first(self) -> Widget | None:
        """The table whose cursor selects the client to pin."""
        return self._table if in_sight(self._table) else super().first()

    def idle(self, view: View) -> Sequence[str]:
        unseen = () if in_sight(self._table) else ("pin", "sort", "reverse")
        return unseen if view.run.round else (*unseen, "chart", "gain")

    def action_chart(self) -> None:
        """Show the next of the view's charts: accuracies, losses, F1, the user's own metrics."""
        if self._view is not None:
            self.post_message(ViewChanged({"chart": self._view.next_chart}))

    def action_gain(self) -> None:
        self._accuracy.comparing = not self._accuracy.comparing
        self.update()

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """One row per round: accuracies over clients, traffic, seconds, and the accuracy of each client shown."""
        clients, records = listed(view), view.run.records[: view.shown]
        found: dict[str, base.Values] = {}
        for name in ("round", "method"):
            found[name] = [each[name] for each in records]
        for share in ("mean", "weighted", "std", "min", "max", "best_mean"):
            title = {"mean": "accuracy", "best_mean": "best"}.get(share, share)
            found[title] = [record["accuracy"][share] for record in records]
        for way in ("up", "down", "up_total", "down_total"):
            found[way] = [record["bytes"][way] for record in records]
        found["seconds"] = [record["timing"]["seconds"] for record in records]
        found["training_loss"] = [record["loss"]["mean"] for record in records]
        for name in part_measures(records):
            found |= {f"{part}_{name}": part_means(records, part, name) for part in PARTS}
        own = view.curves.accuracy.select(clients)[: len(records)].T
        found |= {f"client {each}": of for each, of in zip(clients, own, strict=True)}
        return base.by_column(found)


def measured(view: View) -> tuple[str, ...]:
    """The captions of the accuracy chart in its mode, the longest first."""
    mode, rounds = view.mode, slice(view.shown)
    if mode == GAIN:
        return (gains.measured(view),)
    if mode in ACCURACIES:
        mean, lost = view.curves["accuracy"][rounds], diverged(view)
        if Divergence.of(view.run.totals, view.shown).untrained:
            return f"accuracy: {NO_SCORE}{lost}", f"accuracy: {NO_SCORE}"
        texts = [f"accuracy {each}, best {base.at_best(mean)}" for each in base.recent(mean)]
        return f"{texts[0]}{lost}; {mode}", f"{texts[0]}{lost}", *texts  # the mode is also visible
    records = view.run.records[rounds]
    values = {part: part_means(records, part, mode) for part in PARTS}
    if mode == "loss":
        values = {"training": view.curves.loss.means()[rounds], **values}
    of = percent if mode == "f1" else number
    said = {part: f"{part} {of(each[-1])}" for part, each in values.items() if np.isfinite(each).any()}
    if mode == "loss" and "test" in said:
        low, when = best_round(-values["test"])
        said["test"] += f", lowest {number(-low)} (r{when})"
    if mode == "f1" and "test" in said:
        said["test"] += f", best {base.at_best(values['test'])}"
    at = f"{base.titled(mode)}, round {view.shown}"
    return f"{at}: {', '.join(said.values())}", at


def _unmeasured(view: View) -> str:
    """The text in place of CKA."""
    if not view.run.document:
        return ""
    if (computing := view.similarities.computing(view.run)) is not None:
        return f"Computing CKA of round {computing}. Press c to stop."
    if view.run.live and not view.replaying:
        return base.awaited_cka(view) or UNMEASURED
    return NEVER_MEASURED if view.kept is None else NOT_YET.format(round=view.kept)


def beginning(view: View) -> str:
    """The text before the first round."""
    match view.run.progress:
        case {"round": 1, "phase": "evaluate"} if view.run.live:
            return "Round 1: all clients have trained. Evaluating them now."
        case {"round": 1, "done": int(done), "clients": int(clients)} if view.run.live:
            working = (client for client, doing in enumerate(at_work(view.run)) if doing == "training")
            found = base.named_clients(view.run, working)
            said = f", {' and '.join(found)} {'is' if len(found) == 1 else 'are'} training"
            said = said if 0 < len(found) <= FEW else ""
            return f"Round 1: {done} of {clients} clients have trained{said}."
    return base.unread(view) or base.BEGINNING
