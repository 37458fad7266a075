"""A dialog for a shadow run: a fork that continues with Standalone, or another method, beside its parent."""

from collections.abc import Sequence
from pathlib import Path

from htfl_sim.folders import free_name, plain_name
from simulator.results.analysis import remaining
from simulator.results.analysis.gain import BASELINE
from simulator.results.analysis.partners import Pair
from simulator.results.analysis.run import SessionData
from simulator.sessions.history import entries_to, settings_in_force
from tui.app.dialogs.fork import ForkWish
from tui.app.dialogs.form import Field, Form, Known, form_hint, number
from tui.common.formatting import duration

BESIDE = "beside"
"""What to do after the fork is made: run it in its own process, and compare its parent with it."""


class ShadowDialog(Form[ForkWish]):
    """Returns a ForkWish. methods: those that the models can run."""

    hint = form_hint("start")

    def __init__(
        self, run: SessionData, round: int, sessions: Path, methods: Sequence[Known], pair: Pair | None
    ) -> None:
        self._run, self._sessions, self._pair = run, sessions, pair
        begins = round if round < run.rounds else 0
        self._methods = [(name, about) for name, about in methods if name != self._method_after(begins)]
        names = [name for name, _ in self._methods]
        first = BASELINE if BASELINE in names else ""
        super().__init__(
            f"Run another method beside {run.name}",
            [
                Field("method", "method", first, known=lambda: self._methods, only=True),
                Field("round", "after round", str(begins), placeholder="0: from the beginning", whole=True),
            ],
        )

    def _method_after(self, round: int) -> str:
        before = settings_in_force(self._run.document, entries_to(self._run.history, round))
        return str(before["method"]["name"])

    def remark(self, values: dict[str, str]) -> str:
        """What is computed, how long that takes, and whether it is needed."""
        run, text = self._run, values["round"]
        said = ["A fork continues after this round with the method, on the same data and weights."]
        if self._pair is not None:
            said = [f"{run.name} is already compared with {self._pair.partner.name} (B). {said[0]}"]
        if text.isdigit() and int(text) <= run.round:
            rounds, took = remaining.rounds_again(run, int(text))
            left = run.rounds - int(text)
            if rounds:
                again = "1 round is" if rounds == 1 else f"{rounds} rounds are"
                said.append(f"First, {again} computed again, about {duration(took)}.")
            if (seconds := remaining.seconds_left(run.curves, left)) is not None:
                runs = (
                    "1 round runs in a process of its"
                    if left == 1
                    else f"{left} rounds run in a process of their"
                )
                said.append(f"Then {runs} own, about {duration(seconds)}.")
        said.append("Both runs share the processors of this machine.")
        return " ".join(said)

    def accept(self, values: dict[str, str]) -> ForkWish:
        from htfl_sim.catalog import method
        from htfl_sim.errors import ConfigError

        run, name = self._run, values["method"]
        round = number(values, "round", 0)
        if round is None or round > run.round:
            raise ConfigError(f"after round: {run.name} has rounds 0 to {run.round}. Enter one of them.")
        if round >= run.rounds:
            raise ConfigError(f"after round: no round is left after {round}. Enter an earlier one.")
        method(name)  # raises for an unknown one
        if name == self._method_after(round):
            raise ConfigError(f"method: {run.name} continues with {name} itself. Choose another method.")
        folder = self._sessions / free_name(self._sessions, plain_name([run.name, "shadow", name]))
        return ForkWish(folder, round, name, (), BESIDE)
