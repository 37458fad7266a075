"""The tables that pages get from the code. `python -m docsite.tables` puts the devices into docs/devices.md."""

import inspect
import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin

from typing_extensions import get_type_hints, is_typeddict

from checkpoints.schema import Also, InJson, Share
from simulator import methods
from simulator.base.record import SCALARS, Record, When
from simulator.base.sections import MethodConfig, Section, Space, own_texts, range_text
from simulator.clock import devices
from simulator.config import Config, Setting, section_key, section_of, settings, settings_in

# The configuration


def reference() -> str:
    """Every key of a run, section by section, then every method's own."""
    parts = ["## Of the whole run\n", table(each for each in settings() if "." not in each.key)]
    for name, field in Config.model_fields.items():
        section = section_of(field.annotation)
        if name != "method" and section is not None:
            about = (inspect.getdoc(section) or "").partition("\n\n")[0].replace("\n", " ")
            keys = settings_in(section, f"{section_key(name)}.")
            parts += [f"## {name}\n", f"{about}\n", table(keys), ranges(section, name)]
    parts += ["## method\n", f"`method.name`: {MethodConfig.meanings()['name']}.\n"]
    for name in methods.names():
        parts += [f"### [{name}](methods/{name}.md)\n", options(name)]
    return "\n".join(parts)


def method(name: str) -> str:
    """What a method needs and sends, and its options."""
    card = methods.get(name).card
    said = {"needs": card.needs, "downlink": card.down, "uplink": card.up}
    facts = [f"| {what} | {_cell(text)} |" for what, text in said.items()]
    return "\n".join(["| | |", "|---|---|", *facts, "", options(name, "../")])


def options(name: str, base: str = "") -> str:
    """A method's own keys, and what tuning searches. base: leads from the page to docs/."""
    section = methods.get(name).Config
    own = (each for each in settings_in(section, "method.") if each.key != "method.name")
    return "\n".join([table(own), ranges(section, "method", base)])


def table(keys: Iterable[Setting]) -> str:
    """The keys as a Markdown table; in words where there are none."""
    lines = [
        f"| `{each.key}` | {_cell(each.takes)} | {_default(each.default)} | {_cell(each.description)} |"
        for each in keys
    ]
    if not lines:
        return "No options.\n"
    return "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *lines, ""])


def ranges(section: type[Section], prefix: str, base: str = "") -> str:
    """What tuning searches of a section, as a sentence; empty if that is nothing."""
    space: Space = getattr(section, "space", {})
    each = "; ".join(f"`{prefix}.{key}` {range_text(range)}" for key, range in space.items())
    return f"[`htfl-sim tune`]({base}tuning.md) searches {each}.\n" if each else ""


def _default(value: object) -> str:
    return "not set" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


# A record of the ledger

HEAD = "| key | type | setting | column | meaning |\n|---|---|---|---|---|\n"
_WORDS = {int: "whole number", float: "number", str: "text", bool: "true or false", NoneType: "null"}


def record() -> str:
    """Every key of a record: its type, the setting that it needs, its column in tables of rounds, and its meaning."""
    columns: dict[str, list[str]] = {}
    for scalar in SCALARS:
        for path in scalar.paths:
            columns.setdefault(path, []).append(f"`{scalar.column}`")
    rows = [
        f"| `{key}` | {kind} | {f'`{when}`' if when else ''} | {', '.join(columns.get(key, ()))} | {text} |"
        for key, kind, when, text in _of_object(Record, "", "", "")
    ]
    return HEAD + "\n".join(row.replace("|  |", "| |").replace("|  |", "| |") for row in rows) + "\n"


def _of_object(kind: Any, path: str, when: str, about: str) -> Iterator[tuple[str, str, str, str]]:
    described = _described(get_origin(kind) or kind)
    given = dict(zip(getattr(get_origin(kind), "__parameters__", ()), get_args(kind), strict=True))
    for name, hint in get_type_hints(get_origin(kind) or kind, include_extras=True).items():
        text = described.get(name, "")
        yield from _of_value(hint, f"{path}{name}", when, ": ".join(filter(None, (about, text))), given)


def _of_value(
    hint: Any, path: str, when: str, text: str, given: dict[Any, Any]
) -> Iterator[tuple[str, str, str, str]]:
    hint, rules = _bare(hint, given)
    when = next((rule.setting for rule in rules if isinstance(rule, When)), when)
    arms = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    first = next(each for each in (_bare(arm, given)[0] for arm in arms) if each is not NoneType)
    if is_typeddict(get_origin(first) or first):
        if NoneType in arms:
            yield path, "null", "", text
            text = ""
        yield from _of_object(first, f"{path}.", when, text)
    elif get_origin(first) is list and (kinds := _objects(*_bare(get_args(first)[0], given))):
        for kind in kinds:
            yield from _of_object(kind, f"{path}[].", when, text)
    elif len(arms) == 1 and get_origin(first) is dict and get_args(first)[1] is not Any:
        yield from _of_value(get_args(first)[1], f"{path}.*", when, text, given)
    else:
        yield path, _in_words(hint, given), when, text


def _objects(hint: Any, rules: list[Any]) -> list[Any]:
    """The types that describe an object, if they name its keys."""
    if is_typeddict(hint):
        return [hint]
    return [kind for rule in rules if isinstance(rule, Also) for kind in rule.kinds]


def _in_words(hint: Any, given: dict[Any, Any]) -> str:
    """A type as the page has it: 'list of share or null'."""
    if given.get(hint, hint) == Share:
        return "share"
    hint, _ = _bare(hint, given)
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        lists = [each for each in parts if get_origin(_bare(each, given)[0]) is list]
        return " or ".join(_in_words(each, given) for each in lists or parts)
    if origin is list:
        return f"list of {_in_words(parts[0], given)}"
    return "object" if origin is dict else _WORDS[hint]


def _bare(hint: Any, given: dict[Any, Any]) -> tuple[Any, list[Any]]:
    """The type without what is said of it, and that."""
    rules: list[Any] = []
    while True:
        hint = given.get(hint, hint)
        if get_origin(hint) is NotRequired:
            hint = get_args(hint)[0]
        elif get_origin(hint) is Annotated:
            rules += hint.__metadata__
            hint = next(
                (rule.kind for rule in hint.__metadata__ if isinstance(rule, InJson)), hint.__origin__
            )
        else:
            return hint, rules


def _described(kind: type) -> dict[str, str]:
    """The text under each key of a type, those of the types that it extends included."""
    found: dict[str, str] = {}
    for base in filter(is_typeddict, getattr(kind, "__orig_bases__", ())):
        found |= _described(base)
    return found | own_texts(kind)


# The library's devices

PAGE = Path(__file__).parents[1] / "docs" / "devices.md"
_COLUMNS = {
    "gflops": "GFLOP/s",
    "memory_gb": "memory (GB)",
    "down_mbps": "down (Mbit/s)",
    "up_mbps": "up (Mbit/s)",
    "latency_s": "latency (s)",
    "compute_watts": "compute (W)",
    "radio_watts": "radio (W)",
    "idle_watts": "idle (W)",
}


def of_devices() -> str:
    """A row for each device. ≈ marks estimates."""
    path = Path(devices.__file__).with_name("devices.toml")
    lines = [f"| device | {' | '.join(_COLUMNS.values())} |", "|---|" + "---:|" * len(_COLUMNS)]
    for name, fields in tomllib.loads(path.read_text(encoding="utf-8")).items():
        cells = [
            ("≈ " if fields["source"][key].startswith("Estimate") else "") + f"{fields[key]:g}"
            for key in _COLUMNS
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8")
    after = re.sub(r"(?<=\n)\| device \|.*\n(?:\|.*\n)+", lambda _: of_devices(), before, count=1)
    PAGE.write_text(after, encoding="utf-8")
