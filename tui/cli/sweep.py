"""`htfl-sim sweep`: run the sessions of a study in order or several at once, here or on a cluster."""

from dataclasses import astuple
from typing import TYPE_CHECKING, Annotated

import typer

import htfl_sim as hs
from tui.cli import completion, options, output, running, sweep_slurm
from tui.cli.options import HOW, WHAT
from tui.common.errors import POINTS_FAILED
from tui.common.flags import as_flags

if TYPE_CHECKING:
    from htfl_sim.studies import Launch, Plan, SweepResult

HERE, SLURM = "here", "slurm"
SETTINGS_FROM = (
    "Preset whose training, data, and federation settings all points use; "
    "their own presets then set only the method and its options."
)
TUNED = (
    "Tuning study whose chosen values the methods use. "
    "Without --over, the study has the methods and final seeds of it."
)
LEFT = "left at once: the points at work stop by themselves, after their next client."
StudyName = Annotated[
    str,
    options.argument(
        "STUDY", completion.studies, "A study's name, or a study file, or a shipped study's name."
    ),
]


@options.expanded
def sweep(
    study: StudyName,
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="A study file for the study of that name.", show_default=False),
    ] = None,
    *,
    settings_from: Annotated[
        str | None, options.option(SETTINGS_FROM, metavar="P", complete=completion.presets, panel=WHAT)
    ] = None,
    tuned: Annotated[
        str | None, options.option(TUNED, metavar="STUDY", complete=completion.studies, panel=WHAT)
    ] = None,
    origin: Annotated[
        str | None,
        options.option(
            "Session and round from which every point branches off.",
            "--from",
            metavar="SESSION@R",
            panel=WHAT,
        ),
    ] = None,
    over: Annotated[
        list[str] | None,
        options.option(
            "Axis of the study: key=a,b,c or key=0..2. May be repeated.",
            metavar="KEY=VALUES",
            complete=completion.axes,
            panel=WHAT,
        ),
    ] = None,
    setup: options.Setup,
    extend: Annotated[
        bool,
        options.flag("Add points to an existing study. Its present points stay.", "--extend", panel=WHAT),
    ] = False,
    dry_run: Annotated[bool, options.dry_run("Only print the points and what they will cost.")] = False,
    on: Annotated[
        str,
        options.option(
            "Where points run: here, ray (docs/ray.md), or slurm, for which it writes a script to submit.",
            metavar="PLACE",
            complete=completion.places,
            panel=HOW,
        ),
    ] = HERE,
    jobs: Annotated[
        int | None,
        options.option(
            "Number of points to run at once, each with its share of the cores. On a cluster: the most at once.",
            least=1,
            metavar="J",
            panel=HOW,
        ),
    ] = None,
    point: Annotated[
        int | None,
        options.option(
            "Run only the point with this number, counted from 0. A task of a Slurm array uses it.",
            least=0,
            metavar="N",
            panel=HOW,
        ),
    ] = None,
    places: options.Folders,
    machine: options.Machine,
    reuse: options.Reuse = None,
    steal: options.Steal = False,
    progress: options.Progress = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a study: a session for every point of its axes, in STUDY/POINT.

    Run it again to continue: finished points are skipped, interrupted
    points resume. Ctrl-C stops every point at its next client. A point that
    fails does not stop the others.

    \b
    Examples
      htfl-sim sweep t3 --preset '{method}_htm5' --settings-from fedssa_htm5 --over method=fedgh,fedssa
      htfl-sim sweep mu --preset fedlora_htm5 --over method.mu=0.5,0.7,0.9 --jobs 2
      htfl-sim sweep abl --from t3/fedlora-s0@50 --over method.mu=0.5,0.7
      htfl-sim sweep more --tuned t3 --over method=standalone,fedgh --over seed=0..4 --reuse
      htfl-sim sweep study.toml --dry-run
      htfl-sim sweep t3
      htfl-sim sweep t3 --extend --over seed=0..4
      htfl-sim sweep t3 --on ray --set runtime.address=auto --set runtime.gpus_per_point=0.25
      htfl-sim sweep t3 --on slurm --jobs 8
    """
    hs.studies.checked_place(on)
    settings = {
        "rounds": setup.rounds,
        "until": setup.until,
        "until_time": setup.until_time,
        "seed": setup.seed,
        "data.dataset": setup.dataset,
        "data.partition": None if setup.partition is None else "indices",
        "data.indices": None if setup.partition is None else str(setup.partition),
        "federation.clients": setup.clients,
        "method.name": setup.method,
        "selection.strategy": setup.selection,
    }
    if point is not None:
        said = [
            file,
            settings_from,
            tuned,
            origin,
            over,
            jobs,
            extend or None,
            dry_run or None,
            *astuple(setup.without_files()),
        ]
        sweep_slurm.refuse_with_point(any(each is not None for each in said) or on != HERE)
    planned = hs.studies.plan(
        study,
        file,
        preset=setup.preset,
        settings_from=settings_from,
        profile=setup.profile,
        tuned=tuned,
        config=setup.config,
        origin=origin,
        over=over or (),
        settings=settings,
        assignments=setup.assignments or (),
        plugins=setup.plugin or (),
        models=setup.model or (),
        metrics=setup.metric or (),
        extend=extend,
        sessions_dir=places.sessions_dir,
    )
    launch = hs.studies.launch(
        planned,
        workers=machine.workers,
        device=machine.device,
        allow_inexact=machine.allow_inexact,
        data_dir=places.data_dir,
        reuse=reuse,
    )
    mention = running.mention(places.sessions_dir, planned.study.files.options())
    if point is not None:
        sweep_slurm.run_point(planned, point, launch, mention, progress, as_json)
        return
    if not dry_run:
        for sentence in planned.caveats():
            output.say(sentence, "yellow")
        _fetch(planned, places.data_dir)
    hs.studies.check(planned, places.data_dir)
    if dry_run:
        from tui.cli import sweep_cost

        sweep_cost.show(planned, places.data_dir, as_json)
    elif on == SLURM:
        sweep_slurm.write(planned, launch, jobs, as_json)
    else:
        _carry_out(planned, launch, on, jobs, steal, progress, as_json, mention)


def _fetch(planned: "Plan", data_dir: str | None) -> None:
    from tui.cli.data import fetch_missing

    for name in hs.studies.datasets_of(planned):
        fetch_missing(name, data_dir)


def _carry_out(
    planned: "Plan",
    launch: "Launch",
    on: str,
    jobs: int | None,
    steal: bool,
    drawn: bool | None,
    as_json: bool,
    mention: running.Mention,
) -> None:
    """Run the study's points. Raises typer.Exit: 129, 130, or 143 after a signal, 8 if points failed."""
    from htfl_sim.interrupts import Signals
    from tui.cli import sweep_progress

    name = planned.folder.name
    output.say(f"study {name}: {len(planned.points)} points in {planned.folder}")
    told = False
    at_once = jobs or (1 if on == HERE else None)
    with Signals(LEFT) as signals, sweep_progress.display(name, at_once, drawn, as_json) as shown:

        def wait() -> bool:
            nonlocal told
            if not told:
                output.say(
                    "points of a sweep that has died are still at work; they stop after their next client."
                )
            told = True
            return signals.stop is None

        def warn(sentence: str) -> None:
            output.say(f"warning: {sentence}", "yellow")

        try:
            outcome = hs.studies.carry_out(
                planned,
                launch,
                on=on,
                jobs=jobs,
                observe=shown,
                stop=lambda: signals.stop,
                waiting=wait,
                say=warn,
                steal=steal,
            )
        except hs.errors.Locked:
            if signals.exit_code:
                raise typer.Exit(signals.exit_code) from None
            raise
    for line in _closing(name, outcome, mention, on):
        output.say(line)
    for linked, session in hs.studies.linked(planned.folder).items():
        output.say(f"{name}/{linked} uses {session}, an identical run")
    if signals.exit_code:
        raise typer.Exit(signals.exit_code)
    if outcome.failed:
        raise typer.Exit(POINTS_FAILED)


def _closing(name: str, outcome: "SweepResult", mention: running.Mention, on: str) -> list[str]:
    """The result of a sweep in a few lines."""
    done = sum(status.state == "finished" for status in outcome.statuses)
    lines = [f"{done} of {len(outcome.statuses)} points finished"]
    lines += [f"{name}/{status.name} failed: {as_flags(status.reason)}" for status in outcome.failed]
    if outcome.reason:
        by = "the command stop" if outcome.reason == "stop" else outcome.reason
        lines[0] += f"; stopped by {by}, every point with a checkpoint"
    if done < len(outcome.statuses):
        where = "" if on == HERE else f" --on {on}"
        lines.append(f"continue: {mention(f'sweep {name}{where}')}")
    return lines
