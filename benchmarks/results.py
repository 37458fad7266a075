"""`make results`: the tables of docs/results.md, from studies that this command sweeps and that it can be killed in.

Each method has a learning rate of its own, and a value of the option that weighs most in it: those whose accuracy on
the clients' eval parts is best in a grid of seed 0. Where the best rate is the least or the largest of the grid, the
grid grows until it is not. The tables are of other seeds with what was chosen, as `htfl-sim compare --select eval`
makes them. `data.pool` keeps the images of grids and tables apart. Where training diverged in one of those, they are
also run with the next lower rate of the grid, and the table has whichever is better on eval. The studies are kept under
`sessions/results/`; finished points are not run again. `htfl-sim report`, `plot` and `compare` take them by name:
`htfl-sim compare 'htm5-*' --sessions-dir sessions/results --by method --select eval`.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import htfl_sim as hs
from benchmarks.page import placed
from checkpoints import POINTS, DiskError, SessionUnreadable
from simulator.base.errors import HtflError, PointsFailed
from simulator.base.nested import Raw
from simulator.results.analysis.comparison import table
from simulator.results.analysis.overview import read_overviews
from simulator.results.analysis.run import SessionData
from simulator.studies.folder import read_points
from simulator.studies.selection import select

PAGE = Path(__file__).parent.parent / "docs" / "results.md"
SEEDS = (1, 2, 3, 4, 5)
_SPLIT: Raw = {"dataset": "fashion_mnist", "partition": "dirichlet", "split": "4:2:4", "pool": "final"}
"""More test images than the papers' 8:1:1 leaves: with a tenth of a small data set means would be too coarse."""


DIVERGED = "not finite"
"""What the reason says where a point failed because its rates were too high for it."""
RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Where the search for a learning rate may go."""
Own = tuple[str, tuple[float, ...]]
"""An option of a method's, and the values of it that are tried."""


@dataclass(frozen=True)
class Comparison:
    """One table: what all its sessions share, its methods, and what each is searched over."""

    name: str
    config: Raw
    methods: Mapping[str, Own | None]
    """Each with the option that is chosen with its learning rate; the first is what the others are compared with."""
    rates: tuple[float, ...]
    """The learning rates that the search begins with, neighbours in RATES."""
    tried: int
    """Rounds of a session in the grid."""
    target: float
    """A mean test accuracy; the table says what reaching it took."""

    @property
    def baseline(self) -> str:
        """What the others are compared with, seed by seed."""
        return next(iter(self.methods))


HTM5 = Comparison(
    name="htm5",
    config={
        "rounds": 100,
        "data": _SPLIT | {"limit": 5_000, "alpha": 0.3},
        "federation": {"clients": 10, "group": "htm5"},
        "training": {"batch_size": 32, "epochs": 1},
    },
    methods={
        "standalone": None,
        "fedavg": None,
        "lg_fedavg": None,
        "fedclassavg": ("rho", (0.1, 1.0)),
        "fedgh": ("eta_theta", (0.01, 0.1)),
        "fedssa": ("t_stable", (2, 10)),
        "fedlora": ("mu", (0.5, 0.9)),
        "fd": ("gamma", (0.1, 1.0)),
        "fedproto": ("lam", (0.1, 1.0)),
        "fedl2g_l": ("eta_s", (0.1, 1.0)),
        "fedl2g_f": ("eta_s", (10.0, 100.0)),
        "fedgen": ("alpha", (0.1, 1.0)),
        "fml": ("alpha", (0.5, 0.9)),
        "fedmrl": ("m_small", (0.1, 1.0)),
        "fedtgp": ("lam", (0.01, 0.1, 1.0, 10.0)),
        "fedkd": None,
    },
    rates=(0.03, 0.1),
    tried=40,
    target=0.8,
)
INCO = Comparison(
    name="inco",
    config={
        "rounds": 60,
        "data": _SPLIT | {"limit": 5_000, "alpha": 0.5},
        "federation": {"clients": 10, "group": "inco_resnet_narrow"},
        "training": {"batch_size": 32, "epochs": 1, "optimizer": "adam"},
        "evaluation": {"model": "aggregated"},
    },
    methods={"standalone": None, "fedavg": None, "heteroavg": None, "inco_avg": None},
    rates=(0.0003, 0.001),
    tried=20,
    target=0.5,
)
COMPARISONS = {each.name: each for each in (HTM5, INCO)}
_OF_ALL: Raw = {"checkpoint": {"every": 10}, "runtime": {"device": "cpu", "workers": 1}}


def shared(comparison: Comparison) -> hs.Config:
    """The settings of all its sessions; methods and learning rates are axes over them."""
    return hs.config(comparison.config | _OF_ALL | {"method": {"name": comparison.baseline}})


def run(comparison: Comparison, seeds: Sequence[int], folder: Path, jobs: int) -> None:
    """Run what has not been run: each method's grid with seed 0, then the method as it was best there with `seeds`.

    Where one of these diverges, the method is run with the next lower rate of its grid, too: one seed cannot tell that
    a rate is too high for others.
    """
    for method in comparison.methods:
        _search(comparison, method, folder, jobs)
        grid = _grid(comparison, method, folder)
        for rate in _downwards(grid):
            found, study = best(grid, rate), _study(comparison, method, folder, rate)
            config = shared(comparison).with_(method=found["method"], training__lr=rate)
            if not _swept(study, config, {"seed": seeds}, jobs):
                break


def _search(comparison: Comparison, method: str, folder: Path, jobs: int) -> None:
    """Run a grid whose best learning rate is neither its least nor its largest."""
    config = shared(comparison).with_(rounds=comparison.tried, method={"name": method}, data__pool="tuning")
    own = comparison.methods[method]
    study = _grid(comparison, method, folder)
    rates = _tried(study) or comparison.rates
    while True:
        over = {"training__lr": rates, "seed": [0]} | ({f"method__{own[0]}": own[1]} if own else {})
        _swept(study, config, over, jobs)
        wider = widened(rates, best(study)["training"]["lr"])
        if wider == rates:
            return
        rates = wider


def _swept(study: Path, config: hs.Config, over: Mapping[str, Sequence[float]], jobs: int) -> bool:
    """Run the points of a study that have not been run; whether training diverged in one of all."""
    try:
        hs.sweep(study, config, over=over, jobs=jobs, extend=True, progress=True)
    except PointsFailed as failed:  # what diverges is not the best, and the others are
        if not all(DIVERGED in reason for reason in failed.reasons.values()):
            raise
        return True
    return any(record["diverged"] for run in _runs(study) for record in run.records)


def _downwards(grid: Path) -> list[float]:
    """The best learning rate of a grid, then those below it, the next first."""
    chosen = best(grid)["training"]["lr"]
    return sorted({rate for rate in map(_rate, _ended(grid)) if rate <= chosen}, reverse=True)


def _tried(study: Path) -> tuple[float, ...]:
    """The learning rates that a search has got to; none where there was none."""
    if not (study / POINTS).exists():
        return ()
    tried = {point.config["training"]["lr"] for point in read_points(study)}
    return tuple(rate for rate in RATES if rate in tried)


def widened(rates: tuple[float, ...], chosen: float) -> tuple[float, ...]:
    """`rates` with the next of RATES on the side where `chosen` is the last; the same where it is not, or none is."""
    first, end = RATES.index(rates[0]), RATES.index(rates[-1]) + 1
    if chosen == rates[0]:
        first = max(0, first - 1)
    if chosen == rates[-1]:
        end = min(len(RATES), end + 1)
    return RATES[first:end]


def best(grid: Path, rate: float | None = None) -> Raw:
    """The settings of the session that is best on eval, of those that came to their end; of all rates, or of one."""
    ended = [run for run in _ended(grid) if rate in (None, _rate(run))]
    (row,) = table(ended, "method", select="eval").rows
    return hs.Study(grid).sessions[Path(row.sessions[0]).name].settings


def text(comparison: Comparison, folder: Path) -> str:
    """The table of the seeds that nothing was chosen on, as Markdown, and under it what was chosen."""
    runs = list(_compared(comparison, folder))
    found = table(runs, "method", comparison.target, comparison.baseline, "eval")
    configs = {run.name: run.config for run in runs}
    chosen = "; ".join(_chosen(comparison, configs[row.sessions[0]]) for row in found.rows)
    return f"{found.to_markdown()}\nChosen on `eval`: {chosen}.\n"


def _compared(comparison: Comparison, folder: Path) -> Iterator[SessionData]:
    """Every method's sessions with the rates at which all came to their end."""
    for method in comparison.methods:
        for rate in _downwards(_grid(comparison, method, folder)):
            study = _study(comparison, method, folder, rate)
            if study.exists() and len(ended := _ended(study)) == len(_runs(study)):
                yield from ended


def _chosen(comparison: Comparison, config: Raw) -> str:
    """`fedgh` 0.1, `eta_theta` 0.01: a method, its learning rate, and its own option."""
    method = config["method"]["name"]
    own = comparison.methods[method]
    option = f", `{own[0]}` {config['method'][own[0]]:g}" if own else ""
    return f"`{method}` {config['training']['lr']:g}{option}"


def _grid(comparison: Comparison, method: str, folder: Path) -> Path:
    return folder / f"grid-{comparison.name}-{method}"


def _study(comparison: Comparison, method: str, folder: Path, rate: float) -> Path:
    return folder / f"{comparison.name}-{method}-lr{rate:g}"


def _runs(study: Path) -> list[SessionData]:
    """The sessions of a study. Raises SessionUnreadable for one that is damaged."""
    runs, faults = read_overviews(select([study.name], study.parent))
    for fault in faults:
        raise SessionUnreadable(fault.error)
    return runs


def _ended(study: Path) -> list[SessionData]:
    return [run for run in _runs(study) if run.state == "finished"]


def _rate(run: SessionData) -> float:
    return float(run.config["training"]["lr"])


def write(names: Iterable[str], folder: Path) -> None:
    """Put the tables into docs/results.md."""
    page = PAGE.read_text("utf-8")
    for name in names:
        page = placed(page, name, text(COMPARISONS[name], folder))
    PAGE.write_text(page, "utf-8")


def main() -> None:
    """Run the studies, and write their tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[*COMPARISONS, "all"], default="all")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--jobs", type=int, default=2, help="points at once, each with one thread")
    parser.add_argument("--folder", type=Path, default=Path("sessions") / "results")
    given = parser.parse_args()
    names = list(COMPARISONS) if "all" in given.names else given.names
    try:
        for name in names:
            run(COMPARISONS[name], given.seeds, given.folder, given.jobs)
        write(names, given.folder)
    except (HtflError, SessionUnreadable, DiskError) as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
