"""Ten questions about a run, each answered in Live or by one key from there, with the numbers of the ledger."""

import asyncio
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from checkpoints import SessionReader, Store
from tests import sessions
from tests.app.driving import drive, until
from tui.app.app import HtflApp
from tui.app.runs import LaunchOptions
from tui.common.formatting import percent, points, size

CLIENTS, ROUNDS, SWITCH = 6, 20, 12
WORST = 4
"""The client with the lowest accuracy in the last round."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose method was switched, its Standalone, one at work, and one whose mean falls in its last six rounds."""
    root = tmp_path_factory.mktemp("questions")
    held = sessions.samples(CLIENTS)
    made = {"clients": CLIENTS, "rounds": ROUNDS, "samples": held}
    sessions.make(root / "main", switch=(SWITCH, "fedssa"), **made)
    sessions.make(root / "alone", method="standalone", ceiling=0.8, **made)
    half = made | {"rounds": 10}
    sessions.make(root / "working", of=ROUNDS, state="stopped", **half)
    sinking = sessions.make(root / "sinking", of=ROUNDS, state="stopped", **half)
    with sessions.fixed_clock(), sessions.unsynced(), Store.open(sinking) as store:
        for round in range(11, 17):
            record = sessions.record(round, CLIENTS)
            each = [0.9 - 0.05 * (round - 10)] * CLIENTS
            record["accuracy"] |= {"mean": each[0], "weighted": each[0], "per_client": each}
            store.append(record)
    return root


def records(session: Path) -> list[dict[str, Any]]:
    return [dict(each) for each in SessionReader(session).records()]


def screen(app: HtflApp) -> str:
    """The characters on the screen, with single spaces."""
    rows = app.screen._compositor.render_strips()
    return " ".join(" ".join("".join(segment.text for segment in row).split()) for row in rows)


def shown(
    session: Path, key: str | None, answered: Callable[[str], bool], size: tuple[int, int] = (120, 40)
) -> None:
    """Open the session in Live and press the key, if any. The screen then has the answer."""
    app = HtflApp(LaunchOptions(session.parent, session.parent / "data"), session)

    async def script(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.view.run.round > 0 and app.view.paired is not None)
        await pilot.pause()
        if key is not None:
            await pilot.press(key)
        for _ in range(6000):
            if answered(screen(app)):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(screen(app))

    drive(app, script, size)


@pytest.mark.long
def test_is_it_converging(home: Path) -> None:
    means = [each["accuracy"]["mean"] for each in records(home / "main")]
    change = points(means[-1] - means[-6])
    shown(home / "main", None, lambda text: f"({change} pp in 5 rounds)" in text)


@pytest.mark.long
def test_how_long_does_it_take(home: Path) -> None:
    """A run at work has done 10 of 20 rounds, of 2.5 seconds each: 25 seconds are left."""
    with Store.open(home / "working") as store:
        store.heartbeat("running", round=10, rounds=ROUNDS, phase="train", done=0, clients=CLIENTS)
        shown(home / "working", None, lambda text: "round 10/20 · running" in text and "ETA 25 s" in text)


@pytest.mark.long
def test_who_is_bad(home: Path) -> None:
    accuracies = records(home / "main")[-1]["accuracy"]["per_client"]
    assert min(range(CLIENTS), key=accuracies.__getitem__) == WORST
    shown(home / "main", None, lambda text: f"▶ {WORST} cnn5 {percent(accuracies[WORST])}" in text)


@pytest.mark.long
def test_why_is_it_the_data(home: Path) -> None:
    """W names the classes and the samples of the worst client."""
    about = sessions.samples(CLIENTS)
    trained = about["train"][WORST]
    held = sum(count > 0 for count in trained)
    answer = f"It trains on {sum(trained)} samples of {held} of 10 classes"
    shown(home / "main", "W", lambda text: answer in text)


@pytest.mark.long
def test_why_is_it_the_model(home: Path) -> None:
    """W names the model, and the CKA of the client's nearest peer in the deepest layer."""
    cka = records(home / "main")[-1]["cka"]
    peers = [value for place, value in enumerate(cka["matrix"][cka["order"][-1]][WORST]) if place != WORST]
    answer = f"is nearest ({max(peers):.3f})"
    shown(home / "main", "W", lambda text: f"Client {WORST} (cnn5)" in text and answer in text)


@pytest.mark.long
def test_who_fell_and_why(home: Path) -> None:
    """W compares the last round with the one before, in test samples too."""
    before, after = (each["accuracy"]["per_client"][WORST] for each in records(home / "main")[-2:])
    answer = f"from {percent(before)} to {percent(after)} ({before * 20:.0f} → {after * 20:.0f} of 20)"
    shown(home / "main", "W", lambda text: answer in text)


@pytest.mark.long
def test_does_it_help_against_standalone(home: Path) -> None:
    ours, theirs = (records(home / name)[-1]["accuracy"]["per_client"] for name in ("main", "alone"))
    gains = [mine - alone for mine, alone in zip(ours, theirs, strict=True)]
    answer = f"{sum(gain > 0 for gain in gains)} of {CLIENTS} clients gain; least {points(min(gains))} pp"
    shown(home / "main", "B", lambda text: answer in text)


@pytest.mark.long
def test_is_it_collapsing(home: Path) -> None:
    """The mean falls in each of rounds 12 to 16; the log says so."""
    shown(home / "sinking", "6", lambda text: "falling" in text)


@pytest.mark.long
def test_what_do_bytes_buy(home: Path) -> None:
    last = records(home / "main")[-1]
    sent, accuracy = size(last["bytes"]["up_total"]), percent(last["accuracy"]["mean"])
    shown(home / "main", "4", lambda text: f"{sent} in all" in text and f"mean accuracy {accuracy}" in text)


@pytest.mark.long
def test_what_did_the_switch_change(home: Path) -> None:
    """Means of rounds 3 to 12, and of the eight rounds after them."""
    means = [each["accuracy"]["mean"] for each in records(home / "main")]
    before, after = (100 * statistics.fmean(each) for each in (means[2:SWITCH], means[SWITCH:]))
    shown(home / "main", "E", lambda text: f"{before:.1f} %" in text and f"{after:.1f} %" in text)
