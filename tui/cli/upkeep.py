"""`htfl-sim verify`, `prune`, and `rename`: check a session, remove checkpoints, and change its name."""

from dataclasses import asdict
from typing import Annotated

import typer

import htfl_sim as hs
from tui.cli import options, output
from tui.common.formatting import size

DAMAGED = 4


def verify(
    session: options.SessionArgument,
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Read every byte of a session and list what is damaged; exit 4 if anything is.

    \b
    Examples
      htfl-sim verify mu07
      htfl-sim verify mu07 --json
      for s in sessions/*/; do htfl-sim verify "$s" || echo "$s"; done
    """
    folder = hs.sessions.folder_of(session, sessions_dir)
    if note := hs.folders.link_note(session, hs.folders.sessions_dir(sessions_dir)):
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


def prune(
    session: options.SessionArgument,
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
    """Remove checkpoints of a stopped session, and what only they need; the ledger stays whole.

    \b
    Examples
      htfl-sim prune mu07 --keep-last 1 --dry-run
      htfl-sim prune mu07 --keep-last 1 --keep-every 50
    """
    folder = hs.sessions.own_folder(session, sessions_dir)
    pruned = hs.sessions.prune(
        folder,
        keep_last=keep_last,
        keep_every=keep_every,
        keep_best=keep_best,
        dry_run=dry_run,
        steal=steal,
    )
    if as_json:
        output.emit({"path": str(folder), "dry_run": dry_run, **asdict(pruned)})
        return
    rounds = ", ".join(map(str, pruned.rounds)) or "none"
    verb = "would go" if dry_run else "removed"
    output.show(f"{hs.sessions.name_of(folder)}: checkpoints {verb}: {rounds}; {size(pruned.bytes)}.")


def rename(
    session: options.SessionArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new name.", show_default=False)],
    sessions_dir: options.SessionsDir = None,
) -> None:
    """Give a session another name. A running session keeps its name.

    Forks find their parent by its id. Points of a study keep their names,
    and so do sessions that a study uses.

    \b
    Examples
      htfl-sim rename mu07 fedlora-mu07
    """
    before = hs.sessions.name_of(session, sessions_dir)
    after = hs.sessions.rename(session, name, sessions_dir=sessions_dir)
    output.show(f"renamed {before} to {hs.sessions.name_of(after)}")


def _verdict(damaged: int) -> str:
    return (
        "sound, every byte as it was written"
        if not damaged
        else f"damaged in {damaged} place{'s' * (damaged > 1)}"
    )
