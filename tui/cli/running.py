"""Carrying an opened session on: what is said before, while and after its rounds run."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from checkpoints import UnfinishedRound
from simulator.sessions.reader import SessionReader
from tui.cli import output
from tui.common.errors import DIVERGED, OutputClosed
from tui.common.formatting import percent, size

if TYPE_CHECKING:
    from simulator.progress import Observer
    from simulator.sessions.session import RunOutcome, Session

Mention = Callable[[str], str]
"""From a command to the words to type: `resume x` → `htfl-sim resume x --sessions-dir …`."""


def carry_out(session: "Session", mention: Mention, drawn: bool | None, as_json: bool) -> None:
    """Run an opened session to its end, or until a signal or the command `stop`.

    Raises typer.Exit with 129, 130 or 143 after a signal, and with 6 when a client diverged and that was to stop it.
    """
    from simulator.sessions.signals import Signals
    from tui.cli import progress

    before = session.round
    output.tell(_opening(session))
    shown = progress.display(session.config.rounds, before, session.record, drawn)
    with Signals() as signals:
        observers: list[Observer] = [progress.Stopping(lambda: signals.stop, shown.say), shown]
        if as_json:
            observers.append(progress.Records())
        try:
            with shown:
                outcome = session.run(
                    progress.together(observers),
                    stop=lambda: signals.stop,
                    checkpoint=signals.take_checkpoint,
                )
        except OutputClosed:
            output.say(
                f"stopped: nobody reads the records any more. Go on: {mention(f'resume {session.folder.name}')}"
            )
            raise
        output.tell(_closing(session, outcome, before, mention))
    if outcome.state == "stopped" and outcome.reason != "stop":
        raise typer.Exit(signals.exit_code or DIVERGED)


def mention(
    sessions_dir: Path | None,
    plugins: Sequence[Path] | None,
    models: Sequence[Path] | None = None,
    metrics: Sequence[Path] | None = None,
) -> Mention:
    """Says a command to type next, with the sessions folder where it was given by option, and files for a resume."""
    where = f" --sessions-dir {sessions_dir}" if sessions_dir else ""
    files = {"plugin": plugins, "model": models, "metric": metrics}
    given = "".join(f" --{option} {file}" for option, named in files.items() for file in named or ())
    return lambda command: f"htfl-sim {command}{given if command.startswith('resume ') else ''}{where}"


def model_files(models: Sequence[str] | None) -> list[Path]:
    """The files among models as `run` takes them: of mynets.py:MyNet, mynets.py."""
    files = [name.rpartition(".py:")[0] for name in models or ()]
    return [Path(f"{file}.py") for file in dict.fromkeys(files) if file]


def _opening(session: "Session") -> Any:
    from simulator.builder import select_device

    config = session.config
    group = config.federation.group
    models = group if isinstance(group, str) else ", ".join(group)
    start = f", going on after round {session.round}" if session.round else ""
    return output.facts(
        [
            ("session", f"{session.folder.name}  ({session.folder}){start}"),
            ("method", config.method.name),
            ("data", f"{config.data.dataset}, {config.data.partition}"),
            ("clients", f"{config.federation.clients} of {models}, {config.federation.participants} a round"),
            ("device", select_device(config.runtime.device)),
        ]
    )


def _closing(session: "Session", outcome: "RunOutcome", before: int, mention: Mention) -> Any:
    reader = SessionReader(session.folder)
    records = reader.records()
    name = session.folder.name
    resumes = mention(f"resume {name}") if outcome.state == "stopped" else None
    pairs: list[tuple[str, object]] = [
        (outcome.state, f"round {outcome.round} of {session.config.rounds}{_why(outcome)}"),
        ("kept", unfinished(reader.unfinished_round())),
    ]
    if records:
        last, best = records[-1], max(records, key=lambda record: record["accuracy"]["mean"] or 0.0)
        seconds = [record["timing"]["seconds"] for record in records[before:]]
        traffic = last["bytes"]
        pairs += [
            ("accuracy", f"{percent(last['accuracy']['mean'])} mean over clients"),
            ("best", f"{percent(best['accuracy']['mean'])} in round {best['round']}"),
            ("traffic", f"↑ {size(traffic['up_total'])} ↓ {size(traffic['down_total'])}"),
            ("a round", f"{sum(seconds) / len(seconds):.2f} s" if seconds else None),
        ]
    return output.facts([*pairs, ("go on", resumes), ("look", mention(f"show {name}"))])


def _why(outcome: "RunOutcome") -> str:
    if outcome.state == "finished":
        return f": {outcome.reason}" if outcome.reason else ""
    by = "the command stop" if outcome.reason == "stop" else outcome.reason
    return f", by {by}; its checkpoint is written"


def unfinished(unfinished: UnfinishedRound | None) -> str | None:
    """What is kept of the round that a stop cut short, in words; None when nothing is."""
    if unfinished is None:
        return None
    clients = kept_clients(unfinished)
    are = "client is" if len(clients) == 1 else "clients are"
    named = ", ".join(map(str, clients))
    return f"{len(clients)} {are} done with round {unfinished.round}, not to be trained again: {named}"


def kept_clients(unfinished: UnfinishedRound) -> list[int]:
    """The clients of an unfinished round that have finished it."""
    return sorted(int(client) for client in unfinished.note.get("clients", {}))
