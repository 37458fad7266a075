"""A preview of a session in the list: its curve, its facts, and the differences of its settings."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from textual.app import ComposeResult
from textual.containers import Horizontal

from simulator.results.analysis.comparison import differences
from simulator.results.analysis.divergence import NO_SCORE
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.summary import Summary
from simulator.studies.summary import StudySummary
from tui.app.charts.figure import Figure, Series
from tui.app.charts.table import Column, Row
from tui.app.panels.base import Part
from tui.app.panels.chart_parts import PERCENT, at_best
from tui.app.panels.facts import Facts
from tui.app.panels.library import Sketch
from tui.app.view import View
from tui.app.widgets import LineChart, Table
from tui.common.formatting import NONE, course, percent, text_of

UNREAD = "Reading the session…"
BEGINNING = "No round is finished yet."
OPEN = "This session is open. Other sessions are compared with it."
NONE_OPEN = "No session is open. Enter opens this one, and other sessions are then compared with it."


class Preview(Horizontal):
    """Previews the session or study under the list's cursor, next to the session shown."""

    DEFAULT_CSS = """
    Preview > .facts { width: 44; display: none; margin-right: 1; }
    Preview > .differences { width: 44; margin-left: 1; }
    Preview.-facts > .facts { display: block; width: 1fr; }
    Preview.-facts > .differences { display: none; }
    """

    def __init__(self) -> None:
        super().__init__(classes="preview")
        self._facts, self._chart, self._settings = Facts(), LineChart(), Table(())
        self._about = Part("session", self._facts, classes="facts")
        self._curve = Part("accuracy", self._chart)
        self._differences = Part("different settings", self._settings, classes="differences")

    def compose(self) -> ComposeResult:
        yield self._about
        yield self._curve
        yield self._differences

    def show_session(self, session: Summary, sketches: Mapping[Path, Sketch], view: View) -> None:
        """Preview a session: its curve next to that of the session shown, and the settings that differ."""
        sketch = sketches.get(Path(session.path))
        self.set_class(sketch is None, "-facts")
        self._about.caption(session.name)
        self._facts.tell(facts(session))
        self._curve.caption(f"accuracy of {session.name}")
        if sketch is None:
            self._curve.say(session.error or UNREAD)
            return
        other = view.run if view.run.document and view.run.folder != Path(session.path) else None
        what = f"accuracy of {session.name}"
        best = NO_SCORE if session.untrained else f"best {at_best(sketch.mean)}"
        self._curve.caption(f"{what}, {best}", what, "accuracy")
        series = [] if session.untrained else [_series(session.name, sketch.mean, key="s")]
        if other is not None:
            series.append(_series(other.name, other.curves["accuracy"], key="o"))
        self._draw(series)
        if session.untrained:
            self._curve.say("Every client diverged in every round, so there is no score.")
        self._differences.caption("different settings" if other is None else f"differs from {other.name}")
        if other is None:
            self._differences.say(OPEN if view.run.folder == Path(session.path) else NONE_OPEN)
            return
        found = differences([SessionData(Path(session.path), config=sketch.config), other])
        columns = [
            Column("setting", stretch=True, names=True, worth=9),
            Column("this", stretch=True, names=True, worth=8),
            Column("shown", stretch=True, names=True, worth=7),
        ]
        rows = [Row(name, (name, *map(text_of, values))) for name, values in found]
        self._settings.show(rows, columns)
        self._differences.say(None if rows else f"It has the same settings as {other.name}.")

    def show_study(self, study: StudySummary, sketches: Mapping[Path, Sketch]) -> None:
        """Preview a study: a line for each of its sessions."""
        self.set_class(True, "-facts")
        self._about.caption(f"study {study.name}")
        self._facts.tell(study_facts(study))
        self._curve.caption(f"accuracy of the sessions of {study.name}")
        scored = [each for each in study.sessions if not each.untrained]
        found = [(each, sketches.get(Path(each.path))) for each in scored]
        self._draw([_series(Path(each.path).name, sketch.mean) for each, sketch in found if sketch])

    def _draw(self, series: list[Series]) -> None:
        drawn = [each for each in series if len(each.y)]
        self._curve.say(None if drawn else BEGINNING)
        self._chart.show(Figure(drawn, x_label="round", unit="%", crowd="sessions", over="rounds"))


def _series(name: str, mean: object, key: str = "") -> Series:
    accuracy = np.asarray(mean, float)
    rounds = np.flatnonzero(np.isfinite(accuracy))
    return Series(name, accuracy[rounds] * PERCENT, rounds + 1.0, pinned=bool(key), key=key)


def facts(session: Summary) -> list[tuple[str, str]]:
    """Facts without room in the list."""
    if session.error:
        return [("damaged", session.error)]
    found = [("methods", course(session.methods) or NONE)]
    if session.parent:
        found.append(("fork of", f"{session.parent['name']} at round {session.parent['round']}"))
    if session.tags:
        found.append(("tags", ", ".join(session.tags)))
    if session.note:
        found.append(("note", session.note))
    found.append(("made", str(session.created)[:19].replace("T", " ")))
    return [*found, ("in", session.path)]


def _results(study: StudySummary) -> list[tuple[str, str]]:
    """The best of the finished settings of a study, and their range."""
    best, known = study.best_setting, study.ranked
    if best is None:
        return []
    seeds = sum(each.accuracy is not None for each in best.level)
    over = f", the mean of {seeds} seeds" if seeds > 1 else ""
    if len(study.settings) == 1:
        return [("accuracy", f"{percent(best.accuracy)}{over}")]
    number = f"{len(known)} of {len(study.settings)} finished"
    if len(known) == 1:
        return [("finished", f"{best.name}: {percent(best.accuracy)}{over}"), ("settings", number)]
    worst = min(each.accuracy for each in known if each.accuracy is not None)
    return [
        ("best", f"{best.name}: {percent(best.accuracy)}{over}"),
        ("settings", f"{number}, from {percent(worst)} to {percent(best.accuracy)}"),
    ]


def study_facts(study: StudySummary) -> list[tuple[str, str]]:
    """The progress of a study."""
    states = Counter(each.state for each in study.sessions)
    begun = ", ".join(f"{number} {state}" for state, number in states.items())
    linked = f"{study.linked} use an identical run" if study.linked else ""
    waiting = study.points - len(study.sessions) - study.linked
    words = ", ".join(filter(None, (begun, linked, f"{waiting} not started" if waiting else "")))
    return [
        ("points", f"{study.points}: {words}" if words else str(study.points)),
        *_results(study),
        ("methods", ", ".join(study.methods) or NONE),
        ("in", study.path),
    ]
