"""Sessions in their folder: search, details, why, verify, prune, rename, remove, tags, partition, models, export.

A session is given by its name in the folder of sessions, as STUDY/POINT if it belongs to a study, or by its path. The
folder is `sessions_dir`, else $HTFL_SESSIONS, else ./sessions. Only `confusion`, `partition`, `representations`,
`samples`, `similarity`, and `export_weights` load torch.
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import checkpoints
from checkpoints import (
    DiskError,
    Finding,
    Leftover,
    Locked,
    Marks,
    Pruned,
    SessionUnreadable,
    Stamp,
    UnfinishedRound,
    changed_stamp,
)
from checkpoints import groups as studies_in
from checkpoints import remove_leftover as remove_leftover
from checkpoints import session_folders as folders_in
from checkpoints import size_on_disk as size_on_disk
from htfl_sim import folders
from htfl_sim.steering import holder, mark, note, owner, tag
from simulator.base import own_files
from simulator.base.documents import Change, OwnFile
from simulator.base.errors import ConfigError
from simulator.base.reading import sha256_of
from simulator.base.record import Record
from simulator.config.user_files import PATHS, Files
from simulator.engine.progress import Switch
from simulator.results.analysis.clients import ClientResult, results
from simulator.results.analysis.comparison import Standing, standing
from simulator.results.analysis.events import Effect, read_effects, switches
from simulator.results.analysis.feed import read
from simulator.results.analysis.gain import Partners
from simulator.results.analysis.ledger import Divergence, last_measured, well_formed
from simulator.results.analysis.overview import Branch, Summary, forks_of, tree, with_parents
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.why import Why
from simulator.results.analysis.why import why as explained
from simulator.sessions.history import SETTINGS, settings_in_force, younger
from simulator.sessions.reader import CheckedReader, parent_folder
from simulator.studies.folder import read_points, read_study

if TYPE_CHECKING:
    from simulator.results.analysis.classes import Confusion
    from simulator.results.export.sinks import Sink, Target
    from simulator.results.export.weights import Exported as Exported
    from simulator.results.inspection.client_samples import ClientSamples, Embedding
    from simulator.results.inspection.partition import Partition as Partition

__all__ = [
    "Branch", "Dependents", "Details", "Finding", "Inspection", "Leftover", "Marks", "Pruned", "Stamp", "Summary",
    "UnfinishedRound", "changed_stamp", "check_idle", "check_renamable", "confusion", "dependents",
    "details", "duplicates", "export", "export_partition", "export_weights", "folders_in", "inside",
    "inspect", "leftovers", "mark", "marks", "note", "partition", "prune", "remove", "remove_leftover",
    "rename", "representations", "samples", "samples_of_clients", "search", "similarity", "state",
    "studies_in", "tag", "tags", "verify", "why",
]  # fmt: skip

Place = str | Path
folder_of = folders.session_folder
CODE = {str(kind): kind for kind, _ in Files()}
"""The kinds of Python files."""


def own_folders(place: Place, sessions_dir: Place | None = None) -> tuple[Path, list[Path]]:
    """The folder of a session or a study, for a change, and its sessions: itself, or all that are in the study."""
    folder = folders.own_folder(place, sessions_dir)
    return folder, checkpoints.sessions(folder) if checkpoints.is_group(folder) else [folder]


def _all_of(place: Place, sessions_dir: Place | None) -> tuple[Path, list[Path]]:
    """As `own_folders`, with the damaged sessions of a study."""
    folder, found = own_folders(place, sessions_dir)
    return folder, checkpoints.session_folders(folder) if checkpoints.is_group(folder) else found


def search(
    sessions_dir: Place | None = None,
    *,
    method: str | None = None,
    dataset: str | None = None,
    state: str | None = None,
    tags: Sequence[str] = (),
    sized: bool = False,
    hidden: bool = False,
) -> list[Branch]:
    """The sessions, oldest first, each followed by its forks. Filters select some of them.

    method: by this method, now or before. state: 'running', 'stopped', 'finished', 'damaged', … tags: with all of these
    tags. sized: also each session's size on disk. hidden: also the folders that killed commands left.
    """
    folder = folders.sessions_dir(sessions_dir)
    every = with_parents([Summary.read(path, sized=sized) for path in checkpoints.session_folders(folder)])
    for each in checkpoints.leftovers(folder) if hidden else ():
        size = size_on_disk(each.path) if sized else None
        state_of = "in use" if each.in_use else "leftover"
        every.append(Summary(each.path.name, str(each.path), state_of, bytes=size))
    return tree(
        [
            each
            for each in every
            if (method is None or method in [name for _, name in each.methods])
            and (dataset is None or each.dataset == Path(dataset).name)
            and state in (None, each.state)
            and set(tags) <= set(each.tags)
        ]
    )


def duplicates(sessions_dir: Place | None = None) -> list[list[Summary]]:
    """Groups of sessions with equal fingerprints: runs that have, or will have, the same bits. Oldest first.

    Forks, sessions after a switch, and sessions of older versions belong to no group.
    """
    from simulator.sessions.fingerprint import fingerprint_of

    groups: dict[str, list[Summary]] = {}
    for path in checkpoints.session_folders(folders.sessions_dir(sessions_dir)):
        with suppress(SessionUnreadable, DiskError):
            if found := fingerprint_of(path):
                groups.setdefault(found, []).append(Summary.read(path))
    every = (sorted(group, key=lambda each: each.created or "") for group in groups.values())
    return [group for group in every if len(group) > 1]


@dataclass(frozen=True)
class Details:
    """All details in `htfl-sim show`. `record` is the chosen round's; None before the first."""

    run: SessionData
    summary: Summary
    record: Record | None
    forks: list[dict[str, Any]]
    """The session's forks in the same folder, each with its name and the round."""
    unfinished: UnfinishedRound | None
    effects: list[Effect]
    """What each switch, and the fork, changed: rounds before and after it, the newest first."""

    @classmethod
    def read(cls, folder: Path, round: int | None = None) -> "Details":
        """The details of the session in a folder, with the record of a round (None: the last).

        Raises SessionUnreadable if the session is damaged or has no record of the round.
        """
        run, about = read(folder), Summary.read(folder, sized=True)
        if about.error:
            raise SessionUnreadable(about.error)
        record = run.record(round)
        if round is not None and record is None:
            has = f"rounds 1 to {run.round}" if run.round else "no round yet"
            raise SessionUnreadable(f"{folder} has no record of round {round}; it has {has}.")
        reader = CheckedReader(folder)
        unfinished, parent = reader.unfinished_round(), reader.document["parent"]
        if parent and (origin := parent_folder(parent, checkpoints.sessions_folder(folder))):
            about = replace(about, parent={**parent, "name": checkpoints.name_of(origin)})
        return cls(run, about, record, forks_of(folder), unfinished, read_effects(run))

    @property
    def switches(self) -> list[Switch]:
        """Each switch to another method or other settings, in order."""
        return switches(self.run)

    @property
    def clients(self) -> list[ClientResult]:
        """Every client after the chosen round."""
        group = self.run.document["config"]["federation"]["group"]
        return results(self.record, group) if self.record else []

    @property
    def standing(self) -> Standing:
        """The session's target accuracy, and what it took to reach it."""
        return standing(self.run)

    @property
    def as_before(self) -> dict[str, Any]:
        """Settings that are newer than the session, with the values that it keeps."""
        return younger(self.run.document["config"])

    def to_json(self) -> dict[str, Any]:
        """The details for programs: the whole accuracy curve, and the chosen round's ledger record."""
        run, unfinished, stands = self.run, self.unfinished, self.standing
        names, took = ("round", "bytes", "flops", "seconds", "simulated", "joules"), stands.reached
        costs = [None if math.isnan(each) else each for each in took.values()] if took else []
        return self.summary.to_json() | {
            "config": run.document["config"],
            "settings": run.config,
            "switches": [asdict(switch) for switch in self.switches],
            "effects": [asdict(effect) for effect in self.effects],
            "children": self.forks,
            "pending": [asdict(command) for command in run.pending],
            "partial": unfinished and {"round": unfinished.round, "clients": kept_clients(unfinished)},
            "environment": run.document["environment"],
            "diverged": asdict(Divergence.of(run.totals)),
            "curve": [record["accuracy"]["mean"] for record in run.records],
            "target": {"accuracy": stands.target, "reached": took and dict(zip(names, costs, strict=True))},
            "record": self.record,
            "clients": [asdict(client) for client in self.clients],
            "checkpoints": run.checkpoints,
            "events": run.events,
            "event_faults": run.event_faults,
        }


def kept_clients(unfinished: UnfinishedRound) -> list[int]:
    """The clients of an unfinished round that have finished."""
    return sorted(map(int, unfinished.note.get("clients", {})))


def changeable_sections() -> tuple[str, ...]:
    """The sections of a configuration that a switch may change, except the method's."""
    return SETTINGS


def details(session: Place, round: int | None = None, *, sessions_dir: Place | None = None) -> Details:
    """All details of a session, with the record of a round (None: the last).

    Raises SessionUnreadable if the session is damaged or has no record of the round.
    """
    return Details.read(folder_of(session, sessions_dir), round)


def verify(session: Place, *, sessions_dir: Place | None = None) -> list[Finding]:
    """Check every byte of a session, or of a study's sessions and its own two files. Returns the differences.

    It is sound if no finding is 'damage'.
    """
    study = folders.study_folder(session, sessions_dir)
    if study is None:
        return checkpoints.verify(folder_of(session, sessions_dir))
    from simulator.studies.folder import STUDY

    found = list[Finding]()
    for name, look in ((checkpoints.POINTS, read_points), (STUDY, read_study)):
        try:
            look(study)
        except (SessionUnreadable, ConfigError) as damage:
            found.append(Finding(name, "damage", str(damage)))
    for folder in checkpoints.session_folders(study):
        for each in checkpoints.verify(folder):
            path = f"{folder.name}/{each.path}" if each.path else folder.name
            found.append(replace(each, path=path))
    return found


def prune(
    session: Place,
    *,
    keep_last: int | None = None,
    keep_every: int | None = None,
    keep_best: bool | None = None,
    dry_run: bool = False,
    steal: bool = False,
    sessions_dir: Place | None = None,
) -> Pruned:
    """Remove checkpoints of a stopped session, and files that only they need. The ledger stays complete.

    Missing arguments are taken from the session's configuration. dry_run: only return what would be removed. steal: the
    machine that ran the session is dead. Raises Locked while it runs.
    """
    folder = folders.own_session(session, sessions_dir)
    document = CheckedReader(folder).document
    with well_formed(folder):
        configured = document["config"]["checkpoint"]
        last, every = keep_last or configured["keep_last"], keep_every or configured["keep_every"]
        best = configured["keep_best"] if keep_best is None else keep_best
        retention = checkpoints.Retention(last, every, best="accuracy.mean" if best else None)
    return checkpoints.prune(folder, retention, dry_run=dry_run, steal=steal)


def state(folder: Path) -> str:
    """The state of a session, or of the process that runs a study. Raises SessionUnreadable or DiskError."""
    if not checkpoints.is_group(folder):
        return CheckedReader(folder).state()
    study = checkpoints.GroupReader(folder)
    note = study.owner() if study.alive() else None
    return str(note["state"]) if note else "stopped"


def inside(folder: Path) -> list[Path]:
    """The sessions in a study, then those of identical runs that its points use; or the session. Raises DiskError."""
    from simulator.studies.folder import sessions_in

    return sessions_in(folder) if checkpoints.is_group(folder) else [folder]


def marks(session: Place, *, sessions_dir: Place | None = None) -> Marks:
    """The session's tags and note. `mark` changes both. Raises Damaged of the room `checkpoints`."""
    return checkpoints.marks_of(folder_of(session, sessions_dir))


def tags(session: Place, *, sessions_dir: Place | None = None) -> tuple[str, ...]:
    """The session's tags. `tag` changes them."""
    return marks(session, sessions_dir=sessions_dir).tags


def partition(
    name: Place,
    assignments: Sequence[str] = (),
    *,
    sessions_dir: Place | None = None,
    data_dir: Place | None = None,
) -> "Partition":
    """The samples of every class and client, in a session or in a run of a preset. Reads the data set.

    assignments: 'key=value', for a preset only. Raises ConfigError, SessionUnreadable, and DataError.
    """
    import presets
    from simulator.base.nested import with_overrides
    from simulator.config import Config

    data = folders.data_folder(data_dir)
    try:
        folder = folder_of(name, sessions_dir)
    except SessionUnreadable:
        if name not in presets.names():
            raise
        config = Config.read(with_overrides(presets.load(str(name)).config, assignments))
        from simulator.results.inspection.partition import of_config

        return of_config(config, data)
    if assignments:
        raise ConfigError("Settings change a preset's partition; that of a session is what it was made with.")
    from simulator.results.inspection.partition import of_session

    return of_session(folder, data)


def similarity(
    session: Place,
    round: int | None = None,
    *,
    sessions_dir: Place | None = None,
    data_dir: Place | None = None,
    done: Callable[[int, int], object] | None = None,
) -> dict[str, Any]:
    """CKA between the clients' models after a kept round (None: the newest), with the probe and layers of that round.

    Writes nothing. done: receives the number of loaded models, and of all. Raises ConfigError, SessionUnreadable, and
    DataError.
    """
    from simulator.base.sections import CkaConfig
    from simulator.results.inspection import checkpoint

    reader = CheckedReader(folder_of(session, sessions_dir))
    in_force = settings_in_force(reader.document, reader.manifest(round).history)
    settings = CkaConfig.model_validate(in_force.get("cka", {}))
    layers = None if settings.layers == "all" else settings.layers
    how = settings.model_dump(include={"debiased", "model", "untrained"})
    data = folders.data_folder(data_dir)
    return checkpoint.cka(reader.folder, data, round, images=settings.probe, layers=layers, done=done, **how)


def export(
    session: Place,
    to: "Target | Sink" = "csv",
    out: Place | None = None,
    *,
    what: Literal["rounds", "clients", "cka"] = "rounds",
    follow: bool = False,
    project: str = "htfl-sim",
    sessions_dir: Place | None = None,
) -> int:
    """Export the rounds to a CSV file, TensorBoard, W&B, or MLflow. Returns their number.

    follow: continue as long as the session runs. Raises ConfigError if the library is not installed, or the target
    exists.
    """
    from simulator.results.export.sinks import send, sink

    folder, place = folder_of(session, sessions_dir), None if out is None else Path(out)
    chosen = sink(to, folder.name, place, what, project) if isinstance(to, str) else to
    return send(folder, chosen, follow)


def export_partition(
    session: Place, *, sessions_dir: Place | None = None, data_dir: Place | None = None
) -> str:
    """The partition of a session as CSV text: one line per client and class."""
    from simulator.results.analysis.tidy import Tidy
    from simulator.results.export.sinks import text
    from simulator.results.inspection import partition as room

    found = room.of_session(folder_of(session, sessions_dir), folders.data_folder(data_dir))
    return text(Tidy.of(room.COLUMNS, list(found.rows())))


@dataclass(frozen=True)
class Weights:
    """Written models: their round, the number of rounds that were run again, and each client's files."""

    round: int
    replayed: int
    models: "tuple[Exported, ...]"


def export_weights(
    session: Place,
    clients: Sequence[int] | None = None,
    out: Place | None = None,
    *,
    round: int | None = None,
    program: bool = True,
    sessions_dir: Place | None = None,
    data_dir: Place | None = None,
    device: str | None = None,
    workers: int | None = None,
    allow_inexact: bool = False,
) -> Weights:
    """Write models (None: of all clients) as plain safetensors after a round (None: the last), into a folder.

    out: by default, SESSION-round-R. program: also a Python file for each, which loads it with torch alone. If the
    round has no checkpoint, rounds are run again, and their results must equal the ledger. Raises HtflError.
    """
    from simulator.results.export.weights import write
    from simulator.results.inspection.checkpoint import of_clients

    folder, data = folder_of(session, sessions_dir), folders.data_folder(data_dir)
    how: dict[str, Any] = {"device": device, "workers": workers, "allow_inexact": allow_inexact}
    models = of_clients(folder, data, clients, round, **how)
    place = Path(out or f"{folder.name}-round-{models.round}")
    return Weights(models.round, models.replayed, tuple(write(models, folder.name, place, program)))


@dataclass(frozen=True)
class Dependents:
    """What depends on a session. Points are written as STUDY/POINT.

    forks: its forks, which stay complete without it. users: points that use it instead of a session of their own.
    branches: points that continue from one of its rounds.
    """

    forks: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()


def dependents(session: Place, sessions_dir: Place | None = None) -> Dependents:
    """What depends on a session, or outside of a study on one of its sessions. A damaged one has no known forks.

    Raises SessionUnreadable if there is none.
    """
    from simulator.studies.folder import points_on

    place, sessions = _all_of(session, sessions_dir)
    forks, users, branches = list[str](), list[str](), list[str]()
    for folder in sessions:
        if Summary.read(folder).error is None:
            forks += [str(each["name"]) for each in forks_of(folder)]
        used, begun = points_on(folder)
        users += used
        branches += begun
    inside = f"{place.name}/" if checkpoints.is_group(place) else None
    outside = (
        tuple(each for each in dict.fromkeys(found) if inside is None or not each.startswith(inside))
        for found in (forks, users, branches)
    )
    return Dependents(*outside)


def remove(session: Place, *, steal: bool = False, sessions_dir: Place | None = None) -> Path:
    """Remove a session with all its rounds and checkpoints, or a study with all its sessions. Forks stay complete.

    Returns the removed folder. Raises Locked while a process runs it. steal: the machine that ran it is dead.
    """
    folder = folders.own_folder(session, sessions_dir)
    check_idle(folder, steal=steal)
    checkpoints.remove(folder, steal=steal)
    return folder


def rename(session: Place, name: str, *, sessions_dir: Place | None = None) -> Path:
    """Give a session or a study another name. Forks find a session by its id. Returns its new folder.

    Raises Locked while a process runs it, and ConfigError for a name that is invalid or taken, for a point of a study,
    and for a session whose name a study has.
    """
    from simulator.studies.folder import rename_links

    folder = folders.own_folder(session, sessions_dir)
    check_renamable(folder, name)
    after = checkpoints.rename(folder, name)
    rename_links(after, folder.name)
    return after


def check_renamable(session: Place, name: str, *, sessions_dir: Place | None = None) -> None:
    """Raise as `rename` would. Renaming checks again, under the lock."""
    folder = folders.own_folder(session, sessions_dir)
    new = folder.parent / folders.checked_name(name)
    if checkpoints.is_group(folder.parent):
        finds = f"a point of the study {folder.parent.name}, which finds it by its name"
        raise ConfigError(f"{folder.name} is {finds}. Keep the name.")
    if new.exists() or new.is_symlink():
        raise ConfigError(f"{new} is there already. Choose another name.")
    found = dependents(folder)
    if points := (*found.users, *found.branches):
        uses = "uses" if found.users else "continues from"
        more = f", and {len(points) - 1} more" if len(points) > 1 else ""
        named = f"The point {points[0]}{more} {uses} {folder.name} by its name"
        raise ConfigError(f"{named}. Keep the name, or remove the study first.")
    check_idle(folder)


def check_idle(session: Place, *, steal: bool = False, sessions_dir: Place | None = None) -> None:
    """Raise Locked if a process runs the session, or a study or one of its sessions. Changes check again."""
    place, sessions = _all_of(session, sessions_dir)
    for folder in dict.fromkeys((place, *sessions)):
        reader: checkpoints.GroupReader | checkpoints.SessionReader | None = None
        with suppress(SessionUnreadable):  # a damaged one is run by nobody
            is_study = checkpoints.is_group(folder)
            reader = checkpoints.GroupReader(folder) if is_study else checkpoints.SessionReader(folder)
        if reader is not None and not steal and reader.alive():
            remedy = f"Stop it first: `htfl-sim stop {checkpoints.typed(folder)}`"
            raise Locked(f"{folder} is run by {holder(owner(reader))}. {remedy}.")


def leftovers(sessions_dir: Place | None = None, *, steal: bool = False) -> list[Leftover]:
    """The hidden folders of commands that run or were killed. steal: the machines that ran them are dead."""
    return checkpoints.leftovers(folders.sessions_dir(sessions_dir), steal=steal)


def representations(
    session: Place,
    round: int | None = None,
    *,
    images: int = 40,
    data_dir: Place | None = None,
    sessions_dir: Place | None = None,
) -> "Embedding":
    """Every client's representations of equally many test images after a kept round (None: the newest).

    Raises SessionUnreadable, ConfigError, and DataError.
    """
    from simulator.results.inspection.checkpoint import representations

    folder, data = folder_of(session, sessions_dir), folders.data_folder(data_dir)
    return representations(folder, data, round, images=images)


def samples(
    session: Place, client: int, *, data_dir: Place | None = None, sessions_dir: Place | None = None
) -> "ClientSamples":
    """A client's classes before round 1, each with its number of training samples and the first of them.

    Texts are text, and images and signals are small rows of numbers. Of a table, it has the means of the features.
    Raises SessionUnreadable, ConfigError, and DataError.
    """
    return samples_of_clients(session, [client], data_dir=data_dir, sessions_dir=sessions_dir)[0]


def samples_of_clients(
    session: Place,
    clients: Sequence[int] | None = None,
    *,
    data_dir: Place | None = None,
    sessions_dir: Place | None = None,
) -> "tuple[ClientSamples, ...]":
    """As `samples`, of several clients (None: all). The data are read once."""
    from simulator.results.inspection.partition import samples_of_session

    return samples_of_session(folder_of(session, sessions_dir), folders.data_folder(data_dir), clients)


def why(session: Place, client: int, round: int | None = None, *, sessions_dir: Place | None = None) -> Why:
    """Why a client does as it does after a round (None: the last): findings as sentences with their numbers.

    The gain is over a session of standalone in the same folder with the same data, models, and seeds. Raises
    ConfigError for a client or a round that does not exist, and SessionUnreadable.
    """
    folder = folder_of(session, sessions_dir)
    run = read(folder)
    if run.error:
        raise SessionUnreadable(run.error)
    with well_formed(folder):
        at = run.round if round is None else round
        measured = last_measured(run.ledger.whole.measured, at)
        partner = next(iter(Partners().find(run, folders.sessions_folder(folder))), None)
        baseline, shared = (read(partner.folder), partner.shared) if partner else (None, 0)
        return explained(run, client, round, cka=measured, baseline=baseline, shared=shared)


def confusion(
    session: Place,
    client: int,
    round: int | None = None,
    *,
    data_dir: Place | None = None,
    sessions_dir: Place | None = None,
) -> "Confusion":
    """A client's confusion matrix on its test samples after a kept round (None: the newest).

    Rows are the true classes, and columns the answers. Writes nothing. Raises SessionUnreadable for a round without a
    checkpoint, ConfigError for a client that does not exist, and DataError.
    """
    from simulator.results.inspection import checkpoint

    return checkpoint.confusion(
        folder_of(session, sessions_dir), folders.data_folder(data_dir), client, round
    )


@dataclass(frozen=True)
class Named:
    """Something that a session or a study names.

    kind: as 'plugin', 'trace', or 'session'. name: a path, or a name. sha256: as recorded; None if it is not. here:
    what is at this path on this machine: 'same bytes', 'other bytes', 'there', 'not here', or why it cannot be read;
    empty for a name that is no path.
    """

    kind: str
    name: str
    sha256: str | None = None
    here: str = ""


@dataclass(frozen=True)
class Inspection:
    """What a session or a study from elsewhere names, each thing once. versions: every value of each fact."""

    path: Path
    is_study: bool
    versions: Mapping[str, Sequence[str]]
    names: tuple[Named, ...]


def inspect(place: Place, *, sessions_dir: Place | None = None) -> Inspection:
    """The paths, files, plugins, versions, and hashes that a session or study names. Runs nothing, writes nothing.

    Files are hashed if they are regular ones. Raises SessionUnreadable, ConfigError, and DiskError.
    """
    study = folders.study_folder(place, sessions_dir)
    found = list[Named]()
    sessions = checkpoints.sessions(study) if study else [folder_of(place, sessions_dir)]
    if study:
        found += _of_study(study)
    versions: dict[str, list[str]] = {}
    for folder in sessions:
        session = CheckedReader(folder)
        found += _of_session(session)
        for fact, value in session.document["environment"].items():
            if str(value) not in versions.setdefault(fact, []):
                versions[fact].append(str(value))
    names = tuple(map(_looked_up, dict.fromkeys(found)))
    return Inspection(study or sessions[0], study is not None, versions, names)


def _of_session(session: CheckedReader) -> Iterator[Named]:
    document = session.document
    history = session.manifest().history if session.rounds() else []
    if parent := document["parent"]:
        yield Named("parent session", f"{parent['name']}@{parent['round']}", parent["id"])
    for each in document.get("model_plugins", {}).values():
        yield Named("plugin", each["name"], each["sha256"])
    files = document.get("files", [])
    for entries in ([], *([entry] for entry in history)):
        said: Change = entries[0] if entries else document  # type: ignore[assignment]  # its own keys are the same
        files = said.get("files", files)  # an entry lists them if they changed
        if plugin := said.get("plugin"):
            yield Named("plugin", plugin["name"], plugin["sha256"])
        yield from _of_settings(settings_in_force(document, entries), files, document["data_fingerprint"])
        for name, sha256 in said.get("method_files", {}).items():
            yield Named("method of htfl-sim", name, sha256)


def _of_study(study: Path) -> Iterator[Named]:
    spec, points = read_study(study), read_points(study)
    paths = {(kind, Path(path).name): path for kind, named in spec.files for path in named}
    recorded = set[tuple[str, str]]()
    for point in points:
        for file in point.files:
            if (key := (file["kind"], file["name"])) in paths:
                recorded.add(key)
                yield Named(file["kind"], paths[key], file["sha256"])
        apart = [each for each in point.files if (each["kind"], each["name"]) not in paths]
        yield from _of_settings(point.config, apart)
        if point.branch:
            yield Named("session", f"{point.branch.get('parent')}@{point.branch.get('round')}")
        if point.link:
            yield Named("session", point.link["session"], point.link["fingerprint"])
    yield from (Named(kind, path) for (kind, name), path in paths.items() if (kind, name) not in recorded)
    yield from (Named("preset", preset) for preset in (spec.preset, spec.settings_from) if preset)
    if spec.origin:
        yield Named("session", spec.origin)


def _of_settings(
    config: Mapping[str, Any], files: Sequence[OwnFile], data_fingerprint: str | None = None
) -> Iterator[Named]:
    """The files with these recorded hashes, and the paths in the settings."""
    recorded = {each["kind"]: each["sha256"] for each in files}
    for each in files:
        if each["kind"] not in PATHS:
            yield Named(each["kind"], each["name"], each["sha256"])
    keys = {**PATHS, "data set": ("data", "dataset"), "public data": ("data", "public")}
    for kind, (section, key) in {**keys, "weights": ("federation", "pretrained")}.items():
        path = (config.get(section) or {}).get(key)
        if isinstance(path, str):
            yield Named(kind, path, data_fingerprint if kind == "data set" else recorded.get(kind))


def _looked_up(named: Named) -> Named:
    """The same with what is at its path on this machine."""
    path = Path(named.name.removeprefix("hf:"))
    if named.kind not in PATHS and (path.name == named.name or named.kind in ("session", "parent session")):
        return named
    if named.kind not in PATHS and named.kind not in CODE:
        there = os.path.exists(path)  # noqa: PTH110 - Path raises for a long name
        return replace(named, here="there" if there else "not here")
    try:
        is_path = named.kind in PATHS
        sha256 = sha256_of(path) if is_path else own_files.read(CODE[named.kind], path)[0].sha256
    except ConfigError as unreadable:
        is_gone = isinstance(unreadable.__cause__, FileNotFoundError)
        return replace(named, here="not here" if is_gone else str(unreadable))
    if named.sha256 is None:
        return replace(named, here="there")
    return replace(named, here="same bytes" if own_files.is_same(named.sha256, sha256) else "other bytes")
