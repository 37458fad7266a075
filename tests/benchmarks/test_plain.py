"""The loop without a simulator: the same models, images, steps and arithmetic."""

import pytest
import torch

from benchmarks import plain
from benchmarks.plain import PlainLoop
from simulator.base.tensors import part
from tests import federations


def test_a_step_of_all_images_ends_at_the_same_weights_but_for_the_rounding_of_sums() -> None:
    config = federations.config(
        training={"batch_size": 1_000, "momentum": 0.9, "weight_decay": 0.01},
        federation={"participation": 1, "group": "tiny_cnn"},  # which drops nothing out
    )
    with federations.on_images(federations.generated()):
        loop = PlainLoop(config)
    state = federations.run(federations.built(config).engine, rounds=1)
    assert state.record is not None
    loss = loop.round()
    for model, tensors in zip(loop.models, state.clients, strict=True):
        torch.testing.assert_close(model.state_dict(), part(tensors, "model"))
    samples = [len(loader.dataset) for loader in loop.loaders]  # type: ignore[arg-type]
    losses = state.record["loss"]["per_client"]
    weighted = sum(n * each for n, each in zip(samples, losses, strict=True)) / sum(samples)
    assert abs(loss - weighted) < 1e-5


def test_an_epoch_has_as_many_steps() -> None:
    config = federations.config(training={"batch_size": 8}, federation={"participation": 1})
    with federations.on_images(federations.generated()):
        loop = PlainLoop(config)
    clients = federations.built(config).data.clients
    assert [len(loader) for loader in loop.loaders] == [-(-len(client.train) // 8) for client in clients]


def test_the_loop_has_as_many_threads_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first state is made with a client's one thread."""
    monkeypatch.setattr(plain, "_LOOP", [])
    before = torch.get_num_threads()
    try:
        with federations.on_images(federations.generated()):
            plain._begin(federations.config(), threads=3)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
        torch.use_deterministic_algorithms(True)


@pytest.mark.long
def test_a_round_is_timed_by_workers_and_threads_with_the_default_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with federations.on_images(federations.generated()):
        found = plain.by_workers(federations.config(), rounds=1)
    assert list(found) == [(2, 1), (3, 1), (1, 2), (1, 1)]
    assert min(found.values()) > 0
