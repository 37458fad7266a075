"""Run sessions in this process: their rounds, settings, and branches."""

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self
from weakref import WeakValueDictionary, finalize

import checkpoints
from htfl_sim import folders, shown, steering
from htfl_sim.catalog import without_downloads
from htfl_sim.configuring import checked_config
from htfl_sim.folders import checked_tag, place_of
from htfl_sim.results import Place, Results
from htfl_sim.steering import assigned
from simulator import runners
from simulator.base.documents import Report
from simulator.base.errors import ConfigError
from simulator.base.nested import flattened, toml_value
from simulator.base.record import Record
from simulator.base.sections import RuntimeConfig
from simulator.base.tensors import select_device
from simulator.config import Config as Config
from simulator.config import cautions as cautions
from simulator.engine.builder import build
from simulator.engine.drawing import drawn
from simulator.sessions import metadata
from simulator.sessions.forking import Fork as Fork
from simulator.sessions.forking import fork as make_fork
from simulator.sessions.history import completed
from simulator.sessions.metadata import check_read
from simulator.sessions.reader import CheckedReader
from simulator.sessions.session import RunOutcome as RunOutcome
from simulator.sessions.session import Session as Session

Progress = bool | Callable[[Record], object]
"""False: no output. True: one line per round, or a bar in a notebook. A function receives each round's record."""


class _OpenSession:
    """The open session of a folder, shared by every `Run` of it in this process, and closed with the last of them."""

    def __init__(self, folder: Path, session: Session | None) -> None:
        self._folder = folder
        self._open = [] if session is None else [session]
        self._busy = threading.Lock()
        finalize(self, _close_quietly, self._open)

    def run(self, reopen: Callable[[], Session], work: Callable[[Session], bool]) -> None:
        """Do `work` on the session, reopened if it is closed. It stays open if `work` returns true."""
        with self._alone():
            if not self._open:
                self._open.append(reopen())
            stays_open = False
            try:
                stays_open = work(self._open[0])
            finally:
                if not stays_open:
                    self._open.pop().close()

    def close(self) -> None:
        """Close the session. Raises Locked while it runs."""
        with self._alone():
            while self._open:
                self._open.pop().close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise checkpoints.Locked(
                f"{self._folder} is being run by this process. Wait until that call returns."
            )
        try:
            yield
        finally:
            self._busy.release()


def _close_quietly(sessions: list[Session]) -> None:
    """Close sessions that no `Run` refers to. Errors appear when the session is opened again."""
    while sessions:
        with suppress(checkpoints.SessionUnreadable, checkpoints.DiskError):
            sessions.pop().close()


_OPEN_SESSIONS: WeakValueDictionary[Path, _OpenSession] = WeakValueDictionary()
"""The sessions of this process by folder, so a notebook's cell that runs again continues the same one."""
_MAY_DIFFER = ("runtime", "preset", "profile", "rounds")
"""Sections that may differ when a run continues a session. `_agreed` also checks `rounds` and parts of `runtime`."""


class Run(Results):
    """A session that this process runs.

    The process owns the session from the first round until the session finishes or is closed. Python closes it when no
    `Run` of the folder is left, and when the process ends. Reading needs no ownership.
    """

    def __init__(
        self,
        path: Place,
        data_dir: Place | None = None,
        session: Session | None = None,
        how: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """`how`: arguments of `reopen` for every time that the session is opened again."""
        super().__init__(path, data_dir)
        self._how = how
        place = self.path.resolve()
        held = _OPEN_SESSIONS.get(place) if session is None else None
        self._held = _OPEN_SESSIONS[place] = held or _OpenSession(self.path, session)

    def run(self, until: int | None = None, progress: Progress = False) -> Self:
        """Run until the last round, or until this one is finished. In that case, the session stays open.

        An interrupt lets the running clients finish, keeps them, closes the session, and raises KeyboardInterrupt. The
        next `run` continues from there. The command `stop` of another process also ends it. Raises ConfigError for more
        rounds than the run has, SessionUnreadable (Locked) if another process runs the session.
        """

        def rounds(session: Session) -> bool:
            if until is not None and until > session.rounds:
                raise ConfigError(
                    f"{self.path} has {session.rounds} rounds, so it cannot run until {until}; "
                    f"extend it first: .extend({until})."
                )
            if session.finished:
                return False
            with shown.heeded() as interrupt, shown.rounds(progress) as observe:
                outcome = session.run(observe, stop=interrupt.reason, upto=until)
            if interrupt.came:
                raise KeyboardInterrupt
            return outcome.state == "paused"

        def reopened() -> Session:
            session = reopen(self.path, data_dir=self._data_dir, **self._how)
            for sentence in session.warnings:
                warnings.warn(sentence, stacklevel=5)
            return session

        self._held.run(reopened, rounds)
        return self

    def extend(
        self, rounds: int | None = None, goal: float | None = None, until_time: float | str | None = None
    ) -> Self:
        """Change the number of rounds, counted from round 1, or where the run ends before: at a mean test accuracy, or
        at a simulated time (seconds, or as "2h").

        Raises ConfigError if that many rounds are done already.
        """
        self.close()
        extend(self.path, rounds, goal, until_time)
        return self

    def switch(self, method: str | None = None, **settings: Any) -> Self:
        """Change the method or other settings (two underscores for the dot) from the next round on.

        Raises ConfigError if the models cannot run the method, or if nothing changes.
        """
        self.close()
        steering.switch(self.path, method, data_dir=self._data_dir, **settings)
        return self

    def tag(self, *add: str, remove: Sequence[str] = ()) -> Self:
        """Add or remove tags. `htfl-sim sessions --tag` lists sessions by tag.

        Raises ConfigError for an invalid tag. A tag has up to 40 letters, digits, '.', '_', and '-'.
        """
        self.close()
        steering.tag(self.path, add, remove)
        return self

    def fork(self, path: Place, at: int | None = None, **changes: Any) -> "Run":
        """Branch off a new session after a round (None: the last). `changes`: as in `fork`."""
        return fork(self.path, path, self.round if at is None else at, data_dir=self._data_dir, **changes)

    def close(self) -> None:
        """Release the session, so that another process may run it. `run` opens it again."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run(
    config: Config,
    path: Place,
    until: int | None = None,
    *,
    data_dir: Place | None = None,
    allow_inexact: bool = False,
    tags: Sequence[str] = (),
    progress: Progress = False,
) -> Run:
    """Run a configuration in a new session, or continue an existing one with the same configuration or more rounds.

    `path` is the session's folder; a bare name is in $HTFL_SESSIONS, or else in ./sessions. `until` and `progress` as
    in `Run.run`. More rounds extend the session, as `Run.extend` does. Warns about settings that have no effect or
    reduce the accuracy. Raises ConfigError with the differences if the existing session has another configuration or
    more rounds, DataError, and SessionUnreadable (Locked) if another process runs it.
    """
    config, folder = checked_config(config), place_of(path)
    if checkpoints.is_session(folder):
        rounds = _agreed(folder, config)
        found = resume(folder, data_dir=data_dir, allow_inexact=allow_inexact)
        if rounds is not None:
            found.close()
            if not CheckedReader(folder).alive():  # else another process runs it, and `run` says so
                # A refusal extends nothing.
                reopen(folder, data_dir=data_dir, allow_inexact=allow_inexact).close()
                extend(folder, rounds)
                if config.training.schedule != "constant":
                    warnings.warn(
                        f"{folder} is extended to {rounds} rounds. Its finished rounds keep the learning rates of its "
                        "former number of rounds.",
                        stacklevel=2,
                    )
        return found.run(until, progress)
    for sentence in cautions(config):
        warnings.warn(sentence, stacklevel=2)
    session = begin(config, folder, data_dir=data_dir, allow_inexact=allow_inexact, tags=tags)
    return Run(folder, data_dir, session).run(until, progress)


def resume(
    path: Place,
    *,
    rounds: int | None = None,
    goal: float | None = None,
    until_time: float | str | None = None,
    data_dir: Place | None = None,
    **how: Any,
) -> Run:
    """Continue an existing session: `hs.resume("nb").run()`.

    rounds, goal, until_time: first extend it to this many rounds, to another mean test accuracy, or to another
    simulated time (seconds, or as "2h"). `how`: arguments of `reopen` for every time that the session is opened:
    `workers`, `device`, `settings`, `allow_inexact`, and `steal`.
    """
    found = Run(path, data_dir, how=how)
    return found if rounds is goal is until_time is None else found.extend(rounds, goal, until_time)


def begin(
    config: Config, path: Place, *, data_dir: Place | None = None, tags: Sequence[str] = (), **how: Any
) -> Session:
    """Make a new session with these tags, open, before its first round. how: of `Session.create`. Raises HtflError."""
    marked = list(map(checked_tag, tags))
    folder = place_of(path)
    session = Session.create(checked_config(config), folder, folders.data_folder(data_dir), **how)
    if marked:
        checkpoints.post(folder, "tag", {"add": marked, "remove": []})
    return session


def reopen(path: Place, *, data_dir: Place | None = None, **how: Any) -> Session:
    """Open a session at its last checkpoint, without running a round. how: of `Session.resume`. Raises HtflError."""
    return Session.resume(place_of(path), folders.data_folder(data_dir), **how)


def extend(
    path: Place,
    rounds: int | None = None,
    goal: float | None = None,
    until_time: float | str | None = None,
) -> None:
    """Change the number of rounds of a session, or the mean test accuracy or simulated time at which it ends, from its
    next resume on.

    Raises ConfigError if that many rounds are done already.
    """
    metadata.extend(CheckedReader(place_of(path)), rounds, goal, until_time)


def rehearse(config: Config, data_dir: Place | None = None) -> Report | None:
    """Check that data, models, and method fit, as a run does before its first round. Writes and downloads nothing.

    Returns what was read. Raises NotDownloaded for data or weights that a run would download, ConfigError, and
    DataError.
    """
    with without_downloads():
        built = build(checked_config(config), folders.data_folder(data_dir))
    built.engine.close()
    check_read(config, built.data)
    return built.data.report


def timing(config: Config, data_dir: Place | None = None) -> Iterator[dict[str, Any]]:
    """The rounds of a run on its computed clock, without training: `run --timing-only`. Raises HtflError."""
    built = build(checked_config(config), folders.data_folder(data_dir))
    try:
        yield from drawn(config, built)
    finally:
        built.engine.close()


def device_of(config: Config) -> str:
    """The device of a configuration on this machine: 'cpu', 'cuda:0'. Raises ConfigError."""
    return str(select_device(checked_config(config).runtime.device))


def fork(
    parent: Place,
    path: Place,
    at: int,
    *,
    method: str | None = None,
    seed: int | None = None,
    rounds: int | None = None,
    data_dir: Place | None = None,
    allow_inexact: bool = False,
    **settings: Any,
) -> Run:
    """Make a session that continues another from one of its rounds. The other one is only read, and no round runs.

    If the round has no checkpoint, rounds are run again from the nearest earlier one. Their results must equal the
    ledger. `settings` may change what a switch may (two underscores for the dot), and the seeds; None leaves one unset.
    allow_inexact: fork it although other code made it; the fork records that. Raises HtflError.
    """
    quick = {"seed": seed, "rounds": rounds}
    given = assigned({key: value for key, value in quick.items() if value is not None} | settings)
    how: dict[str, Any] = {"data_dir": data_dir, "allow_inexact": allow_inexact}
    made = branch(parent, path, at, method=method, assignments=given, **how)
    for sentence in made.warnings:
        warnings.warn(sentence, stacklevel=2)
    return Run(path, data_dir)


def branch(parent: Place, path: Place, at: int, *, data_dir: Place | None = None, **how: Any) -> Fork:
    """Like `fork`, and report the rounds run again, the changes, and what is taken over. how: of `forking.fork`."""
    return make_fork(place_of(parent), place_of(path), folders.data_folder(data_dir), at, **how)


def _agreed(folder: Path, config: Config) -> int | None:
    """The rounds to which the folder's session is to be extended, if any. Raises ConfigError for other settings."""
    session = CheckedReader(folder)
    made = flattened(completed(session.document["config"]))
    wanted = flattened(config.begun().to_json())
    ways = [
        RuntimeConfig.model_validate(each.get("runtime", {}))
        for each in (session.document["config"], config.to_json())
    ]
    bits = {"runtime.threads_per_client"}
    if len({runners.get(each.runner).sums(each) for each in ways}) > 1:
        bits |= {"runtime.runner", "runtime.inner", "runtime.stack"}
    if config.runtime.device.partition(":")[0] not in ("auto", ways[0].device.partition(":")[0]):
        bits.add("runtime.device")
    differs = [
        f"{key} {toml_value(made.get(key))}, not {toml_value(wanted.get(key))}"
        for key in dict.fromkeys([*wanted, *made])
        if (key in bits or key.split(".")[0] not in _MAY_DIFFER) and made.get(key) != wanted.get(key)
    ]
    planned = config.rounds if differs else metadata.planned(session).rounds
    if config.rounds < planned:
        differs.append(f"rounds {planned}, not {config.rounds}")
    if differs:
        raise ConfigError(
            f"{folder} is a session made with other settings ({'; '.join(differs)}); choose another path, "
            "hs.open it to read, or hs.resume it as it is."
        )
    return config.rounds if config.rounds > planned else None
