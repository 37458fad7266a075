"""What the commands and programs of the pages find when they run here: small data, small sessions, no cluster."""

import json
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from PIL import Image

import htfl_sim as hs
from simulator.data import datasets
from simulator.data.samples import ImageSet, joined
from simulator.models import generators
from simulator.models.generators import Design
from simulator.studies.executor import Ended, Here
from simulator.studies.point import opened
from simulator.studies.study import Point
from tests.cli.conftest import call

SMALL = (
    "--set=federation.group=tiny",
    "--set=data.limit=300",
    "--clients=4",
    "--set=federation.participation=0.5",
    "--workers=1",
    "--rounds=2",
)
"""What makes a run of any method and data set take a blink."""
GROUP, LIMIT, CLIENTS, *_ = SMALL
SESSIONS = ("NAME", "mu07", "mine", "demo", "t3")
"""Of the tests' own making: a finished run under three names, one that stopped after round 8 of 40, a study."""


def small(words: list[str]) -> list[str]:
    """What makes a command's runs small, beside the models and the division of the data that it names itself."""
    line = " ".join(words)
    own_models = {GROUP} if "--model" in words or "federation.group" in line else set()
    own_division = {LIMIT, CLIENTS} if "data.indices" in line else set()
    return [each for each in SMALL if each not in own_models | own_division]


def make_sessions(folder: Path) -> None:
    """SESSIONS, in a sessions folder."""
    run = (
        *SMALL,
        "--rounds=12",
        "--set=cka.every=4",
        "--set=checkpoint.every=2",
        "--set=checkpoint.keep_last=8",
    )
    said = call("run", *run, "--session=mu07", "--sessions-dir", folder)
    assert said.code == 0, said.err
    for name in ("NAME", "mine"):
        shutil.copytree(folder / "mu07", folder / name)
    small = {"federation__group": "tiny", "data__limit": 300, "runtime__workers": 1}
    hs.run(hs.preset(clients=4, rounds=40, **small), folder / "demo", until=8).close()
    study = ("--over=method=standalone,fedgh", "--over=seed=0,1", "--rounds=6")
    with points_here():
        said = call("sweep", "t3", *study, *SMALL[:2], "--sessions-dir", folder)
    assert said.code == 0, said.err


def make_files(folder: Path) -> None:
    """Images of a user's own, with domains and without, divisions of a data set of `noise`, and a generator."""
    for number, name in enumerate(("one.json", "other.json")):
        clients = [{"train": [number, 5 + number], "test": [20, 21]}, {"train": [1, 2], "test": [22, 23]}]
        (folder / name).write_text(json.dumps(clients), encoding="utf-8")
    rows = [f"{number % 50},{'a' if number % 3 else 'b'},{number % 2},{number % 4}" for number in range(120)]
    (folder / "my.csv").write_text("\n".join(["age,town,label,user", *rows]) + "\n", encoding="utf-8")
    texts = [f"{'good' if number % 2 else 'bad'} film {number},{number % 2}" for number in range(300)]
    (folder / "reviews.csv").write_text("\n".join(["review,label", *texts]) + "\n", encoding="utf-8")
    for place in ("my_images", "office/photo", "office/sketch"):
        for name in ("mug", "pen"):
            (folder / place / name).mkdir(parents=True)
            for number in range(150):
                Image.new("L", (32, 32), number).save(folder / place / name / f"{number}.png")
    design = Design(noise=3, latent=2, layers=1, width=1, size=4, channels=3)
    generator = generators.drawn(design, torch.Generator())
    generators.save(generator, design, folder / "generator.safetensors")
    torch.save(generator.state_dict(), folder / "generator.pt")


@contextmanager
def small_data() -> Iterator[None]:
    """Within it every data set by name is there, of its shape and classes, and has a few images of noise."""
    made: dict[str, ImageSet] = {}

    def load(self: datasets.Dataset, folder: Path) -> ImageSet:
        if self.name not in made:
            made[self.name] = noise(self)
        return made[self.name]

    with ExitStack() as patches:
        for name in datasets.names():
            kind = type(datasets.get(name))
            if not name.startswith("digits"):
                patches.enter_context(mock.patch.object(kind, "load", load))
                patches.enter_context(mock.patch.object(kind, "is_present", lambda self, folder: True))
        yield


def noise(dataset: datasets.Dataset) -> ImageSet:
    """Some 2,000 images, a quarter of them for test."""
    channels, height, width = dataset.spec.shape
    labels = np.arange(max(2000, 12 * dataset.classes)) % dataset.classes
    images = np.random.default_rng(0).integers(0, 256, (len(labels), height, width, channels), dtype=np.uint8)
    upto = 3 * len(labels) // 4
    classes = tuple(f"class {number}" for number in range(dataset.classes))
    return joined((images[:upto], labels[:upto]), (images[upto:], labels[upto:]), classes)


@contextmanager
def points_here() -> Iterator[None]:
    """Within it sweeps run their points in this process, one after the other."""

    def start(here: Here, point: Point) -> None:
        with opened(here.folder, point, here._launch) as session:
            session.run()
        here.running[point.name] = mock.Mock(ended=lambda: Ended(0, ""))

    with mock.patch.object(Here, "start", start):
        yield


class Live:
    """Sessions that run on a thread of this process, half a second a round, to be steered."""

    def __init__(self) -> None:
        self._runs: list[tuple[hs.Run, threading.Thread]] = []

    def start(self, folder: Path) -> None:
        """Go on with a session, unless it is running already."""
        run = hs.resume(folder)
        if run.state not in ("running", "pausing", "paused"):
            if run.state == "finished":
                run.extend(run.round + 40)
            begun = threading.Event()

            def told(record: dict[str, Any]) -> None:
                begun.set()
                time.sleep(0.5)

            thread = threading.Thread(target=run.run, kwargs={"progress": told}, daemon=True)
            thread.start()
            assert begun.wait(600)
            self._runs.append((run, thread))

    def stop(self) -> None:
        """End all of them."""
        for run, thread in self._runs:
            if thread.is_alive():
                call("stop", run.path)
            thread.join(600)
        self._runs.clear()
