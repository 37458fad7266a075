"""The papers' case studies, shipped as study files."""

from pathlib import Path

import presets
from simulator.base.errors import ConfigError, nearest


def names() -> list[str]:
    """Their names, in alphabetical order."""
    return sorted(path.stem for path in _folder().glob("*.toml"))


def path(name: str) -> Path:
    """The file of one. Raises ConfigError with the nearest name for an unknown one."""
    if name not in names():
        raise ConfigError(
            f"there is no study '{name}'.{nearest(name, names())} There are {', '.join(names())}."
        )
    return _folder() / f"{name}.toml"


def _folder() -> Path:
    return Path(presets.__file__).parent / "studies"
