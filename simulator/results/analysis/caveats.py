"""What to know before comparing groups of sessions: settings that differ, and what papers printed for them."""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import presets
from simulator.base.nested import flattened, merged
from simulator.config import Config
from simulator.results.analysis.axes import (
    CLOCK,
    IDLE,
    SEEDS,
    Key,
    group_label,
    groups,
    needs_clock,
    seeds_of,
    settings_of,
    spelled,
    varying,
)
from simulator.results.analysis.ledger import Divergence
from simulator.results.analysis.overview import Origins, origins
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.static_names import titles

Said = TypeVar("Said", bound=Hashable)
_IDLE = ("evaluation.batch_size", "evaluation.parts", "evaluation.classes", "training.on_divergence")
_SECTIONS = ("data", "federation", "selection", "models", "training", "evaluation", "unseen", "wire")

_WITHOUT_CLOCK = {"system.schedule": "synchronous", "system.availability": "always"}
"""The settings of a clock under which a run gives the bits of a run without one."""


def alike(said: Iterable[tuple[str, Said]]) -> dict[Said, list[str]]:
    """The labels of which the same is said, by what is said."""
    found: dict[Said, list[str]] = {}
    for label, each in said:
        found.setdefault(each, []).append(label)
    return found


@dataclass(frozen=True)
class Printed:
    """A printed accuracy, 0…1; None where the paper says that the run failed to converge. `place`: paper, table, row.

    `other`: in what the session differs from what was printed: '', 'other data set', 'other settings', or both;
    `details`: each such setting as 'rounds 20 (paper: 100)'.
    """

    accuracy: float | None
    place: str
    other: str
    details: tuple[str, ...]


def printed(runs: Sequence[SessionData]) -> tuple[Printed, ...]:
    """What papers printed for the preset of these sessions; nothing where they are of several, or of another method.

    Of a method's own settings those are compared that the preset sets: the others' defaults are known only with torch.
    """
    named = {(run.config.get("preset"), run.config.get("profile") or presets.PAPER) for run in runs}
    if len(named) != 1:
        return ()
    name, profile = named.pop()
    if name not in presets.names():
        return ()
    preset = presets.load(str(name), profile)
    if any(run.config["method"]["name"] != preset.config.get("method", {}).get("name") for run in runs):
        return ()
    usual, found = flattened(merged(defaults(), preset.config)), dict[str, str]()
    for run in runs:
        known = flattened(run.config)
        clock = [key for key, value in _WITHOUT_CLOCK.items() if known.get(key, value) != value]
        found |= {f"{key} {_said(known[key])} (paper: not set)": key for key in clock if key not in usual}
        found |= {
            f"{key} {_said(known[key])} (paper: {_said(value)})": key
            for key, value in usual.items()
            if key in known and key not in (*_IDLE, *SEEDS) and _listed(known[key]) != _listed(value)
        }
    kinds = {"data set" if key == "data.dataset" else "settings" for key in found.values()}
    other = f"other {' and '.join(sorted(kinds))}" if kinds else ""
    return tuple(
        Printed(None if each.accuracy is None else each.accuracy / 100, each.place, other, tuple(found))
        for each in preset.paper
    )


@cache
def defaults() -> dict[str, Any]:
    """Every setting's default, but for the method's own."""
    fields = Config.model_fields
    return {"rounds": fields["rounds"].default} | {
        name: fields[name].default.model_dump(mode="json") for name in _SECTIONS
    }


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _said(value: Any) -> str:
    return "not set" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


_NO_RESULT = (
    *SEEDS, "session", "method", "method.name", "data.dataset", "evaluation.batch_size", "evaluation.parts",
    "evaluation.metrics", "evaluation.metrics_for", "evaluation.classes", "training.on_divergence",
)  # fmt: skip
"""What is no setting of data or training, or stands under another name."""
_MOST = 8
"""Settings named in one sentence."""
_LISTED = 24
"""Groups or sessions named in one sentence."""
_FEW = 3
"""Values of a setting that a sentence names, and groups behind a value."""

_SEEDED = {
    "seed.data": "the data",
    "seed.init": "the first weights",
    "seed.training": "the draws of training",
}
"""What each seed decides."""

Configs = Mapping[str, Sequence[Mapping[str, Any]]]
"""The configurations of each group's sessions, by the group's label."""


def rows_differ(configs: Configs, by: Collection[str], groups: str = "Rows") -> list[str]:
    """One sentence on the training and data settings that differ between groups, or nothing.

    The axes `by` are left out, and so is a method's own setting unless groups of one method differ in it. A setting
    that an older session does not have counts as its default.
    """
    words = [f"{name}: {_values(values)}" for name, values in differing(configs, by).items()]
    more = f"; and {len(words) - _MOST} more settings" if len(words) > _MOST else ""
    ranges = any(" values from " in each for each in words[:_MOST])
    advice = " Group by such a setting too to see each value." if ranges else ""
    return [f"{groups} differ in {'; '.join(words[:_MOST])}{more}.{advice}"] if words else []


def differing(configs: Configs, by: Collection[str]) -> dict[str, dict[str, tuple[Any, ...]]]:
    """Every such setting by its dotted key, with each group's values by the group's label."""
    left_out = {*_NO_RESULT, *by} | ({"dataset"} if "data.dataset" in by else set())
    flat = {
        label: [settings_of(merged(defaults(), each)) for each in every] for label, every in configs.items()
    }
    names = dict.fromkeys(name for every in flat.values() for one in every for name in one)
    found = {}
    for name in names:
        if name in left_out or name.startswith(IDLE):
            continue
        values = {
            label: _ordered(one.get(name) for one in every)
            for label, each in flat.items()
            if (every := [one for one in each if not needs_clock(name) or one[CLOCK] != "none"])
        }
        of_methods: dict[object, set[tuple[Any, ...]]] = {}
        for label, own in values.items():
            method = name.startswith("method.") and _ordered(one.get("method") for one in flat[label])
            of_methods.setdefault(method, set()).add(own)
        if any(len(each) > 1 for each in of_methods.values()):
            found[name] = values
    return found


def listed(words: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b, and c'; of very many, the first and how many others."""
    if len(words) > _LISTED:
        words = [*words[:_LISTED], f"{len(words) - _LISTED} more"]
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])}, and {words[-1]}"


def divergences(groups: Iterable[tuple[str, Sequence[Divergence]]]) -> list[str]:
    """What to know of groups of sessions, by their labels: a sentence for all groups of which the same is true."""
    said = []
    for label, each in groups:
        all_of = Divergence.over(each)
        count = all_of.untrained or all_of.sessions
        some = f" {count} of {all_of.n} sessions" if all_of.n > 1 else ""
        text = f"clients diverged{some and f' in{some}'} ({all_of}), and kept their models of before."
        if all_of.untrained:
            text = f"every client diverged in every round{some and f' of{some}'}, and kept its first model."
        said += [(label, (all_of.untrained > 0, text))] if all_of else []
    return [
        f"{listed(labels)}{(' have' if len(labels) > 1 else ' has') + ' no score' if failed else ''}: {text}"
        for (failed, text), labels in alike(said).items()
    ]


def unfinished(runs: Sequence[SessionData]) -> list[str]:
    """Which sessions have not finished, and that trials stand alone."""
    left = [
        f"{run.name} ({run.totals.rounds} of {run.rounds} rounds)"
        for run in runs
        if run.totals.rounds < run.rounds and run.state != "finished"  # a goal may end it before
    ]
    found = [f"Not finished: {listed(left)}."] if left else []
    if any(run.trial is not None for run in runs):
        found.append("Trials of a tuning study are not seeds, so each trial stands alone.")
    return found


Members = Mapping[str, Sequence[tuple[tuple[int, int, int], Origins]]]
"""The sessions of each group by its label: the seeds of data, initial weights, and training, and the origins."""


def members(groups: Mapping[str, Sequence[SessionData]]) -> Members:
    return {
        label: [(seeds_of(run.config), origins(run)) for run in group] if len(group) > 1 else []
        for label, group in groups.items()
    }


def dependent(groups: Members) -> list[str]:
    """What sessions of one group share although their seeds differ, so that they are not independent."""
    shared = alike((label, _shared(each)) for label, each in groups.items() if len(each) > 1)
    return [
        f"Within {listed(labels)}, {what}. So the true spread is larger than ± says."
        for what, labels in shared.items()
        if what
    ]


def _shared(each: Sequence[tuple[tuple[int, int, int], Origins]]) -> str:
    """'sessions share the data (seed.data 0) and the first weights (seed.init 0)'; '' of independent sessions."""
    common: dict[str, list[tuple[str, int]]] = {}
    for _, known in each:
        for id, (name, rounds) in known.items():
            if rounds:
                common.setdefault(id, []).append((name, rounds))
    of = max(common.values(), key=lambda found: (len(found), min(r for _, r in found)), default=[])
    who, what = "sessions share", list[str]()
    if len(of) > 1:
        name, rounds = of[0][0], min(rounds for _, rounds in of)
        who = who if len(of) == len(each) else f"{len(of)} of {len(each)} sessions share"
        what = ["the data", "the first weights", f"rounds 1 to {rounds} of {name}"]
    else:
        seeds = {seeds for seeds, _ in each}
        for place, (key, meaning) in enumerate(_SEEDED.items()):
            values = {each[place] for each in seeds}
            if len(values) == 1 < len(seeds):
                what.append(f"{meaning} ({key} {values.pop()})")
            elif len(values) < len(seeds):
                what.append(f"{meaning} in part ({len(values)} values of {key})")
    return f"{who} {listed(what)}" if what else ""


def titled(by: Sequence[str], key: Key) -> str:
    """A group in words, with the names of papers: 'FedLoRA, mu 0.7'."""
    names = titles()
    shown = (names.get(each, each) if axis == "method" else each for axis, each in zip(by, key, strict=True))
    return group_label(by, tuple(shown))


def caveats(runs: Sequence[SessionData], by: Sequence[str]) -> list[str]:
    """What to know of sessions that are drawn in groups: what diverged, which settings differ, and what is averaged."""
    found = {titled(by, key): group for key, group in groups(runs, by).items()}
    configs = {label: [run.config for run in each] for label, each in found.items()}
    known = {label: [Divergence.of(run.totals) for run in each] for label, each in found.items()}
    notes = [*divergences(known.items()), *rows_differ(configs, by, "Groups"), *averaged(found)]
    return [*notes, *dependent(members(found)), *unfinished(runs)]


def averaged(
    by_label: Mapping[str, Sequence[SessionData]], remedy: str = "Group by these to separate them."
) -> list[str]:
    """Which groups are means over several settings, and not over seeds alone."""
    said = [
        (label, f"a mean over {number} settings of {', '.join(differ)}")
        for label, runs in by_label.items()
        for differ in [varying(runs)]
        if (number := len(groups(runs, differ))) > 1
    ]
    return [
        f"{listed(labels)} {'is' if len(labels) == 1 else 'are each'} {what}. {remedy}"
        for what, labels in alike(said).items()
    ]


Note = tuple[str, str, str]
"""A group's label, what is to be known of it, and a detail."""


def joined(notes: Iterable[Note]) -> list[str]:
    """One sentence for all groups of which the same is to be known: 'fedgh and fedlora: several sessions of seed 0.'"""
    found: dict[str, dict[str, str]] = {}
    for label, text, detail in notes:
        found.setdefault(text, {})[label] = detail
    return [
        f"{listed([*of])}: {': '.join(filter(None, (text, *details)))}."
        if len(details := {*of.values()}) == 1
        else f"{text[0].upper()}{text[1:]}: {listed([f'{label} ({detail})' for label, detail in of.items()])}."
        for text, of in found.items()
    ]


def _values(by_group: Mapping[str, tuple[Any, ...]]) -> str:
    """'32 (fedgh), 64 (others)': each value with its groups; '5 values from 0.01 to 0.2' if these would be too many."""
    labels = alike(by_group.items())
    most = max(labels, key=lambda values: len(labels[values]))
    ordered = sorted(labels, key=lambda values: tuple(map(_place, values)))
    if len(labels) > _FEW or any(len(labels[values]) > _FEW for values in labels if values != most):
        return f"{len(labels)} values from {_worded(ordered[0])} to {_worded(ordered[-1])}"
    return ", ".join(
        f"{_worded(values)} ({'others' if values == most and len(labels[values]) > 1 else '; '.join(labels[values])})"
        for values in ordered
    )


def worded(value: Any) -> str:
    """A value of a setting in a sentence."""
    return "not set" if value is None else spelled(value)


def _worded(values: tuple[Any, ...]) -> str:
    return " and ".join(map(worded, values))


def _ordered(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(sorted(set(values), key=_place))


def _place(value: Any) -> tuple[bool, bool, float, str]:
    """Numbers by their size, then texts, then what is not set."""
    number = isinstance(value, int | float)
    return value is None, not number, float(value) if number else 0.0, spelled(value)
