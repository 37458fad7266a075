"""Classes by client: samples, recall, its change, and its gain over the partner, with the classes that moved most."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

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
from tui.app.panels import gains
from tui.app.panels.base import PERCENT
from tui.app.view import View
from tui.common.cells import fitting
from tui.common.formatting import percent, points

SAMPLES, RECALL, CHANGE, GAIN = range(4)
MODES = 4
LEAST = 5.0
"""The smallest range of the colors of changes to either side, in pp."""

NO_ROUND = (
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
    """What a mode shows in a round: the counts, and those they are compared with.

    round: of the counts. against: the round compared with, or the partner's name; "" for recall alone.
    """

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
        """The changes of the classes over all clients, the largest gain first."""
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


def place(view: View, mode: int) -> tuple[object, ...]:
    """What the map depends on: equal if it would be the same."""
    if mode == SAMPLES:
        return (mode,)
    pair = view.paired if mode == GAIN else None
    against = compared_round(view) if mode == CHANGE else None
    return mode, view.run.ledger, view.shown, against, pair and pair.other.ledger, pair and pair.partner


def class_map(view: View, mode: int, samples: Samples) -> ClassMap | str:
    """What this mode shows, or the sentence in its place. Not of SAMPLES."""
    if not view.shown:
        return NO_ROUND
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
        counts = [(label, each) for label, each in enumerate(found.now.over_clients()) if each.samples]
        every = [(label, each.recall, each, None) for label, each in counts]
        every.sort(key=lambda each: -each[1])
    judged = [each for each in every if each[2].samples >= FEW]
    ranked = judged if len(judged) > 1 else every
    if not ranked and recalled:
        return "No client has test samples that were evaluated."
    if not ranked:
        return "No class has samples in both."
    high = [each for each in ranked if recalled or each[1] > 0]
    low = [each for each in ranked[::-1] if recalled or each[1] < 0]
    if not high and not low:
        some = f" with {FEW} or more samples" if len(ranked) < len(every) else ""
        return f"No class{some} gained or lost."
    texts = []
    for count, level in ((2, FULL), (1, FULL), (1, BRIEF), (1, BARE)):
        first, last = ("Highest recall", "lowest") if recalled else ("Gained", "lost")
        if level == FULL and not recalled:
            first, last = "Classes gained most", "lost most"
        gained, lost = (
            ", ".join(f"{found.names[each[0]]} ({_told(level, *each[1:])})" for each in some[:count])
            for some in (high, low)
        )
        texts.append(f"{first}: {gained or 'none'}; {last}: {lost or 'none'}")
    return fitting(texts, width)


def cell(found: ClassMap, client: int, label: int, width: int) -> str:
    """The counts of a client's class, in at most `width` cells."""
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
    """How many classes gained and lost, or how many cells have a recall of 0, in at most `width` cells."""
    if found.before is None:
        known, missed = int((found.now.samples > 0).sum()), int((found.cells == 0).sum())
        return fitting([f"{missed} of {known} cells with samples have no correct answer"], width)
    up, down = (sum(sign * each.change > 0 for each in found.changes) for sign in (1, -1))
    counts = f"{up} of {len(found.changes)} classes gained, {down} lost"
    return fitting([f"{counts}, over all clients, against {found.against}", counts], width)


def table(found: ClassMap) -> tuple[list[str], list[list[object]]]:
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
