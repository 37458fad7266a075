"""`htfl-sim sweep` and `tune`: the sessions of a study, in order or several at once, here or on a cluster.

`tune` searches each method's hyper-parameters with the same budget, then runs the chosen values.
"""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import htfl_sim as hs
from htfl_sim.choices import HOW, WHAT, Choices
from tui.cli import completion, options, output, running
from tui.cli.options import Option, argument, dry_run, flag
from tui.common.errors import POINTS_FAILED, as_flags
from tui.common.formatting import amount, duration

if TYPE_CHECKING:
    from htfl_sim.studies import Launch, Plan, Script
    from simulator.studies.tuning import Forecast

HERE, SLURM = "here", "slurm"
SETTINGS_FROM = (
    "Preset whose training, data, and federation settings all points use; "
    "their own presets then set only the method and its options."
)
TUNED = (
    "Tuning study whose chosen values the methods use. "
    "Without --over, the study has the methods and final seeds of it."
)
FROM = "Session and round from which every point branches off."
OVER = "Axis of the study: key=a,b,c or key=0..2. May be repeated."
EXTEND = "Add points to an existing study. Its present points stay."
ON = "Where points run: here, ray, or slurm, for which it writes a script to submit."
JOBS = "Number of points to run at once, each with its share of the cores. On a cluster: the most at once."
POINT = "Run only the point with this number, counted from 0. A task of a Slurm array uses it."
LEFT = "left at once: the points at work stop by themselves"
STUDY = "A study's name, or a study file, or a shipped study's name."
StudyName = Annotated[str, argument("STUDY", completion.studies, STUDY)]
StudyFile = Annotated[str | None, argument("FILE", help="A study file for the study of that name.")]
On = Annotated[str, Option(ON, metavar="PLACE", complete=completion.places, panel=HOW)]


def sweep(
    study: StudyName,
    study_file: StudyFile = None,
    *,
    settings_from: Annotated[
        str | None, Option(SETTINGS_FROM, metavar="P", complete=completion.presets, panel=WHAT)
    ] = None,
    tuned: Annotated[
        str | None, Option(TUNED, metavar="STUDY", complete=completion.studies, panel=WHAT)
    ] = None,
    origin: Annotated[str | None, Option(FROM, "--from", metavar="SESSION@R", panel=WHAT)] = None,
    over: Annotated[
        Sequence[str], Option(OVER, metavar="KEY=VALUES", complete=completion.axes, panel=WHAT)
    ] = (),
    setup: Choices,
    extend: Annotated[bool, flag(EXTEND, "--extend", panel=WHAT)] = False,
    dry_run: Annotated[bool, dry_run("Only print the points and what they will cost.")] = False,
    on: On = HERE,
    jobs: Annotated[int | None, Option(JOBS, least=1, metavar="J", panel=HOW)] = None,
    point: Annotated[int | None, Option(POINT, least=0, metavar="N", panel=HOW)] = None,
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
    from simulator.studies.executor import Launch
    from simulator.studies.sweep import checked
    from tui.cli.machine import fetch_missing

    checked(on)
    if point is not None:
        said = (study_file, settings_from, tuned, origin, jobs, *over, extend or None, dry_run or None)
        if any(each is not None for each in said) or on != HERE or setup.without_files() != Choices():
            raise hs.ConfigError(
                "--point runs a point of a study as it is listed: leave out what would change the study, and --on, "
                "--jobs, --dry-run."
            )
    asked: dict[str, Any] = {"preset": setup.preset, "profile": setup.profile, "config": setup.file}
    asked |= {"settings_from": settings_from, "tuned": tuned, "origin": origin, "over": over}
    asked |= {"settings": {**setup.settings(), "method.name": setup.method}, "assignments": setup.assignments}
    asked |= {"plugins": setup.plugins, "models": setup.models, "metrics": setup.metrics}
    planned = hs.studies.plan(study, study_file, **asked, extend=extend, sessions_dir=places.sessions_dir)
    data = hs.folders.data_folder(places.data_dir).absolute()
    launch = Launch(data, machine.workers, machine.device, planned.study.files, machine.allow_inexact, reuse)
    mention = running.mention(places.sessions_dir, planned.study.files.options())
    if point is not None:
        session = hs.studies.open_point(planned, point, launch)
        if session is None:
            output.say(f"{planned.folder.name}/{planned.points[point].name} is finished.")
            return
        with session:
            output.warn(session.warnings)
            running.carry_out(session, mention, progress, as_json)
        return
    if not dry_run:
        for sentence in planned.caveats():
            output.say(sentence, "yellow")
        for dataset in dict.fromkeys(str(each.config["data"]["dataset"]) for each in planned.unbegun):
            fetch_missing(dataset, places.data_dir)
    hs.studies.check(planned, places.data_dir)
    if dry_run:
        _show_cost(planned, places.data_dir, as_json)
    elif on == SLURM:
        script = hs.studies.write_slurm(planned, launch, jobs)
        names = [each.name for each in planned.points]
        if not as_json:
            output.say(f"study {planned.folder.name}: {len(names)} points in {planned.folder}")
        _tell_script(script, planned.folder.name, as_json, points=names)
    else:
        _carry_out(planned, launch, mention, progress, as_json, on=on, jobs=jobs, steal=steal)


def _carry_out(
    planned: "Plan", launch: "Launch", mention: running.Mention, drawn: bool | None, as_json: bool, **how: Any
) -> None:
    """Run the study's points. Raises typer.Exit: 129, 130, or 143 after a signal, 8 if points failed."""
    from htfl_sim.shown import Signals
    from tui.cli import progress

    name, on = planned.folder.name, how["on"]
    output.say(f"study {name}: {len(planned.points)} points in {planned.folder}")
    told = False
    at_once = how["jobs"] or (1 if on == HERE else None)
    with (
        Signals(f"{LEFT}, after their next client.") as signals,
        progress.of_points(name, at_once, drawn, as_json) as shown,
    ):

        def wait() -> bool:
            nonlocal told
            if not told:
                output.say(
                    "points of a sweep that has died are still at work; they stop after their next client."
                )
            told = True
            return signals.stop is None

        how |= {"observe": shown, "waiting": wait, "stop": lambda: signals.stop}
        how |= {"say": lambda sentence: output.warn([sentence])}
        try:
            outcome = hs.studies.carry_out(planned, launch, **how)
        except hs.errors.Locked:
            if signals.exit_code:
                raise typer.Exit(signals.exit_code) from None
            raise
    done, points = sum(status.state == "finished" for status in outcome.statuses), len(outcome.statuses)
    by = "the command stop" if outcome.reason == "stop" else outcome.reason
    stopped = f"; stopped by {by}, every point with a checkpoint" if by else ""
    output.say(f"{done} of {points} points finished{stopped}")
    for status in outcome.failed:
        output.say(f"{name}/{status.name} failed: {as_flags(status.reason)}")
    if done < points:
        where = "" if on == HERE else f" --on {on}"
        output.say(f"continue: {mention(f'sweep {name}{where}')}")
    _tell_linked(name, planned.folder)
    if signals.exit_code or outcome.failed:
        raise typer.Exit(signals.exit_code or POINTS_FAILED)


def _tell_linked(study: str, folder: Path) -> None:
    for linked, session in hs.studies.linked(folder).items():
        output.say(f"{study}/{linked} uses {session}, an identical run")


def _show_cost(planned: "Plan", data_dir: str | None, as_json: bool) -> None:
    """Print the remaining cost of every point, and the total."""
    name = planned.folder.name
    output.say("counting a round's operations of every kind of point, and timing one")
    found = hs.studies.cost(planned, data_dir)
    seconds, flops = sum(cost.seconds for cost in found), sum(cost.flops for cost in found)
    if as_json:
        axes, points = {point.name: point.axes for point in planned.points}, []
        for cost in found:
            about = {key: getattr(cost, key) for key in ("rounds", "flops", "seconds")}
            points.append({"point": f"{name}/{cost.name}", "axes": axes[cost.name], **about})
        total = {"points": points, "flops": flops, "seconds": seconds}
        output.emit({"study": name, "notes": planned.caveats(), **total})
        return
    cells: output.Cells = {"point": lambda cost: f"{name}/{cost.name}", ">rounds left": "rounds"}
    cells |= {">FLOPs": lambda cost: amount(cost.flops), ">about": lambda cost: duration(cost.seconds)}
    output.show(
        *planned.caveats(),
        output.listing(found, cells),
        f"{len(found)} points, {amount(flops)} floating-point operations of training: about {duration(seconds)} "
        "on this machine, one after the other.",
    )


def _tell_script(script: "Script", study: str, as_json: bool, **more: object) -> None:
    """Say where the script of a study is, and how to submit it. more: what --json also has."""
    submit = f"sbatch {shlex.quote(str(script.file))}"
    if as_json:
        told = {"script": str(script.file), "kept": script.kept, "submit": submit}
        output.emit({"study": study, **more, **told})
        return
    but = ", but for its line --array" if "points" in more else ""
    stays = f"kept as it was{but}; remove it to have it anew" if script.kept else "written"
    output.say(f"{script.file}: {stays}")
    output.say(f"submit it, and again whenever points are left: {submit}")


SEARCH = "Search"
NAME = "Name of the tuning study. Without --over, the study of this name continues."
METHODS = "Methods to tune: method=fedgh,fedssa."
BUDGET = "Number of trials of each method. Default: 10."
BUDGET_FLOPS = "Training FLOPs for the trials of each method, as 2e15, in place of a number of trials."
SAMPLER = (
    "How values are proposed: latin (the default, a Latin hypercube: evenly over each range), random, grid, "
    "or tpe, which learns from earlier trials."
)
HALVING = "Keep the best 1/ETA of the trials at each rung. They continue from their checkpoints."
KEY = "Setting to search, or a section: method, training. May be repeated. Default: both sections."
SPACE = "Range of a setting: training.lr=log:0.001:0.1, method.mu=linear:0:1, or training.clip=1,5. May be repeated."
TUNING_SEEDS = "Seeds of the trials, as 1000 or 1000..1002. They differ from the final seeds. Default: 1000."
SEEDS = "Seeds of the runs with the chosen values. Default: 0..2."
LAST = "Score a trial by its mean over this many last rounds. Default: 1."
ALONE = "Do not tune Standalone as well."
DIVERGED = "Rule for a trial in which a client diverged: it loses (the default), or counts by its score."
SEARCH_SEED = (
    "Seed of the search's own draws. Default: 20. Studies with other seeds show how much luck there is."
)
AT_ONCE = "Number of points to run at once."
DRY_RUN = "Only print the trials, their rungs, and what they will cost."
SEPARATE = "Draw the samples of trials and of final runs from two disjoint parts of the data set."
Sampler = Literal["latin", "random", "grid", "tpe"]


def tune(
    name: Annotated[str, argument("NAME", completion.studies, NAME)],
    *,
    over: Annotated[Sequence[str], Option(METHODS, metavar="METHODS", panel=WHAT)] = (),
    setup: Choices,
    budget: Annotated[int | None, Option(BUDGET, metavar="N", least=1, panel=SEARCH)] = None,
    budget_flops: Annotated[float | None, Option(BUDGET_FLOPS, metavar="F", panel=SEARCH)] = None,
    sampler: Annotated[Sampler | None, Option(SAMPLER, panel=SEARCH)] = None,
    halving: Annotated[int | None, Option(HALVING, metavar="ETA", least=2, panel=SEARCH)] = None,
    keys: Annotated[Sequence[str], Option(KEY, "--key", metavar="KEY", panel=SEARCH)] = (),
    ranges: Annotated[Sequence[str], Option(SPACE, "--space", metavar="KEY=RANGE", panel=SEARCH)] = (),
    tuning_seeds: Annotated[str | None, Option(TUNING_SEEDS, metavar="S", panel=SEARCH)] = None,
    seeds: Annotated[str | None, Option(SEEDS, metavar="S", panel=SEARCH)] = None,
    last: Annotated[int | None, Option(LAST, metavar="K", least=1, panel=SEARCH)] = None,
    diverged: Annotated[Literal["loses", "counts"] | None, Option(DIVERGED, panel=SEARCH)] = None,
    search_seed: Annotated[int | None, Option(SEARCH_SEED, metavar="S", least=0, panel=SEARCH)] = None,
    no_baseline: Annotated[bool, flag(ALONE, "--no-baseline", panel=SEARCH)] = False,
    separate: Annotated[bool, flag(SEPARATE, "--separate", panel=SEARCH)] = False,
    dry_run: Annotated[bool, dry_run(DRY_RUN)] = False,
    on: On = HERE,
    jobs: Annotated[int | None, Option(AT_ONCE, least=1, metavar="J", panel=HOW)] = None,
    places: options.Folders,
    machine: options.Machine,
    reuse: options.Reuse = None,
    steal: options.Steal = False,
    progress: options.Progress = None,
    as_json: options.AsJson = False,
) -> None:
    """Tune methods: the same number of trials for each, scored on eval, then the final seeds.

    Standalone is tuned as well, unless --no-baseline. Test data decide nothing. Run
    it again to continue: no round is computed twice.

    \b
    Examples
      htfl-sim tune t3 --over method=fedgh,fedproto --budget 12 --halving 3 --rounds 30
      htfl-sim tune t3 --over method=fedproto --key training.lr --space method.lam=log:0.1:10
      htfl-sim tune t3 --over method=fedproto --rounds 30 --dry-run
      htfl-sim tune t3
    """
    from htfl_sim import tuning
    from htfl_sim.shown import Signals
    from simulator.studies.executor import Launch
    from simulator.studies.sweep import checked
    from tui.cli import progress as display
    from tui.cli.machine import fetch_missing

    checked(on)
    own = setup.files
    files, _ = hs.studies.named_files(own.plugins, setup.models, own.metrics, own.selections)
    asked = None
    given: dict[str, Any] = {"budget": budget, "budget_flops": budget_flops, "sampler": sampler}
    given |= {"halving": halving, "keys": keys or None, "ranges": ranges or None}
    given |= {"tuning_seeds": tuning_seeds and tuning.seed_numbers(tuning_seeds)}
    given |= {"seeds": seeds and tuning.seed_numbers(seeds), "last": last, "diverged": diverged}
    given |= {"search_seed": search_seed, "baseline": False if no_baseline else None}
    given |= {"separate": separate or None}
    search = {name: value for name, value in given.items() if value is not None}
    if over:
        files.load()
        methods = []
        for each in over:
            axis, values = tuning.axis(each)
            if axis != "method":
                raise hs.ConfigError(
                    f"Tuning takes methods, as `over='method=fedgh,fedssa'`; '{axis}' is another axis."
                )
            methods += [str(value) for value in values]
        choices = replace(setup, device=machine.device, workers=machine.workers)
        asked = tuning.request(choices, methods, rounds=setup.rounds, **search)
        if not dry_run:
            fetch_missing(asked.base["data"]["dataset"], places.data_dir)
    elif setup.without_files() != Choices():
        raise hs.ConfigError(
            "Settings belong to a new tuning study. Name its methods, as `over='method=fedgh'`."
        )
    else:
        tuning.refuse_without_methods(search)
    from simulator.studies.tuning import forecast, write_slurm
    from simulator.studies.tuning import tune as search_and_run

    folder = tuning.folder_of(name, places.sessions_dir)
    data = hs.folders.data_folder(places.data_dir).absolute()
    launch = Launch(data, machine.workers, machine.device, files, reuse=reuse)
    if dry_run:
        _show_trials(name, forecast(folder, asked, launch), as_json)
        return
    if on == SLURM:
        written = write_slurm(folder, asked, launch, jobs, hs.studies.has_gpu())
        _tell_script(hs.studies.Script(*written), name, as_json)
        return
    with (
        Signals(f"{LEFT}.") as signals,
        display.of_points(name, jobs or 1, progress, as_json) as shown,
    ):
        stop: dict[str, Any] = {"stop": lambda: signals.stop, "waiting": lambda: signals.stop is None}
        how: dict[str, Any] = {"on": on, "say": lambda sentence: output.warn([sentence]), "steal": steal}
        result = search_and_run(folder, asked, launch, jobs, shown, **stop, **how)
    for status in result.failed:
        output.say(f"{name}/{status.name} failed: {status.reason}", "red")
    _tell_linked(name, folder)
    if result.reason or result.failed:
        output.say(f"Continue: {running.mention(places.sessions_dir, files.options())(f'tune {name}')}")
    else:
        table = tuning.tuning(name, places.sessions_dir)
        if as_json:
            output.emit(table.to_json(), indent=None)
        else:
            output.show_table(table)
    if signals.exit_code or result.failed:
        raise typer.Exit(signals.exit_code or POINTS_FAILED)


def _show_trials(name: str, found: "Forecast", as_json: bool) -> None:
    """Print the trials of a study, its rungs, and its cost."""
    asked = found.request
    if as_json:
        trials = [
            {"method": each.method, "trial": each.number, "values": dict(each.values), "flops": flops}
            for each, flops in found.trials
        ]
        rungs = {
            method: [{"trials": count, "round": upto} for count, upto in each]
            for method, each in found.rungs.items()
        }
        about = {"final_seeds": asked.seeds, "flops": found.flops, "seconds": found.seconds}
        output.emit({"study": name, "trials": trials, "unknown": found.unknown, "rungs": rungs, **about})
        return
    rows = [
        [each.method, each.number, hs.tuning.values_of(each.values), amount(flops)]
        for each, flops in found.trials
    ]
    by_rungs: dict[str, list[str]] = {}
    for method, steps in found.rungs.items():
        by_rungs.setdefault(", ".join(f"{count} to round {upto}" for count, upto in steps), []).append(method)
    more = f"{found.unknown} more trials of each method depend on scores."
    output.show(
        output.table(["method", ">trial", "values", ">FLOPs of a round"], rows),
        *([more] if found.unknown else []),
        *(f"Trials of {', '.join(methods)}: {each}." for each, methods in by_rungs.items()),
        f"Tuning seeds: {len(asked.tuning_seeds)}. Final seeds: {len(asked.seeds)}, with {asked.rounds} rounds each.",
        f"Left to compute: {amount(found.flops)} floating-point operations of training: about "
        f"{duration(found.seconds)} on this machine, one after the other.",
    )
