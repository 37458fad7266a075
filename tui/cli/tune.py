"""`htfl-sim tune`: search each method's hyper-parameters with the same budget, then run the chosen values."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

import htfl_sim as hs
from tui.cli import completion, options, output, running, sweep_slurm
from tui.cli.options import HOW, WHAT
from tui.common.errors import POINTS_FAILED
from tui.common.formatting import amount, duration

if TYPE_CHECKING:
    from htfl_sim.tuning import Forecast

SEARCH = "Search"
HERE, SLURM = "here", "slurm"


class Sampler(StrEnum):
    """How values are proposed."""

    LATIN = "latin"
    RANDOM = "random"
    GRID = "grid"
    TPE = "tpe"


class Diverged(StrEnum):
    """What becomes of a trial in which a client diverged."""

    LOSES = "loses"
    COUNTS = "counts"


NAME = "Name of the tuning study. Without --over, the study of this name continues."
OVER = "Methods to tune: method=fedgh,fedssa."
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
ON = "Where points run: here, ray, or slurm, for which it writes a script to submit."
DIVERGED = "Rule for a trial in which a client diverged: it loses (the default), or counts by its score."
SEARCH_SEED = (
    "Seed of the search's own draws. Default: 20. Studies with other seeds show how much luck there is."
)
DRY_RUN = "Only print the trials, their rungs, and what they will cost."
SEPARATE = "Draw the samples of trials and of final runs from two disjoint parts of the data set."


@options.expanded
def tune(
    name: Annotated[str, options.argument("NAME", completion.studies, NAME)],
    *,
    over: Annotated[list[str] | None, options.option(OVER, metavar="METHODS", panel=WHAT)] = None,
    setup: options.Setup,
    budget: Annotated[int | None, options.option(BUDGET, metavar="N", least=1, panel=SEARCH)] = None,
    budget_flops: Annotated[
        float | None, options.option(BUDGET_FLOPS, "--budget-flops", metavar="F", panel=SEARCH)
    ] = None,
    sampler: Annotated[Sampler | None, options.option(SAMPLER, "--sampler", panel=SEARCH)] = None,
    halving: Annotated[int | None, options.option(HALVING, metavar="ETA", least=2, panel=SEARCH)] = None,
    key: Annotated[list[str] | None, options.option(KEY, "--key", metavar="KEY", panel=SEARCH)] = None,
    space: Annotated[
        list[str] | None, options.option(SPACE, "--space", metavar="KEY=RANGE", panel=SEARCH)
    ] = None,
    tuning_seeds: Annotated[str | None, options.option(TUNING_SEEDS, metavar="S", panel=SEARCH)] = None,
    seeds: Annotated[str | None, options.option(SEEDS, metavar="S", panel=SEARCH)] = None,
    last: Annotated[int | None, options.option(LAST, metavar="K", least=1, panel=SEARCH)] = None,
    diverged: Annotated[Diverged | None, options.option(DIVERGED, "--diverged", panel=SEARCH)] = None,
    search_seed: Annotated[
        int | None, options.option(SEARCH_SEED, "--search-seed", metavar="S", least=0, panel=SEARCH)
    ] = None,
    no_baseline: Annotated[bool, options.flag(ALONE, "--no-baseline", panel=SEARCH)] = False,
    separate: Annotated[bool, options.flag(SEPARATE, "--separate", panel=SEARCH)] = False,
    dry_run: Annotated[bool, options.dry_run(DRY_RUN)] = False,
    on: Annotated[str, options.option(ON, metavar="PLACE", complete=completion.places, panel=HOW)] = HERE,
    jobs: Annotated[
        int | None, options.option("Number of points to run at once.", least=1, metavar="J", panel=HOW)
    ] = None,
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
    from htfl_sim.interrupts import Signals
    from tui.cli import sweep_progress
    from tui.cli.data import fetch_missing

    hs.studies.checked_place(on)
    own = (setup.plugin, setup.model, setup.metric, running.selection_files(setup.selection))
    files, _ = hs.studies.named_files(*(each or () for each in own))
    asked = None
    given: dict[str, Any] = {
        "budget": budget,
        "budget_flops": budget_flops,
        "sampler": sampler and sampler.value,
        "halving": halving,
        "keys": key,
        "ranges": space,
        "tuning_seeds": tuning_seeds and tuning.seed_numbers(tuning_seeds),
        "seeds": seeds and tuning.seed_numbers(seeds),
        "last": last,
        "diverged": diverged and diverged.value,
        "search_seed": search_seed,
        "baseline": False if no_baseline else None,
        "separate": separate or None,
    }
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
        asked = tuning.request(
            setup.choices(machine),
            methods,
            rounds=setup.rounds,
            **search,
        )
        if not dry_run:
            fetch_missing(asked.base["data"]["dataset"], places.data_dir)
    elif setup.without_files() != options.Setup():
        raise hs.ConfigError(
            "Settings belong to a new tuning study. Name its methods, as `over='method=fedgh'`."
        )
    else:
        tuning.refuse_without_methods(search)
    if dry_run:
        _show_trials(
            name,
            tuning.forecast(
                name, asked, data_dir=places.data_dir, sessions_dir=places.sessions_dir, files=files
            ),
            as_json,
        )
        return
    if on == SLURM:
        script = tuning.write_slurm(
            name,
            asked,
            jobs=jobs,
            workers=machine.workers,
            device=machine.device,
            data_dir=places.data_dir,
            sessions_dir=places.sessions_dir,
            files=files,
        )
        sweep_slurm.tell(script, name, as_json)
        return
    with (
        Signals("left at once: the points at work stop by themselves.") as signals,
        sweep_progress.display(name, jobs or 1, progress, as_json) as shown,
    ):
        result = tuning.carry_out(
            name,
            asked,
            jobs=jobs,
            on=on,
            workers=machine.workers,
            device=machine.device,
            data_dir=places.data_dir,
            sessions_dir=places.sessions_dir,
            files=files,
            observe=shown,
            stop=lambda: signals.stop,
            waiting=lambda: signals.stop is None,
            say=lambda sentence: output.say(f"warning: {sentence}", "yellow"),
            steal=steal,
            reuse=reuse,
        )
    for status in result.failed:
        output.say(f"{name}/{status.name} failed: {status.reason}", "red")
    for linked, session in hs.studies.linked(name, places.sessions_dir).items():
        output.say(f"{name}/{linked} uses {session}, an identical run")
    if result.reason or result.failed:
        output.say(f"Continue: {running.mention(places.sessions_dir, files.options())(f'tune {name}')}")
    else:
        table = tuning.tuning(name, places.sessions_dir)
        if as_json:
            output.emit(table.to_json(), indent=None)
        else:
            output.show_table(table)
    if signals.exit_code:
        raise typer.Exit(signals.exit_code)
    if result.failed:
        raise typer.Exit(POINTS_FAILED)


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
    rows = (
        [each.method, each.number, hs.tuning.values_of(each.values), amount(flops)]
        for each, flops in found.trials
    )
    more = f"{found.unknown} more trials of each method depend on scores."
    output.show(
        output.table(["method", ">trial", "values", ">FLOPs of a round"], rows),
        *([more] if found.unknown else []),
        *(f"Trials of {methods}: {each}." for each, methods in _by_rungs(found).items()),
        f"Tuning seeds: {len(asked.tuning_seeds)}. Final seeds: {len(asked.seeds)}, with {asked.rounds} rounds each.",
        f"Left to compute: {amount(found.flops)} floating-point operations of training: about "
        f"{duration(found.seconds)} on this machine, one after the other.",
    )


def _by_rungs(found: "Forecast") -> dict[str, str]:
    """The methods with the same rungs, by the rungs in words."""
    words: dict[str, str] = {}
    for method, each in found.rungs.items():
        text = ", ".join(f"{count} to round {upto}" for count, upto in each)
        words[text] = f"{words[text]}, {method}" if text in words else method
    return words
