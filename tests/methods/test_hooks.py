"""Hooks as the engine calls them: draws directed, results checked at once, and errors said to be their author's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from simulator.base import rng
from simulator.base.errors import ConfigError, MethodError, NotEnoughMemory
from simulator.methods import Method, checks
from simulator.methods.hooks import GlobalDraws
from simulator.runners import Job, Work, carry_out
from simulator.training.loop import StepFailed
from simulator.training.phase import Nets, Phase
from tests import federations
from tests.methods.mine import Write, line, load, mine
from tui.common.errors import explain

__all__ = ["load", "mine"]
PHASES = {"phases": "return [Phase('p', self.loss)]"}


# Draws


def test_every_hook_draws_from_a_stream_of_its_own(mine: Write) -> None:
    """The same in every run, others in every round, and torch's global generator stays where it is."""
    before = torch.get_rng_state()
    engine = mine(
        init_server="return named('x', of_module(nn.Linear(2, 2)))",
        init_client="return {'x': torch.rand(2)}",
        downlink="return {'x': torch.rand(2)}",
        uplink="return {'x': torch.rand(2)}",
        predict="return nets.model(x) + torch.rand(4)",
        aggregate="return Aggregated(server, {'sent': uplinks[0].payload['x'].sum(), 'own': torch.rand(1)})",
    )
    runs = [federations.run(engine, rounds) for rounds in (2, 2, 1)]
    assert federations.state_bits(runs[0]) == federations.state_bits(runs[1])
    assert federations.untimed(runs[0].record) == federations.untimed(runs[1].record)
    assert runs[0].record["method_metrics"]["own"] != runs[2].record["method_metrics"]["own"]
    assert torch.equal(torch.get_rng_state(), before)


def test_clients_draw_differently_in_the_same_hook_and_before_round_1_by_round_0(mine: Write) -> None:
    drawn = "return {'x': torch.rand(2)}"
    state = mine(init_client=drawn, init_server=drawn).initial_state()
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

TRAINED = {
    "server_networks": "return {'g': nn.Linear(1, 1)}",
    "aggregate": "return Aggregated(server, {})",
    "loss": "return nets.g(batch.x).sum()",
}
PHASE = "Phase('p', self.loss, trains=('g',), optimizer='sgd', batches=[Batch(torch.ones(1, 1), torch.zeros(1))], "
STEEP = TRAINED | {"loss": "return nets.g(batch.x).sum() * 1e38"}
"""A learning rate of 1e38 on its gradient gives infinity."""
LINEAR = {"server_networks": "return {'g': nn.Linear(1, 1)}"}
UNUSABLE: list[tuple[str, str | dict[str, str], str]] = [
    ("aggregate", "return Aggregated({'a': server['a']}, {})", r"dropped 'b'.*\(in round 1\)"),
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
    (
        "server_phases",
        TRAINED | {"server_phases": "return [Phase('p', self.loss, trains=('g',))]"},
        "gives phase 'p' no `batches`",
    ),
    ("server_phases", STEEP | {"server_phases": f"return [{PHASE}lr=1e38)]"}, "not finite in 'g/weight'"),
    (
        "init_server",
        LINEAR | {"init_server": "return {'g/weight': torch.zeros(1, 1)}"},
        "leaves out 'g/bias'; return all weights",
    ),
    (
        "init_server",
        LINEAR | {"init_server": "return named('g', of_module(nn.Linear(1, 2)))"},
        r"made 'g/weight' float32 \[2, 1\]; the network has .*\[1, 1\]",
    ),
    (
        "init_server",
        LINEAR | {"init_server": "return {**named('g', of_module(nn.Linear(1, 1))), 'g/x': torch.zeros(1)}"},
        "returned 'g/x', which the network",
    ),
]


def test_what_cannot_be_used_is_refused_at_once_with_hook_and_line(mine: Write, tmp_path: Path) -> None:
    for hook, body, message in UNUSABLE:
        given = {hook: body} if isinstance(body, str) else body
        engine = mine(**{"init_server": "return {'a': torch.ones(2), 'b': torch.ones(2)}", **given})
        with pytest.raises(MethodError, match=rf"{hook}\(\) of method 'mine' .*{message}") as refused:
            federations.run(engine, 1)
        assert f"mine.py, line {line(tmp_path, f'def {hook}')}: " in str(refused.value)


def test_a_state_that_grows_in_another_hook_is_refused_after_the_uplink(mine: Write) -> None:
    engine = mine(receive="local.state = {'y': torch.ones(1)}")
    with pytest.raises(MethodError, match=r"uplink\(\) .*added 'y', which was not kept before.*client \d"):
        federations.run(engine, 1)


def test_networks_of_the_server_that_its_first_state_leaves_out_draw_their_weights(mine: Write) -> None:
    init = "return {'moments/a': torch.zeros(1)}"
    engine = mine(**TRAINED, init_server=init, server_phases=f"return [{PHASE}lr=0.5)]")
    first, again = engine.initial_state().server, engine.initial_state().server
    assert list(first) == ["moments/a", "g/weight", "g/bias"]
    assert all(torch.equal(first[name], again[name]) for name in first)
    after = federations.run(engine, 1).server
    assert torch.allclose(after["g/bias"], first["g/bias"] - 0.5)  # the loss is g(1), its gradient is 1


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


def test_an_uplink_that_is_not_finite_is_a_divergence_and_no_fault(mine: Write) -> None:
    state: Any = federations.run(mine(uplink="return {'x': torch.full((1,), torch.inf)}"), 1)
    assert state.record["diverged"] == state.record["participants"]


# Errors in a user's method


def test_a_loss_that_nothing_can_be_trained_with_is_its_authors(mine: Write, tmp_path: Path) -> None:
    for loss, reason in (
        (
            "def loss(self, nets, state, batch, draws): return None",
            "TypeError: the loss is a NoneType, not a tensor",
        ),
        (
            "def loss(self, nets, state, batch, draws): return nets.model(batch.x)[:, 0]",
            r"ValueError: the loss has the shape \[\d+\]; it must be a scalar",
        ),
        (
            "def loss(self, nets, state, batch, draws): return torch.zeros(())",
            "ValueError: the loss does not depend on the trained modules",
        ),
        ("def loss(self, nets, state, batch): return None", "TypeError: .*takes 4 positional arguments"),
    ):
        engine = mine(loss, **PHASES)
        place = (
            rf"mine\.py, line {line(tmp_path, 'def loss')}: loss\(\) of method 'mine' failed for client \d"
        )
        with pytest.raises(MethodError, match=rf"{place}.*phase 'p', step 1: {reason}"):
            federations.run(engine, 1)


def test_a_loss_for_which_there_is_not_enough_memory_is_nobodys_fault(mine: Write) -> None:
    for raised in ("MemoryError()", 'RuntimeError("DefaultCPUAllocator: can\'t allocate memory")'):
        with pytest.raises(NotEnoughMemory) as starved:
            federations.run(mine(**PHASES, loss=f"raise {raised}"), 1)
        assert explain(starved.value)[1] == 7


def test_a_method_that_fails_before_round_1_is_its_authors(mine: Write) -> None:
    for hook in ("__init__(self, config, federation)", "unmet_need(self)"):
        with pytest.raises(ConfigError, match=r"method 'mine' failed, line \d+: ZeroDivisionError"):
            mine(f"def {hook}: return 1 / 0")
    with pytest.raises(ConfigError, match=r"the hook merge\(\) is called aggregate\(\) now"):
        mine("def merge(self, round, server, uplinks): return {}")


def test_an_error_in_a_loss_names_file_line_client_phase_and_step(mine: Write, tmp_path: Path) -> None:
    engine = mine("""
        seen = 0

        def phases(self, local):
            return [Phase("first", self.loss), Phase("second", self.failing)]

        def loss(self, nets, state, batch, draws):
            return F.cross_entropy(nets.model(batch.x), batch.y)

        def failing(self, nets, state, batch, draws):
            Mine.seen += 1
            return self.loss(nets, state, batch, draws) if Mine.seen < 2 else state["nope"]
    """)
    with pytest.raises(MethodError) as refused:
        federations.run(engine, 1)
    message = str(refused.value)
    place = f"{tmp_path / 'mine.py'}, line {line(tmp_path, 'nope')}"
    assert message.startswith(f"{place}: failing() of method 'mine' failed for client ")
    assert "(tiny_cnn) in round 1, phase 'second', step 2: KeyError: 'nope'." in message
    assert refused.value.exit_code == 2
    assert refused.value.__cause__ is not None  # for --debug


def test_an_error_in_any_hook_is_its_authors(mine: Write, tmp_path: Path) -> None:
    of_client = r" for client \d \(tiny_cnn\) in round 1"
    during = dict.fromkeys(("downlink", "receive", "uplink", "predict", "before_answering"), of_client)
    for hook, when in (during | {"init_server": "", "aggregate": " in round 1"}).items():
        engine = mine(**{hook: "return 1 / 0"})
        where = (
            rf"line {line(tmp_path, '1 / 0')}: {hook}\(\) of method 'mine' failed{when}: ZeroDivisionError"
        )
        with pytest.raises(MethodError, match=where):
            federations.run(engine, 1)
    engine = mine("def downlink(self, server, client): return {}")
    with pytest.raises(
        MethodError, match=r"downlink\(\) of method 'mine' failed.*takes 3 positional arguments"
    ):
        federations.run(engine, 1)


def test_an_error_of_our_own_stays_ours(mine: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A built-in method that fails is a bug in htfl-sim: its error passes as it is, with phase and step. So does one of
    a hook that a plugin inherits.
    """
    from simulator.methods.fedprox import FedProx

    monkeypatch.setattr(FedProx, "loss", lambda *_: 1 / 0)
    with pytest.raises(StepFailed, match="phase 'model', step 1: ZeroDivisionError"):
        parts = federations.built(federations.config("fedprox", federation={"group": "tiny"}))
        federations.run(parts.engine, 1)
    engine = mine(**PHASES, loss="return nets.model(batch.x).sum()")
    monkeypatch.setattr(Method, "downlink", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        federations.run(engine, 1)


def test_a_fault_beside_the_users_lines_is_placed_at_its_phase(mine: Write, tmp_path: Path) -> None:
    """A loss of torch's takes other arguments; a loss without a name is called loss; a method is no batches."""
    for phase, said in (
        ("'p', F.l1_loss", r"l1_loss\(\) of method 'mine' failed"),
        ("'p', functools.partial(lambda *_: 1 / 0)", r"loss\(\) of method 'mine' failed"),
        (
            "'p', print, batches=local.batch",
            r"phases\(\) of method 'mine' has a method as batches in phase 'p'",
        ),
    ):
        engine = mine(phases=f"return [Phase({phase})]")
        with pytest.raises(MethodError, match=rf"mine\.py, line {line(tmp_path, 'def phases')}: {said}"):
            federations.run(engine, 1)


def test_the_reason_is_what_the_hook_itself_raised(mine: Write) -> None:
    for failing, reason in (
        ("raise ValueError('Too few.')", "ValueError: Too few."),
        ("raise ValueError", "ValueError: no reason given."),
        ("raise SystemExit(3)", r"SystemExit: it called sys.exit\(3\)."),
        ("raise ValueError('outer') from KeyError('inner')", "ValueError: outer."),
    ):
        with pytest.raises(MethodError, match=r"init_server\(\) of method 'mine' failed: " + reason):
            mine(init_server=failing).initial_state()
    with pytest.raises(ConfigError, match=r"^set another rank$"):  # it already says what to do
        mine(init_server="raise ConfigError('set another rank')").initial_state()


# What a hook may hand back, at its limits: the last value that is taken, and the first that is refused.


def nested(value: object, lists: int, as_mapping: bool = False) -> Any:
    """The value in so many lists, or mappings, in one another."""
    for _ in range(lists):
        value = {"inner": value} if as_mapping else [value]
    return value


def phase(**settings: Any) -> Phase:
    return Phase("p", **({"loss": lambda *_: torch.zeros(())} | settings))


def nets() -> Nets:
    return Nets(federations.federation(["tiny_cnn"]).architectures["tiny_cnn"])


def assert_refused(check: Callable[[], object], reason: str) -> None:
    with pytest.raises(checks.Unusable, match=reason):
        check()


def test_a_figure_is_taken_as_plain_json() -> None:
    for figure, taken in (
        (2**64 - 1, 2**64 - 1),
        (1 - 2**64, 1 - 2**64),
        (torch.tensor([0.5]), 0.5),
        (torch.tensor([[3]]), 3),
        (np.array(0.25), 0.25),
        (nested(1, 20), nested(1, 20)),
        (nested(1, 20, as_mapping=True), nested(1, 20, as_mapping=True)),
        ((1, 2), [1, 2]),
    ):
        found = checks.metrics({"x": figure})["x"]
        assert (found, type(found)) == (taken, type(taken))


def test_a_figure_that_json_cannot_hold_is_refused() -> None:
    itself: list[object] = []
    itself.append(itself)
    for figure, reason in (
        (2**64, "more than 64 bits"),
        (-(2**64), "more than 64 bits"),
        (torch.tensor([0.5, 1.5]), r"a tensor float32 \[2\] as the figure 'x'"),
        (torch.ones(0), r"a tensor float32 \[0\] as the figure 'x'"),
        (np.ones(2), "an ndarray as the figure 'x'"),
        (memoryview(np.array(1.0)), "a memoryview as the figure 'x'"),
        ({"a": 1, 2: 3}, "a dict as the figure 'x'"),
        (nested(1, 21), "lists without end"),
        (nested(1, 21, as_mapping=True), "lists without end"),
        (itself, "lists without end"),
    ):
        assert_refused(lambda figure=figure: checks.metrics({"x": figure}), reason)
    for figures in (None, ["loss"], 0.5, {1: 0.5}):
        assert_refused(lambda figures=figures: checks.metrics(figures), "instead of metrics by name")


def test_tensors_have_names_and_values() -> None:
    for value, reason in (
        ([torch.ones(1)], "returned a list instead of named tensors"),
        ({1: torch.ones(1)}, "named a tensor 1; a name reads"),
        ({"a b": torch.ones(1)}, "named a tensor 'a b'"),
        ({"x": torch.eye(2).to_sparse()}, "'x' as a sparse tensor"),
    ):
        assert_refused(lambda value=value: checks.tensors(value), reason)


def test_a_state_keeps_its_names_in_order_its_shapes_dtypes_and_device() -> None:
    """A sum over names is the same after a resume, whatever order the method returns."""
    one, two = torch.zeros(2), torch.ones(2)
    before = {"a": one, "b": two}
    assert list(checks.state({"b": two, "a": one}, before)) == ["a", "b"]
    for value, reason in (
        ({"a": one}, "dropped 'b'"),
        (before | {"c": one}, "added 'c', which was not kept before"),
        (before | {"a": torch.ones(3)}, r"made 'a' float32 \[3\] of float32 \[2\]"),
        (before | {"a": one.long()}, r"made 'a' int64 \[2\] of float32 \[2\]"),
        (before | {"a": torch.ones(2, device="meta")}, "moved 'a' from cpu to meta"),
    ):
        assert_refused(lambda value=value: checks.state(value, before), reason)


def test_one_number_that_is_not_finite_is_found_with_its_name() -> None:
    for bad in ([1.0, torch.nan], [torch.inf, 1.0]):
        named = {"a": torch.ones(2), "b": torch.tensor(bad), "c": torch.ones(2)}
        assert_refused(lambda named=named: checks.finite(named), "not finite in 'b'")
    checks.finite({})
    checks.finite({"a": torch.ones(2, device="meta")})  # has no values


def test_settings_of_a_phase_that_can_be_used_are_taken() -> None:
    for settings in (
        {"lr": 1}, {"lr": 1e-9}, {"epochs": 1}, {"draws": lambda *_: {}}, {"optimizer": "sgd"},
        {"optimizer": "adam", "keeps": "adam"}, {"samples": torch.tensor([0, 2])}, {"batches": ()},
        {"batches": iter([])}, {"correction": {"model/head.bias": torch.ones(2)}},
        {"within": {"model/head.bias": (0.0, 1.0)}}, {"within": {"model/head.bias": (0.5, 0.5)}},
    ):  # fmt: skip
        given = phase(**settings)
        assert checks.phases((given,), nets(), ["adam/step"]) == [given]


def test_settings_of_a_phase_that_cannot_be_used_are_refused() -> None:
    bias = "model/head.bias"
    for settings, reason in (
        ({"lr": 0}, "has lr = 0 "),
        ({"lr": torch.inf}, "has lr = inf "),
        ({"lr": True}, "has lr = True "),
        ({"lr": "x"}, "has lr = 'x' in phase 'p'"),
        ({"epochs": 0}, "has epochs = 0 "),
        ({"steps": 1.5}, "has steps = 1.5 "),
        ({"epochs": 1, "steps": 2}, "has both epochs and steps "),
        ({"optimizer": "adamm"}, "has optimizer = 'adamm'"),
        ({"loss": None}, "loss or draws in phase 'p' that cannot be called"),
        ({"draws": 3}, "loss or draws in phase 'p' that cannot be called"),
        ({"trains": ("header",)}, "trains 'header' in phase 'p'; there are model"),
        ({"trains": ()}, "trains no parameters in phase 'p'"),
        ({"keeps": "adam"}, "keeps the moments of phase 'p' in 'adam', which its state does not have"),
        ({"batches": 5}, "has an int as batches in phase 'p'; they are a list of Batch"),
        ({"samples": [1]}, "has a list as samples"),
        ({"samples": torch.tensor(1)}, r"a tensor int64 \[\] as samples"),
        ({"samples": torch.tensor([[0, 1]])}, r"a tensor int64 \[1, 2\] as samples"),
        ({"samples": torch.tensor([True])}, r"a tensor bool \[1\] as samples"),
        (
            {"correction": {"model/no": torch.ones(1)}},
            "corrects 'model/no' in phase 'p', and there is no such",
        ),
        (
            {"correction": {bias: torch.ones(3)}},
            rf"'{bias}' in phase 'p' by float32 \[3\]; it is float32 \[2\]",
        ),
        (
            {"within": {"model/alpha": (0, 1)}},
            "bounds 'model/alpha' in phase 'p', and there is no such weight",
        ),
        ({"within": {bias: (1, 0)}}, f"bounds '{bias}' in phase 'p' from 1 to 0"),
    ):
        assert_refused(lambda settings=settings: checks.phases([phase(**settings)], nets(), ()), reason)
    assert_refused(lambda: checks.phases([phase(), phase()], nets(), ()), "has two phases named 'p'")
    assert_refused(
        lambda: checks.phases([phase(), "model"], nets(), ()), "a list instead of a list of phases"
    )


def test_networks_and_scores_are_what_they_are_called() -> None:
    assert_refused(lambda: checks.networks([1]), "returned a list instead of modules by name")
    for answer in (None, 1.0, [[0.5, 0.5]], torch.ones(1, 3), torch.ones(1, 2) > 0):
        assert_refused(lambda answer=answer: checks.scores(answer, 1, 2), r"of scores, floats \[1, 2\]")
