"""docs/ledger.md against what a run writes: no key left out, none that is not there, every type as it says."""

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from checkpoints import limits
from docsite import ledger
from simulator.base import own_files
from simulator.base.nested import flattened
from simulator.base.record import SCALARS
from simulator.metrics import user_metrics
from simulator.sessions.forking import fork
from simulator.sessions.session import Session
from tests import federations
from tests.docs.pages import DOCS, ROOT

PAGE = (
    (DOCS / "ledger.md")
    .read_text(encoding="utf-8")
    .replace("<!-- made by docsite.ledger -->", ledger.table())
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

Shape = Callable[[Any], bool]
TYPES: dict[str, Shape] = {
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
    keys = {key for key, *_ in table("ledger.jsonl")} | {"`evaluation.eval.accuracy.mean`"}
    assert {f"`{path}`" for scalar in SCALARS for path in scalar.paths} <= keys


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def needed(settings: Mapping[str, Any]) -> set[str]:
    """The keys that a record has where these settings are asked for, as the page says."""
    keys = {key.strip("`"): when.strip("`") for key, _, when, *_ in table("ledger.jsonl")}
    return {key for key, when in keys.items() if not when or when in settings}


def test_a_plain_record_has_the_keys_that_need_no_setting(folder: Path) -> None:
    known = documented("ledger.jsonl")
    (record,) = lines(folder / "plain" / "ledger.jsonl")
    assert mistyped(record, known) == []
    assert needed({}) <= {key for key, _ in values(record, known)}


def test_a_record_with_everything_has_every_key(folder: Path) -> None:
    """CKA is measured in its second round."""
    known = documented("ledger.jsonl")
    without, record = lines(folder / "all" / "ledger.jsonl")
    assert mistyped(without, known) == mistyped(record, known) == []
    assert needed(flattened(WITH_EVERYTHING)) - {"cka"} <= {key for key, _ in values(record, known)}
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


def test_a_manifest_is_as_documented(folder: Path) -> None:
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


def test_an_entry_of_the_history_has_the_keys_that_the_page_names(folder: Path) -> None:
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
