"""The case studies of the papers, as study files that come with htfl-sim."""

from pathlib import Path

import presets
from simulator.base.errors import ConfigError, nearest


def names() -> list[str]:
    """Their names, in alphabetical order."""
    return sorted(path.stem for path in _folder().glob("*.toml"))


def path(name: str) -> Path:
    """The file of one. Raises ConfigError, naming the nearest, when there is none of that name."""
    if name not in names():
        raise ConfigError(
            f"there is no study '{name}'.{nearest(name, names())} There are {', '.join(names())}."
        )
    return _folder() / f"{name}.toml"


def _folder() -> Path:
    return Path(presets.__file__).parent / "studies"
