"""What panels and threads tell the app. A panel changes nothing itself: it says what is wanted, the app makes a View.

Keys reach panels by name: `action_pin`, `action_mark`, `action_sort` … on the visible panel are called for the keys
that keys.py gives to panels, whether or not the panel has the focus. So a panel needs no BINDINGS of its own for them.
"""

from dataclasses import dataclass
from pathlib import Path

from textual.message import Message

from htfl_sim.analysis import Position, SessionData
from htfl_sim.steering import Answer, Command


@dataclass
class ClientPinned(Message):
    """Pin this client, or unpin it."""

    client: int


@dataclass
class ClientSelected(Message):
    """This client is the one under the cursor, in every panel."""

    client: int


@dataclass
class CrosshairMoved(Message):
    """Have the crosshair at this place in all charts; None: put it away."""

    place: Position | None


@dataclass
class ChartWanted(Message):
    """Draw the accuracy chart in its next mode."""


@dataclass
class PanelWanted(Message):
    """Show another panel, for more of what is selected; escape leads back."""

    panel: str


@dataclass
class ClientsSorted(Message):
    """Sort clients by the column of this name, from high to low or not."""

    column: str
    descending: bool


@dataclass
class EmbeddingWanted(Message):
    """Compute t-SNE of this kept round of the session shown; while that is being computed: cease."""

    round: int


@dataclass
class SessionOpened(Message):
    """Show this session in place of the present one."""

    folder: Path


@dataclass
class SessionMarked(Message):
    """Mark this session for comparison, or take the mark away."""

    folder: Path


@dataclass
class RunRead(Message):
    """The session shown, as it is now."""

    run: SessionData

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, RunRead)


@dataclass
class ComparedRead(Message):
    """The marked sessions as they are now, in order of marking."""

    runs: tuple[SessionData, ...]

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, ComparedRead)


@dataclass
class Answered(Message):
    """What became of a command the app posted; None: its session is now `ended`, or gone, without an answer."""

    command: Command
    answer: Answer | None
    ended: str = ""


@dataclass
class RunStarted(Message):
    """The run on this process's thread owns its session now."""

    folder: Path


@dataclass
class RunEnded(Message):
    """The run on this process's thread is over: 'finished' or 'stopped'; failed, if there is a sentence saying why."""

    folder: Path
    state: str
    failure: str | None = None
