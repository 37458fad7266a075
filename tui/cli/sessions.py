"""The commands about sessions: list, show, explain, mark, export, check, prune, rename, and remove them."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import htfl_sim as hs
from htfl_sim.choices import Device, Settings, Workers
from tui.cli import completion, options, output
from tui.cli.options import Option, argument, flag
from tui.common import findings
from tui.common.errors import OutputClosed
from tui.common.formatting import at_round as in_round
from tui.common.formatting import branches, counted, course, percent
from tui.common.formatting import size as size_of

if TYPE_CHECKING:
    from htfl_sim.sessions import Weights
    from simulator.results.analysis.overview import Branch

METHOD = "List only sessions that use or used this method."
DATASET = "List only sessions with this data set."
STATE = "List only sessions in this state: running, stopped, finished, damaged, and so on."
TAG = "List only sessions with this tag. Repeat it for several tags; a session must have all of them."
ALL = "Also list hidden folders of commands that run or were killed."
DUPLICATES = "List only groups of sessions with equal fingerprints: identical runs."


def sessions(
    method: Annotated[str | None, Option(METHOD, metavar="M", complete=completion.methods)] = None,
    dataset: Annotated[str | None, Option(DATASET, metavar="D", complete=completion.datasets)] = None,
    state: Annotated[str | None, Option(STATE, metavar="STATE")] = None,
    tag: Annotated[Sequence[str], Option(TAG, metavar="TAG")] = (),
    sessions_dir: options.SessionsDir = None,
    size: Annotated[bool, flag("Also print the size on disk.", "--size")] = False,
    all_: Annotated[bool, flag(ALL, "--all", "-a")] = False,
    duplicates: Annotated[bool, flag(DUPLICATES, "--duplicates")] = False,
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
        groups = hs.sessions.duplicates(sessions_dir)
        if as_json:
            output.emit([[each.to_json() for each in group] for group in groups])
        elif groups:
            cells = [
                [number, each.name, course(each.methods), f"{each.round}/{each.rounds}", each.state]
                for number, group in enumerate(groups, 1)
                for each in group
            ]
            output.show(output.table([">group", "name", "method", ">round", "state"], cells))
        else:
            output.say("No two sessions have the same fingerprint.")
        return
    found = hs.sessions.search(
        sessions_dir, method=method, dataset=dataset, state=state, tags=tag, sized=size, hidden=all_
    )
    if as_json:
        output.emit([each.summary.to_json() for each in found])
        return
    if unused := sum(not each.in_use for each in hs.sessions.leftovers(sessions_dir)):
        left = counted(unused, "leftover")
        output.say(f"Killed commands left {left}. Remove with `htfl-sim rm --leftovers`.", "dim")
    if not found:
        folder = hs.folders.sessions_dir(sessions_dir)
        every = hs.sessions.search(sessions_dir, hidden=all_)
        none = f"None of the {len(every)} sessions in {folder} is like that."
        output.say(none if every else f"No sessions in {folder}. Begin one: htfl-sim run")
        return
    left_out = {
        *(() if size else ("size",)),
        *(() if any(each.summary.parent for each in found) else ("forked at",)),
        *(() if any(each.summary.tags for each in found) else ("tags",)),
    }
    rows = list(map(_session_row, found))
    columns = [column for column in rows[0] if column.lstrip(">") not in left_out]
    expendable = [
        name for name in ("created", "size", "best", "data", "forked at", "tags") if name not in left_out
    ]
    output.show(output.table(columns, [[row[each] for each in columns] for row in rows], expendable))
    for each in found:
        if each.summary.error:
            output.say(f"{each.summary.name} is damaged: {each.summary.error}", "yellow")


def _session_row(branch: "Branch") -> dict[str, object]:
    from simulator.results.analysis.ledger import NO_SCORE

    each, parent = branch.summary, branch.summary.parent
    return {
        "name": branches(branch.last) + each.name,
        "method": course(each.methods),
        "data": each.dataset,
        ">round": None if each.round is None else f"{each.round}/{each.rounds}",
        ">accuracy": NO_SCORE if each.untrained else percent(each.accuracy),
        ">best": in_round(each.best, each.best_round),
        "state": each.state,
        "created": each.created[:16].replace("T", " ") if each.created else None,
        ">size": size_of(each.bytes),
        "forked at": f"{parent['name']}@{parent['round']}{' (gone)' * branch.orphan}" if parent else "",
        "tags": ", ".join(each.tags),
    }


def show(
    session: options.SessionArgument,
    round: Annotated[int | None, Option("Round after which to show the clients.", metavar="R")] = None,
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
    from simulator.results.analysis.ledger import well_formed
    from tui.cli.session_page import parts

    found = hs.sessions.details(session, round, sessions_dir=sessions_dir)
    if note := hs.folders.link_note(session, sessions_dir):
        output.say(note)
    with well_formed(found.run.folder):
        if as_json:
            output.emit(found.to_json())
        else:
            output.show(*parts(found))


CONFUSION = "Also print the confusion matrix, computed from the checkpoint."
ROUND = "Round to explain. Default: the last."


def why(
    session: options.SessionArgument,
    client: Annotated[int, Option("Client to explain.", "--client", least=0, metavar="K")],
    round: Annotated[int | None, Option(ROUND, "--round", least=1, metavar="R")] = None,
    sessions_dir: options.SessionsDir = None,
    confusion: Annotated[bool, flag(CONFUSION, "--confusion")] = False,
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
        return
    first, *rest = found.findings
    output.show(
        first.text, output.facts((f"{'!' if each.bad else ' '} {each.topic}", each.text) for each in rest)
    )
    if found.classes:
        cells: output.Cells = {"class": "name", ">test": "samples", ">correct": "correct"}
        cells |= {">recall": lambda each: percent(each.recall), ">round before": "before"}
        cells |= {">answered": "answered", ">train": "train"}
        output.show(output.heading("Classes"), output.listing(found.classes, cells))
    if found.missing:
        output.show(output.heading("Missing"), *found.missing)
    if matrix is not None:
        about, notes = findings.confusion_summary(matrix), findings.confusion_notes(matrix)
        lines = map(findings.plain, findings.confusion_grid(matrix, output.stdout().width))
        output.show(output.heading("Confusion matrix"), about, "", *lines, "", *notes)


def tag(
    session: options.SteerableArgument,
    add: Annotated[Sequence[str], argument("[TAG]...", help="Tags to add.")] = (),
    remove: Annotated[Sequence[str], Option("Tag to remove. May be repeated.", metavar="TAG")] = (),
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
    mark = partial(hs.sessions.tag, add=add, remove=remove)
    _mark("tags", session, sessions_dir, as_json, mark)


def note(
    session: options.SteerableArgument,
    text: Annotated[str | None, argument("[TEXT]", help='The note, in quotes; "" removes it.')] = None,
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
    _mark("note", session, sessions_dir, as_json, partial(hs.sessions.note, text=text))


def _mark(
    kind: str, session: str, sessions_dir: Path | None, as_json: bool, mark: Callable[..., Any]
) -> None:
    """Print what `mark` returns for a session, or for each one of a study."""
    place, chosen = hs.sessions.own_folders(session, sessions_dir)
    with output.Ticker() as watch:
        marks = {each: mark(each, watch=watch) for each in chosen}
    if as_json:
        told = [{"session": hs.folders.name_of(each), kind: found} for each, found in marks.items()]
        output.emit(told[0] if place in marks else told)
        return
    for each, found in marks.items():
        output.show(f"{hs.folders.name_of(each)}: {output.dash(found) if found else f'no {kind}'}")


def partition(
    name: Annotated[
        str, argument("NAME", completion.sessions, "Name or path of a session, or name of a preset.")
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
    if as_json:  # a table of very many clients takes seconds to make
        output.emit(list(found.rows()))
        return
    rows: list[list[object]] = [  # a dot is a class that a client lacks
        [name, *(count or "·" for count in counts), sum(counts)]
        for name, counts in zip(found.classes, zip(*found.counts["train"], strict=True), strict=True)
    ]
    for part, held in found.counts.items():
        sizes = list(map(sum, held))
        rows.append([f"all {part}", *sizes, sum(sizes)])
    columns = ["class", *(f">{client}" for client in range(len(found.counts["train"]))), ">all"]
    output.show(output.table(columns, rows))


PROJECT = "htfl-sim"
NUMBERS, WEIGHTS = "Numbers", "Models"
WHAT = "Table to write as CSV. Default: rounds."
TO = "Format: csv (the default), tensorboard, wandb, or mlflow."
FOLLOW = "Keep writing as long as the session runs."
IN_PROJECT = f"Project of W&B or experiment of MLflow. Default: {PROJECT}."
MODEL = "Model to write, as client/3, or all. May be repeated."
AT_ROUND = "Round whose models to write. Default: the last."
PROGRAM = "Also write a Python file that loads the models with torch alone."
What = Literal["rounds", "clients", "partition", "cka"]
To = Literal["csv", "tensorboard", "wandb", "mlflow"]


def export(
    session: options.SessionArgument,
    what: Annotated[What | None, Option(WHAT, "--what", metavar="TABLE", panel=NUMBERS)] = None,
    to: Annotated[To | None, Option(TO, "--to", metavar="WHERE", panel=NUMBERS)] = None,
    follow: Annotated[bool, flag(FOLLOW, "--follow", panel=NUMBERS)] = False,
    project: Annotated[str | None, Option(IN_PROJECT, metavar="NAME", panel=NUMBERS)] = None,
    weights: Annotated[Sequence[str], Option(MODEL, metavar="CLIENT", panel=WEIGHTS)] = (),
    at_round: Annotated[int | None, Option(AT_ROUND, least=0, metavar="R", panel=WEIGHTS)] = None,
    program: Annotated[bool, flag(PROGRAM, "--program/--no-program", panel=WEIGHTS)] = True,
    allow_inexact: options.AllowInexact = False,
    *,
    own: options.Own,
    out: Annotated[Path | None, Option("File or folder to write.", "--out", "-o", metavar="PATH")] = None,
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
    beside = "--weights" if weights else "numbers: name a model with --weights"
    given: dict[str, object] = {"--at-round": at_round, "--no-program": None if program else True}
    if weights:
        given = {"--what": what, "--to": to, "--follow": follow or None, "--project": project}
    if named := [option for option, value in given.items() if value is not None]:
        raise hs.ConfigError(f"{', '.join(named)} makes no sense with {beside}.")
    if weights:
        own.load()
        clients = None if [*weights] == ["all"] else list(map(_client_number, dict.fromkeys(weights)))
        how: dict[str, Any] = {"data_dir": data_dir, "device": device, "workers": workers}
        how |= {"round": at_round, "program": program, "allow_inexact": allow_inexact}
        _tell_weights(hs.sessions.export_weights(folder, clients, out, **how), as_json)
        return
    if what and to not in (None, "csv"):
        raise hs.ConfigError(f"--what chooses a table for csv; {to} takes all that the rounds have.")
    if project and to not in ("wandb", "mlflow"):
        raise hs.ConfigError("--project belongs to --to wandb and --to mlflow.")
    if what != "partition":
        _export_rounds(folder, what or "rounds", to or "csv", out, follow, project or PROJECT)
        return
    if follow:
        raise hs.ConfigError("a partition does not change while the session is run: leave --follow out.")
    table = hs.sessions.export_partition(folder, data_dir=data_dir)
    if out is None:
        output.write(table)
    else:
        out.write_text(table, encoding="utf-8")
        output.say(f"{folder.name}: its partition is in {out}.")


def _export_rounds(folder: Path, what: Any, to: To, out: Path | None, follow: bool, project: str) -> None:
    from simulator.results.analysis.overview import Summary
    from simulator.results.export.sinks import CsvStream

    streamed = to == "csv" and out is None
    sink = CsvStream(sys.stdout, what) if streamed else to
    try:
        sent = hs.sessions.export(folder, sink, out, what=what, follow=follow, project=project)
    except BrokenPipeError:
        raise OutputClosed from None
    if Summary.read(folder).untrained:
        kept = "Accuracies are those of the first models" if to == "csv" else "Accuracies are left out"
        output.warn([f"{folder.name} has no score, because every client diverged in every round. {kept}."])
    if not streamed:
        where = f" in {out}" if out else ""
        output.say(f"{folder.name}: {counted(sent, 'round')} exported to {to}{where}.")


def _tell_weights(written: "Weights", as_json: bool) -> None:
    if written.replayed:
        again = "1 round was" if written.replayed == 1 else f"{written.replayed} rounds were"
        output.say(f"no checkpoint of round {written.round} is kept: {again} run again.")
    if as_json:
        keys = ("client", "weights", "program", "accuracy", "recorded", "by_itself", "adapter")
        models = [{key: getattr(each, key) for key in keys} for each in written.models]
        output.emit({"round": written.round, "replayed": written.replayed, "models": models})
        return
    cells: output.Cells = {"client": "client", "weights": "weights", "loader": "program"}
    cells |= {">accuracy": lambda each: percent(each.accuracy)}
    cells |= {">in the ledger": lambda each: percent(each.recorded)}
    output.show(output.listing(written.models, cells))
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
    folder = hs.folders.study_folder(session, sessions_dir) or hs.sessions.folder_of(session, sessions_dir)
    if not hs.folders.is_group(folder) and (note := hs.folders.link_note(session, sessions_dir)):
        output.say(note)
    found = hs.sessions.verify(folder)
    damaged = [each for each in found if each.severity == "damage"]
    if as_json:
        listed = list(map(asdict, found))
        output.emit({"path": str(folder), "sound": not damaged, "findings": listed})
    else:
        if found:
            output.show(output.listing(found, {"": "severity", "file": "path", "finding": "message"}))
        said = f"damaged in {counted(len(damaged), 'place')}"
        output.show(f"{folder}: {said if damaged else 'sound, every byte as it was written'}.")
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
    cells: output.Cells = {"kind": "kind", "name": "name"}
    cells |= {"sha256": lambda each: each.sha256 and each.sha256[:12]}
    cells |= {"on this machine": lambda each: each.here or None}
    versions = [(fact, ", ".join(values)) for fact, values in found.versions.items()]
    about = output.facts([("study" if found.is_study else "session", str(found.path)), *versions])
    output.answer(as_json, asdict(found), about, "", output.listing(found.names, cells))


KEEP_LAST = "Number of newest checkpoints to keep. Default: as configured."
KEEP_EVERY = "Also keep every Nth round. Default: as configured."
KEEP_BEST = "Also keep the best round. Default: as configured."
PRUNE_STEAL = "Prune although another machine holds the session. Use it only if that machine is dead."


def prune(
    session: options.SteerableArgument,
    keep_last: Annotated[int | None, Option(KEEP_LAST, least=1, metavar="K")] = None,
    keep_every: Annotated[int | None, Option(KEEP_EVERY, least=1, metavar="N")] = None,
    keep_best: Annotated[bool | None, flag(KEEP_BEST, "--keep-best/--no-keep-best")] = None,
    dry_run: Annotated[bool, flag("Only print what would be removed.", "--dry-run")] = False,
    steal: Annotated[bool, flag(PRUNE_STEAL, "--steal")] = False,
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
        keep: dict[str, Any] = {"keep_last": keep_last, "keep_every": keep_every, "keep_best": keep_best}
        pruned = hs.sessions.prune(folder, dry_run=dry_run, steal=steal, **keep)
        told.append({"path": str(folder), "dry_run": dry_run, **asdict(pruned)})
        if not as_json:
            rounds = ", ".join(map(str, pruned.rounds)) or "none"
            verb = "would go" if dry_run else "removed"
            name = hs.folders.name_of(folder)
            output.show(f"{name}: checkpoints {verb}: {rounds}; {size_of(pruned.bytes)}.")
    if as_json:
        output.emit(told if place not in chosen else told[0])


def rename(
    session: options.SteerableArgument,
    name: Annotated[str, argument("NAME", help="The new name.")],
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


RM = "Sessions and studies to remove."
LEFTOVERS = "Remove the hidden folders that killed commands left."
RM_STEAL = "Remove a session that another machine holds, if you know that machine to be dead."


def rm(
    sessions: Annotated[Sequence[str], argument("SESSION...", completion.steerable, RM)] = (),
    leftovers: Annotated[bool, flag(LEFTOVERS, "--leftovers")] = False,
    yes: Annotated[bool, flag("Remove without asking.", "--yes", "-y")] = False,
    steal: Annotated[bool, flag(RM_STEAL, "--steal")] = False,
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
    from simulator.results.analysis.overview import Summary

    if bool(sessions) == leftovers:
        raise hs.ConfigError("Name the sessions to remove, or use --leftovers by itself.")
    if leftovers:
        _remove_leftovers(hs.folders.sessions_dir(sessions_dir), yes, steal)
        return
    given = [hs.sessions.own_folders(name, sessions_dir) for name in sessions]
    chosen = list(dict.fromkeys(path for path, _ in given))
    inside = dict.fromkeys(each for _, own in given for each in own)
    found = [Summary.read(path, sized=True) for path in inside]
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
        cells: output.Cells = {"name": "name", "method": "method", ">rounds": "round"}
        cells |= {">best": lambda each: percent(each.best), ">size": lambda each: size_of(each.bytes)}
        output.tell(output.listing(found, cells | {"state": "state"}))
        what = [f"the study {path.name}" for path in chosen if hs.folders.is_group(path)]
        what += [f"{len(found)} sessions"] if len(found) > 1 else [each.name for each in found]
        _confirm(" and ".join(what))
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
        cells: output.Cells = {
            "leftover": "path",
            ">size": lambda each: size_of(hs.sessions.size_on_disk(each.path)),
        }
        output.tell(output.listing(unused, cells))
        _confirm(counted(len(unused), "leftover"))
    for each in unused:
        hs.sessions.remove_leftover(each, steal=steal)
        output.say(f"removed {each.path}")


def _confirm(what: str) -> None:
    if not sys.stdin.isatty():
        raise hs.ConfigError("Nobody is there to answer. Add --yes to remove without a question.")
    if not typer.confirm(f"Remove {what} for good?", err=True):
        raise typer.Abort
