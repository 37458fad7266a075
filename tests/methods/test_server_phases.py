"""The server's own training, in FedGen: its optimizer's moments go on, and its operations are counted."""

import pytest
import torch

from simulator.base.tensors import part
from simulator.engine.progress import unobserved
from simulator.training.flops import counting_flops
from tests import federations


def test_the_moments_of_the_servers_optimizer_go_on_from_round_to_round() -> None:
    """Ten steps a round: Adam has counted twenty after two, and remembers gradients."""
    state = federations.run(
        federations.built(federations.config("fedgen", method={"server_steps": 10})).engine, 2
    )
    adam = part(state.server, "adam")
    assert adam["step"] == 20
    assert all(value.any() for name, value in adam.items() if name.endswith("weight.exp_avg"))


def test_moments_that_are_kept_change_what_the_next_round_computes() -> None:
    """With Adam's moments put back to zero after round 1, round 2 gives another generator."""
    engine = federations.built(federations.config("fedgen", method={"server_steps": 10})).engine
    first = federations.run(engine, 1)
    forgot = {
        name: torch.zeros_like(each) if name.startswith("adam/") else each
        for name, each in first.server.items()
    }
    on, afresh = (
        engine.round(federations.replaced(first, server=server), unobserved)
        for server in (first.server, forgot)
    )
    assert federations.bits(part(on.server, "generator")) != federations.bits(
        part(afresh.server, "generator")
    )


def test_operations_are_counted_once_for_each_kind_of_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty steps of the generator cost what five times ten do, and watch no more of them: the first."""
    watched: list[object] = []
    real = counting_flops.__enter__
    monkeypatch.setattr(counting_flops, "__enter__", lambda mode: watched.append(mode) or real(mode))

    def after(steps: int) -> tuple[int, int]:
        """The server's operations, and how many steps of anybody were watched to count them."""
        watched.clear()
        parts = federations.built(federations.config("fedgen", method={"server_steps": steps}))
        record = federations.run(parts.engine, 1).record
        assert record is not None
        return record["flops"]["server"], len(watched)

    (few, watched_few), (many, watched_many) = after(10), after(50)
    assert many == 5 * few
    assert watched_many == watched_few > 0
