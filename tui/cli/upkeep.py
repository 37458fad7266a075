"""`htfl-sim verify`, `inspect`, `prune`, and `rename`: check a session or a study, remove checkpoints, and change its
name."""

from dataclasses import asdict
from typing import Annotated

import typer

import htfl_sim as hs
from tui.cli import options, output
from tui.common.formatting import size

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
            output.show(f"{hs.sessions.name_of(folder)}: checkpoints {verb}: {rounds}; {size(pruned.bytes)}.")
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
