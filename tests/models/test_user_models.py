"""Models from a user's file: how they are split, what they are given, and what is refused before anything runs."""

from pathlib import Path
from typing import Any

import pytest
import torch

from simulator import models
from simulator.base import own_files
from simulator.base.errors import ConfigError
from simulator.config import Config
from simulator.config.user_files import loaded
from simulator.models import ImageShape
from simulator.models import libraries as own_models
from tests import federations
from tests.own import another_process

pytestmark = pytest.mark.usefixtures("generated_images")
__all__ = ["another_process"]
SHAPE = ImageShape(1, 8, 8)
CLASSES = 4

SPLIT = """
from torch import nn

class Split(nn.Module):
    def __init__(self, in_channels, image_size, num_classes):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(in_channels, 2, 3, padding=1), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(2 * image_size[0] * image_size[1], num_classes)

    def forward(self, x):
        return self.head(self.features(x))
"""
NAMED = """
from torch import nn

class Plain(nn.Module):
    def __init__(self, num_classes, hidden=6):
        super().__init__()
        self.fc1 = nn.Linear(64, hidden)
        self.drop = nn.Dropout(0.5)
        self.fc2 = nn.Linear(hidden, num_classes)

    def forward(self, x):
        return self.fc2(self.drop(self.fc1(x.flatten(1)).relu()))

def wide(num_classes):
    return Plain(num_classes, hidden=12)
"""


def load(folder: Path, source: str, name: str = "mynets.py") -> None:
    (folder / name).write_text(source, encoding="utf-8")
    own_models.load(folder / name)


def build(name: str) -> models.Network:
    models.architecture(name, SHAPE, CLASSES)
    return models.build(name, SHAPE, CLASSES, torch.Generator().manual_seed(3))


def test_a_module_with_features_and_head_is_split_there(tmp_path: Path) -> None:
    load(tmp_path, SPLIT)
    network = build("mynets:Split")
    assert (network.num_features, network.head.out_features) == (2 * 8 * 8, CLASSES)
    x = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    assert torch.equal(network(x), network.head(network.features(x)))
    assert {name.split(".")[0] for name in network.state_dict()} == {"body", "head"}


@pytest.mark.parametrize(("name", "width"), [("mynets:Plain@fc2", 6), ("mynets:wide@fc2", 12)])
def test_a_module_is_split_at_the_layer_that_is_named(tmp_path: Path, name: str, width: int) -> None:
    load(tmp_path, NAMED)
    network = build(name).eval()
    assert network.num_features == width
    x = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    by_hand = network.body.fc1(x.flatten(1)).relu()  # type: ignore[union-attr, operator]
    assert torch.equal(network.features(x), by_hand)


def test_a_network_of_ours_with_layers_of_its_own_is_taken_as_it_is(tmp_path: Path) -> None:
    load(
        tmp_path,
        "from torch import nn\n"
        "from simulator.models import Network\n"
        "class Two(Network):\n"
        "    layers = ('low', 'features')\n"
        "    def __init__(self, num_classes):\n"
        "        super().__init__()\n"
        "        self.fc = nn.Linear(64, 5)\n"
        "        self.head = nn.Linear(5, num_classes)\n"
        "    def represent(self, x):\n"
        "        low = self.fc(x.flatten(1))\n"
        "        return {'low': low, 'features': low.relu()}\n",
    )
    assert build("mynets:Two").layers == ("low", "features")


def test_a_head_of_several_layers_says_its_widths(tmp_path: Path) -> None:
    """Methods that need a linear head refuse it. FML runs."""
    deep = SPLIT.replace(
        "self.head = nn.Linear(2 * image_size[0] * image_size[1], num_classes)",
        "width = 2 * image_size[0] * image_size[1]\n"
        "        self.head = nn.Sequential(nn.Linear(width, 3), nn.ReLU(), nn.Linear(3, num_classes))\n"
        "        self.head.in_features, self.head.out_features = width, num_classes",
    )
    load(tmp_path, deep)
    network = build("mynets:Split")
    assert (network.num_features, network.head.out_features) == (2 * 8 * 8, CLASSES)
    group = {"group": ["tiny_mlp", "mynets:Split"]}
    with pytest.raises(ConfigError, match=r"client 1 \(mynets:Split\) has a head 128→4 of its own kind"):
        federations.built(federations.config("lg_fedavg", federation=group))
    parts = federations.built(federations.config("fml", federation=group))
    assert federations.run(parts.engine, 1).record is not None


@pytest.mark.parametrize("method", ["fedgh", "fedavg", "fedlora"])
def test_it_trains_in_a_group_beside_a_built_in_one(tmp_path: Path, method: str) -> None:
    load(tmp_path, NAMED.replace("hidden=6", "hidden=8"))
    group = ["mynets:Plain@fc2"] if method == "fedavg" else ["tiny_mlp", "mynets:Plain@fc2"]
    parts = federations.built(federations.config(method, federation={"group": group}))
    state = federations.run(parts.engine, 2)
    assert state.record is not None and state.record["diverged"] == []
    again = federations.run(parts.engine, 2)
    assert federations.state_bits(again) == federations.state_bits(state)


def test_a_file_in_a_configuration_is_loaded_and_named_by_its_stem(tmp_path: Path) -> None:
    (tmp_path / "mynets.py").write_text(SPLIT, encoding="utf-8")
    group = ["cnn1", f"{tmp_path}/mynets.py:Split"]
    raw = {"method": {"name": "fedgh"}, "federation": {"group": group}}
    assert Config.read(loaded(raw)).federation.group == ("cnn1", "mynets:Split")
    assert own_files.loaded("model", "mynets.py") is not None
    assert raw["federation"]["group"] == group  # type: ignore[index]


BAD: list[Any] = [
    pytest.param(SPLIT, "Splat", "has no model 'Splat'. Did you mean 'Split'?", id="unknown"),
    pytest.param(NAMED, "Plain", "no 'features' with a linear layer 'head' after it; .* as @fc2", id="no head"),
    pytest.param(NAMED, "Plain@fc3", "no linear layer 'fc3'", id="no such layer"),
    pytest.param(NAMED, "Plain@fc1", "fc1' has 6 outputs for 4 classes", id="another width"),
    pytest.param(SPLIT.replace("in_channels", "depth, in_channels", 1), "Split", "needs 'depth'", id="argument"),
    pytest.param(
        SPLIT.replace("self.head(self.features(x))", "self.head(self.features(x)).softmax(1)"),
        "Split",
        r"forward\(x\) must equal head\(features\(x\)\)",
        id="after the head",
    ),
    pytest.param(
        SPLIT.replace("self.head(self.features(x))", "self.head(self.tail(x))"),
        "Split",
        "mynets.py, given images of 1×8×8, failed, line 11: AttributeError",
        id="forward fails",
    ),
    pytest.param(
        SPLIT.replace("super().__init__()", "super().__init__(); raise ValueError('too small')"),
        "Split",
        "failed, line 6: ValueError: too small",
        id="constructor fails",
    ),
    pytest.param("def Net(num_classes):\n    return 3", "Net", "makes int instead of an nn.Module", id="int"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "name", "why"), BAD)
def test_what_cannot_be_a_client_is_refused(tmp_path: Path, source: str, name: str, why: str) -> None:
    load(tmp_path, source)
    with pytest.raises(ConfigError, match=why):
        build(f"mynets:{name}")


@pytest.mark.parametrize(
    ("name", "source", "why"),
    [
        ("mynets.py", "x = 1 /", "failed, line 1: SyntaxError"),
        ("mynets.py", "import torch\nraise RuntimeError('no')", "failed, line 2: RuntimeError: no"),
        ("timm.py", SPLIT, "'timm:…' cannot be used"),
        ("my nets.py", SPLIT, "'my nets:…' cannot be used"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_refused(tmp_path: Path, name: str, source: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load(tmp_path, source, name)


def test_another_file_of_the_same_name_is_refused(tmp_path: Path) -> None:
    load(tmp_path, SPLIT)
    load(tmp_path, SPLIT)
    with pytest.raises(ConfigError, match=r"another model mynets\.py has been loaded in this process"):
        load(tmp_path, NAMED)


def test_a_model_whose_file_is_not_loaded_is_unknown_and_says_how_to_load_it() -> None:
    with pytest.raises(ConfigError, match=r"give that as `model=mynets\.py:Split`"):
        federations.built(federations.config(federation={"group": ["mynets:Split"]}))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the model .*: No such file"):
        own_models.load(tmp_path / "gone.py")


def test_the_documented_model_can_be_used(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "your-own.md").read_text(encoding="utf-8")
    (source,) = [block for block in page.split("```") if block.startswith("python\n# mynets.py")]
    load(tmp_path, source.removeprefix("python\n"))
    assert build("mynets:MyNet").num_features == 32


def test_what_fails_only_in_training_says_file_and_line(tmp_path: Path) -> None:
    tired = SPLIT.replace("nn.Flatten())", "nn.Flatten(), Tired())").replace(
        "class Split",
        "class Tired(nn.Module):\n"
        "    def forward(self, x):\n"
        "        if self.training and x.device.type != 'meta':\n"
        "            raise ValueError('tired')\n"
        "        return x\n\n"
        "class Split",
    )
    load(tmp_path, tired)
    parts = federations.built(federations.config(federation={"group": ["mynets:Split"]}))
    with pytest.raises(ConfigError, match=r"mynets\.py, line 7: .* failed .* ValueError: tired"):
        federations.run(parts.engine, 1)
