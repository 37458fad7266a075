"""Run an opened session, with the output before, during, and after its rounds."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import htfl_sim as hs
from simulator.base.record import Record
from tui.cli import output
from tui.common import reading
from tui.common.errors import DIVERGED, WATCHED, OutputClosed
from tui.common.formatting import percent, size

if TYPE_CHECKING:
    from htfl_sim.running import Config, RunOutcome, Session
    from htfl_sim.sessions import UnfinishedRound
    from simulator.base.documents import Report
    from simulator.engine.progress import Observer

Mention = Callable[[str], str]
"""From a command to the line to type: `resume x` → `htfl-sim resume x --sessions-dir …`."""
_RUNS = ("resume ", "sweep ", "tune ")
"""Commands that need the user's files again."""


def carry_out(session: "Session", mention: Mention, drawn: bool | None, as_json: bool) -> None:
    """Run an opened session to its end, or until a signal or the command `stop`.

    Raises typer.Exit with 129, 130, or 143 after a signal, with 6 if a diverged client stops the run, and with 10 if
    a watcher does.
    """
    from htfl_sim.interrupts import Signals
    from tui.cli import progress

    before = session.round
    output.tell(_opening(session))
    if not before:
        warn(session.config, session.report)
    so_far = hs.sessions.summary(session.folder) if before else None
    best, untrained = (so_far.best_round, so_far.untrained) if so_far else (None, False)
    shown = progress.display(session.config.rounds, before, session.record, drawn, best, untrained)
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
            go_on = mention(f"resume {hs.sessions.name_of(session.folder)}")
            output.say(f"stopped: nobody reads the records any more. Go on: {go_on}")
            raise
        output.tell(_closing(session, outcome, before, mention))
    if outcome.state == "stopped" and outcome.reason != "stop":
        raise typer.Exit(signals.exit_code or (WATCHED if outcome.by_watcher else DIVERGED))


def mention(sessions_dir: Path | None, files: Iterable[str] = ()) -> Mention:
    """A function from a command to the line to type, with the sessions folder and the options of the user's files."""
    where = f" --sessions-dir {sessions_dir}" if sessions_dir else ""
    given = "".join(f" {each if each.startswith('--') else shlex.quote(each)}" for each in files)
    return lambda command: f"htfl-sim {command}{given if command.startswith(_RUNS) else ''}{where}"


def model_files(models: Sequence[str] | None) -> list[Path]:
    """The files among the models of `run`: mynets.py of mynets.py:MyNet."""
    files = [name.rpartition(".py:")[0] for name in models or ()]
    return [Path(f"{file}.py") for file in dict.fromkeys(files) if file]


def selection_files(selection: str | None) -> list[Path]:
    """The file that selects, if it is not a strategy of htfl-sim."""
    return [Path(selection)] if selection is not None and selection.endswith(".py") else []


def rehearse(config: "Config", folder: Path, data_dir: str | None, as_json: bool) -> None:
    """Check the data and models of a run, and print what it would be. Writes and downloads nothing.

    Raises what the run would raise before its first round, except for what it would download.
    """
    from htfl_sim.running import rehearse as tried

    report, checked = None, ("checked", "data, models and method fit")
    try:
        report = tried(config, data_dir)
    except hs.catalog.NotDownloaded as missing:
        checked = ("not checked", str(missing))
    if as_json:
        output.emit({"session": folder.name, "path": str(folder), "config": config.to_json()})
        return
    facts = [("would make", f"{folder.name}  ({folder})"), *_facts(config, report)]
    output.show(output.facts([*facts, ("rounds", str(config.rounds)), checked]))
    warn(config, report)


def draw(config: "Config", data_dir: str | None, as_json: bool) -> None:
    """Print a run's rounds on the clock, drawn without training: a sum, or a line of JSON for each round."""
    from htfl_sim.running import timing

    rounds: list[dict[str, Any]] = []
    for each in timing(config, data_dir):
        rounds.append(each)
        if as_json:
            output.emit(each, indent=None)
    if as_json:
        return
    total = {
        key: sum(each[key] for each in rounds)
        for key in (
            "sent", "used", "late", "stale", "lost", "used_flops", "wasted_flops", "bytes", "joules"
        )
    }  # fmt: skip
    flops = total["used_flops"] + total["wasted_flops"]
    ages: Counter[int] = Counter()
    for each in rounds:
        ages.update({int(age): number for age, number in each["staleness"].items()})
    clients = len(rounds) * (config.federation.clients - config.federation.unseen_clients)
    fates = ", ".join(f"{total[fate]:,} {fate}" for fate in ("used", "late", "stale", "lost"))
    facts = [
        ("rounds", f"{len(rounds):,}"),
        ("simulated time", f"{rounds[-1]['ends']:,.1f} s"),
        ("participation", f"{percent(total['sent'] / clients)} of the clients in a round"),
        ("uplinks", f"{fates}, {rounds[-1]['in_flight']:,} under way"),
        ("age in rounds", _ages(ages)),
        ("wasted FLOPs", percent(total["wasted_flops"] / flops if flops else 0.0)),
        ("traffic", size(total["bytes"])),
        ("energy", f"{total['joules']:,.1f} J"),
    ]
    output.show(output.facts(facts))


def _ages(ages: Counter[int]) -> str:
    """Numbers of uplinks by age, or what they come to where there are many ages."""
    if len(ages) > 10:
        mean = sum(age * number for age, number in ages.items()) / ages.total()
        return f"{mean:.1f} on average, at most {max(ages)}"
    return ", ".join(f"{age}: {ages[age]:,}" for age in sorted(ages))


def warn(config: "Config", report: "Report | None" = None) -> None:
    """Print a warning for what looks odd in the data, and for settings without effect or that reduce the accuracy."""
    from htfl_sim.running import cautions

    output.warn([*(report["warnings"] if report else ()), *cautions(config)])


def _opening(session: "Session") -> Any:
    start = f", going on after round {session.round}" if session.round else ""
    return output.facts(
        [
            ("session", f"{hs.sessions.name_of(session.folder)}  ({session.folder}){start}"),
            *_facts(session.config, session.report),
        ]
    )


def _facts(config: "Config", report: "Report | None") -> list[tuple[str, object]]:
    from htfl_sim.running import device_of

    group = config.federation.group
    unseen = f", {config.federation.unseen_clients} unseen" if config.federation.unseen else ""
    models = group if isinstance(group, str) else ", ".join(group)
    return [
        ("method", config.method.name),
        ("data", f"{config.data.dataset}, {config.data.partition}"),
        ("read", None if report is None else reading.summary(report)),
        (
            "clients",
            f"{config.federation.clients} of {models}, {config.federation.participants} a round{unseen}",
        ),
        ("device", device_of(config)),
    ]


def _closing(session: "Session", outcome: "RunOutcome", before: int, mention: Mention) -> Any:
    from simulator.results.analysis.divergence import Divergence

    records, left = hs.sessions.records(session.folder), hs.sessions.unfinished_round(session.folder)
    name = hs.sessions.name_of(session.folder)
    resumes = mention(f"resume {name}") if outcome.state == "stopped" else None
    pairs: list[tuple[str, object]] = [
        (outcome.state, f"round {outcome.round} of {session.config.rounds}{_why(outcome)}"),
        ("kept", unfinished(left)),
    ]
    if records:
        last, best = records[-1], max(records, key=lambda record: record["accuracy"]["mean"] or 0.0)
        seconds = [record["timing"]["seconds"] for record in records[before:]]
        traffic = last["bytes"]
        if not Divergence.of_records(records).untrained:
            pairs += [
                ("accuracy", f"{percent(last['accuracy']['mean'])} mean over clients"),
                ("best", f"{percent(best['accuracy']['mean'])} in round {best['round']}"),
            ]
        pairs += [
            ("diverged", diverged(records)),
            ("traffic", f"↑ {size(traffic['up_total'])} ↓ {size(traffic['down_total'])}"),
            ("a round", f"{sum(seconds) / len(seconds):.2f} s" if seconds else None),
            ("memory", memory(records[before:])),
        ]
    return output.facts([*pairs, ("go on", resumes), ("look", mention(f"show {name}"))])


def _why(outcome: "RunOutcome") -> str:
    if outcome.state == "finished":
        return f": {outcome.reason}" if outcome.reason else ""
    by = "the command stop" if outcome.reason == "stop" else outcome.reason
    return f", by {by}; its checkpoint is written"


def diverged(records: Sequence[Record]) -> str | None:
    """The clients whose losses were no longer finite, in words; None if there are none."""
    from simulator.results.analysis.divergence import Divergence

    count = Divergence.of_records(records)
    if not count:
        return None
    lost = [
        record["round"]
        for record in records
        if record.get("diverged") and set(record["diverged"]) == set(record["participants"])
    ]
    smaller = "a smaller training.lr, or training.clip, may help"
    if count.untrained:
        return f"every client in every round: no model has learned anything, so there is no score; {smaller}"
    if lost and lost[-1] == records[-1]["round"]:
        return f"every client in the last round, and in {len(lost)} of {len(records)} rounds; {smaller}"
    return f"{count} of {len(records)}; their models stayed as they were"


def memory(records: Sequence[Record]) -> str | None:
    """The peak memory of these rounds, in words; None if no round has one."""
    host = max((record["timing"].get("memory", 0) for record in records), default=0)
    gpu = max((record["timing"].get("gpu_memory", 0) for record in records), default=0)
    if not host:
        return None
    return f"{size(host)} at most" + (f", and {size(gpu)} of tensors on the GPU" if gpu else "")


def unfinished(unfinished: "UnfinishedRound | None") -> str | None:
    """The kept part of the round that a stop interrupted, in words; None if there is none."""
    if unfinished is None:
        return None
    from htfl_sim.details import kept_clients

    clients = kept_clients(unfinished)
    are = "client is" if len(clients) == 1 else "clients are"
    named = ", ".join(map(str, clients))
    return f"{len(clients)} {are} done with round {unfinished.round}, not to be trained again: {named}"
