"""The contents of the panels: one run at one round, with the user's pins, marks, and filters."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from textual.containers import Container
from textual.widget import Widget

from htfl_sim.analysis import (
    ClientSamples,
    Cost,
    Curves,
    Embedding,
    Position,
    Record,
    SessionData,
    StudySummary,
    Summary,
    elsewhere,
    part_measures,
)
from htfl_sim.folders import sessions_folder
from tui.app.color_slots import ColorSlots

EmbeddingKey = tuple[str, int]
"""The id of a session and one of its rounds."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """found: by place, the embedding or the sentence why there is none. under_way: the running computation, if any."""

    found: Mapping[EmbeddingKey, Embedding | str] = field(default_factory=dict)
    under_way: EmbeddingKey | None = None

    def last(self, run: SessionData, round: int) -> Embedding | None:
        """The last embedding of a session at or before a round."""
        own = [
            each
            for (session, at), each in self.found.items()
            if session == session_of(run) and at <= round and isinstance(each, Embedding)
        ]
        return max(own, key=lambda each: each.round, default=None)

    def refusal(self, run: SessionData, round: int) -> str | None:
        """Why a round has none, if its computation failed."""
        found = self.found.get((session_of(run), round))
        return found if isinstance(found, str) else None


@dataclass(frozen=True, eq=False)
class SamplesRead:
    """found: by session and client, its samples or the reason of a failure. under_way: the session being read."""

    found: Mapping[tuple[str, int], ClientSamples | str] = field(default_factory=dict)
    under_way: str | None = None

    def of(self, run: SessionData, client: int) -> ClientSamples | str | None:
        """Those of a client; None if they have not been read."""
        return self.found.get((session_of(run), client))


def session_of(run: SessionData) -> str:
    """The id of a session; "" before it has been read."""
    return str(run.document.get("id", ""))


ACCURACIES = ("band and mean", "all clients", "clients × rounds")
NO_EMBEDDINGS = Embeddings()
NO_SAMPLES = SamplesRead()


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
    embeddings: Embeddings = NO_EMBEDDINGS
    """t-SNE of the sessions' rounds, if it was requested."""
    samples: SamplesRead = NO_SAMPLES
    """What clients train on, if it was requested."""
    places: ColorSlots = field(default_factory=ColorSlots)
    """The slots of compared lines."""
    sessions_dir: Path | None = None
    """The folder of sessions; None: that of the run."""

    @property
    def charts(self) -> tuple[str, ...]:
        """The modes of the accuracy chart: ACCURACIES, "loss", and what else the run measured on a part."""
        return (*ACCURACIES, "loss", *(each for each in part_measures(self.run.records) if each != "loss"))

    @property
    def mode(self) -> str:
        """The chart's mode; the first one if the run has no such numbers."""
        if self.chart <= len(ACCURACIES):
            return (*ACCURACIES, "loss")[self.chart]
        return dict(enumerate(self.charts)).get(self.chart, ACCURACIES[0])

    @property
    def next_chart(self) -> int:
        """The place of the mode after this one."""
        modes = self.charts
        return (modes.index(self.mode) + 1) % len(modes)

    @property
    def library(self) -> Path:
        """The folder of the other sessions."""
        return self.sessions_dir or sessions_folder(self.run.folder)

    @property
    def replaying(self) -> bool:
        return self.round is not None and self.round < self.run.round

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
        return all(_is(mine[name], theirs[name]) for name in mine if name not in unseen)


_NOT_DRAWN = ("progress", "run", "owner", "pending", "places")


def _is(mine: object, theirs: object) -> bool:
    """The same objects, without comparing hundreds of rounds. Small values may also be equal."""
    return mine is theirs or (isinstance(mine, str | int) and mine == theirs)


class Panel(Container):
    """One of the app's panels. It draws a View and reads nothing itself."""

    FOLLOWS_PROGRESS: ClassVar[bool] = False
    """Whether it shows the clients' places in an unfinished round, also after the first round."""

    def first(self) -> Widget | None:
        """The part that is focused when the panel appears: the first visible one that takes keys."""
        return next((part for part in self.query("*") if part.focusable and in_sight(part)), None)

    def prepare(self, width: int, height: int) -> None:
        """Choose the parts for this size in advance, so that they are laid out once."""

    def show(self, view: View) -> None:
        """Draw this view. Called while the panel is visible, when its contents may have changed."""
        raise NotImplementedError

    def steered(self) -> Sequence[Summary | StudySummary]:
        """The sessions that keys steer instead of the one shown; empty: that one."""
        return ()

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """The panel's contents, as columns and rows for a CSV file."""
        raise NotImplementedError


def in_sight(part: Widget) -> bool:
    """Whether a widget is displayed, or will be after the present layout."""
    return all(each.display for each in part.ancestors_with_self if isinstance(each, Widget))
