"""Every promise can be broken: a method that breaks it is found out, and told how."""

from collections.abc import Callable

import pytest

from simulator.base.errors import ConfigError
from simulator.contract import Subject
from tests.contract.imitation import PROMISES
from tests.methods.mine import load

__all__ = ["load"]
BREAKS = {
    "states keep their names, shapes and dtypes": (
        """
        def init_server(self): return {"x": torch.zeros(1)}
        def aggregate(self, round, server, uplinks): return Aggregated({"x": torch.zeros(2)}, {})
        """,
        "made 'x' float32 [2] of float32 [1]",
    ),
    "a round changes every participant and nobody else": (
        "def phases(self, local): return []",
        "kept its state",
    ),
    "the same seed gives the same bits": (
        "def init_server(self): return {'x': torch.tensor([time.time_ns() % 1e6])}",
        "gives the server other tensors",
    ),
    "another seed gives other bits": (
        """
        def __init__(self, config, federation):
            super().__init__(config, federation)
            object.__setattr__(federation, "seed", 7)
            object.__setattr__(federation, "init_seed", 7)

        def phases(self, local): return []
        """,
        "seeds 7 and 8 give the same bits",
    ),
    "every runner and precision gives its bits again, whatever the number of workers": (
        """
        runs = itertools.count()

        def init_server(self):
            return {"x": torch.tensor(float(next(self.runs)))}
        """,
        "with two workers in place of one gives the server other tensors",
    ),
    "a session that was stopped and resumed gives the bits of one left alone": (
        """
        seen = 0

        def aggregate(self, round, server, uplinks):
            self.seen += 1
            return Aggregated({}, {"seen": self.seen})
        """,
        "the resumed session has other records",
    ),
    "measured traffic is the size of the payloads": (
        "def uplink(self, local): return {'x': torch.tensor(float('nan'))}",
        "up: measured [0, 0, 0, 0] bytes, sent [",
    ),
    "a round is a function of the state it starts from": (
        """
        seen = 0.0

        def aggregate(self, round, server, uplinks):
            self.seen += 1.0
            return Aggregated({}, {"seen": self.seen})
        """,
        "the method object holds what a round changes",
    ),
    "no global generator is touched": (
        "def aggregate(self, round, server, uplinks): random.random(); return Aggregated({}, {})",
        "Python's global generator moved",
    ),
    "losses are pure": (
        """
        def phases(self, local):
            return [Phase("model", self.loss)]

        def loss(self, nets, state, batch, draws):
            return cross_entropy(nets, state, batch._replace(x=batch.x + torch.rand(batch.x.shape)), draws)
        """,
        "another at the second call",
    ),
    "every phase trains the modules that it names": (
        """
        def receive(self, local, payload):
            local.nets["idle"] = torch.nn.Linear(2, 2)

        def phases(self, local):
            return [Phase("model", cross_entropy, trains=("model", "idle"))]
        """,
        "no gradient of phase 'model' reaches 'idle'",
    ),
    "a whole round stays on its device, and no training step waits for the device": (
        "def uplink(self, local): return {'x': torch.full((1,), float(local.nets.model.head.bias.detach().sum()))}",
        "Mine.uplink (line 16) reads a value (aten._local_scalar_dense.default)",
    ),
    "its card says what it is": (
        "card = Card('Mine', '', 'head', 'nothing', '–', '–')",
        "its card says '' for 'paper'",
    ),
}

Load = Callable[[str], None]


def test_every_promise_is_broken_by_one_of_these() -> None:
    assert {promise.sentence for promise in PROMISES} == set(BREAKS)


@pytest.mark.parametrize("sentence", BREAKS)
def test_a_broken_promise_is_found_out(sentence: str, load: Load) -> None:
    body, how = BREAKS[sentence]
    promise = next(each for each in PROMISES if each.sentence == sentence)
    load(body)
    found = promise.broken_by(Subject("mine"))
    assert found is not None and how in found


def test_a_method_that_fails_breaks_its_promises_with_the_reason(load: Load) -> None:
    load("def uplink(self, local): return {'x': 1}")
    subject = Subject("mine")
    found = [each.broken_by(subject) for each in PROMISES]
    assert sum("must be a tensor" in how for how in found if how) > 5


def test_a_method_whose_needs_no_tiny_model_meets_is_refused(load: Load) -> None:
    load("def unmet_need(self): return 'needs a network of gold'")
    with pytest.raises(ConfigError, match="cannot be tried: none of the tiny models meets its needs"):
        Subject("mine")
