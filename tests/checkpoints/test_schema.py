"""What JSON must look like: a list has its shape exactly if each of its items has."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints import check_shape, natural

SHAPES = [float, int, str, bool, None, (None, float), (None, bool, str), natural, (None, natural), [float]]
VALUES = st.sampled_from([0, -1, 0.5, True, None, "text", [], [1, 0.5], [None], {}])


def has(value: Any, shape: Any) -> bool:
    try:
        check_shape(value, shape)
    except ValueError:
        return False
    return True


@given(st.lists(VALUES, max_size=4), st.sampled_from(SHAPES))
def test_a_list_has_its_shape_if_each_of_its_items_has(values: list[Any], shape: Any) -> None:
    assert has(values, [shape]) == all(has(value, shape) for value in values)


def test_the_item_that_has_not_is_named() -> None:
    with pytest.raises(ValueError, match=r"^matrix\[1\]\[2\] is not a number$"):
        check_shape({"matrix": [[0.5, 1, None], [0.5, 1, True]]}, {"matrix": [[(None, float)]]})


def test_true_is_neither_a_whole_number_nor_a_number() -> None:
    assert not has([1, True], [int]) and not has([0.5, True], [float])
    assert has([1, 0.5], [float]) and not has([1, 0.5], [int])
