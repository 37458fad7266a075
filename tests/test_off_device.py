"""How states leave a CUDA device: as they were, past each other's way, waited for once; a double stands for streams."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from simulator.base import tensors as moving
from simulator.base.tensors import WayOff, on_host, portions
from simulator.engine.progress import ClientTrained
from simulator.sessions import committing, states
from simulator.sessions.session import Session
from simulator.training.flops import Operations
from tests import federations

SIZES = st.dictionaries(st.text(max_size=3), st.integers(0, 40), max_size=6)
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool]


class Stream:
    """Notes what is asked of a stream, and by whom copies are made."""

    device = torch.device("cpu")

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def wait_stream(self, other: object) -> None:
        self.log.append(f"waits for {other}")

    def synchronize(self) -> None:
        self.log.append("host waits")


class copies(Operations):
    """A context that notes each copy, and whether the host waits for it."""

    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self.log = log

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func._overloadpacket is torch.ops.aten.copy_:
            queued = (len(args) > 2 and args[2]) or (kwargs or {}).get("non_blocking", False)
            self.log.append(f"{'queues' if queued else 'copies'} {len(args[0])} bytes")
        return func(*args, **(kwargs or {}))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the streams do, in order; CPU tensors stand for those of a device."""
    log: list[str] = []

    @contextmanager
    def stream(on: Stream) -> Iterator[None]:
        log.append("[")
        yield
        log.append("]")

    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"what {device} computes")
    monkeypatch.setattr(torch.cuda, "stream", stream)
    return log


def way(log: list[str], room: int) -> WayOff:
    return WayOff(Stream(log), torch.zeros(room, dtype=torch.uint8))  # type: ignore[arg-type]


def test_copies_wait_for_what_is_computed_and_the_host_waits_once_for_each_portion(log: list[str]) -> None:
    """12 and 16 bytes through 20 bytes of pinned memory: first 12 and 8, then the other 8."""
    tensors = {"a": torch.ones(3), "b": torch.ones(2, 2), "c": torch.tensor(1, dtype=torch.int64)}
    with copies(log):
        way(log, 1_000)(tensors)
    assert log == [
        "waits for what cpu computes",
        *("[", "queues 12 bytes", "queues 16 bytes", "queues 8 bytes", "]"),
        "host waits",
        *("copies 12 bytes", "copies 16 bytes", "copies 8 bytes"),
    ]
    log.clear()
    with copies(log):
        found = way(log, 20)({"a": torch.arange(3.0), "b": torch.arange(4.0)})
    waits, *passed = [line for line in log if "bytes" not in line]
    assert waits == "waits for what cpu computes" and passed == ["[", "]", "host waits"] * 2
    queued = [line for line in log if line.startswith("queues")]
    assert queued == ["queues 12 bytes", "queues 8 bytes", "queues 8 bytes"]
    assert found["b"].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_values_shapes_and_dtypes_arrive_as_they_left(log: list[str]) -> None:
    for dtype in DTYPES:
        for room in [1, 7, 64, 10_000]:
            draw = torch.Generator().manual_seed(0)
            numbers = torch.randint(0, 100, (4, 3, 5), generator=draw).to(dtype)
            tensors = {
                "whole": numbers,
                "turned": numbers.transpose(0, 2),
                "laid out as channels last": numbers[None].contiguous(memory_format=torch.channels_last),
                "a part": numbers[1:3, 1],
                "one": numbers[0, 0, 0],
                "none": numbers[:0],
            }
            found = way(log, room)(tensors)
            assert list(found) == list(tensors)
            for name, tensor in tensors.items():
                assert found[name].dtype == tensor.dtype and found[name].is_contiguous()
                assert torch.equal(found[name], tensor)


def test_the_next_state_does_not_change_the_one_before(log: list[str]) -> None:
    """They pass through the same bytes, and stay in others."""
    off = way(log, 12)
    first = off({"a": torch.ones(3)})
    off({"a": torch.zeros(3)})
    assert first["a"].tolist() == [1.0, 1.0, 1.0]


@settings(deadline=None)
@given(SIZES, st.integers(1, 50))
def test_portions_have_every_byte_once_in_order_and_fit(sizes: dict[str, int], room: int) -> None:
    found = list(portions(sizes, room))
    passed = [
        (name, first + byte)
        for portion in found
        for name, first, _, length in portion
        for byte in range(length)
    ]
    assert passed == [(name, byte) for name, size in sizes.items() for byte in range(size)]
    for portion in found:
        ends = [0, *(piece.place + piece.length for piece in portion)]
        assert [piece.place for piece in portion] == ends[:-1]
        assert ends[-1] <= room
    assert len(found) == -(-sum(sizes.values()) // room)


def test_every_state_of_a_session_goes_this_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the server and four clients for the checkpoint of round 1; then, as the first client has finished
    round 2, its state and its uplink, which are kept.
    """
    seen: list[list[str]] = []
    heard: list[Any] = []

    def noted(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        seen.append(sorted(tensors))
        return on_host(tensors)

    def stop() -> str | None:
        second = any(isinstance(event, ClientTrained) and event.round == 2 for event in heard)
        return "enough" if second else None

    for module in (committing, states):
        monkeypatch.setattr(module, "on_host", noted)
    config = federations.config(
        "fedavg", rounds=2, federation={"participation": 1.0}, runtime={"runner": "sequential"}
    )
    with (
        federations.on_images(federations.generated()),
        Session.create(config, tmp_path / "s", tmp_path) as session,
    ):
        session.run(heard.append, stop=stop)
        first, (kept, uplink) = seen[:5], seen[5:]
        assert first == [sorted(each) for each in (session._state.server, *session._state.clients)]
        assert kept == first[1]
        assert uplink == [name for name in kept if not name.endswith("num_batches_tracked")]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_state_on_a_device_arrives_with_what_was_queued_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "PINNED", 1 << 20)
    moving._way_off.cache_clear()
    device = torch.device("cuda")
    tensors = {f"w{n}": torch.full((300, 1_000), float(n), device=device) for n in range(4)}
    for tensor in tensors.values():
        for _ in range(100):
            tensor.add_(1)  # still being computed when it is asked for
    found = on_host(tensors | {"here": torch.ones(2)})
    assert all(each.device.type == "cpu" for each in found.values())
    assert [found[f"w{n}"].unique().tolist() for n in range(4)] == [[100.0 + n] for n in range(4)]
    moving._way_off.cache_clear()
