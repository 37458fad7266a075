"""TensorBoard's files, read back by TensorBoard's own reader."""

from pathlib import Path

import pytest

import htfl_sim as hs
from checkpoints import SessionReader
from simulator.base.record import check_record
from simulator.results.analysis.feed import Feed
from simulator.results.export.sinks import scalars

accumulator = pytest.importorskip("tensorboard.backend.event_processing.plugin_event_accumulator")


def read(folder: Path) -> dict[str, dict[int, float]]:
    """Every scalar by tag and step, as TensorBoard shows it."""
    from tensorboard.util.tensor_util import make_ndarray

    events = accumulator.EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    return {
        tag: {event.step: make_ndarray(event.tensor_proto).item() for event in events.Tensors(tag)}
        for tag in events.PluginTagToContent("scalars")
    }


def test_the_events_read_back_are_the_ledger(trained: Path) -> None:
    folder = trained.parent / "runs"
    assert hs.open(trained).export("tensorboard", folder) == 4
    shown = read(folder)
    ledger, feed = SessionReader(trained).records(), Feed(trained)
    feed.refresh()
    expected = {record["round"]: scalars(record, feed.run) for record in ledger}
    assert {tag: set(steps) for tag, steps in shown.items()} == {
        tag: {round for round, found in expected.items() if tag in found} for tag in shown
    }
    for round, found in expected.items():
        assert {tag: shown[tag][round] for tag in found} == found
    assert [shown["rounds/accuracy"][record["round"]] for record in ledger] == [
        record["accuracy"]["mean"] for record in ledger
    ]


def test_a_folder_that_has_events_already_is_refused(trained: Path) -> None:
    folder = trained.parent / "runs"
    hs.open(trained).export("tensorboard", folder)
    with pytest.raises(hs.ConfigError, match="holds TensorBoard events already"):
        hs.open(trained).export("tensorboard", folder)


def test_a_time_that_is_none_is_damage_and_not_a_bug(trained: Path) -> None:
    record = SessionReader(trained).records()[0]
    clients = len(record["accuracy"]["per_client"])
    check_record(record, clients)
    record["timing"]["at"] = "x"
    with pytest.raises(ValueError, match=r"timing\.at"):
        check_record(record, clients)
