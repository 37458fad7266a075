"""Progress of a sweep: a table of all points in a terminal, a line per change in a pipe, JSON for programs."""

import time
from collections.abc import Sequence
from typing import Any, Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from simulator.studies.folder import FAILED, FINISHED, LIVE, WAITING, Status, time_left
from tui.cli import output
from tui.common.formatting import NONE, duration, percent, printable

REDRAW_SECONDS = 0.5
FRAME = 6
"""Rows of a terminal that the table's rows cannot use."""
_WORTH = {state: worth for worth, state in enumerate((WAITING, FINISHED, "stopped", FAILED))}
"""Points in these states are left out first if not all fit. Running points stay."""
_STYLES = {FAILED: "red", FINISHED: "green", WAITING: "dim", "paused": "yellow"}


class Lines:
    """A line whenever a point's state changes or a round of it ends."""

    unsaid: tuple[str, ...] = (WAITING, FINISHED)
    """A point that starts in one of these states gets no line."""

    def __init__(self, study: str) -> None:
        self._study = study
        self._shown: dict[str, tuple[object, ...]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def __call__(self, statuses: Sequence[Status]) -> None:
        for status in statuses:
            about = status.state, status.round, status.reason
            known = self._shown.get(status.name)
            if known != about and (known or status.state not in self.unsaid):
                self.tell(status)
            self._shown[status.name] = about

    def tell(self, status: Status) -> None:
        output.say("  ".join(filter(None, (f"{self._study}/{status.name}", *_words(status)))))


class Records(Lines):
    """Each change as a JSON line on stdout."""

    unsaid = (WAITING,)

    def tell(self, status: Status) -> None:
        output.emit(to_json(self._study, status), indent=None)


class LiveTable:
    """A table that is updated in place: every point, or as many as fit, and the remaining time."""

    def __init__(self, study: str, jobs: int | None, console: Console) -> None:
        self._study, self._jobs, self._console = study, jobs, console
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._drawn = 0.0
        self._shown: Sequence[Status] = ()
        self._latest: Sequence[Status] = ()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            last = table(self._study, self._latest, self._jobs, self._console.height)
            self._live.update(last, refresh=True)
        self._live.stop()

    def __call__(self, statuses: Sequence[Status]) -> None:
        now, self._latest = time.monotonic(), statuses
        if statuses != self._shown and now - self._drawn >= REDRAW_SECONDS:
            self._drawn, self._shown = now, statuses
            self._live.update(table(self._study, statuses, self._jobs, self._console.height), refresh=True)


def display(study: str, jobs: int | None, drawn: bool | None, as_json: bool) -> Lines | LiveTable:
    """A table if `drawn`, otherwise lines. None: a table if stderr is a terminal. jobs: points at once, if known."""
    if as_json:
        return Records(study)
    console = output.stderr(drawn=drawn is True)
    return LiveTable(study, jobs, console) if drawn is not False and console.is_terminal else Lines(study)


def table(study: str, statuses: Sequence[Status], jobs: int | None, height: int) -> Group:
    """The points in a terminal with this many rows."""
    kept = _with_room(statuses, max(height - FRAME, 1))
    result = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("point", "state"):
        result.add_column(column, no_wrap=True)
    trials = any(status.last for status in statuses)
    for column in ("round", *(("score on eval",) if trials else ("accuracy", "best")), "left"):
        result.add_column(column, justify="right", no_wrap=True)
    result.add_column("", overflow="ellipsis", no_wrap=True)
    for status in kept:
        result.add_row(
            f"{study}/{status.name}",
            Text(status.state, style=_STYLES.get(status.state, "cyan")),
            f"{status.round}/{status.rounds}",
            *(
                (NONE if status.losers else percent(status.score),)
                if trials
                else (percent(status.accuracy), percent(status.best))
            ),
            duration(status.left) if status.state in LIVE else NONE,
            printable(status.reason) or _diverged(status),
        )
    return Group(result, Text(summary(statuses, jobs, len(statuses) - len(kept))))


def summary(statuses: Sequence[Status], jobs: int | None, hidden: int = 0) -> str:
    """'3 of 12 points finished · 2 at work · 1 failed · about 3 h left'."""
    count = {state: sum(status.state == state for status in statuses) for state in (FINISHED, FAILED)}
    at_work = sum(status.state in LIVE for status in statuses)
    left = time_left(statuses, at_work if jobs is None else jobs)
    words = [f"{count[FINISHED]} of {len(statuses)} points finished"]
    words += [f"{at_work} at work"] if at_work else []
    words += [f"{count[FAILED]} failed"] if count[FAILED] else []
    words += [f"about {duration(left)} left"] if left else []
    words += [f"{hidden} not shown"] if hidden else []
    return " · ".join(words)


def to_json(study: str, status: Status) -> dict[str, Any]:
    """A point as a JSON object. Accuracies are shares, and `left` is in seconds."""
    return {
        "point": f"{study}/{status.name}",
        "state": status.state,
        "round": status.round,
        "rounds": status.rounds,
        "accuracy": status.accuracy,
        "best": status.best,
        "score": status.score,
        "diverged": status.losers,
        "left": status.left,
        "reason": status.reason or None,
    }


def _with_room(statuses: Sequence[Status], rows: int) -> list[Status]:
    """As many points as there are rows, in order: running points first, then failed ones, then the rest."""
    ranked = sorted(statuses, key=lambda status: -_WORTH.get(status.state, len(_WORTH)))
    kept = {status.name for status in ranked[:rows]}
    return [status for status in statuses if status.name in kept]


def _words(status: Status) -> list[str]:
    words = [status.state, f"round {status.round}/{status.rounds}"]
    if status.last and status.round:
        words.append(_diverged(status) or f"score on eval {percent(status.score)}")
    elif status.untrained:
        words.append("no score: every client diverged")
    elif status.accuracy is not None:
        words.append(f"accuracy {percent(status.accuracy)} (best {percent(status.best)})")
    if status.left and status.state in LIVE:
        words.append(f"{duration(status.left)} left")
    return [*words, printable(status.reason)]


def _diverged(status: Status) -> str:
    """The clients of a trial that diverged, in place of its score."""
    return f"{status.losers} client{'s' * (status.losers > 1)} diverged" if status.losers else ""
