"""A session's other JSON, and a study's points.json, as types. Objects may have more keys: later versions add some.

docs/ledger.md says what the keys of session.json and of manifests mean.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NotRequired

from typing_extensions import TypedDict

from checkpoints import limits
from checkpoints.schema import (
    Also,
    Amount,
    Holds,
    InJson,
    Many,
    Named,
    Natural,
    Object,
    Positive,
    SessionDocument,
    Sha256,
    Share,
    Text,
    Within,
    checked,
    keys,
)
from simulator.base.record import Client, Flight, Notice

MAX_SAMPLES = 10**12

Scalar = None | bool | int | float | str
Section = Annotated[Object, Also(dict[str, Scalar | list[Scalar]])]
_Tables = Annotated[Object, Also(dict[str, Scalar | list[Scalar] | list[dict[str, Scalar | list[Scalar]]]])]
"""A section that may have lists of tables."""
Rounds = Annotated[int, Within(ge=1, le=limits.ROUNDS)]
Counts = Many[Annotated[int, Within(ge=0, le=MAX_SAMPLES)]]

# Settings

_METHOD = Also(keys(name=Text))
CHANGEABLE = {
    "rounds": Rounds,
    "until": NotRequired[Share | None],
    "until_time": NotRequired[Amount | None],
    **dict.fromkeys(("training", "evaluation", "wire", "cka", "checkpoint", "watch"), NotRequired[Section]),
}
"""What a switch can change, with the form that it has in a session's JSON."""
_CHECKPOINT = keys(
    keep_last=NotRequired[Positive], keep_every=NotRequired[Positive | None], keep_best=NotRequired[bool]
)
_CONFIGURATION = {
    **CHANGEABLE,
    "preset": NotRequired[str | None],
    "seed": int | dict[str, int],
    "method": Annotated[Object, _METHOD],
    "data": Annotated[Object, Also(keys(dataset=str))],
    "federation": Annotated[
        Object,
        Also(keys(clients=Annotated[int, Within(ge=1, le=limits.CLIENTS)], group=str | list[str])),
    ],
    "training": Section,
    "evaluation": Section,
    "checkpoint": Annotated[Section, Also(_CHECKPOINT)],
}
"""A whole configuration, as far as listings need it. Whoever resumes a session reads it with `Config.read`."""
_OF_SESSION = keys(method=Section, data=Section, federation=_Tables, runtime=NotRequired[Section])
_OF_POINT = keys(runtime=Annotated[Object, Also(keys(threads_per_client=Positive))])

# session.json


class Plugin(TypedDict):
    """A file that a method or a model comes from."""

    name: str
    sha256: Sha256


class OwnFile(TypedDict):
    """A file of the user's."""

    kind: str
    name: str
    sha256: Sha256


class Parent(TypedDict):
    """The session that a fork was made of, and the round it begins after."""

    id: str
    name: str
    round: Natural


class Samples(TypedDict):
    classes: Many[str]
    train: Many[Counts]
    test: Counts


class Devices(TypedDict):
    names: Many[str]
    correlations: dict[str, float | None]


class _Inputs(TypedDict):
    kind: Text


Counted = Named[Natural]


class Report(TypedDict):
    """What was read of the data set. session.json has up to 100 names of each kind."""

    samples: Natural
    """samples that were read"""
    test: Natural
    """of these, samples of the data set's own test set"""
    classes: Counted
    """samples by class"""
    domains: Counted
    """samples by domain"""
    clients: Counted
    """samples by user, for partition 'natural'"""
    features: Counted
    """columns of a table: the number of their different texts, 0 for numbers"""
    left_out: Named[Text]
    """columns, files, and folders that were not read, with the reasons"""
    notes: Many[Text]
    """how the source was read"""
    warnings: Many[Text]
    """sentences about what looks odd"""
    numbers: NotRequired[Counted]
    """the whole number of names of each kind"""


class Configured(TypedDict):
    """What has a whole configuration."""

    config: Annotated[Object, Also(keys(**_CONFIGURATION), _OF_SESSION)]


class Document(SessionDocument, Configured):
    """session.json, without its seal."""

    parent: Parent | None
    environment: dict[str, Scalar]
    method_files: NotRequired[dict[str, Sha256]]
    data_fingerprint: str
    fingerprint: NotRequired[Sha256 | None]
    inputs: NotRequired[Annotated[Object, Also(_Inputs)]]
    parameters: NotRequired[dict[str, Natural]]
    samples: NotRequired[Samples | None]
    unknown: NotRequired[dict[str, Positive]]
    read: NotRequired[Report]
    devices: NotRequired[Devices]
    plugin: Plugin | None
    model_plugins: NotRequired[dict[str, Plugin]]
    files: NotRequired[list[OwnFile]]


def check_document(document: Mapping[str, Any]) -> Document:
    """The same, which is a session.json; raises ValueError, saying what is wrong and where."""
    found = checked(Document, document)
    if (samples := found.get("samples")) is not None:
        clients, classes = found["config"]["federation"]["clients"], len(samples["classes"])
        if not len(samples["train"]) == len(samples["test"]) == clients:
            raise ValueError(f"samples are of other clients than these {clients}")
        if any(len(counts) != classes for counts in samples["train"]):
            raise ValueError(f"samples.train is not of {classes} classes")
    return found


# Manifests and unfinished rounds


class Change(TypedDict, total=False):
    """How an entry of the history came about: a switch, or a fork with changes."""

    before: str
    changes: list[str]
    adopted: str | None
    command: str
    plugin: Plugin | None
    files: list[OwnFile]
    method_files: dict[str, Sha256]


class Entry(Change):
    """An entry of a checkpoint's history: what was in force from a round on."""

    from_round: Positive
    method: Annotated[Section, _METHOD]
    settings: NotRequired[Annotated[Object, Also(keys(**CHANGEABLE))]]


class Draws(TypedDict):
    """What the models that clients begin with are drawn from."""

    models: Natural
    beside: Natural
    method: Annotated[Section, _METHOD]


class Initial(Draws):
    """What those clients began with that a checkpoint does not name."""

    sha256: Sha256


class Finished(TypedDict):
    """What is noted of a finished client of an unfinished round."""

    losses: list[list[str | float]]
    flops: Natural
    seconds: NotRequired[Amount | None]


class Dispatched(Finished):
    """What is noted of a client whose uplink is in flight."""

    dispatch: Natural
    flight: NotRequired[Annotated[dict[str, Any], InJson(Flight)]]
    down: NotRequired[Natural]


class Note(TypedDict):
    """What is noted of an unfinished round: the history in force, and its finished clients."""

    history: list[Object]
    clients: dict[Client, Finished]


def check_history(history: object) -> list[Entry]:
    """The same, which is a checkpoint's history; raises ValueError."""
    found = checked(list[Entry], history, "history")
    for number, entry in enumerate(found):
        if "before" in entry and (missing := {"changes", "adopted"} - entry.keys()):
            raise ValueError(f"history[{number}].{max(missing)} is missing")
    rounds = [entry["from_round"] for entry in found]
    if rounds != sorted(rounds) or rounds[:1] not in ([], [1]):
        raise ValueError("history does not go on from round 1")
    return found


# Events


class Node(TypedDict):
    """A machine that clients are computed on."""

    node: Text
    workers: Natural
    environment: dict[str, Scalar]
    inexact: list[str]


Event = Object
"""A line of events.jsonl. Few keys are checked: events are told, not computed with."""
_EVENT = keys(at=Text, event=Text, round=NotRequired[Natural])
_KINDS = {
    "switched": keys(
        round=Natural,
        method=NotRequired[str],
        before=NotRequired[str],
        changes=list[str],
        adopted=str,
        command=NotRequired[str],
    ),
    "warning": keys(message=str),
    "nodes": keys(nodes=list[Node]),
    "noticed": Annotated[Object, Also(Notice, keys(round=Positive, action=Text))],
}


def check_event(event: Mapping[str, Any]) -> Event:
    """The same, which is an event; raises ValueError."""
    found: Event = checked(_EVENT, event)
    checked(_KINDS.get(found["event"], _EVENT), event)
    return found


# points.json


FolderName = Annotated[str, Holds(lambda name: name == Path(name).name and name not in (".", ".."))]
PointConfig = Annotated[Object, Also(keys(**_CONFIGURATION), _OF_POINT)]


class Link(TypedDict):
    """The session that a point uses instead of its own: its name in the sessions folder, and its fingerprint."""

    session: Text
    fingerprint: Sha256
