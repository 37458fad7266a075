"""The methods that can run the models of a configuration, and why the others cannot. Reads no data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.models.federation import Federation

__all__ = ["MethodChoice", "Parameter", "method_choices"]


@dataclass(frozen=True)
class Parameter:
    """A hyper-parameter of a method: its key, its default as text, and its meaning."""

    key: str
    default: str
    about: str


@dataclass(frozen=True)
class MethodChoice:
    """A method as the switch dialog lists it. `obstacle`: why the models cannot run it, if they cannot."""

    name: str
    title: str
    needs: str
    obstacle: str | None
    parameters: tuple[Parameter, ...]


def method_choices(config: Mapping[str, Any]) -> list[MethodChoice]:
    """Every method, with its unmet need. Takes a second or two and loads torch: call it on a thread.

    Without the data, a client's number of samples and the shape of a user's own images are unknown. The session's owner
    checks needs of these, and may reject the method.
    """
    from simulator import methods
    from simulator.base.errors import HtflError
    from simulator.config import Config

    settings = Config.read(config)
    federation = _federation(settings)
    found = []
    for name in methods.names():
        method = methods.get(name)
        try:
            obstacle = method(method.Config(name=name), federation).unmet_need()
        except HtflError as error:
            obstacle = str(error)
        parameters = tuple(
            Parameter(key, _text(field.default), field.description or "")
            for key, field in method.Config.model_fields.items()
            if key != "name"
        )
        found.append(MethodChoice(name, method.card.title, method.card.needs, obstacle, parameters))
    return found


def _federation(config: Any) -> "Federation":
    import torch

    from simulator import models
    from simulator.data import datasets, inputs, specs
    from simulator.models.federation import ClientInfo, Federation

    spec: specs.InputSpec = specs.ImageSpec(3, 32, 32)
    classes, samples = 10, 10_000
    if config.data.dataset in datasets.names():
        dataset = datasets.get(config.data.dataset)
        spec, classes = dataset.spec, dataset.classes
    elif (declared := datasets.declared(config.data.dataset, config.data)) is not None:
        spec = declared
    if isinstance(spec, specs.ImageSpec):
        spec = inputs.shaped(spec, config.data)
    architectures = models.assign(config.federation.group, config.federation.clients)
    everything = tuple(range(classes))
    return Federation(
        seed=config.training_seed,
        rounds=config.rounds,
        num_classes=classes,
        spec=models.spec_for(spec, config.models),
        clients=tuple(
            ClientInfo(number, name, samples, everything) for number, name in enumerate(architectures)
        ),
        training=config.training,
        device=torch.device("cpu"),
        pretrained=config.federation.pretrained,
        features=config.models.features,
        public=int(config.data.public is not None),
    )


def _text(value: object) -> str:
    from pydantic_core import PydanticUndefined

    return "" if value in (None, PydanticUndefined) else str(value)
