"""The slots of compared lines. A line's slot gives its key and its color."""

from collections.abc import Sequence
from itertools import count

from simulator.results.figures.palette import OKABE_ITO
from simulator.studies.summary import Seeds


class ColorSlots:
    """A line keeps its slot while others come and go. It gets it back when it returns, also at another start, unless
    all colors were taken meanwhile.
    """

    def __init__(self, kept: dict[str, int] | None = None) -> None:
        """kept: the slots by line, updated in place. Invalid entries are removed."""
        self._kept = {} if kept is None else kept
        taken = set[int]()
        for name, place in [*self._kept.items()]:
            if type(place) is not int or place < 0 or place in taken:
                del self._kept[name]
            else:
                taken.add(place)

    def of(self, lines: Sequence[Seeds]) -> list[int]:
        """The lines' slots, all different."""
        names = [f"{line.runs[0].folder.parent.absolute()}: {line.name}" for line in lines]
        for name in names:
            if name not in self._kept:
                self._kept[name] = self._free(names)
        return [self._kept[name] for name in names]

    def _free(self, names: Sequence[str]) -> int:
        """The first color that no line has had, else the first slot that none of these has.

        Its former line loses it.
        """
        kept = {place: name for name, place in self._kept.items()}
        unused = [place for place in range(len(OKABE_ITO)) if place not in kept]
        if unused:
            return unused[0]
        found = next(place for place in count() if kept.get(place) not in names)
        if found in kept:
            del self._kept[kept[found]]
        return found
