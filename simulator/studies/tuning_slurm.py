"""A tuning study on Slurm: an array of tasks for each of its steps, submitted together, each step after the one before.

A task computes from the files which points its step has, and runs one of them. So a choice is made where it is needed,
and no process has to wait on a login node.
"""

import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import checkpoints
from checkpoints import TUNING, Locked, SessionReader
from simulator.base.errors import ConfigError
from simulator.studies import point as one
from simulator.studies import slurm
from simulator.studies.executor import DIVERGED, Launch
from simulator.studies.links import session_of
from simulator.studies.search import BATCH, Request
from simulator.studies.study import Point
from simulator.studies.trials import Trials
from simulator.studies.tuning import Step, agreed, is_done, plan_of, request_file, steps

SUBMIT = "slurm-submit.sh"
PATIENCE = 60.0
"""Seconds that a task waits for others that list the same points."""


def prepare(
    folder: Path, request: Request | None, launch: Launch, jobs: int | None, gpus: bool
) -> tuple[slurm.Written, Path]:
    """Write a tuning study with its first points, the script of a task, and the script that submits all steps.

    Raises as `tune`, and ConfigError for points that Slurm cannot run.
    """
    request, launch = agreed(folder, request, launch)
    first = next(steps(folder, request, launch.data_dir))
    slurm.check(folder, first.points)
    with plan_of(folder, request, first, launch).open() as group:
        group.write({TUNING: request_file(request)})
        command = f'tune {shlex.quote(str(folder))} --step "$1" --point "$SLURM_ARRAY_TASK_ID"'
        note = f"# Submit {SUBMIT}, not this file: it passes the number of a step."
        written = slurm.write(group, first.points, launch, jobs, gpus, command, note)
        group.write({SUBMIT: _submitting(folder, sizes(folder, request), jobs).encode()})
        group.close("stopped")
    return written, folder / SUBMIT


def sizes(folder: Path, request: Request) -> list[int]:
    """The points of each step of a listed study; of a later step at most so many."""
    listed, seeds = Trials(folder, request), len(request.tuning_seeds)
    rungs = {method: dict(_by_round(request, len(listed.of(method)))) for method in request.methods}
    uptos = sorted({upto for each in rungs.values() for upto in each})
    found = [seeds * sum(each.get(upto, 0) for each in rungs.values()) for upto in uptos]
    if request.sampler == "tpe":
        batches = [min(request.budget, done + BATCH) for done in range(0, request.budget, BATCH)]
        found = [seeds * len(request.methods) * each for each in batches] + found[1:]
    return [*found, len(request.methods) * len(request.seeds)]


def run_task(folder: Path, step: int, number: int, launch: Launch) -> int:
    """Run one point of a step, both counted from 0. Returns an exit code; 0 also if there is nothing to do.

    Raises ConfigError while the step before is not over, and SessionUnreadable if there is no such study.
    """
    request, launch = agreed(folder, None, launch)
    current = _step(folder, request, step, launch)
    if current is None or number >= len(current.points):
        return 0  # equal trials and ties make a step smaller
    point = current.points[number]
    if _is_over(folder, point, current):
        return 0
    _list(folder, request, current, launch)
    theirs, mine = os.pipe()  # nobody else holds an end, so the point lives as long as this process
    try:
        options = [*launch.options(), "--lifeline", str(theirs), "--upto", str(current.upto)]
        code = one.main([str(folder), point.name, *options])
    finally:
        os.close(theirs)
        os.close(mine)
    return 0 if code == DIVERGED and current.trials else code


def _by_round(request: Request, trials: int) -> Iterator[tuple[int, int]]:
    return ((upto, count) for count, upto in request.rungs(trials))


def _step(folder: Path, request: Request, wanted: int, launch: Launch) -> Step | None:
    for number, each in enumerate(steps(folder, request, launch.data_dir)):
        if number == wanted:
            return each
        if left := sum(not _is_over(folder, point, each) for point in each.points):
            raise ConfigError(
                f"Step {number} of {folder.name} has {left} unfinished points, and step {wanted} needs their scores. "
                f"Submit the study again: `bash {shlex.quote(str(folder / SUBMIT))}`."
            )
    return None


def _is_over(folder: Path, point: Point, step: Step) -> bool:
    """Whether a point needs no further round in this step. A trial that a divergence stopped does not."""
    session = session_of(folder, point)
    if is_done(folder, point, step.upto) or not step.trials or not checkpoints.is_session(session):
        return is_done(folder, point, step.upto)
    stops = [event for event in SessionReader(session).events() if event["event"] in ("started", "stopped")]
    return bool(stops) and str(stops[-1].get("reason", "")).startswith("divergence")


def _list(folder: Path, request: Request, step: Step, launch: Launch) -> None:
    """List a step's points in the study. All of its tasks find the same ones, and the first writes them."""
    until = time.monotonic() + PATIENCE
    while not (planned := plan_of(folder, request, step, launch)).listed:
        try:
            planned.open().close("stopped")
        except Locked:
            if time.monotonic() > until:
                raise
            time.sleep(1)


def _submitting(folder: Path, counts: list[int], jobs: int | None) -> str:
    script = shlex.quote(str(folder / slurm.SCRIPT))
    lines = [
        "#!/bin/bash",
        f"# Submits the {len(counts)} steps of tuning study {folder.name}, each after the one before. Run it again to",
        "# continue: finished points are skipped, interrupted points are resumed.",
        "set -e",
    ]
    for number, count in enumerate(counts):
        after = "" if number == 0 else ' --dependency="afterany:${job%%;*}"'
        array = f"0-{count - 1}" + (f"%{jobs}" if jobs else "")
        lines.append(f"job=$(sbatch --parsable --array={array}{after} {script} {number})")
    return "\n".join([*lines, f'echo "submitted {len(counts)} steps; the last is job ${{job%%;*}}"', ""])
