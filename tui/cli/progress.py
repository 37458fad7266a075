"""Progress of a run and of a study: drawn in a terminal, lines in a pipe, JSON for programs."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from simulator.base.record import Record
from simulator.engine import progress as events
from simulator.engine.progress import Event, Switch
from simulator.studies.folder import FAILED, FINISHED, LIVE, WAITING, Status, time_left
from tui.cli import output
from tui.common.formatting import NONE, counted, duration, percent, printable, size

TRAINING = 0.9
"""The share of a round that the bar gives to training. The rest is evaluation and the checkpoint."""


class Best:
    """The round with the best mean accuracy so far, as records arrive."""

    def __init__(self, record: Record | None, round: int | None, untrained: bool = False) -> None:
        """untrained: every client diverged in every round up to `record`."""
        self._mean = record["accuracy"]["best_mean"] if record else None
        self._round = round
        self._trained, self._diverged = record is not None and not untrained, untrained

    @property
    def untrained(self) -> bool:
        """Whether every client diverged in every round so far, so that there is no score."""
        return self._diverged and not self._trained

    def after(self, record: Record) -> int | None:
        """The round of `best_mean` in this record; None if it is unknown."""
        diverged = len(record.get("diverged", ()))
        self._diverged |= diverged > 0
        self._trained |= len(record["participants"]) > diverged
        if (mean := record["accuracy"]["best_mean"]) != self._mean:
            self._mean, self._round = mean, record["round"]
        return self._round


class Lines(AbstractContextManager[Any]):
    """One line per round, for logs and pipes."""

    def __init__(self, rounds: int, best: Best | None = None) -> None:
        self._rounds, self._best = rounds, best or Best(None, None)
        self._state = "running"

    def __exit__(self, *_: object) -> None:
        return

    def __call__(self, event: Event) -> None:
        match event:
            case events.RoundStarted(_, rounds, _):
                self._rounds = rounds
            case events.RoundFinished(record):
                words = [f"round {record['round']}/{self._rounds}", *results_of(record, self._best)]
                self.say("  ".join(words))
            case events.StateChanged(state, round):
                before, self._state = self._state, state
                if state == "pausing":
                    self.say("pausing: the clients at work finish first")
                elif state == "paused":
                    self.say(f"paused after round {round}: no client trains")
                elif state == "running" and before in ("pausing", "paused"):
                    self.say("training continues")
            case _:
                tell(event, self.say)

    def say(self, message: str) -> None:
        output.say(message)


class Bars:
    """Bars for the rounds and for the clients within the round, with a line of results below."""

    def __init__(self, rounds: int, done: int, record: Record | None, best: Best, console: Console) -> None:
        self._rounds, self._best = rounds, best
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
            speed_estimate_period=900.0,
        )
        self._all = self._bars.add_task("rounds", total=rounds, completed=done, note=f"{done}/{rounds}")
        self._clients = self._bars.add_task("clients", total=1, note="starting")
        self._live = Live(self._view(record), console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        match event:
            case events.RoundStarted(round, rounds, participants):
                self._rounds = rounds
                self._bars.update(self._all, total=rounds, note=f"{round - 1}/{rounds}")
                self._bars.reset(
                    self._clients, total=len(participants), description=f"round {round}", note="training"
                )
            case events.ClientTrained(round, _, done, participants, _):
                note = f"{done}/{participants} clients"
                self._bars.update(self._clients, completed=done, note=note)
                self._bars.update(self._all, completed=round - 1 + TRAINING * done / participants)
            case events.EvaluationStarted(_, clients):
                self._bars.update(self._clients, note=f"evaluating {clients}")
            case events.StateChanged(state, _):
                self._bars.update(self._clients, note="training" if state == "running" else state)
            case events.RoundFinished(record):
                done = record["round"]
                self._bars.update(self._all, completed=done, note=f"{done}/{self._rounds}")
                self._live.update(self._view(record))
            case _:
                tell(event, self.say)

    def say(self, message: str) -> None:
        self._live.console.print(printable(message), style="yellow")

    def _view(self, record: Record | None) -> Group:
        found = results_of(record, self._best) if record else ["no round finished yet"]
        return Group(self._bars, Text(" · ".join(found), style="cyan"))


def records(event: Event) -> None:
    """Print each round's record as a JSON line on stdout."""
    if isinstance(event, events.RoundFinished):
        output.emit(event.record, indent=None)


class Stopping:
    """Prints once that the run will stop, why, and what happens to the round."""

    def __init__(self, requested: Callable[[], str | None], say: Callable[[str], None]) -> None:
        """`requested`: the signal that asks for a stop. The run's state shows the command `stop`."""
        self._requested, self._say, self._said = requested, say, False

    def __call__(self, event: Event) -> None:
        by_command = isinstance(event, events.StateChanged) and event.state == "stopping"
        reason = self._requested() or ("stop" if by_command else None)
        if self._said or reason is None:
            return
        self._said = True
        leave = " Ctrl-C again leaves at once and loses this round." if reason == "SIGINT" else ""
        self._say(f"{reason}: the clients at work finish and are kept, then a checkpoint is written.{leave}")


def display(
    rounds: int,
    done: int,
    record: Record | None,
    drawn: bool | None,
    best: int | None = None,
    untrained: bool = False,
) -> Lines | Bars:
    """Bars if `drawn`, otherwise lines. None: bars if stderr is a terminal.

    record: the one after `done` rounds; best: the round with the best mean so far. untrained: every client diverged in
    every one of them.
    """
    console, known = output.stderr(drawn=drawn is True), Best(record, best, untrained)
    if drawn is False or not console.is_terminal:
        return Lines(rounds, known)
    return Bars(rounds, done, record, known, console)


def results_of(record: Record, best: Best) -> list[str]:
    """A round's results, in short."""
    accuracy, traffic, when = record["accuracy"], record["bytes"], best.after(record)
    highest = percent(accuracy["best_mean"]) + (f", r{when}" if when else "")
    found = [f"accuracy {percent(accuracy['mean'])} (best {highest})"]
    if best.untrained:
        found = ["no score: every client diverged in every round"]
    if (loss := record["loss"]["mean"]) is not None:
        found.append(f"loss {loss:.4f}")
    up, down = size(traffic["up_total"]), size(traffic["down_total"])
    return [*found, f"↑ {up} ↓ {down}", f"{record['timing']['seconds']:.1f} s"]


def tell(event: Event, say: Callable[[str], None]) -> None:
    """Say what is neither a round nor a state of the run; other events say nothing."""
    match event:
        case events.ClientDiverged():
            say(
                f"warning: client {event.client} diverged in round {event.round} (phase '{event.phase}'): "
                "its update is left out and its state stays as it was."
            )
        case events.Noticed():
            follows = {"pause": "; the run pauses", "stop": "; the run stops"}.get(event.action, "")
            say(f"watch: {event.watcher} after round {event.round}: {event.message}{follows}")
        case events.Warned(message):
            say(f"warning: {message}")
        case Switch():
            name, settings = switched(event)
            told = "; ".join(filter(None, [*settings, event.adopted]))
            say(f"from round {event.from_round} on: {name} ({told})")


def switched(switch: Switch) -> tuple[str, list[str]]:
    """The methods of a switch, and its other changes."""
    name = switch.method if switch.method == switch.before else f"{switch.before} → {switch.method}"
    return name, [change for change in switch.changes if not change.startswith("method ")]


REDRAW_SECONDS = 0.5
FRAME = 6
"""Rows of a terminal that the table's rows cannot use."""
_WORTH = {state: worth for worth, state in enumerate((WAITING, FINISHED, "stopped", FAILED))}
"""Points in these states are left out first if not all fit. Running points stay."""
_STYLES = {FAILED: "red", FINISHED: "green", WAITING: "dim", "paused": "yellow"}


class PointLines(AbstractContextManager[Any]):
    """A line whenever a point's state changes or a round of it ends. With `as_json`, a line of JSON on stdout."""

    def __init__(self, study: str, as_json: bool = False) -> None:
        self._study, self._as_json = study, as_json
        self._shown: dict[str, tuple[object, ...]] = {}

    def __exit__(self, *_: object) -> None:
        return

    def __call__(self, statuses: Sequence[Status]) -> None:
        unsaid = (WAITING,) if self._as_json else (WAITING, FINISHED)  # of points that start in these states
        for status in statuses:
            about = status.state, status.round, status.reason
            known = self._shown.get(status.name)
            if known != about and (known or status.state not in unsaid):
                self.tell(status)
            self._shown[status.name] = about

    def tell(self, status: Status) -> None:
        """Say it, or print it as JSON: accuracies as shares, `left` in seconds."""
        if self._as_json:
            keys = ("state", "round", "rounds", "accuracy", "best", "score")
            said = {"point": f"{self._study}/{status.name}", **{key: getattr(status, key) for key in keys}}
            last = {"diverged": status.losers, "left": status.left, "reason": status.reason or None}
            output.emit(said | last, indent=None)
            return
        words = [f"{self._study}/{status.name}", status.state, f"round {status.round}/{status.rounds}"]
        if status.last and status.round:
            words.append(_diverged(status) or f"score on eval {percent(status.score)}")
        elif status.untrained:
            words.append("no score: every client diverged")
        elif status.accuracy is not None:
            words.append(f"accuracy {percent(status.accuracy)} (best {percent(status.best)})")
        if status.left and status.state in LIVE:
            words.append(f"{duration(status.left)} left")
        output.say("  ".join(filter(None, [*words, printable(status.reason)])))


class PointTable:
    """A table that is updated in place: every point, or as many as fit, and the remaining time."""

    def __init__(self, study: str, jobs: int | None, console: Console) -> None:
        self._study, self._jobs = study, jobs
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._drawn = 0.0
        self._shown: Sequence[Status] = ()
        self._latest: Sequence[Status] = ()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._draw()
        self._live.stop()

    def __call__(self, statuses: Sequence[Status]) -> None:
        now, self._latest = time.monotonic(), statuses
        if statuses != self._shown and now - self._drawn >= REDRAW_SECONDS:
            self._drawn, self._shown = now, statuses
            self._draw()

    def _draw(self) -> None:
        height = self._live.console.height
        self._live.update(table(self._study, self._latest, self._jobs, height), refresh=True)


def of_points(study: str, jobs: int | None, drawn: bool | None, as_json: bool) -> PointLines | PointTable:
    """A table if `drawn`, otherwise lines. None: a table if stderr is a terminal. jobs: points at once, if known."""
    if as_json:
        return PointLines(study, as_json)
    console = output.stderr(drawn=drawn is True)
    if drawn is False or not console.is_terminal:
        return PointLines(study)
    return PointTable(study, jobs, console)


def table(study: str, statuses: Sequence[Status], jobs: int | None, height: int) -> Group:
    """The points in a terminal with this many rows: running points first, then failed ones, then the rest."""
    ranked = sorted(statuses, key=lambda status: -_WORTH.get(status.state, len(_WORTH)))
    kept = {status.name for status in ranked[: max(height - FRAME, 1)]}
    result = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("point", "state"):
        result.add_column(column, no_wrap=True)
    trials = any(status.last for status in statuses)
    for column in ("round", *(("score on eval",) if trials else ("accuracy", "best")), "left"):
        result.add_column(column, justify="right", no_wrap=True)
    result.add_column("", overflow="ellipsis", no_wrap=True)
    for status in statuses:
        if status.name not in kept:
            continue
        scores = [percent(status.accuracy), percent(status.best)]
        if trials:
            scores = [NONE if status.losers else percent(status.score)]
        result.add_row(
            f"{study}/{status.name}",
            Text(status.state, style=_STYLES.get(status.state, "cyan")),
            f"{status.round}/{status.rounds}",
            *scores,
            duration(status.left) if status.state in LIVE else NONE,
            printable(status.reason) or _diverged(status),
        )
    return Group(result, Text(summary(statuses, jobs, len(statuses) - len(kept))))


def summary(statuses: Sequence[Status], jobs: int | None, hidden: int = 0) -> str:
    """'3 of 12 points finished · 2 at work · 1 failed · about 3 h left'."""
    done, failed = (sum(status.state == state for status in statuses) for state in (FINISHED, FAILED))
    at_work = sum(status.state in LIVE for status in statuses)
    left = time_left(statuses, at_work if jobs is None else jobs)
    words = [f"{done} of {len(statuses)} points finished"]
    words += [f"{at_work} at work"] if at_work else []
    words += [f"{failed} failed"] if failed else []
    words += [f"about {duration(left)} left"] if left else []
    words += [f"{hidden} not shown"] if hidden else []
    return " · ".join(words)


def _diverged(status: Status) -> str:
    """The clients of a trial that diverged, in place of its score."""
    return f"{counted(status.losers, 'client')} diverged" if status.losers else ""
