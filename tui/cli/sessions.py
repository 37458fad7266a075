"""The commands about sessions: list, show, explain, mark, export, check, prune, rename, and remove them."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import htfl_sim as hs
from htfl_sim.choices import Device, Settings, Workers
from tui.cli import completion, options, output
from tui.common import findings, formatting
from tui.common.errors import OutputClosed

if TYPE_CHECKING:
    from htfl_sim.sessions import Exported, Leftover, Partition
    from simulator.results.analysis.classes import Confusion
    from simulator.results.analysis.overview import Branch, Summary
    from simulator.results.analysis.why import ClassRow, Why
    from simulator.results.export.sinks import Target

EXPENDABLE = ["created", "size", "best", "data", "forked at", "tags"]


def sessions(
    method: Annotated[
        str | None,
        options.option(
            "List only sessions that use or used this method.", metavar="M", complete=completion.methods
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        options.option("List only sessions with this data set.", metavar="D", complete=completion.datasets),
    ] = None,
    state: Annotated[
        str | None,
        options.option(
            "List only sessions in this state: running, stopped, finished, damaged, and so on.",
            metavar="STATE",
        ),
    ] = None,
    tag: Annotated[
        Sequence[str],
        options.option(
            "List only sessions with this tag. Repeat it for several tags; a session must have all of them.",
            metavar="TAG",
        ),
    ] = (),
    sessions_dir: options.SessionsDir = None,
    size: Annotated[bool, options.flag("Also print the size on disk.", "--size")] = False,
    all_: Annotated[
        bool, options.flag("Also list hidden folders of commands that run or were killed.", "--all", "-a")
    ] = False,
    duplicates: Annotated[
        bool,
        options.flag("List only groups of sessions with equal fingerprints: identical runs.", "--duplicates"),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """List sessions with their rounds, methods, and accuracy. Forks appear under their parents.

    A session that cannot be read is listed as damaged; `verify` says why.
    --all also lists the hidden folders that `rm --leftovers` would remove.

    \b
    Examples
      htfl-sim sessions
      htfl-sim sessions --size --sessions-dir /mnt/big/sessions
      htfl-sim sessions --method fedgh --state stopped
      htfl-sim sessions --tag paper
      htfl-sim sessions --all --size
      htfl-sim sessions --duplicates
      htfl-sim sessions --json | jq -r '.[] | select(.best > 0.9) | .name'
    """
    if duplicates:
        if method or dataset or state or tag or size or all_:
            raise hs.ConfigError("`duplicates` lists all sessions. Leave the other options out.")
        _list_duplicates(hs.sessions.duplicates(sessions_dir), as_json)
        return
    found = hs.sessions.search(
        sessions_dir, method=method, dataset=dataset, state=state, tags=tag, sized=size, hidden=all_
    )
    if as_json:
        output.emit([each.summary.to_json() for each in found])
        return
    _tell_leftovers(hs.sessions.leftovers(sessions_dir))
    if not found:
        folder = hs.folders.sessions_dir(sessions_dir)
        every = hs.sessions.search(sessions_dir, hidden=all_)
        none = f"None of the {len(every)} sessions in {folder} is like that."
        output.say(none if every else f"No sessions in {folder}. Begin one: htfl-sim run")
        return
    columns = ["name", "method", "data", ">round", ">accuracy", ">best", "state", "created"]
    if size:
        columns.append(">size")
    if any(each.summary.parent for each in found):
        columns.append("forked at")
    if any(each.summary.tags for each in found):
        columns.append("tags")
    rows = (_session_row(each, columns) for each in found)
    named = {column.lstrip(">") for column in columns}
    output.show(output.table(columns, rows, [name for name in EXPENDABLE if name in named]))
    for each in found:
        if each.summary.error:
            output.say(f"{each.summary.name} is damaged: {each.summary.error}", "yellow")


def _list_duplicates(groups: "Sequence[Sequence[Summary]]", as_json: bool) -> None:
    if as_json:
        output.emit([[each.to_json() for each in group] for group in groups])
        return
    if not groups:
        output.say("No two sessions have the same fingerprint.")
        return
    rows = [
        [number, each.name, formatting.course(each.methods), f"{each.round}/{each.rounds}", each.state]
        for number, group in enumerate(groups, 1)
        for each in group
    ]
    output.show(output.table([">group", "name", "method", ">round", "state"], rows))


def _tell_leftovers(hidden: "Sequence[Leftover]") -> None:
    if unused := sum(not each.in_use for each in hidden):
        left = f"{unused} leftover{'s' * (unused > 1)}"
        output.say(f"Killed commands left {left}. Remove with `htfl-sim rm --leftovers`.", "dim")


def _session_row(branch: "Branch", columns: Sequence[str]) -> list[object]:
    from simulator.results.analysis.ledger import NO_SCORE

    each = branch.summary
    return [
        formatting.branches(branch.last) + each.name,
        formatting.course(each.methods),
        each.dataset,
        None if each.round is None else f"{each.round}/{each.rounds}",
        NO_SCORE if each.untrained else formatting.percent(each.accuracy),
        formatting.at_round(each.best, each.best_round),
        each.state,
        each.created[:16].replace("T", " ") if each.created else None,
        *([formatting.size(each.bytes)] if ">size" in columns else []),
        *([_origin(branch)] if "forked at" in columns else []),
        *([", ".join(each.tags)] if "tags" in columns else []),
    ]


def _origin(branch: "Branch") -> str:
    """A fork's parent and round, and whether the parent still exists."""
    parent = branch.summary.parent
    return f"{parent['name']}@{parent['round']}{' (gone)' * branch.orphan}" if parent else ""


def show(
    session: options.SessionArgument,
    round: Annotated[
        int | None, options.option("Round after which to show the clients.", "--round", metavar="R")
    ] = None,
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Show a session: settings, switches, accuracy over the rounds, every client, traffic, events, checkpoints.

    Works while it runs, and from a folder that cannot be written.

    \b
    Examples
      htfl-sim show quickstart-20260102-101500
      htfl-sim show mu07 --round 10
      htfl-sim show mu07 --json | jq .record.accuracy.per_client
    """
    from tui.cli.session_page import parts

    found = hs.sessions.details(session, round, sessions_dir=sessions_dir)
    if note := hs.folders.link_note(session, hs.folders.sessions_dir(sessions_dir)):
        output.say(note)
    with found.well_formed():
        if as_json:
            output.emit(found.to_json())
        else:
            output.show(*parts(found))


def why(
    session: options.SessionArgument,
    client: Annotated[int, options.option("Client to explain.", "--client", least=0, metavar="K")],
    round: Annotated[
        int | None, options.option("Round to explain. Default: the last.", "--round", least=1, metavar="R")
    ] = None,
    sessions_dir: options.SessionsDir = None,
    confusion: Annotated[
        bool, options.flag("Also print the confusion matrix, computed from the checkpoint.", "--confusion")
    ] = False,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Explain a client after a round, in sentences with numbers: its classes, data, model, peers, and the last round.

    Sentences marked ! may explain a low accuracy and come first. The gain is
    over a session of standalone with the same data, models, and seeds, if the
    folder has one. Works while the session runs.

    \b
    Examples
      htfl-sim why mu07 --client 6
      htfl-sim why mu07 --client 6 --round 12
      htfl-sim why mu07 --client 6 --confusion
      htfl-sim why mu07 --client 6 --json | jq .findings
    """
    found = hs.sessions.why(session, client, round, sessions_dir=sessions_dir)
    matrix = None
    if confusion:
        matrix = hs.sessions.confusion(session, client, round, data_dir=data_dir, sessions_dir=sessions_dir)
    if as_json:
        output.emit(found.to_json() | ({} if matrix is None else {"confusion": matrix.to_json()}))
    else:
        output.show(*_why_page(found), *([] if matrix is None else _matrix_page(matrix)))


def _why_page(found: "Why") -> list[Any]:
    """The page for people."""
    first, *rest = found.findings
    facts = [(f"{'!' if each.bad else ' '} {each.topic}", each.text) for each in rest]
    parts: list[Any] = [first.text, output.facts(facts)]
    if found.classes:
        columns = ["class", ">test", ">correct", ">recall", ">round before", ">answered", ">train"]
        parts += [output.heading("Classes"), output.table(columns, map(_class_row, found.classes))]
    if found.missing:
        parts += [output.heading("Missing"), *found.missing]
    return parts


def _matrix_page(found: "Confusion") -> list[Any]:
    """The confusion matrix for people."""
    about, notes = findings.confusion_summary(found), findings.confusion_notes(found)
    lines = map(findings.plain, findings.confusion_grid(found, output.stdout().width))
    return [output.heading("Confusion matrix"), about, "", *lines, "", *notes]


def _class_row(row: "ClassRow") -> list[object]:
    cells = (row.samples, row.correct, formatting.percent(row.recall), row.before, row.answered, row.train)
    return [row.name, *map(output.dash, cells)]


def tag(
    session: options.SteerableArgument,
    add: Annotated[
        Sequence[str],
        typer.Argument(metavar="[TAG]...", help="Tags to add.", show_default=False),
    ] = (),
    remove: Annotated[Sequence[str], options.option("Tag to remove. May be repeated.", metavar="TAG")] = (),
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Mark a session, or all of a study, with words to find it by, or show them. Tags never change its rounds.

    Also while it runs: then its process writes them, between two clients.
    `sessions --tag` lists what is marked, and tag:NAME stands for it in
    compare, plot, report and export.

    \b
    Examples
      htfl-sim tag mu07 paper table-3
      htfl-sim tag mu07 --remove paper
      htfl-sim tag mu07
      htfl-sim compare tag:paper
    """
    place, chosen = hs.sessions.own_folders(session, sessions_dir)
    with output.Ticker() as watch:
        tags = {each: hs.sessions.tag(each, add, remove, watch=watch) for each in chosen}
    _show_marks("tags", tags, place in tags, as_json)


def note(
    session: options.SteerableArgument,
    text: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT]", help='The note, in quotes; "" removes it.', show_default=False),
    ] = None,
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Write a line about a session, or about all of a study, or show it. A note never changes its rounds.

    It is one line of up to 1,000 letters. `show` prints it, and the app
    lists it and finds sessions by its words. A new note replaces the old one.

    \b
    Examples
      htfl-sim note mu07 "the lr of the paper, but 10 clients"
      htfl-sim note mu07
      htfl-sim note mu07 ""
    """
    place, chosen = hs.sessions.own_folders(session, sessions_dir)
    with output.Ticker() as watch:
        notes = {each: hs.sessions.note(each, text, watch=watch) for each in chosen}
    _show_marks("note", notes, place in notes, as_json)


def _show_marks(kind: str, marks: Mapping[Path, Any], single: bool, as_json: bool) -> None:
    """Print the tags or the note of each session. single: of one that was named itself, not of a study's."""
    if as_json:
        told = [{"session": hs.folders.name_of(each), kind: mark} for each, mark in marks.items()]
        output.emit(told[0] if single else told)
        return
    for each, mark in marks.items():
        output.show(f"{hs.folders.name_of(each)}: {output.dash(mark) if mark else f'no {kind}'}")


def partition(
    name: Annotated[
        str, options.argument("NAME", completion.sessions, "Name or path of a session, or name of a preset.")
    ],
    settings: Settings = (),
    sessions_dir: options.SessionsDir = None,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Show the partition: training samples per class and client, and the sizes of the parts.

    \b
    Examples
      htfl-sim partition mu07
      htfl-sim partition fedlora_htm5 --set data.partition=dirichlet --set data.alpha=0.1
      htfl-sim partition mu07 --json
    """
    found = hs.sessions.partition(name, settings, sessions_dir=sessions_dir, data_dir=data_dir)
    if as_json:
        output.emit(list(found.rows()))
    else:
        output.show(_partition_table(found))


def _partition_table(found: "Partition") -> Any:
    """One row per class and one column per client, then the sizes of the parts.

    A dot is a class that a client lacks.
    """
    by_class = zip(*found.counts["train"], strict=True)
    rows: list[list[object]] = [
        [name, *(count or "·" for count in counts), sum(counts)]
        for name, counts in zip(found.classes, by_class, strict=True)
    ]
    for part, held in found.counts.items():
        sizes = list(map(sum, held))
        rows.append([f"all {part}", *sizes, sum(sizes)])
    clients = range(len(found.counts["train"]))
    return output.table(["class", *(f">{client}" for client in clients), ">all"], rows)


PROJECT = "htfl-sim"

NUMBERS, WEIGHTS = "Numbers", "Models"


def export(
    session: options.SessionArgument,
    what: Annotated[
        Literal["rounds", "clients", "partition", "cka"] | None,
        options.option("Table to write as CSV. Default: rounds.", "--what", metavar="TABLE", panel=NUMBERS),
    ] = None,
    to: Annotated[
        Literal["csv", "tensorboard", "wandb", "mlflow"] | None,
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
        Sequence[str],
        options.option(
            "Model to write, as client/3, or all. May be repeated.", metavar="CLIENT", panel=WEIGHTS
        ),
    ] = (),
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
    device: Device = None,
    workers: Workers = None,
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
        _refuse_beside(
            {"--what": what, "--to": to, "--follow": follow or None, "--project": project}, "--weights"
        )
        own.load()
        _export_weights(
            folder, weights, at_round, program, allow_inexact, out, data_dir, device, workers, as_json
        )
        return
    _refuse_beside(
        {"--at-round": at_round, "--no-program": None if program else True},
        "numbers: name a model with --weights",
    )
    if what and to not in (None, "csv"):
        raise hs.ConfigError(f"--what chooses a table for csv; {to} takes all that the rounds have.")
    if project and to not in ("wandb", "mlflow"):
        raise hs.ConfigError("--project belongs to --to wandb and --to mlflow.")
    if what == "partition":
        if follow:
            raise hs.ConfigError("a partition does not change while the session is run: leave --follow out.")
        _export_partition(folder, out, data_dir)
        return
    _export_rounds(folder, what or "rounds", to or "csv", out, project or PROJECT, follow)


def _export_rounds(
    folder: Path,
    what: Literal["rounds", "clients", "cka"],
    to: "Target",
    out: Path | None,
    project: str,
    follow: bool,
) -> None:
    streamed = to == "csv" and out is None
    try:
        sent = hs.sessions.export(
            folder,
            hs.sessions.csv_stream(sys.stdout, what) if streamed else to,
            out,
            what=what,
            follow=follow,
            project=project,
        )
    except BrokenPipeError:
        raise OutputClosed from None
    if hs.sessions.summary(folder).untrained:
        kept = "Accuracies are those of the first models" if to == "csv" else "Accuracies are left out"
        output.say(
            f"warning: {folder.name} has no score, because every client diverged in every round. {kept}.",
            "yellow",
        )
    if not streamed:
        where = f" in {out}" if out else ""
        output.say(f"{folder.name}: {sent} round{'s' * (sent != 1)} exported to {to}{where}.")


def _export_partition(folder: Path, out: Path | None, data_dir: str | None) -> None:
    table = hs.sessions.export_partition(folder, data_dir=data_dir)
    if out is None:
        output.write(table)
    else:
        out.write_text(table, encoding="utf-8")
        output.say(f"{folder.name}: its partition is in {out}.")


def _export_weights(
    folder: Path,
    clients: Sequence[str],
    at_round: int | None,
    program: bool,
    allow_inexact: bool,
    out: Path | None,
    data_dir: str | None,
    device: str | None,
    workers: int | None,
    as_json: bool,
) -> None:
    numbers = None if [*clients] == ["all"] else [_client_number(each) for each in dict.fromkeys(clients)]
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
        models = [_model_json(each) for each in written.models]
        output.emit({"round": written.round, "replayed": written.replayed, "models": models})
        return
    rows = [
        [
            each.client,
            each.weights,
            each.program,
            formatting.percent(each.accuracy),
            formatting.percent(each.recorded),
        ]
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


def _client_number(name: str) -> int:
    number = name.removeprefix("client/")
    if not (number.isascii() and number.isdigit()):
        raise hs.ConfigError(f"'{name}' names no client; use --weights client/3, or --weights all by itself.")
    return int(number)


def _model_json(each: "Exported") -> dict[str, object]:
    return {
        "client": each.client,
        "weights": str(each.weights),
        "program": None if each.program is None else str(each.program),
        "accuracy": each.accuracy,
        "recorded": each.recorded,
        "by_itself": each.by_itself,
        "adapter": None if each.adapter is None else str(each.adapter),
    }


def _refuse_beside(given: dict[str, object], beside: str) -> None:
    """Raise ConfigError for options without an effect here."""
    if named := [option for option, value in given.items() if value is not None]:
        raise hs.ConfigError(f"{', '.join(named)} makes no sense with {beside}.")


DAMAGED = 4


def verify(
    session: options.SteerableArgument,
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Read every byte of a session, or of all of a study, and list what is damaged; exit 4 if anything is.

    \b
    Examples
      htfl-sim verify mu07
      htfl-sim verify mu07 --json
      for s in sessions/*/; do htfl-sim verify "$s" || echo "$s"; done
    """
    home = hs.folders.sessions_dir(sessions_dir)
    folder = hs.folders.study_folder(session, home) or hs.sessions.folder_of(session, sessions_dir)
    if not hs.folders.is_group(folder) and (note := hs.folders.link_note(session, home)):
        output.say(note)
    findings = hs.sessions.verify(folder)
    damaged = [finding for finding in findings if finding.severity == "damage"]
    if as_json:
        output.emit(
            {"path": str(folder), "sound": not damaged, "findings": [asdict(each) for each in findings]}
        )
    else:
        if findings:
            rows = ([each.severity, each.path, each.message] for each in findings)
            output.show(output.table(["", "file", "finding"], rows))
        output.show(f"{folder}: {_verdict(len(damaged))}.")
    if damaged:
        raise typer.Exit(DAMAGED)


def inspect(
    session: options.SteerableArgument,
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """List what a session or a study from somebody else names: paths, files, plugins, versions, hashes.

    Runs nothing that it names, and writes nothing. Files on this machine are
    compared with the recorded SHA-256.

    \b
    Examples
      htfl-sim inspect downloads/t3
      htfl-sim inspect mu07 --json
    """
    found = hs.sessions.inspect(session, sessions_dir=sessions_dir)
    if as_json:
        output.emit({**asdict(found), "path": str(found.path)})
        return
    rows = [
        [each.kind, each.name, each.sha256 and each.sha256[:12], each.here or None] for each in found.names
    ]
    versions = [(fact, ", ".join(values)) for fact, values in found.versions.items()]
    output.show(
        output.facts([("study" if found.is_study else "session", str(found.path)), *versions]),
        "",
        output.table(["kind", "name", "sha256", "on this machine"], rows),
    )


def prune(
    session: options.SteerableArgument,
    keep_last: Annotated[
        int | None,
        options.option("Number of newest checkpoints to keep. Default: as configured.", least=1, metavar="K"),
    ] = None,
    keep_every: Annotated[
        int | None, options.option("Also keep every Nth round. Default: as configured.", least=1, metavar="N")
    ] = None,
    keep_best: Annotated[
        bool | None,
        options.flag("Also keep the best round. Default: as configured.", "--keep-best/--no-keep-best"),
    ] = None,
    dry_run: Annotated[bool, options.flag("Only print what would be removed.", "--dry-run")] = False,
    steal: Annotated[
        bool,
        options.flag(
            "Prune although another machine holds the session. Use it only if that machine is dead.",
            "--steal",
        ),
    ] = False,
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Remove checkpoints of a stopped session, or of all of a study, and what only they need; the ledger stays whole.

    \b
    Examples
      htfl-sim prune mu07 --keep-last 1 --dry-run
      htfl-sim prune mu07 --keep-last 1 --keep-every 50
    """
    place, chosen = hs.sessions.own_folders(session, sessions_dir)
    if not dry_run and place not in chosen:  # all of a study's sessions, or none
        hs.sessions.check_idle(place, steal=steal)
    told = []
    for folder in chosen:
        pruned = hs.sessions.prune(
            folder,
            keep_last=keep_last,
            keep_every=keep_every,
            keep_best=keep_best,
            dry_run=dry_run,
            steal=steal,
        )
        told.append({"path": str(folder), "dry_run": dry_run, **asdict(pruned)})
        rounds = ", ".join(map(str, pruned.rounds)) or "none"
        verb = "would go" if dry_run else "removed"
        if not as_json:
            output.show(
                f"{hs.sessions.name_of(folder)}: checkpoints {verb}: {rounds}; {formatting.size(pruned.bytes)}."
            )
    if as_json:
        output.emit(told if place not in chosen else told[0])


def rename(
    session: options.SteerableArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new name.", show_default=False)],
    sessions_dir: options.SessionsDir = None,
) -> None:
    """Give a session or a study another name. A running one keeps its name.

    Forks find their parent by its id. Points of a study keep their names,
    and so do sessions that another study uses.

    \b
    Examples
      htfl-sim rename mu07 fedlora-mu07
    """
    place, _ = hs.sessions.own_folders(session, sessions_dir)
    after = hs.sessions.rename(place, name)
    output.show(f"renamed {hs.folders.name_of(place)} to {hs.folders.name_of(after)}")
    if (after / "slurm.sh").exists():
        output.say(f"{after / 'slurm.sh'} names the former folder. Remove it, and write it again.", "yellow")


def _verdict(damaged: int) -> str:
    return (
        "sound, every byte as it was written"
        if not damaged
        else f"damaged in {damaged} place{'s' * (damaged > 1)}"
    )


def rm(
    sessions: Annotated[
        Sequence[str],
        options.argument("SESSION...", completion.steerable, "Sessions and studies to remove."),
    ] = (),
    leftovers: Annotated[
        bool, options.flag("Remove the hidden folders that killed commands left.", "--leftovers")
    ] = False,
    yes: Annotated[bool, options.flag("Remove without asking.", "--yes", "-y")] = False,
    steal: Annotated[
        bool,
        options.flag(
            "Remove a session that another machine holds, if you know that machine to be dead.", "--steal"
        ),
    ] = False,
    sessions_dir: options.SessionsDir = None,
) -> None:
    """Remove sessions and studies, with all their rounds and checkpoints, after a question. A running one stays.

    Forks stay whole: what they share with their parent is theirs too.
    A killed run, fork or rm may leave a hidden folder; --leftovers removes
    those that no process uses. `sessions --all` lists them.

    \b
    Examples
      htfl-sim rm mu07
      htfl-sim rm mu07 mu09 --yes
      htfl-sim rm --leftovers
    """
    if bool(sessions) == leftovers:
        raise hs.ConfigError("Name the sessions to remove, or use --leftovers by itself.")
    if leftovers:
        _remove_leftovers(hs.folders.sessions_dir(sessions_dir), yes, steal)
        return
    given = [hs.sessions.own_folders(name, sessions_dir) for name in sessions]
    chosen = list(dict.fromkeys(path for path, _ in given))
    found = [hs.sessions.summary(path) for path in dict.fromkeys(each for _, own in given for each in own)]
    for path in chosen:
        hs.sessions.check_idle(path, steal=steal)
    for path in chosen:
        found_of = hs.sessions.dependents(path)
        for point in found_of.users:
            study = hs.folders.sessions_folder(path) / point.partition("/")[0]
            command = f"{hs.folders.continues(study)} {study.name}"
            output.say(f"{point} uses {path}. `htfl-sim {command}` will compute it again.", "yellow")
        for point in found_of.branches:
            output.say(f"{point} continues from {path}. Without it, the point cannot start.", "yellow")
    if not yes:
        _ask(found, [path for path in chosen if hs.folders.is_group(path)])
    for path in chosen:
        output.say(f"removed {hs.sessions.remove(path, steal=steal)}")


def _remove_leftovers(folder: "Path", yes: bool, steal: bool) -> None:
    found = hs.sessions.leftovers(folder, steal=steal)
    unused = [each for each in found if not each.in_use]
    for each in found:
        if each.in_use:
            output.say(f"kept {each.path}: a process may use it. If its machine is dead, add --steal.")
    if not unused:
        output.say(f"{folder} has no leftovers to remove.")
        return
    if not yes:
        rows = [[str(each.path), formatting.size(hs.sessions.size_on_disk(each.path))] for each in unused]
        output.tell(output.table(["leftover", ">size"], rows))
        _confirm(f"{len(unused)} leftover{'s' * (len(unused) > 1)}")
    for each in unused:
        hs.sessions.remove_leftover(each, steal=steal)
        output.say(f"removed {each.path}")


def _ask(found: "list[Summary]", studies: "list[Path]") -> None:
    rows = [
        [
            each.name,
            each.method,
            each.round,
            formatting.percent(each.best),
            formatting.size(each.bytes),
            each.state,
        ]
        for each in found
    ]
    output.tell(output.table(["name", "method", ">rounds", ">best", ">size", "state"], rows))
    what = [f"the study {path.name}" for path in studies]
    what += [f"{len(found)} sessions"] if len(found) > 1 else [each.name for each in found]
    _confirm(" and ".join(what))


def _confirm(what: str) -> None:
    if not sys.stdin.isatty():
        raise hs.ConfigError("Nobody is there to answer. Add --yes to remove without a question.")
    if not typer.confirm(f"Remove {what} for good?", err=True):
        raise typer.Abort
