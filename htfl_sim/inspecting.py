"""Looks into a session: its clients' samples, their models' representations of them, and why a client does as it does.

Only `why` and `inspect`, which lists what a session or a study from elsewhere names, do not load torch.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import checkpoints
from checkpoints import SessionUnreadable
from htfl_sim import folders
from simulator.base import own_files
from simulator.base.errors import ConfigError
from simulator.base.reading import sha256_of
from simulator.config.user_files import PATHS
from simulator.results.analysis.cka import last_measured
from simulator.results.analysis.feed import read
from simulator.results.analysis.partners import Partners
from simulator.results.analysis.well_formed import well_formed
from simulator.results.analysis.why import Why
from simulator.results.analysis.why import why as explained
from simulator.sessions.history import settings_in_force
from simulator.sessions.reader import CheckedReader
from simulator.studies.folder import read_points, read_study

if TYPE_CHECKING:
    from simulator.results.analysis.confusion import Confusion
    from simulator.results.inspection.client_samples import ClientSamples
    from simulator.results.inspection.representations import Representations

Place = str | Path


def representations(
    session: Place,
    round: int | None = None,
    *,
    images: int = 40,
    data_dir: Place | None = None,
    sessions_dir: Place | None = None,
) -> "Representations":
    """Every client's representations of the same number of test images after a kept round (None: the newest).

    Raises SessionUnreadable, ConfigError, and DataError.
    """
    from simulator.results.inspection.representations import of_checkpoint

    return of_checkpoint(_folder(session, sessions_dir), _data(data_dir), round, images=images)


def samples(
    session: Place,
    client: int,
    *,
    data_dir: Place | None = None,
    sessions_dir: Place | None = None,
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
    from simulator.results.inspection.looking import of_session

    return of_session(_folder(session, sessions_dir), _data(data_dir), clients)


def why(session: Place, client: int, round: int | None = None, *, sessions_dir: Place | None = None) -> Why:
    """Why a client does as it does after a round (None: the last): findings as sentences with their numbers.

    The gain is over a session of standalone in the same folder with the same data, models, and seeds. Raises
    ConfigError for a client or a round that does not exist, and SessionUnreadable.
    """
    folder = _folder(session, sessions_dir)
    run = read(folder)
    if run.error:
        raise SessionUnreadable(run.error)
    with well_formed(folder):
        at = run.round if round is None else round
        partner = next(iter(Partners().find(run, folders.sessions_folder(folder))), None)
        return explained(
            run,
            client,
            round,
            cka=last_measured(run.ledger.measured, at),
            baseline=None if partner is None else read(partner.folder),
            shared=0 if partner is None else partner.shared,
        )


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
    from simulator.results.inspection import models

    return models.confusion(_folder(session, sessions_dir), _data(data_dir), client, round)


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
    home = folders.sessions_dir(sessions_dir)
    study = folders.study_folder(place, home)
    found = list[Named]()
    sessions = checkpoints.sessions(study) if study else [folders.session_folder(place, home)]
    if study:
        found += _of_study(study)
    versions: dict[str, list[str]] = {}
    for folder in sessions:
        session = CheckedReader(folder)
        found += _of_session(session)
        for fact, value in session.document["environment"].items():
            if str(value) not in versions.setdefault(fact, []):
                versions[fact].append(str(value))
    return Inspection(study or sessions[0], study is not None, versions, tuple(dict.fromkeys(found)))


def _of_session(session: CheckedReader) -> Iterator[Named]:
    document = session.document
    history = session.manifest().history if session.rounds() else []
    if parent := document["parent"]:
        yield Named("parent session", f"{parent['name']}@{parent['round']}", parent["id"])
    data = {
        "kind": "data set",
        "name": document["config"]["data"]["dataset"],
        "sha256": document["data_fingerprint"],
    }
    said: Sequence[Mapping[str, Any]] = document.get("files", [])
    for entry in (document, *history):
        plugins = [entry.get("plugin"), *entry.get("model_plugins", {}).values()]
        said = entry.get("files", said)  # an entry lists them if they changed
        files = [{"kind": "plugin", **each} for each in plugins if each] + [*said, data]
        yield from _files(files, settings_in_force(document, [] if entry is document else [entry]))
        for name, sha256 in entry.get("method_files", {}).items():
            yield Named("method of htfl-sim", name, sha256)


def _of_study(study: Path) -> Iterator[Named]:
    spec, points = read_study(study), read_points(study)
    named = [
        (kind, path, {each["sha256"] for point in points for each in point.files if _is(each, kind, path)})
        for kind, paths in spec.files
        for path in paths
    ]
    for kind, path, recorded in named:
        for sha256 in sorted(recorded) or [None]:
            yield Named(kind, path, sha256, _code_here(kind, Path(path), sha256))
    for key in ("preset", "settings_from"):
        if name := getattr(spec, key):
            yield Named("preset", name)
    if spec.origin:
        yield Named("session", spec.origin)
    for point in points:
        if point.branch:
            yield Named("session", f"{point.branch.get('parent')}@{point.branch.get('round')}")
        if point.link:
            yield Named("session", point.link["session"], point.link["fingerprint"])
        others = [each for each in point.files if not any(_is(each, kind, path) for kind, path, _ in named)]
        yield from _files(others, point.config)


def _files(files: Sequence[Mapping[str, Any]], config: Mapping[str, Any]) -> Iterator[Named]:
    """Files with their recorded hashes, and the paths in settings."""
    recorded = {str(each["kind"]): str(each["sha256"]) for each in files}
    for each in files:
        if each["kind"] not in (*PATHS, "data set"):
            yield Named(str(each["kind"]), str(each["name"]), str(each["sha256"]))
    for kind, (section, key) in PATHS.items():
        if path := (config.get(section) or {}).get(key):
            yield Named(
                kind, str(path), recorded.get(kind), _here(lambda: sha256_of(Path(path)), recorded.get(kind))
            )
    data, federation = config.get("data") or {}, config.get("federation") or {}
    for kind, path in (
        ("data set", data.get("dataset")),
        ("public data", data.get("public")),
        ("weights", federation.get("pretrained")),
    ):
        if isinstance(path, str):
            here = "there" if os.path.exists(path) else "not here"  # noqa: PTH110 - Path raises for a long name
            yield Named(kind, path, recorded.get(kind), here if "/" in path else "")


def _is(file: Mapping[str, Any], kind: str, path: str) -> bool:
    return (file["kind"], file["name"]) == (kind, Path(path).name)


def _code_here(kind: own_files.Kind, path: Path, recorded: str | None) -> str:
    return _here(lambda: own_files.read(kind, path)[0].sha256, recorded)


def _here(sha256: Callable[[], str], recorded: str | None) -> str:
    """What is at the path of a file, whose hash is `recorded`."""
    try:
        found = sha256()
    except ConfigError as unreadable:
        return "not here" if isinstance(unreadable.__cause__, FileNotFoundError) else str(unreadable)
    if recorded is None:
        return "there"
    return "same bytes" if own_files.is_same(recorded, found) else "other bytes"


def _folder(session: Place, sessions_dir: Place | None) -> Path:
    return folders.session_folder(session, folders.sessions_dir(sessions_dir))


def _data(data_dir: Place | None) -> Path:
    from simulator.data.datasets import data_folder

    return data_folder(None if data_dir is None else str(data_dir))
