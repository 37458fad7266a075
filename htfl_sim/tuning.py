"""Tuning from Python: search each method's hyper-parameters with the same budget, then run the chosen values."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from htfl_sim import folders, shown
from htfl_sim.configuring import Choices
from htfl_sim.studies import named_files
from simulator.base.errors import ConfigError, PointsFailed
from simulator.base.nested import ALL, with_overrides
from simulator.base.units import NONE, amount
from simulator.results.analysis.caveats import divergences
from simulator.results.analysis.gain import BASELINE
from simulator.results.analysis.ledger import NO_SCORE
from simulator.results.analysis.tabular import Column, TextTable, percent
from simulator.studies.folder import Status
from simulator.studies.study import axis as axis
from simulator.studies.study import values

if TYPE_CHECKING:
    from simulator.studies.search import Diverged, Request, Sampler
    from simulator.studies.tuning import Tuned

__all__ = ["Tuning", "request", "tune", "tuning"]

Place = str | Path
INTERVAL = "[low, high] is the 95 % interval of the mean over n final seeds (Student's t)."
CUT = "Intervals end at 0 % and 100 %, which no accuracy exceeds."
WAYS = {"latin": "a Latin hypercube", "random": "random search", "grid": "grid search", "tpe": "TPE"}


@dataclass(frozen=True)
class Tuning(TextTable["Tuned"]):
    """What tuning found: a row for each method that is done."""

    asked: "Request"
    rows: "tuple[Tuned, ...]"

    def columns(self) -> "list[Column[Tuned]]":
        """Method, budget, score on eval, chosen values, and the accuracy of the final seeds."""
        return [
            Column("method", lambda row: row.method, False),
            Column("trials", lambda row: str(row.trials)),
            Column("rounds of trials", lambda row: str(row.rounds)),
            Column("FLOPs of trials", lambda row: amount(row.flops)),
            Column(
                "score on eval, %", lambda row: NO_SCORE if row.score is None else f"{100 * row.score:.2f}"
            ),
            Column("n", lambda row: str(row.final.n) if row.final else NONE),
            Column("test, %", _tested, value=lambda row: row.final),
            Column("chosen values", _chosen, False),
        ]

    def remarks(self) -> list[str]:
        """The budget, the space, the seeds, and choices at a boundary of their ranges."""
        asked = self.asked
        way = WAYS[asked.sampler] + (f", halving by {asked.halving}" if asked.halving else "")
        way += f", search seed {asked.search_seed}"
        budget = (
            f"{'up to ' * (asked.sampler == 'grid')}{asked.budget} trials"
            if asked.budget_flops is None
            else f"{amount(asked.budget_flops)} training FLOPs for trials"
        )
        last = "the last round" if asked.last == 1 else f"the last {asked.last} rounds"
        found = [
            f"Each method had {budget} of up to {asked.rounds} rounds ({way}), the first with its own values.",
            f"Trials were scored on eval, over {last} of seed {', '.join(map(str, asked.tuning_seeds))}. "
            f"Test accuracies are of seed {', '.join(map(str, asked.seeds))}.",
        ]
        if asked.separate:
            found.append("Trials and final runs share no sample of the data set.")
        if lost := [f"{row.lost} of {row.trials} of {row.method}" for row in self.rows if row.lost]:
            found.append(f"Trials in which a client diverged, and which lost: {', '.join(lost)}.")
        if failed := [row.method for row in self.rows if row.score is None]:
            found.append(f"No choice and no final runs, because all trials lost: {', '.join(failed)}.")
        if asked.diverged == "counts":
            found.append("A trial in which a client diverged counts by its score.")
        found += divergences((f"{row.method}, final runs", [row.diverged]) for row in self.rows)
        found += self._ranges()
        at = [f"{row.method} {key}" for row in self.rows for key in row.boundary]
        if at:
            found.append(f"At the boundary of its range: {', '.join(at)}. A wider range may be better.")
        repeated = [
            f"{asked.budget - row.trials} of {row.method}"
            for row in self.rows
            if asked.budget_flops is None
            and asked.sampler != "grid"  # a grid may have fewer
            and row.trials < asked.budget
            and asked.space(row.method)
        ]
        if repeated:
            found.append(
                f"Trials that had the settings of earlier ones, and took their scores: {', '.join(repeated)}."
            )
        intervals = [row.final.interval for row in self.rows if row.final and row.final.interval]
        if any(low < 0 or high > 1 for low, high in intervals):
            found.append(CUT)
        return [*found, INTERVAL] if intervals else found

    def _ranges(self) -> Iterator[str]:
        """What all methods searched, and what single ones searched besides."""
        from simulator.base.sections import range_text

        spaces = {row.method: self.asked.space(row.method) for row in self.rows}
        shared = [
            f"{key} {range_text(each)}"
            for key, each in next(iter(spaces.values()), {}).items()
            if all(space.get(key) == each for space in spaces.values())
        ]
        if shared:
            yield f"{'All' if len(spaces) > 1 else next(iter(spaces))} searched {'; '.join(shared)}."
        own, fixed = list[str](), list[str]()
        for method, space in spaces.items():
            ranges = [
                text for key, each in space.items() if (text := f"{key} {range_text(each)}") not in shared
            ]
            own += [f"{method} {', '.join(ranges)}"] if ranges else []
            values = [f"{key}={each}" for key, each in self.asked.fixed(method).items()]
            fixed += [f"{method} {', '.join(values)}"] if values else []
        if own:
            yield f"{'Also searched' if shared else 'Searched'}: {'; '.join(own)}."
        if fixed:
            yield f"Fixed: {'; '.join(fixed)}."

    def fields(self, row: "Tuned") -> Iterator[tuple[str, Any]]:
        """All that a row has; accuracies 0…1."""
        for name in ("method", "trials", "rounds", "flops", "score"):
            yield name, getattr(row, name)
        final = row.final
        low, high = (final and final.interval) or (None, None)
        yield from (("final", final and final.mean), ("final_low", low), ("final_high", high))
        yield from (("final_std", final and final.std), ("n", final and final.n), ("lost", row.lost))
        yield from row.diverged.fields()
        yield "boundary", " ".join(row.boundary)
        yield from row.values.items()

    def to_json(self) -> dict[str, Any]:
        """For programs: the request, and every method's result."""
        return {
            "request": asdict(self.asked) | ({"budget": None} if self.asked.budget_flops else {}),
            "methods": [
                asdict(row) | {"interval": row.final.interval if row.final else None} for row in self.rows
            ],
            "notes": self.remarks(),
        }


def request(
    choices: Choices,
    methods: Sequence[str],
    *,
    rounds: int | None = None,
    budget: int | None = None,
    budget_flops: float | None = None,
    sampler: "Sampler | None" = None,
    halving: int | None = None,
    keys: Sequence[str] = (),
    ranges: Sequence[str] = (),
    tuning_seeds: Sequence[int] = (1000,),
    seeds: Sequence[int] = (0, 1, 2),
    last: int = 1,
    baseline: bool = True,
    separate: bool = False,
    diverged: "Diverged" = "loses",
    search_seed: int | None = None,
) -> "Request":
    """What a tuning study asks for. The settings of `choices` are those of all methods; each method has its own too.

    budget: trials of each method, 10 by default; or budget_flops: training FLOPs of the trials of each method. sampler:
    'latin' by default, and 'random' with budget_flops. baseline: Standalone is tuned as well, with the same budget.
    separate: trials and final runs draw their samples from two disjoint parts of the data set. diverged: a trial in
    which a client diverged 'loses', or 'counts' by its score. search_seed: of all draws of the search. Raises
    ConfigError.
    """
    from simulator.studies.search import SEED, Request

    if budget is not None and budget_flops is not None:
        raise ConfigError("`budget` and `budget_flops` are two budgets. Leave one of them out.")
    own = [each for each in choices.assignments if each.lstrip().startswith("method.")]
    choices = replace(choices, assignments=[each for each in choices.assignments if each not in own])
    config = choices.read()
    given = {each.partition("=")[0].strip() for each in [*choices.assignments, *own]}
    if choices.method or given & {"method", "method.name"}:
        raise ConfigError("Tuning takes its methods by name. Leave out `method`.")
    if choices.seed is not None or "seed" in given:
        raise ConfigError("Tuning has its own seeds. Use `tuning_seeds` and `seeds`.")
    for goal in ("until", "until_time"):
        if getattr(config, goal):
            raise ConfigError(
                f"Tuning compares trials of the same rounds, and `{goal}` ends some early. Leave it out."
            )
    base = {
        key: value for key, value in config.to_json().items() if key not in ("method", "preset", "profile")
    }
    parts = base.pop("seed")
    if isinstance(parts, dict):  # seeds of the data, the initial weights, or training alone
        base["seed"] = {part: seed for part, seed in parts.items() if part != ALL}
    if separate and "data.pool" in given:
        raise ConfigError("`separate` sets data.pool. Leave one of them out.")
    base = with_overrides(base, own)
    names = dict.fromkeys([*([BASELINE] if baseline else []), *methods])
    made = Request(
        base, tuple(names), rounds or config.rounds, 10 if budget is None else budget,
        sampler or ("latin" if budget_flops is None else "random"), halving, tuple(keys), tuple(ranges),
        tuple(tuning_seeds), tuple(seeds), last, separate, budget_flops, diverged=diverged,
        search_seed=SEED if search_seed is None else search_seed,
    ).checked()  # fmt: skip
    used = {key for name in names for key in made.fixed(name)}
    for key in base.get("method", {}):
        if key not in used:
            raise ConfigError(f"None of {', '.join(names)} has a setting 'method.{key}'.")
    spaces = {name: made.space(name) for name in names}  # raises for an unknown method or key
    for key in (each.partition("=")[0].strip() for each in ranges):
        if not any(key in space for space in spaces.values()):
            raise ConfigError(f"None of {', '.join(names)} has a setting '{key}' to search.")
    return made


def tuning(name: Place, sessions_dir: Place | None = None) -> Tuning:
    """What a tuning study has found so far, from its files alone. Raises SessionUnreadable if there is none."""
    from simulator.studies.search import read_request
    from simulator.studies.tuning import tuned

    folder = folder_of(name, sessions_dir)
    return Tuning(read_request(folder), tuple(tuned(folder)))


def tune(
    name: Place,
    methods: Sequence[str] = (),
    *,
    preset: str | None = None,
    dataset: str | None = None,
    clients: int | None = None,
    assignments: Sequence[str] = (),
    plugins: Sequence[Place] = (),
    models: Sequence[Place] = (),
    metrics: Sequence[Place] = (),
    jobs: int | None = None,
    on: str = "here",
    reuse: bool | None = None,
    data_dir: Place | None = None,
    sessions_dir: Place | None = None,
    progress: bool | Callable[[Sequence[Status]], None] = False,
    **options: Any,
) -> Tuning:
    """Search the hyper-parameters of methods with the same budget, then run the final seeds with the chosen values.

    Without methods, a study that exists continues. reuse: as in `hs.sweep`. plugins, models, metrics: your own files.
    options: those of `request`. Trials are scored on eval, never on test data. Raises ConfigError, PointsFailed if a
    point failed, and KeyboardInterrupt after Ctrl-C, with every point at a checkpoint.
    """
    asked, (files, group) = None, named_files(plugins, models, metrics)
    if methods:
        files.load()
        choices = Choices(
            preset, dataset=dataset, clients=clients, assignments=assignments, models=group,
            metrics=[Path(file) for file in metrics],
        )  # fmt: skip
        asked = request(choices, methods, **options)
    else:
        settings = {"preset": preset, "dataset": dataset, "clients": clients, "assignments": assignments}
        refuse_without_methods(settings | options)
    from simulator.studies.executor import Launch
    from simulator.studies.tuning import tune as run

    launch = Launch(folders.data_folder(data_dir).absolute(), files=files, reuse=reuse)
    with shown.heeded() as interrupt, shown.points(progress) as observe:
        stop, folder = interrupt.reason, folder_of(name, sessions_dir)
        result = run(folder, asked, launch, jobs, observe, stop, on=on, say=warnings.warn)
    if interrupt.came:
        raise KeyboardInterrupt
    if result.failed:
        raise PointsFailed({each.name: each.reason for each in result.failed}, len(result.statuses))
    return tuning(name, sessions_dir)


def refuse_without_methods(given: Mapping[str, Any]) -> None:
    """Raise ConfigError if there is an option of a new study, by its name in `request`. None and () are no options."""
    for name, value in given.items():
        if value not in (None, (), []):
            shown = ",".join(map(str, value)) if isinstance(value, list | tuple) else value
            raise ConfigError(
                f"`{name}={shown}` belongs to a new tuning study. Leave it out to continue a study. To begin one, "
                "choose another name, and name its methods: `over='method=fedgh'`."
            )


def seed_numbers(text: str) -> tuple[int, ...]:
    """The seeds in '0..2' or '0,5'. Raises ConfigError for anything else."""
    found = values("seed", text)
    if not all(type(each) is int and each >= 0 for each in found):
        raise ConfigError(f"'{text}' is not a list of seeds. Examples: 0..2 and 0,5.")
    return tuple(map(int, found))


def folder_of(name: Place, sessions_dir: Place | None = None) -> Path:
    """The folder of a tuning study, which may not exist yet."""
    there = folders.study_folder(name, sessions_dir)
    return there or (folders.new_session(name, sessions_dir) if isinstance(name, str) else name)


def _tested(row: "Tuned") -> str:
    final = row.final
    if final is None:
        return row.diverged.marked(NO_SCORE) if row.diverged.untrained or row.score is None else NONE
    if final.interval is None:
        return row.diverged.marked(percent(final))
    low, high = max(0.0, final.interval[0]), min(1.0, final.interval[1])
    return row.diverged.marked(f"{100 * final.mean:.2f} [{100 * low:.2f}, {100 * high:.2f}]")


def _chosen(row: "Tuned") -> str:
    return NONE if row.score is None else values_of(row.values)


def values_of(values: Mapping[str, Any]) -> str:
    """The values of a trial in one cell."""
    return ", ".join(f"{key}={value}" for key, value in values.items()) or "its own values"
