"""The backends that can run the points of a study, by their names in `sweep --on`."""

from typing import TYPE_CHECKING

from simulator.base.errors import ConfigError, nearest
from simulator.base.extras import install_command

if TYPE_CHECKING:
    from simulator.studies.executor import Backend

HERE, RAY, SLURM = "here", "ray", "slurm"
NAMES = (HERE, RAY, SLURM)


def checked(name: str) -> str:
    """The name of a backend. Raises ConfigError with the nearest name for an unknown one."""
    if name not in NAMES:
        raise ConfigError(f"`on='{name}'` is unknown.{nearest(name, NAMES)} There are {', '.join(NAMES)}.")
    return name


def backend(name: str) -> "type[Backend]":
    """The backend of that name. Raises ConfigError for an unknown name, or if this machine cannot use it."""
    match checked(name):
        case "ray":
            try:
                from simulator.studies.ray.backend import OnRay
            except ImportError as missing:
                raise ConfigError(
                    f"a sweep on Ray needs Ray, which is not installed ({missing}). Install it: "
                    f"`{install_command('ray')}`, or leave out `on` to run the points on this machine."
                ) from missing
            return OnRay
        case "slurm":
            raise ConfigError(
                "Slurm runs these points itself. `htfl-sim sweep STUDY … --on slurm` writes the script to submit."
            )
    from simulator.studies.children import Here

    return Here
