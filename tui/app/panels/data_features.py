"""The Data & features panel: samples or recall of classes by client, features in the plane, and a client's samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Static

from simulator.metrics.significance import FEW
from simulator.results.analysis.classes import (
    ClassChange,
    ClassCounts,
    ClassTable,
    class_changes,
    class_table,
    recall_changes,
)
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.run import Samples
from simulator.results.inspection.client_samples import ClientSamples
from tui.app.charts.look import GLYPHS
from tui.app.charts.samples import draw_samples
from tui.app.charts.scatter import ScatterFigure, draw_scatter, key_of
from tui.app.panels import gains
from tui.app.panels.base import PERCENT, Part, SizedPanel, at_most, named_clients, unread
from tui.app.view import ClientSelected, RoundRefused, View, Wanted
from tui.app.widgets import Heatmap, Picture
from tui.app.widgets.screen import glyphs_of, room
from tui.app.workers import images_of, looked_at
from tui.common import findings
from tui.common.cells import apart, fit, fitting
from tui.common.formatting import percent, points, spelled

SAMPLES, RECALL, CHANGE, GAIN = range(4)
MODES = 4
LEAST = 5.0
"""The smallest range of the colors of changes to either side, in pp."""

NO_RECALL = (
    "No round is finished yet. The first one shows which classes the models recognize. "
    "Press y for the next view."
)
NOT_COUNTED = (
    "Round {round} has no counts of answers by class. Sessions of earlier versions have none, nor do sessions of "
    "very many clients and classes.\n\nTo count them from the next round on, press m and set evaluation.classes to "
    "true. Press y for the next view."
)
NOT_BEFORE = (
    "No earlier round has counts of answers by class. Press ] for a later round, or y for the next view."
)
NOT_THERE = (
    "{name} has no counts of answers by class in round {round}. Press A to start a new one, "
    "or y for the next view."
)
UNPAIRED = (
    "No session here has the same clients under Standalone. Press A to start one beside this session. "
    "Press y for the next view."
)
ITSELF = "This session is Standalone itself. Open a session of another method. Press y for the next view."


@dataclass(frozen=True, eq=False)
class ClassMap:
    """What a mode shows in a round: the counts, and those of a round or of the partner ("": none) compared with."""

    mode: int
    round: int
    names: Sequence[str]
    now: ClassTable
    before: ClassTable | None = None
    against: str = ""

    @cached_property
    def cells(self) -> Array:
        """[N, C] recall in per cent, or its change in pp; NaN where one of both is not known."""
        found = self.now.recall if self.before is None else recall_changes(self.now, self.before)
        return found * PERCENT

    @cached_property
    def changes(self) -> list[ClassChange]:
        return class_changes(self.now, self.before) if self.before is not None else []

    @property
    def reach(self) -> tuple[float, float]:
        if self.before is None:
            return 0.0, PERCENT
        most = max([LEAST, *(abs(each.change) * PERCENT for each in self.changes)])
        return -most, most

    @property
    def caption(self) -> str:
        if self.before is None:
            return f"recall by class, round {self.round}"
        if self.mode == GAIN:
            return f"gain in recall, round {self.round}, over {self.against}"
        return f"change in recall, {self.against} to {self.round}"


def compared_round(view: View) -> int:
    """The earlier round that changes are measured from: under the crosshair, or the one before the round shown."""
    at = view.cursor() if view.crosshair is not None else None
    chosen = view.shown - 1 if at is None else round(at)
    return chosen if 0 < chosen < view.shown else view.shown - 1


def map_of(view: View, mode: int) -> tuple[object, ...]:
    """What the map depends on: equal if it would be the same."""
    if mode == SAMPLES:
        return (mode,)
    pair = view.paired if mode == GAIN else None
    against = compared_round(view) if mode == CHANGE else None
    return mode, view.run.ledger, view.shown, against, pair and pair.other.ledger, pair and pair.partner


def class_map(view: View, mode: int, samples: Samples) -> ClassMap | str:
    """What this mode shows, or the sentence in its place. Not of SAMPLES."""
    if not view.shown:
        return NO_RECALL
    names, clients = samples.classes, len(samples.train)
    round, against, before = view.shown, "", None
    if mode == GAIN:
        if (pair := view.paired) is None:
            return ITSELF if view.run.method == "standalone" else UNPAIRED
        rounds = gains.rounds(view)[gains.rounds(view) <= view.shown]
        if not len(rounds):
            return gains.NO_ROUND.format(name=pair.partner.name).partition(" B ")[0]
        round, against = int(rounds[-1]), gains.baseline(view)
        before = class_table(pair.other.records[:round], clients, len(names))
    now = class_table(view.run.records[:round], clients, len(names))
    if now is None:
        return NOT_COUNTED.format(round=round)
    if mode == CHANGE:
        earlier = compared_round(view)
        against = f"round {earlier}"
        before = class_table(view.run.records[:earlier], clients, len(names))
    if mode != RECALL and before is None:
        other = view.paired.partner.name if view.paired else ""
        return NOT_BEFORE if mode == CHANGE else NOT_THERE.format(name=other, round=round)
    return ClassMap(mode, round, names, now, before, against)


_Ranked = tuple[int, float, ClassCounts, ClassCounts | None]
"""A class, its change or its recall, its counts, and those before."""


def most(found: ClassMap, width: int) -> str:
    """The classes with the largest changes, or with the highest and lowest recall, in at most `width` cells."""
    every: list[_Ranked] = [(each.label, each.change, each.now, each.before) for each in found.changes]
    if recalled := found.before is None:
        counts = enumerate(found.now.over_clients())
        every = [(label, each.recall, each, None) for label, each in counts if each.samples]
        every.sort(key=lambda each: -each[1])
    judged = [each for each in every if each[2].samples >= FEW]
    ranked = judged if len(judged) > 1 else every
    if not ranked:
        nobody = "No client has test samples that were evaluated."
        return nobody if recalled else "No class has samples in both."
    high = [each for each in ranked if recalled or each[1] > 0]
    low = [each for each in ranked[::-1] if recalled or each[1] < 0]
    if not high and not low:
        some = f" with {FEW} or more samples" if len(ranked) < len(every) else ""
        return f"No class{some} gained or lost."
    texts = []
    for count, level in ((2, FULL), (1, FULL), (1, BRIEF), (1, BARE)):
        first, last = ("Classes gained most", "lost most") if level == FULL else ("Gained", "lost")
        if recalled:
            first, last = "Highest recall", "lowest"
        gained, lost = (
            ", ".join(f"{found.names[each[0]]} ({_told(level, *each[1:])})" for each in some[:count])
            for some in (high, low)
        )
        texts.append(f"{first}: {gained or 'none'}; {last}: {lost or 'none'}")
    return fitting(texts, width)


def cell(found: ClassMap, client: int, label: int, width: int) -> str:
    now = _counts(found.now, client, label)
    head = f"Client {client}, class {found.names[label]}: "
    if not now.samples:
        told = f"{head}no test samples; answered {_times(now.answered)}"
        return fitting([told, f"{head}no samples"], width)
    said = f"{now.correct} of {now.samples} samples"
    wrong = f"; answered {_times(now.answered)}, {now.answered - now.correct} wrong"
    if found.before is not None:
        then = _counts(found.before, client, label)
        said = f"{then.correct} of {then.samples} to {now.correct} of {now.samples} samples"
        wrong = f"; wrong answers {then.answered - then.correct} to {now.answered - now.correct}"
    return fitting([head + said + wrong, head + said, said], width)


def summary(found: ClassMap, width: int) -> str:
    if found.before is None:
        known, missed = int((found.now.samples > 0).sum()), int((found.cells == 0).sum())
        return fitting([f"{missed} of {known} cells with samples have no correct answer"], width)
    up, down = (sum(sign * each.change > 0 for each in found.changes) for sign in (1, -1))
    counts = f"{up} of {len(found.changes)} classes gained, {down} lost"
    return fitting([f"{counts}, over all clients, against {found.against}", counts], width)


def class_rows(found: ClassMap) -> tuple[list[str], list[list[object]]]:
    """One row per client and class with samples or answers, as columns and rows."""
    columns = ["round", "client", "class", "samples", "correct", "answered", "recall"]
    if found.before is not None:
        columns += ["against", "samples before", "correct before", "change"]
    rows = list[list[object]]()
    clients, classes = found.now.samples.shape
    for client in range(clients):
        for label in range(classes):
            now = _counts(found.now, client, label)
            then = None if found.before is None else _counts(found.before, client, label)
            if not any(now) and not (then and any(then)):
                continue
            recall = now.recall if now.samples else None
            row: list[object] = [found.round, client, found.names[label], *now, recall]
            if then is not None:
                both = now.samples and then.samples
                row += [found.against, then.samples, then.correct, now.recall - then.recall if both else None]
            rows.append(row)
    return columns, rows


def _counts(table: ClassTable, client: int, label: int) -> ClassCounts:
    return ClassCounts(*(int(each[client, label]) for each in (table.samples, table.correct, table.answered)))


FULL, BRIEF, BARE = range(3)


def _told(level: int, value: float, now: ClassCounts, before: ClassCounts | None) -> str:
    """'+12.1 pp: 34 to 41 of 60 samples', or more briefly '+12.1 pp, 41 of 60'; '68.3 %, 41 of 60 samples'."""
    said = percent(value) if before is None else f"{points(value)} pp"
    counts = f"{now.correct} of {now.samples}"
    if level == BARE:
        return said
    if before is None or level == BRIEF:
        return f"{said}, {counts}" + " samples" * (before is None)
    then = f"{before.correct}" if before.samples == now.samples else f"{before.correct} of {before.samples}"
    return f"{said}: {then} to {counts} samples"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


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
        self._points, self._content_mode = BY_CLASS, SAMPLES
        self._recognized: ClassMap | None = None
        self._map, self._scatter = Heatmap(axes=("class", "client"), decimals=0), Picture(draw_scatter)
        self._held = Picture(draw_samples)
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
                glyphs = glyphs_of(self)
                said = "; ".join([f"read: {findings.data_summary(report)}", *report["warnings"]])
                line = fit(spelled(said, glyphs), width - 2, GLYPHS[glyphs].ellipsis)
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
        if shown != part.display:
            part.display = shown
            self.call_after_refresh(self.redraw)  # once the parts have their new sizes

    def point(self, view: View) -> None:
        super().point(view)
        self._draw_map(view)  # changes are measured from the round under the crosshair

    def _draw_map(self, view: View) -> None:
        place = map_of(view, self._content_mode)
        if self.differs("partition", view.run.document, view.run.config, room(self._map), *place):
            self._draw_partition(view)
        found, at, width = self._recognized, self._map.cursor, room(self._words).width
        if found is not None and self.differs("words", found, at, width):
            second = summary(found, width)
            if at is not None:
                second = cell(found, at[1], at[0], width)
            lines = f"{most(found, width)}\n{second}"
            self._words.update(spelled(lines, glyphs_of(self)), layout=False)

    def _draw_partition(self, view: View) -> None:
        samples = Samples.of(view.run)
        self._recognized = None
        recalls = self._content_mode != SAMPLES
        found = class_map(view, self._content_mode, samples) if samples and recalls else None
        self._put(self._words, samples is not None and recalls and not isinstance(found, str))
        if samples is None or isinstance(found, str):
            uncounted = UNCOUNTED.format(name=view.run.name) if view.run.document else ""
            self._partition.caption(TITLES[self._content_mode if samples else SAMPLES])
            self._partition.say(found if isinstance(found, str) else uncounted)
            return
        self._partition.say(None)
        held = samples.train.T.astype(float)
        across = max((room(self).width - MARGIN) // max(len(samples.train), 1), 1)
        at_most(self._room, across * len(held) + 4 if self.has_class("-crowd") else None)
        self._recognized = found
        if found is None:
            most = max(held.max(initial=0.0), 1.0)
            self._map.change(unit="", signed=False, value_range=(0.0, most))
            held = np.where(held > 0, held, np.nan)
        else:
            unit = "%" if found.before is None else "pp"
            self._map.change(unit=unit, signed=found.before is not None, value_range=found.reach)
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
        self._map.change(marked=(None, view.client))
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
        by_client = self._points == BY_CLIENT
        names = named_clients(view.run) if by_client else found.classes
        groups = found.clients if by_client else found.labels
        keyed = [beside_key(number, name) for number, name in enumerate(names)]
        one = found.clients == view.selected if self._points == OF_ONE else None
        anchors = found.anchors, found.anchor_labels, found.anchor_kind
        self._scatter.show(ScatterFigure(found.points, groups, keyed, *anchors, one, not by_client))

    def _draw_samples(self, view: View) -> None:
        client = view.selected
        found = view.samples.at(view.run, client)
        if not self.differs("samples", found, client, view.samples.under_way, view.run.document):
            return
        names = named_clients(view.run)
        name = names[client] if client < len(names) else str(client)
        self._samples.caption(f"client {name}: samples before round 1")
        if isinstance(found, ClientSamples):
            self._samples.say(None)
            self._held.show(found)
        elif view.samples.computing(view.run) is not None:
            self._samples.say(READING.format(client=client))
        else:
            self._samples.say(f"{found}\n\nPress i to try again." if found else UNREAD.format(client=client))

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
        self._content_mode = (self._content_mode + 1) % MODES
        self.update()

    def action_embed(self) -> None:
        """Compute t-SNE of the round shown, or stop if it is being computed."""
        if self._view is None:
            return
        self._put_samples(False)
        under_way, target = self._view.embeddings.computing(self._view.run), self._view.kept
        if (round := target if under_way is None else under_way) is not None:
            self.post_message(Wanted("embeddings", round))
        elif self._view.run.round:
            why = gone(self._view).partition("\n")[0]
            self.post_message(RoundRefused(why, self._view.shown))

    def action_samples(self) -> None:
        """Show samples of the selected client, and read them first if need be. If they are shown: t-SNE again."""
        if self._view is None or not self._view.run.document:
            return
        view, client = self._view, self._view.selected
        missing = not isinstance(view.samples.at(view.run, client), ClientSamples)
        wanted = missing and view.samples.computing(view.run) is None
        self._put_samples(wanted or not self._samples.display)
        if wanted:
            self.post_message(Wanted("samples", client=client))

    def _put_samples(self, shown: bool) -> None:
        """Put samples in the place of the plane, or the plane in theirs."""
        self._plane.display = not shown
        self._put(self._samples, shown)

    def action_colours(self) -> None:
        self._put_samples(False)
        self._points = (self._points + 1) % 3
        self.update()

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """One row per point of the plane. While there is none, one row per class of a client."""
        if self._recognized is not None:
            return class_rows(self._recognized)
        held = view.samples.at(view.run, view.selected)
        if self._samples.display and isinstance(held, ClientSamples):
            return sample_table(held)
        if (found := view.embeddings.last(view.run, view.shown)) is not None:
            points = zip(found.points, found.labels, found.clients, strict=True)
            anchors = zip(found.anchors, found.anchor_labels, strict=True)
            return ["round", "x", "y", "class", "client", "what"], [
                *([found.round, *at, found.classes[label], client, "image"] for at, label, client in points),
                *([found.round, *at, found.classes[label], None, found.anchor_kind] for at, label in anchors),
            ]
        columns = ["client", "class", "train"]
        if (samples := Samples.of(view.run)) is None:
            return columns, []
        return columns, [
            [client, name, int(count)]
            for client, row in enumerate(samples.train)
            for name, count in zip(samples.classes, row, strict=True)
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
    said = said if kept else "No other checkpoint is left."
    return GONE.format(round=view.shown, kept=said, more=max(view.run.rounds, 1))


def _sentence(view: View, target: int | None, under_way: int | None) -> str:
    """The text in place of the plane."""
    if not view.run.round:
        return unread(view) or BEGINNING
    if under_way is not None:
        return f"Computing t-SNE of round {under_way}. Press t to stop."
    if target is None:
        return gone(view)
    if (failed := view.embeddings.refusal(view.run, target)) is not None:
        return f"{failed}\n\nPress t to try again."
    clients = len(view.run.models)
    looked = looked_at(clients)
    whose = "each client" if looked == clients else f"each of {looked} sampled clients"
    return OFFER.format(images=images_of(clients), whose=whose, round=target)


def beside_key(number: int, name: str) -> str:
    """A group's name in a legend, next to its key. The key is left out if the name begins with it."""
    key = key_of(number)
    return "" if name == key else name.removeprefix(f"{key} ")
