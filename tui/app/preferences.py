"""Preferences that are kept between starts of the app: theme, chart, sort, pins, and colors in Compare."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

FILE = "app.json"
SESSIONS = 200
"""Sessions whose pins are kept: those with the latest changes."""


@dataclass
class Preferences:
    """theme: its name. chart: the accuracy chart's mode. sort: the column by which clients are sorted, and whether from
    high to low. pins: the pinned clients, by session id. places: the slots of compared lines, by folder and name.
    """

    theme: str = ""
    chart: int = 0
    sort: tuple[str, bool] = ("accuracy", False)
    pins: dict[str, list[int]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path | None) -> "Preferences":
        """Read the preferences there. Unreadable ones have their defaults."""
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
        """Write them there, with these changes. If that is impossible, they are not kept."""
        self.theme, self.chart, self.sort = theme, chart, sort
        if folder is None:
            return
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            new = folder / f"{FILE}.new"
            new.write_text(json.dumps(asdict(self)), encoding="utf-8")
            new.replace(folder / FILE)

    def pinned(self, session: str) -> frozenset[int]:
        """The pinned clients of a session, by its id."""
        kept = self.pins.get(session, [])
        return (
            frozenset(each for each in kept if type(each) is int) if isinstance(kept, list) else frozenset()
        )

    def pin(self, session: str, clients: Iterable[int]) -> None:
        """Set the pinned clients of a session."""
        self.pins.pop(session, None)
        self.pins = dict([*self.pins.items(), (session, sorted(clients))][-SESSIONS:])
