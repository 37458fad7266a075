"""`--on slurm` of sweep and tune, which writes a script, and `--point`, which every task of a sweep's script runs."""

import shlex
from typing import TYPE_CHECKING

import htfl_sim as hs
from tui.cli import output, running

if TYPE_CHECKING:
    from htfl_sim.studies import Launch, Plan, Script


def write(planned: "Plan", launch: "Launch", jobs: int | None, as_json: bool) -> None:
    """Prepare the study, write its array script, and print how to submit it."""
    script = hs.studies.write_slurm(planned, launch, jobs)
    names = [point.name for point in planned.points]
    if not as_json:
        output.say(f"study {planned.folder.name}: {len(names)} points in {planned.folder}")
    tell(script, planned.folder.name, as_json, points=names)


def tell(script: "Script", study: str, as_json: bool, **more: object) -> None:
    """Say where the script of a study is, and how to submit it. more: what --json also has."""
    submit = f"sbatch {shlex.quote(str(script.file))}"
    if as_json:
        output.emit(
            {"study": study, **more, "script": str(script.file), "kept": script.kept, "submit": submit}
        )
        return
    but = ", but for its line --array" if "points" in more else ""
    stays = f"kept as it was{but}; remove it to have it anew" if script.kept else "written"
    output.say(f"{script.file}: {stays}")
    output.say(f"submit it, and again whenever points are left: {submit}")


def refuse_with_point(more: bool) -> None:
    """Raise ConfigError for `more` options together with --point."""
    if more:
        raise hs.ConfigError(
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
    """Run one point of an existing study, while other processes run others. Does nothing for a finished point.

    Raises ConfigError if there is no such point, Locked if a process runs it, and typer.Exit like a run.
    """
    session = hs.studies.open_point(planned, number, launch)
    if session is None:
        output.say(f"{planned.folder.name}/{planned.points[number].name} is finished.")
        return
    with session:
        for warning in session.warnings:
            output.say(f"warning: {warning}", "yellow")
        running.carry_out(session, mention, drawn, as_json)
