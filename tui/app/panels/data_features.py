"""The Data & features panel: classes by client, the models' features in the plane, and a client's samples."""

import numpy as np
from textual.app import ComposeResult
from textual.containers import Vertical

from htfl_sim.analysis import ClientSamples, Embedding, Samples
from tui.app.charts.scatter import ScatterFigure, key_of
from tui.app.embedding_process import images_of, looked_at
from tui.app.messages import ClientSelected, EmbeddingWanted, SamplesWanted
from tui.app.panels.base import Part, SizedPanel, at_most
from tui.app.panels.chart_parts import named_clients
from tui.app.view import View, session_of
from tui.app.widgets import Heatmap, SampleList, Scatter
from tui.app.widgets.surface import room

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
BY_CLASS, BY_CLIENT, OF_ONE = range(3)


class DataFeaturesPanel(SizedPanel):
    """The partition, class by client, and beside it t-SNE of the features or samples of the client selected."""

    DEFAULT_CSS = """
    DataFeaturesPanel { layout: horizontal; }
    DataFeaturesPanel > .partition { width: 2fr; }
    DataFeaturesPanel > .plane { width: 3fr; margin-left: 1; }
    DataFeaturesPanel.-crowd { layout: vertical; }
    DataFeaturesPanel.-crowd > .partition { width: 1fr; height: 2fr; }
    DataFeaturesPanel.-crowd > .plane { width: 1fr; height: 3fr; margin-left: 0; }
    """

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self._points = BY_CLASS
        self._map = Heatmap(axes=("class", "client"), decimals=0)
        self._scatter = Scatter()
        self._partition = Part("classes by client", self._map)
        self._room = Vertical(self._partition, classes="partition")  # not the part's own height, because of z
        self._plane = Part("t-SNE", self._scatter, classes="plane")
        self._held = SampleList()
        self._samples = Part("samples", self._held, classes="plane")
        self._samples.display = False

    def compose(self) -> ComposeResult:
        yield self._room
        yield self._plane
        yield self._samples

    def draw(self, view: View) -> None:
        crowd = len(view.run.models) > room(self).width * 2 // 5 - MARGIN
        if crowd != self.has_class("-crowd"):
            self.set_class(crowd, "-crowd")
            self.call_after_refresh(self.redraw)  # once the parts have their new sizes
        if self.differs("partition", view.run.document, view.run.config, room(self._map)):
            self._draw_partition(view)
        self._follow(view)
        if self._samples.display:
            self._draw_samples(view)
            return
        one = view.client if self._points == OF_ONE else None
        about = (view.embeddings, view.run.document, view.run.checkpoints, view.run.error, view.shown)
        if self.differs("plane", *about, view.replaying, self._points, one):
            self._draw_plane(view)

    def _draw_partition(self, view: View) -> None:
        samples = Samples.of(view.run)
        if samples is None:
            self._partition.caption("classes by client")
            self._partition.say(UNCOUNTED.format(name=view.run.name) if view.run.document else "")
            return
        self._partition.say(None)
        held = samples.train.T.astype(float)
        across = max((room(self).width - MARGIN) // max(len(samples.train), 1), 1)
        at_most(self._room, across * len(held) + 4 if self.has_class("-crowd") else None)
        self._map.scale((0.0, max(held.max(initial=0.0), 1.0)))
        names, clients = samples.classes, named_clients(view.run)
        rows = [f"{key_of(label)} {beside_key(label, name)}".rstrip() for label, name in enumerate(names)]
        if max(map(len, rows)) + 2 > room(self._map).width // 3:  # the heatmap would leave them out
            rows = [key_of(label) for label in range(len(names))]
        self._map.show(np.where(held > 0, held, np.nan), rows, titles=(names, clients))
        self._partition.caption(f"training samples: {len(names)} classes × {len(clients)} clients")

    def _follow(self, view: View) -> None:
        """Keep the cursor in the column of the selected client.

        Without a cursor, mark that column, where it will appear.
        """
        client = view.client or 0
        self._map.mark(column=view.client)
        if self._map.cursor is None:
            self._map.home = (0, client)
        elif view.client is not None and self._map.cursor[1] != client:
            self._map.put_cursor(self._map.cursor[0], client)

    def _draw_plane(self, view: View) -> None:
        found, target = view.embeddings.last(view.run, view.shown), target_of(view)
        under_way = view.embeddings.under_way
        computing = under_way is not None and under_way[0] == session_of(view.run)
        if found is None:
            self._plane.caption("t-SNE")
            self._plane.say(_sentence(view, target, under_way[1] if computing and under_way else None))
            return
        self._plane.say(None)
        how = ("by class", "by client", f"client {view.client or 0} by class")[self._points]
        said = f"t-SNE after round {found.round}, {how}"
        if computing and under_way:
            said += f"; computing round {under_way[1]}"
        elif target is not None and target != found.round:
            failed = view.embeddings.refusal(view.run, target)
            said += f"; {failed}" if failed else f"; press t for round {target}"
        elif target is None:
            said += f"; round {view.shown} has no checkpoint"
        if (looked := looked_at(len(view.run.models))) < len(view.run.models):
            said += f"; sample of {looked} clients"
        self._plane.caption(said)
        self._scatter.show(self._figure(view, found))

    def _draw_samples(self, view: View) -> None:
        client = view.client or 0
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
            found.clients == (view.client or 0) if self._points == OF_ONE else None,
            not by_client,
        )

    def on_heatmap_cursor_moved(self, message: Heatmap.CursorMoved) -> None:
        # An older message may be from before the cursor moved on.
        if message.cell is not None and message.cell == self._map.cursor:
            self.post_message(ClientSelected(message.cell[1]))

    def action_embed(self) -> None:
        """Compute t-SNE of the round shown, or stop if it is being computed."""
        if self._view is None:
            return
        self._put_samples(False)
        under_way, target = self._view.embeddings.under_way, target_of(self._view)
        if under_way is not None and under_way[0] == session_of(self._view.run):
            self.post_message(EmbeddingWanted(under_way[1]))
        elif target is not None:
            self.post_message(EmbeddingWanted(target))
        elif self._view.run.round:
            self.notify(gone(self._view).partition("\n")[0], severity="warning", markup=False)

    def action_samples(self) -> None:
        """Show samples of the selected client, and read them first if need be. If they are shown: t-SNE again."""
        if self._view is None or not self._view.run.document:
            return
        view, client = self._view, self._view.client or 0
        missing = not isinstance(view.samples.of(view.run, client), ClientSamples)
        wanted = missing and view.samples.under_way != session_of(view.run)
        self._put_samples(wanted or not self._samples.display)
        if wanted:
            self.post_message(SamplesWanted(client))

    def _put_samples(self, shown: bool) -> None:
        """Put samples in the place of the plane, or the plane in theirs."""
        if shown != self._samples.display:
            self._samples.display, self._plane.display = shown, not shown
            self.call_after_refresh(self.redraw)  # once the part has its size

    def action_colours(self) -> None:
        """Color points by class, by client, or only those of the selected client."""
        self._put_samples(False)
        self._points = (self._points + 1) % 3
        self.update()

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """One row per point of the plane. While there is none, one row per class of a client.

        Of samples that are shown, one row per class or feature.
        """
        held = view.samples.of(view.run, view.client or 0)
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
        counts = samples.train if samples is not None else np.zeros((0, 0), int)
        return ["client", "class", "train"], [
            [client, samples.classes[label], int(count)]
            for client, row in enumerate(counts)
            for label, count in enumerate(row)
            if samples is not None
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


def target_of(view: View) -> int | None:
    """The kept round to compute: the one shown or, live, the newest; None: it is gone."""
    if view.shown in view.run.checkpoints:
        return view.shown or None
    before = [round for round in view.run.checkpoints if 0 < round <= view.shown]
    return None if view.replaying else max(before, default=None)


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
        return view.run.error or BEGINNING
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
