"""`make results`: the tables of docs/results.md, from studies that this command sweeps and that it can be killed in.

Each method has its own learning rate, the one whose accuracy on the clients' eval parts is best in a study of seed 0
over all methods and rates. The table is of other seeds at those rates, as `htfl-sim compare --select eval` makes it.
The studies are kept under `sessions/results/`; finished points are not run again. `htfl-sim report`, `plot` and
`compare` take them by name, as every study: `htfl-sim compare 'htm5-lr*' --sessions-dir sessions/results --by method`.
"""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import htfl_sim as hs
from benchmarks.page import placed
from checkpoints import DiskError, SessionUnreadable
from simulator.analysis.comparison import table
from simulator.analysis.glance import glances
from simulator.analysis.table import Table
from simulator.errors import HtflError
from simulator.nested import Raw
from simulator.studies.selection import select

PAGE = Path(__file__).parent.parent / "docs" / "results.md"
SEEDS = (1, 2, 3, 4, 5)
_SPLIT: Raw = {"dataset": "fashion_mnist", "partition": "dirichlet", "split": "4:2:4"}
"""More test images than the papers' 8:1:1 leaves: with a tenth of a small data set means would be too coarse."""


@dataclass(frozen=True)
class Comparison:
    """One table: what all its sessions share, its methods, the first of which is the baseline, and learning rates."""

    name: str
    config: Raw
    methods: tuple[str, ...]
    rates: tuple[float, ...]
    target: float
    """A mean test accuracy; the table says what reaching it took."""

    @property
    def baseline(self) -> str:
        """What the others are compared with, seed by seed."""
        return self.methods[0]


HTM5 = Comparison(
    name="htm5",
    config={
        "rounds": 40,
        "data": _SPLIT | {"limit": 5_000, "alpha": 0.3},
        "federation": {"clients": 10, "group": "htm5"},
        "training": {"batch_size": 32, "epochs": 1},
    },
    methods=("standalone", "lg_fedavg", "fedgh", "fedssa", "fedlora", "fd", "fedproto", "fedtgp"),
    rates=(0.03, 0.1),
    target=0.8,
)
INCO = Comparison(
    name="inco",
    config={
        "rounds": 20,
        "data": _SPLIT | {"limit": 5_000, "alpha": 0.5},
        "federation": {"clients": 10, "group": "inco_resnet_narrow"},
        "training": {"batch_size": 32, "epochs": 1, "optimizer": "adam"},
        "evaluation": {"model": "aggregated"},
    },
    methods=("fedavg", "heteroavg", "inco_avg"),
    rates=(0.0003, 0.001),
    target=0.5,
)
COMPARISONS = {each.name: each for each in (HTM5, INCO)}
_OF_ALL: Raw = {"checkpoint": {"every": 10}, "runtime": {"device": "cpu", "workers": 1}}


def shared(comparison: Comparison) -> hs.Config:
    """The settings of all its sessions; methods and learning rates are axes over them."""
    return hs.config(comparison.config | _OF_ALL | {"method": {"name": comparison.baseline}})


def run(comparison: Comparison, seeds: Sequence[int], folder: Path, jobs: int) -> None:
    """Run what has not been run: all rates with seed 0, then every method at its own rate with `seeds`."""
    config = shared(comparison)
    grid = hs.sweep(
        _grid(comparison, folder),
        config,
        over={"method": comparison.methods, "training__lr": comparison.rates, "seed": [0]},
        jobs=jobs,
        extend=True,
        progress=True,
    )
    for rate, methods in chosen(comparison, grid).items():
        hs.sweep(
            folder / f"{comparison.name}-lr{rate:g}",
            config.with_(training__lr=rate),
            over={"seed": seeds, "method": methods},
            jobs=jobs,
            extend=True,
            progress=True,
        )


def chosen(comparison: Comparison, grid: hs.Study) -> dict[float, list[str]]:
    """The comparison's methods for which each learning rate is best on eval."""
    found: dict[float, list[str]] = {}
    for row in grid.table(by="method", select="eval").rows:
        rate = grid.sessions[Path(row.sessions[0]).name].settings["training"]["lr"]
        if row.key[0] in comparison.methods:
            found.setdefault(rate, []).append(str(row.key[0]))
    return dict(sorted(found.items()))


def compared(comparison: Comparison, folder: Path) -> Table:
    """The table of the seeds that were not chosen on."""
    runs, faults = glances(select([f"{comparison.name}-lr*"], folder))
    for fault in faults:
        raise SessionUnreadable(fault.error)
    place = {method: number for number, method in enumerate(comparison.methods)}
    runs = sorted((run for run in runs if run.method in place), key=lambda run: place[run.method])
    return table(runs, "method", comparison.target, comparison.baseline, "eval")


def text(comparison: Comparison, folder: Path) -> str:
    """The table as Markdown, and under it the learning rates."""
    rates = "; ".join(
        f"{rate:g} for {', '.join(f'`{method}`' for method in methods)}"
        for rate, methods in chosen(comparison, hs.Study(_grid(comparison, folder))).items()
    )
    return f"{compared(comparison, folder).to_markdown()}\nLearning rates chosen on `eval`: {rates}.\n"


def _grid(comparison: Comparison, folder: Path) -> Path:
    return folder / f"{comparison.name}-grid"


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
