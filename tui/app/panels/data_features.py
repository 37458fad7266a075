"""The Data & features panel: classes by client, the models' features in the plane, and a client's samples.

Classes by client are the samples of the partition, or what the models recognize: see class_map.
"""

from collections.abc import Sequence

import numpy as np
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Static

from simulator.results.analysis.run import Samples
from simulator.results.inspection.client_samples import ClientSamples, Embedding
from tui.app.charts.look import GLYPHS
from tui.app.charts.scatter import ScatterFigure, key_of
from tui.app.panels import class_map
from tui.app.panels.base import Part, SizedPanel, at_most, named_clients, unread
from tui.app.panels.class_map import ClassMap
from tui.app.view import ClientSelected, RoundRefused, View, Wanted, session_of
from tui.app.widgets import Heatmap, SampleList, Scatter
from tui.app.widgets.screen import glyphs_of, room
from tui.app.workers import images_of, looked_at
from tui.common import findings
from tui.common.cells import apart, fit
from tui.common.formatting import spelled

BEGINNING = (
    "No round is finished yet. What the models make of their test images can be drawn after the first."
)
UNCOUNTED = (
    "The session does not say which classes its clients hold.\n\nhtfl-sim partition {name} counts them."
)
OFFER = (
    "Press t to draw a t-SNE of the models' features after round {round}: up to {images} of {whose}.\n\n"
    "Another process loads the models and the data. This takes some seconds. Press t again to stop."
)
UNDER_WAY = "Computing t-SNE of round {round}. Press t to stop."
GONE = (
    "The checkpoint of round {round} is gone, and the models with it. {kept}\n\n"
    "Press f to fork a session that computes this round again. In a new run, --set checkpoint.keep_last={more} keeps "
    "more checkpoints."
)
READING = "Reading the samples of client {client}. Another process loads the data. This takes some seconds."
UNREAD = "Press i to read the samples of client {client}."
MARGIN = 14  # cells next to the partition's columns: names of rows, and the color bar
BAR, NUMBER = 8, 4  # cells of the color bar, and of a number in the matrix
SHORTEST = 4  # cells in which a class's name can be told
BY_CLASS, BY_CLIENT, OF_ONE = range(3)
TITLES = ("classes by client", "recall by class", "change in recall", "gain in recall")


class DataFeaturesPanel(SizedPanel):
    """The partition, class by client, and beside it t-SNE of the features or samples of the client selected."""

    DEFAULT_CSS = """
    DataFeaturesPanel { layout: horizontal; }
    DataFeaturesPanel > .partition { width: 2fr; }
    DataFeaturesPanel > .plane { width: 3fr; margin-left: 1; }
    DataFeaturesPanel > .read { dock: top; height: 1; padding: 0 1; }
    DataFeaturesPanel > .words { dock: bottom; height: 2; padding: 0 1; }
    DataFeaturesPanel.-unplotted > .partition { width: 3fr; }
    DataFeaturesPanel.-unplotted > .plane { width: 2fr; }
    DataFeaturesPanel.-crowd { layout: vertical; }
    DataFeaturesPanel.-crowd > .partition { width: 1fr; height: 2fr; }
    DataFeaturesPanel.-crowd > .plane { width: 1fr; height: 3fr; margin-left: 0; }
    """

    def __init__(self, id: str) -> None:
        self._points, self._content_mode = BY_CLASS, class_map.SAMPLES
        self._recognized: ClassMap | None = None
        self._map, self._scatter = Heatmap(axes=("class", "client"), decimals=0), Scatter()
        self._held = SampleList()
        self._read = Static(classes="read", markup=False)
        self._words = Static(classes="words", markup=False)
        self._partition = Part("classes by client", self._map)
        self._room = Vertical(self._partition, classes="partition")  # not the part's own height, because of z
        self._plane = Part("t-SNE", self._scatter, classes="plane")
        self._samples = Part("samples", self._held, classes="plane")
        self._read.display = self._words.display = self._samples.display = False
        super().__init__(id, self._read, self._words, self._room, self._plane, self._samples)

    def draw(self, view: View) -> None:
        clients, across = len(view.run.models), room(self).width * 2 // 5 - MARGIN
        crowd = clients > (across // 2 if self.has_class("-tall") else across)
        unplotted = not self._samples.display and view.embeddings.last(view.run, view.shown) is None
        if (crowd, unplotted) != (self.has_class("-crowd"), self.has_class("-unplotted")):
            self.set_class(crowd, "-crowd").set_class(unplotted, "-unplotted")
            self.call_after_refresh(self.redraw)  # once the parts have their new sizes
        report, width = view.run.document.get("read"), room(self).width  # what was read of the data set
        if self.differs("read", report, width):
            self._put(self._read, report is not None)  # older sessions have none
            if report is not None:
                glyphs, said = (
                    glyphs_of(self),
                    [f"read: {findings.data_summary(report)}", *report["warnings"]],
                )
                line = fit(spelled("; ".join(said), glyphs), width - 2, GLYPHS[glyphs].ellipsis)
                self._read.update(line, layout=False)
        self._draw_map(view)
        self._follow(view)
        if self._samples.display:
            self._draw_samples(view)
            return
        one = view.client if self._points == OF_ONE else None
        about = (view.embeddings, view.run.document, view.run.checkpoints, view.run.error, view.shown)
        if self.differs("plane", *about, view.replaying, self._points, one):
            self._draw_plane(view)

    def _put(self, part: Widget, shown: bool) -> None:
        """Show a part or hide it."""
        if shown != part.display:
            part.display = shown
            self.call_after_refresh(self.redraw)  # once the parts have their new sizes

    def point(self, view: View) -> None:
        super().point(view)
        self._draw_map(view)  # changes are measured from the round under the crosshair

    def _draw_map(self, view: View) -> None:
        place = class_map.place(view, self._content_mode)
        if self.differs("partition", view.run.document, view.run.config, room(self._map), *place):
            self._draw_partition(view)
        found, at, width = self._recognized, self._map.cursor, room(self._words).width
        if found is not None and self.differs("words", found, at, width):
            second = class_map.summary(found, width)
            if at is not None:
                second = class_map.cell(found, at[1], at[0], width)
            lines = f"{class_map.most(found, width)}\n{second}"
            self._words.update(spelled(lines, glyphs_of(self)), layout=False)

    def _draw_partition(self, view: View) -> None:
        samples = Samples.of(view.run)
        self._recognized = None
        recalls = self._content_mode != class_map.SAMPLES
        found = class_map.class_map(view, self._content_mode, samples) if samples and recalls else None
        self._put(self._words, samples is not None and recalls and not isinstance(found, str))
        if samples is None or isinstance(found, str):
            uncounted = UNCOUNTED.format(name=view.run.name) if view.run.document else ""
            self._partition.caption(TITLES[self._content_mode if samples else class_map.SAMPLES])
            self._partition.say(found if isinstance(found, str) else uncounted)
            return
        self._partition.say(None)
        held = samples.train.T.astype(float)
        across = max((room(self).width - MARGIN) // max(len(samples.train), 1), 1)
        at_most(self._room, across * len(held) + 4 if self.has_class("-crowd") else None)
        self._recognized = found
        if found is None:
            self._map.measure(decimals=0)
            self._map.scale((0.0, max(held.max(initial=0.0), 1.0)))
            held = np.where(held > 0, held, np.nan)
        else:
            self._map.measure("%" if found.before is None else "pp", 0, signed=found.before is not None)
            self._map.scale(found.reach)
            held = found.cells.T
        names, clients = samples.classes, named_clients(view.run)
        self._map.show(held, self._names_of_rows(names, len(clients)), titles=(names, clients))
        about = f"{len(names)} classes × {len(clients)} clients"
        what = found.caption if found else "training samples"
        self._partition.caption(f"{what}: {about}", what)

    def _names_of_rows(self, names: Sequence[str], clients: int) -> list[str]:
        """The classes' keys and names, cut to the room beside the matrix; without room, their keys."""
        keys = [key_of(label) for label in range(len(names))]
        rest = [beside_key(label, name) for label, name in enumerate(names)]
        beside = max(map(len, keys)) + len("  ") + 1
        across = room(self._map).width - BAR
        space = max(across // 3, across - NUMBER * clients) - beside
        if space < SHORTEST:
            return keys
        shown = apart({*rest}, space, GLYPHS[glyphs_of(self)].ellipsis)
        return [f"{key} {shown[name]}".rstrip() for key, name in zip(keys, rest, strict=True)]

    def _follow(self, view: View) -> None:
        """Keep the cursor in the column of the selected client."""
        client = view.selected
        self._map.mark(column=view.client)
        if self._map.cursor is None:
            self._map.home = (0, client)
        elif view.client is not None and self._map.cursor[1] != client:
            self._map.put_cursor(self._map.cursor[0], client)

    def _draw_plane(self, view: View) -> None:
        found, target = view.embeddings.last(view.run, view.shown), view.kept
        computing = view.embeddings.computing(view.run)
        if found is None:
            self._plane.caption("t-SNE")
            self._plane.say(_sentence(view, target, computing))
            return
        self._plane.say(None)
        how = ("by class", "by client", f"client {view.selected} by class")[self._points]
        said = brief = f"t-SNE after round {found.round}, {how}"
        if computing is not None:
            said += f"; computing round {computing}"
        elif target is not None and target != found.round:
            failed = view.embeddings.refusal(view.run, target)
            said += f"; {failed}" if failed else f"; press t for round {target}"
        elif target is None:
            said += f"; round {view.shown} has no checkpoint"
        if (looked := looked_at(len(view.run.models))) < len(view.run.models):
            said += f"; sample of {looked} clients"
        self._plane.caption(said, brief)
        self._scatter.show(self._figure(view, found))

    def _draw_samples(self, view: View) -> None:
        client = view.selected
        found = view.samples.of(view.run, client)
        if not self.differs("samples", found, client, view.samples.under_way, view.run.document):
            return
        names = named_clients(view.run)
        name = names[client] if client < len(names) else str(client)
        self._samples.caption(f"client {name}: samples before round 1")
        if isinstance(found, ClientSamples):
            self._samples.say(None)
            self._held.show(found)
        elif view.samples.under_way == session_of(view.run):
            self._samples.say(READING.format(client=client))
        else:
            self._samples.say(f"{found}\n\nPress i to try again." if found else UNREAD.format(client=client))

    def _figure(self, view: View, found: Embedding) -> ScatterFigure:
        by_client = self._points == BY_CLIENT
        names = named_clients(view.run) if by_client else found.classes
        return ScatterFigure(
            found.points,
            found.clients if by_client else found.labels,
            [beside_key(number, name) for number, name in enumerate(names)],
            found.anchors,
            found.anchor_labels,
            found.anchor_kind,
            found.clients == view.selected if self._points == OF_ONE else None,
            not by_client,
        )

    def on_heatmap_cursor_moved(self, message: Heatmap.CursorMoved) -> None:
        # An older message may be from before the cursor moved on.
        if message.cell is not None and message.cell == self._map.cursor:
            self.post_message(ClientSelected(message.cell[1]))
        if self._view is not None:
            self._draw_map(self._view)

    def idle(self, view: View) -> Sequence[str]:
        unread = () if view.run.document else ("samples", "chart")
        undrawn = () if view.embeddings.of(view.run) else ("colours",)
        return (*unread, *undrawn, *(() if view.run.round else ("embed",)))

    def action_chart(self) -> None:
        """Show samples by class and client, then recall, its change, and its gain over the partner."""
        self._content_mode = (self._content_mode + 1) % class_map.MODES
        self.update()

    def action_embed(self) -> None:
        """Compute t-SNE of the round shown, or stop if it is being computed."""
        if self._view is None:
            return
        self._put_samples(False)
        under_way, target = self._view.embeddings.computing(self._view.run), self._view.kept
        if under_way is not None:
            self.post_message(Wanted("embeddings", under_way))
        elif target is not None:
            self.post_message(Wanted("embeddings", target))
        elif self._view.run.round:
            why = gone(self._view).partition("\n")[0]
            self.post_message(RoundRefused(why, self._view.shown))

    def action_samples(self) -> None:
        """Show samples of the selected client, and read them first if need be. If they are shown: t-SNE again."""
        if self._view is None or not self._view.run.document:
            return
        view, client = self._view, self._view.selected
        missing = not isinstance(view.samples.of(view.run, client), ClientSamples)
        wanted = missing and view.samples.under_way != session_of(view.run)
        self._put_samples(wanted or not self._samples.display)
        if wanted:
            self.post_message(Wanted("samples", client=client))

    def _put_samples(self, shown: bool) -> None:
        """Put samples in the place of the plane, or the plane in theirs."""
        self._plane.display = not shown
        self._put(self._samples, shown)

    def action_colours(self) -> None:
        """Color points by class, by client, or only those of the selected client."""
        self._put_samples(False)
        self._points = (self._points + 1) % 3
        self.update()

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """One row per point of the plane. While there is none, one row per class of a client."""
        if self._recognized is not None:
            return class_map.table(self._recognized)
        held = view.samples.of(view.run, view.selected)
        if self._samples.display and isinstance(held, ClientSamples):
            return sample_table(held)
        found, samples = view.embeddings.last(view.run, view.shown), Samples.of(view.run)
        if found is not None:
            points = zip(found.points, found.labels, found.clients, strict=True)
            anchors = zip(found.anchors, found.anchor_labels, strict=True)
            return ["round", "x", "y", "class", "client", "what"], [
                *([found.round, *at, found.classes[label], client, "image"] for at, label, client in points),
                *([found.round, *at, found.classes[label], None, found.anchor_kind] for at, label in anchors),
            ]
        return ["client", "class", "train"], [
            [client, name, int(count)]
            for client, row in enumerate(samples.train if samples else ())
            for name, count in zip(samples.classes if samples else (), row, strict=True)
        ]


def sample_table(held: ClientSamples) -> tuple[list[str], list[list[object]]]:
    """A client's samples as columns and rows."""
    if held.features:
        return ["client", "feature", "mean", "mean of all", "difference in SDs"], [
            [held.client, each.name, each.mean, each.overall, each.difference] for each in held.features
        ]
    return ["client", "class", "train", "text"], [
        [held.client, each.name, each.count, each.text] for each in held.classes
    ]


def gone(view: View) -> str:
    """A note that the checkpoint of the round shown is gone, with the ways out."""
    kept = [round for round in view.run.checkpoints if round]
    said = f"Round{'s' * (len(kept) > 1)} {', '.join(map(str, kept[-6:]))} can be computed. Press [ or ] to go there."
    return GONE.format(
        round=view.shown, kept=said if kept else "No other checkpoint is left.", more=max(view.run.rounds, 1)
    )


def _sentence(view: View, target: int | None, under_way: int | None) -> str:
    """The text in place of the plane."""
    if not view.run.round:
        return unread(view) or BEGINNING
    if under_way is not None:
        return UNDER_WAY.format(round=under_way)
    if target is None:
        return gone(view)
    failed = view.embeddings.refusal(view.run, target)
    if failed is not None:
        return f"{failed}\n\nPress t to try again."
    clients = len(view.run.models)
    looked = looked_at(clients)
    whose = "each client" if looked == clients else f"each of {looked} sampled clients"
    return OFFER.format(images=images_of(clients), whose=whose, round=target)


def beside_key(number: int, name: str) -> str:
    """A group's name in a legend, next to its key. The key is left out if the name begins with it."""
    key = key_of(number)
    return "" if name == key else name.removeprefix(f"{key} ")
