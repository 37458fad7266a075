"""Errors in a user's method as the engine meets them: said to be its author's, with file, line, hook and client."""

from pathlib import Path

import pytest

from simulator.base.errors import ConfigError, MethodError, NotEnoughMemory
from simulator.methods import Method
from simulator.training.loop import StepFailed
from tests import federations
from tests.methods.mine import Write, line, mine
from tui.common.errors import explain

__all__ = ["mine"]
PHASES = {"phases": "return [Phase('p', self.loss)]"}


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
    a hook that a plugin inherits."""
    from simulator.methods.fedprox import FedProx

    monkeypatch.setattr(FedProx, "loss", lambda *_: 1 / 0)
    with pytest.raises(StepFailed, match="phase 'model', step 1: ZeroDivisionError"):
        federations.run(
            federations.built(federations.config("fedprox", federation={"group": "tiny"})).engine, 1
        )
    engine = mine(**PHASES, loss="return nets.model(batch.x).sum()")
    monkeypatch.setattr(Method, "downlink", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        federations.run(engine, 1)


def test_a_fault_beside_the_users_lines_is_placed_where_its_phase_is_made(
    mine: Write, tmp_path: Path
) -> None:
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
