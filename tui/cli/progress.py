"""Progress of a run: bars in a terminal, a line per round in a pipe, JSON records for programs."""

from collections.abc import Callable, Iterable
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from simulator.base.record import Record
from simulator.engine.progress import (
    ClientDiverged,
    ClientTrained,
    EvaluationStarted,
    Event,
    Noticed,
    RoundFinished,
    RoundStarted,
    StateChanged,
    Switch,
    Warned,
)
from tui.cli import output
from tui.common.formatting import percent, printable, size

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


class Lines:
    """One line per round, for logs and pipes."""

    def __init__(self, rounds: int, best: Best | None = None) -> None:
        self._rounds, self._best = rounds, best or Best(None, None)
        self._state = "running"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def __call__(self, event: Event) -> None:
        match event:
            case RoundStarted(_, rounds, _):
                self._rounds = rounds
            case RoundFinished(record):
                self.say(line(record, self._rounds, self._best))
            case ClientDiverged():
                self.say(diverged(event))
            case Noticed():
                self.say(noticed(event))
            case Warned(message):
                self.say(f"warning: {message}")
            case StateChanged(state, _):
                if said := changed(self._state, event):
                    self.say(said)
                self._state = state
            case Switch():
                self.say(switched(event))

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
            case RoundStarted(round, rounds, participants):
                self._rounds = rounds
                self._bars.update(self._all, total=rounds, note=f"{round - 1}/{rounds}")
                self._bars.reset(
                    self._clients, total=len(participants), description=f"round {round}", note="training"
                )
            case ClientTrained(round, _, done, participants, _):
                note = f"{done}/{participants} clients"
                self._bars.update(self._clients, completed=done, note=note)
                self._bars.update(self._all, completed=round - 1 + TRAINING * done / participants)
            case EvaluationStarted(_, clients):
                self._bars.update(self._clients, note=f"evaluating {clients}")
            case ClientDiverged():
                self.say(diverged(event))
            case Noticed():
                self.say(noticed(event))
            case Warned(message):
                self.say(f"warning: {message}")
            case StateChanged(state, _):
                self._bars.update(self._clients, note="training" if state == "running" else state)
            case Switch():
                self.say(switched(event))
            case RoundFinished(record):
                done = record["round"]
                self._bars.update(self._all, completed=done, note=f"{done}/{self._rounds}")
                self._live.update(self._view(record))

    def say(self, message: str) -> None:
        self._live.console.print(printable(message), style="yellow")

    def _view(self, record: Record | None) -> Group:
        found = results_of(record, self._best) if record else ["no round finished yet"]
        results = " · ".join(found)
        return Group(self._bars, Text(results, style="cyan"))


class Records:
    """Each round's record as a JSON line on stdout."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, RoundFinished):
            output.emit(event.record, indent=None)


class Stopping:
    """Prints once that the run will stop, why, and what happens to the round."""

    def __init__(self, requested: Callable[[], str | None], say: Callable[[str], None]) -> None:
        """`requested`: the signal that asks for a stop. The run's state shows the command `stop`."""
        self._requested = requested
        self._say = say
        self._said = False

    def __call__(self, event: Event) -> None:
        by_command = isinstance(event, StateChanged) and event.state == "stopping"
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

    record: the one after `done` rounds; best: the round with the best mean so far.
    untrained: every client diverged in every one of them.
    """
    console, known = output.stderr(drawn=drawn is True), Best(record, best, untrained)
    if drawn is False or not console.is_terminal:
        return Lines(rounds, known)
    return Bars(rounds, done, record, known, console)


def together(observers: Iterable[Callable[[Event], None]]) -> Callable[[Event], None]:
    """One observer that calls all of them."""
    told = list(observers)

    def tell(event: Event) -> None:
        for observer in told:
            observer(event)

    return tell


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


def line(record: Record, rounds: int, best: Best) -> str:
    """A round in one line."""
    return "  ".join([f"round {record['round']}/{rounds}", *results_of(record, best)])


def diverged(event: ClientDiverged) -> str:
    """A message that a client's loss was no longer finite, with its name."""
    return (
        f"warning: client {event.client} diverged in round {event.round} (phase '{event.phase}'): "
        "its update is left out and its state stays as it was."
    )


def noticed(event: Noticed) -> str:
    """A message about what a watcher noticed, and what follows."""
    follows = {"pause": "; the run pauses", "stop": "; the run stops"}.get(event.action, "")
    return f"watch: {event.watcher} after round {event.round}: {event.message}{follows}"


def changed(before: str, event: StateChanged) -> str:
    """A message that a run waits or continues. `Stopping` reports stops."""
    match event.state:
        case "pausing":
            return "pausing: the clients at work finish first"
        case "paused":
            return f"paused after round {event.round}: no client trains"
        case "running" if before in ("pausing", "paused"):
            return "training continues"
    return ""


def switched(event: Switch) -> str:
    """A message about a switch: its round, the new method or settings, and what is taken over."""
    name = event.method if event.method == event.before else f"{event.before} → {event.method}"
    settings = [change for change in event.changes if not change.startswith("method ")]
    return f"from round {event.from_round} on: {name} ({'; '.join(filter(None, [*settings, event.adopted]))})"
