"""Figures by client, as records have them: a list with an entry for each, or an object of those there is news of.

A list is easy to read. With 10,000 clients it takes a megabyte per round, of which ten entries are new. So a record
may name clients instead: {"3": 0.5, "17": 0.75}. A client that is not named kept its accuracy, had no loss, or sent no
bytes. `evaluation.metrics_for` decides. A session's ledger may have records of both kinds.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from simulator.base.record import Record

Values = Sequence[Any] | Mapping[Any, Any]
"""Figures by client in either form; as read from JSON the clients of an object are texts."""


def items(values: Values) -> Iterator[tuple[int, Any]]:
    """Client and figure, of all that are there, ascending by client."""
    if isinstance(values, Mapping):
        return iter(sorted((int(client), value) for client, value in values.items()))
    return iter(enumerate(values))


def of(values: Values, client: int, otherwise: Any = None) -> Any:
    """The figure of one client; `otherwise` of one that is not named."""
    if isinstance(values, Mapping):
        return values.get(client, values.get(str(client), otherwise))
    return values[client]


def written(
    values: Mapping[int, Any], clients: int | None, otherwise: Any = None
) -> list[Any] | dict[str, Any]:
    """The figures as a record has them: a list for so many `clients`, or an object where that is None."""
    if clients is None:
        return {str(client): values[client] for client in sorted(values)}
    return [values.get(client, otherwise) for client in range(clients)]


def known(
    before: Mapping[str, Any] | None, now: Mapping[int, Any], absent: Collection[int] = ()
) -> dict[int, Any]:
    """The figures of all present clients that have one: those of the record before, and on top of them those of now."""
    found = {**dict(items(before["per_client"] if before else ())), **now}
    there = [client for client in sorted(found) if found[client] is not None and client not in absent]
    return {client: found[client] for client in there}


def arrived(record: Record) -> list[int]:
    """The clients that a round gave the state they trained, ascending: not those in flight, lost, or diverged."""
    if "time" in record:
        flights = record["time"]["flights"]
        return sorted({flight["client"] for flight in flights if flight["fate"] != "lost"})
    sent = {client for client, size in items(record["bytes"]["per_client_up"]) if size}
    sent |= {*record["participants"], *record.get("dropped", ())}
    return sorted(sent.difference(record.get("diverged", ())))


def trained(records: Iterable[Record]) -> frozenset[int]:
    """The clients that one of these rounds gave the state they trained."""
    return frozenset().union(*map(arrived, records))


def standing(records: Iterable[Record], before: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """The last record's `accuracy` and `evaluation`, with every figure by client that was measured so far, or None."""
    known = None if before is None else dict(before)
    for record in records:
        last = known or {}
        known = {
            "accuracy": _following(last.get("accuracy"), record["accuracy"]),
            "evaluation": {
                part: _measured(last.get("evaluation", {}).get(part, {}), measured)
                for part, measured in record.get("evaluation", {}).items()
            },
        }
    return known


def _measured(before: Mapping[str, Any], measured: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _measured(before.get(name, {}), figure)
        if name == "metrics"
        else _following(before.get(name), figure)
        for name, figure in measured.items()
    }


def _following(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> dict[str, Any]:
    """A figure whose record goes on from the one before: what it says of clients on top of what was known of them."""
    values = now["per_client"]
    told = dict(items(values))
    stays = before["per_client"] if before and isinstance(values, Mapping) else {}
    return {**now, "per_client": {**stays, **told}}
