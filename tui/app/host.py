"""The app without its keys: what it shows, notices that stand while they are true, and slow work."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from textual.app import App
from textual.notifications import Notification, Notify
from textual.screen import ModalScreen, Screen
from textual.widgets import ContentSwitcher
from textual.widgets._toast import Toast

from htfl_sim.catalog import MethodCard, method_choices
from simulator.results.analysis.events import description
from simulator.results.analysis.run import SessionData
from simulator.results.inspection.client_samples import ClientSamples
from tui.app import rows
from tui.app.charts.look import Glyphs
from tui.app.dialogs.base import Dialog
from tui.app.panels.sessions import SessionList
from tui.app.view import Panel, View, client_of, session_of
from tui.app.watch import Watch
from tui.app.widgets.screen import AppScreen, offer_focus
from tui.app.workers import Worker, images_of
from tui.common.errors import explain
from tui.common.formatting import spelled

Answer = TypeVar("Answer")
Result = TypeVar("Result")
Severity = Literal["information", "warning", "error"]
SECONDS: dict[Severity, float] = {"information": 5.0, "warning": 8.0, "error": 12.0}
Holds = Callable[[], bool]
"""Whether a notice is still true."""
NO_SESSION = "No session is open. Press a to open one or n to start a run."
NOT_OF_CLIENTS = ("log", "compare", "sessions")  # their filter has words of its own; all others list clients
AT_ONCE = 40
"""The samples of up to this many clients are all read for the first one, so that the others appear at once."""


class Host(App[str]):
    def __init__(self, view: View, sessions_dir: Path, glyphs: Glyphs, panels: Sequence[Panel]) -> None:
        super().__init__()
        self.view, self.sessions_dir, self.glyphs, self.panels = view, sessions_dir, glyphs, panels
        self.files = Watch(self.post_message)
        self.background = Background(self)
        self.methods = MethodChoices(self.background)
        self._held: list[tuple[Notification, Holds]] = []
        self._drawn: tuple[str, View] | None = None
        self._words: dict[str, str] = {}
        """The filter of each panel with its own words, and under "" that of all others."""

    def get_default_screen(self) -> AppScreen[None]:
        return AppScreen(id="_default")

    @property
    def main(self) -> Screen[Any]:
        return self.screen_stack[0]

    @property
    def panel(self) -> Panel:
        shown = self.main.query_one("#panels", ContentSwitcher).visible_content
        assert isinstance(shown, Panel)
        return shown

    @property
    def waiting(self) -> list[str]:
        """Requests that are not done yet, in the words of the status row."""
        return list(self.background.doing.values())

    def change(self, **changes: Any) -> None:
        self.view = replace(self.view, **changes)
        self.draw()

    def draw(self) -> None:
        if not self.is_running:  # the app is ending, but results of earlier reads still arrive
            return
        self._review()
        panel, before = self.panel, self._drawn
        if (
            before is None
            or before[0] != panel.id
            or not self.view.looks_like(before[1], panel.FOLLOWS_PROGRESS)
        ):
            self._drawn = (panel.id or "", self.view)
            try:
                panel.show(self.view)
            except Exception as fault:  # an error in drawing must not end the app, and the run with it
                self.say(explain(fault)[0], "error")
        self.draw_rows()  # the footer has the keys of what the panel shows now
        for screen in self.screen_stack:
            if isinstance(screen, Dialog) and screen.is_mounted:
                screen.follow(self.view)

    def draw_rows(self) -> None:
        if self.is_running and self.main.is_mounted:
            rows.draw(self.main, self.view, self.panel, self.waiting, self.glyphs)

    def watch_theme(self) -> None:
        if self.is_running and self.screen_stack:
            self._drawn = None
            self.call_after_refresh(self.draw)

    def show_panel(self, panel: str) -> None:
        if self.screen.maximized is not None:
            self.screen.minimize()
        before, shown = (each if each in NOT_OF_CLIENTS else "" for each in (self.panel.id, panel))
        self._words[before] = self.view.filter
        self.query_one("#panels", ContentSwitcher).current = panel
        self.change(filter=self._words.get(shown, ""))
        self._focus_panel()

    def _focus_panel(self) -> None:
        if self.is_running:
            offer_focus(self.main, self.panel.first())  # under a dialog, which keeps its own focus

    # Sessions

    def open_session(self, folder: Path, exists: bool = True) -> None:
        """Show a session, live; `Path()`: none. It is read as soon as it exists."""
        self.files.follow(folder if exists and folder.name else None)
        self._words.clear()
        self.change(
            run=SessionData(folder), round=None, crosshair=None, client=None, pinned=frozenset(), filter=""
        )

    def go_to(self, folder: Path) -> None:
        self.open_session(folder)
        self.show_panel("live")

    def session_changed(self, folder: Path, now: Path | None) -> None:
        """Follow a change to a session by the user. now: its folder since then; None: it is gone."""
        if now != folder and folder in self.view.marked:
            places = (now if each == folder else each for each in self.view.marked)
            self.mark_all([each for each in places if each is not None])
        if now != folder and self.view.run.folder == folder:
            self.open_session(now or Path())
        for each in self.main.query(SessionList):
            each.look()

    def mark_all(self, folders: Sequence[Path]) -> None:
        compared = tuple(run for run in self.view.compared if {run.folder, run.folder.parent} & {*folders})
        self.change(marked=tuple(folders), compared=compared)
        self.files.compare(tuple(folders))

    # Notices and dialogs

    def say(self, message: str, severity: Severity = "information", holds: Holds | None = None) -> None:
        """Show a sentence in place of an equal one, if it holds, until it does not hold any more."""
        self._review()
        if holds is not None and not holds():
            return
        text = spelled(message, self.glyphs)
        self._withdraw([each for each in self._notifications if each.message == text])
        notice = Notification(text, severity=severity, timeout=SECONDS[severity], markup=False)
        if holds is not None:
            self._held.append((notice, holds))
        self._on_notify(Notify(notice))

    def _review(self) -> None:
        held = [(each, holds, holds()) for each, holds in self._held if not each.has_expired]
        self._held = [(each, holds) for each, holds, true in held if true]
        self._withdraw([each for each, _, true in held if not true])

    def _withdraw(self, notices: Sequence[Notification]) -> None:
        toasts = {id(toast._notification): toast for toast in self.screen.query(Toast)} if notices else {}
        for each in notices:
            if (toast := toasts.get(id(each))) is not None:
                toast._expire()  # with the room that it takes
            elif each in self._notifications:
                self._unnotify(each)

    def say_unread(self) -> None:
        """Say that no session is open, or that it is not open yet, as long as this is so."""
        name = self.view.run.name
        why = f"{name} is not open yet." if name else NO_SESSION
        self.say(why, holds=lambda: self.view.run.name == name and not self.view.run.document)

    def ask(self, dialog: ModalScreen[Answer], then: Callable[[Answer], None]) -> None:
        """Show a dialog. `then` receives its result, unless the user cancels it."""
        self.push_screen(dialog, lambda given: None if given is None else then(given))

    def is_at(self, folder: Path) -> bool:
        """Whether this session is still shown, without a dialog, so an earlier request for it still applies."""
        return len(self.screen_stack) == 1 and self.view.run.folder == folder


class Background:
    """Slow tasks, each on its own thread. doing: a word or two for the status row by topic, the oldest first."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.doing: dict[str, str] = {}

    def begin(self, topic: str, doing: str) -> None:
        """Show this text from now on; "": none."""
        self.doing.pop(topic, None)
        if doing:
            self.doing[topic] = doing
        self._host.draw()

    def tell(self, topic: str, doing: str) -> None:
        """`begin`, from a thread."""
        self._host.call_from_thread(self.begin, topic, doing)

    def run(self, topic: str, doing: str, work: Callable[[], Result], then: Callable[[Result], None]) -> None:
        """Run a slow task. `then` receives its result, unless it fails."""

        def carry_out() -> None:
            try:
                ending = partial(then, work())
            except Exception as error:  # any error is shown, and the app continues
                ending = partial(self._host.say, explain(error)[0], "error")
            self._host.call_from_thread(ending)
            self.tell(topic, "")

        self.begin(topic, doing)
        self._host.run_worker(carry_out, thread=True)


class MethodChoices:
    """The methods that a session's models can run, computed once per federation."""

    def __init__(self, background: Background) -> None:
        self._background = background
        self._known: dict[str, list[MethodCard]] = {}
        self._then: Callable[[list[MethodCard]], None] | None = None

    @property
    def awaited(self) -> bool:
        """Whether a function is still to be called with them."""
        return self._then is not None and "choices" in self._background.doing

    def forget(self) -> None:
        self._then = None

    def give(self, config: Mapping[str, Any], then: Callable[[list[MethodCard]], None]) -> None:
        """Call `then` with them, once they are known."""
        key = f"{config.get('federation')}{config.get('data')}"  # the choices depend on nothing else

        def keep(choices: list[MethodCard]) -> None:
            self._known[key] = choices
            wanted, self._then = self._then, None
            if wanted is not None:
                wanted(choices)

        if key in self._known:
            then(self._known[key])
        else:
            self._then = then
            self._background.run("choices", "checking the methods…", lambda: method_choices(config), keep)


class Computations:
    """What is computed on request for the session shown: of each of JOBS one at a time. Results are fields of View."""

    def __init__(self, host: Host, data_dir: Path) -> None:
        self._host, self._data_dir = host, data_dir
        self._at_work: dict[str, Worker] = {}

    def end(self) -> None:
        for job in [*self._at_work]:
            self._cancel(job)

    def compute(self, job: str, round: int, client: int = 0) -> None:
        """Start a job on a kept round, unless its result is known. If it is under way, only stop it."""
        if job == "samples":
            self._read_samples(client)
            return
        run = self._host.view.run
        now = getattr(self._host.view, job)
        place = (client_of(run, client) if job == "confusions" else session_of(run), round)
        name, *arguments = {
            "similarities": ("CKA",),
            "confusions": (f"confusion matrix of client {client}", client),
            "embeddings": ("t-SNE", images_of(int(run.config["federation"]["clients"]))),
        }[job]
        self._cancel(job)
        if place == now.under_way or (place in now.found and not isinstance(now.found[place], str)):
            self._show(job, under_way=None)
            return

        def keep(found: Any) -> None:
            self._show(job, under_way=None, found={**getattr(self._host.view, job).found, place: found})
            if isinstance(found, str):
                self._host.say(found, "warning")

        self._start(job, place, f"{name} of round {round}", (round, *arguments), keep)

    def _read_samples(self, client: int) -> None:
        """Read samples of a client. Stops a running process for another one."""
        run = self._host.view.run
        session, number = session_of(run), int(run.config["federation"]["clients"])

        def keep(found: tuple[ClientSamples, ...] | str) -> None:
            new = {client: found} if isinstance(found, str) else {each.client: each for each in found}
            kept = {(session, number): each for number, each in new.items()}
            self._show("samples", under_way=None, found={**self._host.view.samples.found, **kept})

        self._cancel("samples")
        clients = range(number) if number <= AT_ONCE else (client,)
        self._start("samples", (session, client), "reading samples", clients, keep)

    def compute_shown_cka(self) -> None:
        """Compute CKA of the round shown from its checkpoint, or stop if it is being computed. Shows why not."""
        view = self._host.view
        if (under_way := view.similarities.computing(view.run)) is not None:
            self.compute("similarities", under_way)
        elif (found := view.cka) is not None and found.round == view.shown:
            self._host.say(f"CKA of round {found.round} is known already. Press 3 to see it.")
        elif view.kept is not None:
            self.compute("similarities", view.kept)
        elif view.run.round:
            again = "Press f to fork a session that computes this round again."
            gone, shown = f"The checkpoint of round {view.shown} is gone. {again}", view.shown
            self._host.say(gone, "warning", lambda: self._host.view.shown == shown)
        else:
            none = "No round is finished yet. Press space to resume the run."
            self._host.say(none, holds=lambda: not self._host.view.run.round)

    def _start(
        self, job: str, place: object, doing: str, arguments: Any, keep: Callable[[Any], None]
    ) -> None:
        """Start a job for a place, and `keep` its result, or the reason of its failure."""
        try:
            worker = Worker(job, self._host.view.run.folder, self._data_dir, *arguments)
        except OSError as error:
            keep(explain(error)[0])
            return
        self._at_work[job] = worker
        self._show(job, under_way=place)

        def ended(found: Any) -> None:
            if self._at_work.get(job) is worker and found is not None:  # not canceled
                del self._at_work[job]
                keep(found)

        def result() -> Any:
            return worker.result(lambda text: self._host.background.tell(job, f"{doing}: {text}…"))

        self._host.background.run(job, f"{doing}…", result, ended)

    def _cancel(self, job: str) -> None:
        if worker := self._at_work.pop(job, None):
            worker.cancel()

    def _show(self, job: str, **changes: Any) -> None:
        self._host.change(**{job: replace(getattr(self._host.view, job), **changes)})


Alert = Literal["off", "bell", "desktop"]
BELL = "\a"
LONGEST = 200
"""Characters of a desktop notice."""


def sequence(text: str, alert: Alert, environment: Mapping[str, str] = os.environ) -> str:
    """The characters that make a terminal ring and, for 'desktop', show a notice (OSC 9).

    tmux passes the notice on only if its option `allow-passthrough` is on. screen does not, so there it only rings.
    """
    if alert == "off":
        return ""
    if alert == "bell" or "STY" in environment:
        return BELL
    plain = "".join(each for each in text if each.isprintable())[:LONGEST]
    notice = f"\x1b]9;htfl-sim: {plain}{BELL}"
    if "TMUX" in environment:
        notice = "\x1bPtmux;" + notice.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return BELL + notice


def tell_news(
    before: SessionData,
    now: SessionData,
    alert: Alert,
    say: Callable[[str, Severity], None],
    write: Callable[[str], object],
) -> None:
    """Tell what watchers noticed since the session was read before; nothing when it is opened."""
    if not before.document or before.folder != now.folder or before.events is now.events:
        return
    for event in now.events[len(before.events) :]:
        if event["event"] == "noticed":
            words = f"Round {event['round']}: {description(event)}"
            say(words, "warning")
            if found := sequence(f"{now.name}, {words}", alert):
                write(found)
