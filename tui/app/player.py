"""Plays the rounds of the session shown: t-SNE in Data & features, CKA in Similarity, all rounds in other panels."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from textual.timer import Timer

from htfl_sim.analysis import Embedding
from htfl_sim.filming import NO_CHECKPOINT, Topic, frames_of
from tui.app.background import Background
from tui.app.embedding_process import images_of
from tui.app.film_process import FilmProcess, Frames
from tui.app.host import Host
from tui.app.view import session_of
from tui.common.errors import explain

SPEEDS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Frames per second."""
OF_PANEL: dict[str, Topic] = {"data": "tsne", "similarity": "cka"}
NAMES = {"tsne": "t-SNE", "cka": "CKA", "accuracy": "all rounds"}
FILM, PLAYING = "film", "playing"


class Player:
    """The film that is played or computed, if any. It shows one round after the other, as the keys for rounds do."""

    def __init__(
        self,
        host: Host,
        background: Background,
        data_dir: Path,
        show_round: Callable[[int], None],
        every: Callable[[float, Callable[[], None]], Timer],
    ) -> None:
        """show_round: shows a round. every: calls a function again and again, after so many seconds."""
        self._host, self._background, self._data_dir = host, background, data_dir
        self._show_round, self._every = show_round, every
        self._speed = SPEEDS.index(1.0)
        self._timer: Timer | None = None
        self._process: FilmProcess | None = None
        self._film: tuple[str, Topic] = ("", "accuracy")
        self._rounds: tuple[int, ...] = ()
        self._chained: dict[str, tuple[int, ...]] = {}
        """By session, the rounds of its film of t-SNE. Embeddings of single rounds have other orientations."""

    def toggle(self) -> None:
        """Play the film of the panel, after computing what it lacks, or pause it. While it is computed: stop."""
        if self._process is not None or self._timer is not None:
            self.end()
            return
        view = self._host.view
        of = OF_PANEL.get(self._host.panel.id or "", "accuracy")
        self._film, self._rounds = (session_of(view.run), of), frames_of(view.run, of)
        if not self._rounds:
            why = NO_CHECKPOINT if view.run.round else "No round is finished yet."
            self._host.say(why.replace("`", ""), "warning")
        elif missing := self._missing():
            self._compute(missing)
        else:
            self._play()

    def change_speed(self, steps: int) -> None:
        """Play faster or slower, also the next film."""
        self._speed = min(max(self._speed + steps, 0), len(SPEEDS) - 1)
        if self._timer is not None:
            self._start_timer()
        else:
            self._host.say(f"The film plays at {SPEEDS[self._speed]:g} rounds per second. F starts it.")

    def end(self) -> None:
        """Pause, and stop a running computation."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
            self._background.end(PLAYING)
        if self._process is not None:
            self._process.cancel()
            self._process = None

    def _missing(self) -> tuple[int, ...]:
        """The rounds to compute first. Of t-SNE, all: each frame starts where the last one ends."""
        session, of = self._film
        if of == "cka":
            known = {one.round for one in self._host.view.measured}
            return tuple(round for round in self._rounds if round not in known)
        return self._rounds if of == "tsne" and self._chained.get(session) != self._rounds else ()

    def _compute(self, rounds: tuple[int, ...]) -> None:
        run, (session, of) = self._host.view.run, self._film
        images = images_of(int(run.config["federation"]["clients"]))
        try:
            self._process = process = FilmProcess(run.folder, self._data_dir, of, images, rounds)
        except OSError as error:
            self._host.say(explain(error)[0], "warning")
            return
        doing = f"film of {NAMES[of]}"

        def result() -> Frames | str | None:
            return process.result(lambda text: self._background.tell(FILM, f"{doing}: {text}…"))

        self._background.run(FILM, f"{doing}…", result, partial(self._computed, process, session))

    def _computed(self, process: FilmProcess, session: str, found: Frames | str | None) -> None:
        if process is not self._process or found is None:  # canceled
            return
        self._process = None
        if isinstance(found, str):
            self._host.say(found, "warning")
            return
        field = "embeddings" if isinstance(found[0], Embedding) else "similarities"
        now: Any = getattr(self._host.view, field)
        new = {(session, each.round): each for each in found}
        self._host.change(**{field: replace(now, found={**now.found, **new})})
        if field == "embeddings":
            self._chained[session] = tuple(each.round for each in found)
        if session_of(self._host.view.run) == session:
            self._play()

    def _play(self) -> None:
        if self._host.view.shown >= self._rounds[-1]:
            self._show_round(self._rounds[0])
        self._start_timer()

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        speed = SPEEDS[self._speed]
        self._timer = self._every(1 / speed, self._next)
        self._background.begin(PLAYING, f"film of {NAMES[self._film[1]]}, {speed:g} per s")

    def _next(self) -> None:
        """Show the next frame. After the last one, or in another session, the film ends."""
        view = self._host.view
        after = [round for round in self._rounds if round > view.shown]
        if not after or session_of(view.run) != self._film[0]:
            self.end()
            return
        self._show_round(after[0])
