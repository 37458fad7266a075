"""`make bench WHAT=storage`: what keeping a session costs, and how soon one answers.

Setting: the sizes of HtM5 on Fashion-MNIST, 10 clients, two workers of one thread.
"""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

import checkpoints
import presets
import simulator
from benchmarks.figures import Sheet
from benchmarks.plain import seconds, trained
from checkpoints import Retention, Store
from simulator.base import rng
from simulator.base.nested import merged
from simulator.config import Config
from simulator.data import datasets
from simulator.engine.builder import build

COMMAND = Path(sys.executable).with_name("htfl-sim")
CLIENTS, WORKERS = 10, 2
SESSIONS, ROUNDS = 200, 500
PAUSES = 8
IMAGES = 14_000
MB = 1_000_000


def main() -> None:
    console = Console()
    console.print(f"data: {_images()['dataset']}")
    for table in (cost_by_change, share_of_a_round, many_sessions, pause_latency):
        console.print(table().shown())


# A checkpoint by what changed


def cost_by_change() -> Sheet:
    """Commits in which some of the clients, and the server, changed; each the median of several."""
    state = build(_config(), simulator.data_folder(None)).engine.initial_state()
    title = "A checkpoint of HtM5, FedLoRA, by the clients that changed"
    table = Sheet(title, ("clients", "MB", "ms", "MB/s", "CPU ms", "waits for the disk"))
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.create(Path(folder) / "s", {}, Retention(last=2)) as store,
    ):
        named = {"server": state.server} | {
            f"client/{client}": tensors for client, tensors in enumerate(state.clients)
        }
        refs = {name: store.put(tensors) for name, tensors in named.items()}
        round = 0
        for changed in (0, 1, 2, 5, 10):
            walls, processor, size = [], [], 0
            for _ in range(7):
                round += 1
                some = ["server", *(f"client/{client}" for client in range(changed))] if changed else []
                fresh = {
                    name: {
                        key: tensor + round if tensor.is_floating_point() else tensor
                        for key, tensor in named[name].items()
                    }
                    for name in some
                }
                cpu, began = time.process_time(), time.perf_counter()
                refs |= {name: store.put(tensors) for name, tensors in fresh.items()}
                store.commit(round, refs, {"round": round, "accuracy": {"mean": 0.5}}, [], [])
                walls.append(time.perf_counter() - began)
                processor.append(time.process_time() - cpu)
                size = sum(refs[name].size for name in fresh)
            wall, cpu = statistics.median(walls), statistics.median(processor)
            row = "{changed:.0%}|{size:.1f}|{wall:.1f}|{speed:.0f}|{cpu:.1f}|{waits:.0%}"
            found = {"size": size / MB, "wall": wall * 1e3, "speed": size / MB / wall, "cpu": cpu * 1e3}
            table.fill(row, changed=changed / CLIENTS, waits=max(0.0, 1 - cpu / wall), **found)
    return table


# Its share of a round


def share_of_a_round() -> Sheet:
    """What of a round on all of Fashion-MNIST is neither training nor evaluation; `make bench` has more methods."""
    table = Sheet(
        "The checkpoint's share of a round of HtM5", ("method", "s/round", "checkpoint ms", "share")
    )
    if _images()["dataset"] != "fashion_mnist":
        table.title += " (Fashion-MNIST is not here: htfl-sim data fetch fashion_mnist)"
        return table
    with tempfile.TemporaryDirectory() as folder:
        records = trained("fedlora", 3, Path(folder) / "s")
    wall = sum(record["wall"] for record in records)
    inside = sum(record["timing"]["seconds"] for record in records)
    each = (wall - inside) / len(records)
    table.add("fedlora", f"{wall / len(records):.2f}", f"{each * 1e3:.0f}", f"{1 - inside / wall:.1%}")
    return table


# Many sessions


def many_sessions() -> Sheet:
    """The commands and the calls behind them, on as many finished sessions as a study leaves."""
    table = Sheet(f"{SESSIONS} sessions of {ROUNDS} rounds", ("what", "first", "again"))
    with tempfile.TemporaryDirectory() as folder:
        _study(Path(folder))
        found = checkpoints.sessions(Path(folder))
        assert len(found) == SESSIONS
        opened, where = checkpoints.SessionReader, ("--sessions-dir", folder)

        def command(*words: str) -> Callable[[], object]:
            return partial(subprocess.run, [COMMAND, *words], check=True, capture_output=True)

        for what, act in {
            "`htfl-sim sessions`": command("sessions", *where),
            "`htfl-sim --help`, which opens none": command("--help"),
            "open all, newest checkpoint of each": lambda: [opened(each).manifest() for each in found],
            "open all, every record of each": lambda: [opened(each).records() for each in found],
            "`htfl-sim show` of one": command("show", found[0].name, *where),
        }.items():
            first, *again = [seconds(act) for _ in range(4)]
            table.add(what, f"{first:.2f} s", f"{statistics.median(again):.2f} s")
    return table


def _study(folder: Path) -> None:
    """One real round's record, repeated; every session with its own ledger, three checkpoints and an ended owner."""
    small = merged(
        _config().to_json(),
        {"rounds": 1, "data": {"dataset": "digits", "size": None}, "federation": {"group": "tiny"}},
    )
    config = Config.read(small)
    with simulator.Session.create(config, folder / "pattern", simulator.data_folder(None)) as session:
        session.run()
    pattern = checkpoints.SessionReader(folder / "pattern")
    document = {
        key: pattern.document[key]
        for key in ("config", "parent", "environment", "data_fingerprint", "plugin")
    }
    (record,), manifest = pattern.records(), pattern.manifest()
    lines = [{**record, "round": round} for round in range(1, ROUNDS + 1)]
    ledger = checkpoints.ledger_text(lines[:-3])
    for number in range(SESSIONS):
        with Store.create(folder / f"s{number:03}", document, Retention(last=3), ledger=ledger) as store:
            for ref in set(manifest.states.values()):
                store.import_object(folder / "pattern", ref)
            for line in lines[-3:]:
                store.commit(line["round"], manifest.states, line, manifest.history, [])
            store.close("finished")
    shutil.rmtree(folder / "pattern")


# From pause to paused


def pause_latency() -> Sheet:
    """A real `htfl-sim run`, paused at keyed moments of its rounds by a command left in its mailbox."""
    title = "From `pause` to paused, HtM5, FedLoRA"
    table = Sheet(title, ("pauses", "median", "longest", "a client trains (mean)", "a round"))
    draw = rng.numpy_stream(0, "benchmarks/pause")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session = folder / "s"
        run = _start_run(folder)
        try:
            _await(
                lambda: (
                    checkpoints.is_session(session) and len(checkpoints.SessionReader(session).rounds()) >= 2
                ),
                run,
            )
            reader = checkpoints.SessionReader(session)
            train = [record["timing"]["train"] for record in reader.records()[1:]]
            round = statistics.median(train)
            waits = []
            for _ in range(PAUSES):
                time.sleep(float(draw.uniform(0.2, 1.2)) * round)
                began = time.perf_counter()
                command = checkpoints.post(session, "pause")
                _await(lambda id=command.id: checkpoints.answer(session, id) is not None, run)  # type: ignore[misc]
                waits.append(time.perf_counter() - began)
                checkpoints.post(session, "resume")
        finally:
            run.kill()
            run.wait()
    seconds = (statistics.median(waits), max(waits), round * WORKERS / CLIENTS, round)
    table.add(str(len(waits)), *(f"{each:.2f} s" for each in seconds))
    return table


def _start_run(folder: Path) -> subprocess.Popen[bytes]:
    settings = [
        f"{section}.{key}={json.dumps(value)}"
        for section, entries in _settings().items()
        for key, value in entries.items()
    ]
    options = [part for setting in settings for part in ("--set", setting)]
    return subprocess.Popen(
        [COMMAND, "run", "--preset", "fedlora_htm5", *options, "--session", "s", "--sessions-dir", folder],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _await(true: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while not true():
        assert process.poll() is None, "the run ended"
        time.sleep(0.005)


# What the tables share


def _images() -> dict[str, Any]:
    """A part of Fashion-MNIST if it is here, else digits scaled to its size: the models are the same."""
    if datasets.get("fashion_mnist").is_present(simulator.data_folder(None)):
        return {"dataset": "fashion_mnist", "limit": IMAGES}
    return {"dataset": "digits", "size": 28}


def _settings() -> dict[str, dict[str, Any]]:
    return {
        "data": _images(),
        "federation": {"clients": CLIENTS, "participation": 1.0},
        "training": {"batch_size": 64, "epochs": 1},
        "runtime": {"device": "cpu", "workers": WORKERS},
    }


def _config() -> Config:
    return Config.read(merged(presets.load("fedlora_htm5").config, _settings()))


if __name__ == "__main__":
    main()
