"""Floating-point operations, against torch's own counter and by hand."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from simulator import models
from simulator.base import rng
from simulator.base.tensors import named, of_module
from simulator.data.inputs import blank
from simulator.methods.fedgh import FedGH
from simulator.methods.hooks import Hooks
from simulator.runners import Job, Work
from simulator.runners.local import update
from simulator.training.flops import FlopCache, counting_flops
from simulator.training.trainer import TrainingContext
from tests import federations

LARGE = re.compile(r"resnet(50|1\d\d).*|vit_b_.*|tr_h.*_l(8|16)|.*lstm.*|.*gru")


@pytest.mark.parametrize(
    "large", [pytest.param(False, marks=pytest.mark.long), pytest.param(True, marks=pytest.mark.slow)]
)
def test_a_training_step_counts_what_torchs_own_counter_counts(large: bool) -> None:
    """On the meta device, where operations are counted and not done."""
    wrong = {}
    for name in models.names():
        if bool(LARGE.fullmatch(name)) != large:
            continue
        spec = models.typical(name)
        network = models.architecture(name, spec, 10)
        x, y = blank(spec, 4, "meta"), torch.zeros(4, dtype=torch.int64, device="meta")
        with FlopCounterMode(display=False) as torchs, counting_flops() as ours:
            F.cross_entropy(network(x), y).backward()
        if not ours.total == torchs.get_total_flops() > 0:
            wrong[name] = (ours.total, torchs.get_total_flops())
    assert wrong == {}


def test_a_linear_layer_by_hand() -> None:
    """[5, 3] · [3, 7]: 2·5·3·7 forward, and as much again for the gradient of the weights; the input needs none."""
    layer = nn.Linear(3, 7)
    with counting_flops() as forward, torch.no_grad():
        layer(torch.zeros(5, 3))
    with counting_flops() as step:
        layer(torch.zeros(5, 3)).sum().backward()
    assert forward.total == 2 * 5 * 3 * 7
    assert step.total == 2 * 2 * 5 * 3 * 7


def test_only_the_threads_own_work_is_counted() -> None:
    with ThreadPoolExecutor(1) as pool, counting_flops() as flops:
        pool.submit(torch.mm, torch.zeros(50, 50), torch.zeros(50, 50)).result()
        torch.mm(torch.zeros(2, 3), torch.zeros(3, 4))
    assert flops.total == 2 * 2 * 3 * 4


def test_a_kind_of_step_is_counted_once_and_then_looked_up() -> None:
    cache = FlopCache()
    for size in (8, 2):
        with cache.step("a", "model", 8):
            torch.mm(torch.zeros(size, 3), torch.zeros(3, 4))
    assert cache.of("a", "model", 8) == 2 * 8 * 3 * 4
    with cache.step("a", "model", 2):
        torch.mm(torch.zeros(2, 3), torch.zeros(3, 4))
    assert cache.of("a", "model", 2) == 2 * 2 * 3 * 4


def test_a_step_that_fails_leaves_no_count() -> None:
    cache = FlopCache()
    with pytest.raises(ValueError, match="broken"), cache.step("a", "model", 8):
        raise ValueError("broken")
    with cache.step("a", "model", 8):
        torch.mm(torch.zeros(8, 3), torch.zeros(3, 4))
    assert cache.of("a", "model", 8) == 2 * 8 * 3 * 4


def test_the_ledger_adds_up_clients_and_server() -> None:
    """FedGH's server: one step on [|S_k|, 8] · [8, 4] for each participant, forward and gradient of the header."""
    parts = federations.built(federations.config("fedgh"))
    record = federations.run(parts.engine, 1).record
    seen = [len(parts.federation.clients[client].classes) for client in record["participants"]]
    assert record["flops"]["server"] == sum(2 * 2 * count * 8 * 4 for count in seen)
    assert record["flops"]["total"] == record["flops"]["clients"] + record["flops"]["server"]


def test_the_count_does_not_depend_on_which_client_came_first() -> None:
    """FedGH's class means of clients with equal samples and different numbers of classes."""
    images = federations.generated()
    labels = torch.from_numpy(images.labels)
    few, many = (labels < 2).nonzero()[:20, 0], torch.arange(20)
    data = federations.pixels(torch.from_numpy(images.images), labels, [few, many], num_classes=4)
    federation = federations.federation(["tiny_cnn"] * 2, [20, 20], [(0, 1), (0, 1, 2, 3)], num_classes=4)
    method = FedGH(federations.config("fedgh").method, federation)
    model = federation.build("tiny_cnn", rng.torch_stream(0, "tests/model"))

    def counted(*order: int) -> dict[int, int]:
        place = TrainingContext(federation, data, FlopCache())
        payload = method.init_server()
        jobs = {k: Job(named("model", of_module(model)), payload) for k in order}
        work = Work(Hooks(method, federation), 1, jobs)
        return {k: update(place, federation.clients[k], work).flops for k in order}

    assert counted(0, 1) == counted(1, 0)
