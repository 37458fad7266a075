"""Looks into a session: its clients' samples, their models' representations of them, and why a client does as it does.

Only `why` and `inspect`, which lists what a session or a study from elsewhere names, do not load torch.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import checkpoints
from checkpoints import SessionUnreadable
from htfl_sim import folders
from simulator.base import own_files
from simulator.base.documents import Change, OwnFile
from simulator.base.errors import ConfigError
from simulator.base.reading import sha256_of
from simulator.config.user_files import PATHS, Files
from simulator.results.analysis.feed import read
from simulator.results.analysis.ledger import last_measured, well_formed
from simulator.results.analysis.partners import Partners
from simulator.results.analysis.why import Why
from simulator.results.analysis.why import why as explained
from simulator.sessions.history import settings_in_force
from simulator.sessions.reader import CheckedReader
from simulator.studies.folder import read_points, read_study

if TYPE_CHECKING:
    from simulator.results.analysis.classes import Confusion
    from simulator.results.inspection.checkpoint import Representations
    from simulator.results.inspection.client_samples import ClientSamples

Place = str | Path
CODE = {str(kind): kind for kind, _ in Files()}
"""The kinds of Python files."""


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
    from simulator.results.inspection.checkpoint import representations

    return representations(_folder(session, sessions_dir), _data(data_dir), round, images=images)


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
    from simulator.results.inspection.partition import samples_of_session

    return samples_of_session(_folder(session, sessions_dir), _data(data_dir), clients)


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
        yield from _of_settings(
            point.config, [each for each in point.files if (each["kind"], each["name"]) not in paths]
        )
        if point.branch:
            yield Named("session", f"{point.branch.get('parent')}@{point.branch.get('round')}")
        if point.link:
            yield Named("session", point.link["session"], point.link["fingerprint"])
    for (kind, name), path in paths.items():
        if (kind, name) not in recorded:
            yield Named(kind, path)
    for preset in (spec.preset, spec.settings_from):
        if preset:
            yield Named("preset", preset)
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
    if named.kind in PATHS:
        here = _compared(named.sha256, lambda: sha256_of(path))
    elif path.name == named.name or named.kind in ("session", "parent session"):
        here = ""
    elif named.kind in CODE:
        here = _compared(named.sha256, lambda: own_files.read(CODE[named.kind], path)[0].sha256)
    else:
        here = "there" if os.path.exists(path) else "not here"  # noqa: PTH110 - Path raises for a long name
    return replace(named, here=here)


def _compared(recorded: str | None, sha256: Callable[[], str]) -> str:
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
