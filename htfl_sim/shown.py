"""While rounds run: the output of `progress=True`, and Ctrl-C or a notebook's stop button."""

import html
import importlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from simulator.sessions.steering import Signals as Signals
from simulator.sessions.steering import die_by as die_by

if TYPE_CHECKING:
    from simulator.base.record import Record
    from simulator.engine.progress import Event
    from simulator.studies.folder import Status


def in_notebook() -> bool:
    """Whether this is a notebook's kernel, which shows HTML. IPython is then loaded already."""
    ipython: Any = sys.modules.get("IPython")
    # Colab's shell is a subclass of Jupyter's.
    return ipython is not None and any(
        kind.__name__ == "ZMQInteractiveShell" for kind in type(ipython.get_ipython()).__mro__
    )


class Bar:
    """A bar under a notebook's cell, updated in place. It needs no widgets."""

    def __init__(self) -> None:
        display: Any = importlib.import_module("IPython.display")
        self._html = display.HTML
        self._handle = display.display(display.HTML(""), display_id=True)

    def show(self, done: float, whole: float, text: str) -> None:
        """Set the bar to `done` of `whole`, with a text next to it."""
        bar = f'<progress value="{done:g}" max="{whole:g}"></progress>'
        self._handle.update(self._html(f"{bar} {html.escape(text)}"))


@contextmanager
def rounds(progress: "bool | Callable[[Record], object]") -> "Iterator[Callable[[Event], None]]":
    """The progress function of a run: nothing, a line or a bar for its rounds, or the caller's function."""
    from simulator.engine.progress import ClientTrained, RoundFinished, RoundStarted

    bar = Bar() if progress is True and in_notebook() else None
    last = 0

    def observe(event: "Event") -> None:
        nonlocal last
        match event:
            case RoundStarted(round, whole, _):
                last = whole
                if bar:
                    bar.show(round - 1, last, f"round {round} of {last}")
            case ClientTrained(round, _, done, participants, _) if bar:
                bar.show(round - 1 + done / participants, last, f"round {round} of {last}")
            case RoundFinished(record):
                if callable(progress):
                    progress(record)
                elif bar:
                    bar.show(record["round"], last, round_line(record))
                else:
                    print(round_line(record), flush=True)

    yield observe if progress is not False else lambda event: None


def round_line(record: "Record") -> str:
    """A round in one line."""
    mean = record["accuracy"]["mean"]
    return f"round {record['round']}: " + ("not evaluated" if mean is None else f"accuracy {mean:.4f}")


@contextmanager
def points(
    progress: "bool | Callable[[Sequence[Status]], None]",
) -> "Iterator[Callable[[Sequence[Status]], None]]":
    """The same for a study's points."""
    if callable(progress):
        yield progress
        return
    bar = Bar() if progress and in_notebook() else None
    told: set[str] = set()

    def observe(statuses: "Sequence[Status]") -> None:
        if bar:
            finished = sum(each.state == "finished" for each in statuses)
            done = sum(each.round for each in statuses)
            whole = sum(each.rounds for each in statuses)
            bar.show(done, whole, f"{finished} of {len(statuses)} points finished")
        for each in statuses:
            if each.state in ("finished", "failed") and each.name not in told:
                told.add(each.name)
                mean = "" if each.accuracy is None else f", accuracy {each.accuracy:.4f}"
                if not bar or each.reason:
                    print(
                        f"{each.name}: {each.reason or each.state}, round {each.round} of {each.rounds}{mean}"
                    )

    yield observe if progress else lambda statuses: None


class Interrupt:
    """Whether an interrupt has come: a reason for `Session.run` to stop."""

    def __init__(self) -> None:
        self.came = False

    def reason(self) -> str | None:
        return "SIGINT" if self.came else None

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True


@contextmanager
def heeded() -> Iterator[Interrupt]:
    """Note the first interrupt. A second raises KeyboardInterrupt at once. Only the main thread receives signals."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = signal.signal(signal.SIGINT, interrupt._note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
