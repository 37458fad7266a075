"""Image generators, and the safetensors files that have them.

A generator has two parts. Its mapping network makes a latent vector from noise. Its synthesis network makes an image
from a latent vector. A file has the weights, and the generator's design as JSON in its metadata. Only safetensors are
read, because other formats can run code: `generator_conversion` makes such a file from one of PyTorch's.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.errors import DataError
from simulator.base.reading import refuse_irregular
from simulator.base.rng import drawing_from
from simulator.base.tensors import Tensors, of_module

METADATA = "htfl_sim_generator"
"""The key of the design in a file's metadata."""
LEAK = 0.2
"""The slope of every LeakyReLU below zero."""
SMALLEST = 4
"""The side of the first map. Each block doubles it."""


@dataclass(frozen=True)
class Design:
    """The sizes of a generator."""

    noise: int
    """Numbers of noise."""
    latent: int
    """H, numbers of a latent vector."""
    layers: int
    """Layers of the mapping network."""
    width: int
    """Channels of the synthesis network's maps."""
    size: int
    """Side of its images in pixels: 4, 8, 16, …"""
    channels: int
    """Channels of its images."""

    @property
    def blocks(self) -> int:
        """The number of blocks of the synthesis network."""
        return int(math.log2(self.size // SMALLEST))


_MOST = Design(noise=4096, latent=4096, layers=16, width=1024, size=1024, channels=3)
"""The largest generator that is read from a file."""


class Generator(nn.Module):
    """Noise [B, noise] → latent vectors [B, H] → images [B, channels, size, size] with values from −1 to 1."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        self.design = design
        widths = [design.noise, *[design.latent] * design.layers]
        self.mapping = nn.ModuleList(map(nn.Linear, widths, widths[1:]))
        self.start = nn.Linear(design.latent, design.width * SMALLEST**2)
        self.blocks = nn.ModuleList(
            nn.Conv2d(design.width, design.width, 3, padding=1) for _ in range(design.blocks)
        )
        self.image = nn.Conv2d(design.width, design.channels, 3, padding=1)

    def latents(self, noise: Tensor) -> Tensor:
        """The mapping network: a linear layer and LeakyReLU, several times."""
        for layer in self.mapping:
            noise = F.leaky_relu(layer(noise), LEAK)
        return noise

    def forward(self, latents: Tensor) -> Tensor:
        """The synthesis network: a linear layer to a 4×4 map, then blocks of doubling, 3×3 convolution, LeakyReLU."""
        maps = F.leaky_relu(self.start(latents), LEAK).unflatten(1, (-1, SMALLEST, SMALLEST))
        for block in self.blocks:
            maps = F.leaky_relu(block(F.interpolate(maps, scale_factor=2.0)), LEAK)
        return torch.tanh(self.image(maps))


def drawn(design: Design, stream: torch.Generator) -> Generator:
    """An untrained generator: normal weights of He et al., which keep the variance from layer to layer."""
    with drawing_from(stream):
        generator = Generator(design)
        for name, parameter in generator.named_parameters():
            if name.endswith("weight"):
                nn.init.kaiming_normal_(parameter, a=LEAK)
            else:
                nn.init.zeros_(parameter)
    return generator


def save(generator: Generator, design: Design, file: Path) -> None:
    """Write a generator's file."""
    tensors = {name: tensor.clone() for name, tensor in of_module(generator).items()}
    save_file(tensors, file, metadata={METADATA: json.dumps(asdict(design))})


def design_of(file: Path) -> Design:
    """The design in a file, of the shapes in the file. Reads no values. Raises DataError for a file that has none."""
    try:
        refuse_irregular(file, f"the generator {file}", error=DataError)
        with safe_open(file, framework="pt") as opened:
            design = _design(file, (opened.metadata() or {}).get(METADATA))
            shapes = {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as broken:
        raise DataError(
            f"cannot read the generator {file}: {broken}. Name a safetensors file in method.generator_file."
        ) from broken
    check_shapes(file, design, shapes)
    return design


def read(file: Path) -> Tensors:
    """The weights in a file, float32. Raises DataError, as `design_of` does."""
    design_of(file)
    weights = {name: tensor.to(torch.float32) for name, tensor in load_file(file).items()}
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise DataError(
                f"the generator {file} has numbers in '{name}' that are not finite. Get the file again."
            )
    return weights


def check_shapes(file: Path, design: Design, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise DataError unless these are the names and shapes of the design's weights."""
    with torch.device("meta"):
        wanted = {name: tuple(tensor.shape) for name, tensor in Generator(design).state_dict().items()}
    for name, shape in wanted.items():
        if name not in shapes:
            raise DataError(
                f"the generator {file} has no '{name}', which its design needs. Get another file."
            )
        if shapes[name] != shape:
            raise DataError(
                f"the generator {file} has '{name}' {list(shapes[name])}, and its design needs {list(shape)}. "
                "Get another file."
            )
    if extra := [name for name in shapes if name not in wanted]:
        raise DataError(
            f"the generator {file} has '{extra[0]}', which its design does not have. Get another file."
        )


def _design(file: Path, text: str | None) -> Design:
    """The design that metadata describe. Raises DataError."""
    keys = [field.name for field in fields(Design)]
    if text is None:
        raise DataError(
            f"{file} is no generator: its metadata have no '{METADATA}'. Make it with "
            f"`python -m simulator.models.generator_conversion {file} NEW.safetensors`."
        )
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.keys() != set(keys):
        raise DataError(
            f"the generator {file} describes another kind of network. Its keys must be {', '.join(keys)}."
        )
    for key, most in asdict(_MOST).items():
        value = found[key]
        if type(value) is not int or not 1 <= value <= most:
            raise DataError(
                f"the generator {file} has {key} = {value!r}. It must be a whole number from 1 to {most}."
            )
    design = Design(**found)
    if design.size < SMALLEST or SMALLEST * 2**design.blocks != design.size:
        raise DataError(
            f"the generator {file} has size = {design.size}. It must be 4, 8, 16, 32, …, {_MOST.size}."
        )
    return design
