"""The page of `htfl-sim show`, for people and for programs."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from htfl_sim.sessions import Details, changeable_sections
from htfl_sim.steering import at_round, described
from simulator.base.documents import Event
from simulator.base.nested import toml_value
from simulator.base.record import SCALARS, Record
from simulator.base.sections import PARTS
from simulator.results.analysis.axes import seed_words, seeds_of
from simulator.results.analysis.clients import ClientResult
from simulator.results.analysis.events import description as event_text
from simulator.results.analysis.ledger import Divergence
from tui.cli import output, running
from tui.cli.progress import switched
from tui.common import findings
from tui.common.formatting import (
    course,
    duration,
    in_unit,
    number,
    percent,
    size,
    span,
    sparkline,
    until_target,
)

EVENTS_SHOWN = 12
WIDEST = 60  # characters of the sparkline of accuracies


def parts(details: Details) -> list[Any]:
    """The page for people."""
    run, record = details.run, details.record
    parts: list[Any] = [output.facts(_facts(details))]
    if details.switches:
        cells: output.Cells = {">from round": "from_round", "method": lambda each: switched(each)[0]}
        cells |= {"changed": lambda each: "; ".join(switched(each)[1])}
        cells |= {"state": lambda each: each.adopted or ""}
        parts += [output.heading("Switches"), output.listing(details.switches, cells)]
    for effect in details.effects:
        parts += [
            output.heading(findings.effect_title(effect)),
            output.table(*findings.effect_table(effect)),
            *findings.effect_notes(effect),
        ]
    if rows := list(_timeline(details)):
        columns = [">round", "joined", "left", "data changed", ">present"]
        parts += [output.heading("Clients that joined, left, or changed"), output.table(columns, rows)]
    if run.pending:
        cells = {"at": lambda each: _time(each.at), "command": "kind"}
        cells |= {"": lambda each: described(each) if each.kind == "switch" else "", "by": "by"}
        parts += [output.heading("Commands that wait"), output.listing(run.pending, cells)]
    if record:
        round, lost = record["round"], Divergence.of(run.totals, record["round"]).untrained > 0
        cells = {">client": "client", "model": "model", ">accuracy": lambda each: percent(each.accuracy)}
        cells |= {">loss": lambda each: number(each.loss, 4), ">up": lambda each: size(each.up)}
        cells |= {">down": lambda each: size(each.down), "": lambda each: _remark(each, record)}
        parts += [
            output.heading(f"Clients after round {round}"),
            output.listing(details.clients, cells),
            *([] if lost else _held_out(record)),
            *_unseen(details, lost),
            output.heading(f"Numbers of round {round}"),
            output.facts(_numbers(record, lost)),
            output.heading(f"Traffic of round {round}"),
            output.facts(_traffic(record)),
        ]
        if "time" in record:
            heading = output.heading(f"Simulated time after round {round}")
            parts += [heading, output.facts(_simulated(details))]
    events = map(_event, run.events[-EVENTS_SHOWN:])
    faults = (f"damaged: {fault}" for fault in run.event_faults[:EVENTS_SHOWN])
    return [*parts, output.heading("Events"), output.table(["at", "event", ""], events), *faults]


def _timeline(details: Details) -> Iterator[list[object]]:
    """The rounds in which clients joined, left, or got other data, up to the one that is shown."""
    records = details.run.records[: details.record["round"] if details.record else 0]
    for record in records:
        if changes := record.get("timeline"):
            named = [", ".join(map(str, changes[key])) for key in ("joined", "left", "data")]
            yield [record["round"], *named, changes["present"]]


def _simulated(details: Details) -> list[tuple[str, object]]:
    """The clients' devices, and what all rounds took on the computed clock."""
    run = details.run
    times = [record["time"] for record in run.records if "time" in record]
    devices = Counter(run.document.get("devices", {}).get("names", []))
    fates = Counter(flight["fate"] for time in times for flight in time["flights"])
    joules = sum(time["joules"][kind] for time in times for kind in ("compute", "radio", "idle"))
    ages = Counter[int]()
    for time in times:
        ages.update({int(age): number for age, number in time["staleness"].items()})
    used = sum(ages.values())
    return [
        ("devices", ", ".join(f"{number} {name}" for name, number in devices.items()) or None),
        ("time", duration(times[-1]["ends"])),
        ("energy", f"{joules:.4g} J"),
        ("dispatches", ", ".join(f"{number} {fate}" for fate, number in fates.items())),
        ("in flight", times[-1]["in_flight"] or None),
        ("mean age", f"{sum(a * n for a, n in ages.items()) / used:.2f} rounds" if used else None),
    ]


def _facts(details: Details) -> list[tuple[str, object]]:
    """The session's facts. "as before" are settings that are newer than the session, with the values that it keeps."""
    run, summary, config = details.run, details.summary, details.run.config
    means = [record["accuracy"]["mean"] for record in run.records]
    kept = "round " + ", ".join(map(str, run.checkpoints)) if run.checkpoints else "none yet"
    parent, selection = summary.parent, config.get("selection", {})
    if selection.get("strategy") != "utility":  # which alone has options
        selection = {key: value for key, value in selection.items() if key == "strategy"}
    plugin = run.document.get("plugin")
    if run.history:
        plugin = run.history[-1].get("plugin", plugin)
    disturbed = {key: value for key, value in config.get("wire", {}).items() if value}
    return [
        ("session", f"{summary.name}  ({summary.path}, {size(summary.bytes)})"),
        ("state", f"{summary.state}, round {summary.round} of {summary.rounds}"),
        ("unfinished", _unfinished(details)),
        ("created", summary.created),
        ("tags", ", ".join(summary.tags)),
        ("note", summary.note),
        ("forked from", f"{parent['name']} at round {parent['round']}" if parent else None),
        ("forks", ", ".join(f"{fork['name']} at round {fork['round']}" for fork in details.forks)),
        ("preset", " ".join(filter(None, (config.get("preset"), config.get("profile"))))),
        ("methods", course(summary.methods) if len(summary.methods) > 1 else None),
        ("method", _settings(config["method"])),
        *((name, _settings(config[name])) for name in ("data", "federation", "training", "evaluation")),
        ("until", f"a mean accuracy of {percent(config['until'])}" if config.get("until") else None),
        ("until time", span(config["until_time"]) if config.get("until_time") else None),
        ("wire", _settings(disturbed)),
        ("system", _settings(config.get("system") or {})),
        ("unseen clients", _settings(config.get("unseen", {}))),
        ("selection", _settings(selection)),
        *_at_start(details),
        ("as before", _settings(details.as_before)),
        ("plugin", plugin["name"] if plugin else None),
        ("seed", seed_words(*seeds_of(config))),
        ("environment", _settings(run.document["environment"])),
        ("checkpoints", kept),
        ("target" if config.get("until") else "reached", until_target(details.standing)),
        ("accuracy", None if Divergence.of(run.totals).untrained else _curve(means)),
        ("diverged", running.diverged(run.records)),
    ]


def _at_start(details: Details) -> Iterator[tuple[str, object]]:
    """The sections that a switch has changed, with their first values."""
    made = details.run.document["config"]
    for name in ("method", *changeable_sections()):
        before = made.get(name)
        if before is not None and before != details.run.config.get(name):
            yield f"{name} at first", _settings(before) if isinstance(before, dict) else str(before)


def _unfinished(details: Details) -> str | None:
    """The kept part of the unfinished round. A waiting switch changes that round, which then starts again."""
    kept = running.unfinished(details.unfinished)
    now = [each for each in details.run.pending if (at_round(each) or 0) <= details.run.round]
    if kept and any(command.kind == "switch" for command in now):
        return f"{kept}; but the switch that waits comes first, and has them train again"
    return kept


def _held_out(record: Record) -> list[Any]:
    """The means over clients on each part of their data. Parts without a value are left out."""
    recorded = record.get("evaluation", {})
    measured = {part: recorded[part] for part in PARTS if part in recorded}
    own = list(dict.fromkeys(name for figures in measured.values() for name in figures.get("metrics", {})))
    rows = []
    for part, figures in measured.items():
        metrics = figures.get("metrics", {})
        means = [figures["loss"]["mean"], figures["f1"]["mean"]]
        means += [metrics[name]["mean"] if name in metrics else None for name in own]
        rows.append([part, percent(figures["accuracy"]["mean"]), *(number(each, 4) for each in means)])
    columns = ["part", ">accuracy", ">loss", ">f1", *(f">{name}" for name in own)]
    title = f"Held-out parts after round {record['round']}, means over clients"
    return [output.heading(title), output.table(columns, rows)] if rows else []


def _unseen(details: Details, lost: bool) -> list[Any]:
    """Unseen clients as the round, or the last one before it that measured them, has them.

    lost: the participating clients have learned nothing, so that their mean is no result.
    """
    round = details.record["round"] if details.record else 0
    measured = [each for each in details.run.records[:round] if "unseen" in each]
    if not measured:
        return []
    record = measured[-1]
    unseen, models = record["unseen"], details.run.models
    moments = [unseen["before"], unseen["after"], unseen["alone"]]
    rows: list[list[object]] = [
        [client, models[client], *(percent(each["per_client"].get(str(client))) for each in moments)]
        for client in unseen["clients"]
    ]
    rows += [["mean", "", *(percent(each["mean"]) for each in moments)]]
    columns = [">client", "model", ">before", ">adapted", ">alone"]
    mean = f"Participating clients: {percent(unseen['participating'])} on average."
    title = f"Unseen clients after round {record['round']}"
    return [output.heading(title), output.table(columns, rows), *([] if lost else [mean])]


def _numbers(record: Record, lost: bool) -> list[tuple[str, object]]:
    """The scalars that have a name. `lost`: accuracies of clients that have learned nothing are no result."""
    named = [each for each in SCALARS if each.title and not (lost and each.unit == "share")]
    return [
        (each.title, in_unit(value, each.unit)) for each in named if (value := each.of(record)) is not None
    ]


def _traffic(record: Record) -> list[tuple[str, object]]:
    traffic = record["bytes"]
    totals = [
        ("up", f"{size(traffic['up'])}, {size(traffic['up_total'])} since round 1"),
        ("down", f"{size(traffic['down'])}, {size(traffic['down_total'])} since round 1"),
    ]
    return [*totals, *((name, size(count)) for name, count in traffic["by_tensor"].items())]


def _curve(means: list[float | None]) -> str | None:
    known = [mean for mean in means if mean is not None]
    if not known:
        return None
    best = max(known)
    ends = (
        f"{percent(known[0])} → {percent(known[-1])}, best {percent(best)} in round {means.index(best) + 1}"
    )
    return f"{sparkline(means, min(len(means), WIDEST))}  {ends}"


def _event(event: Event) -> list[object]:
    match event["event"]:
        case "nodes":  # it has complete environments, which --json prints
            told = event_text(event)
        case "noticed":
            told = f"round={event['round']}  {event_text(event)}"
        case _:
            told = _settings({key: value for key, value in event.items() if key not in ("at", "event")})
    return [_time(event["at"]), event["event"], told]


def _time(at: object) -> str:
    return str(at)[:19].replace("T", " ")


def _remark(client: ClientResult, record: Record) -> str:
    if client.diverged:
        return "diverged"
    if client.dropped:
        return "uplink lost"
    unseen = record["unseen"]["clients"] if "unseen" in record else ()
    return "" if client.took_part else "unseen" if client.client in unseen else "took no part"


def _settings(section: dict[str, Any]) -> str:
    """A section in one line: the name first, if it has one, then the values that are set."""
    pairs = {key: value for key, value in section.items() if value is not None and key != "name"}
    written = [f"{key}={each if isinstance(each, str) else toml_value(each)}" for key, each in pairs.items()]
    return "  ".join([section["name"], *written] if "name" in section else written)
