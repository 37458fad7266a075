"""Libraries that not everybody has: loaded when asked for, and said with the line that installs them."""

import importlib
from typing import Any

from simulator.base.errors import ConfigError


def library(module: str, extra: str) -> Any:
    """The module; raises ConfigError with the pip line where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise ConfigError(
            f"this needs the package {extra}, which is not installed ({missing}): pip install 'htfl-sim[{extra}]'."
        ) from missing
