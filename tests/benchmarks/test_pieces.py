"""A training step's time, piece by piece."""

import itertools
import time
from collections.abc import Iterator

import pytest

from benchmarks import pieces
from simulator.runners import local
from simulator.training.client import LocalClient
from simulator.training.optimizer import Optimizer
from tests import federations

SEQUENTIAL = {"runner": "sequential"}


def test_what_no_piece_accounts_for_is_bookkeeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock ticks once for every look at it. A step: look, (look, look) around the forward pass, look."""
    ticks = itertools.count()
    monkeypatch.setattr(time, "thread_time", lambda: float(next(ticks)))
    watch = pieces.Stopwatch()
    forward = watch.of("forward", lambda: None)

    def train(prepared: object) -> Iterator[None]:
        for _ in range(5):
            forward()
            yield

    forward()  # nobody trains: not counted
    for _ in watch.trained(train)(None):
        pass
    assert watch.steps == 5
    assert watch.seconds["forward"] == 5
    assert watch.whole == 5 * 3 + 1  # and a last look for a step that there is not
    assert watch.seconds["bookkeeping"] == 11


def test_every_piece_of_every_step_is_timed_and_no_bit_is_another() -> None:
    config = federations.config("fedlora", training={"batch_size": 1_000, "epochs": 5}, runtime=SEQUENTIAL)
    plain = federations.run(federations.built(config).engine, rounds=1)
    with pieces.stopped() as watch:
        timed = federations.run(federations.built(config).engine, rounds=1)
    assert federations.state_bits(timed) == federations.state_bits(plain)
    assert watch.steps == 3 * 2 * 5  # participants, phases, epochs of one batch
    assert all(seconds > 0 for seconds in watch.seconds.values())


def test_the_stopwatches_are_taken_away_again() -> None:
    doors = [(local, "train"), (LocalClient, "batches"), (Optimizer, "step"), (Optimizer, "zero_grad")]
    before = [getattr(*door) for door in doors]
    with pieces.stopped():
        assert all(getattr(*door) is not each for door, each in zip(doors, before, strict=True))
    assert [getattr(*door) for door in doors] == before


def test_the_figures_of_a_step_are_by_piece() -> None:
    with federations.on_images(federations.generated()):
        found = pieces.of_a_step(federations.config(runtime=SEQUENTIAL), rounds=1)
    assert list(found) == list(pieces.PIECES)
    assert all(microseconds > 0 for microseconds in found.values())
