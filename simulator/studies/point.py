"""One point of a study, run by a process of its own.

It begins or resumes its session and runs it to its end. It stops between two clients, with a checkpoint, on a signal,
on the session's command, and when the sweep that started it is gone: then the pipe whose other end the sweep held is
closed.
"""

import argparse
import select
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import checkpoints
from checkpoints import DiskError, SessionUnreadable
from presets import PresetError
from simulator.config import Config
from simulator.errors import ConfigError, HtflError
from simulator.nested import merged
from simulator.own import Files
from simulator.sessions.signals import Signals, die_by
from simulator.studies.folder import read_points
from simulator.studies.study import Point

DIVERGED = 6
ABANDONED = "the end of its sweep"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a point; the exit code is that of a command that runs a session, and stderr says why it failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("study", type=Path)
    parser.add_argument("point")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--lifeline", type=int, required=True)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--device")
    for kind, _ in Files():
        parser.add_argument(f"--{kind}", action="append", default=[])
    parser.add_argument("--allow-inexact", action="store_true")
    given = parser.parse_args(arguments)
    with Signals() as signals:
        try:
            code = _run(given, signals)
        except (HtflError, SessionUnreadable, DiskError, PresetError) as error:
            print(f"error: {error}", file=sys.stderr)
            return error.exit_code
        except Exception as error:
            traceback.print_exc()
            print(f"error: {type(error).__name__}: {' '.join(str(error).split())[:300]}", file=sys.stderr)
            return 1
    if signals.exit_code:
        die_by(signals.exit_code - 128)
    return code


def _run(given: argparse.Namespace, signals: Signals) -> int:
    from simulator.sessions.session import Session
    from simulator.studies.files import refuse_other

    def stop() -> str | None:
        return signals.stop or (ABANDONED if _is_closed(given.lifeline) else None)

    Files(*(tuple(getattr(given, kind)) for kind, _ in Files())).load()
    point = _find(given.study, given.point)
    refuse_other(given.study, [point])
    folder = given.study / point.name
    session: Session
    if stop():
        return 0
    if checkpoints.is_session(folder) or point.branch is not None:
        if not checkpoints.is_session(folder):
            _branch_off(point, folder, given)
        session = Session.resume(
            folder,
            given.data_dir,
            workers=given.workers,
            device=given.device,
            allow_inexact=given.allow_inexact,
        )
    else:
        session = Session.create(
            _config(point, given),
            folder,
            given.data_dir,
            workers=given.workers,
            allow_inexact=given.allow_inexact,
        )
    with session:
        for warning in session.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        outcome = session.run(stop=stop, checkpoint=signals.take_checkpoint)
    if outcome.state == "stopped" and str(outcome.reason).startswith("divergence"):
        print(f"error: stopped after round {outcome.round} by {outcome.reason}", file=sys.stderr)
        return DIVERGED
    return 0


def _find(study: Path, name: str) -> Point:
    for point in read_points(study):
        if point.name == name:
            return point
    raise ConfigError(f"study {study.name} has no point '{name}'.")


def _config(point: Point, given: argparse.Namespace) -> Config:
    runtime = {"device": given.device} if given.device else {}
    return Config.read(merged(point.config, {"runtime": runtime}))


def _branch_off(point: Point, folder: Path, given: argparse.Namespace) -> None:
    from simulator.sessions.forking import fork

    assert point.branch is not None
    fork(
        given.study.parent / point.branch["parent"],
        folder,
        given.data_dir,
        point.branch["round"],
        method=point.branch["method"],
        assignments=point.branch["set"],
        device=given.device,
        allow_inexact=given.allow_inexact,
    )


def _is_closed(lifeline: int) -> bool:
    return bool(select.select([lifeline], [], [], 0)[0])
