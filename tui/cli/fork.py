"""`htfl-sim fork`: a new session that continues another from any of its rounds."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import htfl_sim as hs
from tui.cli import completion, options, output, running
from tui.cli.options import SCALE, WHAT

if TYPE_CHECKING:
    from htfl_sim.running import Fork
    from simulator.engine.progress import Event


@options.expanded
def fork(
    session: options.SessionArgument,
    at_round: Annotated[
        int,
        options.option(
            "Last round that both sessions share. 0: the beginning.",
            "--at-round",
            least=0,
            metavar="R",
            panel=WHAT,
        ),
    ],
    name: Annotated[str, options.option("The new session's name.", "--session", metavar="NEW", panel=WHAT)],
    method: Annotated[
        str | None,
        options.option(
            "Method of the new session from that round on.",
            metavar="M",
            complete=completion.methods,
            panel=WHAT,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        options.option(
            "Random seed of the new rounds. The partition of the data stays.", metavar="S", panel=SCALE
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        options.option("Number of rounds, counted from round 1.", least=1, metavar="N", panel=SCALE),
    ] = None,
    assignments: options.Assignments = None,
    run: Annotated[bool, options.flag("Run the new session at once, as `resume` would.", "--run")] = False,
    *,
    own: options.Own,
    places: options.Folders,
    machine: options.Machine,
    progress: options.Progress = None,
    as_json: options.Records = False,
) -> None:
    """Branch a session off another at any of its rounds; the parent is only read, and may be running.

    Where no checkpoint of that round is kept, rounds are run again from
    the nearest earlier one, and must give what the parent's ledger says.
    With nothing changed, the fork ends bit for bit as its parent.

    \b
    Examples
      htfl-sim fork mu07 --at-round 20 --session mu07-ssa --method fedssa --run
      htfl-sim fork mu07 --at-round 20 --session mu09 --set method.mu=0.9
      htfl-sim fork mu07 --at-round 0 --session reseeded --seed 1 --rounds 100
    """
    parent = hs.sessions.folder_of(session, places.sessions_dir)
    folder = hs.folders.new_session(name, places.sessions_dir)
    own.load()
    if method is not None:
        hs.catalog.method(method)  # an unknown one is refused before torch is imported

    from htfl_sim.running import branch, reopen

    quick = {"seed": seed, "rounds": rounds}
    given = [f"{key}={value}" for key, value in quick.items() if value is not None]
    mention = running.mention(places.sessions_dir, own.options())
    with ExitStack() as replaying:
        made = branch(
            parent,
            folder,
            at_round,
            method=method,
            assignments=[*given, *(assignments or ())],
            data_dir=places.data_dir,
            workers=machine.workers,
            device=machine.device,
            allow_inexact=machine.allow_inexact,
            observe=_Replay(replaying, at_round, progress),
        )
    for warning in made.warnings:
        output.say(f"warning: {warning}", "yellow")
    go_on = None if run else mention(f"resume {name}")
    output.tell(output.facts(_told(made, parent, folder, go_on, machine.allow_inexact)))
    if not run:
        if as_json:
            output.emit(_as_json(made, parent, folder), indent=None)
        return
    with reopen(
        folder,
        data_dir=places.data_dir,
        workers=machine.workers,
        device=machine.device,
        allow_inexact=machine.allow_inexact,
    ) as opened:
        running.carry_out(opened, mention, progress, as_json)


class _Replay:
    """Shows the rounds that are run again, once their first event comes. Usually, there are none."""

    def __init__(self, stack: ExitStack, last: int, drawn: bool | None) -> None:
        self._stack = stack
        self._last = last
        self._drawn = drawn
        self._shown: Any = None

    def __call__(self, event: "Event") -> None:
        from tui.cli import progress

        if self._shown is None:
            output.say(f"no checkpoint of round {self._last} is kept: running rounds up to it again")
            display = progress.display(self._last, 0, None, self._drawn)
            self._shown = self._stack.enter_context(display)
        self._shown(event)


def _told(
    made: "Fork", parent: Path, folder: Path, go_on: str | None, allow_inexact: bool
) -> list[tuple[str, object]]:
    checked = "not compared with the parent's" if allow_inexact else "with the parent's very results"
    again = "1 round was" if made.replayed == 1 else f"{made.replayed} rounds were"
    return [
        ("forked", f"{folder.name}  ({folder}) from {hs.sessions.name_of(parent)} at round {made.round}"),
        ("replayed", f"{again} run again, {checked}" if made.replayed else None),
        ("changed", "; ".join(made.changes) or f"nothing: {_ends(made)}"),
        ("state", made.adopted),
        ("rounds", str(made.config.rounds)),
        ("go on", go_on),
    ]


def _ends(made: "Fork") -> str:
    if made.parent_changed is None:
        return "it will end as its parent"
    return f"it continues with {made.config.method.name}, as its parent did until round {made.parent_changed}"


def _as_json(made: "Fork", parent: Path, folder: Path) -> dict[str, Any]:
    return {
        "session": folder.name,
        "path": str(folder),
        "parent": hs.sessions.name_of(parent),
        "round": made.round,
        "rounds": made.config.rounds,
        "replayed": made.replayed,
        "changes": list(made.changes),
        "adopted": made.adopted,
    }
