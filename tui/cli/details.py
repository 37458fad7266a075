"""`htfl-sim show`: one session in full."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import checkpoints
from checkpoints import Command, DiskError, SessionUnreadable, UnfinishedRound
from simulator.analysis import static_names
from simulator.analysis.summary import Summary
from simulator.analysis.well_formed import well_formed
from simulator.nested import toml_value
from simulator.sessions.reader import SessionReader
from tui.cli import options, output, running
from tui.cli.resume import described
from tui.common import folders, formatting
from tui.common.formatting import percent, size
from tui.common.sparkline import sparkline

EVENTS_SHOWN = 12
WIDEST = 60  # characters of the course of accuracies


def show(
    session: options.SessionArgument,
    round: Annotated[
        int | None,
        typer.Option("--round", metavar="R", help="The clients after this round.", show_default=False),
    ] = None,
    sessions_dir: options.SessionsDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Show a session: settings, switches, accuracy over the rounds, every client, traffic, events, checkpoints.

    Also while it runs, and from a folder that cannot be written.

    \b
    Examples
      htfl-sim show quickstart-20260102-101500
      htfl-sim show mu07 --round 10
      htfl-sim show mu07 --json | jq .record.accuracy.per_client
    """
    folder = folders.session_folder(session, folders.sessions_dir(sessions_dir))
    page = Page.read(folder, round)
    with well_formed(folder):
        if as_json:
            output.emit(page.to_json())
        else:
            output.show(*page.parts())


@dataclass(frozen=True)
class Page:
    """What `show` tells of a session; `record` is the chosen round's, None before the first."""

    summary: Summary
    document: dict[str, Any]
    records: list[dict[str, Any]]
    record: dict[str, Any] | None
    events: list[dict[str, Any]]
    checkpoints: list[int]
    history: list[dict[str, Any]]
    """The newest checkpoint's: what was in force from which round on."""
    children: list[dict[str, Any]]
    """The forks beside it, each with its name and the round."""
    faults: list[str]
    """What of the events cannot be read, as sentences."""
    pending: list[Command]
    unfinished: UnfinishedRound | None
    kept: str | None

    @classmethod
    def read(cls, folder: Path, round: int | None) -> "Page":
        """Raises SessionUnreadable when the session is damaged or has no record of the round."""
        reader = SessionReader(folder)
        records = reader.records()
        summary = Summary.read(folder, sized=True)
        if summary.error:
            raise SessionUnreadable(summary.error)
        return cls(
            summary,
            reader.document,
            records,
            _chosen(folder, records, round),
            reader.events(),
            reader.rounds(),
            reader.manifest().history if reader.rounds() else [],
            _children(folder, str(reader.document.get("id"))),
            reader.event_faults(),
            checkpoints.pending(folder),
            reader.unfinished_round(),
            running.unfinished(reader),
        )

    def to_json(self) -> dict[str, Any]:
        """The page for programs: the whole accuracy curve, and the chosen round's record as the ledger has it."""
        return self.summary.to_json() | {
            "config": self.document["config"],
            "settings": self._in_force(),
            "switches": [_switch(entry) for entry in self._switches()],
            "children": self.children,
            "pending": [asdict(command) for command in self.pending],
            "partial": self.unfinished
            and {"round": self.unfinished.round, "clients": running.kept_clients(self.unfinished)},
            "environment": self.document["environment"],
            "curve": [record["accuracy"]["mean"] for record in self.records],
            "record": self.record,
            "clients": self._clients(),
            "checkpoints": self.checkpoints,
            "events": self.events,
            "event_faults": self.faults,
        }

    def parts(self) -> list[Any]:
        """The page for people."""
        parts: list[Any] = [output.facts(self._facts())]
        if switches := [_switch(entry) for entry in self._switches()]:
            rows = [[each["from_round"], *_switch_cells(each)] for each in switches]
            parts += [
                output.heading("Switches"),
                output.table([">from round", "method", "changed", "state"], rows),
            ]
        if self.pending:
            rows = [[_time(each.at), each.kind, _asked(each), each.by] for each in self.pending]
            parts += [output.heading("Commands that wait"), output.table(["at", "command", "", "by"], rows)]
        if self.record:
            parts += [
                output.heading(f"Clients after round {self.record['round']}"),
                self._client_table(self.record),
            ]
            parts += [
                output.heading(f"Traffic of round {self.record['round']}"),
                output.facts(_traffic(self.record)),
            ]
        parts += [
            output.heading("Events"),
            output.table(["at", "event", ""], map(_event, self.events[-EVENTS_SHOWN:])),
            *(f"damaged: {fault}" for fault in self.faults[:EVENTS_SHOWN]),
        ]
        return parts

    def _facts(self) -> list[tuple[str, object]]:
        config, environment = self._in_force(), self.document["environment"]
        summary = self.summary
        return [
            ("session", f"{summary.name}  ({summary.path}, {size(summary.bytes)})"),
            ("state", f"{summary.state}, round {summary.round} of {summary.rounds}"),
            ("unfinished", self._unfinished()),
            ("created", summary.created),
            ("forked from", _place(summary.parent)),
            ("forks", ", ".join(f"{child['name']} at round {child['round']}" for child in self.children)),
            ("preset", config.get("preset")),
            ("methods", formatting.course(summary.methods) if len(summary.history) > 1 else None),
            ("method", _settings(config["method"])),
            *((name, _settings(config[name])) for name in ("data", "federation", "training", "evaluation")),
            ("wire", _disturbed(config.get("wire", {}))),
            *self._at_start(),
            ("plugin", (self._plugin() or {}).get("name")),
            ("seed", str(config["seed"])),
            ("environment", _settings(environment)),
            (
                "checkpoints",
                "round " + ", ".join(map(str, self.checkpoints)) if self.checkpoints else "none yet",
            ),
            ("accuracy", _curve([record["accuracy"]["mean"] for record in self.records])),
        ]

    def _in_force(self) -> dict[str, Any]:
        """The configuration as the switches left it."""
        from simulator.sessions.history import settings_in_force

        return settings_in_force(self.document, self.history)

    def _at_start(self) -> Iterator[tuple[str, object]]:
        """The sections that a switch has changed, as the session was made with them."""
        from simulator.sessions.history import SETTINGS

        made, now = self.document["config"], self._in_force()
        for name in ("method", *SETTINGS):
            before = made.get(name)
            if before is not None and before != now.get(name):
                yield f"{name} at first", _settings(before) if isinstance(before, dict) else str(before)

    def _plugin(self) -> dict[str, Any] | None:
        """The plugin of the method in force, if it has one."""
        plugin: dict[str, Any] | None = (self.history or [{}])[-1].get("plugin", self.document.get("plugin"))
        return plugin

    def _switches(self) -> list[dict[str, Any]]:
        return [entry for entry in self.history if "before" in entry]

    def _unfinished(self) -> str | None:
        """What is kept of the round under way; a switch that waits changes that round, and it is run from its start."""
        if self.kept and any(command.kind == "switch" for command in self.pending):
            return f"{self.kept}; but the switch that waits comes first, and has them train again"
        return self.kept

    def _clients(self) -> list[dict[str, Any]]:
        """One entry per client, of the chosen round; an accuracy or loss is None where the round has none."""
        if not self.record:
            return []
        group, record = self.document["config"]["federation"]["group"], self.record
        return [
            {
                "client": client,
                "model": static_names.assigned(group, client),
                "accuracy": accuracy,
                "loss": record["loss"]["per_client"][client],
                "up": record["bytes"]["per_client_up"][client],
                "down": record["bytes"]["per_client_down"][client],
                "took_part": client in record["participants"],
                "diverged": client in record.get("diverged", []),
                "dropped": client in record.get("dropped", []),
            }
            for client, accuracy in enumerate(record["accuracy"]["per_client"])
        ]

    def _client_table(self, record: dict[str, Any]) -> Any:
        columns = [">client", "model", ">accuracy", ">loss", ">up", ">down", ""]
        return output.table(columns, map(_client_row, self._clients()))


def _chosen(folder: Path, records: list[dict[str, Any]], round: int | None) -> dict[str, Any] | None:
    if round is None:
        return records[-1] if records else None
    found = next((record for record in records if record.get("round") == round), None)
    if found is None:
        has = f"rounds 1 to {records[-1].get('round')}" if records else "no round yet"
        raise SessionUnreadable(f"{folder} has no record of round {round}; it has {has}.")
    return found


def _children(folder: Path, id: str) -> list[dict[str, Any]]:
    """The forks of a session that lie in the same folder."""
    found, beside = [], []
    with suppress(DiskError):  # a folder that may be entered and not listed
        beside = checkpoints.sessions(folder.resolve().parent)
    for path in beside:
        try:
            parent = SessionReader(path).parent
        except (SessionUnreadable, DiskError, OSError):
            continue  # `sessions` calls it damaged
        if isinstance(parent, dict) and parent.get("id") == id:
            found.append({"name": path.name, "round": parent.get("round")})
    return found


def _place(parent: dict[str, Any] | None) -> str | None:
    return f"{parent['name']} at round {parent['round']}" if parent else None


def _switch(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of the history in a few words."""
    return {
        "from_round": entry["from_round"],
        "method": entry["method"]["name"],
        "before": entry["before"],
        "changes": list(entry["changes"]),
        "adopted": entry["adopted"],
    }


def _switch_cells(switch: dict[str, Any]) -> list[str]:
    same = switch["method"] == switch["before"]
    settings = [change for change in switch["changes"] if not change.startswith("method ")]
    name = switch["method"] if same else f"{switch['before']} → {switch['method']}"
    return [name, "; ".join(settings), switch["adopted"] or ""]


def _asked(command: Command) -> str:
    return described(command) if command.kind == "switch" else ""


def _client_row(client: dict[str, Any]) -> list[object]:
    loss = client["loss"]
    return [
        client["client"],
        client["model"],
        percent(client["accuracy"]),
        None if loss is None else f"{loss:.4f}",
        size(client["up"]),
        size(client["down"]),
        _remark(client),
    ]


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
    return [_time(event["at"]), event["event"], _settings(rest)]


def _time(at: object) -> str:
    return str(at)[:19].replace("T", " ")


def _remark(client: dict[str, Any]) -> str:
    if client["diverged"]:
        return "diverged"
    if client["dropped"]:
        return "uplink lost"
    return "" if client["took_part"] else "took no part"


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
