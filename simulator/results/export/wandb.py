"""Rounds as a run of Weights & Biases; $WANDB_MODE=offline keeps it on this machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulator.base.extras import library
from simulator.base.record import Record
from simulator.results.analysis.run import SessionData
from simulator.results.export.following import scalars

EXTRA = "wandb"


class Wandb:
    """A run named like the session, with its settings as config and the round as step."""

    def __init__(self, project: str, folder: Path | None) -> None:
        """Raises ConfigError where wandb is not installed."""
        self._wandb = library("wandb", EXTRA)
        self._project = project
        self._folder = folder
        self._run: Any = None

    def begin(self, run: SessionData) -> None:
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
        where = None if self._folder is None else str(self._folder)
        self._run = self._wandb.init(project=self._project, name=run.name, config=run.config, dir=where)

    def add(self, records: Sequence[Record], run: SessionData) -> None:
        for record in records:
            self._run.log(scalars(record, run), step=record["round"])

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()
