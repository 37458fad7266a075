"""`htfl-sim sweep --on slurm`, which writes what to submit, and `--point`, which every task of that runs."""

import shlex
from typing import TYPE_CHECKING

import checkpoints
from simulator.errors import ConfigError
from tui.cli import output, running

if TYPE_CHECKING:
    from simulator.studies.carrier import Launch
    from simulator.studies.plan import Plan


def write(planned: "Plan", launch: "Launch", jobs: int | None, as_json: bool) -> None:
    """Prepare the study, write its array script, and say how it is submitted."""
    from simulator.devices import select_device
    from simulator.studies import slurm

    slurm.check(planned.folder, planned.points)
    gpus = select_device("auto").type == "cuda"
    with planned.open() as group:
        script, kept = slurm.write(group, planned.points, launch, jobs, gpus)
    submit = f"sbatch {shlex.quote(str(script))}"
    if as_json:
        output.emit(
            {
                "study": planned.folder.name,
                "points": [point.name for point in planned.points],
                "script": str(script),
                "kept": kept,
                "submit": submit,
            }
        )
        return
    stays = "kept as it was, but for its line --array; remove it to have it anew" if kept else "written"
    output.say(f"study {planned.folder.name}: {len(planned.points)} points in {planned.folder}")
    output.say(f"{script}: {stays}")
    output.say(f"submit it, and again whenever points are left: {submit}")


def refuse_with_point(more: bool) -> None:
    """Raise ConfigError where `more` is asked for beside --point."""
    if more:
        raise ConfigError(
            "--point runs a point of a study as it is listed: leave out what would change the study, and --on, --jobs, "
            "--dry-run."
        )


def run_point(
    planned: "Plan",
    number: int,
    launch: "Launch",
    mention: running.Mention,
    drawn: bool | None,
    as_json: bool,
) -> None:
    """Run one point of a study that is there, beside whoever runs others; nothing is done for one that is finished.

    Raises ConfigError where there is no such point, Locked where a process runs it, and typer.Exit like a run.
    """
    from simulator.studies.status import FINISHED, Status

    name, points = planned.folder.name, planned.points
    if not planned.listed:
        raise ConfigError(
            f"study {name} is not there as it is asked for now; `htfl-sim sweep {name} …` prepares it."
        )
    if number >= len(points):
        raise ConfigError(f"study {name} has the points 0 to {len(points) - 1}, and no point {number}.")
    point = points[number]
    folder = planned.folder / point.name
    if Status(point.name, point.rounds).read(folder).state == FINISHED:
        output.say(f"{checkpoints.name_of(folder)} is finished.")
        return
    from simulator.studies.point import opened

    with opened(planned.folder, point, launch) as session:
        for warning in session.warnings:
            output.say(f"warning: {warning}", "yellow")
        running.carry_out(session, mention, drawn, as_json)
