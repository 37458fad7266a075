"""Messages of panels and threads to the app. A panel changes nothing itself: it sends a message, and the app makes a
View.

Keys reach panels by name: for the keys that keys.py gives to panels, the app calls `action_pin`, `action_mark`,
`action_sort` … on the visible panel, whether it has the focus or not. So a panel needs no BINDINGS for them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.message import Message

from htfl_sim.steering import Answer, Command
from simulator.results.analysis.partners import Pair
from simulator.results.analysis.run import SessionData


@dataclass
class ClientPinned(Message):
    """Pin this client, or unpin it."""

    client: int


@dataclass
class ClientSelected(Message):
    """This client is the one under the cursor, in every panel."""

    client: int


@dataclass
class ChartWanted(Message):
    """Draw the accuracy chart in its next mode."""


@dataclass
class PanelWanted(Message):
    """Show another panel with more about the selection. Escape returns."""

    panel: str


@dataclass
class NewRunWanted(Message):
    """Show the form for a new run of this preset."""

    preset: str


@dataclass
class ViewChanged(Message):
    """Show the same with these other values of fields of View."""

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
    """Show this session instead of the present one."""

    folder: Path


@dataclass
class SessionMarked(Message):
    """Mark this session for comparison, or remove the mark."""

    folder: Path


class Latest(Message):
    """A message that replaces one of its kind which the app has not handled yet."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, type(self))


@dataclass
class RunRead(Latest):
    """The session shown, as it is now."""

    run: SessionData


@dataclass
class ComparedRead(Latest):
    """The marked sessions as they are now, in order of marking."""

    runs: tuple[SessionData, ...]


@dataclass
class PairRead(Latest):
    """The partner of the session in `folder` as it is now; None: it has none."""

    folder: Path
    pair: Pair | None


@dataclass
class Answered(Message):
    """The answer to a command that the app posted. None: its session is now `ended`, or gone, without an answer."""

    command: Command
    answer: Answer | None
    ended: str = ""


@dataclass
class RunStarted(Message):
    """The run on this process's thread owns its session now."""

    folder: Path


@dataclass
class RunEnded(Message):
    """The run on this process's thread is over: 'finished' or 'stopped'; failed, if there is a sentence with the
    reason.
    """

    folder: Path
    state: str
    failure: str | None = None
