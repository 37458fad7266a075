"""Exported models, loaded where there is no htfl-sim."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import htfl_sim as hs
from checkpoints import SessionReader
from simulator import models
from simulator.base import rng
from simulator.data.datasets import data_folder
from simulator.data.inputs import random
from simulator.data.specs import InputSpec, SignalSpec, TokenSpec
from simulator.models import ImageShape
from simulator.results.export.weights import Program
from simulator.results.inspection.partition import data_of_session
from tests.cli.conftest import Cli
from tests.face.conftest import tiny

CIFAR = ImageShape(3, 32, 32)
OURS = ("htfl_sim", "simulator", "checkpoints", "presets", "tui", "timm", "safetensors")
ELSEWHERE = f"""
import json, sys
class Blocked:
    def find_spec(self, name, *_):
        if name.split(".")[0] in {OURS}:
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
import numpy as np
sys.path.insert(0, sys.argv[1])
from client_1 import load, prepare
net = load()
test = np.load(sys.argv[2])
scores = net(prepare(test["images"]))
right = (scores.argmax(1).numpy() == test["labels"]).mean()
print(json.dumps([float(right), sorted(dict(net.named_parameters()))]))
"""


@pytest.mark.long
def test_exported_weights_give_the_recorded_accuracy_in_a_process_without_htfl_sim(
    cli: Cli, trained: Path
) -> None:
    result = cli("export", trained, "--weights=client/1", "--at-round=2", "--out=models", "--json")
    assert result.code == 0, result.err
    assert "no checkpoint of round 2 is kept: 2 rounds were run again" in result.err
    data = data_of_session(trained, data_folder(None))
    indices = data.clients[1].test
    np.savez("test.npz", images=data.inputs.images[indices].numpy(), labels=data.labels[indices].numpy())
    process = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, "models", "test.npz"], capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    accuracy, parameters = json.loads(process.stdout)
    recorded = SessionReader(trained).records()[1]["accuracy"]["per_client"][1]
    assert recorded > 0.2 and accuracy == pytest.approx(recorded, abs=1e-12)
    assert "norm.weight" in parameters and "head.bias" in parameters


def test_any_safetensors_reader_finds_plain_names(trained: Path) -> None:
    (exported,) = hs.open(trained).export_weights([0], trained.parent / "models")
    expected = hs.open(trained).model(0).state_dict()
    found = load_file(exported.weights)
    assert list(found) == sorted(expected)
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def test_nothing_is_written_over(trained: Path) -> None:
    hs.open(trained).export_weights([0], trained.parent / "models")
    with pytest.raises(hs.ConfigError, match="is there already"):
        hs.open(trained).export_weights([0], trained.parent / "models")


def test_a_method_that_does_not_answer_with_the_model_alone_is_said(cli: Cli, tmp_path: Path) -> None:
    hs.run(tiny(method="fedproto", federation__participation=1.0, rounds=2), tmp_path / "proto")
    result = cli("export", tmp_path / "proto", "--weights=all", "--out=models")
    assert result.code == 0, result.err
    assert "its method does not answer with the model alone" in result.err
    assert "prototypes/mean" in {
        name.removeprefix("method/") for name in load_file("models/client_0.method.safetensors")
    }


LONG = "tiny_mlp", "tiny_resnet10", "tiny_mlp_h4", "tiny_bilstm", "tiny_tr_l2", "tiny_harcnn2"
SLOW = (
    "resnet50", "googlenet", "mobilenet_v2", "vit_b_32", "timm:convnext_atto", "torchvision:mobilenet_v3_small",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        *("cnn1", "tiny_vit2", "tiny_lstm"),
        *(pytest.param(name, marks=pytest.mark.long) for name in LONG),
        *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW),
    ],
)
def test_the_written_program_computes_the_very_bits_of_the_network(name: str) -> None:
    others: dict[str, InputSpec] = {"tokens": TokenSpec(7, 20), "signal": SignalSpec(3, 20)}
    spec = others.get(models.get(name).kinds[0], CIFAR)
    network = models.build(name, spec, 10, rng.torch_stream(0, "tests/model")).eval()
    program = Program.of(network, spec)
    module: dict[str, object] = {"torch": torch}
    exec(program.code, module)
    x = random(spec, 5, rng.torch_stream(0, "tests/images"))
    x = x.contiguous(memory_format=torch.channels_last) if spec == CIFAR else x
    state = network.state_dict()
    with torch.no_grad():
        scores = module["_forward"](*(state[name] for name in program.tensors), x)  # type: ignore[operator]
        assert torch.equal(scores, network(x))
