"""Points at work on the nodes of a Ray cluster, each seen to by a thread of this process."""

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
    """Their sessions are in the study's folder, or elsewhere until a point ends: then they are brought back."""

    takes_over = True

    def __init__(
        self, group: Group, launch: Launch, needs: Mapping[str, Needs], has_room: Callable[[], int]
    ) -> None:
        """needs: what each point takes of a node; has_room: how many points there is room for."""
        super().__init__(group.folder)
        self._launch, self._needs, self._has_room = launch, needs, has_room
        self._showing = group.shown()
        self._shown = ""
        self._errands: dict[str, RemotePoint] = {}

    @property
    def room(self) -> int:
        return self._has_room()

    def names(self) -> list[str]:
        return list(self._errands)

    def start(self, point: Point) -> None:
        errand = RemotePoint(point, self._study, self._shown, self._launch, self._needs[point.name])
        self._errands[point.name] = errand
        errand.start()

    def ended(self) -> dict[str, Ended]:
        found = {}
        for name, errand in list(self._errands.items()):
            if errand.how is not None and not errand.is_alive():
                del self._errands[name]
                found[name] = errand.how
        return found

    def stop(self) -> None:
        for errand in self._errands.values():
            errand.stop()

    def read(self, status: Status) -> Status:
        known = self._errands[status.name].known
        return super().read(status) if known is None else known.status

    def state(self, name: str) -> str | None:
        known = self._errands[name].known
        return super().state(name) if known is None else known.state

    def tell(self, name: str, command: str) -> None:
        errand = self._errands.get(name)
        if errand is not None and errand.known is not None:
            errand.tell(command)
        else:
            super().tell(name, command)

    def __enter__(self) -> Self:
        self._shown = self._showing.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        for errand in self._errands.values():
            errand.join()
        self._showing.__exit__(kind, error, trace)
