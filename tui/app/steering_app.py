"""What steers runs: the one shown, those chosen in the list of sessions, and those that this process begins."""

from abc import abstractmethod
from pathlib import Path

from tui.app import messages
from tui.app.local_runs import LocalRuns
from tui.app.remote_control import RemoteControl
from tui.app.together import Together
from tui.app.view_app import ViewApp
from tui.app.widgets import Table

OF_A_LIST = ("pause", "stop", "checkpoint")
"""What can be asked of a session without opening it."""


class SteeringApp(ViewApp):
    """An app that asks things of runs, and hears what became of them."""

    control: RemoteControl
    runs: LocalRuns
    together: Together

    @abstractmethod
    def draw_rows(self) -> None:
        """Bring the rows around the panels up to date."""

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        if self.is_running and self.panel.id == "sessions":  # what its keys steer is another
            self.draw_rows()

    def on_session_list_listed(self) -> None:
        self.draw_rows()

    def on_run_started(self, message: messages.RunStarted) -> None:
        self.runs.started(message)

    def on_run_ended(self, message: messages.RunEnded) -> None:
        self.runs.ended(message)

    def on_answered(self, message: messages.Answered) -> None:
        self.control.answered(message)

    def action_steer(self, what: str) -> None:
        """Ask something of the session shown, or in the list of sessions of those chosen there."""
        chosen = self.panel.steered() if what in OF_A_LIST else ()
        if chosen and [Path(each.path) for each in chosen] != [self.view.run.folder]:
            self.together.steer(what, chosen)
            return
        {
            "pause": self._pause,
            "stop": self.control.stop,
            "checkpoint": self.control.checkpoint,
            "switch": self.control.switch,
            "fork": self.runs.fork,
            "new_run": self.runs.new_run,
        }[what]()

    def _pause(self) -> None:
        """Pause the run, or let it go on; start again one that nobody runs."""
        if self.control.steerable("pause"):
            run = self.view.run
            self.control.pause() if run.live else self.runs.resume(run)
