"""What is kept from one start of the app to the next: theme, chart, sort, pins, colours in Compare."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

FILE = "app.json"
SESSIONS = 200
"""Sessions whose pins are kept: those pinned in last."""


@dataclass
class Preferences:
    """theme: its name. chart: the accuracy chart's mode. sort: the column that clients are sorted by, and whether from
    high to low. pins: the clients pinned, by session id. places: those of what was compared, by folder and name."""

    theme: str = ""
    chart: int = 0
    sort: tuple[str, bool] = ("accuracy", False)
    pins: dict[str, list[int]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path | None) -> "Preferences":
        """Those that were written there; in place of what cannot be read, what a first start has."""
        kept = cls()
        with suppress(OSError, ValueError, TypeError, AttributeError):
            found = json.loads((folder / FILE).read_text(encoding="utf-8")) if folder else {}
            for each in fields(cls):
                value, usual = found.get(each.name), getattr(kept, each.name)
                if isinstance(value, list) and isinstance(usual, tuple):
                    value = tuple(value)
                if type(value) is type(usual):
                    setattr(kept, each.name, value)
        return kept

    def keep(self, folder: Path | None, *, theme: str, chart: int, sort: tuple[str, bool]) -> None:
        """Write them there, with these; where that is not possible they are not kept."""
        self.theme, self.chart, self.sort = theme, chart, sort
        if folder is None:
            return
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            new = folder / f"{FILE}.new"
            new.write_text(json.dumps(asdict(self)), encoding="utf-8")
            new.replace(folder / FILE)

    def pinned(self, session: str) -> frozenset[int]:
        """The clients pinned in a session, by its id."""
        kept = self.pins.get(session, [])
        return (
            frozenset(each for each in kept if type(each) is int) if isinstance(kept, list) else frozenset()
        )

    def pin(self, session: str, clients: Iterable[int]) -> None:
        """Those pinned in a session from now on."""
        self.pins.pop(session, None)
        self.pins = dict([*self.pins.items(), (session, sorted(clients))][-SESSIONS:])
