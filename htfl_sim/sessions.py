"""Sessions in their folder: search, details, verify, prune, remove, tags, partition, similarity, export.

A session is given by its name in the folder of sessions, as STUDY/POINT if it belongs to a study, or by its path. The
folder is `sessions_dir`, else $HTFL_SESSIONS, else ./sessions. Only `confusion`, `partition`, `samples`, `similarity`,
and `export_weights` load torch.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import checkpoints
from checkpoints import (
    DiskError,
    Finding,
    Leftover,
    Marks,
    Pruned,
    SessionUnreadable,
    Stamp,
    UnfinishedRound,
    changed_stamp,
)
from checkpoints import groups as studies_in
from checkpoints import session_folders as folders_in
from htfl_sim import folders
from htfl_sim.inspecting import (
    Inspection,
    confusion,
    inspect,
    representations,
    samples,
    samples_of_clients,
    why,
)
from htfl_sim.steering import mark, note, tag
from htfl_sim.upkeep import (
    Dependents,
    check_idle,
    check_renamable,
    dependents,
    leftovers,
    remove,
    remove_leftover,
    rename,
)
from simulator.base.errors import ConfigError
from simulator.base.record import Record
from simulator.results.analysis.ledger import well_formed
from simulator.results.analysis.overview import Branch, Summary, tree, with_parents
from simulator.sessions.reader import CheckedReader

if TYPE_CHECKING:
    from htfl_sim.details import Details
    from simulator.results.export.sinks import Sink, Target
    from simulator.results.export.weights import Exported as Exported
    from simulator.results.inspection.partition import Partition as Partition

__all__ = [
    "Branch",
    "Dependents",
    "Finding",
    "Inspection",
    "Leftover",
    "Marks",
    "Pruned",
    "Stamp",
    "Summary",
    "UnfinishedRound",
    "changed_stamp",
    "check_idle",
    "check_renamable",
    "confusion",
    "dependents",
    "details",
    "duplicates",
    "export",
    "export_partition",
    "export_weights",
    "folders_in",
    "inside",
    "inspect",
    "leftovers",
    "mark",
    "marks",
    "note",
    "partition",
    "prune",
    "remove",
    "remove_leftover",
    "rename",
    "representations",
    "samples",
    "samples_of_clients",
    "search",
    "similarity",
    "state",
    "studies_in",
    "tag",
    "tags",
    "verify",
    "why",
]

Place = str | Path


def folder_of(session: Place, sessions_dir: Place | None = None) -> Path:
    """A session's folder. Raises SessionUnreadable with the nearest name if there is none."""
    return folders.session_folder(session, folders.sessions_dir(sessions_dir))


def own_folder(session: Place, sessions_dir: Place | None = None) -> Path:
    """As `folder_of`, for a change. Raises ConfigError for a point that uses the session of an identical run."""
    return folders.own_session(session, folders.sessions_dir(sessions_dir))


def own_folders(place: Place, sessions_dir: Place | None = None) -> tuple[Path, list[Path]]:
    """The folder of a session or a study, for a change, and its sessions: itself, or all that are in the study."""
    folder = folders.own_folder(place, folders.sessions_dir(sessions_dir))
    return folder, checkpoints.sessions(folder) if checkpoints.is_group(folder) else [folder]


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
    if hidden:
        every += [_hidden(each, sized) for each in checkpoints.leftovers(folder)]
    return tree([each for each in every if _fits(each, method, dataset, state, tags)])


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


def summary(session: Place, sessions_dir: Place | None = None) -> Summary:
    """A summary of a session, with its size. The state of an unreadable one is 'damaged', with the reason."""
    return Summary.read(folder_of(session, sessions_dir), sized=True)


def details(session: Place, round: int | None = None, *, sessions_dir: Place | None = None) -> "Details":
    """All details of a session, with the record of a round (None: the last).

    Raises SessionUnreadable if the session is damaged or has no record of the round.
    """
    from htfl_sim.details import Details

    return Details.read(folder_of(session, sessions_dir), round)


def record(session: Place, round: int, *, sessions_dir: Place | None = None) -> Record:
    """The ledger's record of a round. Raises Damaged if the ledger has none."""
    return CheckedReader(folder_of(session, sessions_dir)).record(round)


def name_of(session: Place, sessions_dir: Place | None = None) -> str:
    """A session's name: its folder's name, after its study's if it is in one."""
    return checkpoints.name_of(folder_of(session, sessions_dir))


def records(session: Place, *, sessions_dir: Place | None = None) -> list[Record]:
    """The ledger's records, one per round. Raises SessionUnreadable."""
    return CheckedReader(folder_of(session, sessions_dir)).records()


def unfinished_round(session: Place, *, sessions_dir: Place | None = None) -> UnfinishedRound | None:
    """The kept part of a round that a stop interrupted."""
    return CheckedReader(folder_of(session, sessions_dir)).unfinished_round()


def verify(session: Place, *, sessions_dir: Place | None = None) -> list[Finding]:
    """Check every byte of a session, or of a study's sessions and its own two files. Returns the differences.

    It is sound if no finding is 'damage'.
    """
    study = folders.study_folder(session, folders.sessions_dir(sessions_dir))
    if study is None:
        return checkpoints.verify(folder_of(session, sessions_dir))
    from simulator.studies.folder import STUDY, read_points, read_study

    found = list[Finding]()
    for name, read in ((checkpoints.POINTS, read_points), (STUDY, read_study)):
        try:
            read(study)
        except (SessionUnreadable, ConfigError) as damage:
            found.append(Finding(name, "damage", str(damage)))
    for folder in checkpoints.session_folders(study):
        found += [
            replace(each, path=f"{folder.name}/{each.path}" if each.path else folder.name)
            for each in checkpoints.verify(folder)
        ]
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
    folder = own_folder(session, sessions_dir)
    document = CheckedReader(folder).document
    with well_formed(folder):
        configured = document["config"]["checkpoint"]
        best = configured["keep_best"] if keep_best is None else keep_best
        retention = checkpoints.Retention(
            last=keep_last or configured["keep_last"],
            every=keep_every or configured["keep_every"],
            best="accuracy.mean" if best else None,
        )
    return checkpoints.prune(folder, retention, dry_run=dry_run, steal=steal)


def size_on_disk(folder: Path) -> int:
    """The size of a folder on disk, in bytes."""
    return checkpoints.size_on_disk(folder)


def state(folder: Path) -> str:
    """The state of a session, or of the process that runs a study. Raises SessionUnreadable or DiskError."""
    if not checkpoints.is_group(folder):
        return CheckedReader(folder).state()
    study = checkpoints.GroupReader(folder)
    note = study.owner() if study.alive() else None
    return str(note["state"]) if note else "stopped"


def inside(folder: Path) -> list[Path]:
    """The sessions in a study, in order, then those of identical runs that its points use; for a session, itself.

    Raises DiskError.
    """
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

    data = _data(data_dir)
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
    from simulator.results.inspection.checkpoint import cka as cka_of_checkpoint
    from simulator.sessions.history import settings_in_force

    reader = CheckedReader(folder_of(session, sessions_dir))
    in_force = settings_in_force(reader.document, reader.manifest(round).history)
    settings = CkaConfig.model_validate(in_force.get("cka", {}))
    return cka_of_checkpoint(
        reader.folder,
        _data(data_dir),
        round,
        images=settings.probe,
        layers=None if settings.layers == "all" else settings.layers,
        debiased=settings.debiased,
        model=settings.model,
        untrained=settings.untrained,
        done=done,
    )


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


def csv_stream(stream: TextIO, what: str = "rounds") -> "Sink":
    """An open file to which `export` writes CSV, line by line."""
    from simulator.results.export.sinks import CsvStream

    return CsvStream(stream, what)


def export_partition(
    session: Place, *, sessions_dir: Place | None = None, data_dir: Place | None = None
) -> str:
    """The partition of a session as CSV text: one line per client and class."""
    from simulator.results.analysis.tidy import Tidy
    from simulator.results.export.sinks import text
    from simulator.results.inspection import partition as room

    found = room.of_session(folder_of(session, sessions_dir), _data(data_dir))
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
    from simulator.results.inspection.models import of_clients

    folder = folder_of(session, sessions_dir)
    models = of_clients(
        folder,
        _data(data_dir),
        clients,
        round,
        device=device,
        workers=workers,
        allow_inexact=allow_inexact,
    )
    place = Path(out or f"{folder.name}-round-{models.round}")
    return Weights(models.round, models.replayed, tuple(write(models, folder.name, place, program)))


def _data(data_dir: Place | None) -> Path:
    from simulator.data.datasets import data_folder

    return data_folder(None if data_dir is None else str(data_dir))


def _hidden(leftover: Leftover, sized: bool) -> Summary:
    state = "in use" if leftover.in_use else "leftover"
    size = checkpoints.size_on_disk(leftover.path) if sized else None
    return Summary(leftover.path.name, str(leftover.path), state, bytes=size)


def _fits(
    each: Summary, method: str | None, dataset: str | None, state: str | None, tags: Sequence[str]
) -> bool:
    return (
        (method is None or method in [name for _, name in each.methods])
        and (dataset is None or each.dataset == Path(dataset).name)
        and (state is None or each.state == state)
        and set(tags) <= set(each.tags)
    )
