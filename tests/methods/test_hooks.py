"""Hooks as the engine calls them: draws directed, and what comes back checked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from simulator.base import rng
from simulator.base.errors import MethodError
from simulator.methods.hooks import GlobalDraws
from simulator.runners import Job, Work, carry_out
from tests import federations
from tests.methods.mine import Write, line, mine

__all__ = ["mine"]


# Draws


def test_a_module_built_in_an_aggregation_draws_from_a_keyed_stream(mine: Write) -> None:
    """The same weights in every run, others in every round, and torch's global generator stays where it is."""
    engine = mine("""
        def aggregate(self, round, server, uplinks):
            return Aggregated({}, {"drawn": float(nn.Linear(2, 2).weight.detach().sum())})
    """)
    before = torch.get_rng_state()
    state = engine.initial_state()
    first, again = (engine.round(state, lambda event: None) for _ in range(2))
    second = engine.round(first, lambda event: None)
    drawn = [each.record["method_metrics"]["drawn"] for each in (first, again, second)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("hook", "body"),
    [
        ("init_server", "def init_server(self): return named('x', of_module(nn.Linear(2, 2)))"),
        ("init_client", "def init_client(self, client): return {'x': torch.rand(2)}"),
        ("downlink", "def downlink(self, round, server, client): return {'x': torch.rand(2)}"),
        ("uplink", "def uplink(self, local): return {'x': torch.rand(2)}"),
        ("predict", "def predict(self, nets, state, x): return nets.model(x) + torch.rand(4)"),
    ],
)
def test_every_hook_draws_from_a_stream_of_its_own(hook: str, body: str, mine: Write) -> None:
    before = torch.get_rng_state()
    engine = mine(body)
    runs = [federations.run(engine, 2) for _ in range(2)]
    assert federations.state_bits(runs[0]) == federations.state_bits(runs[1])
    assert federations.untimed(runs[0].record) == federations.untimed(runs[1].record)
    assert torch.equal(torch.get_rng_state(), before)


def test_clients_draw_differently_in_the_same_hook(mine: Write) -> None:
    state = mine("def init_client(self, client): return {'x': torch.rand(2)}").initial_state()
    assert len({tuple(client["x"].tolist()) for client in state.clients}) == 4


def test_hooks_before_round_1_draw_by_round_0(mine: Write) -> None:
    state = mine("def init_server(self): return {'x': torch.rand(2)}").initial_state()
    expected = torch.rand(2, generator=rng.torch_stream(7, "hook/init_server", 0, rng.EVERYONE))
    assert torch.equal(state.server["x"], expected)


def test_a_clients_hooks_draw_by_the_number_of_its_dispatch(mine: Write) -> None:
    """Two jobs of one client in the same round draw differently; without a number, the round is its number."""
    engine = mine("def uplink(self, local): return {'x': torch.rand(2)}", runtime={"runner": "sequential"})
    jobs = {0: Job(engine.initial_state().clients[0], {})}

    def drawn(dispatch: int | None) -> list[float]:
        work = Work(engine._hooks, 1, jobs, dispatch=dispatch)
        [update] = carry_out(engine._runner, work)
        values: list[float] = update.uplink["x"].tolist()
        return values

    assert drawn(1) == drawn(None) != drawn(7)


def test_a_draw_that_cannot_be_directed_is_refused_with_the_hooks_name(mine: Write, tmp_path: Path) -> None:
    """Numpy's global generator knows no streams; torch.seed() sets the global generator whatever the context."""
    engine = mine("""
        def aggregate(self, round, server, uplinks):
            return Aggregated({}, {"drawn": float(np.random.rand())})
    """)
    with pytest.raises(
        MethodError, match=r"aggregate\(\) of method 'mine' drew from numpy's global generator"
    ):
        federations.run(engine, 1)


@pytest.mark.parametrize("kind", [np.random.MT19937, np.random.PCG64, np.random.Philox, np.random.SFC64])
def test_a_single_draw_is_found_whichever_generator_numpy_draws_from(kind: Callable[[int], Any]) -> None:
    """Also a draw that only moves on in the words that an earlier one made."""
    usual = np.random.get_bit_generator()
    np.random.set_bit_generator(kind(3))
    np.random.rand()  # noqa: NPY002 - the earlier one
    try:
        with GlobalDraws().during("here") as drawn:
            np.random.rand()  # noqa: NPY002 - what is to be found
        with GlobalDraws().during("there") as none:
            pass
    finally:
        np.random.set_bit_generator(usual)
    assert drawn == (["numpy's global generator"], ["here"])
    assert none == ([], ["there"])


def test_a_draw_from_torchs_global_generator_is_found() -> None:
    before = torch.get_rng_state()
    try:
        with GlobalDraws().during("here") as drawn:
            torch.rand(1)
    finally:
        torch.set_rng_state(before)
    assert drawn == (["torch's global generator"], ["here"])


def test_a_draw_is_blamed_on_all_hooks_that_ran_meanwhile() -> None:
    """Of one that was there before and of one that came later, as two threads may have them."""
    watch = GlobalDraws()
    with watch.during("first") as first, watch.during("second") as second:
        np.random.rand()  # noqa: NPY002 - what is to be found
    assert first.hooks == second.hooks == ["first", "second"]


def test_layers_that_draw_where_nothing_can_direct_them_are_refused_with_hook_and_line(
    mine: Write, tmp_path: Path
) -> None:
    engine = mine("""
        def uplink(self, local):
            return {"x": F.alpha_dropout(torch.ones(8), 0.5, training=True)}
    """)
    where = (
        rf"mine\.py, line {line(tmp_path, 'alpha_dropout')}: uplink\(\) of method 'mine' failed for client \d"
    )
    with pytest.raises(MethodError, match=where + r".* in round 1: TypeError: alpha_dropout cannot draw"):
        federations.run(engine, 1)


# What a hook hands back


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "def aggregate(self, round, server, uplinks): return Aggregated({'a': server['a']}, {})",
            r"aggregate\(\) of method 'mine' dropped 'b', which was kept before.*\(in round 1\)",
        ),
        (
            "def aggregate(self, round, server, uplinks): return Aggregated(server | {'c': server['a']}, {})",
            r"aggregate\(\) .*added 'c', which was not kept before",
        ),
        (
            "def aggregate(self, round, server, uplinks): return Aggregated(server | {'a': torch.ones(3)}, {})",
            r"made 'a' float32 \[3\] of float32 \[2\]",
        ),
        (
            "def aggregate(self, round, server, uplinks): return Aggregated(server | {'a': server['a'].long()}, {})",
            r"made 'a' int64 \[2\] of float32 \[2\]",
        ),
        (
            "def aggregate(self, round, server, uplinks): return Aggregated(server | {'a': server['a'] / 0}, {})",
            r"gave numbers that are not finite in 'a'",
        ),
        ("def aggregate(self, round, server, uplinks): return None", r"must hand back Aggregated"),
        ("def aggregate(self, round, server, uplinks): return server, {}, 1", r"must hand back Aggregated"),
        (
            "def init_client(self, client): return {'x': torch.full((1,), torch.nan)}",
            r"init_client\(\) .*not finite in 'x'",
        ),
        (
            "def aggregate(self, round, server, uplinks): return Aggregated(server, {'x': object()})",
            r"gave an object as the figure 'x', which JSON cannot hold",
        ),
        (
            "def downlink(self, round, server, client): return {'x': torch.arange(3)}",
            r"downlink\(\) .*sends 'x' as int64; labels and counts travel as int32.*\(for client \d",
        ),
        (
            "def downlink(self, round, server, client): return {'x': torch.full((1,), torch.nan)}",
            r"downlink\(\) .*not finite in 'x'",
        ),
        (
            "def downlink(self, round, server, client): return [server['a']]",
            r"returned a list instead of named tensors",
        ),
        ("def uplink(self, local): return {'x': 1.0}", r"returned a float as 'x'; it must be a tensor"),
        ("def uplink(self, local): return {'a b': torch.ones(1)}", r"named a tensor 'a b'"),
        (
            "def receive(self, local, payload): local.state = {'y': torch.ones(1)}",
            r"uplink\(\) .*added 'y', which was not kept before.*client \d",
        ),
        (
            "def phases(self, local): return None",
            r"phases\(\) .*returned nothing instead of a list of phases",
        ),
        (
            "def phases(self, local): return [Phase('p', self.loss, trains=('header',))]",
            r"trains 'header' in phase 'p'; there are model",
        ),
        (
            "def phases(self, local): return [Phase('p', self.loss), Phase('p', self.loss)]",
            r"has two phases named 'p'",
        ),
        (
            "def phases(self, local): return [Phase('p', self.loss, keeps='adam')]",
            r"keeps the moments of phase 'p' in 'adam', which its state does not have",
        ),
        (
            "def predict(self, nets, state, x): return nets.model(x)[:, 0]",
            r"predict\(\) .*instead of scores, floats \[",
        ),
        (
            "def predict(self, nets, state, x): return nets.model(x) > 0",
            r"predict\(\) .*a tensor bool .*instead of scores",
        ),
        (
            "def downlink(self, round, server, client): return {'x': torch.eye(2).to_sparse()}",
            r"'x' as a sparse tensor",
        ),
        (
            "def phases(self, local): return [Phase('p', self.loss, trains=())]",
            r"trains no parameters in phase 'p'",
        ),
        ("def phases(self, local): return [Phase('p', self.loss, lr=-1)]", r"has lr = -1 in phase 'p'"),
        ("def phases(self, local): return [Phase('p', self.loss, lr='x')]", r"has lr = 'x' in phase 'p'"),
        ("def phases(self, local): return [Phase('p', self.loss, epochs=0)]", r"has epochs = 0 in phase 'p'"),
        (
            "def phases(self, local): return [Phase('p', self.loss, optimizer='adamm')]",
            r"has optimizer = 'adamm'",
        ),
        ("def phases(self, local): return [Phase('p', self.loss, samples=[1])]", r"has a list as samples"),
        (
            "def phases(self, local): return [Phase('p', None)]",
            r"a loss or draws in phase 'p' that cannot be called",
        ),
        (
            "def phases(self, local): return [Phase('p', self.loss, correction={'model/no': torch.ones(1)})]",
            r"corrects 'model/no' in phase 'p', and there is no such weight",
        ),
        (
            "def phases(self, local): return [Phase('p', self.loss, correction={'model/head.bias': torch.ones(3)})]",
            r"corrects 'model/head.bias' in phase 'p' by float32 \[3\]; it is float32 \[4\]",
        ),
        (
            "def receive(self, local, payload): local.nets.model = nn.Linear(2, 2)",
            r"receive\(\) .*dropped 'model/.*client \d",
        ),
        (
            "def receive(self, local, payload): local.nets.model.head = nn.Linear(3, 4)",
            r"receive\(\) .*made 'model/head.weight' float32 \[4, 3\] of",
        ),
        ("def server_networks(self): return [1]", r"returned a list instead of modules by name"),
        (
            "def server_networks(self): return {'g': 3}",
            r"returned an int as 'g'; it must be a torch module",
        ),
        (
            "def aggregate(self, round, server, uplinks): return Aggregated(server, {'x': 10**400})",
            r"a whole number of more than 64 bits as the figure 'x'",
        ),
        (
            "def aggregate(self, round, server, uplinks): return Aggregated(server, {1: 0.5})",
            r"returned a dict instead of metrics by name",
        ),
        ("def init_client(self, client): return {'model/x': torch.ones(1)}", r"is the client's own model"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(body: str, message: str, mine: Write, tmp_path: Path) -> None:
    engine = mine(
        "def init_server(self): return {'a': torch.ones(2), 'b': torch.ones(2)}\n"
        "def loss(self, nets, state, batch, draws): return nets.model(batch.x).sum()\n" + body
    )
    with pytest.raises(MethodError, match=message) as refused:
        federations.run(engine, 1)
    assert (
        f"mine.py, line {line(tmp_path, body.partition('(')[0])}: " in str(refused.value)
        or "uplink" in message
    )


def test_a_figure_that_holds_itself_is_refused(mine: Write) -> None:
    engine = mine("""
        def aggregate(self, round, server, uplinks):
            figure = []
            figure.append(figure)
            return Aggregated({}, {"x": figure})
    """)
    with pytest.raises(MethodError, match="as the figure 'x' lists in lists without end"):
        federations.run(engine, 1)


def test_a_server_that_begins_with_numbers_that_are_not_finite_is_refused(mine: Write) -> None:
    engine = mine("def init_server(self): return {'a': torch.full((1,), torch.nan)}")
    with pytest.raises(
        MethodError, match=r"init_server\(\) of method 'mine' .*not finite in 'a'.*mend it\.$"
    ):
        engine.initial_state()


def test_a_servers_training_that_ends_in_numbers_that_are_not_finite_is_refused(mine: Write) -> None:
    """A learning rate of 1e38 on a gradient of 1e38 gives infinity."""
    engine = mine("""
        def init_server(self): return named("g", of_module(torch.nn.Linear(1, 1)))
        def server_networks(self): return {"g": torch.nn.Linear(1, 1)}
        def aggregate(self, round, server, uplinks): return Aggregated(server, {})
        def loss(self, nets, state, batch, draws): return nets.g(batch.x).sum() * 1e38
        def server_phases(self, server, uplinks):
            batches = [Batch(torch.ones(1, 1), torch.zeros(1))]
            return [Phase("p", self.loss, trains=("g",), lr=1e38, optimizer="sgd", batches=batches)]
    """)
    where = r"line \d+: server_phases\(\) of method 'mine' gave numbers that are not finite in 'g/weight'"
    with pytest.raises(MethodError, match=where):
        federations.run(engine, 1)


def test_modules_of_the_server_are_refused_by_the_name_of_their_hook(mine: Write) -> None:
    """Not by that of init_server(), which makes a state of them."""
    engine = mine("""
        def init_server(self): return named("g", of_module(self.server_networks()["g"]))
        def server_networks(self): return {"g": 3}
    """)
    with pytest.raises(MethodError, match=r"line \d+: server_networks\(\) .*returned an int as 'g'"):
        engine.initial_state()


def test_networks_of_the_server_that_its_first_state_leaves_out_draw_their_weights(mine: Write) -> None:
    body = """
        def init_server(self): return {"moments/a": torch.zeros(1)}
        def server_networks(self): return {"g": torch.nn.Linear(1, 1)}
        def aggregate(self, round, server, uplinks): return Aggregated(server, {})
        def loss(self, nets, state, batch, draws): return nets.g(batch.x).sum()
        def server_phases(self, server, uplinks):
            batches = [Batch(torch.ones(1, 1), torch.zeros(1))]
            return [Phase("p", self.loss, trains=("g",), lr=0.5, optimizer="sgd", batches=batches)]
    """
    engine = mine(body)
    first, again = engine.initial_state().server, engine.initial_state().server
    assert list(first) == ["moments/a", "g/weight", "g/bias"]
    assert all(torch.equal(first[name], again[name]) for name in first)
    after = federations.run(engine, 1).server
    assert torch.allclose(after["g/bias"], first["g/bias"] - 0.5)  # the loss is g(1), its gradient is 1


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ('{"g/weight": torch.zeros(1, 1)}', "leaves out 'g/bias'; return all weights"),
        (
            'named("g", of_module(torch.nn.Linear(1, 2)))',
            r"made 'g/weight' float32 \[2, 1\]; the network has .*\[1, 1\]",
        ),
        (
            'named("g", {**of_module(torch.nn.Linear(1, 1)), "x": torch.zeros(1)})',
            "returned 'g/x', which the network",
        ),
    ],
)
def test_weights_that_do_not_fit_the_servers_network_are_refused(
    mine: Write, state: str, message: str
) -> None:
    engine = mine(f"""
        def init_server(self): return {state}
        def server_networks(self): return {{"g": torch.nn.Linear(1, 1)}}
    """)
    with pytest.raises(MethodError, match=r"line \d+: init_server\(\) of method 'mine' " + message):
        engine.initial_state()


def test_a_client_is_prepared_for_its_evaluation(mine: Write) -> None:
    engine = mine("def before_answering(self, local): return 1 / 0")
    with pytest.raises(
        MethodError, match=r"line \d+: before_answering\(\) of method 'mine' failed for client"
    ):
        federations.run(engine, 1)


def test_a_phase_of_the_server_needs_batches(mine: Write) -> None:
    engine = mine("""
        def init_server(self): return named("g", of_module(torch.nn.Linear(2, 2)))
        def server_networks(self): return {"g": torch.nn.Linear(2, 2)}
        def server_phases(self, server, uplinks): return [Phase("p", lambda *_: None, trains=("g",))]
    """)
    with pytest.raises(MethodError, match=r"line \d+: server_phases\(\) .*gives phase 'p' no `batches`"):
        federations.run(engine, 1)


@pytest.mark.parametrize(
    ("taken", "message"),
    [
        (
            "{'a': torch.ones(2), 'z': torch.ones(1)}",
            r"takes over 'z', which init_server\(\) does not begin with",
        ),
        ("{'a': torch.ones(5)}", r"made 'a' float32 \[5\] of float32 \[2\]"),
        ("{'a': torch.full((2,), torch.nan)}", r"gave numbers that are not finite in 'a'"),
    ],
)
def test_what_is_taken_over_at_a_switch_must_fit_what_the_method_begins_with(
    mine: Write, taken: str, message: str
) -> None:
    engine = mine(f"""
        def init_server(self): return {{"a": torch.ones(2)}}
        def adopt(self, server): return {taken}
    """)
    before = federations.built(federations.config("fedavg"))
    with pytest.raises(MethodError, match=r"line \d+: adopt\(\) of method 'mine' " + message):
        engine.take_over(before.engine.initial_state(), before.method)


def test_figures_may_be_tensors_of_one_number_and_numpys_scalars(mine: Write) -> None:
    engine = mine("""
        def aggregate(self, round, server, uplinks):
            return Aggregated({}, {"a": torch.tensor(0.5), "b": np.float32(0.25), "c": [1, None], "d": {"e": True}})
    """)
    record = federations.run(engine, 1).record
    assert record["method_metrics"] == {"a": 0.5, "b": 0.25, "c": [1, None], "d": {"e": True}}


def test_an_uplink_that_is_not_finite_is_a_divergence_and_no_fault(mine: Write) -> None:
    state = federations.run(mine("def uplink(self, local): return {'x': torch.full((1,), torch.inf)}"), 1)
    assert state.record["diverged"] == state.record["participants"]
