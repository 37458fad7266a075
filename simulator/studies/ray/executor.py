"""Points that run on the nodes of a Ray cluster. A thread of this process watches each of them."""

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from checkpoints import Group
from simulator.runners.ray.cluster import Needs
from simulator.studies.executor import Ended, Executor, Launch
from simulator.studies.ray.remote_point import RemotePoint
from simulator.studies.status import Status
from simulator.studies.study import Point


class OnNodes(Executor):
    """Runs points on Ray.

    Sessions are in the study's folder, or on the node until the point ends and they are copied.
    """

    takes_over = True

    def __init__(
        self, group: Group, launch: Launch, needs: Mapping[str, Needs], has_room: Callable[[], int]
    ) -> None:
        """needs: resources of each point on a node; has_room: how many points fit."""
        super().__init__(group.folder)
        self._launch, self._needs, self._has_room = launch, needs, has_room
        self._showing = group.shown()
        self._shown = ""
        self._remote: dict[str, RemotePoint] = {}

    @property
    def room(self) -> int:
        return self._has_room()

    def names(self) -> list[str]:
        return list(self._remote)

    def start(self, point: Point) -> None:
        remote_point = RemotePoint(point, self._study, self._shown, self._launch, self._needs[point.name])
        self._remote[point.name] = remote_point
        remote_point.start()

    def ended(self) -> dict[str, Ended]:
        found = {}
        for name, remote_point in list(self._remote.items()):
            if remote_point.how is not None and not remote_point.is_alive():
                del self._remote[name]
                found[name] = remote_point.how
        return found

    def stop(self) -> None:
        for remote_point in self._remote.values():
            remote_point.stop()

    def read(self, status: Status) -> Status:
        known = self._remote[status.name].known
        return super().read(status) if known is None else known.status

    def state(self, name: str) -> str | None:
        known = self._remote[name].known
        return super().state(name) if known is None else known.state

    def tell(self, name: str, command: str) -> None:
        remote_point = self._remote.get(name)
        if remote_point is not None and remote_point.known is not None:
            remote_point.tell(command)
        else:
            super().tell(name, command)

    def __enter__(self) -> Self:
        self._shown = self._showing.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        for remote_point in self._remote.values():
            remote_point.join()
        self._showing.__exit__(kind, error, trace)
