"""The configuration's keys, with type, default and meaning, as Markdown made from the sections themselves."""

import inspect
import json
from collections.abc import Iterator
from typing import Any

from simulator import methods
from simulator.base.sections import MethodConfig, Section, Space, range_text
from simulator.config import Config, section_of

Row = tuple[str, str, str, str]
"""A dotted key, its type, its default and what it means."""

_TYPES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`"}
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
_FOR_THE_RECORD = ("preset", "profile")
"""Keys that say where a configuration came from; nobody sets them by hand."""


def reference() -> str:
    """Every key of a run, section by section, then every method's own."""
    parts = ["## Of the whole run\n", table(whole_run())]
    for name, section in sections():
        parts += [f"## {name}\n", f"{_about(section)}\n", table(rows(section, name)), ranges(section, name)]
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
    return "\n".join([table(rows(section, "method", without="name")), ranges(section, "method", base)])


def sections() -> Iterator[tuple[str, type[Section]]]:
    """The sections that a run can have, by name."""
    for name, field in Config.model_fields.items():
        section = section_of(field.annotation)
        if name != "method" and section is not None:
            yield name, section


def whole_run() -> list[Row]:
    """The keys that stand in no section."""
    inside = {"method", *_FOR_THE_RECORD, *(name for name, _ in sections())}
    return [row for row in rows(Config) if row[0] not in inside]


def rows(section: type[Section], prefix: str = "", without: str = "") -> list[Row]:
    """A section's keys."""
    schema, meanings = section.model_json_schema(), section.meanings()
    return [
        (f"{prefix}.{key}" if prefix else key, *_row(each), meanings[key])
        for key, each in schema["properties"].items()
        if key != without and "$ref" not in json.dumps(each)  # a section has rows of its own
    ]


def table(keys: list[Row]) -> str:
    """The keys as a Markdown table; in words where there are none."""
    if not keys:
        return "No options.\n"
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    lines += [f"| `{key}` | {kind} | {default} | {_cell(meaning)} |" for key, kind, default, meaning in keys]
    return "\n".join(lines) + "\n"


def ranges(section: type[Section], prefix: str, base: str = "") -> str:
    """What tuning searches of a section, as a sentence; empty if that is nothing."""
    space: Space = getattr(section, "space", {})
    each = "; ".join(f"`{prefix}.{key}` {range_text(range)}" for key, range in space.items())
    return f"[`htfl-sim tune`]({base}tuning.md) searches {each}.\n" if each else ""


def _row(schema: dict[str, Any]) -> tuple[str, str]:
    default = schema.get("default")
    spelled = "not set" if default is None else f"`{json.dumps(default, ensure_ascii=False)}`"
    return _type(schema), spelled


def _type(schema: dict[str, Any]) -> str:
    """A JSON schema in words; that a key may be left out is said by its default."""
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"] if each != {"type": "null"})
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if schema["type"] == "object":
        return f"table of {_type(schema['additionalProperties'])}"
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}"
    bounds = [
        f"{sign} {_limit(schema[bound])}"
        for bound, sign in _BOUNDS.items()
        if bound in schema and _limit(schema[bound])
    ]
    return f"{_TYPES[schema['type']]} {' and '.join(bounds)}".rstrip()


def _limit(value: float) -> str:
    """A bound as it is read; none for the room of a whole number in a file."""
    return "" if value >= 2**63 else f"{value:g}"


def _about(section: type[Section]) -> str:
    return (inspect.getdoc(section) or "").partition("\n\n")[0].replace("\n", " ")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
