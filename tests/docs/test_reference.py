"""Pages and tables made from the code: nothing missing, nothing misread, every type as it says."""

import ast
import importlib
import inspect
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field

import htfl_sim as hs
from checkpoints import limits
from docsite import api, tables
from htfl_sim.comparing import KINDS
from simulator import methods
from simulator.base import own_files
from simulator.base.nested import flattened
from simulator.base.record import SCALARS
from simulator.base.sections import Section
from simulator.clock.devices import LIBRARY
from simulator.config import Config, settings, settings_in, settings_of
from simulator.metrics import user_metrics
from simulator.sessions.forking import fork
from simulator.sessions.session import Session
from tests import federations
from tests.docs.pages import DOCS, ROOT

# What the Python page says of a name is what its source says.


def test_names_are_shown_with_types_defaults_docstrings_fields_and_public_methods() -> None:
    assert api.reference("docsite.api", "reference") == (
        "### reference\n\n```python\nreference(module: str, *names: str) -> str\n```\n\n"
        "These names of a module, or all that it offers, in order; modules in it have a part of their own.\n"
    )
    text = api.reference("simulator", "RunOutcome", "Session")
    assert "class RunOutcome:\n    state: Literal['finished', 'stopped', 'paused']\n    round: int\n" in text
    assert (
        "#### Session.resume\n\n```python\nresume(\n    folder: Path,\n    data_dir: Path,\n    *,\n" in text
    )
    assert "record: Record | None" in text and "Session._" not in text


MODULES = ("simulator", *(f"htfl_sim.{name}" for name in hs.__all__ if inspect.ismodule(getattr(hs, name))))


def test_everything_that_is_offered_has_a_docstring() -> None:
    for module in MODULES:
        room = importlib.import_module(module)
        for name in getattr(room, "__all__", ()):
            found = getattr(room, name)
            assert found is not None, name
            if inspect.isclass(found) or inspect.isfunction(found):
                assert inspect.getdoc(found), name
                assert api.reference(module, name).startswith(f"### {name}\n")


# The reference made from the code: nothing missing, nothing misread.


@pytest.fixture(scope="module")
def reference() -> str:
    return tables.reference()


class Example(Section):
    """What it is.

    More of it.
    """

    share: float = Field(0.5, gt=0, le=1, description="of |x|")
    many: int | None = Field(None, ge=1, description="how many; default: all")
    kind: Literal["a", "b"] | tuple[str, ...] = Field("a", description="which")
    seed: int = Field(0, ge=0, lt=2**63, description="of draws")


def test_a_section_is_written_as_a_table_of_keys_types_defaults_and_meanings() -> None:
    assert tables.table(settings_in(Example, "example.")) == (
        "| key | type | default | meaning |\n"
        "|---|---|---|---|\n"
        "| `example.share` | number, > 0, ≤ 1 | `0.5` | of \\|x\\| |\n"
        "| `example.many` | whole number, ≥ 1 | not set | how many; default: all |\n"
        '| `example.kind` | a \\| b \\| list of text | `"a"` | which |\n'
        "| `example.seed` | whole number, ≥ 0 | `0` | of draws |\n"
    )


def test_a_section_whose_source_does_not_stand_alone_has_no_texts() -> None:
    class Inside(Section):
        """Its text goes on
at the margin.
        """  # fmt: skip

        share: float = 0.5
        """Of all."""

    assert Inside.meanings() == {"share": ""}


def test_every_key_of_a_run_and_option_of_a_method_is_in_it_with_its_meaning(reference: str) -> None:
    keys = flattened(Config.read({"method": {"name": "standalone"}}).to_json())
    assert [key for key in keys if f"`{key}`" not in reference] == ["preset", "profile"]
    for name in methods.names():
        section = reference.partition(f"### [{name}](methods/{name}.md)\n")[2].partition("###")[0]
        found = [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")]
        options = [key for key in methods.get(name).Config.model_fields if key != "name"]
        assert found == [f"method.{key}" for key in options], name
    own = [each for name in methods.names() for each in settings_of(name)]
    assert [each.key for each in [*settings(), *own] if not each.description] == []


def test_the_ranges_that_tuning_searches_are_below_the_keys(reference: str) -> None:
    section = reference.partition("### [fedproto](methods/fedproto.md)\n")[2].partition("###")[0]
    assert section.rstrip().endswith("[`htfl-sim tune`](tuning.md) searches `method.lam` log 0.01 … 10.")
    training = reference.partition("## training\n")[2].partition("## ")[0]
    assert "`training.lr` log 0.001 … 0.3; `training.clip` none | 1.0 | 10.0" in training
    assert reference.count("[`htfl-sim tune`]") == 1 + sum(
        bool(methods.get(name).Config.space) for name in methods.names()
    )


def test_the_page_of_a_method_gets_its_needs_messages_and_options() -> None:
    made = tables.method("fedrep").splitlines()
    assert made[2:5] == [
        "| needs | nothing; groups of one architecture average apart |",
        "| downlink | model without its head |",
        "| uplink | model without its head |",
    ]
    assert any(line.startswith("| `method.head_epochs` | whole number, ≥ 1 | `10` |") for line in made)
    assert "[`htfl-sim tune`](../tuning.md) searches `method.head_epochs`" in made[-1]


def test_the_page_about_time_has_every_device_of_the_library_and_marks_estimates() -> None:
    """`python -m docsite.tables` writes it."""
    assert tables.of_devices() in tables.PAGE.read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in tables.of_devices().splitlines()[2:]}
    assert list(rows) == list(LIBRARY)
    assert rows["phone"] == "| `phone` | 24.7 | 4 | 35.96 | 11.22 | 0.04 | 3 | ≈ 2.4 | ≈ 0.1 |"


# The page on figures has every kind there is, with the command that draws it and a picture.


def test_every_kind_of_figure_is_shown_with_its_command_and_a_picture() -> None:
    parts = re.split(r"^## ", (DOCS / "figures.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    for kind in KINDS:
        (section,) = (each for each in parts if each.startswith(f"{kind}\n"))
        assert f"    htfl-sim plot {kind} " in section
        (picture, *_) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", section)
        assert (DOCS / picture).is_file(), kind


# docs/ledger.md against what a run writes: no key left out, none that is not there, every type as it says.


PAGE = (
    (DOCS / "ledger.md")
    .read_text(encoding="utf-8")
    .replace("<!-- made by docsite.ledger -->", tables.record())
)
WITH_EVERYTHING = {
    "wire": {"drop": 0.4},
    "cka": {"every": 2, "probe": 8, "clients": 3},
    "training": {"schedule": "cosine"},
    "evaluation": {"parts": ["test", "eval"], "metrics": ["top2"], "classes": True},
    "system": {"devices": "phone", "count_evaluation": True},
    "watch": {"watchers": ["plateau", "losing"], "plateau_rounds": 1, "plateau_gain": 0.99},
}
"""Settings under which a record has every key that needs one."""

TYPES: dict[str, Callable[[Any], bool]] = {
    "whole number": lambda value: type(value) is int,
    "number": lambda value: type(value) in (int, float),
    "share": lambda value: type(value) in (int, float) and 0 <= value <= 1,
    "text": lambda value: isinstance(value, str),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def is_a(value: Any, kind: str) -> bool:
    """Whether a value is of a type as the page writes it: 'list of share or null' has either in it."""
    if kind.startswith("list of "):
        return isinstance(value, list) and all(is_a(each, kind.removeprefix("list of ")) for each in value)
    return any(TYPES[each](value) for each in kind.split(" or "))


def table(heading: str) -> list[list[str]]:
    """The rows of a section's table."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in re.split(r" ?\|(?= |$)", line)[1:-1]] for line in lines]


def documented(heading: str) -> dict[str, str]:
    """Keys and their types."""
    return {row[0].strip("`"): row[1] for row in table(heading)}


def values(document: dict[str, Any], known: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """A document's values by the keys of the page, `*` for names that are data; what it lacks by their own."""

    def walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, list) and any(other.startswith(f"{path}[].") for other in known):
            for each in value:
                yield from walk(each, f"{path}[]")
            return
        if not isinstance(value, dict) or known.get(path, "").startswith("object"):
            yield path, value
            return
        for key, each in value.items():
            own, any_ = f"{path}.{key}".lstrip("."), f"{path}.*"
            yield from walk(each, any_ if any(other.startswith(any_) for other in known) else own)

    return walk(document, "")


def mistyped(document: dict[str, Any], known: dict[str, str]) -> list[str]:
    """Keys that the page lacks, and values that are not of the type it says."""
    return [
        f"{key}: {value!r}"
        for key, value in values(document, known)
        if key not in known or not is_a(value, known[key])
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Sessions: one plain, one with everything that was stopped and resumed on the way, and a fork of that."""
    folder = tmp_path_factory.mktemp("sessions")
    config = federations.config("lg_fedavg", rounds=2, **WITH_EVERYTHING)
    (folder / "top2.py").write_text(
        "def metric(scores, labels):\n    return scores.max()\n", encoding="utf-8"
    )
    with federations.on_images(federations.generated()), pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_files, "_LOADED", {})
        patch.setattr(user_metrics, "_FUNCTIONS", {})
        user_metrics.load(folder / "top2.py")
        with Session.create(federations.config("lg_fedavg", rounds=1), folder / "plain", folder) as session:
            session.run()
        with Session.create(config, folder / "all", folder) as session:
            session.run(stop=lambda: "SIGTERM" if session.round else None)
        with Session.resume(folder / "all", folder) as session:
            session.run()
        fork(folder / "all", folder / "fork", folder, 2, assignments=["rounds=4", "training.lr=0.5"])
    yield folder


def test_every_scalar_is_a_key_of_the_record() -> None:
    keys = {key for key, *_ in table("ledger.jsonl")}
    paths = {
        re.sub(r"^evaluation\.(eval|test)\.", "evaluation.*.", each) for row in SCALARS for each in row.paths
    }
    assert {f"`{path}`" for path in paths} <= keys


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_record_has_the_keys_that_its_settings_ask_for_and_no_others(folder: Path) -> None:
    """A plain one those without a setting, one with everything all. CKA is measured in its second round."""
    known = documented("ledger.jsonl")
    when = {key.strip("`"): setting.strip("`") for key, _, setting, *_ in table("ledger.jsonl")}
    (plain,) = lines(folder / "plain" / "ledger.jsonl")
    without, record = lines(folder / "all" / "ledger.jsonl")
    assert mistyped(plain, known) == mistyped(without, known) == mistyped(record, known) == []
    assert {key for key in when if not when[key]} <= {key for key, _ in values(plain, known)}
    asked = flattened(WITH_EVERYTHING)
    needed = {key for key in when if not when[key] or when[key] in asked} - {"cka"}
    assert needed <= {key for key, _ in values(record, known)}
    assert without["cka"] is None


def test_a_key_that_the_page_lacks_and_a_type_it_gets_wrong_are_noticed() -> None:
    known = {"round": "whole number", "loss.*": "list of number or null"}
    assert mistyped({"round": 1, "loss": {"a": [0.5, None]}}, known) == []
    assert mistyped({"round": 1.0, "loss": {"a": [True]}, "new": {"key": 1}}, known) == [
        "round: 1.0",
        "loss.*: [True]",
        "new.key: 1",
    ]


def test_session_json_is_as_documented(folder: Path) -> None:
    known = documented("session.json")
    for name in ("plain", "fork"):
        document = json.loads((folder / name / "session.json").read_text(encoding="utf-8"))
        assert mistyped(document, known) == []
        unused = {"environment.torchvision", "environment.timm"}  # its models come from neither
        with_clock = set() if name == "fork" else {key for key in known if key.startswith("devices.")}
        lacking = {*with_clock, *unused, "unknown.*"}  # the last: of tables and tokens alone
        assert {key for key, _ in values(document, known)} == set(known) - lacking
    assert document["parent"].keys() == {"id", "name", "round"}


def test_a_manifest_and_its_history_are_as_documented(folder: Path) -> None:
    known = documented("manifests/000042.json")
    seen = set()
    for path in folder.glob("*/manifests/*.json"):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        assert mistyped(manifest, known) == []
        clients_left_out = len(manifest["states"]) < 5
        seen.add(clients_left_out)
        keys = {key for key in known if clients_left_out or not key.startswith("initial.")}
        assert {key for key, _ in values(manifest, known)} == keys
    assert seen == {True, False}
    named = set(re.findall(r"`(\w+)`", PAGE.partition("An entry of the history has")[2].partition("##")[0]))
    (path,) = (folder / "fork" / "manifests").iterdir()
    first, changed = json.loads(path.read_text(encoding="utf-8"))["history"]
    assert first.keys() == {"from_round", "method", "settings"}
    assert changed.keys() | {"command"} == named


def test_the_events_of_a_run_have_the_keys_that_the_page_names(folder: Path) -> None:
    keys = {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[1])) for row in table("events.jsonl")}
    events = [event for name in ("all", "fork") for event in lines(folder / name / "events.jsonl")]
    assert {"started", "checkpoint", "stopped", "resumed", "forked"} <= {event["event"] for event in events}
    for event in events:
        assert event.keys() == {"at", "event", "sha256"} | keys[event["event"]]


@pytest.mark.long
def test_every_kind_of_event_that_the_code_writes_is_on_the_page() -> None:
    written = {
        call.args[0].value
        for room in ("simulator", "checkpoints")
        for path in (ROOT / room).rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and (call.func.attr == "event" or ast.unparse(call.func).endswith("_events.add"))
        and isinstance(call.args[0], ast.Constant)
    }
    assert written == {row[0].strip("`") for row in table("events.jsonl")}


def test_the_limits_on_the_page_are_those_of_the_code() -> None:
    units = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
    said = {}
    for name, most, _ in table("Limits"):
        number, _, unit = most.partition(" ")
        said[name.strip("`")] = int(number.replace(",", "")) * units[unit]
    assert said == {name: value for name, value in vars(limits).items() if isinstance(value, int)}


def test_the_program_on_the_page_reads_a_session(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas")
    (tmp_path / "sessions").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(program.replace("NAME", "all"))
    assert "accuracy.mean" in capsys.readouterr().out
