"""When a run is finished: after its last round, or before where clients have become as good as was asked for."""

from simulator.base.record import Record
from simulator.config import Config


def finished(config: Config, round: int, record: Record | None) -> bool:
    """Whether no round is left under these settings; `record` is that of the last one."""
    return round >= config.rounds or reached(config, mean_accuracy(record))


def reached(config: Config, accuracy: float | None) -> bool:
    """Whether a mean test accuracy is what `until` asks for."""
    return bool(config.until) and accuracy is not None and accuracy >= config.until


def mean_accuracy(record: Record | None) -> float | None:
    """The mean test accuracy of a record, if there is one."""
    return None if record is None else record["accuracy"]["mean"]


def reason_to_end(config: Config, round: int, record: Record | None) -> str | None:
    """Why a run is finished before its last round, in words; None where it is not."""
    accuracy = mean_accuracy(record)
    if round >= config.rounds or accuracy is None or not reached(config, accuracy):
        return None
    return f"mean accuracy {accuracy:.1%} has reached until = {config.until:g}"
