"""A session's numbers as tidy tables: one observation a row, one variable a column, for CSV files and data frames.

Accuracies are shares, 0…1; sizes are bytes; times are seconds. What there is not is None.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from simulator.base.record import SCALARS, Measured, Record, UnseenAccuracy, measures_of
from simulator.metrics import by_client
from simulator.results.analysis.clients import results
from simulator.results.analysis.run import SessionData

ROUND_COLUMNS = tuple(each.column for each in SCALARS if not each.optional)
"""After these: `PART_MEASURE` (`eval_accuracy`, `test_loss`, `test_f1` …) of a session that measured them,
`unseen_before`, `unseen_after`, and `unseen_alone` of one with unseen clients, the other scalars that the session has,
and `metric_NAME` for every figure of the method's own; empty in rounds that have none."""


CLIENT_COLUMNS: dict[str, str] = {
    "round": "from 1",
    "client": "from 0",
    "model": "its architecture",
    "took_part": "whether it took part in the round",
    "diverged": "whether its loss was no longer finite",
    "dropped": "whether its uplink was lost",
    "accuracy": "accuracy on its test samples; the last value if it was not evaluated in the round",
    "loss": "mean training loss of the first phase; missing if it did not take part",
    "bytes_up": "bytes that it sent in this round",
    "bytes_down": "bytes that it received in this round",
}
"""After these: `PART_MEASURE` of a session that measured them, and accuracies of unseen clients as of rounds."""

CKA_COLUMNS: dict[str, str] = {
    "round": "CKA was measured after this round",
    "layer": "the representation's name",
    "client": "from 0",
    "other": "the other client, with a higher number",
    "cka": "linear CKA of the two, 0…1",
}


@dataclass(frozen=True)
class Tidy:
    """A table: the names of its columns, and its rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, columns: Iterable[str], found: Sequence[Mapping[str, Any]]) -> "Tidy":
        """From rows by column; columns that only some of them have come after the given ones, as they are found."""
        names = tuple(dict.fromkeys([*columns, *(name for row in found for name in row)]))
        return cls(names, tuple(tuple(row.get(name) for name in names) for row in found))


def rounds(run: SessionData) -> Tidy:
    """A row a round: ROUND_COLUMNS, then what the session measured and the method's own figures."""
    return Tidy.of(ROUND_COLUMNS, [round_row(record) for record in run.records])


def clients(run: SessionData) -> Tidy:
    """A row for every round and client of whom it has figures: CLIENT_COLUMNS, then what the session measured."""
    group = run.config.get("federation", {}).get("group")
    return Tidy.of(CLIENT_COLUMNS, [row for record in run.records for row in client_rows(record, group)])


def cka(run: SessionData) -> Tidy:
    """A row for every measured round, layer and pair of clients that have the layer: CKA_COLUMNS."""
    return Tidy.of(CKA_COLUMNS, [row for record in run.records for row in cka_rows(record)])


SESSION_TABLES: dict[str, Callable[[SessionData], Tidy]] = {"rounds": rounds, "clients": clients, "cka": cka}
"""The tables that a session's ledger gives, by name."""


def round_row(record: Record) -> dict[str, Any]:
    row = {each.column: each.of(record) for each in SCALARS if not each.optional}
    row |= {name: measured.get("mean") for name, measured in _measured(record)}
    row |= {name: measured["mean"] for name, measured in _of_unseen(record)}
    optional = {each.column: each.of(record) for each in SCALARS if each.optional}
    row |= {column: value for column, value in optional.items() if value is not None}
    return row | {f"metric_{name}": value for name, value in record["method_metrics"].items()}


def client_rows(record: Record, group: object) -> list[dict[str, Any]]:
    """A record's rows of `clients`; `group` is federation.group of the settings."""
    rows = []
    for each in results(record, group):
        known = asdict(each) | {"round": record["round"], "bytes_up": each.up, "bytes_down": each.down}
        row = {name: known[name] for name in CLIENT_COLUMNS}
        row |= {
            name: by_client.of(measured["per_client"], each.client) for name, measured in _measured(record)
        }
        row |= {name: measured["per_client"].get(str(each.client)) for name, measured in _of_unseen(record)}
        rows.append(row)
    return rows


def cka_rows(record: Record) -> Iterator[dict[str, Any]]:
    """A record's rows of `cka`; none where it was not measured."""
    measured = record.get("cka")
    if not measured:
        return
    for layer, matrix in measured["matrix"].items():
        clients = measured.get("clients") or range(len(matrix))
        for place, row in enumerate(matrix):
            for other in range(place + 1, len(row)):
                if row[other] is not None:
                    yield {
                        "round": record["round"],
                        "layer": layer,
                        "client": clients[place],
                        "other": clients[other],
                        "cka": row[other],
                    }


def _of_unseen(record: Record) -> Iterator[tuple[str, UnseenAccuracy]]:
    if unseen := record.get("unseen"):
        yield "unseen_before", unseen["before"]
        yield "unseen_after", unseen["after"]
        yield "unseen_alone", unseen["alone"]


def _measured(record: Record) -> Iterator[tuple[str, Measured[float]]]:
    """What was measured on each part of the split, by name. Accuracy on the test part has columns of its own."""
    for part, measures in record.get("evaluation", {}).items():
        for name, values in measures_of(measures).items():
            if (part, name) != ("test", "accuracy"):
                yield f"{part}_{name.removeprefix('metrics.')}", values
