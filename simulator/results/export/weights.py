"""Clients' models as files that load without htfl-sim: plainly named safetensors, and a Python file beside each.

LoRA adapters are peft's folders: `adapter_config.json`, and `adapter_model.safetensors` with peft's names. A client
keeps its model with the update merged: W + ΔW. So the factors are those of the exported ΔW, by an SVD: ΔW = USVᵀ =
(α/r)·BA with B = US·r/α and A = Vᵀ. Their product is the client's, up to rounding. The factors that the client trained
differ from them by an invertible matrix.

`torch.export` writes down what a network computes in evaluation mode, operation by operation; so a model of any origin
(ours, torchvision's, timm's, a user's file) loads where none of them is installed, and its parameters keep their names.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from jinja2 import Environment, StrictUndefined
from safetensors.torch import save_file
from torch import Tensor, nn

from simulator.base.errors import RAISED, ConfigError
from simulator.base.tensors import Tensors
from simulator.base.units import escaped, in_literal
from simulator.data.federated import FederatedData
from simulator.data.inputs import ImageInputs, Inputs, NumberInputs, TokenInputs, blank
from simulator.data.specs import InputSpec
from simulator.methods.lora import A, B, LoRA, decomposed
from simulator.results.inspection.checkpoint import ClientModel, Models

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
    template = (resources.files("simulator.results.export") / "model.py.jinja").read_text(encoding="utf-8")
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return environment.from_string(template).render(
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
                "kind": "images",
            }
        case TokenInputs(tokens=tokens, spec=spec):
            return {
                "stored": f"tokens))       # tokens int [n, {_sides(tokens)}",
                "constants": f"LENGTH, VOCABULARY, PADDING = {spec.length}, {spec.vocabulary}, {spec.padding}",
                "taken": "Tokens int64 [n, length]",
                "kind": "tokens",
            }
        case NumberInputs(numbers=numbers, scale=scale, shift=shift):
            return {
                "stored": f"samples))      # samples float [n, {_sides(numbers)}",
                "constants": f"SCALE, SHIFT = {scale.tolist()}, {shift.tolist()}",
                "taken": f"{inputs.spec.noun.capitalize()} float32 [n, {_sides(numbers)}]",
                "kind": "numbers",
            }
    raise TypeError(f"samples in the form {type(inputs).__name__} cannot be written down")


def _sides(stored: Tensor) -> str:
    return ", ".join(str(int(side)) for side in stored.shape[1:])


CONFIG, FACTORS = "adapter_config.json", "adapter_model.safetensors"
ROUNDING = 1e-5
"""The largest difference between an update and its factors, relative to the largest weight."""


@dataclass(frozen=True)
class Exported:
    """A client's model on disk: its files, its accuracy in the ledger, and that of its network by itself (0…1)."""

    client: int
    weights: Path
    program: Path | None
    recorded: float | None
    accuracy: float
    by_itself: bool
    """Whether the method answers with the network alone; FedProto, for one, answers by the nearest prototype."""
    adapter: Path | None = None
    """The folder of its LoRA adapter, as peft reads it. None if its model is not the body with an update."""


def write(models: Models, session: str, folder: Path, program: bool = True) -> list[Exported]:
    """`client_K.safetensors` and `client_K.py` of each model, in a folder that is made. Nothing is written over.

    Raises ConfigError where a file is there already, or a model cannot be written down; OSError.
    """
    for model in models.clients:
        for path in _files(model, folder):
            if path.exists():
                raise ConfigError(f"{path} is there already; remove it, or choose another folder: `out=DIR`.")
    folder.mkdir(parents=True, exist_ok=True)
    programs: dict[str, Program] = {}
    return [_write(model, session, folder, programs if program else None) for model in models.clients]


def _files(model: ClientModel, folder: Path) -> list[Path]:
    """What is written of a client, besides the method's own tensors."""
    weights = folder / f"client_{model.info.id}.safetensors"
    found = [weights, weights.with_suffix(".py")]
    if isinstance(model.method, LoRA):
        found += [folder_of(weights), body_of(model, folder)]
    return found


def _write(model: ClientModel, session: str, folder: Path, programs: dict[str, Program] | None) -> Exported:
    number, name = model.info.id, model.info.architecture
    about = {"session": session, "client": number, "round": model.round, "model": name}
    about["accuracy"] = model.recorded
    text = None
    weights = folder / f"client_{number}.safetensors"
    if programs is not None:
        if name not in programs:  # clients of one architecture compute the same
            programs[name] = Program.of(model.network, model.data.spec)
        title = f"Client {number} of the session {session} after round {model.round}: {name}."
        text = source(programs[name], weights.name, title, model.data, number, about)
    state, parameters = model.network.state_dict(), dict(model.network.named_parameters())
    tensors = {key: _plain(value) for key, value in state.items()}
    own = {f"method/{key}": _plain(value) for key, value in model.state.items()}
    facts = {key: escaped(str(value)) for key, value in about.items()} | {
        "format": "pt",
        "buffers": json.dumps([key for key in state if key not in parameters]),
    }
    save_file(tensors, weights, facts)
    adapter = None
    if isinstance(model.method, LoRA) and (found := LowRank.of(model, model.method)) is not None:
        adapter = folder_of(weights)
        found.write(adapter)
        body = {key: each.cpu().clone() for key, each in model.federation.first_weights[name].items()}
        known = {key: facts[key] for key in ("model", "format", "buffers")}
        save_file(body, body_of(model, folder), known)
    if own:
        save_file(own, folder / f"client_{number}.method.safetensors", {"format": "pt"})
    path = None
    if text is not None:
        path = weights.with_suffix(".py")
        path.write_text(text, encoding="utf-8")
    return Exported(
        number, weights, path, model.recorded, model.accuracy(), model.answers_by_itself(), adapter
    )


@dataclass(frozen=True)
class LowRank:
    """An adapter: its tensors under their names in the model, and the rank of each adapted layer."""

    tensors: Tensors
    ranks: dict[str, int]
    alpha: float | None

    @classmethod
    def of(cls, model: ClientModel, method: LoRA) -> "LowRank | None":
        """The client's adapter. None if its model is not the body with an update, as before its first round."""
        name = model.info.architecture
        body, network = model.federation.first_weights[name], model.network.state_dict()
        layers = method.layers(name)
        apart = [f"{path}.weight" for path in layers]
        for key, each in network.items():
            if not key.startswith("head.") and key not in apart and not torch.equal(each, body[key]):
                return None
        # The sum of all rounds' updates, which clients receive with `flora`, has any rank.
        limit = max(map(min, (layer.weight.shape for layer in layers.values())))
        rank = limit if method.config.aggregation == "flora" else method.ranks[model.info.id]
        ranks, tensors = method.ranks_of(name, rank), Tensors()
        for path, each in ranks.items():
            weight = network[f"{path}.weight"]
            update = (weight - body[f"{path}.weight"]).double()
            b, a = decomposed(update, each)
            if (b @ a - update).abs().max() > ROUNDING * weight.abs().max():
                return None
            tensors[f"{path}.{B}"], tensors[f"{path}.{A}"] = b / method.scale(each), a
        tensors |= {key: each for key, each in network.items() if key.startswith("head.")}
        return cls(tensors, ranks, method.config.alpha)

    def write(self, folder: Path) -> None:
        """Write it into a folder that is made. Raises OSError."""
        folder.mkdir()
        tensors = {f"base_model.model.{name}": _plain(each.float()) for name, each in self.tensors.items()}
        save_file(tensors, folder / FACTORS, {"format": "pt"})
        (folder / CONFIG).write_text(json.dumps(self.config(), indent=2) + "\n", encoding="utf-8")

    def config(self) -> dict[str, object]:
        """What peft reads. Its patterns are regular expressions, where ^ begins a whole name."""
        rank = max(self.ranks.values())
        lower = {f"^{re.escape(path)}": each for path, each in self.ranks.items() if each != rank}
        return {
            "peft_type": "LORA",
            "base_model_name_or_path": None,
            "task_type": None,
            "inference_mode": True,
            "r": rank,
            "rank_pattern": lower,
            "lora_alpha": rank if self.alpha is None else self.alpha,
            "alpha_pattern": lower if self.alpha is None else {},
            "lora_dropout": 0.0,
            "bias": "none",
            "target_modules": "|".join(map(re.escape, self.ranks)),
            "modules_to_save": ["head"],
        }


def folder_of(weights: Path) -> Path:
    """The folder of a client's adapter, beside the file of its model."""
    return weights.with_suffix(".adapter")


def body_of(model: ClientModel, folder: Path) -> Path:
    """The file of the frozen body that clients of this architecture share."""
    return folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '-', model.info.architecture)}.body.safetensors"


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous().clone()
