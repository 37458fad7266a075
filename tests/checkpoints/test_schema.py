"""What JSON must look like, and that whatever is written can be read: writers check the limits of readers."""

import json
import os
import shutil
from pathlib import Path
from typing import Annotated, Any, NotRequired

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from checkpoints import Damaged, SessionFollower, SessionReader, Store, TooLarge, limits, verify
from checkpoints.schema import (
    Amount,
    Many,
    Named,
    Natural,
    Share,
    Text,
    canonical,
    checked,
    closed,
    parse,
    seal,
    unseal,
)


class Inner(TypedDict):
    matrix: Many[Many[float | None]]
    by_name: NotRequired[Named[Natural]]


@closed
class Sealed(TypedDict):
    share: Share
    label: NotRequired[Text]
    either: NotRequired[str | list[str]]
    inner: NotRequired[Inner]


def has(value: Any, kind: Any) -> bool:
    try:
        checked(kind, value)
    except ValueError:
        return False
    return True


def fault(value: Any, kind: Any = Sealed) -> str:
    with pytest.raises(ValueError) as caught:
        checked(kind, value)
    return str(caught.value)


FAULTS = [
    ([], "it is not an object"),
    ({}, "share is missing"),
    ({"share": "x"}, "share is not a number"),
    ({"share": 1.5}, "share is 1.5, more than 1"),
    ({"share": -1}, "share is -1, less than 0"),
    ({"share": float("nan")}, "share is nan, more than 1"),
    ({"share": 1, "more": 1}, "more does not belong there"),
    ({"share": 1, "label": "\x1b[2J"}, "label is not as it should be"),
    ({"share": 1, "either": ["a", 1]}, "either[1] is not a text"),
    ({"share": 1, "either": 1}, "either is not a list"),
    ({"share": 1, "inner": {}}, "inner.matrix is missing"),
    (
        {"share": 1, "inner": {"matrix": [[0.5, 1, None], [0.5, 1, True]]}},
        "inner.matrix[1][2] is not a number",
    ),
    (
        {"share": 1, "inner": {"matrix": [], "by_name": {"a\x1b": -2}}},
        r"inner.by_name.a\x1b is -2, less than 0",
    ),
]


def test_a_fault_says_where_and_what() -> None:
    for value, said in FAULTS:
        assert fault(value) == said


def test_true_is_neither_a_whole_number_nor_a_number() -> None:
    assert not has([1, True], list[int]) and not has([0.5, True], list[float])
    assert has([1, 0.5], list[float]) and not has([1, 0.5], list[int]) and not has([1.0], list[int])


def test_what_is_checked_is_handed_back_as_it_is() -> None:
    """A whole number stays one where a number is asked for, and unknown keys stay."""
    value = {"matrix": [[1, 0.5]], "later": {"key": 1}}
    before = json.dumps(value)
    assert checked(Inner, value) is value and json.dumps(value) == before


def test_of_a_million_faults_only_the_first_is_collected() -> None:
    from pydantic import TypeAdapter, ValidationError

    for kind, value in ((Many[Amount], ["x"] * 1000), (Named[Amount], dict.fromkeys(map(str, range(1000))))):
        with pytest.raises(ValidationError) as caught:
            TypeAdapter(Annotated[kind, "as it is"]).validate_python(value, strict=True)
        assert caught.value.error_count() == 1


PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)


def json_of(plain: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[Any]:
    return st.recursive(
        plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=most
    )


documents = st.dictionaries(st.text().filter(lambda key: key != "sha256"), json_of(PLAIN, 8), max_size=5)


@pytest.mark.long
@given(documents)
def test_a_sealed_document_is_read_back(document: dict[str, object]) -> None:
    assert unseal(seal(document), "it") == document


def test_keys_are_sorted_as_they_will_be_read() -> None:
    assert canonical({10: "a", 2: "b"}) == b'{"10":"a","2":"b"}'


OTHERWISE = [
    b'{"a": 1}',
    b'{"b":1,"a":1}',
    b'{"a":1,"a":1}',
    b'{"a":1.0e0}',
    b'{"a":NaN}',
    b"[1]",
    b"",
    b"\xff",
    b"[" * 99999,
]


def test_any_other_spelling_is_refused() -> None:
    for raw in OTHERWISE:
        with pytest.raises(Damaged, match="it is damaged"):
            parse(raw, "it")


# Limits

RECORDS = st.dictionaries(
    st.text(min_size=1).filter(lambda key: key not in ("round", "sha256")),
    json_of(PLAIN.filter(lambda each: not isinstance(each, int) or abs(each) <= 10**12), 60),
)


def session(folder: Path) -> Store:
    return Store.create(folder, {"config": {}})


def record(round: int, **parts: Any) -> dict[str, Any]:
    return {"round": round, **parts}


def make_small(patch: pytest.MonkeyPatch) -> None:
    """A line of the ledger may take 200 bytes and 40 values, a manifest 600 bytes."""
    for limit, most in (("RECORD", 200), ("RECORD_VALUES", 40), ("MANIFEST", 600), ("TAIL", 400)):
        patch.setattr(limits, limit, most)


@pytest.mark.long
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    parts=st.lists(RECORDS, min_size=1, max_size=4),
    checkpointed=st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_a_round_is_refused_or_can_be_read_back(
    tmp_path_factory: pytest.TempPathFactory, parts: list[dict[str, Any]], checkpointed: list[bool]
) -> None:
    """Rounds of any content, with a checkpoint or without, in a session whose limits are small."""
    folder = tmp_path_factory.mktemp("any") / "s"
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        written: list[dict[str, Any]] = []
        with session(folder) as store:
            server = store.put({"w": torch.zeros(1)})
            for each, wanted in zip(parts, checkpointed, strict=False):
                line = record(len(written) + 1, **each)
                try:
                    if wanted or store.checkpoint_due:
                        store.commit(line["round"], {"server": server}, line, [], [])
                    else:
                        store.append(line)
                except TooLarge:
                    continue
                written.append(line)
        assert [canonical(each) for each in SessionReader(folder).records()] == [
            canonical(each) for each in written
        ]
        Store.open(folder).close()


def test_a_checkpoint_is_due_before_the_ledger_behind_it_grows_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines of 112 bytes: after two of them 224 are behind the checkpoint, and 400 may be, with one of 200 to come."""
    make_small(monkeypatch)
    with session(tmp_path / "s") as store:
        server = store.put({"w": torch.zeros(1)})
        due = []
        for round in range(1, 6):
            due.append(store.checkpoint_due)
            line = record(round, text="x" * 90)
            assert len(canonical(line)) + 1 == 112
            if due[-1]:
                store.commit(round, {"server": server}, line, [], [])
            else:
                store.append(line)
    assert due == [False, False, True, False, False]
    assert len(SessionReader(tmp_path / "s").records()) == 5


def test_a_ledger_does_not_outgrow_what_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of 12 bytes."""
    monkeypatch.setattr(limits, "LEDGER", 30)
    with session(tmp_path / "s") as store:
        store.append(record(1))
        store.append(record(2))
        with pytest.raises(
            TooLarge, match=r"^ledger\.jsonl has 36 bytes, and at most 30 can be read back\.$"
        ):
            store.append(record(3))
    assert len(SessionReader(tmp_path / "s").records()) == 2


def test_a_hundred_thousand_clients_have_room() -> None:
    """A record names 110,000 participants, and has nine of `"123456":0.123456,` for each. A manifest names 340,000
    states, with 64 letters of SHA-256 and some 48 others for each.
    """
    assert (1 + 9) * 110_000 < limits.RECORD_VALUES < limits.DOCUMENT_VALUES
    assert limits.RECORD > (7 + 9 * 18) * 110_000
    assert limits.DOCUMENT_VALUES - limits.RECORD_VALUES > 2 * 340_000
    assert limits.MANIFEST - limits.RECORD > (64 + 48) * 340_000


STATES = [
    ("TENSORS", 2, {f"w{number}": torch.zeros(1) for number in range(3)}, "3 tensors"),
    ("HEADER", 100, {"w" * 200: torch.zeros(1)}, r"\d+ bytes of names and shapes"),
    ("OBJECT", 500, {"w": torch.zeros(1000)}, r"4,\d+ bytes"),
]


def test_a_state_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, most, tensors, of in STATES:
        with session(tmp_path / limit) as store, monkeypatch.context() as patch:
            patch.setattr(limits, limit, most)
            with pytest.raises(TooLarge, match=f"^A state has {of}, and at most {most} can be read back"):
                store.put(tensors)


def _tagged(store: Store) -> None:
    store.tag([f"t{number}" for number in range(5)])


def _unfinished(store: Store) -> None:
    store.save_unfinished_round(1, {"text": "x" * 500}, {})


WRITES = [("TAGS", _tagged), ("MANIFEST", _unfinished)]


def test_other_documents_are_checked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, write in WRITES:
        with session(tmp_path / limit) as store, monkeypatch.context() as patch:
            patch.setattr(limits, limit, 80)
            with pytest.raises(TooLarge, match="at most 80 can be read back"):
                write(store)
            store.append(record(1))


def test_session_json_is_checked_before_there_is_a_session(tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match=r"^session\.json has 1,1\d\d,\d\d\d bytes"):
        Store.create(tmp_path / "s", {"config": {"text": "x" * (1_100_000)}})
    assert list(tmp_path.iterdir()) == []


def test_an_event_of_many_long_parts_is_cut_and_can_be_read(tmp_path: Path) -> None:
    """A cluster of 1,000 machines that each differ in several libraries."""
    nodes = [
        {
            "node": f"node{number}",
            "workers": 2,
            "environment": {"libraries": "é" * 300},
            "inexact": ["torch 2.6 → 2.7"],
        }
        for number in range(1000)
    ]
    with session(tmp_path / "s") as store:
        store.event("nodes", round=3, nodes=nodes)
    [event] = SessionReader(tmp_path / "s").events()
    assert (event["event"], event["round"], event["nodes"][0]["node"]) == ("nodes", 3, "node0")


# Sessions of earlier versions, which checked nothing


def killed(folder: Path, rounds: int) -> Path:
    """A session whose owner died after so many rounds: the first has a checkpoint, each line takes 112 bytes."""
    with session(folder) as store:
        server = store.put({"w": torch.zeros(1)})
        store.commit(1, {"server": server}, record(1, text="x" * 90), [], [])
        for round in range(2, rounds + 1):
            store.append(record(round, text="x" * 90))
        return Path(shutil.copytree(folder, folder.with_name("killed")))


def test_rounds_behind_a_checkpoint_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """250 bytes of the ledger behind the checkpoint are two lines of 112 bytes."""
    folder = killed(tmp_path / "s", rounds=6)
    monkeypatch.setattr(limits, "TAIL", 250)
    assert [each["round"] for each in SessionReader(folder).records()] == [1, 2, 3]
    assert [finding.severity for finding in verify(folder)] == ["note"]
    with Store.open(folder) as store:
        assert store.round == 1
        store.append(record(2))
    assert [each["round"] for each in SessionReader(folder).records()] == [1, 2]


def test_a_follower_reads_the_others_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = killed(tmp_path / "s", rounds=6)
    monkeypatch.setattr(limits, "TAIL", 250)
    follower = SessionFollower(SessionReader(folder))
    seen = [[each["round"] for each in follower.new_records().records] for _ in range(3)]
    assert seen == [[1, 2, 3], [4, 5], [6]]


def test_a_ledger_that_ends_in_no_line_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = killed(tmp_path / "s", rounds=1)
    monkeypatch.setattr(limits, "TAIL", 250)
    os.truncate(folder / "ledger.jsonl", 112 + 251)
    with pytest.raises(Damaged, match=r"ledger\.jsonl is 363 bytes, more than the 362 it may have"):
        SessionReader(folder).records()
