"""The Similarity panel: CKA between all pairs of clients, layer by layer (InCo's Figures 1, 10, 12)."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial, partialmethod
from importlib import import_module
from itertools import combinations

import numpy as np
from textual.containers import Vertical

from simulator.results.analysis.client_values import Array
from simulator.results.analysis.ledger import CkaMeasurement, least_similar
from tui.app.charts.chart import Figure, Series
from tui.app.panels.base import OPENING, Part, SizedPanel, at_most, awaited_cka, named_clients, unread
from tui.app.panels.data_features import gone
from tui.app.view import ClientSelected, View
from tui.app.widgets import Column, Heatmap, LineChart, Row, Table
from tui.app.widgets.canvas_widget import CLUSTERING
from tui.app.widgets.screen import glyphs_of
from tui.common.formatting import number

UNMEASURED = (
    "CKA has not been measured yet.\n\n"
    "{how} To measure it every fifth round, start the run with --set cka.every=5, or press m to change the setting."
)
OFFER = (
    "CKA of round {round} was not measured. Press c to compute it from the checkpoint.\n\n"
    "Another process loads the models and the data. This takes some seconds. Press c again to stop. The session stays "
    "as it is."
)
NOW = "Press c to measure it now, with a checkpoint."
ONCE_IT_GOES_ON = "The run is stopped. Press space to resume it, then c to measure CKA."
BAR = 12
CKA = (0.0, 1.0)
LAYERS = (Column("layer", worth=3, stretch=True), Column("CKA", numeric=True, worth=2), Column("", worth=1))


class SimilarityPanel(SizedPanel):
    """The matrix of one layer, the layers' means, and their course."""

    DEFAULT_CSS = """
    SimilarityPanel { layout: horizontal; }
    SimilarityPanel > .side { width: 34; margin-left: 1; }
    SimilarityPanel .layers { height: 8; }
    SimilarityPanel .depth { display: none; }
    SimilarityPanel.-wide > .side { width: 48; }
    SimilarityPanel.-tall .depth { display: block; }
    SimilarityPanel.-tall .layers { height: 14; }
    SimilarityPanel.-full > .side { width: 72; }
    SimilarityPanel.-empty > .side { display: none; }
    """

    def __init__(self, id: str) -> None:
        self._layer: str | None = None  # None: the deepest
        self._fitted = False
        self._least: tuple[str, tuple[int, int]] | None = None  # the layer and the pair that `d` has found
        self._map = Heatmap(value_range=CKA, axes=("client", "client"))
        self._layers, self._depth, self._rounds = Table(LAYERS, cursor=True), LineChart(), LineChart()
        self._matrix = Part("CKA", self._map)
        self._parts = {
            "layers": Part("layers, shallow to deep", self._layers),
            "depth": Part("by depth", self._depth, classes="depth"),
            "rounds": Part("over rounds", self._rounds),
        }
        layers, *others = self._parts.values()
        self._room = Vertical(layers, classes="layers")  # not the part's own height, because of z
        super().__init__(id, self._matrix, Vertical(self._room, *others, classes="side"))

    def on_show(self) -> None:
        """Import what sorting the matrix needs. It takes half a second, for which its key would wait."""
        if CLUSTERING not in sys.modules:
            self.run_worker(partial(import_module, CLUSTERING), thread=True, exit_on_error=False)

    def draw(self, view: View) -> None:
        found = view.cka
        self.set_class(found is None, "-empty")
        self._matrix.say(_unmeasured(view) if found is None else None)
        if found is None:
            self._matrix.caption("CKA")
            return
        layer = self.chosen(found)
        can = _computes(view) and view.kept == view.shown != found.round
        offer = f"; press c for round {view.shown}" if can else ""  # or the computation under way
        if (computing := view.similarities.computing(view.run)) is not None:
            offer = f"; computing round {computing}"
        if self.differs("matrix", found, layer, self._map.clustered, self._fitted, offer):
            self._draw_matrix(view, found, layer, offer)
        self._follow(view, found)
        if self.differs("layers", found):
            full = "#" if glyphs_of(self) == "ascii" else "━"
            means = np.array([found.mean(each) for each in found.layers])
            filled = np.round(BAR * np.clip(np.nan_to_num(means), 0.0, 1.0)).astype(int).tolist()
            self._layers.show(
                Row(each, (each, number(mean), (full * cells).ljust(BAR)))
                for each, mean, cells in zip(found.layers, means.tolist(), filled, strict=True)
            )
            at = f"layers, round {found.round}"
            self._parts["layers"].caption(f"{at}, shallow to deep", at)
            at_most(self._room, len(found.layers) + 2)
        self._layers.put_cursor(layer)
        if self.differs("curves", view.curves, view.similarities, view.round, self._map.cursor, layer):
            self._depth.put_cursor(found.layers.index(layer) + 1.0)
            self._draw_curves(view, found, layer)

    def _draw_matrix(self, view: View, found: CkaMeasurement, layer: str, offer: str) -> None:
        matrix, pairs = found.matrix(layer), least_similar(found.matrix(layer))
        scale, said = CKA, "scale 0–1"
        if self._fitted and pairs:
            scale = float(matrix[pairs[0]]), float(matrix[pairs[-1]])
            said = f"scale fitted: {number(scale[0])}–{number(scale[1])}"
        order = ", similar clients adjacent" if self._map.clustered else ""
        mean = f"{number(found.mean(layer))}{found.whom}"
        what = f"CKA of {layer}"
        at = f"{what}, round {found.round}: {mean}"
        self._matrix.caption(f"{at}, {said}{order}{offer}", f"{at}, {said}", at, f"{what}: {mean}", what)
        names, titles = list(map(str, found.clients)), named_clients(view.run, found.clients)
        self._map.change(value_range=scale)
        self._map.show(matrix, names, names, titles=(titles, titles))

    def _follow(self, view: View, found: CkaMeasurement) -> None:
        """Keep the cursor in the row of the selected client. Without a cursor, mark that row, where it will appear."""
        compared = view.client is not None and view.client in found.clients
        row = found.clients.index(view.client) if compared and view.client is not None else 0
        self._map.change(marked=(row if compared else None, None))
        if self._map.cursor is None:
            self._map.home = (row, 0 if row else 1)
        elif compared and self._map.cursor[0] != row:
            self._map.put_cursor(row, self._map.cursor[1])

    def _draw_curves(self, view: View, found: CkaMeasurement, layer: str) -> None:
        """The layers' means by depth, now and at first, and over the rounds. With a cursor, its pair and all pairs."""
        depths = np.arange(1.0, len(found.layers) + 1)
        rounds = np.array([one.round for one in view.measured], float)
        means = np.array([[one.mean(each) for each in found.layers] for one in view.measured])  # by round
        now = np.array([found.mean(each) for each in found.layers])
        at = f"by depth, read at {layer}"
        if self._map.cursor is None:
            first = view.measured[0]
            by_depth = [Series(f"round {found.round}", now, depths, True)]
            by_depth += [] if found is first else [Series(f"round {first.round}", means[0], depths)]
            over_rounds = [Series(*each, rounds) for each in zip(found.layers, means.T, strict=True)]
            ends = f"1 is {found.layers[0]}, {len(depths)} is {found.layers[-1]}"
            titles, title = (f"{at}: {ends}", at), "over rounds"
        else:
            pair = found.clients[self._map.cursor[0]], found.clients[self._map.cursor[1]]
            own = [found.between(*pair, each) for each in found.layers]
            by_depth = _beside(own, now, depths)
            place, course = found.layers.index(layer), [one.between(*pair, layer) for one in view.measured]
            over_rounds = _beside(course, means[:, place], rounds)
            names = " × ".join(named_clients(view.run, pair))
            titles = f"{names}, {at}", f"{names}, by depth"
            title = f"{names}: {number(own[place])} of {layer}"
        self._depth.show(Figure(by_depth, x_label="layer", y_range=CKA))
        self._rounds.show(Figure(over_rounds, x_label="round", y_range=CKA, crowd="layers", over="rounds"))
        self._parts["depth"].caption(*titles)
        self._parts["rounds"].caption(title)

    def chosen(self, found: CkaMeasurement) -> str:
        """The layer shown: the chosen one if it was measured, else the deepest."""
        return self._layer if self._layer in found.layers and self._layer else found.layers[-1]

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        # An older message may be from before `draw` moved the cursor on.
        now = message.table is self._layers and message.key == self._layers.selected
        if now and isinstance(message.key, str) and self._view is not None:
            self._layer = message.key
            self.draw(self._view)

    def on_heatmap_cursor_moved(self, message: Heatmap.CursorMoved) -> None:
        # An older message may be from before the cursor moved on.
        if self._view is None or message.cell != self._map.cursor:
            return
        found = self._view.cka
        if message.cell is not None and found is not None:
            client = found.clients[message.cell[0]]
            self._view = replace(self._view, client=client)
            self.post_message(ClientSelected(client))
        self.update()

    def idle(self, view: View) -> Sequence[str]:
        found = view.cka
        if found is None:
            return ("least", "scale", "sort", "previous", "next")
        alone = () if len(found.layers) > 1 else ("previous", "next")
        return alone if len(found.clients) > 2 else (*alone, "sort")

    def action_least(self) -> None:
        """The least similar pair in this layer, or the next one if this was shown already."""
        if self._view is None or (found := self._view.cka) is None:
            return
        layer, now = self.chosen(found), self._map.cursor
        if pairs := least_similar(found.matrix(layer)):
            place = pairs.index(now) + 1 if now in pairs and self._least == (layer, now) else 0
            pair = pairs[place % len(pairs)]
            self._least = layer, pair
            self._map.put_cursor(*pair)

    def action_scale(self) -> None:
        """Use colors for 0 to 1, or for the range of the pairs."""
        self._fitted = not self._fitted
        self.update()

    def action_sort(self) -> None:
        self._map.cluster(not self._map.clustered)
        self.update()

    def step(self, by: int) -> None:
        if self._view is not None and (found := self._view.cka) is not None:
            place = found.layers.index(self.chosen(found)) + by
            self._layer = found.layers[min(max(place, 0), len(found.layers) - 1)]
            self.draw(self._view)

    action_previous, action_next = partialmethod(step, -1), partialmethod(step, 1)

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """One row per pair of clients and one column per layer, as last measured."""
        columns, found = ["round", "client", "other"], view.cka
        if found is None:
            return columns, []
        matrices = [found.matrix(layer) for layer in found.layers]
        return [*columns, *found.layers], [
            [found.round, found.clients[one], found.clients[other], *(each[one, other] for each in matrices)]
            for one, other in combinations(range(len(found.clients)), 2)
        ]


def _beside(pair: Sequence[float], mean: Array, x: Array) -> list[Series]:
    """The pair's line, and that of the mean over all pairs."""
    own = Series("the pair", np.array(pair), x, pinned=True, key="p")
    return [own, Series("all pairs", mean, x, key="m")]


def _computes(view: View) -> bool:
    """Whether `c` computes CKA from a checkpoint, instead of writing one."""
    return view.replaying or not view.run.live


def _unmeasured(view: View) -> str:
    if not view.run.document:
        return unread(view) or OPENING
    if (computing := view.similarities.computing(view.run)) is not None:
        return f"Computing CKA of round {computing}. Press c to stop."
    known = ""
    if view.measured:
        known = f"CKA was first measured after round {view.measured[0].round}. Press ] or L to go there.\n\n"
    if not _computes(view):
        return known or awaited_cka(view) or UNMEASURED.format(how=NOW)
    if view.kept is None:
        return known or (gone(view) if view.run.round else UNMEASURED.format(how=ONCE_IT_GOES_ON))
    if (failed := view.similarities.refusal(view.run, view.kept)) is not None:
        return f"{failed}\n\nPress c to try again."
    return f"{known}{OFFER.format(round=view.kept)}"
