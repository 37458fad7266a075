"""`htfl-sim export`: a session's numbers and models for other programs."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import htfl_sim as hs
from tui.cli import options, output
from tui.common.errors import OutputClosed
from tui.common.formatting import percent

if TYPE_CHECKING:
    from htfl_sim.sessions import Exported

PROJECT = "htfl-sim"

NUMBERS, WEIGHTS = "Numbers", "Models"


class What(StrEnum):
    """The tables to export."""

    ROUNDS = "rounds"
    CLIENTS = "clients"
    PARTITION = "partition"
    CKA = "cka"


class To(StrEnum):
    """The targets of an export."""

    CSV = "csv"
    TENSORBOARD = "tensorboard"
    WANDB = "wandb"
    MLFLOW = "mlflow"


@options.expanded
def export(
    session: options.SessionArgument,
    what: Annotated[
        What | None,
        options.option("Table to write as CSV. Default: rounds.", "--what", metavar="TABLE", panel=NUMBERS),
    ] = None,
    to: Annotated[
        To | None,
        options.option(
            "Format: csv (the default), tensorboard, wandb, or mlflow.",
            "--to",
            metavar="WHERE",
            panel=NUMBERS,
        ),
    ] = None,
    follow: Annotated[
        bool, options.flag("Keep writing as long as the session runs.", "--follow", panel=NUMBERS)
    ] = False,
    project: Annotated[
        str | None,
        options.option(
            f"Project of W&B or experiment of MLflow. Default: {PROJECT}.", metavar="NAME", panel=NUMBERS
        ),
    ] = None,
    weights: Annotated[
        list[str] | None,
        options.option(
            "Model to write, as client/3, or all. May be repeated.", metavar="CLIENT", panel=WEIGHTS
        ),
    ] = None,
    at_round: Annotated[
        int | None,
        options.option(
            "Round whose models to write. Default: the last.", least=0, metavar="R", panel=WEIGHTS
        ),
    ] = None,
    program: Annotated[
        bool,
        options.flag(
            "Also write a Python file that loads the models with torch alone.",
            "--program/--no-program",
            panel=WEIGHTS,
        ),
    ] = True,
    allow_inexact: options.AllowInexact = False,
    *,
    own: options.Own,
    out: Annotated[
        Path | None, options.option("File or folder to write.", "--out", "-o", metavar="PATH")
    ] = None,
    sessions_dir: options.SessionsDir = None,
    data_dir: options.DataDir = None,
    device: options.DeviceOption = None,
    workers: options.Workers = None,
    as_json: options.AsJson = False,
) -> None:
    """Write a session's numbers or models for other programs. The session is only read, and may be running.

    Without --out a CSV goes to stdout, TensorBoard's events to runs/SESSION, models to SESSION-round-R.
    Models are those the run evaluates; where the round's checkpoint is gone,
    rounds are run again and must give what the ledger says.

    \b
    Examples
      htfl-sim export mu07 > rounds.csv
      htfl-sim export mu07 --what clients --out clients.csv
      htfl-sim export mu07 --to tensorboard --follow
      htfl-sim export mu07 --weights client/3 --at-round 10
    """
    folder = hs.sessions.folder_of(session, sessions_dir)
    if weights:
        _refuse({"--what": what, "--to": to, "--follow": follow or None, "--project": project}, "--weights")
        own.load()
        _weights(folder, weights, at_round, program, allow_inexact, out, data_dir, device, workers, as_json)
        return
    _refuse(
        {"--at-round": at_round, "--no-program": None if program else True},
        "numbers: name a model with --weights",
    )
    if what and to not in (None, To.CSV):
        raise hs.ConfigError(f"--what chooses a table for csv; {to} takes all that the rounds have.")
    if project and to not in (To.WANDB, To.MLFLOW):
        raise hs.ConfigError("--project belongs to --to wandb and --to mlflow.")
    table = what or What.ROUNDS
    if table is What.PARTITION:
        if follow:
            raise hs.ConfigError("a partition does not change while the session is run: leave --follow out.")
        _partition(folder, out, data_dir)
        return
    _rounds(folder, table, to or To.CSV, out, project or PROJECT, follow)


def _rounds(folder: Path, what: What, to: To, out: Path | None, project: str, follow: bool) -> None:
    streamed = to is To.CSV and out is None
    try:
        sent = hs.sessions.export(
            folder,
            hs.sessions.csv_stream(sys.stdout, what.value) if streamed else to.value,
            out,
            what=what.value,  # type: ignore[arg-type]
            follow=follow,
            project=project,
        )
    except BrokenPipeError:
        raise OutputClosed from None
    if hs.sessions.summary(folder).untrained:
        kept = "Accuracies are those of the first models" if to is To.CSV else "Accuracies are left out"
        output.say(
            f"warning: {folder.name} has no score, because every client diverged in every round. {kept}.",
            "yellow",
        )
    if not streamed:
        where = f" in {out}" if out else ""
        output.say(f"{folder.name}: {sent} round{'s' * (sent != 1)} exported to {to}{where}.")


def _partition(folder: Path, out: Path | None, data_dir: str | None) -> None:
    table = hs.sessions.export_partition(folder, data_dir=data_dir)
    if out is None:
        output.write(table)
    else:
        out.write_text(table, encoding="utf-8")
        output.say(f"{folder.name}: its partition is in {out}.")


def _weights(
    folder: Path,
    clients: list[str],
    at_round: int | None,
    program: bool,
    allow_inexact: bool,
    out: Path | None,
    data_dir: str | None,
    device: str | None,
    workers: int | None,
    as_json: bool,
) -> None:
    numbers = None if clients == ["all"] else [_client(each) for each in dict.fromkeys(clients)]
    written = hs.sessions.export_weights(
        folder,
        numbers,
        out,
        round=at_round,
        program=program,
        data_dir=data_dir,
        device=device,
        workers=workers,
        allow_inexact=allow_inexact,
    )
    if written.replayed:
        again = "1 round was" if written.replayed == 1 else f"{written.replayed} rounds were"
        output.say(f"no checkpoint of round {written.round} is kept: {again} run again.")
    if as_json:
        models = [_as_json(each) for each in written.models]
        output.emit({"round": written.round, "replayed": written.replayed, "models": models})
        return
    rows = [
        [each.client, each.weights, each.program, percent(each.accuracy), percent(each.recorded)]
        for each in written.models
    ]
    output.show(output.table(["client", "weights", "loader", ">accuracy", ">in the ledger"], rows))
    for each in written.models:
        if each.adapter is not None:
            output.say(f"client {each.client}: its LoRA adapter is in {each.adapter}.")
        if not each.by_itself:
            output.say(
                f"client {each.client}: its method does not answer with the model alone, so the ledger's accuracy is "
                "not the model's; what it keeps beside the model is in "
                f"{each.weights.with_suffix('.method.safetensors')}."
            )


def _client(name: str) -> int:
    number = name.removeprefix("client/")
    if not (number.isascii() and number.isdigit()):
        raise hs.ConfigError(f"'{name}' names no client; use --weights client/3, or --weights all by itself.")
    return int(number)


def _as_json(each: "Exported") -> dict[str, object]:
    return {
        "client": each.client,
        "weights": str(each.weights),
        "program": None if each.program is None else str(each.program),
        "accuracy": each.accuracy,
        "recorded": each.recorded,
        "by_itself": each.by_itself,
        "adapter": None if each.adapter is None else str(each.adapter),
    }


def _refuse(given: dict[str, object], beside: str) -> None:
    """Raise ConfigError for options without an effect here."""
    if named := [option for option, value in given.items() if value is not None]:
        raise hs.ConfigError(f"{', '.join(named)} makes no sense with {beside}.")
