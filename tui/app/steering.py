"""Steers the session shown, or those selected in the list of sessions: the one under the cursor, or all marked ones."""

from collections.abc import Sequence
from pathlib import Path

from simulator.results.analysis import feed
from simulator.results.analysis.overview import Summary
from simulator.results.analysis.run import LIVE
from simulator.studies.summary import StudySummary
from tui.app.background import Background
from tui.app.computers import CkaComputer
from tui.app.dialogs.choose import confirm
from tui.app.host import Host
from tui.app.local_runs import LocalRuns
from tui.app.remote_control import RemoteControl

Listed = Summary | StudySummary


IN_A_LIST = ("pause", "stop", "checkpoint")
"""Actions for sessions of the list, without opening them."""


class Steering:
    """Sends each key's command to the right sessions. A study's mailbox is that of its sweep."""

    def __init__(
        self, host: Host, background: Background, control: RemoteControl, runs: LocalRuns, cka: CkaComputer
    ) -> None:
        self._host, self._background = host, background
        self._control, self._runs, self._cka = control, runs, cka

    def steer(self, what: str) -> None:
        """Act on the session shown, or on those selected in the list of sessions."""
        chosen = self._host.panel.steered() if what in IN_A_LIST else ()
        if chosen and [Path(each.path) for each in chosen] != [self._host.view.run.folder]:
            self.steer_listed(what, chosen)
            return
        {
            "pause": self._pause_shown,
            "stop": self._control.stop,
            "checkpoint": self._checkpoint_shown,
            "switch": self._control.switch,
            "fork": self._runs.fork,
            "shadow": self._runs.shadow,
            "new_run": self._runs.new_run,
        }[what]()

    def steer_listed(self, what: str, chosen: Sequence[Listed]) -> None:
        """Act on sessions of the list: 'pause' (or continue, or start again), 'stop', or 'checkpoint'."""
        {"pause": self._pause, "stop": self._stop, "checkpoint": self._checkpoint}[what](chosen)

    def _pause_shown(self) -> None:
        """Pause or continue the run; start it again if no process runs it."""
        if self._control.steerable("pause"):
            run = self._host.view.run
            self._control.pause() if run.live else self._runs.resume(run)

    def _checkpoint_shown(self) -> None:
        """Ask a run for a checkpoint. For a run that has ended, and for an earlier round, compute CKA from one."""
        view = self._host.view
        if view.run.document and (view.replaying or not view.run.live):
            self._cka.compute_shown()
        else:
            self._control.checkpoint()

    def _pause(self, chosen: Sequence[Listed]) -> None:
        """Pause those that run. If none runs, resume the paused ones. If none is paused, start the rest again."""
        if running := [each for each in chosen if each.state == "running"]:
            self._post("pause", running)
        elif held := [each for each in chosen if each.state in ("paused", "pausing")]:
            self._post("resume", held)
        else:
            self._start_again([each for each in chosen if each.state not in LIVE])

    def _stop(self, chosen: Sequence[Listed]) -> None:
        if live := self._live(chosen, "stop"):
            question = confirm(
                f"Stop {_named(live)}?",
                "The clients at work finish first. Then a checkpoint is written.",
                "stop; press space to resume" if len(live) == 1 else "stop; press space to resume them",
            )
            self._host.ask(question, lambda answer: self._post("stop", live) if answer == "yes" else None)

    def _checkpoint(self, chosen: Sequence[Listed]) -> None:
        sessions = [each for each in chosen if isinstance(each, Summary)]
        if live := self._live(sessions, "a checkpoint"):
            self._control.ask_for_checkpoints([Path(each.path) for each in live])

    def _live(self, chosen: Sequence[Listed], what: str) -> list[Listed]:
        """Those that a process runs. Shows a notice if there are none."""
        live = [each for each in chosen if each.state in LIVE]
        if not live:
            self._say_of(chosen, "not running. Press space to resume.")
        return live

    def _post(self, kind: str, chosen: Sequence[Listed]) -> None:
        for each in chosen:
            self._control.post(kind, folder=Path(each.path))
        self._host.say(f"Requested {kind}: {_named(chosen)}.")

    def _start_again(self, chosen: Sequence[Listed]) -> None:
        """Start sessions that no process runs. One session opens the dialog; several continue to their last rounds."""
        sessions = [each for each in chosen if isinstance(each, Summary) and not each.error]
        unfinished = [each for each in sessions if each.state != "finished"]
        if len(chosen) == 1 and sessions:
            folder = Path(sessions[0].path)
            self._background.run("read", "", lambda: feed.read(folder), self._runs.resume)
        elif unfinished:
            folders = [Path(each.path) for each in unfinished]
            question = confirm(
                f"Resume {_named(unfinished)}?",
                "Each run continues to its last round. All share the CPU of this machine.",
                f"start {len(folders)} runs",
            )
            self._host.ask(
                question, lambda answer: self._runs.resume_as_they_are(folders) if answer == "yes" else None
            )
        elif studies := [each for each in chosen if isinstance(each, StudySummary) and _can_start(each)]:
            self._start_studies(studies)
        else:
            self._say_of(chosen, "already finished.")

    def _say_of(self, chosen: Sequence[Listed], what: str) -> None:
        """Show a notice about states of sessions, until one of these is listed with another state."""
        states = {each.path: each.state for each in chosen}

        def holds() -> bool:
            return all(states.get(each.path, each.state) == each.state for each in self._host.panel.steered())

        self._host.say(f"{_named(chosen)}: {what}", holds=holds)

    def _start_studies(self, studies: Sequence[StudySummary]) -> None:
        """Ask whether to continue studies that no process runs."""
        left = sum(each.points - each.finished for each in studies)
        number = f"{left} point{'s are' if left != 1 else ' is'} left." if left else "The next step is left."
        question = confirm(
            f"Continue {_named(studies)}?",
            f"{number} They run one after another, in a process that continues without the app.",
            "start the study" if len(studies) == 1 else f"start {len(studies)} studies",
        )

        def answered(answer: str) -> None:
            for each in studies if answer == "yes" else ():
                self._runs.start_study(each)

        self._host.ask(question, answered)


def _can_start(study: StudySummary) -> bool:
    return study.state not in ("finished", "damaged")


def _named(chosen: Sequence[Listed]) -> str:
    """At most three names, and the number of others."""
    names = [each.name for each in chosen[:3]]
    return ", ".join([*names, f"{len(chosen) - 3} more"] if len(chosen) > 3 else names)
