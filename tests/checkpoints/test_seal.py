"""Canonical JSON and sealed documents: one spelling, and every other one refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints import Damaged
from checkpoints.schema import canonical, parse, seal, unseal

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(st.text().filter(lambda key: key != "sha256"), values, max_size=5)


@given(documents)
def test_a_sealed_document_is_read_back(document: dict[str, object]) -> None:
    assert unseal(seal(document), "it") == document


@given(documents, st.data())
def test_a_flipped_bit_breaks_the_seal(document: dict[str, object], data: st.DataObject) -> None:
    raw = bytearray(seal(document))
    bit = data.draw(st.integers(0, 8 * len(raw) - 1))
    raw[bit // 8] ^= 1 << bit % 8

    with pytest.raises(Damaged):
        unseal(bytes(raw), "it")


def test_keys_are_sorted_as_they_will_be_read() -> None:
    assert canonical({10: "a", 2: "b"}) == b'{"10":"a","2":"b"}'


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a": 1}',
        b'{"b":1,"a":1}',
        b'{"a":1,"a":1}',
        b'{"a":1.0e0}',
        b'{"a":NaN}',
        b"[1]",
        b"",
        b"\xff",
        b"[" * 99999,
    ],
)
def test_any_other_spelling_is_refused(raw: bytes) -> None:
    with pytest.raises(Damaged, match="it is damaged"):
        parse(raw, "it")


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_lacks_are_refused(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical({"a": number})
