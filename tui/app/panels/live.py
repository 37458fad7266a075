"""The Live panel: is it learning, who is behind, what does it cost, how alike have the models become."""

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import Static

from simulator.analysis.similarity import last_measured
from tui.app.messages import ChartWanted, ClientPinned, ClientsSorted, PanelWanted, SessionOpened
from tui.app.panels import client_rows, log_lines
from tui.app.panels.accuracy import MODES, AccuracyChart
from tui.app.panels.base import Part, SizedPanel
from tui.app.panels.chart_parts import traffic
from tui.app.panels.session_list import SessionList
from tui.app.view import View, in_sight
from tui.app.widgets import Heatmap, LineChart, Table
from tui.app.widgets.surface import glyphs_of
from tui.common.formatting import number, percent, size, spelled

BEGINNING = "No round is finished yet. The first one will be drawn here."
UNMEASURED = "Not measured yet: c measures it now, --set cka.every=5 every fifth round."
CROWD = 40  # from so many clients on the matrix wants the height of the screen to be exact


class LivePanel(SizedPanel):
    """Accuracy and the log; where there is room also the clients, the bytes, the similarity and the other sessions."""

    DEFAULT_CSS = """
    LivePanel { layout: horizontal; }
    LivePanel > .sessions { width: 38; display: none; }
    LivePanel > .matrix { display: none; }
    LivePanel > Vertical > .upper { height: 1fr; }
    LivePanel > Vertical > .lower { height: 2; }
    LivePanel > Vertical > .behind { height: 1; padding: 0 1; }
    LivePanel.-wide > Vertical > .behind { display: none; }
    LivePanel .clients, LivePanel .bytes, LivePanel .similarity { display: none; }
    LivePanel.-wide > Vertical > .lower { height: 7; }
    LivePanel.-wide.-tall > Vertical > .lower { height: 12; }
    LivePanel.-wide .clients { display: block; width: 52; margin-left: 1; }
    LivePanel.-wide .log { margin-left: 1; }
    LivePanel.-wide .bytes, LivePanel.-wide .similarity { display: block; }
    LivePanel.-wide .similarity { width: 36; margin-left: 1; }
    LivePanel.-full > .sessions { display: block; margin-right: 1; }
    LivePanel.-full.-tall > Vertical > .lower { height: 18; }
    LivePanel.-full .clients { width: 66; }
    LivePanel.-full .similarity { width: 48; }
    LivePanel.-full.-crowd > .matrix { display: block; width: 114; margin-left: 1; }
    LivePanel.-full.-crowd > .sessions { width: 30; }
    LivePanel.-full.-crowd .similarity, LivePanel.-full.-crowd .bytes { display: none; }
    LivePanel.-full.-crowd > Vertical > .upper { layout: vertical; }
    LivePanel.-full.-crowd > Vertical > .lower { height: 8; }
    LivePanel.-full.-crowd .clients { width: 1fr; margin-left: 0; }
    LivePanel.-full.-crowd .log { margin-left: 0; }
    """

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self._accuracy = AccuracyChart()
        self._table = Table(client_rows.COLUMNS, cursor=True, sort="accuracy")
        self._behind = Static(classes="behind", markup=False)
        self._bytes = LineChart()
        self._maps = [Heatmap(value_range=(0.0, 1.0), axes=("client", "client")) for _ in range(2)]
        self._log = Table(log_lines.COLUMNS, follows=True)
        self._sessions = SessionList(brief=True)
        self._parts = {
            "accuracy": Part("accuracy", self._accuracy, classes="accuracy"),
            "clients": Part("clients", self._table, classes="clients"),
            "bytes": Part("bytes a round", self._bytes, classes="bytes"),
            "similarity": Part("CKA", self._maps[0], classes="similarity"),
            "matrix": Part("CKA", self._maps[1], classes="matrix"),
            "log": Part("log", self._log, classes="log -bare"),
            "sessions": Part("sessions", self._sessions, classes="sessions"),
        }

    def compose(self) -> ComposeResult:
        parts = self._parts
        yield parts["sessions"]
        with Vertical():
            with Horizontal(classes="upper"):
                yield parts["accuracy"]
                yield parts["clients"]
            yield self._behind
            with Horizontal(classes="lower"):
                yield parts["bytes"]
                yield parts["similarity"]
                yield parts["log"]
        yield parts["matrix"]

    def draw(self, view: View) -> None:
        wide, full = self.has_class("-wide"), self.has_class("-full")
        crowd = full and view.curves.clients >= CROWD
        self.set_class(crowd, "-crowd")
        self._parts["log"].set_class(not wide, "-bare")
        self._draw_accuracy(view)
        self._draw_log(view)
        if wide:
            self._draw_clients(view)
            self._draw_bytes(view)
            self._draw_similarity(view, "matrix" if crowd else "similarity")
        if full:
            self._sessions.show_view(view)
            self._parts["sessions"].say("Reading the sessions…" if self._sessions.found is None else None)

    def point(self, view: View) -> None:
        super().point(view)
        self._accuracy.point(view)

    def _draw_accuracy(self, view: View) -> None:
        if not self.differs(
            "accuracy",
            view.curves,
            view.run.error,
            view.run.config,
            view.run.events,
            view.run.checkpoints,
            view.pinned,
            view.chart,
            view.round,
            None if view.curves.rounds else view.run.progress,
        ):
            return
        part = self._parts["accuracy"]
        part.say(None if view.curves.rounds else view.run.error or beginning(view))
        record = view.record
        if record is not None:
            about = record["accuracy"]
            part.caption(
                f"accuracy after round {view.shown}: {percent(about['mean'])}, "
                f"best {percent(about['best_mean'])} ({MODES[view.chart]})"
            )
            self._accuracy.show(view)
        self._behind.update(spelled(client_rows.behind(view), glyphs_of(self)))

    def _draw_clients(self, view: View) -> None:
        if self.differs("clients", view.curves, view.run.config, view.pinned, view.shown):
            self._table.show(client_rows.rows(view))
        if self._table.sort != view.sort:
            self._table.sort_by(*view.sort)
        self._table.filter(view.filter)
        client_rows.follow(self._table, view)
        count, shown = view.curves.clients or len(view.run.models), len(self._table.rows)
        self._parts["clients"].caption(
            f"{shown} of {count} clients" if shown != count else f"{count} clients"
        )
        nobody = "No client has all these words; / changes them." if count else BEGINNING
        self._parts["clients"].say(None if shown else nobody)

    def _draw_bytes(self, view: View) -> None:
        if not self.differs("bytes", view.curves, view.round):
            return
        curves, record = view.curves, view.record
        self._parts["bytes"].say(None if curves.rounds else BEGINNING)
        if record is not None:
            about = record["bytes"]
            so_far = f"{size(about['up_total'])} up, {size(about['down_total'])} down so far"
            self._parts["bytes"].caption(so_far)
            self._bytes.show(traffic(curves.up, curves.down))

    def _draw_similarity(self, view: View, name: str) -> None:
        found = last_measured(view.run.ledger.measured, view.shown)
        if not self.differs(name, found):
            return
        part = self._parts[name]
        part.say(UNMEASURED if found is None else None)
        part.caption("CKA")
        if found is not None:
            layer = found.layers[-1]
            part.caption(f"CKA of {layer}, round {found.round}: {number(found.mean(layer))}")
            heatmap = self._maps[name == "matrix"]
            heatmap.cluster(name == "matrix")
            heatmap.show(found.matrix(layer))

    def _draw_log(self, view: View) -> None:
        # One line an event where there are but two; checkpoints, one a round, would push out what matters.
        width = self._log.size.width - 15 if self.has_class("-wide") else 1000
        if self.differs("log", view.run.events, width, view.shown):
            self._log.show(log_lines.lines(log_lines.upto(view), width, routine=False))

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        if message.table is self._table:
            client_rows.tell(self, message, self._table)

    def on_table_chosen(self, message: Table.Chosen) -> None:
        if message.table is self._table:
            self.post_message(PanelWanted("clients"))
        if message.table is self._sessions and self._sessions.folder is not None:
            self.post_message(SessionOpened(self._sessions.folder))

    def on_session_list_listed(self) -> None:
        self._parts["sessions"].say(None)

    def first(self) -> Widget | None:
        """The table, whose cursor says which client to pin."""
        return self._table if in_sight(self._table) else super().first()

    def action_pin(self) -> None:
        """Pin the client under the table's cursor."""
        if isinstance(self._table.selected, int):
            self.post_message(ClientPinned(self._table.selected))

    def action_chart(self) -> None:
        """The accuracies as band and mean, as all lines, as clients × rounds."""
        self.post_message(ChartWanted())

    def action_sort(self) -> None:
        """The table by its next column."""
        self._table.cycle_sort()

    def action_reverse(self) -> None:
        """The table the other way round."""
        self._table.reverse_sort()

    def on_table_sorted(self, message: Table.Sorted) -> None:
        self.post_message(ClientsSorted(*self._table.sort))

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """A row a round: accuracies over clients, traffic, seconds, and every client's accuracy."""
        columns = ["round", "method", "accuracy", "weighted", "std", "min", "max", "best"]
        columns += ["up", "down", "up_total", "down_total", "seconds"]
        columns += [f"client {client}" for client in range(view.curves.clients)]
        return columns, [
            [
                record["round"],
                record["method"],
                *(record["accuracy"][key] for key in ("mean", "weighted", "std", "min", "max", "best_mean")),
                *(record["bytes"][key] for key in ("up", "down", "up_total", "down_total")),
                record["timing"]["seconds"],
                *record["accuracy"]["per_client"],
            ]
            for record in view.run.records[: view.shown]
        ]


def beginning(view: View) -> str:
    """What is said before there is a round to draw."""
    match view.run.progress:
        case {"round": 1, "phase": "evaluate"} if view.run.live:
            return "Round 1: all have trained and are evaluated now. It will be drawn here."
        case {"round": 1, "done": int(done), "clients": int(clients)} if view.run.live:
            return f"Round 1: {done} of {clients} clients have trained. It will be drawn here."
    return BEGINNING
