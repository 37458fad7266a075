"""A network as a Python file that needs torch alone: what it computes in evaluation mode, operation by operation.

`torch.export` writes down the operations; so a model of any origin (ours, torchvision's, timm's, a user's file) loads
where none of them is installed, and its parameters keep their names.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from simulator.base.errors import RAISED, ConfigError
from simulator.base.units import in_literal
from simulator.data.federated import FederatedData
from simulator.data.inputs import ImageInputs, Inputs, NumberInputs, TokenInputs, blank
from simulator.data.specs import InputSpec

_FREED = re.compile(r";  [\w ]+( = [\w ]+)* = None\b.*$", re.MULTILINE)
"""What the written operations say to free memory between two of them."""
_DEVICE = re.compile(r"device\(type='[a-z]+'(, index=\d+)?\)")
_RETURN = re.compile(r"return \((\w+),\)")


@dataclass(frozen=True)
class Program:
    """The body of the file's function: its lines, and for each of its arguments the tensor that goes in."""

    code: str
    tensors: tuple[str, ...]

    @classmethod
    def of(cls, network: nn.Module, spec: InputSpec) -> "Program":
        """What the network computes from a batch of such samples, of any size.

        Raises ConfigError where that depends on the values in the batch, or on what is not in the network's state.
        """
        x = blank(spec, 2, next(network.parameters()).device)
        dynamic = ({0: torch.export.Dim("batch", min=1)},)
        try:
            exported = torch.export.export(network, (x,), dynamic_shapes=dynamic, strict=False)
        except RAISED as failed:  # torch has many kinds, and none of its own for this
            raise ConfigError(
                f"this model cannot be written down as a Python file ({str(failed).splitlines()[0]}); "
                "its weights can be exported without one: `program=False`."
            ) from failed
        takes = {
            each.arg.name: each.target
            for each in exported.graph_signature.input_specs
            if each.target is not None
        }
        if outside := {name for name in takes.values() if name not in network.state_dict()}:
            raise ConfigError(
                f"this model computes with constants outside its state ({min(outside)}), so its weights are not all of "
                "it; export them without a Python file: `program=False`."
            )
        code = _FREED.sub("", exported.graph_module.code.strip())
        header, _, body = code.partition("\n")
        names = [name.strip() for name in header.partition("(")[2].partition(")")[0].split(",")][1:]
        given = next(name for name in names if name not in takes)
        body = _RETURN.sub(r"return \1", _DEVICE.sub(f"{given}.device", body)).rstrip()
        arguments = ", ".join([*(name for name in names if name != given), given])
        return cls(
            f"def _forward({arguments}):\n{body}",
            tuple(takes[name] for name in names if name != given),
        )


def source(
    program: Program,
    weights: str,
    title: str,
    data: FederatedData,
    client: int,
    about: Mapping[str, Any],
) -> str:
    """The file's text. `weights` is the name of the safetensors beside it; `about` becomes a constant in it."""
    return _FILE.format(
        **_preparation(data.inputs.of_client(client)),
        title=in_literal(title),
        weights=weights,
        stem=weights.removesuffix(".safetensors"),
        about=dict(about),
        classes=data.classes,
        count=len(data.classes),
        tensors="".join(f"\n    {name!r}," for name in program.tensors),
        code=program.code,
    )


_FILE = '''"""{title}

    from {stem} import load, prepare
    net = load()                        # {weights} beside this file; nothing but torch is needed
    scores = net(prepare({stored}] -> scores [n, {count}]

Written by htfl-sim. It computes what the model computes in evaluation mode: BatchNorm uses its running statistics and
dropout does nothing, also under net.train(). Parameters bear the names they had, and can be trained further.
"""

import json
from math import inf, nan  # noqa: F401 - an operation may name them
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

ABOUT = {about}
CLASSES = {classes}
{constants}

_TENSORS = ({tensors}
)


{code}


class Model(nn.Module):
    """{taken} -> scores [n, classes]."""

    def __init__(self, tensors, buffers):
        super().__init__()
        for name, tensor in tensors.items():
            *path, last = name.split(".")
            place = self
            for part in path:
                if part not in place._modules:
                    place.add_module(part, nn.Module())
                place = place._modules[part]
            if name in buffers:
                place.register_buffer(last, tensor)
            else:
                place.register_parameter(last, nn.Parameter(tensor))

    def forward(self, x):
        tensors = {{**dict(self.named_parameters()), **dict(self.named_buffers())}}
        return _forward(*(tensors[name] for name in _TENSORS), x)


def load(path=Path(__file__).with_name("{weights}")):
    """The model with its weights, in evaluation mode."""
    tensors, metadata = read(path)
    return Model(tensors, json.loads(metadata["buffers"])).eval()


def read(path):
    """Every tensor of a safetensors file by name, and what the file says of itself."""
    raw = bytearray(Path(path).read_bytes())
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    metadata = header.pop("__metadata__", {{}})
    kinds = {{"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
             "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "U8": torch.uint8, "BOOL": torch.bool}}
    tensors = {{}}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = torch.frombuffer(raw[start + begin:start + end], dtype=kinds[entry["dtype"]]) if end > begin else (
            torch.empty(0, dtype=kinds[entry["dtype"]]))
        tensors[name] = values.reshape(entry["shape"])
    return tensors, metadata


{prepare}'''

_IMAGES = '''def prepare(images):
    """Images uint8 [n, height, width, channels] as the model takes them: normalized, scaled, channels first."""
    x = torch.as_tensor(images).to(torch.float32)
    scale = torch.tensor(SCALE, device=x.device).expand(x.shape[1:]).contiguous()
    shift = torch.tensor(SHIFT, device=x.device).expand(x.shape[1:]).contiguous()
    x = torch.addcmul(shift, x, scale).permute(0, 3, 1, 2)
    if x.shape[2:] != SIZE:
        shrinks = SIZE[0] < x.shape[2] or SIZE[1] < x.shape[3]
        x = F.interpolate(x, SIZE, mode="bilinear", antialias=shrinks)
    if x.shape[1] != CHANNELS:
        x = x.expand(-1, CHANNELS, -1, -1)
    return x.contiguous(memory_format=torch.channels_last)
'''
_TOKENS = '''def prepare(tokens):
    """Tokens [n, length] as the model takes them. Fill shorter texts up with PADDING, and cut longer ones off."""
    return torch.as_tensor(tokens).to(torch.int64)
'''
_NUMBERS = '''def prepare(samples):
    """Samples as the data set has them, normalized as the client's are."""
    x = torch.as_tensor(samples).to(torch.float32)
    return torch.addcmul(torch.tensor(SHIFT, device=x.device), x, torch.tensor(SCALE, device=x.device))
'''


def _preparation(inputs: Inputs) -> dict[str, str]:
    """What the file says of its samples: constants, and the function that prepares them for the model."""
    match inputs:
        case ImageInputs(images=images, spec=spec, scale=scale, shift=shift):
            return {
                "stored": f"images))       # images uint8 [n, {_sides(images)}",
                "constants": f"SCALE, SHIFT = {scale[0, 0].tolist()}, {shift[0, 0].tolist()}\n"
                '"""A byte of channel c becomes byte * SCALE[c] + SHIFT[c]."""\n'
                f"SIZE, CHANNELS = {(spec.height, spec.width)}, {spec.channels}",
                "taken": "Images [n, channels, height, width]",
                "prepare": _IMAGES,
            }
        case TokenInputs(tokens=tokens, spec=spec):
            return {
                "stored": f"tokens))       # tokens int [n, {_sides(tokens)}",
                "constants": f"LENGTH, VOCABULARY, PADDING = {spec.length}, {spec.vocabulary}, {spec.padding}",
                "taken": "Tokens int64 [n, length]",
                "prepare": _TOKENS,
            }
        case NumberInputs(numbers=numbers, scale=scale, shift=shift):
            return {
                "stored": f"samples))      # samples float [n, {_sides(numbers)}",
                "constants": f"SCALE, SHIFT = {scale.tolist()}, {shift.tolist()}",
                "taken": f"{inputs.spec.noun.capitalize()} float32 [n, {_sides(numbers)}]",
                "prepare": _NUMBERS,
            }
    raise TypeError(f"samples in the form {type(inputs).__name__} cannot be written down")


def _sides(stored: Tensor) -> str:
    return ", ".join(str(int(side)) for side in stored.shape[1:])
