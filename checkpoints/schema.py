"""What the store's own files hold, as types that also check: `checked` compares JSON with one of them.

The rules in an annotation reach pydantic only when a value is checked, so a command that reads no session does not
import it. Checks are strict: `True` is no number and 1.0 no whole number. They never change the value.
"""

import functools
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, TypeVar, cast, get_args

from typing_extensions import TypedDict

from checkpoints import limits
from checkpoints.layout import HELD, KIND, PART, SHA256, TAG

T = TypeVar("T")
V = TypeVar("V")

# Rules for annotations


class Within:
    """Constraints that pydantic checks itself, as ge=0."""

    def __init__(self, **constraints: Any) -> None:
        self.constraints = constraints

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {**handler(source), **self.constraints}


class Spelled(Within):
    """A text that matches a pattern as a whole."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        super().__init__(pattern=f"^(?:{pattern.pattern})$")


class FirstFault:
    """Stop at the first fault in a list or an object: a file from a stranger may have millions."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        schema = handler(source)
        known = {"list": core_schema.ListSchema, "dict": core_schema.DictSchema}[schema["type"]]
        return {**schema, "fail_fast": True} if "fail_fast" in known.__annotations__ else schema


class Holds:
    """A value for which a function returns True."""

    def __init__(self, test: Callable[[Any], bool], fault: str = "is not as it should be") -> None:
        self.test, self.fault = test, fault

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        def check(value: Any) -> Any:
            if not self.test(value):
                raise ValueError(self.fault)
            return value

        return core_schema.no_info_after_validator_function(check, handler(source))


class Also:
    """A value that other types describe too, each of them whole."""

    def __init__(self, *kinds: Any) -> None:
        self.kinds = kinds

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        def unchanged(value: Any, inner: Callable[[Any], Any]) -> Any:
            inner(value)
            return value

        return core_schema.chain_schema(
            [
                core_schema.no_info_wrap_validator_function(unchanged, schema)
                for schema in (handler(source), *map(handler.generate_schema, self.kinds))
            ]
        )


class Unchecked:
    """A type for readers of the code alone."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.any_schema()


class ListOrNames:
    """Tell a list from an object by looking at it, so that a fault names the one that is there."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        each, names = map(handler.generate_schema, get_args(source))
        return core_schema.tagged_union_schema(
            {"[]": each, "{}": names}, lambda value: "{}" if type(value) is dict else "[]"
        )


def closed(kind: type[T]) -> type[T]:
    """An object that has no other keys."""
    kind.__pydantic_config__ = {"extra": "forbid"}  # type: ignore[attr-defined]
    return kind


# Values

Natural = Annotated[int, Within(ge=0)]
Positive = Annotated[int, Within(ge=1)]
Amount = Annotated[float, Within(ge=0)]
Share = Annotated[float, Within(ge=0, le=1)]
Text = Annotated[str, Holds(str.isprintable)]
"""It steers no terminal: no control characters."""
Sha256 = Annotated[str, Spelled(SHA256)]
Many = Annotated[list[V], FirstFault()]
Named = Annotated[dict[str, V], FirstFault()]
Object = dict[str, Any]


def shown(text: str) -> str:
    """The text with a mark in place of each control character except line ends: it cannot steer a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c == "\n" else "�" for c in text)


# Documents


class SessionDocument(TypedDict):
    """session.json: what the store itself reads of it."""

    format: int
    id: Text
    created: Text
    parent: NotRequired[Object | None]


@closed
class Ref(TypedDict):
    """An object that a manifest names."""

    sha256: Sha256
    size: Annotated[int, Within(ge=0, le=limits.OBJECT)]


@closed
class Beginning(TypedDict):
    """The first so many bytes of a file."""

    bytes: Natural
    sha256: Sha256


@closed
class ManifestDocument(TypedDict):
    """A checkpoint, whose history, record and first states are the caller's."""

    round: Natural
    history: Many[Object]
    states: Annotated[dict[Annotated[str, Spelled(HELD)], Ref], FirstFault()]
    record: Object | None
    ledger: Beginning
    applied: Many[str]
    initial: NotRequired[Object]
    in_flight: NotRequired[Object]


@closed
class UnfinishedDocument(TypedDict):
    """What is kept of a round that is not over, with the caller's note."""

    round: Natural
    note: Object
    states: Annotated[dict[Annotated[str, Spelled(PART)], Ref], FirstFault()]


class EventHead(TypedDict):
    """What every event has."""

    at: Text
    event: Text


class TagsDocument(TypedDict):
    tags: Annotated[list[Annotated[str, Spelled(TAG)]], Within(max_length=limits.TAG_WORDS)]
    note: NotRequired[Annotated[str, Within(max_length=limits.NOTE_LETTERS), Holds(str.isprintable)]]


@closed
class CommandDocument(TypedDict):
    id: str
    kind: Annotated[str, Spelled(KIND)]
    arguments: Object
    at: Text
    by: Text


@closed
class AnswerDocument(TypedDict):
    id: str
    kind: Text
    outcome: Literal["applied", "refused"]
    message: str
    round: int | None
    at: Text


MOST_POSTED = 10**19
"""Numbers from here on are a stranger's: the next one would not fit into an id."""


@closed
class PostedDocument(TypedDict):
    first: Natural
    last: Annotated[int, Within(ge=0, lt=MOST_POSTED)]


class Progress(TypedDict):
    """How far an owner is."""

    round: NotRequired[Natural]
    rounds: NotRequired[Natural]
    phase: NotRequired[Text]
    done: NotRequired[Natural]
    clients: NotRequired[Natural]
    points: NotRequired[Natural]
    each: NotRequired[Annotated[str, Within(pattern="^[-wtd]*$")]]
    """One letter for each client: where it is in the round."""
    memory: NotRequired[Natural]
    cpu: NotRequired[float]
    gpu_memory: NotRequired[Natural]


class OpenBeginning(TypedDict):
    """The same as `Beginning`, in a note that later versions may add to."""

    bytes: Natural
    sha256: Sha256


class OwnerNote(TypedDict):
    """owner.json."""

    host: Text
    boot_id: Text
    pid: Natural
    start_time: float | None
    since: Text
    state: Annotated[str, Within(pattern="^[a-z]{1,20}$")]
    closed: bool
    heartbeat: Natural
    progress: NotRequired[Progress]
    ledger: NotRequired[OpenBeginning]
    # Of an owner that can be fenced. Earlier versions wrote none of these.
    epoch: NotRequired[Natural]
    token: NotRequired[Text]
    machine_id: NotRequired[Text]
    process_space: NotRequired[Text]
    # Of an owner that has ended.
    events: NotRequired[OpenBeginning]
    checkpoints: NotRequired[Many[Natural]]


# Checking


def checked(kind: type[T], value: Any, where: str = "") -> T:
    """The value itself, which has this type. Raises ValueError, as 'progress.round is not a whole number'."""
    from pydantic import ValidationError

    try:
        _adapter(cast(Any, kind)).validate_python(value, strict=True)
    except ValidationError as invalid:
        raise ValueError(_sentence(invalid, value, where)) from None
    result: T = value
    return result


@functools.cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


_WHAT = {
    "missing": "is missing",
    "extra_forbidden": "does not belong there",
    "int_type": "is not a whole number",
    "float_type": "is not a number",
    "bool_type": "is not true or false",
    "string_type": "is not a text",
    "list_type": "is not a list",
    "dict_type": "is not an object",
    "none_required": "is not null",
    "greater_than_equal": "is {input}, less than {ge:g}",
    "less_than_equal": "is {input}, more than {le:g}",
    "too_long": "has {actual_length} entries, more than {max_length}",
}


def _sentence(invalid: Any, value: Any, where: str) -> str:
    """Where the first fault is, and what it is."""
    faults = [(_path(value, each), each) for each in invalid.errors(include_url=False)]
    first = faults[0][0]
    # The alternatives of a union have a fault each, of which the last says most.
    path, fault = [each for each in faults if each[0][: len(first)] == first][-1]
    if faults[0][1]["loc"][-1:] == ("[key]",):
        what = "has no name that belongs there"
    elif fault["type"] == "value_error":
        what = str(fault["ctx"]["error"])
    else:
        input = str(fault["input"])[:40] if type(fault["input"]) in (int, float) else ""
        what = _WHAT.get(fault["type"], "is not as it should be").format(
            **fault.get("ctx", {}) | {"input": input}
        )
    return f"{(where + ''.join(path)).removeprefix('.') or 'it'} {what}"


def _path(value: Any, fault: Any) -> list[str]:
    """The steps to a fault, as ['.cka', '.matrix', '[3]'], without the names that alternatives of a union have."""
    path = []
    for step in fault["loc"]:
        if isinstance(value, dict) and step in value:
            value = value[step]
            path.append(f".{_legible(step)}")
        elif isinstance(value, list) and type(step) is int and step < len(value):
            value = value[step]
            path.append(f"[{step}]")
    return [*path, f".{_legible(fault['loc'][-1])}"] if fault["type"] == "missing" else path


def _legible(key: str) -> str:
    return key if key.isprintable() and len(key) <= 100 else ascii(key)[1:-1][:100]
