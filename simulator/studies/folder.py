"""A study in the sessions folder: STUDY/study.toml is the request, STUDY/points.json lists its points in order.

points.json decides: it holds each point's complete configuration, so a study continues unchanged if a preset changes.
study.toml may be edited; an edit that adds points needs `extend`, and one that changes a point is rejected.

A point may link to the session of an identical run, by its name and fingerprint. If that was deleted or changed, the
link is dead, and the next sweep computes the point.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

import checkpoints
from checkpoints import POINTS, Damaged, DiskError, GroupReader, SessionUnreadable, checked, limits
from checkpoints.schema import keys_of
from simulator.base.errors import ConfigError
from simulator.base.nested import Raw
from simulator.base.reading import MOST
from simulator.base.units import size
from simulator.results.analysis.costs import rounds_left
from simulator.results.analysis.ledger import Divergence, totals_of
from simulator.results.analysis.overview import untrained
from simulator.sessions.fingerprint import fingerprint_of, settings_of
from simulator.sessions.history import completed
from simulator.sessions.reader import CheckedReader
from simulator.studies.study import Point, StudySpec

STUDY = "study.toml"
_LISTED = keys_of(Point)


def read_study(folder: Path) -> StudySpec:
    """Read the specification of a study in the sessions folder. Raises SessionUnreadable, ConfigError, or DiskError."""
    raw = _text(folder, STUDY)
    if len(raw) > MOST:
        raise Damaged(f"{folder / STUDY} is larger than {size(MOST)}, the most that is read.")
    try:
        return StudySpec.of_toml(tomllib.loads(raw.decode()), folder / STUDY)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as invalid:
        raise ConfigError(f"{folder / STUDY} is not valid TOML: {invalid}.") from invalid


def study_text(folder: Path) -> str:
    """The unchanged text of the study file, for display."""
    return _text(folder, STUDY).decode(errors="replace")


def read_points(folder: Path) -> tuple[Point, ...]:
    """The points of a study, in order. Raises SessionUnreadable or DiskError."""
    version = None
    with suppress(OSError):  # that of reading says more
        at = (folder / POINTS).stat()
        version = at.st_mtime_ns, at.st_ino, at.st_size
    return _points(folder, version)


@lru_cache(maxsize=256)
def _points(folder: Path, version: tuple[int, ...] | None) -> tuple[Point, ...]:
    found = []
    for entry in _entries(folder):
        try:
            listed = checked(_LISTED, entry)
        except ValueError as fault:
            raise Damaged(
                f"{folder / POINTS} has a point that htfl-sim did not write: {fault}. Restore it from a backup."
            ) from fault
        known = {each.name: listed[each.name] for each in fields(Point) if each.name in listed}
        # points that an older program listed run as its others did
        known |= {"config": completed(known["config"]), "files": tuple(known.get("files", ()))}
        found.append(Point(**known))
    return tuple(found)


def documents(study: StudySpec, points: Sequence[Point]) -> dict[str, bytes]:
    asked = {"asked": study.digest()}
    listed = [
        {key: value for key, value in asdict(point).items() if value not in (None, ())} | asked
        for point in points
    ]
    return {STUDY: study.to_toml().encode(), POINTS: text_of(listed)}


def text_of(document: Any) -> bytes:
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def as_asked(folder: Path, study: StudySpec) -> bool:
    """Whether the listed points belong to this study, and study.toml was not edited since."""
    digests = {entry.get("asked") for entry in _entries(folder)}
    return digests == {study.digest()} and hashlib.sha256(_text(folder, STUDY)).hexdigest() in digests


def refuse_changed(folder: Path, before: Sequence[Point], after: Sequence[Point], extend: bool) -> None:
    """Raise ConfigError unless `after` equals `before`, or adds points and `extend` is set."""
    new, study = {point.name: point for point in after}, folder.name
    for point in before:
        if point.name not in new:
            raise ConfigError(
                f"Study {study} exists with other axes: these leave out its point '{point.name}'. "
                "Choose another name, or name all of its values."
            )
        if changes := point.differences(new[point.name]):
            rest = f" and {len(changes) - 3} more" if len(changes) > 3 else ""
            raise ConfigError(
                f"Study {study} exists with other settings: its point '{point.name}' would change "
                f"({'; '.join(changes[:3])}{rest}). Choose another name, or repeat its settings."
            )
    known = {point.name for point in before}
    added = [name for name in new if name not in known]
    if added and not extend:
        names = ", ".join(added[:3]) + (f" and {len(added) - 3} more" if len(added) > 3 else "")
        raise ConfigError(
            f"Study {study} exists with other axes. Use `extend=True` to add {len(added)} "
            f"point{'s' * (len(added) > 1)} ({names}). Sessions that exist stay as they are."
        )


def _entries(folder: Path) -> list[Any]:
    raw = _text(folder, POINTS)
    if limits.values(raw) > limits.DOCUMENT_VALUES:
        raise Damaged(f"{folder / POINTS} has more than the {limits.DOCUMENT_VALUES:,} values it may have.")
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as invalid:
        raise Damaged(
            f"{folder / POINTS} is not a list of points: {invalid}. Restore it from a backup."
        ) from invalid
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise Damaged(f"{folder / POINTS} is not a list of points. Restore it from a backup.")
    return found


def _text(folder: Path, name: str) -> bytes:
    try:
        return GroupReader(folder).document(name)
    except FileNotFoundError:
        raise checkpoints.SessionUnreadable(
            f"{folder} has lost its {name}; restore it from a backup."
        ) from None


IN_STUDY, IN_SESSIONS = "study", "sessions"
"""Where a point looks for an identical run: in its study, or in the whole sessions folder."""


def session_of(study: Path, point: Point) -> Path:
    """The folder of the point's session: its own, or the linked one if the point has none and the link is not dead."""
    own = study / point.name
    if point.link is None or checkpoints.is_session(own):
        return own
    linked = study.parent / point.link["session"]
    with suppress(SessionUnreadable, DiskError):
        if fingerprint_of(linked) == point.link["fingerprint"]:
            return linked
    return own


def sessions_of(study: Path) -> set[Path]:
    if not checkpoints.is_group(study):
        return set()
    return {session_of(study, point) for point in read_points(study)}


def sessions_in(study: Path) -> list[Path]:
    """The sessions in a study's folder, in order, then those of identical runs. An unreadable list counts as empty."""
    own = checkpoints.sessions(study)
    with suppress(SessionUnreadable):
        own += sorted(path for path in sessions_of(study) - {*own} if checkpoints.is_session(path))
    return own


def linked_session(place: Path) -> Path | None:
    """The session that STUDY/POINT uses without its own. Raises SessionUnreadable for a dead link."""
    study = place.parent
    if place.exists() or not checkpoints.is_group(study):
        return None
    for point in read_points(study):
        if point.name == place.name and point.link is not None:
            refuse_dead(study, point)
            return session_of(study, point)
    return None


def refuse_dead(study: Path, point: Point) -> None:
    """Raise SessionUnreadable if the point's link is dead and it has no session of its own."""
    own = study / point.name
    if point.link is not None and session_of(study, point) == own and not checkpoints.is_session(own):
        command = "tune" if (study / checkpoints.TUNING).exists() else "sweep"
        raise SessionUnreadable(
            f"Point {point.name} of study {study.name} uses the session {point.link['session']}, which was deleted or "
            f"changed. Run `htfl-sim {command} {study.name}` to compute the point."
        )


def refuse_damaged(study: Path, points: Iterable[Point]) -> None:
    """Raise Damaged for the first session of these points that is not as it was written. All bytes are hashed."""
    for folder in dict.fromkeys(session_of(study, point) for point in points):
        damage = (each for each in checkpoints.verify(folder) if each.severity == "damage")
        if found := next(damage, None):
            raise Damaged(
                f"{checkpoints.name_of(folder)} is damaged, so it does not count: {found.message} Remove it, and it is "
                f"computed again: `htfl-sim rm {checkpoints.typed(folder)}`."
            )


def run_key(point: Point) -> bytes | None:
    """Equal for points that may be the same run, by their settings alone. None for a point that branches off."""
    if point.branch is not None:
        return None
    settings: Raw = settings_of(point.config)
    return checkpoints.canonical([settings, point.config["data"], point.seeds])


def points_on(session: Path) -> tuple[list[str], list[str]]:
    """The points that use this session, and those that branch off from it, as STUDY/POINT, in all readable studies."""
    name, users, branches = checkpoints.name_of(session), list[str](), list[str]()
    for study in checkpoints.groups(checkpoints.sessions_folder(session)):
        with suppress(SessionUnreadable, DiskError):
            for point in read_points(study):
                is_linked = point.link is not None and point.link["session"] == name
                if is_linked and session_of(study, point) != study / point.name:
                    users.append(f"{study.name}/{point.name}")
                if point.branch is not None and point.branch["parent"] == name:
                    branches.append(f"{study.name}/{point.name}")
    return users, branches


def rename_links(study: Path, before: str) -> None:
    """Let points use the sessions of their own study under its new name."""
    entries, own = list[Any](), f"{before}/"
    with suppress(SessionUnreadable, DiskError):
        read_points(study)  # raises for a damaged list
        entries = _entries(study)
    links = [each["link"] for each in entries if (each.get("link") or {}).get("session", "").startswith(own)]
    for link in links:
        link["session"] = f"{study.name}/{link['session'].removeprefix(own)}"
    if links:
        with checkpoints.Group.open(study) as group:
            group.write({POINTS: text_of(entries)})


WAITING, STARTING, FINISHED, STOPPED, FAILED = "waiting", "starting", "finished", "stopped", "failed"
LIVE = ("starting", "running", "pausing", "paused", "stopping")
"""The states of a point whose process runs."""
_REMEMBERED = 10


@dataclass(frozen=True)
class Status:
    """A point at one moment. accuracy, best: means over clients, 0…1; seconds: durations of its latest rounds."""

    name: str
    rounds: int
    state: str = WAITING
    round: int = 0
    accuracy: float | None = None
    best: float | None = None
    seconds: tuple[float, ...] = ()
    last: int = 0
    """Rounds over whose mean a trial is scored; 0: it is no trial."""
    score: float | None = None
    """The score of a trial so far, on eval; None before the first round."""
    losers: int = 0
    """The number of clients of a trial that diverged."""
    reason: str = ""
    until_time: float = 0.0
    """Simulated seconds after which it ends; 0: it ends with its last round."""
    simulated: float | None = None
    untrained: bool = False
    """Whether every client diverged in every round, so that there is no score."""
    diverged: bool = False
    """Whether it failed since a client diverged and training.on_divergence is 'stop'."""

    @property
    def rounds_left(self) -> int:
        """Rounds until its end; with `until_time`, by the mean simulated time of a round."""
        return rounds_left(self.rounds, self.round, self.until_time, self.simulated)

    @property
    def left(self) -> float | None:
        """Seconds until its end, by the mean of its latest rounds; None before the first."""
        left = self.rounds_left
        return 0.0 if not left else fmean(self.seconds) * left if self.seconds else None

    def read(self, folder: Path) -> "Status":
        """The same point now, read from its session in `folder`. Unchanged if it has none yet."""
        try:
            if not checkpoints.is_session(folder):
                return self
            session = CheckedReader(folder)
            record = session.last_record(session.newest())
            now = replace(self, state=session.state(), reason="")
            if record is None or record["round"] == self.round:
                return now
            if (time := record.get("time")) is not None:
                until_time = self.until_time or float(session.document["config"].get("until_time", 0.0))
                now = replace(now, simulated=time["ends"], until_time=until_time)
            if self.last:
                totals = totals_of(session.lines())
                score = totals.score(min(self.last, record["round"]), record["round"])
                now = replace(now, score=score, losers=Divergence.of(totals).clients)
            failed, accuracy = untrained(session, record), record["accuracy"]
            return replace(
                now,
                round=record["round"],
                accuracy=None if failed else accuracy["mean"],
                best=None if failed else accuracy["best_mean"],
                untrained=failed,
                seconds=(*self.seconds, float(record["timing"]["seconds"]))[-_REMEMBERED:],
            )
        except (SessionUnreadable, DiskError) as error:
            return replace(self, state=FAILED, reason=str(error))
        except (KeyError, TypeError):
            return replace(self, state=FAILED, reason=f"{folder} has a ledger that htfl-sim did not write.")


def status_of(study: Path, point: Point, last: int = 0) -> Status:
    return Status(point.name, point.rounds, last=last).read(session_of(study, point))


def time_left(statuses: Sequence[Status], jobs: int) -> float | None:
    """Seconds until all points are done, `jobs` at a time, if those that have not begun take as long.

    None until a round has been timed.
    """
    known = [fmean(status.seconds) for status in statuses if status.seconds]
    if not known:
        return None
    a_round = fmean(known)
    open_ones = [status for status in statuses if status.state not in (FINISHED, FAILED)]
    total = sum(
        (fmean(status.seconds) if status.seconds else a_round) * status.rounds_left for status in open_ones
    )
    return total / max(min(jobs, len(open_ones)), 1)
