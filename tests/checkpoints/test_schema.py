"""What JSON must look like: a fault is one sentence that says where and what."""

import json
from typing import Annotated, Any, NotRequired

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from checkpoints import Damaged
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

VALUES = st.sampled_from([0, -1, 0.5, True, None, "text", [], [1, 0.5], [None], {}])
KINDS: list[Any] = [float, int, str, bool, None, float | None, Natural, Natural | None, list[float], Share]


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


@given(st.lists(VALUES, max_size=4), st.sampled_from(KINDS))
def test_a_list_has_its_type_if_each_of_its_items_has(values: list[Any], kind: Any) -> None:
    assert has(values, list[kind]) == all(has(value, kind) for value in values)


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


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(st.text().filter(lambda key: key != "sha256"), values, max_size=5)


@pytest.mark.long
@given(documents)
def test_a_sealed_document_is_read_back(document: dict[str, object]) -> None:
    assert unseal(seal(document), "it") == document


@pytest.mark.long
@given(documents, st.data())
def test_a_flipped_bit_breaks_the_seal(document: dict[str, object], data: st.DataObject) -> None:
    raw = bytearray(seal(document))
    bit = data.draw(st.integers(0, 8 * len(raw) - 1))
    raw[bit // 8] ^= 1 << bit % 8

    with pytest.raises(Damaged):
        unseal(bytes(raw), "it")


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
