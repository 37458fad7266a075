"""The metered channel: all that passes between clients and server is copied, counted, and maybe disturbed here."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from simulator.base import rng
from simulator.base.record import Params, Traffic
from simulator.base.sections import WireConfig
from simulator.base.tensors import STATISTICS, TRAVELS, Copies, Tensors, total_bytes


class Wire:
    """One round's traffic, in bytes per tensor name, per client, per direction."""

    def __init__(
        self,
        clients: int,
        settings: WireConfig | None = None,
        seed: int = 0,
        round: int = 0,
        keeps: bool = False,
    ) -> None:
        """keeps: what clients receive is kept for their uplinks, also without noise."""
        self._settings = settings or WireConfig()
        self._keeps = keeps or self._settings.noise > 0
        self._seed = seed
        self._round = round
        self._clients = clients
        self._sent_down: dict[int, Mapping[str, Tensor]] = {}
        self._carried: dict[str, dict[int, _Carried]] = {"up": {}, "down": {}}

    def down(self, client: int, payload: Mapping[str, Tensor]) -> Tensors:
        """Carry a payload to a client, which gets its own copy. On any thread. What is carried again counts once."""
        if self._keeps:
            self._sent_down[client] = dict(payload)
        return self._carry("down", client, payload)

    def down_failed(self, client: int) -> None:
        """The client left before its downlink was complete. What does not arrive is not counted."""
        self._carried["down"].pop(client, None)

    def received(self, client: int) -> Mapping[str, Tensor]:
        """What a client received on this wire, for an uplink that arrives on a later one; nothing if it is not kept."""
        return self._sent_down.get(client, {})

    def sent_down(self, client: int) -> int:
        """Bytes that this wire carried to a client."""
        carried = self._carried["down"].get(client)
        return carried.size if carried else 0

    def loses(self, client: int, dispatch: int | None = None) -> bool:
        """Whether the client's uplink never arrives. `dispatch` keys the draw; None: the round's number."""
        if not self._settings.drop:
            return False
        draw = rng.numpy_stream(self._seed, "wire/drop", self._key(dispatch), client).random()
        return bool(draw < self._settings.drop)

    def up(
        self,
        client: int,
        payload: Mapping[str, Tensor],
        dispatch: int | None = None,
        received: Mapping[str, Tensor] | None = None,
    ) -> Tensors:
        """Carry a payload to the server, which gets its own copy, with noise if so configured.

        `dispatch` keys the noise; None: the round's. `received`: what an earlier wire carried down; None: this wire's.
        """
        arrived = self._carry("up", client, payload)
        if self._settings.noise:
            before = self._sent_down.pop(client, {}) if received is None else received
            for name, tensor in arrived.items():
                if tensor.is_floating_point() and not name.endswith(STATISTICS):
                    stream = rng.torch_stream(self._seed, f"wire/noise/{name}", self._key(dispatch), client)
                    self._disturb(tensor, before.get(name), stream)
        return arrived

    def _key(self, dispatch: int | None) -> int:
        return self._round if dispatch is None else dispatch

    def _disturb(self, tensor: Tensor, before: Tensor | None, stream: torch.Generator) -> None:
        """Add Gaussian noise of `noise` times the standard deviation of the tensor's update.

        That is its difference from what was sent down with this name and shape, or else the tensor itself.
        """
        update = tensor if before is None or before.shape != tensor.shape else tensor - before
        if not tensor.numel():
            return
        noise = torch.randn(tensor.shape, generator=stream).to(
            tensor
        )  # drawn on the CPU: the same on any device
        tensor += self._settings.noise * update.std(correction=0) * noise

    def _carry(self, direction: str, client: int, payload: Mapping[str, Tensor]) -> Tensors:
        by_part: Counter[str] = Counter()
        for name, tensor in payload.items():
            if tensor.dtype not in TRAVELS:
                raise TypeError(
                    f"'{name}' is {tensor.dtype}: labels and counts travel as int32, values as floats"
                )
            by_part[f"{direction}/{name.partition('/')[0]}"] += total_bytes({name: tensor})
        params = sum(tensor.numel() for tensor in payload.values() if tensor.is_floating_point())
        self._carried[direction][client] = _Carried(by_part, params)
        contiguous = torch.contiguous_format  # as a payload is that was kept in a file meanwhile
        copies = {name: tensor.detach().clone(memory_format=contiguous) for name, tensor in payload.items()}
        return Copies(copies, payload)

    def traffic(self, before: Traffic | None, news: bool = False) -> Traffic:
        """The ledger's `bytes`, its totals continued. With `news`, only of clients that anything was carried for."""
        sizes = {
            direction: {client: carried.size for client, carried in by_client.items()}
            for direction, by_client in self._carried.items()
        }
        up, down = (sum(sizes[direction].values()) for direction in ("up", "down"))
        by_part: Counter[str] = Counter()
        for by_client in self._carried.values():
            for carried in by_client.values():
                by_part.update(carried.by_part)
        return {
            "up": up,
            "down": down,
            "up_total": up + (before["up_total"] if before else 0),
            "down_total": down + (before["down_total"] if before else 0),
            "per_client_up": self._written(sizes["up"], news),
            "per_client_down": self._written(sizes["down"], news),
            "by_tensor": dict(sorted(by_part.items())),
        }

    def _written(self, sizes: Mapping[int, int], news: bool) -> list[int] | dict[str, int]:
        if news:
            return {str(client): sizes[client] for client in sorted(sizes)}
        return [sizes.get(client, 0) for client in range(self._clients)]

    def params(self) -> Params:
        """The ledger's `params`: numbers sent in each direction, labels and counts left out."""
        up, down = (sum(each.params for each in self._carried[way].values()) for way in ("up", "down"))
        return {"up": up, "down": down}


@dataclass(frozen=True)
class _Carried:
    """What was carried of one client in one direction: bytes by part of the payload, and numbers."""

    by_part: Counter[str]
    params: int

    @property
    def size(self) -> int:
        return self.by_part.total()
