"""Clients' models as files that load without htfl-sim: plainly named safetensors, and a Python file beside each."""

import json
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import save_file
from torch import nn

from simulator.base.errors import ConfigError
from simulator.base.names import escaped
from simulator.methods.lora import LoRA
from simulator.results.export import adapters
from simulator.results.export.program import Program, source
from simulator.results.inspection.models import ClientModel, Models


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
        found += [adapters.folder_of(weights), adapters.body_of(model, folder)]
    return found


def _write(model: ClientModel, session: str, folder: Path, programs: dict[str, Program] | None) -> Exported:
    number, name = model.info.id, model.info.architecture
    about = {
        "session": session,
        "client": number,
        "round": model.round,
        "model": name,
        "accuracy": model.recorded,
    }
    text = None
    weights = folder / f"client_{number}.safetensors"
    if programs is not None:
        if name not in programs:  # clients of one architecture compute the same
            programs[name] = Program.of(model.network, model.data.spec)
        title = f"Client {number} of the session {session} after round {model.round}: {name}."
        text = source(programs[name], weights.name, title, model.data, number, about)
    state = model.network.state_dict()
    tensors = {key: value.detach().cpu().contiguous().clone() for key, value in state.items()}
    own = {f"method/{key}": value.detach().cpu().contiguous().clone() for key, value in model.state.items()}
    facts = {key: escaped(str(value)) for key, value in about.items()} | {
        "format": "pt",
        "buffers": json.dumps(_buffers(model.network)),
    }
    save_file(tensors, weights, facts)
    adapter = None
    if isinstance(model.method, LoRA) and (found := adapters.LowRank.of(model, model.method)) is not None:
        adapter = adapters.folder_of(weights)
        found.write(adapter)
        body = {key: each.cpu().clone() for key, each in model.federation.first_weights[name].items()}
        known = {key: facts[key] for key in ("model", "format", "buffers")}
        save_file(body, adapters.body_of(model, folder), known)
    if own:
        save_file(own, folder / f"client_{number}.method.safetensors", {"format": "pt"})
    path = None
    if text is not None:
        path = weights.with_suffix(".py")
        path.write_text(text, encoding="utf-8")
    return Exported(
        number, weights, path, model.recorded, model.accuracy(), model.answers_by_itself(), adapter
    )


def _buffers(network: nn.Module) -> list[str]:
    """The names in the state that are no parameters, such as running statistics."""
    parameters = dict(network.named_parameters())
    return [name for name in network.state_dict() if name not in parameters]
