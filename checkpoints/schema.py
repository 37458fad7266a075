"""The JSON in a session's files: how it is spelled and sealed with its own hash, and what it may hold.

Reading insists on the one canonical spelling byte for byte, so a flipped bit shows. Types check strictly: `True` is no
number and 1.0 no whole number. Their rules import pydantic only when a value is checked.
"""

import functools
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, NotRequired, TypeVar, cast, get_args, get_type_hints

from typing_extensions import TypedDict

from checkpoints import limits
from checkpoints.files import Damaged
from checkpoints.layout import SHA256, TAG, object_parts

Json = dict[str, Any]
T = TypeVar("T")
V = TypeVar("V")

# Spelling


def canonical(value: Any) -> bytes:
    """The one spelling of a JSON value: sorted keys, no spaces, ASCII. Raises ValueError for NaN and infinities."""
    # The first pass turns keys into strings, so that the second sorts them as they will be read.
    return _spell(_DECODER.decode(_spell(value).decode("ascii")))


def parse(raw: bytes, where: str) -> Json:
    """The object spelled by `raw`, which must be canonical; raises Damaged, naming `where`."""
    if limits.values(raw) > limits.DOCUMENT_VALUES:
        raise Damaged(f"{where} holds more than the {limits.DOCUMENT_VALUES:,} values it may have.")
    try:
        value = _DECODER.decode(raw.decode("ascii"))
        sound = isinstance(value, dict) and _spell(value) == raw
    except (ValueError, RecursionError):
        sound = False
    if not sound:
        raise Damaged(f"{where} is damaged: it is not the JSON that was written.")
    return dict(value)


def seal(document: Json, most: int = limits.MANIFEST, what: str = "The document") -> bytes:
    """`document` with its own hash under "sha256", in canonical form, one line. Raises TooLarge, naming `what`."""
    if "sha256" in document:
        raise ValueError('"sha256" is the seal\'s own key')
    sealed = canonical(document | {"sha256": hashlib.sha256(canonical(document)).hexdigest()}) + b"\n"
    return limits.check(sealed, most, what)


def unseal(raw: bytes, where: str) -> Json:
    """The document that `seal` wrote, without its hash; raises Damaged, naming `where`."""
    document = parse(raw.removesuffix(b"\n"), where)
    stated = document.pop("sha256", None)
    if not raw.endswith(b"\n") or stated != hashlib.sha256(_spell(document)).hexdigest():
        raise Damaged(f"{where} is damaged: its contents do not match its sha256.")
    return document


def _spell(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _whole(digits: str) -> int:
    if len(digits) > limits.DIGITS:
        raise ValueError(f"a whole number of {len(digits)} digits")
    return int(digits)


_DECODER = json.JSONDecoder(parse_int=_whole)


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


class ListOrNames:
    """Tell a list from an object by looking at it, so that a fault names the one that is there."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        each, names = map(handler.generate_schema, get_args(source))
        return core_schema.tagged_union_schema(
            {"[]": each, "{}": names}, lambda value: "{}" if type(value) is dict else "[]"
        )


@dataclass(frozen=True)
class InJson:
    """A value as it is in JSON. Of a data class or a named tuple, that is an object whose keys are its fields."""

    kind: Any

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        fielded = is_dataclass(self.kind) or hasattr(self.kind, "_field_defaults")
        return handler.generate_schema(closed(keys_of(self.kind)) if fielded else self.kind)


def keys(**hints: Any) -> Any:
    """The type of an object with these keys."""
    return cast(Any, TypedDict)("Keys", hints)


def keys_of(kind: Any, *but: str) -> Any:
    """The type of an object whose keys are the fields of a data class or a named tuple, but for some."""
    optional = getattr(kind, "_field_defaults", None)
    if is_dataclass(kind):
        optional = {field.name for field in fields(kind) if field.default is not MISSING}
    hints = get_type_hints(kind, include_extras=True)
    found = {name: NotRequired[hint] if name in (optional or ()) else hint for name, hint in hints.items()}
    named = cast(Any, TypedDict)(kind.__name__, {name: found[name] for name in found if name not in but})
    named.__module__ = kind.__module__
    return named


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


@dataclass(frozen=True)
class ObjectRef:
    """An object's sha256 (64 hex digits) and size in bytes: all that a manifest says about it."""

    sha256: Sha256
    size: Annotated[int, Within(ge=0, le=limits.OBJECT)]

    @property
    def name(self) -> str:
        """Its path inside the session directory."""
        return "/".join(object_parts(self.sha256))


@dataclass(frozen=True)
class Prefix:
    """The first so many bytes of a file, and their sha256."""

    bytes: Natural
    sha256: Sha256


# Documents


class SessionDocument(TypedDict):
    """session.json: what the store itself reads of it."""

    format: int
    """version of the session's format"""
    id: Text
    """32 random hexadecimal digits"""
    created: Text
    """time of creation"""


class EventHead(TypedDict):
    """What every event has."""

    at: Text
    event: Text


class TagsDocument(TypedDict):
    tags: Annotated[list[Annotated[str, Spelled(TAG)]], Within(max_length=limits.TAG_WORDS)]
    note: NotRequired[Annotated[str, Within(max_length=limits.NOTE_LETTERS), Holds(str.isprintable)]]


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


class OpenPrefix(TypedDict):
    """The same as `Prefix`, in a note that later versions may add to."""

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
    ledger: NotRequired[OpenPrefix]
    # Of an owner that can be fenced. Earlier versions wrote none of these.
    epoch: NotRequired[Natural]
    token: NotRequired[Text]
    machine_id: NotRequired[Text]
    process_space: NotRequired[Text]
    # Of an owner that has ended.
    events: NotRequired[OpenPrefix]
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


def well_formed(kind: type[T], value: Any, claim: str) -> T:
    """The same, for what was read from a file. Raises Damaged: `claim`, and then what is wrong."""
    try:
        return checked(kind, value)
    except ValueError as fault:
        raise Damaged(f"{claim}: {fault}.") from fault


def fields_in(kind: type, value: Any, claim: str) -> Json:
    """The fields of a data class in a JSON object that has them as its keys. Raises Damaged like `well_formed`."""
    found: Json = well_formed(cast(Any, Annotated[Object, InJson(kind)]), value, claim)
    return found


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
