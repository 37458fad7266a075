"""What panels show, one run at one round with the user's pins, marks, and filters, and what they tell the app."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from textual.containers import Container
from textual.message import Message
from textual.widget import Widget

from htfl_sim.folders import sessions_folder
from simulator.base.record import Record
from simulator.results.analysis.classes import Confusion
from simulator.results.analysis.clients import lowest_client
from simulator.results.analysis.costs import Cost, Position, elsewhere
from simulator.results.analysis.gain import Pair
from simulator.results.analysis.ledger import CkaMeasurement, Curves, last_measured
from simulator.results.analysis.measures import part_measures
from simulator.results.analysis.overview import Summary
from simulator.results.analysis.run import SessionData
from simulator.results.figures.palette import OKABE_ITO
from simulator.results.inspection.client_samples import ClientSamples, Embedding
from simulator.sessions.history import entries_to, settings_in_force
from simulator.studies.board import StudySummary
from simulator.studies.selection import Seeds


class ColorSlots:
    """The slots of compared lines. A line's slot gives its key and its color.

    It keeps its slot while others come and go, also at another start, unless all colors were taken meanwhile.
    """

    def __init__(self, kept: dict[str, int] | None = None) -> None:
        """kept: the slots by line, updated in place. Invalid entries are removed."""
        self._kept = {} if kept is None else kept
        taken = set[int]()
        for name, place in [*self._kept.items()]:
            if type(place) is not int or place < 0 or place in taken:
                del self._kept[name]
            else:
                taken.add(place)

    def of(self, lines: Sequence[Seeds]) -> list[int]:
        names = [f"{line.runs[0].folder.parent.absolute()}: {line.name}" for line in lines]
        for name in names:
            if name not in self._kept:
                self._kept[name] = self._free(names)
        return [self._kept[name] for name in names]

    def _free(self, names: Sequence[str]) -> int:
        """The first color that no line has had, else the first slot that none of these has: its old line loses it."""
        kept = {place: name for name, place in self._kept.items()}
        unused = (place for place in range(len(OKABE_ITO)) if place not in kept)
        found = next(unused, None)
        if found is None:
            found = next(place for place in count() if kept.get(place) not in names)
            self._kept.pop(kept.get(found, ""), None)
        return found


RoundKey = tuple[str, int]
"""The id of a session and one of its rounds."""


Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Computed(Generic[Result]):
    """found: by place, the result or the sentence why there is none. under_way: the running computation, if any.

    The number in a place is a round, or of samples, a client.
    """

    found: Mapping[RoundKey, Result | str] = field(default_factory=dict)
    under_way: RoundKey | None = None

    def last(self, run: SessionData, round: int) -> Result | None:
        """The last result of a session at or before a round."""
        before = [place for session, place in self.found if session == session_of(run) and place <= round]
        known = (self.at(run, place) for place in sorted(before, reverse=True))
        return next((each for each in known if each is not None and not isinstance(each, str)), None)

    def of(self, run: SessionData) -> list[Result]:
        found = (each for (session, _), each in self.found.items() if session == session_of(run))
        return [each for each in found if not isinstance(each, str)]

    def computing(self, run: SessionData) -> int | None:
        return self.under_way[1] if self.under_way and self.under_way[0] == session_of(run) else None

    def at(self, run: SessionData, number: int) -> Result | str | None:
        return self.found.get((session_of(run), number))

    def refusal(self, run: SessionData, round: int) -> str | None:
        """Why a round has none, if its computation failed."""
        found = self.at(run, round)
        return found if isinstance(found, str) else None


def session_of(run: SessionData) -> str:
    """The id of a session; "" before it has been read."""
    return str(run.document.get("id", ""))


def in_force(run: SessionData, round: int) -> Mapping[str, Any]:
    """The settings of a session in a round, after its switches."""
    return settings_in_force(run.document, entries_to(run.history, round))


def client_of(run: SessionData, client: int) -> str:
    """The key of a client's own results, in place of the id of its session."""
    return f"{session_of(run)}/{client}"


ACCURACIES = ("band and mean", "all clients", "clients × rounds")
GAIN = "gain by round"
"""The mode of the accuracy chart that compares with the partner. No metric has a name with spaces."""
Embeddings = Computed[Embedding]
Similarities = Computed[CkaMeasurement]
Confusions = Computed[Confusion]
SamplesRead = Computed[ClientSamples]
NONE_YET: Computed[Any] = Computed()


@dataclass(frozen=True, eq=False)
class View:
    """The state of the app as far as panels show it."""

    run: SessionData
    round: int | None = None
    """The earlier round that is shown; None: live."""
    crosshair: Position | None = None
    """The chosen place in a chart, at which all charts show values; None: none."""
    client: int | None = None
    """The client under the cursor, in every panel; None before the first evaluation."""
    pinned: frozenset[int] = frozenset()
    """Clients that are drawn on top and named."""
    filter: str = ""
    """Words that a client's line must contain."""
    chart: int = 0
    """The mode of the accuracy chart, as a place in `charts`."""
    sort: tuple[str, bool] = ("accuracy", False)
    """The column by which clients are sorted, and whether from high to low."""
    marked: tuple[Path, ...] = ()
    """Sessions marked for comparison, in order of marking."""
    compared: tuple[SessionData, ...] = ()
    """The marked sessions in the last reading."""
    pair: Pair | None = None
    """The partner of a session in the last reading, which may be another session's than the one shown."""
    embeddings: Embeddings = NONE_YET
    """t-SNE of the sessions' rounds, if it was requested."""
    similarities: Similarities = NONE_YET
    """CKA of kept rounds that the run did not measure, if it was requested."""
    confusions: Confusions = NONE_YET
    """Clients' confusion matrices after kept rounds, by `client_of`, if they were requested."""
    samples: SamplesRead = NONE_YET
    """What clients train on, if it was requested."""
    places: ColorSlots = field(default_factory=ColorSlots)
    """The slots of compared lines."""
    sessions_dir: Path | None = None
    """The folder of sessions; None: that of the run."""

    @property
    def charts(self) -> tuple[str, ...]:
        """The modes of the accuracy chart: ACCURACIES, "loss", what else the run measured on a part, and GAIN."""
        measured = (each for each in part_measures(self.run.records) if each != "loss")
        return (*ACCURACIES, "loss", *measured, *([GAIN] if self.paired else []))

    @property
    def mode(self) -> str:
        """The chart's mode; the first one if the run has no such numbers."""
        if self.chart <= len(ACCURACIES):
            return (*ACCURACIES, "loss")[self.chart]
        return dict(enumerate(self.charts)).get(self.chart, ACCURACIES[0])

    @property
    def next_chart(self) -> int:
        modes = self.charts
        return (modes.index(self.mode) + 1) % len(modes)

    @property
    def paired(self) -> Pair | None:
        """The partner of the session shown, whose clients are the same under a baseline method; None: there is none."""
        found = self.pair
        if found is None or found.folder != self.run.folder or found.other.error:
            return None
        return found if found.other.curves.clients == self.run.curves.clients else None

    @property
    def library(self) -> Path:
        return self.sessions_dir or sessions_folder(self.run.folder)

    @property
    def replaying(self) -> bool:
        return self.round is not None and self.round < self.run.round

    @property
    def kept(self) -> int | None:
        """The kept round to compute from: the one shown or, live, the newest; None: it is gone."""
        if self.shown in self.run.checkpoints:
            return self.shown or None
        before = [round for round in self.run.checkpoints if 0 < round <= self.shown]
        return None if self.replaying else max(before, default=None)

    @property
    def measured(self) -> Sequence[CkaMeasurement]:
        """CKA in order of round: what the run measured, and what was computed from its checkpoints."""
        recorded = self.run.ledger.whole.measured
        if not (computed := self.similarities.of(self.run)):
            return recorded
        found = {each.round: each for each in (*computed, *recorded)}
        return [found[round] for round in sorted(found)]

    @property
    def cka(self) -> CkaMeasurement | None:
        return last_measured(self.measured, self.shown)

    def cursor(self, over: Cost = "rounds") -> float | None:
        """The cursor of charts over rounds, or over their costs: at the crosshair, else at the earlier round shown.

        A value of another axis is at the nearest round of the run shown.
        """
        place: Position | None = ("rounds", float(self.shown)) if self.replaying else None
        if (place := self.crosshair or place) is None:
            return None
        run = next((run for run in (self.run, *self.compared) if run.round), self.run)
        at = elsewhere(run.curves, place, over)
        return None if math.isnan(at) else at

    @property
    def shown(self) -> int:
        """The number of the round shown; 0 before the first."""
        return self.run.round if self.round is None else min(self.round, self.run.round)

    @property
    def selected(self) -> int:
        """The selected client; without one, the first of those with the lowest accuracy at the round shown."""
        if self.client is not None and self.client < max(self.curves.clients, 1):
            return self.client
        lowest = lowest_client(self.curves.upto(self.shown))
        return lowest[0] if lowest else 0

    @property
    def record(self) -> Record | None:
        return self.run.record(self.shown)

    @property
    def curves(self) -> Curves:
        """All rounds. In replay, charts show the whole run with a cursor at the round shown."""
        return self.run.curves

    def looks_like(self, other: "View", within_rounds: bool = False) -> bool:
        """Whether panels would draw the same for both.

        Progress within a round concerns only the status row, except in the first round, which has nothing else to show,
        and in panels that show events `within_rounds`.
        """
        mine, theirs = ({**vars(view), **vars(view.run)} for view in (self, other))
        seen = within_rounds or not self.run.round
        unseen = _NOT_DRAWN[1:] if seen else _NOT_DRAWN
        return all(  # the same objects, without comparing hundreds of rounds; small values may also be equal
            each is theirs[name] or (isinstance(each, str | int) and each == theirs[name])
            for name, each in mine.items()
            if name not in unseen
        )


_NOT_DRAWN = ("progress", "run", "owner", "silence", "pending", "places", "confusions")


class Panel(Container):
    """One of the app's panels. It draws a View and reads nothing itself."""

    FOLLOWS_PROGRESS: ClassVar[bool] = False
    """Whether it shows the clients' places in an unfinished round, also after the first round."""

    def labels(self) -> Mapping[str, str]:
        """The labels of keys that do something else here than in other panels, by the action."""
        return {}

    def idle(self, view: View) -> Sequence[str]:
        """The arguments of its keys' actions that would do nothing now. The footer leaves them out."""
        return ()

    @property
    def place(self) -> str:
        """Its id, or the place in the table of keys of what it shows instead."""
        return self.id or ""

    def back(self) -> bool:
        """Leave what the panel shows in its own place. Returns whether there was something to leave."""
        return False

    def first(self) -> Widget | None:
        """The part that is focused when the panel appears: the first visible one that takes keys."""
        parts = self.walk_children(Widget)
        return next((part for part in parts if part.focusable and in_sight(part)), None)

    def prepare(self, width: int, height: int) -> None:
        """Choose the parts for this size in advance, so that they are laid out once."""

    def show(self, view: View) -> None:
        """Draw this view. Called while the panel is visible, when its contents may have changed."""
        raise NotImplementedError

    def steered(self) -> Sequence[Summary | StudySummary]:
        """The sessions that keys steer instead of the one shown; empty: that one."""
        return ()

    def under_cursor(self) -> Summary | StudySummary | None:
        """The session or study under the cursor of a list; None without such a list."""
        return None

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """The panel's contents, as columns and rows for a CSV file."""
        raise NotImplementedError


def in_sight(part: Widget) -> bool:
    """Whether a widget is displayed, or will be after the present layout."""
    return all(each.display for each in part.ancestors_with_self if isinstance(each, Widget))


@dataclass
class ClientPinned(Message):
    """Pin this client, or unpin it. A panel changes nothing itself: it sends a message, and the app makes a View."""

    client: int


@dataclass
class ClientSelected(Message):
    client: int


@dataclass
class PanelWanted(Message):
    """Show another panel with more about the selection. Escape returns."""

    panel: str


@dataclass
class NewRunWanted(Message):
    preset: str


@dataclass
class ViewChanged(Message):
    changes: dict[str, Any]


@dataclass
class Wanted(Message):
    """Compute a job of `Computations` of the session shown, or stop if it is being computed."""

    job: str
    round: int = 0
    client: int = 0


@dataclass
class RoundRefused(Message):
    """Say why nothing can be computed of this round of the session shown, as long as it is the one shown."""

    why: str
    round: int


@dataclass
class SessionOpened(Message):
    folder: Path


@dataclass
class SessionMarked(Message):
    folder: Path
