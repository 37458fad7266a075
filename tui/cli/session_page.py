"""What `htfl-sim show` tells of a session, for people and for programs."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from checkpoints import Command, SessionUnreadable, UnfinishedRound
from simulator.analysis.clients import ClientResult, results
from simulator.analysis.events import said
from simulator.analysis.feed import read
from simulator.analysis.lineage import forks_of
from simulator.analysis.milestones import Switch, switches
from simulator.analysis.run import Run
from simulator.analysis.summary import Summary
from simulator.nested import toml_value
from simulator.sessions.history import SETTINGS
from simulator.sessions.legacy import younger
from simulator.sessions.reader import SessionReader
from tui.cli import mailbox, output, running
from tui.cli.resume import described
from tui.common.formatting import course, number, percent, size
from tui.common.sparkline import sparkline

EVENTS_SHOWN = 12
WIDEST = 60  # characters of the course of accuracies


@dataclass(frozen=True)
class Page:
    """What `show` tells of a session; `record` is the chosen round's, None before the first."""

    run: Run
    summary: Summary
    record: dict[str, Any] | None
    forks: list[dict[str, Any]]
    """Those beside it, each with its name and the round."""
    unfinished: UnfinishedRound | None

    @classmethod
    def read(cls, folder: Path, round: int | None) -> "Page":
        """Raises SessionUnreadable when the session is damaged or has no record of the round."""
        run, summary = read(folder), Summary.read(folder, sized=True)
        if summary.error:
            raise SessionUnreadable(summary.error)
        record = run.record(round)
        if round is not None and record is None:
            has = f"rounds 1 to {run.round}" if run.round else "no round yet"
            raise SessionUnreadable(f"{folder} has no record of round {round}; it has {has}.")
        return cls(run, summary, record, forks_of(folder), SessionReader(folder).unfinished_round())

    def to_json(self) -> dict[str, Any]:
        """The page for programs: the whole accuracy curve, and the chosen round's record as the ledger has it."""
        run, unfinished = self.run, self.unfinished
        kept = unfinished and {"round": unfinished.round, "clients": running.kept_clients(unfinished)}
        return self.summary.to_json() | {
            "config": run.document["config"],
            "settings": run.config,
            "switches": [asdict(switch) for switch in switches(run)],
            "children": self.forks,
            "pending": [asdict(command) for command in run.pending],
            "partial": kept,
            "environment": run.document["environment"],
            "curve": [record["accuracy"]["mean"] for record in run.records],
            "record": self.record,
            "clients": [asdict(client) for client in self._clients()],
            "checkpoints": run.checkpoints,
            "events": run.events,
            "event_faults": run.event_faults,
        }

    def parts(self) -> list[Any]:
        """The page for people."""
        parts: list[Any] = [output.facts(self._facts())]
        if rows := [[each.from_round, *_switch_cells(each)] for each in switches(self.run)]:
            columns = [">from round", "method", "changed", "state"]
            parts += [output.heading("Switches"), output.table(columns, rows)]
        if rows := [[_time(each.at), each.kind, _asked(each), each.by] for each in self.run.pending]:
            parts += [output.heading("Commands that wait"), output.table(["at", "command", "", "by"], rows)]
        if self.record:
            round, columns = (
                self.record["round"],
                [">client", "model", ">accuracy", ">loss", ">up", ">down", ""],
            )
            parts += [
                output.heading(f"Clients after round {round}"),
                output.table(columns, map(_client_row, self._clients())),
                *_held_out(self.record),
                output.heading(f"Traffic of round {round}"),
                output.facts(_traffic(self.record)),
            ]
        events = map(_event, self.run.events[-EVENTS_SHOWN:])
        faults = (f"damaged: {fault}" for fault in self.run.event_faults[:EVENTS_SHOWN])
        return [*parts, output.heading("Events"), output.table(["at", "event", ""], events), *faults]

    def _facts(self) -> list[tuple[str, object]]:
        """The session's facts; "as before" are settings younger than it, which it goes on without."""
        run, summary, config = self.run, self.summary, self.run.config
        kept = "round " + ", ".join(map(str, run.checkpoints)) if run.checkpoints else "none yet"
        return [
            ("session", f"{summary.name}  ({summary.path}, {size(summary.bytes)})"),
            ("state", f"{summary.state}, round {summary.round} of {summary.rounds}"),
            ("unfinished", self._unfinished()),
            ("created", summary.created),
            ("tags", ", ".join(summary.tags) or None),
            ("forked from", _place(summary.parent)),
            ("forks", ", ".join(f"{fork['name']} at round {fork['round']}" for fork in self.forks)),
            ("preset", " ".join(filter(None, (config.get("preset"), config.get("profile")))) or None),
            ("methods", course(summary.methods) if len(summary.methods) > 1 else None),
            ("method", _settings(config["method"])),
            *((name, _settings(config[name])) for name in ("data", "federation", "training", "evaluation")),
            ("until", f"a mean accuracy of {percent(config['until'])}" if config.get("until") else None),
            ("wire", _disturbed(config.get("wire", {}))),
            *self._at_start(),
            ("as before", _settings(younger(run.document["config"]))),
            ("plugin", self._plugin()),
            ("seed", str(config["seed"])),
            ("environment", _settings(run.document["environment"])),
            ("checkpoints", kept),
            ("accuracy", _curve([record["accuracy"]["mean"] for record in run.records])),
        ]

    def _at_start(self) -> Iterator[tuple[str, object]]:
        """The sections that a switch has changed, as the session was made with them."""
        made = self.run.document["config"]
        for name in ("method", *SETTINGS):
            before = made.get(name)
            if before is not None and before != self.run.config.get(name):
                yield f"{name} at first", _settings(before) if isinstance(before, dict) else str(before)

    def _plugin(self) -> str | None:
        """The plugin of the method in force, if it has one."""
        latest = self.run.history[-1] if self.run.history else {}
        plugin = latest.get("plugin", self.run.document.get("plugin"))
        return plugin["name"] if plugin else None

    def _unfinished(self) -> str | None:
        """What is kept of the round under way; a switch that waits changes that round, and it is run from its start."""
        kept = running.unfinished(self.unfinished)
        now = [each for each in self.run.pending if (mailbox.at_round(each) or 0) <= self.run.round]
        if kept and any(command.kind == "switch" for command in now):
            return f"{kept}; but the switch that waits comes first, and has them train again"
        return kept

    def _clients(self) -> list[ClientResult]:
        group = self.run.document["config"]["federation"]["group"]
        return results(self.record, group) if self.record else []


def _place(parent: dict[str, Any] | None) -> str | None:
    return f"{parent['name']} at round {parent['round']}" if parent else None


def _switch_cells(switch: Switch) -> list[str]:
    settings = [change for change in switch.changes if not change.startswith("method ")]
    name = switch.method if switch.method == switch.before else f"{switch.before} → {switch.method}"
    return [name, "; ".join(settings), switch.adopted or ""]


def _asked(command: Command) -> str:
    return described(command) if command.kind == "switch" else ""


def _client_row(client: ClientResult) -> list[object]:
    return [
        client.client,
        client.model,
        percent(client.accuracy),
        number(client.loss, 4),
        size(client.up),
        size(client.down),
        _remark(client),
    ]


def _held_out(record: dict[str, Any]) -> list[Any]:
    """The means over clients on each part of their data; nothing where they were not measured."""
    recorded = record.get("evaluation", {})
    measured = {part: recorded[part] for part in ("test", "eval") if part in recorded}
    own = list(dict.fromkeys(name for figures in measured.values() for name in figures.get("metrics", {})))
    rows = [
        [
            part,
            percent(figures["accuracy"]["mean"]),
            number(figures["loss"]["mean"], 4),
            number(figures["f1"]["mean"], 4),
            *(number(figures.get("metrics", {}).get(name, {}).get("mean"), 4) for name in own),
        ]
        for part, figures in measured.items()
    ]
    columns = ["part", ">accuracy", ">loss", ">f1", *(f">{name}" for name in own)]
    title = f"Held-out parts after round {record['round']}, means over clients"
    return [output.heading(title), output.table(columns, rows)] if rows else []


def _traffic(record: dict[str, Any]) -> list[tuple[str, object]]:
    traffic = record["bytes"]
    totals = [
        (way, f"{size(traffic[way])}, {size(traffic[f'{way}_total'])} since round 1")
        for way in ("up", "down")
    ]
    return [*totals, *((name, size(count)) for name, count in traffic["by_tensor"].items())]


def _curve(means: list[float | None]) -> str | None:
    known = [mean for mean in means if mean is not None]
    if not known:
        return None
    ends = f"{percent(known[0])} → {percent(known[-1])}, best {percent(max(known))}"
    return f"{sparkline(means, min(len(means), WIDEST))}  {ends}"


def _event(event: dict[str, Any]) -> list[object]:
    rest = {key: value for key, value in event.items() if key not in ("at", "event")}
    told = (
        said(event) if event["event"] == "nodes" else _settings(rest)
    )  # whole environments, which --json has
    return [_time(event["at"]), event["event"], told]


def _time(at: object) -> str:
    return str(at)[:19].replace("T", " ")


def _remark(client: ClientResult) -> str:
    if client.diverged:
        return "diverged"
    if client.dropped:
        return "uplink lost"
    return "" if client.took_part else "took no part"


def _disturbed(wire: dict[str, Any]) -> str | None:
    """What disturbs the wire; nothing does, as a rule."""
    return _settings({key: value for key, value in wire.items() if value}) or None


def _settings(section: dict[str, Any]) -> str:
    """A section in one line: name first if it has one, values that are set."""
    pairs = {key: value for key, value in section.items() if value is not None and key != "name"}
    written = [
        f"{key}={value if isinstance(value, str) else toml_value(value)}" for key, value in pairs.items()
    ]
    return "  ".join([section["name"], *written] if "name" in section else written)
