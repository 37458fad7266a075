"""How alike clients' models are, printed: measured by a live run, or from a kept checkpoint."""

from pathlib import Path
from typing import Any

import checkpoints
from tui.cli import output
from tui.common.formatting import number


def of_checkpoint(
    reader: checkpoints.SessionReader, data_dir: str | None, round: int | None
) -> dict[str, Any]:
    """CKA after a kept round (None: the newest), with the probe and layers in force then. Nothing is written."""
    from simulator.data.datasets import data_folder
    from simulator.inspection import cka
    from simulator.sections import CkaConfig
    from simulator.sessions.history import settings_in_force

    in_force = settings_in_force(reader.document, reader.manifest(round).history)
    settings = CkaConfig.model_validate(in_force.get("cka", {}))
    return cka.of_checkpoint(
        reader.folder,
        data_folder(data_dir),
        round,
        images=settings.probe,
        layers=None if settings.layers == "all" else settings.layers,
        debiased=settings.debiased,
        model=settings.model,
        untrained=settings.untrained,
    )


def show(folder: Path, measured: dict[str, Any], as_json: bool) -> None:
    """The mean over all pairs of clients per layer, shallow to deep; as JSON also the matrices."""
    if as_json:
        output.emit({"session": checkpoints.name_of(folder), **measured})
        return
    output.show(
        output.heading(
            f"CKA between clients of {checkpoints.name_of(folder)} after round {measured['round']}"
        )
    )
    rows = ([name, number(measured["layers"][name])] for name in measured["order"])
    output.show(output.table(["layer", ">mean over pairs"], rows))
