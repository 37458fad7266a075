"""`make results`: the studies of docs/results.md, their first rows on the page, and all numbers as CSV beside it.

Each study is one `htfl-sim tune` command. You can kill it at any moment: the next call continues. All methods have the
same budget, and nothing is chosen on test data. The page has the commands, so each table can be made without this file.
"""

import argparse
import csv
import io
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import htfl_sim as hs
from benchmarks.figures import placed
from checkpoints import DiskError, SessionUnreadable
from htfl_sim.tuning import tuning
from simulator.results.analysis.ledger import NO_SCORE

PAGE = Path(__file__).parent.parent / "docs" / "results.md"
README = PAGE.parents[1] / "README.md"
IN_README = "htm5-dirichlet"
"""The place whose numbers the README shows in short."""
VALUES = PAGE.with_suffix("")
"""The folder of the CSV files."""
LAST = 3
"""Rounds over whose mean trials are scored and tables are made: one round is noisy."""
COLUMNS = ("method", "n", "last", "10 %", "worst client", "traffic", "FLOPs")
MEAN = f"last {LAST} rounds, %"
SHORT = (MEAN, "gain over standalone, pp", "benefit, %", "harm, %", "traffic per round")
"""Titles of the columns that the pages show."""
SHOWN = 6
"""Rows that the pages show: Standalone and the highest means."""
GAINS = ("method", "n", "gain", "p", "benefit", "harm", "worst 10 %")

Row = dict[str, str]

EVERY = (
    "fedavg,fedprox,fednova,scaffold,moon,lg_fedavg,fedclassavg,fedgh,fedssa,fedlora,fd,fedproto,fedtgp,fedl2g_l,"
    "fedl2g_f,fedgen,fml,fedkd,fedmrl,fiarse"
)
"""All methods for clients of different architectures, but for those that need nested ones."""
HTM5 = (
    f"--over method={EVERY} --dataset fashion_mnist --clients 10 --set data.limit=5000 --set data.split=4:2:4 "
    "--set federation.group=htm5 --set training.batch_size=32 --set training.epochs=1"
)
SEARCH = (
    f"--set checkpoint.every=10 --set checkpoint.keep_last=1 --separate --key training.lr --key method --budget 9 "
    f"--halving 3 --last {LAST}"
)
RECENT = (
    "--dataset fashion_mnist --clients 10 --set data.limit=1500 --set data.min_samples=20 --set data.split=4:2:4 "
    "--set data.public=0.1 --set federation.group=htm5 --set training.batch_size=32 --set training.epochs=1"
)
LATER = (
    "--over method=fedavg,ditto,fedper,fedrep,fedre,fedkwaz,pfedmoe,pfedafm,pfedes,fedapen,fedmd,feddf "
    f"{RECENT} --set method.public_epochs=1 --set method.private_epochs=1 --set method.server_steps=20 "
    "--set method.server_batch=32 --space method.server_steps=10,20,40 --space method.every=2,5,10"
)
"""The methods of later tables. FedMD's first round has as many epochs as all others, not 45. FedDF's server takes 20
steps of 32 samples for each group in a round, not 200 of 128, which would be more than all clients do.
"""
FEDKTL = f"--over method=fedktl --no-baseline {RECENT} --set method.generator_file=generator.safetensors"
"""With the generator that docs/methods/fedktl.md trains on handwritten digits. This study comes first, so that a
missing file is said at once, not after an hour.
"""
DIRICHLET = "--set data.partition=dirichlet --set data.alpha=0.3"
CLASSES = "--set data.partition=pathological --set data.classes_per_client=2"
INCO = (
    "--dataset fashion_mnist --clients 10 --set data.limit=2500 --set data.split=4:2:4 --set data.partition=dirichlet "
    "--set data.alpha=0.5 --set federation.group=inco_resnet_narrow --set training.batch_size=32 "
    "--set training.epochs=1 --set training.optimizer=adam --set evaluation.model=aggregated "
    "--space training.lr=log:0.0003:0.03"
)
DOMAINS = (
    "--over method=fedavg,lg_fedavg,fedgh,fedssa,fd,fedproto,fedtgp,fedgen,fml,fedkd --clients 10 "
    "--set data.split=4:2:4 --set data.partition=iid --set data.domains_per_client=1 --set federation.group=htm5 "
    "--set training.batch_size=32 --set training.epochs=1"
)

ROLES = (
    "--over method=fedavg,lg_fedavg,fedgh,fedssa,fd,fedproto,fml,fedkd --dataset shakespeare --clients 10 "
    "--set data.partition=natural --set data.min_samples=100 --set data.split=4:2:4 --set federation.group=small_text "
    "--set training.batch_size=16 --set training.epochs=1 --set training.optimizer=adam "
    "--space training.lr=log:0.0003:0.03"
)
VOWELS = (
    "--over method=fedavg,lg_fedavg,fedgh,fedssa,fd,fedproto,fedtgp,fedgen,fml,fedkd --dataset japanese_vowels "
    "--clients 8 --set data.partition=dirichlet --set data.alpha=0.5 --set data.min_samples=20 "
    '--set data.split=4:2:4 --set \'federation.group=["harcnn1_s1", "harcnn2_s1", "harcnn1_s2", "harcnn1_s3"]\' '
    "--set training.batch_size=16 --set training.epochs=1"
)


@dataclass(frozen=True)
class Result:
    """One place of the page: its studies with their arguments of `htfl-sim tune`, and what the rows of tables are."""

    name: str
    studies: dict[str, str]
    by: tuple[str, ...] = ("method",)

    def commands(self) -> list[str]:
        """The commands that make the studies and their tables."""
        names = " ".join(self.studies)
        by = " ".join(f"--by {each}" for each in self.by)
        return [
            *(f"htfl-sim tune {name} {arguments}" for name, arguments in self.studies.items()),
            f"htfl-sim compare {names} {by} --gain --last {LAST} --test t --holm",
            f"htfl-sim compare {names} {by} --last {LAST} {_options(self.columns(COLUMNS))}",
        ]

    def columns(self, names: Sequence[str]) -> list[str]:
        """These columns, with all axes."""
        return [*self.by, *names[1:]]


RESULTS = {
    each.name: each
    for each in (
        Result("htm5-dirichlet", {"htm5-dirichlet": f"{HTM5} {DIRICHLET} {SEARCH} --rounds 30 --seeds 0..4"}),
        Result("htm5-classes", {"htm5-classes": f"{HTM5} {CLASSES} {SEARCH} --rounds 20 --seeds 0..2"}),
        Result(
            "recent",
            {
                "recent-fedktl": f"{FEDKTL} {DIRICHLET} {SEARCH} --rounds 20 --seeds 0..2",
                "recent": f"{LATER} {DIRICHLET} {SEARCH} --rounds 20 --seeds 0..2",
            },
        ),
        Result(
            "inco",
            {
                "inco": f"--over method=fedavg,heteroavg,inco_avg --set method.variant=paper {INCO} {SEARCH} "
                "--rounds 15 --seeds 0..2",
                "inco-code": f"--over method=inco_avg --no-baseline --set method.variant=released_code {INCO} {SEARCH} "
                "--rounds 15 --seeds 0..2",
            },
            ("method", "method.variant"),
        ),
        Result(
            "domains-digits",
            {"domains-digits": f"{DOMAINS} --dataset digits_domains {SEARCH} --rounds 30 --seeds 0..4"},
        ),
        Result(
            "domains-fashion",
            {
                "domains-fashion": f"{DOMAINS} --dataset fashion_mnist_domains --set data.limit=2500 {SEARCH} "
                "--rounds 30 --seeds 0..2"
            },
        ),
        Result("roles", {"roles": f"{ROLES} {SEARCH} --rounds 20 --seeds 0..2"}),
        Result(
            "vowels", {"vowels": f"{VOWELS} {SEARCH.replace('--separate ', '')} --rounds 20 --seeds 0..2"}
        ),
    )
}


def run(result: Result, jobs: int, sessions: Path) -> None:
    """Run what has not been run of the studies of one place. Raises SystemExit with the exit code of a failure."""
    program = str(Path(sys.executable).with_name("htfl-sim"))
    for name, arguments in result.studies.items():
        asked = [] if (sessions / name).exists() else shlex.split(arguments)
        where = ["--jobs", str(jobs), "--workers", "1", "--device", "cpu", "--sessions-dir", str(sessions)]
        if code := subprocess.run([program, "tune", name, *asked, *where], check=False).returncode:
            raise SystemExit(code)


def text(result: Result, sessions: Path) -> str:
    """The commands, tables, and notes of one place, as Markdown."""
    names = list(result.studies)
    columns = result.columns(GAINS)
    gains = hs.gains(
        names, result.by, last=LAST, test="t", correct=True, columns=columns, sessions_dir=sessions
    )
    table = hs.compare(names, result.by, last=LAST, columns=result.columns(COLUMNS), sessions_dir=sessions)
    tuned = [tuning(name, sessions).to_markdown() for name in names]
    commands = "\n".join(["```text", *result.commands(), "```"])
    return "\n\n".join([commands, gains.to_markdown(), table.to_markdown(), *tuned])


def values(result: Result, sessions: Path) -> str:
    """The numbers of every seed as CSV: accuracies 0…1, traffic in bytes, both means over rounds."""
    by = (*result.by, "seed")
    columns = [*by, *COLUMNS[1:]]
    table = hs.compare(list(result.studies), by, last=LAST, columns=columns, sessions_dir=sessions)
    kept = [*by, "diverged", "last", "10 % quantile", "worst", "traffic per round", "FLOPs per round"]
    return _csv([dict(table.fields(row)) for row in table.rows], kept)


def methods(tables: str, by: Sequence[str] = ("method",)) -> list[Row]:
    """Gains, means, and costs of a place's tables, one row per method: Standalone first, and then the highest mean."""
    merged: dict[tuple[str, ...], Row] = {}
    for row in _rows(tables):
        if "trials" not in row:
            merged.setdefault(tuple(row[axis] for axis in by), {}).update(row)
    ranked = sorted(merged.values(), key=lambda row: -_mean(row[MEAN]))
    return sorted(ranked, key=lambda row: row["method"] != "standalone")


def short(rows: Sequence[Row], by: Sequence[str] = ("method",)) -> str:
    """The first rows, with the columns that a page shows."""
    titles = (*by, *SHORT)
    lines = [f"| {' | '.join(row.get(title, '–') for title in titles)} |" for row in rows[:SHOWN]]
    return "\n".join([f"| {' | '.join(titles)} |", "|---" * len(titles) + "|", *lines])


def _rows(tables: str) -> Iterator[Row]:
    """The rows of all Markdown tables in a text."""
    titles: list[str] = []
    for line in tables.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| method |"):
            titles = cells
        elif line.startswith("| ") and "---" not in line:
            yield dict(zip(titles, cells, strict=True))


def _csv(rows: Sequence[Mapping[str, Any]], titles: Sequence[str] = ()) -> str:
    """Rows as CSV, with these columns, or those of all rows."""
    text, every = io.StringIO(), {title: None for row in rows for title in row}
    writer = csv.DictWriter(text, titles or list(every), extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _mean(cell: str) -> float:
    """The mean in a cell; below all others for a method that has no score."""
    return -1.0 if cell.startswith(NO_SCORE) else float(cell.partition(" ")[0])


def publish(result: Result, tables: str) -> None:
    """Write a place's first rows on the pages; beside them all methods, the searches, the commands, and the notes."""
    rows = methods(tables, result.by)
    PAGE.write_text(placed(PAGE.read_text("utf-8"), result.name, short(rows, result.by)), "utf-8")
    if result.name == IN_README:
        README.write_text(placed(README.read_text("utf-8"), result.name, short(rows)), "utf-8")
    VALUES.mkdir(exist_ok=True)
    searches = [row for row in _rows(tables) if "trials" in row]
    rest = [line.removeprefix("> ") for line in tables.splitlines() if not line.startswith(("|", "```"))]
    notes = "\n".join(line for line in dict.fromkeys(rest) if line)
    for end, text in (
        ("-methods.csv", _csv(rows)),
        ("-searches.csv", _csv(searches)),
        (".txt", f"{notes}\n"),
    ):
        (VALUES / f"{result.name}{end}").write_text(text, "utf-8")


def write(result: Result, sessions: Path) -> None:
    """Publish the tables of one place, and the values of every seed."""
    publish(result, text(result, sessions))
    (VALUES / f"{result.name}.csv").write_text(values(result, sessions), "utf-8")


def _options(columns: Sequence[str]) -> str:
    return " ".join(f"--columns {shlex.quote(each)}" for each in columns)


def main() -> None:
    """Run the studies, and write their tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[*RESULTS, "all"], default="all")
    parser.add_argument("--jobs", type=int, default=2, help="points at once, each with one thread")
    parser.add_argument("--folder", type=Path, default=Path("sessions") / "results")
    parser.add_argument("--tables-only", action="store_true", help="run nothing")
    given = parser.parse_args()
    for name in RESULTS if "all" in given.names else given.names:
        try:
            if not given.tables_only:
                run(RESULTS[name], given.jobs, given.folder.absolute())
            write(RESULTS[name], given.folder.absolute())
        except (hs.HtflError, SessionUnreadable, DiskError) as error:
            raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
