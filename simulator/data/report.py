"""The report of what was read of a data set: counts, features, what was left out, and what looks odd."""

from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np

from simulator.base.documents import Report
from simulator.base.errors import DataError
from simulator.base.nested import toml_value
from simulator.data.samples import LabeledSet, Labels, Reading

MOST_LISTED = 100
"""The maximum number of names in a list that a session records."""
LONGEST = 300
"""The maximum number of characters of a name or sentence that a session records."""


def report_of(samples: LabeledSet, read: Reading) -> Report:
    """The report of a sample set, and of what was said when it was read and formed."""
    return {
        "samples": len(samples),
        "test": len(samples) - samples.test_from,
        "classes": _counts(samples.classes, samples.labels),
        "domains": _counts(samples.domains, samples.domain),
        "clients": _counts(samples.users, samples.user),
        "features": samples.features(),
        "left_out": dict(read.left_out),
        "notes": list(read.notes),
        "warnings": list(read.warnings),
    }


def _counts(names: Sequence[str], numbers: Labels | None) -> dict[str, int]:
    if numbers is None:
        return {}
    return dict(zip(names, np.bincount(numbers, minlength=len(names)).tolist(), strict=True))


def check(report: Report, dataset: str) -> None:
    """Raise DataError for samples on which an accuracy says nothing."""
    held = [name for name, count in report["classes"].items() if count]
    if len(held) < 2:
        raise DataError(
            f"{dataset} has a single class, '{''.join(held)}', so every answer is right. Use data with two classes or "
            "more, or a setting that reads them: `htfl-sim config data.labels`."
        )
    texts = sorted(((count, name) for name, count in report["features"].items() if count), reverse=True)
    ones, rows = sum(count for count, _ in texts), report["samples"]
    if 2 * ones > rows:
        drop, left = [name for name in report["left_out"] if name not in report["features"]], ones
        for count, name in texts:
            if 2 * left > rows:
                drop.append(name)
                left -= count
        way = f"Leave out columns of many different texts: `data.ignore={toml_value(drop)}`"
        if {*report["features"]} <= {*drop}:
            way = f"Train on the texts of one column instead: `data.text={texts[0][1]}`"
        raise DataError(
            f"{dataset}: texts would become {ones:,} columns of zeros and ones, more than half of its {rows:,} rows. "
            f"{way}."
        )


def recorded(report: Report) -> Report:
    """The report as session.json keeps it: long lists are cut, and names are printable."""

    def counts(found: Mapping[str, int]) -> dict[str, int]:
        return {_plain(name): count for name, count in islice(found.items(), MOST_LISTED)}

    return {
        **report,
        "classes": counts(report["classes"]),
        "domains": counts(report["domains"]),
        "clients": counts(report["clients"]),
        "features": counts(report["features"]),
        "left_out": {
            _plain(name): _plain(why) for name, why in islice(report["left_out"].items(), MOST_LISTED)
        },
        "notes": [_plain(each) for each in report["notes"][:MOST_LISTED]],
        "warnings": [_plain(each) for each in report["warnings"][:MOST_LISTED]],
        "numbers": {
            key: len(report[key])
            for key in ("classes", "domains", "clients", "features", "left_out", "warnings")
        },
    }


def _plain(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text[:LONGEST])
