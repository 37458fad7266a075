"""Generators: the networks by hand, files that are refused with the reason, and the conversion of PyTorch's files."""

import json
import os
import pickle
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from simulator.base.errors import DataError
from simulator.models import generators
from simulator.models.generator_conversion import convert, main
from simulator.models.generators import METADATA, Design, Generator
from tests.methods import reference

DESIGN = Design(noise=3, latent=2, layers=2, width=2, size=8, channels=1)


def drawn(design: Design = DESIGN) -> Generator:
    return generators.drawn(design, reference.stream("generator", 0))


def written(folder: Path, tensors: dict[str, Any] | None = None, **metadata: Any) -> Path:
    """A file of a generator with other tensors, or another design."""
    path = folder / "g.safetensors"
    found = {name: each.clone() for name, each in drawn().state_dict().items()} | (tensors or {})
    kept = {name: each for name, each in found.items() if each is not None}
    save_file(kept, path, metadata={METADATA: json.dumps(asdict(DESIGN) | metadata)})
    return path


def test_the_mapping_network_is_linear_layers_with_a_leak() -> None:
    """x = −1, weight 1, bias 0: −0.2, and again −0.04."""
    generator = Generator(Design(1, 1, 2, 1, 4, 1))
    for parameter in generator.parameters():
        nn.init.zeros_(parameter) if parameter.dim() == 1 else nn.init.ones_(parameter)
    assert generator.latents(torch.tensor([[-1.0]])).item() == pytest.approx(-0.04)


def test_the_synthesis_network_doubles_the_map_in_each_block() -> None:
    """A middle pixel with latent 0.01 and all weights 1: 9 · 0.01 in the block, 9 times it in the image, and tanh."""
    generator = Generator(Design(1, 1, 1, 1, 8, 1))
    for parameter in generator.parameters():
        nn.init.zeros_(parameter) if parameter.dim() == 1 else nn.init.ones_(parameter)
    image = generator(torch.tensor([[0.01]]))
    assert image.shape == (1, 1, 8, 8)
    assert image[0, 0, 4, 4].item() == pytest.approx(torch.tensor(0.81).tanh().item(), rel=1e-5)
    below = generator(torch.tensor([[-0.01]]))  # two leaks
    assert below[0, 0, 4, 4].item() == pytest.approx(torch.tensor(-0.81 * 0.04).tanh().item(), rel=1e-5)


def test_an_untrained_generator_keeps_the_variance_of_its_noise() -> None:
    """He et al.'s weights have variance 2 / ((1 + 0.2²) · inputs) = 1.923 / 64 here, and zero biases."""
    generator = drawn(Design(64, 64, 1, 4, 4, 1))
    assert generator.mapping[0].get_parameter("weight").var().item() == pytest.approx(1.923 / 64, rel=0.1)
    assert all(each.eq(0).all() for name, each in generator.named_parameters() if name.endswith("bias"))
    again = drawn(Design(64, 64, 1, 4, 4, 1))
    assert torch.equal(generator.image.weight, again.image.weight)


def test_a_saved_generator_is_read_again(tmp_path: Path) -> None:
    """Under another key, files that users have would be no generators."""
    path = tmp_path / "g.safetensors"
    for size, blocks in ((4, 0), (8, 1), (64, 4)):
        design = replace(DESIGN, size=size, channels=3)
        assert design.blocks == blocks and drawn(design)(torch.ones(7, 2)).shape == (7, 3, size, size)
        generators.save(drawn(design), design, path)
        assert generators.design_of(path) == design
        found = generators.read(path)
        assert all(torch.equal(found[name], each) for name, each in drawn(design).state_dict().items())
    assert METADATA == "htfl_sim_generator"


def test_half_precision_becomes_float32(tmp_path: Path) -> None:
    half = {name: each.half() for name, each in drawn().state_dict().items()}
    assert {each.dtype for each in generators.read(written(tmp_path, half)).values()} == {torch.float32}


WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"image.bias": None}, {}, r"has no 'image\.bias'"),
    ({"image.bias": torch.zeros(3)}, {}, r"has 'image\.bias' \[3\], and its design needs \[1\]"),
    ({"more": torch.zeros(1)}, {}, "has 'more', which its design does not have"),
    ({"image.bias": torch.tensor([torch.nan])}, {}, r"numbers in 'image\.bias' that are not finite"),
    ({}, {"size": 12}, "size = 12. It must be 4, 8, 16, 32, …, 1024"),
    ({}, {"size": 2}, "size = 2. It must be"),
    ({}, {"size": 2048}, "size = 2048. It must be a whole number from 1 to 1024"),
    ({}, {"latent": 0}, "latent = 0. It must be a whole number from 1 to 4096"),
    ({}, {"layers": True}, "layers = True"),
    ({}, {"layers": 17}, "layers = 17. It must be a whole number from 1 to 16"),
    ({}, {"channels": 4}, "channels = 4. It must be a whole number from 1 to 3"),
    ({}, {"style": 1}, "describes another kind of network"),
    ({}, {"channels": 3}, r"has 'image\.weight' \[1, 2, 3, 3\], and its design needs \[3, 2, 3, 3\]"),
]


def test_a_wrong_file_is_refused_with_the_reason(tmp_path: Path) -> None:
    for tensors, metadata, reason in WRONG:
        with pytest.raises(DataError, match=reason):
            generators.read(written(tmp_path, tensors, **metadata))


def test_a_file_that_is_missing_or_no_generator_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "g.safetensors"
    with pytest.raises(DataError, match="cannot read the generator"):
        generators.design_of(path)
    path.write_bytes(b"no safetensors")
    with pytest.raises(DataError, match="cannot read the generator"):
        generators.design_of(path)
    save_file({"x": torch.zeros(1)}, path)
    with pytest.raises(DataError, match="is no generator"):
        generators.design_of(path)
    save_file({"x": torch.zeros(1)}, path, metadata={METADATA: "{"})
    with pytest.raises(DataError, match="another kind of network"):
        generators.design_of(path)


@pytest.mark.long
def test_a_state_dictionary_is_converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "g.pt", tmp_path / "g.safetensors"
    torch.save(drawn().state_dict(), source)
    assert main([str(source), str(target)]) == 0
    assert generators.design_of(target) == DESIGN
    assert torch.equal(load_file(target)["image.weight"], drawn().image.weight)
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.long
def test_a_pickle_that_runs_code_is_refused_and_runs_none(tmp_path: Path) -> None:
    """A published pickle has its own classes, as this one has."""
    source, made = tmp_path / "g.pkl", tmp_path / "made"
    source.write_bytes(pickle.dumps({"G_ema": Bomb(made)}))
    with pytest.raises(
        DataError, match=r"is not a state dictionary of tensors, and htfl-sim runs no code of a file"
    ):
        convert(source, tmp_path / "g.safetensors")
    assert not made.exists()
    assert not (tmp_path / "g.safetensors").exists()
    assert main([str(source), str(tmp_path / "g.safetensors")]) == 3


@pytest.mark.long
def test_a_state_dictionary_of_another_network_is_not_converted(tmp_path: Path) -> None:
    source = tmp_path / "other.pt"
    torch.save(nn.Linear(2, 2).state_dict(), source)
    with pytest.raises(DataError, match="another kind of generator"):
        convert(source, tmp_path / "g.safetensors")
    with pytest.raises(DataError, match="there is no file"):
        convert(tmp_path / "none.pt", tmp_path / "g.safetensors")
