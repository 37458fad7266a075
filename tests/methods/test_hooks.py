"""Hooks as the engine calls them: draws directed, and what comes back checked."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from simulator.base import rng
from simulator.base.errors import MethodError
from simulator.engine.progress import unobserved
from simulator.methods.hooks import GlobalDraws
from simulator.runners import Job, Work, carry_out
from tests import federations
from tests.methods.mine import Write, line, mine

__all__ = ["mine"]


# Draws


def test_a_module_built_in_an_aggregation_draws_from_a_keyed_stream(mine: Write) -> None:
    """The same weights in every run, others in every round, and torch's global generator stays where it is."""
    engine = mine(aggregate="return Aggregated({}, {'drawn': float(nn.Linear(2, 2).weight.detach().sum())})")
    before = torch.get_rng_state()
    state = engine.initial_state()
    first, again = (engine.round(state, unobserved) for _ in range(2))
    second = engine.round(first, unobserved)
    drawn = [each.record["method_metrics"]["drawn"] for each in (first, again, second)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert torch.equal(torch.get_rng_state(), before)


def test_every_hook_draws_from_a_stream_of_its_own(mine: Write) -> None:
    before = torch.get_rng_state()
    engine = mine(
        init_server="return named('x', of_module(nn.Linear(2, 2)))",
        init_client="return {'x': torch.rand(2)}",
        downlink="return {'x': torch.rand(2)}",
        uplink="return {'x': torch.rand(2)}",
        predict="return nets.model(x) + torch.rand(4)",
        aggregate="return Aggregated(server, {'sent': uplinks[0].payload['x'].sum()})",
    )
    runs = [federations.run(engine, 2) for _ in range(2)]
    assert federations.state_bits(runs[0]) == federations.state_bits(runs[1])
    assert federations.untimed(runs[0].record) == federations.untimed(runs[1].record)
    assert torch.equal(torch.get_rng_state(), before)


def test_clients_draw_differently_in_the_same_hook_and_before_round_1_by_round_0(mine: Write) -> None:
    state = mine(
        init_client="return {'x': torch.rand(2)}", init_server="return {'x': torch.rand(2)}"
    ).initial_state()
    assert len({tuple(client["x"].tolist()) for client in state.clients}) == 4
    expected = torch.rand(2, generator=rng.torch_stream(7, "hook/init_server", 0, rng.EVERYONE))
    assert torch.equal(state.server["x"], expected)


def test_a_clients_hooks_draw_by_the_number_of_its_dispatch(mine: Write) -> None:
    """Two jobs of one client in the same round draw differently; without a number, the round is its number."""
    engine = mine(uplink="return {'x': torch.rand(2)}", runtime={"runner": "sequential"})
    jobs = {0: Job(engine.initial_state().clients[0], {})}

    def drawn(dispatch: int | None) -> list[float]:
        work = Work(engine._hooks, 1, jobs, dispatch=dispatch)
        [update] = carry_out(engine._runner, work)
        values: list[float] = update.uplink["x"].tolist()
        return values

    assert drawn(1) == drawn(None) != drawn(7)


def test_draws_that_cannot_be_directed_are_refused_with_hook_and_line(mine: Write, tmp_path: Path) -> None:
    """Numpy's global generator knows no streams, and alpha dropout takes none."""
    engine = mine(aggregate="return Aggregated({}, {'drawn': float(np.random.rand())})")
    with pytest.raises(
        MethodError, match=r"aggregate\(\) of method 'mine' drew from numpy's global generator"
    ):
        federations.run(engine, 1)
    engine = mine(uplink="return {'x': F.alpha_dropout(torch.ones(8), 0.5, training=True)}")
    where = (
        rf"mine\.py, line {line(tmp_path, 'alpha_dropout')}: uplink\(\) of method 'mine' failed for client \d"
    )
    with pytest.raises(MethodError, match=where + r".* in round 1: TypeError: alpha_dropout cannot draw"):
        federations.run(engine, 1)


def test_a_single_draw_is_found_whichever_generator_numpy_draws_from() -> None:
    """Also a draw that only moves on in the words that an earlier one made."""
    usual = np.random.get_bit_generator()
    try:
        for kind in (np.random.MT19937, np.random.PCG64, np.random.Philox, np.random.SFC64):
            np.random.set_bit_generator(kind(3))
            np.random.rand()  # noqa: NPY002 - the earlier one
            with GlobalDraws().during("here") as drawn:
                np.random.rand()  # noqa: NPY002 - what is to be found
            with GlobalDraws().during("there") as none:
                pass
            assert drawn == (["numpy's global generator"], ["here"])
            assert none == ([], ["there"])
    finally:
        np.random.set_bit_generator(usual)


def test_a_draw_is_blamed_on_all_hooks_that_ran_meanwhile() -> None:
    """Of one that was there before and of one that came later, as two threads may have them."""
    watch, before = GlobalDraws(), torch.get_rng_state()
    try:
        with watch.during("first") as first, watch.during("second") as second:
            torch.rand(1)
    finally:
        torch.set_rng_state(before)
    assert first == second == (["torch's global generator"], ["first", "second"])


# What a hook hands back

UNUSABLE = [
    (
        "aggregate",
        "return Aggregated({'a': server['a']}, {})",
        r"dropped 'b', which was kept.*\(in round 1\)",
    ),
    ("aggregate", "return Aggregated(server | {'a': server['a'] / 0}, {})", "not finite in 'a'"),
    ("aggregate", "return None", "must hand back Aggregated"),
    ("aggregate", "return server, {}, 1", "must hand back Aggregated"),
    ("aggregate", "return Aggregated(server, {'x': object()})", "gave an object as the figure 'x'"),
    ("init_server", "return {'a': torch.full((1,), torch.nan)}", r"not finite in 'a'.*mend it\.$"),
    ("init_client", "return {'x': torch.full((1,), torch.nan)}", "not finite in 'x'"),
    ("init_client", "return {'model/x': torch.ones(1)}", "is the client's own model"),
    ("downlink", "return {'x': torch.arange(3)}", r"sends 'x' as int64; .* travel as int32.*\(for client \d"),
    ("downlink", "return {'x': torch.full((1,), torch.nan)}", "not finite in 'x'"),
    ("uplink", "return {'x': 1.0}", "returned a float as 'x'; it must be a tensor"),
    ("receive", "local.nets.model = nn.Linear(2, 2)", r"dropped 'model/.*client \d"),
    ("phases", "return None", "returned nothing instead of a list of phases"),
    ("predict", "return nets.model(x)[:, 0]", r"instead of scores, floats \["),
    ("server_networks", "return {'g': 3}", "returned an int as 'g'; it must be a torch module"),
]


def test_what_cannot_be_used_is_refused_at_once_with_hook_and_line(mine: Write, tmp_path: Path) -> None:
    for hook, body, message in UNUSABLE:
        given = {"init_server": "return {'a': torch.ones(2), 'b': torch.ones(2)}", hook: body}
        engine = mine(**given)
        with pytest.raises(MethodError, match=rf"{hook}\(\) of method 'mine' .*{message}") as refused:
            federations.run(engine, 1)
        assert f"mine.py, line {line(tmp_path, f'def {hook}')}: " in str(refused.value)


def test_a_state_that_grows_in_another_hook_is_refused_after_the_uplink(mine: Write) -> None:
    engine = mine(receive="local.state = {'y': torch.ones(1)}")
    with pytest.raises(MethodError, match=r"uplink\(\) .*added 'y', which was not kept before.*client \d"):
        federations.run(engine, 1)


TRAINED = {
    "server_networks": "return {'g': nn.Linear(1, 1)}",
    "aggregate": "return Aggregated(server, {})",
    "loss": "return nets.g(batch.x).sum()",
}
PHASE = "Phase('p', self.loss, trains=('g',), optimizer='sgd', batches=[Batch(torch.ones(1, 1), torch.zeros(1))], "


def test_a_servers_training_that_ends_in_numbers_that_are_not_finite_is_refused(mine: Write) -> None:
    """A learning rate of 1e38 on a gradient of 1e38 gives infinity."""
    loss = {"loss": "return nets.g(batch.x).sum() * 1e38"}
    engine = mine(**TRAINED | loss, server_phases=f"return [{PHASE}lr=1e38)]")
    where = r"line \d+: server_phases\(\) of method 'mine' gave numbers that are not finite in 'g/weight'"
    with pytest.raises(MethodError, match=where):
        federations.run(engine, 1)


def test_networks_of_the_server_that_its_first_state_leaves_out_draw_their_weights(mine: Write) -> None:
    init = "return {'moments/a': torch.zeros(1)}"
    engine = mine(**TRAINED, init_server=init, server_phases=f"return [{PHASE}lr=0.5)]")
    first, again = engine.initial_state().server, engine.initial_state().server
    assert list(first) == ["moments/a", "g/weight", "g/bias"]
    assert all(torch.equal(first[name], again[name]) for name in first)
    after = federations.run(engine, 1).server
    assert torch.allclose(after["g/bias"], first["g/bias"] - 0.5)  # the loss is g(1), its gradient is 1


def test_weights_that_do_not_fit_the_servers_network_are_refused(mine: Write) -> None:
    for state, message in (
        ("{'g/weight': torch.zeros(1, 1)}", "leaves out 'g/bias'; return all weights"),
        (
            "named('g', of_module(nn.Linear(1, 2)))",
            r"made 'g/weight' float32 \[2, 1\]; the network has .*\[1, 1\]",
        ),
        (
            "{**named('g', of_module(nn.Linear(1, 1))), 'g/x': torch.zeros(1)}",
            "returned 'g/x', which the network",
        ),
    ):
        engine = mine(init_server=f"return {state}", server_networks="return {'g': nn.Linear(1, 1)}")
        with pytest.raises(MethodError, match=r"line \d+: init_server\(\) of method 'mine' " + message):
            engine.initial_state()


def test_a_phase_of_the_server_needs_batches(mine: Write) -> None:
    engine = mine(**TRAINED, server_phases="return [Phase('p', self.loss, trains=('g',))]")
    with pytest.raises(MethodError, match=r"line \d+: server_phases\(\) .*gives phase 'p' no `batches`"):
        federations.run(engine, 1)


def test_what_is_taken_over_at_a_switch_must_fit_what_the_method_begins_with(mine: Write) -> None:
    before = federations.built(federations.config("fedavg"))
    for taken, message in (
        (
            "{'a': torch.ones(2), 'z': torch.ones(1)}",
            r"takes over 'z', which init_server\(\) does not begin with",
        ),
        ("{'a': torch.ones(5)}", r"made 'a' float32 \[5\] of float32 \[2\]"),
        ("{'a': torch.full((2,), torch.nan)}", "gave numbers that are not finite in 'a'"),
    ):
        engine = mine(init_server="return {'a': torch.ones(2)}", adopt=f"return {taken}")
        with pytest.raises(MethodError, match=r"line \d+: adopt\(\) of method 'mine' " + message):
            engine.take_over(before.engine.initial_state(), before.method)


def test_figures_may_be_tensors_of_one_number_and_numpys_scalars(mine: Write) -> None:
    figures = "{'a': torch.tensor(0.5), 'b': np.float32(0.25), 'c': [1, None], 'd': {'e': True}}"
    record = federations.run(mine(aggregate=f"return Aggregated({{}}, {figures})"), 1).record
    assert record["method_metrics"] == {"a": 0.5, "b": 0.25, "c": [1, None], "d": {"e": True}}


def test_an_uplink_that_is_not_finite_is_a_divergence_and_no_fault(mine: Write) -> None:
    state: Any = federations.run(mine(uplink="return {'x': torch.full((1,), torch.inf)}"), 1)
    assert state.record["diverged"] == state.record["participants"]
