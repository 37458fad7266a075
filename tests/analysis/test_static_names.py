"""Names read from source text are those that importing it would give."""

import pytest

from simulator import methods, models
from simulator.results.analysis import static_names


def test_names_read_from_the_source_are_the_registered_ones() -> None:
    assert list(static_names.methods()) == methods.names()
    assert set(static_names.models()) <= set(models.names())
    assert set(static_names.models()) == {name for group in models.GROUPS.values() for name in group}


@pytest.mark.parametrize("group", ["htm5", "cnn1", ["cnn2", "tiny_mlp"]])
def test_a_clients_model_is_the_one_the_federation_deals_out(group: str | list[str]) -> None:
    dealt = models.assign(tuple(group) if isinstance(group, list) else group, 7)
    assert tuple(static_names.assigned(group, client) for client in range(7)) == dealt
