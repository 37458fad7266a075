"""Errors in a user's method as the engine meets them: said to be its author's, with file, line, hook and client."""

from pathlib import Path

import pytest

from simulator.base.errors import ConfigError, MethodError, NotEnoughMemory
from simulator.methods import Method
from tests import federations
from tests.methods.mine import Write, line, mine
from tui.common.errors import explain

__all__ = ["mine"]


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (
            "def loss(self, nets, state, batch, draws): return None",
            "TypeError: the loss is a NoneType, not a tensor",
        ),
        (
            "def loss(self, nets, state, batch, draws): return 1.0",
            "TypeError: the loss is a float, not a tensor",
        ),
        (
            "def loss(self, nets, state, batch, draws): return nets.model(batch.x)[:, 0]",
            r"ValueError: the loss has the shape \[\d+\]; it must be a scalar",
        ),
        (
            "def loss(self, nets, state, batch, draws): return torch.zeros(())",
            "ValueError: the loss does not depend on the trained modules",
        ),
        (
            "def loss(self, nets, state, batch, draws): return 1",
            "TypeError: the loss is an int, not a tensor",
        ),
        ("def loss(self, nets, state, batch): return None", "TypeError: .*takes 4 positional arguments"),
    ],
)
def test_a_loss_that_nothing_can_be_trained_with_is_its_authors(
    mine: Write, tmp_path: Path, loss: str, reason: str
) -> None:
    engine = mine("def phases(self, local): return [Phase('p', self.loss)]\n" + loss)
    place = rf"mine\.py, line {line(tmp_path, 'def loss')}: loss\(\) of method 'mine' failed for client \d"
    with pytest.raises(MethodError, match=rf"{place}.*phase 'p', step 1: {reason}"):
        federations.run(engine, 1)


@pytest.mark.parametrize(
    "raised", ["MemoryError()", 'RuntimeError("DefaultCPUAllocator: can\'t allocate memory")']
)
def test_a_loss_for_which_there_is_not_enough_memory_is_nobodys_fault(mine: Write, raised: str) -> None:
    engine = mine(f"""
        def phases(self, local): return [Phase("p", self.loss)]
        def loss(self, nets, state, batch, draws): raise {raised}
    """)
    with pytest.raises(NotEnoughMemory) as starved:
        federations.run(engine, 1)
    assert explain(starved.value)[1] == 7


def test_a_hook_that_takes_other_arguments_is_its_authors(mine: Write, tmp_path: Path) -> None:
    engine = mine("def downlink(self, server, client): return {}")
    place = rf"mine\.py, line {line(tmp_path, 'def downlink')}: downlink\(\) of method 'mine' failed"
    with pytest.raises(MethodError, match=place + ".*TypeError: .*takes 3 positional arguments"):
        federations.run(engine, 1)


@pytest.mark.parametrize("hook", ["__init__(self, config, federation)", "unmet_need(self)"])
def test_a_method_that_fails_before_round_1_is_its_authors(mine: Write, tmp_path: Path, hook: str) -> None:
    with pytest.raises(ConfigError, match=r"method 'mine' failed, line \d+: ZeroDivisionError"):
        mine(f"def {hook}: return 1 / 0")


def test_a_hook_by_its_former_name_is_refused(mine: Write) -> None:
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


@pytest.mark.parametrize(
    ("hook", "body", "during"),
    [
        ("init_server", "def init_server(self): return 1 / 0", ""),
        (
            "downlink",
            "def downlink(self, round, server, client): return 1 / 0",
            r" for client \d \(tiny_cnn\) in round 1",
        ),
        (
            "receive",
            "def receive(self, local, payload): return 1 / 0",
            r" for client \d \(tiny_cnn\) in round 1",
        ),
        ("uplink", "def uplink(self, local): return 1 / 0", r" for client \d \(tiny_cnn\) in round 1"),
        ("aggregate", "def aggregate(self, round, server, uplinks): return 1 / 0", " in round 1"),
        (
            "predict",
            "def predict(self, nets, state, x): return 1 / 0",
            r" for client \d \(tiny_cnn\) in round 1",
        ),
    ],
)
def test_an_error_in_any_hook_is_its_authors(
    hook: str, body: str, during: str, mine: Write, tmp_path: Path
) -> None:
    engine = mine(body)
    where = rf"line {line(tmp_path, '1 / 0')}: {hook}\(\) of method 'mine' failed{during}: ZeroDivisionError"
    with pytest.raises(MethodError, match=where):
        federations.run(engine, 1)


def test_an_error_of_our_own_stays_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A built-in method that fails is a bug in htfl-sim: its error passes as it is, with phase and step."""
    from simulator.methods.fedprox import FedProx
    from simulator.training.loop import StepFailed

    monkeypatch.setattr(FedProx, "loss", lambda *_: 1 / 0)
    with pytest.raises(StepFailed, match="phase 'model', step 1: ZeroDivisionError"):
        federations.run(federations.built(federations.config("fedprox")).engine, 1)


def test_an_error_of_our_own_in_a_hook_stays_ours_beside_a_users_phases(
    mine: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook is inherited: no line of the plugin has to do with it."""
    engine = mine("""
        def loss(self, nets, state, batch, draws): return nets.model(batch.x).sum()
        def phases(self, local): return [Phase("p", self.loss)]
    """)
    monkeypatch.setattr(Method, "downlink", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        federations.run(engine, 1)


def test_a_loss_that_is_not_the_users_is_placed_where_its_phase_is_made(mine: Write, tmp_path: Path) -> None:
    """The body of the loss is torch's, which takes other arguments."""
    engine = mine("def phases(self, local): return [Phase('p', F.l1_loss)]")
    place = rf"mine\.py, line {line(tmp_path, 'def phases')}: l1_loss\(\) of method 'mine' failed"
    with pytest.raises(MethodError, match=place):
        federations.run(engine, 1)


def test_batches_that_cannot_be_gone_through_are_reported_where_the_phase_is_made(
    mine: Write, tmp_path: Path
) -> None:
    engine = mine("""
        def phases(self, local): return [Phase("p", self.loss, batches=local.batch)]
        def loss(self, nets, state, batch, draws): return nets.model(batch.x).sum()
    """)
    place = rf"mine\.py, line {line(tmp_path, 'def phases')}: phases\(\) of method 'mine' "
    with pytest.raises(MethodError, match=place + "has a method as batches in phase 'p'"):
        federations.run(engine, 1)


def test_a_loss_without_a_name_is_called_loss(mine: Write) -> None:
    engine = mine("""
        def phases(self, local):
            import functools
            return [Phase("p", functools.partial(lambda *_: 1 / 0))]
    """)
    with pytest.raises(MethodError, match=r": loss\(\) of method 'mine' failed"):
        federations.run(engine, 1)


@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        ("raise ValueError('Too few.')", "ValueError: Too few."),
        ("raise ValueError", "ValueError: no reason given."),
        ("raise SystemExit(3)", r"SystemExit: it called sys.exit\(3\)."),
        ("raise ValueError('outer') from KeyError('inner')", "ValueError: outer."),
    ],
)
def test_the_reason_is_what_the_hook_itself_raised(mine: Write, failing: str, reason: str) -> None:
    engine = mine(f"def init_server(self): {failing}")
    with pytest.raises(MethodError, match=r"init_server\(\) of method 'mine' failed: " + reason):
        engine.initial_state()


def test_an_error_that_already_says_what_to_do_passes_as_it_is(mine: Write) -> None:
    engine = mine("""
        def init_server(self):
            from simulator.base.errors import ConfigError
            raise ConfigError("set another rank")
    """)
    with pytest.raises(ConfigError, match=r"^set another rank$"):
        engine.initial_state()
