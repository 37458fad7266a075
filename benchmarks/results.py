"""`make results`: the tables of docs/results.md, from sessions that this command runs and that it can be stopped in.

Finished sessions are kept under `sessions/results/` and not run again; a stopped one goes on where it was.
"""

import argparse
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import checkpoints
import simulator
from simulator.config import Config
from simulator.nested import Raw, merged, with_method
from simulator.sessions.signals import Signals

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Study:
    """One table: shared settings, and each row's own."""

    name: str
    title: str
    shared: Raw
    rows: dict[str, Raw]


HTM5 = Study(
    name="htm5",
    title="HtM5, Fashion-MNIST limited to 14,000 images, Dirichlet(0.1), 20 clients, 20 rounds",
    shared={
        "rounds": 20,
        "data": {"dataset": "fashion_mnist", "limit": 14_000, "partition": "dirichlet", "alpha": 0.1},
        "federation": {"clients": 20, "group": "htm5"},
        "training": {"batch_size": 32, "epochs": 1},
        "checkpoint": {"every": 5},
    },
    rows={
        "standalone": {},
        "fedavg": {},
        "fedprox": {},
        "fednova": {},
        "scaffold": {},
        "moon": {},
        "lg_fedavg": {},
        "fedclassavg": {},
        "fedgh": {},
        "fedssa": {},
        "fedlora": {},
        "fd": {},
        "fedproto": {},
        "fedl2g_l": {},
        "fedl2g_f": {},
        "fml": {},
        "fedkd": {},
    },
)
INCO = Study(
    name="inco",
    title="Narrow ResNet10 … 26, Fashion-MNIST limited to 4,000 images, Dirichlet(0.5), global test set, 15 rounds",
    shared={
        "rounds": 15,
        "data": {
            "dataset": "fashion_mnist",
            "limit": 4_000,
            "partition": "dirichlet",
            "alpha": 0.5,
            "split": "global",
        },
        "federation": {"clients": 10, "group": "inco_resnet_narrow"},
        "training": {"batch_size": 32, "epochs": 1, "optimizer": "adam", "lr": 0.001},
        "evaluation": {"model": "aggregated"},
        "checkpoint": {"every": 5},
    },
    rows={"fedavg": {}, "heteroavg": {}, "inco_avg": {}},
)
STUDIES = {study.name: study for study in (HTM5, INCO)}


def config(study: Study, method: str, seed: int, workers: int | None) -> Config:
    """The configuration of one cell."""
    raw = merged(with_method(study.shared, method), study.rows[method])
    return Config.read(merged(raw, {"seed": seed, "runtime": {"device": "cpu", "workers": workers}}))


def run(study: Study, seeds: Iterable[int], workers: int | None, folder: Path, signals: Signals) -> None:
    """Run what of the study has not been run; returns early when a signal asks for it."""
    for seed in seeds:
        for method in study.rows:
            session = folder / study.name / f"{method}-{seed}"
            if session.exists() and checkpoints.SessionReader(session).state() == "finished":
                continue
            owner = (
                simulator.Session.resume(session, simulator.data_folder(None))
                if session.exists()
                else simulator.Session.create(
                    config(study, method, seed, workers), session, simulator.data_folder(None)
                )
            )
            with owner:
                owner.run(stop=lambda: signals.stop)
                accuracy = owner.record["accuracy"] if owner.record else {}
            print(f"{session.name:<16} round {owner.round:>3}  {accuracy.get('mean', 0):.4f}", flush=True)
            if signals.stop:
                return


def table(study: Study, folder: Path) -> str:
    """The study as a Markdown table: mean ± standard deviation over the seeds, accuracies in percent."""
    lines = [
        "| method | best | last | up, KiB per client and round | down | GFLOP per round |",
        "|---|---|---|---|---|---|",
    ]
    for method in study.rows:
        ledgers = [
            checkpoints.SessionReader(folder / study.name / f"{method}-{seed}").records() for seed in SEEDS
        ]
        lasts = [ledger[-1] for ledger in ledgers]
        lines.append(
            f"| `{method}` | {_percent(last['accuracy']['best_mean'] for last in lasts)} "
            f"| {_percent(last['accuracy']['mean'] for last in lasts)} "
            f"| {_traffic(ledgers, 'up')} | {_traffic(ledgers, 'down')} "
            f"| {statistics.fmean(r['flops']['total'] for ledger in ledgers for r in ledger) / 1e9:.0f} |"
        )
    return "\n".join(lines)


def _percent(values: Iterable[float]) -> str:
    values = [100 * value for value in values]
    return f"{statistics.fmean(values):.2f} ± {statistics.stdev(values):.2f}"


def _traffic(ledgers: list[list[dict[str, Any]]], direction: str) -> str:
    rounds = [record for ledger in ledgers for record in ledger]
    sent = sum(record["bytes"][direction] for record in rounds)
    return f"{sent / sum(len(record['participants']) for record in rounds) / 1024:,.2f}"


def main() -> None:
    """Run a study and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=SEEDS, help="run only these; the table needs all"
    )
    parser.add_argument("--workers", type=int)
    parser.add_argument("--sessions", type=Path, default=Path("sessions/results"))
    arguments = parser.parse_args()
    study = STUDIES[arguments.study]
    with Signals() as signals:
        run(study, arguments.seeds, arguments.workers, arguments.sessions, signals)
    if signals.stop:
        raise SystemExit(signals.exit_code)
    if set(arguments.seeds) == set(SEEDS):
        print(f"\n### {study.title}\n\n{table(study, arguments.sessions)}")


if __name__ == "__main__":
    main()
