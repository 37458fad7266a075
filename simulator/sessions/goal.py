"""When a run is finished: after its last round, or before if it has reached `until` or `until_time`."""

from simulator.base.record import Record
from simulator.base.units import span
from simulator.config import Config


def finished(config: Config, round: int, record: Record | None) -> bool:
    """Whether no round is left under these settings; `record` is that of the last one."""
    return round >= config.rounds or config.reached(mean_accuracy(record), simulated(record))


def mean_accuracy(record: Record | None) -> float | None:
    """The mean test accuracy of a record, if there is one."""
    return None if record is None else record["accuracy"]["mean"]


def simulated(record: Record | None) -> float | None:
    """The simulated time at the end of a record's round, in seconds. None: it has no clock, or there is no record."""
    return record["time"]["ends"] if record is not None and "time" in record else None


def reached(config: Config, record: Record | None) -> tuple[str, str] | None:
    """Which goal a round has reached, in words, and the setting that removes it. None: no goal."""
    accuracy, seconds = mean_accuracy(record), simulated(record)
    if config.reached_accuracy(accuracy):
        return f"mean accuracy {accuracy:.1%} has reached until = {config.until:g}", "until=0"
    if config.reached_time(seconds):
        return (
            f"simulated time {span(seconds or 0.0)} has reached until_time = {span(config.until_time)}",
            "until_time=0",
        )
    return None


def reason_to_end(config: Config, round: int, record: Record | None) -> str | None:
    """Why a run is finished before its last round, in words; None where it is not."""
    found = reached(config, record)
    return None if round >= config.rounds or found is None else found[0]
