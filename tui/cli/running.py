"""`htfl-sim run`, `resume`, and `fork`, and the output before, during, and after the rounds of an opened session."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import htfl_sim as hs
from htfl_sim.choices import HOW, SCALE, WHAT, WHERE, Choices, Runner, Until, UntilTime, Watch
from simulator.base.record import Record
from tui.cli import completion, options, output, steer
from tui.cli.options import Option, dry_run, flag
from tui.common import findings
from tui.common.errors import DIVERGED, WATCHED, OutputClosed
from tui.common.formatting import percent, size

if TYPE_CHECKING:
    from htfl_sim.running import Config, RunOutcome, Session
    from htfl_sim.sessions import UnfinishedRound
    from simulator.base.documents import Report
    from simulator.engine.progress import Event, Observer

Mention = Callable[[str], str]
"""From a command to the line to type: `resume x` → `htfl-sim resume x --sessions-dir …`."""
_NEED_USER_FILES = ("resume ", "sweep ", "tune ")
"""Commands whose lines repeat the options of the user's files."""


SESSION = "Name of the new session. Default: a generated name."
DRY_RUN = "Only check the settings and print what would run."
TIMING_ONLY = "Only draw the rounds on the computed clock, without training."


def run(
    choices: Choices,
    session: Annotated[str | None, Option(SESSION, metavar="NAME", panel=WHERE)] = None,
    tag: options.Tags = (),
    *,
    places: options.Folders,
    dry_run: Annotated[bool, dry_run(DRY_RUN, HOW)] = False,
    timing_only: Annotated[bool, flag(TIMING_ONLY, "--timing-only", panel=HOW)] = False,
    machine: options.Machine,
    runner: Runner = None,
    watch: Watch = (),
    progress: options.Progress = None,
    as_json: options.Records = False,
) -> None:
    """Run a federation from its first round to its last, with a checkpoint after every round.

    Ctrl-C lets the clients at work finish, writes a checkpoint, and exits.
    `resume` continues from there, and the results are those of a run that
    never stopped. Steer it from another terminal: pause, switch, fork, stop.

    \b
    Examples
      htfl-sim run                   quickstart: no download, seconds a round
      htfl-sim run --preset fedgh_htm5 --dataset fashion_mnist --rounds 10
      htfl-sim run --method fedavg --clients 20 --set training.epochs=2
      htfl-sim run --set method.mu=0.7 --session mu07 --tag paper
      htfl-sim run --rounds 500 --until 0.9     at most 500, to 90 % accuracy
      htfl-sim run --rounds 500 --until-time 2h --set system.devices=phone
      htfl-sim run --rounds 500 --watch plateau:action=stop --watch collapse
      htfl-sim run --set 'federation.group=["cnn1","cnn3"]'
      htfl-sim run --config mine.toml --json > records.jsonl
      htfl-sim run --preset fedgh_htm5 --dry-run
      htfl-sim run --plugin my_method.py --method median_head
      htfl-sim run --runner ray --set runtime.address=auto
      htfl-sim run --model cnn1 --model mynets.py:MyNet --metric top2.py
    """
    name = hs.folders.checked_name(session) if session is not None else None
    tags = list(map(hs.folders.checked_tag, tag))
    how: dict[str, Any] = {"device": machine.device, "workers": machine.workers, "runner": runner}
    settings = replace(choices, **how, watch=watch).read()

    from htfl_sim.configuring import check_names, new_name
    from tui.cli.machine import fetch_missing

    check_names(settings)
    folder = hs.folders.sessions_dir(places.sessions_dir)
    folder = folder / (name or new_name(settings, folder, datetime.now().astimezone()))
    if dry_run:
        rehearse(settings, folder, places.data_dir, as_json)
        return
    fetch_missing(settings.data.dataset, places.data_dir)
    if timing_only:
        draw(settings, places.data_dir, as_json)
        return
    from htfl_sim.running import begin

    how = {"data_dir": places.data_dir, "allow_inexact": machine.allow_inexact, "tags": tags}
    with begin(settings, folder, **how) as opened:
        carry_out(opened, mention(places.sessions_dir, choices.files.options()), progress, as_json)


MORE_ROUNDS = "New number of rounds. Extends a finished session."


def resume(
    session: options.SteerableArgument,
    rounds: Annotated[int | None, Option(MORE_ROUNDS, least=1, metavar="N", panel=SCALE)] = None,
    until: Until = None,
    until_time: UntilTime = None,
    *,
    own: options.Own,
    places: options.Folders,
    machine: options.Machine,
    runner: Runner = None,
    set_: options.MachineSettings = (),
    steal: options.Steal = False,
    progress: options.Progress = None,
    as_json: options.Records = False,
) -> None:
    """Resume a paused session, or a stopped one from its last checkpoint.

    The data must not have changed. The number of workers is free; another
    device gives close but not bit-identical results: see --allow-inexact.
    Waiting switches happen before the next round. A study's name resumes
    its paused sweep.

    \b
    Examples
      htfl-sim resume quickstart-20260102-101500
      htfl-sim resume mu07 --workers 8
      htfl-sim resume mu07 --rounds 200
      htfl-sim resume mu07 --until 0.95
      htfl-sim resume /mnt/big/sessions/mu07 --device cuda --allow-inexact
      htfl-sim resume mu07 --set training.precision=float32 --allow-inexact
    """
    if study := hs.folders.study_folder(session, places.sessions_dir):
        if not hs.steering.is_live(study):
            raise hs.ConfigError(
                f"No process runs the study {study.name}. Continue it: "
                f"`htfl-sim {hs.folders.continues(study)} {study.name}`."
            )
        steer.ask(hs.steering.resume, study, as_json=False)
        return
    folder = hs.folders.own_session(session, places.sessions_dir)
    if hs.steering.is_live(folder) and not steal:
        given: dict[str, Any] = {"--rounds": rounds, "--until": until, "--until-time": until_time}
        given |= {"--plugin": own.plugins or None, "--model": own.models or None}
        given |= {"--metric": own.metrics or None, "--selection": own.selections or None}
        given |= {"--data-dir": places.data_dir, "--device": machine.device, "--workers": machine.workers}
        given |= {"--runner": runner, "--set": set_ or None, "--allow-inexact": machine.allow_inexact or None}
        given |= {"--progress": progress, "--json": as_json or None}
        _continue_paused(folder, [option for option, value in given.items() if value is not None])
        return
    changed = [*([f"runtime.runner={runner}"] if runner else []), *set_]
    from simulator.sessions.history import overrides

    overrides(machine.workers, machine.device, changed, folder)  # refused before torch is imported

    from htfl_sim.running import extend, reopen

    own.load()
    if rounds is not None or until is not None or until_time is not None:
        extend(folder, rounds, until, until_time)
    waiting = hs.steering.waiting_switches(folder)
    how: dict[str, Any] = {"data_dir": places.data_dir, **asdict(machine)}
    how |= {"settings": changed, "steal": steal}
    with reopen(folder, **how) as opened:
        output.warn(opened.warnings)
        for command in waiting:
            output.say(hs.steering.prospect(folder, command, opened.finished))
        if opened.finished:
            why, remedy = f"round {opened.round} was its last", "More rounds: --rounds N."
            if opened.goal_reached:
                why = opened.goal_reached
                remedy = "More rounds: a higher goal, or 0 to run all: --until, --until-time."
            output.say(f"{hs.folders.name_of(folder)} is finished: {why}. {remedy}")
            return
        carry_out(opened, mention(places.sessions_dir, own.options()), progress, as_json)


def _continue_paused(folder: Path, options_given: list[str]) -> None:
    """Resume a live session if it is paused. Raises Locked otherwise."""
    who, state, name = *hs.steering.owner_of(folder), hs.folders.typed(folder)
    if state not in ("paused", "pausing"):
        raise hs.errors.Locked(
            f"{folder} is in use by {who}: it is {state} and needs no resume. See how far it is with "
            f"`htfl-sim show {name}`. If that machine is dead, add --steal."
        )
    if options_given:
        raise hs.ConfigError(
            f"{folder} is only paused, by {who}. {', '.join(options_given)} needs a restart: leave that out, "
            f"or stop it first: `htfl-sim stop {name}`. To change settings, use `htfl-sim switch {name}`."
        )
    steer.ask(hs.steering.resume, folder, as_json=False)


AT_ROUND = "Last round that both sessions share. 0: the beginning."
METHOD = "Method of the new session from that round on."
SEED = "Random seed of the new rounds. The partition of the data stays."
ROUNDS = "Number of rounds, counted from round 1."


def fork(
    session: options.SessionArgument,
    at_round: Annotated[int, Option(AT_ROUND, "--at-round", least=0, metavar="R", panel=WHAT)],
    name: Annotated[str, Option("The new session's name.", "--session", metavar="NEW", panel=WHAT)],
    method: Annotated[
        str | None, Option(METHOD, metavar="M", complete=completion.methods, panel=WHAT)
    ] = None,
    seed: Annotated[int | None, Option(SEED, metavar="S", panel=SCALE)] = None,
    rounds: Annotated[int | None, Option(ROUNDS, least=1, metavar="N", panel=SCALE)] = None,
    assignments: options.Assignments = (),
    run: Annotated[bool, flag("Run the new session at once, as `resume` would.", "--run")] = False,
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
    from htfl_sim.configuring import check_keys
    from simulator.sessions.reader import CheckedReader

    CheckedReader(parent).check_round(at_round)
    check_keys(parent, method, assignments, at_round)

    from htfl_sim.running import branch, reopen
    from tui.cli.progress import display

    quick = {"seed": seed, "rounds": rounds}
    given = [f"{key}={value}" for key, value in quick.items() if value is not None]
    how: dict[str, Any] = {"data_dir": places.data_dir, **asdict(machine)}
    typed = mention(places.sessions_dir, own.options())
    with ExitStack() as replaying:
        shown: list[Any] = []  # usually, no round is run again

        def observe(event: "Event") -> None:
            if not shown:
                output.say(f"no checkpoint of round {at_round} is kept: running rounds up to it again")
                shown.append(replaying.enter_context(display(at_round, 0, None, progress)))
            shown[0](event)

        settings = [*given, *assignments]
        made = branch(parent, folder, at_round, method=method, assignments=settings, observe=observe, **how)
    output.warn(made.warnings)
    again = "1 round was" if made.replayed == 1 else f"{made.replayed} rounds were"
    checked = "not compared with the parent's" if machine.allow_inexact else "with the parent's very results"
    ends = "it will end as its parent"
    if made.parent_changed is not None:
        now = made.config.method.name
        ends = f"it continues with {now}, as its parent did until round {made.parent_changed}"
    name_of_parent = hs.folders.name_of(parent)
    facts = {
        "forked": f"{folder.name}  ({folder}) from {name_of_parent} at round {made.round}",
        "replayed": f"{again} run again, {checked}" if made.replayed else None,
        "changed": "; ".join(made.changes) or f"nothing: {ends}",
        "state": made.adopted,
        "rounds": made.config.rounds,
        "go on": None if run else typed(f"resume {name}"),
    }
    output.tell(output.facts(facts))
    if not run:
        if as_json:
            told: dict[str, Any] = {"session": folder.name, "path": str(folder), "parent": name_of_parent}
            told |= {"round": made.round, "rounds": made.config.rounds, "replayed": made.replayed}
            output.emit(told | {"changes": made.changes, "adopted": made.adopted}, indent=None)
        return
    with reopen(folder, **how) as opened:
        carry_out(opened, typed, progress, as_json)


def carry_out(session: "Session", mention: Mention, drawn: bool | None, as_json: bool) -> None:
    """Run an opened session to its end, or until a signal or the command `stop`.

    Raises typer.Exit with 129, 130, or 143 after a signal, with 6 if a diverged client stops the run, and with 10 if
    a watcher does.
    """
    from htfl_sim.shown import Signals
    from simulator.results.analysis.overview import Summary
    from tui.cli import progress

    name, before = hs.folders.name_of(session.folder), session.round
    start = f", going on after round {before}" if before else ""
    facts = _facts(session.config, session.report)
    output.tell(output.facts([("session", f"{name}  ({session.folder}){start}"), *facts]))
    best, untrained = None, False
    if before:
        so_far = Summary.read(session.folder)
        best, untrained = so_far.best_round, so_far.untrained
    else:
        warn(session.config, session.report)
    shown = progress.display(session.config.rounds, before, session.record, drawn, best, untrained)
    with Signals() as signals:
        observers: list[Observer] = [progress.Stopping(lambda: signals.stop, shown.say), shown]
        if as_json:
            observers.append(progress.records)

        def observe(event: "Event") -> None:
            for observer in observers:
                observer(event)

        try:
            with shown:
                outcome = session.run(observe, stop=lambda: signals.stop, checkpoint=signals.take_checkpoint)
        except OutputClosed:
            go_on = mention(f"resume {name}")
            output.say(f"stopped: nobody reads the records any more. Go on: {go_on}")
            raise
        output.tell(_closing(session, outcome, before, mention))
    if outcome.state == "stopped" and outcome.reason != "stop":
        raise typer.Exit(signals.exit_code or (WATCHED if outcome.by_watcher else DIVERGED))


def mention(sessions_dir: Path | None, files: Iterable[str] = ()) -> Mention:
    """A function from a command to the line to type, with the sessions folder and the options of the user's files."""
    where = f" --sessions-dir {sessions_dir}" if sessions_dir else ""
    given = "".join(f" {each if each.startswith('--') else shlex.quote(each)}" for each in files)
    return lambda command: f"htfl-sim {command}{given if command.startswith(_NEED_USER_FILES) else ''}{where}"


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
    numbers = [key for key, value in rounds[-1].items() if isinstance(value, int | float)]
    total = {key: sum(each[key] for each in rounds) for key in numbers}
    ages: Counter[int] = Counter()
    for each in rounds:
        ages.update({int(age): number for age, number in each["staleness"].items()})
    by_age = ", ".join(f"{age}: {ages[age]:,}" for age in sorted(ages))
    if len(ages) > 10:
        mean = sum(age * number for age, number in ages.items()) / ages.total()
        by_age = f"{mean:.1f} on average, at most {max(ages)}"
    clients = len(rounds) * (config.federation.clients - config.federation.unseen_clients)
    fates = ", ".join(f"{total[fate]:,} {fate}" for fate in ("used", "late", "stale", "lost"))
    flops = total["used_flops"] + total["wasted_flops"]
    facts = {
        "rounds": f"{len(rounds):,}",
        "simulated time": f"{rounds[-1]['ends']:,.1f} s",
        "participation": f"{percent(total['sent'] / clients)} of the clients in a round",
        "uplinks": f"{fates}, {rounds[-1]['in_flight']:,} under way",
        "age in rounds": by_age,
        "wasted FLOPs": percent(total["wasted_flops"] / flops if flops else 0.0),
        "traffic": size(total["bytes"]),
        "energy": f"{total['joules']:,.1f} J",
    }
    output.show(output.facts(facts))


def warn(config: "Config", report: "Report | None" = None) -> None:
    """Print a warning for what looks odd in the data, and for settings without effect or that reduce the accuracy."""
    from htfl_sim.running import cautions

    output.warn([*(report["warnings"] if report else ()), *cautions(config)])


def _facts(config: "Config", report: "Report | None") -> list[tuple[str, object]]:
    from htfl_sim.running import device_of

    group = config.federation.group
    unseen = f", {config.federation.unseen_clients} unseen" if config.federation.unseen else ""
    models = group if isinstance(group, str) else ", ".join(group)
    return [
        ("method", config.method.name),
        ("data", f"{config.data.dataset}, {config.data.partition}"),
        ("read", None if report is None else findings.data_summary(report)),
        (
            "clients",
            f"{config.federation.clients} of {models}, {config.federation.participants} a round{unseen}",
        ),
        ("device", device_of(config)),
    ]


def _closing(session: "Session", outcome: "RunOutcome", before: int, mention: Mention) -> Any:
    from simulator.results.analysis.ledger import Divergence, totals_of
    from simulator.sessions.reader import CheckedReader

    reader, name = CheckedReader(session.folder), hs.folders.name_of(session.folder)
    records, why = reader.records(), f": {outcome.reason}" if outcome.reason else ""
    if outcome.state != "finished":
        by = "the command stop" if outcome.reason == "stop" else outcome.reason
        why = f", by {by}; its checkpoint is written"
    resumes = mention(f"resume {name}") if outcome.state == "stopped" else None
    pairs: list[tuple[str, object]] = [
        (outcome.state, f"round {outcome.round} of {session.config.rounds}{why}"),
        ("kept", unfinished(reader.unfinished_round())),
    ]
    if records:
        last, best = records[-1], max(records, key=lambda record: record["accuracy"]["mean"] or 0.0)
        seconds = [record["timing"]["seconds"] for record in records[before:]]
        traffic = last["bytes"]
        if not Divergence.of(totals_of(records)).untrained:
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


def diverged(records: Sequence[Record]) -> str | None:
    """The clients whose losses were no longer finite, in words; None if there are none."""
    from simulator.results.analysis.ledger import Divergence, totals_of

    count = Divergence.of(totals_of(records))
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
    from htfl_sim.sessions import kept_clients

    clients = kept_clients(unfinished)
    are = "client is" if len(clients) == 1 else "clients are"
    named = ", ".join(map(str, clients))
    return f"{len(clients)} {are} done with round {unfinished.round}, not to be trained again: {named}"
