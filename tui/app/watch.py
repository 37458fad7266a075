"""The thread that reads files for the app: the session shown, the compared ones, and the answers to commands."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from textual.message import Message

from htfl_sim import sessions
from htfl_sim.errors import DiskError, SessionUnreadable
from htfl_sim.folders import sessions_folder
from htfl_sim.steering import Answer, Command, answer_to
from simulator.results.analysis.feed import Feed
from simulator.results.analysis.gain import Pair, Partner, Partners
from simulator.results.analysis.run import LIVE, SessionData


class Latest(Message):
    """A message that replaces one of its kind which the app has not handled yet."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, type(self))


@dataclass
class RunRead(Latest):
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


SEARCH_SECONDS = 4.0
"""Seconds between two searches of the folder of sessions."""


class Pairing:
    """Finds and posts the partner of one session after another, as it grows. Not thread-safe, except `prefer`."""

    def __init__(self, post: Callable[[Message], object]) -> None:
        self._post = post
        self._search = Partners()
        self._preferred: Path | None = None
        self._folder: Path | None = None
        self._looked_at = 0.0
        self._found: tuple[Partner, ...] = ()
        self._feed: Feed | None = None
        self._told: SessionData | None = None
        """The partner's rounds that were posted last."""

    def prefer(self, partner: Path) -> None:
        """Choose this partner, if it is one, from the next look on."""
        self._preferred, self._looked_at = partner, 0.0

    def look(self, run: SessionData, again: bool = False) -> None:
        """Post the partner of `run` if it has changed, or in any case with `again`."""
        if run.folder != self._folder:
            self._folder, self._looked_at, self._found, again = run.folder, 0.0, (), True
        if not run.document:
            return
        if again or time.monotonic() - self._looked_at >= SEARCH_SECONDS:
            self._found = self._search.find(run, sessions_folder(run.folder))
            self._looked_at = time.monotonic()
        chosen = next((each for each in self._found if each.folder == self._preferred), None)
        partner = chosen or next(iter(self._found), None)
        if partner is None:
            if again or self._told is not None:
                self._post(PairRead(run.folder, None))
            self._feed = self._told = None
            return
        if self._feed is None or self._feed.run.folder != partner.folder:
            self._feed, again = Feed(partner.folder), True
        self._feed.poll()
        now, before = self._feed.run, self._told
        # What its run does within a round is of no interest.
        same = before is not None and before.ledger is now.ledger
        if again or before is None or not same or (before.state, before.error) != (now.state, now.error):
            self._told = now
            self._post(PairRead(run.folder, Pair(run.folder, partner, now, self._found)))


POLL_SECONDS = 0.5
ASKED_SECONDS = 0.1
"""Seconds between two readings while a command waits for its answer."""
COMPARED_SECONDS = 2.0


class Watch(threading.Thread):
    """Reads until `end` and posts changes, which the app draws. Every method may be called from any thread."""

    def __init__(self, post: Callable[[Message], object]) -> None:
        super().__init__(name="watch", daemon=True)
        self._post = post
        self._wake = threading.Event()
        self._ended = False
        self._folder: Path | None = None
        self._again = False
        """Whether to post the session although nothing in it has changed."""
        self._compared: tuple[Path, ...] = ()
        self._asked: tuple[tuple[Path, Command], ...] = ()
        self._pairing = Pairing(post)
        self._lock = threading.Lock()

    def follow(self, folder: Path | None) -> None:
        """Read this session from now on, and post it as it is, even if it was followed before."""
        self._folder, self._again = folder, True
        self._wake.set()

    def compare(self, folders: tuple[Path, ...]) -> None:
        self._compared = folders
        self._wake.set()

    def pair(self, partner: Path) -> None:
        """Compare the session shown with this one from now on, if it is a partner."""
        self._pairing.prefer(partner)
        self._wake.set()

    def expect(self, folder: Path, command: Command) -> None:
        with self._lock:
            self._asked += ((folder, command),)
        self._wake.set()

    def end(self) -> None:
        self._ended = True
        self._wake.set()

    def run(self) -> None:
        feed: Feed | None = None
        others: dict[Path, Feed] = {}
        compared_at = 0.0
        while not self._ended:
            self._wake.clear()
            again, self._again = self._again, False
            folder, compared = self._folder, sessions_of(self._compared)
            if folder is None:
                feed = None
            elif feed is None or feed.run.folder != folder:
                feed = Feed(folder, notices=True)
            if feed is not None and (feed.poll() or again):
                self._post(RunRead(feed.run))
            if feed is not None:
                self._pairing.look(feed.run, again)
            soon = self._look_for_answers()
            fresh = set(compared) != set(others)
            if fresh or time.monotonic() - compared_at >= COMPARED_SECONDS:
                compared_at = time.monotonic()
                others = {path: others.get(path) or Feed(path) for path in compared}
                if sum([each.poll() for each in others.values()]) or fresh:
                    self._post(ComparedRead(tuple(each.run for each in others.values())))
            self._wake.wait(ASKED_SECONDS if soon else POLL_SECONDS)

    def _look_for_answers(self) -> bool:
        """Post the answers that have come. Returns whether a run works on others."""
        soon = False
        for folder, command in self._asked:
            answer, state = None, ""
            with suppress(SessionUnreadable, DiskError):
                # Read the state before the answer, because an owner answers before it ends.
                state = sessions.state(folder)
                answer = answer_to(folder, command.id)
            over = state not in ("", *LIVE) and command.kind != "switch"
            if answer is None and not over and folder.is_dir():
                soon = soon or state in LIVE
                continue
            with self._lock:
                self._asked = tuple(each for each in self._asked if each[1] is not command)
            self._post(Answered(command, answer, state or "gone"))
        return soon


def sessions_of(marked: Sequence[Path]) -> list[Path]:
    """The sessions as of now. A study becomes its present sessions."""
    found = []
    for folder in marked:
        with suppress(DiskError):
            found += sessions.inside(folder)
    return list(dict.fromkeys(found))
