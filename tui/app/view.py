"""What the panels show: one run, at one round, with what the user has pinned, marked and filtered."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from textual.containers import Container
from textual.widget import Widget

from htfl_sim.analysis import (
    Cost,
    Curves,
    Embedding,
    Position,
    Record,
    SessionData,
    StudySummary,
    Summary,
    elsewhere,
)
from htfl_sim.folders import sessions_folder
from tui.app.color_slots import ColorSlots

EmbeddingKey = tuple[str, int]
"""The id of a session and one of its rounds."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """found: by place, the embedding or the sentence why there is none. under_way: the place being computed, if any."""

    found: Mapping[EmbeddingKey, Embedding | str] = field(default_factory=dict)
    under_way: EmbeddingKey | None = None

    def last(self, run: SessionData, round: int) -> Embedding | None:
        """The last one of a session at or before a round."""
        own = [
            each
            for (session, at), each in self.found.items()
            if session == session_of(run) and at <= round and isinstance(each, Embedding)
        ]
        return max(own, key=lambda each: each.round, default=None)

    def refusal(self, run: SessionData, round: int) -> str | None:
        """Why there is none of a round, where that has been tried."""
        found = self.found.get((session_of(run), round))
        return found if isinstance(found, str) else None


def session_of(run: SessionData) -> str:
    """The id of a session; "" before it has been read."""
    return str(run.document.get("id", ""))


NO_EMBEDDINGS = Embeddings()


@dataclass(frozen=True, eq=False)
class View:
    """The state of the app as far as panels draw it."""

    run: SessionData
    round: int | None = None
    """The round travelled to; None: live."""
    crosshair: Position | None = None
    """The place chosen in a chart, at which all of them are read; None: none is."""
    client: int | None = None
    """The client under the cursor, in every panel; None before anyone was evaluated."""
    pinned: frozenset[int] = frozenset()
    """Clients drawn on top and named."""
    filter: str = ""
    """Words that a client's line must have."""
    chart: int = 0
    """The accuracy chart's mode: 0 band and mean, 1 all lines, 2 clients × rounds."""
    sort: tuple[str, bool] = ("accuracy", False)
    """The column that clients are sorted by, and whether from high to low."""
    marked: tuple[Path, ...] = ()
    """Sessions marked for comparison, in order of marking."""
    compared: tuple[SessionData, ...] = ()
    """The marked sessions as they were last read."""
    embeddings: Embeddings = NO_EMBEDDINGS
    """t-SNE of the sessions' rounds, as far as it was asked for."""
    places: ColorSlots = field(default_factory=ColorSlots)
    """Of what is compared."""
    sessions_dir: Path | None = None
    """The folder of sessions; None: the one that the run lies in."""

    @property
    def library(self) -> Path:
        """Where the other sessions are."""
        return self.sessions_dir or sessions_folder(self.run.folder)

    @property
    def replaying(self) -> bool:
        return self.round is not None and self.round < self.run.round

    def cursor(self, over: Cost = "rounds") -> float | None:
        """Where charts over rounds, or over what these cost, have their cursor: at the crosshair, else at the round
        travelled to. What is said over another axis lies there where the run shown has its nearest round."""
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
        """All rounds: while replaying, charts show the whole run with a cursor at the round shown."""
        return self.run.curves

    def looks_like(self, other: "View", within_rounds: bool = False) -> bool:
        """Whether panels would draw the same of both; how far a round has got is for the status row to say, but for the
        first, beside which there is nothing else, and where a panel shows what goes on `within_rounds`."""
        mine, theirs = ({**vars(view), **vars(view.run)} for view in (self, other))
        seen = within_rounds or not self.run.round
        unseen = _NOT_DRAWN[1:] if seen else _NOT_DRAWN
        return all(_is(mine[name], theirs[name]) for name in mine if name not in unseen)


_NOT_DRAWN = ("progress", "run", "owner", "pending", "places")


def _is(mine: object, theirs: object) -> bool:
    """The very same, without looking into hundreds of rounds; what is small may also be equal."""
    return mine is theirs or (isinstance(mine, str | int) and mine == theirs)


class Panel(Container):
    """One of the app's panels. It draws what a View says, and asks for nothing itself."""

    FOLLOWS_PROGRESS: ClassVar[bool] = False
    """Whether it shows where the clients are in a round under way, also in later rounds than the first."""

    def first(self) -> Widget | None:
        """The part that has the focus when the panel comes up: the first in sight that takes keys."""
        return next((part for part in self.query("*") if part.focusable and in_sight(part)), None)

    def prepare(self, width: int, height: int) -> None:
        """It will have this size: choose what there is room for, so that it is laid out once."""

    def show(self, view: View) -> None:
        """Draw this view. Called while the panel is visible, when what it shows may have changed."""
        raise NotImplementedError

    def steered(self) -> Sequence[Summary | StudySummary]:
        """The sessions that keys steer in place of the one shown; none: that one."""
        return ()

    def table(self, view: View) -> tuple[list[str], list[list[object]]]:
        """What is shown, as columns and rows for a CSV file."""
        raise NotImplementedError


def in_sight(part: Widget) -> bool:
    """Whether a widget is displayed, or will be once the layout that is under way is done."""
    return all(each.display for each in part.ancestors_with_self if isinstance(each, Widget))
