"""The sinks by name."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from simulator.base.errors import ConfigError, nearest

if TYPE_CHECKING:
    from simulator.results.export.following import Sink

Target = Literal["csv", "tensorboard", "wandb", "mlflow"]
TARGETS: tuple[Target, ...] = get_args(Target)
PROJECT = "htfl-sim"


def sink(target: str, session: str, out: Path | None, what: str = "rounds", project: str = PROJECT) -> "Sink":
    """Where a session's rounds go: `out` is a file (csv) or a folder; each has a default of its own.

    `what` is a table for csv; `project` is W&B's project or MLflow's experiment. Raises ConfigError for an unknown
    target, and where its library is not installed.
    """
    match target:
        case "csv":
            from simulator.results.export.csv_file import CsvFile

            return CsvFile(out or Path(f"{session}-{what}.csv"), what)
        case "tensorboard":
            from simulator.results.export.trackers import TensorBoard

            return TensorBoard(out or Path("runs") / session)
        case "wandb":
            from simulator.results.export.trackers import Wandb

            return Wandb(project, out)
        case "mlflow":
            from simulator.results.export.trackers import Mlflow

            return Mlflow(project, out)
    raise ConfigError(
        f"there is no export to '{target}'.{nearest(target, TARGETS)} There is: {', '.join(TARGETS)}."
    )
