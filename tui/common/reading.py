"""What was read of a data set, in words."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.base.documents import Report

SHOWN = 12
"""Names that are listed of one kind."""


def summary(report: "Report") -> str:
    """The report in one line."""
    parts = [f"{report['samples']:,} samples", _number(report, "classes", "class", "classes")]
    parts += [
        _number(report, key, noun)
        for key, noun in (("domains", "domain"), ("clients", "user"), ("features", "feature"))
        if report[key]  # type: ignore[literal-required]
    ]
    if report["left_out"]:
        parts.append(f"left out: {_names(report, 'left_out')}")
    return ", ".join(parts)


def facts(report: "Report") -> Iterator[tuple[str, str]]:
    """The report line by line. Warnings are left out."""
    test = f", {report['test']:,} of them for testing" if report["test"] else ""
    yield "samples", f"{report['samples']:,}{test}"
    for key, label in (("classes", "classes"), ("domains", "domains"), ("clients", "users")):
        if counts := report[key]:  # type: ignore[literal-required]
            yield label, _listed(report, key, {name: f"{name} ({count:,})" for name, count in counts.items()})
    if kinds := report["features"]:
        yield (
            "features",
            _listed(report, "features", {name: f"{name} ({_kind(texts)})" for name, texts in kinds.items()}),
        )
    for note in report["notes"]:
        yield "read", note
    for name, why in list(report["left_out"].items())[:SHOWN]:
        yield "left out", f"{name}: {why}"
    if (more := _count(report, "left_out") - SHOWN) > 0:
        yield "left out", f"and {more:,} more"


def _kind(texts: int) -> str:
    return f"{texts:,} text{'s' * (texts > 1)}" if texts else "numbers"


def _count(report: "Report", key: str) -> int:
    held: Mapping[str, object] = report[key]  # type: ignore[literal-required]
    return report.get("numbers", {}).get(key, len(held))


def _number(report: "Report", key: str, noun: str, plural: str = "") -> str:
    count = _count(report, key)
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def _names(report: "Report", key: str) -> str:
    return _listed(report, key, {name: name for name in report[key]}, 3)  # type: ignore[literal-required]


def _listed(report: "Report", key: str, names: Mapping[str, str], most: int = SHOWN) -> str:
    count = _count(report, key)
    number = f"{count:,}: " if most == SHOWN else ""
    more = f", and {count - most:,} more" if count > most else ""
    return number + ", ".join(list(names.values())[:most]) + more
