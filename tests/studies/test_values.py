"""The values of an axis."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.base.errors import ConfigError
from simulator.base.nested import toml_value
from simulator.studies.study import axis, values


def test_an_axis_is_written_as_key_and_values() -> None:
    for text, expected in (
        ("method=fedgh,fedssa", ("method", ("fedgh", "fedssa"))),
        ("seed=0..2", ("seed", (0, 1, 2))),
        ("seed=0..1,7", ("seed", (0, 1, 7))),
        ("method.mu = 0.5, 0.7", ("method.mu", (0.5, 0.7))),
        ("data.rgb=true,false", ("data.rgb", (True, False))),
        ('federation.group=["cnn1","cnn2"],htm5', ("federation.group", (["cnn1", "cnn2"], "htm5"))),
        ('data.dataset="a,b",c', ("data.dataset", ("a,b", "c"))),
    ):
        assert axis(text) == expected


@given(
    st.lists(
        st.one_of(st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False)), min_size=1
    )
)
def test_what_toml_can_say_comes_back_as_it_was(given_values: list[object]) -> None:
    distinct = [
        value
        for number, value in enumerate(given_values)
        if not any(value == other for other in given_values[:number])
    ]
    assert list(values("k", ",".join(map(toml_value, distinct)))) == distinct


def test_what_is_no_axis_is_refused_with_an_example_or_a_reason() -> None:
    for text, message in (
        ("seed", "is not an axis"),
        ("=1", "is not an axis"),
        ("seed=", "is not an axis"),
        ("seed=2..0", "from the smaller up to the larger"),
        ("seed=0..99999", "use up to 10,000 numbers"),
        ("lr=0.1,0.10", "value 0.1 twice"),
    ):
        with pytest.raises(ConfigError, match=message):
            axis(text)
