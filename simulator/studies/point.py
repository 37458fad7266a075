"""One point of a study, in its own process: it creates or resumes its session and runs it to its end.

A signal, the session's command, or the end of its sweep stops it between two clients, with a checkpoint. The sweep
(on a node of a cluster, the node's actor) holds one end of a pipe, which closes when it dies.
"""

import json
import select
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import checkpoints
from checkpoints import DiskError, Locked, SessionUnreadable
from presets import PresetError
from simulator.base.documents import Document
from simulator.base.errors import ConfigError, HtflError
from simulator.base.nested import merged
from simulator.config import Config
from simulator.sessions.fingerprint import finished_twin
from simulator.sessions.steering import Signals, die_by
from simulator.studies.executor import DIVERGED, REUSED, WATCHED, Launch
from simulator.studies.folder import IN_SESSIONS, IN_STUDY, read_points, session_of
from simulator.studies.study import Point

if TYPE_CHECKING:
    from simulator.sessions.session import Session

ABANDONED = "the end of its sweep"
AGAIN_SECONDS = 1.0


def main(arguments: Sequence[str]) -> int:
    """Run a point of a study, as the JSON of `Launch.to_json` says. The exit code is that of `run`."""
    study, name, text = arguments
    about = json.loads(text)
    where = f"node {about['node']}: " if "node" in about else ""
    with Signals() as signals:
        try:
            code = _run(Path(study), name, Launch.of(about.pop("launch")), signals, **about)
        except (HtflError, SessionUnreadable, DiskError, PresetError) as error:
            print(f"error: {where}{error}", file=sys.stderr)
            return error.exit_code
        except Exception as error:
            traceback.print_exc()
            print(
                f"error: {where}{type(error).__name__}: {' '.join(str(error).split())[:300]}", file=sys.stderr
            )
            return 1
    if signals.exit_code:
        die_by(signals.exit_code - 128)
    return code


class Reused(Exception):
    """The finished session of an identical run exists."""


def opened(study: Path, point: Point, launch: Launch, reuse: str | None = None) -> "Session":
    """The session of a point, new or at its last checkpoint, also a dead machine's. Users' files are loaded.

    Raises the errors of creating or resuming, and Reused if `reuse` names a place where an identical run is finished.
    """
    from simulator.sessions.session import Session

    def look(document: Document) -> Sequence[str]:
        if not reuse:
            return []
        others = [session_of(study, each) for each in read_points(study) if each.name != point.name]
        others += checkpoints.session_folders(study.parent) if reuse == IN_SESSIONS else []
        found, said = finished_twin(document, others)
        if found:
            raise Reused(
                json.dumps({"session": checkpoints.name_of(found), "fingerprint": document["fingerprint"]})
            )
        return said

    folder = study / point.name
    if not checkpoints.is_session(folder):
        if point.branch is None:
            runtime = {"device": launch.device} if launch.device else {}
            return Session.create(
                Config.read(merged(point.config, {"runtime": runtime})),
                folder,
                launch.data_dir,
                workers=launch.workers,
                allow_inexact=launch.allow_inexact,
                look=look,
            )
        from simulator.sessions.forking import fork

        fork(
            study.parent / point.branch["parent"],
            folder,
            launch.data_dir,
            point.branch["round"],
            method=point.branch["method"],
            assignments=point.branch["set"],
            device=launch.device,
            allow_inexact=launch.allow_inexact,
        )
    return Session.resume(
        folder,
        launch.data_dir,
        workers=launch.workers,
        device=launch.device,
        allow_inexact=launch.allow_inexact,
        steal=True,
    )


def _run(
    study: Path,
    name: str,
    launch: Launch,
    signals: Signals,
    lifeline: int,
    node: str | None = None,
    parent: str | None = None,
) -> int:
    """node: the name of this node of a cluster. parent: the path of the session that the point branches off."""
    from simulator.data import datasets
    from simulator.studies.checking import refuse_other

    def stop() -> str | None:
        return signals.stop or (ABANDONED if select.select([lifeline], [], [], 0)[0] else None)

    launch.files.load()
    point = next((each for each in read_points(study) if each.name == name), None)
    if point is None:
        raise ConfigError(f"study {study.name} has no point '{name}'.")
    refuse_other(study, [point])
    if node:
        dataset = str(point.config["data"]["dataset"])
        launch = replace(launch, data_dir=datasets.folder_with(dataset, launch.data_dir))
    if parent:
        point = replace(point, branch={**(point.branch or {}), "parent": parent})
    reuse = {True: IN_SESSIONS, None: IN_STUDY, False: None}[launch.reuse]
    folder = study / point.name
    while not stop():
        begun = checkpoints.is_session(folder)
        try:
            session = opened(study, point, launch, reuse)
            break
        except Reused as link:
            print(link, file=sys.stderr)
            return REUSED
        except SessionUnreadable as error:
            made_meanwhile = not begun and checkpoints.is_session(folder)
            if not node or not (made_meanwhile or isinstance(error, Locked)):
                raise
        # The process that holds it has also lost its node's actor, and stops after its next client.
        time.sleep(AGAIN_SECONDS)
    else:
        return 0
    with session:
        for warning in session.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        outcome = session.run(stop=stop, checkpoint=signals.take_checkpoint, upto=launch.upto)
    diverged = outcome.state == "stopped" and str(outcome.reason).startswith("divergence")
    if diverged or outcome.by_watcher:
        print(f"error: stopped after round {outcome.round} by {outcome.reason}", file=sys.stderr)
        return DIVERGED if diverged else WATCHED
    return 0
