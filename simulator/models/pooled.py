"""A network whose features are pooled to another width before the head, for `models.features`."""

from torch import Tensor, nn

from simulator.base.errors import ConfigError
from simulator.models.heads import HiddenHead
from simulator.models.network import Network
from simulator.models.pooling import to_width


class NoHead(nn.Module):
    """In place of a head. Networks ask their head for its width."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features


class Pooled(Network):
    """The features of `body`, averaged to K even windows → a head of the body's kind for K features."""

    def __init__(self, body: Network, head: nn.Linear | HiddenHead) -> None:
        super().__init__()
        body.head = NoHead(body.num_features, body.head.out_features)  # type: ignore[assignment]  # it is never called
        self.body = body
        self.head = head
        self.layers = body.layers
        self.published = f"body.{body.published}"
        self.rate = body.rate

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        shown = self.body.represent(x)
        last = self.layers[-1]
        return shown | {last: to_width(shown[last], self.num_features)}

    def stages(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(f"body.{name}" for name in stage) for stage in self.body.stages())


def with_width(network: Network, width: int | None, name: str) -> Network:
    """The network with features of that width and a new head, or the same one if it has them already.

    Draws the head's initial weights. Raises ConfigError for a head of an unknown kind. `name` is the model's.
    """
    head = network.head
    if width is None or network.num_features == width:
        return network
    if isinstance(head, HiddenHead):
        return Pooled(network, head.reading(width))
    if isinstance(head, nn.Linear):
        return Pooled(network, nn.Linear(width, head.out_features, head.bias is not None))
    raise ConfigError(
        f"models.features cannot change the features of '{name}', because its head is a {type(head).__name__}. "
        "Leave it out, or choose another model."
    )
