"""Looks into a session: its clients' samples, and their models' representations of them. Both load torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from htfl_sim import folders

if TYPE_CHECKING:
    from simulator.results.inspection.client_samples import ClientSamples
    from simulator.results.inspection.representations import Representations

Place = str | Path


def representations(
    session: Place,
    round: int | None = None,
    *,
    images: int = 40,
    data_dir: Place | None = None,
    sessions_dir: Place | None = None,
) -> "Representations":
    """Every client's representations of the same number of test images after a kept round (None: the newest).

    Raises SessionUnreadable, ConfigError, and DataError.
    """
    from simulator.results.inspection.representations import of_checkpoint

    return of_checkpoint(_folder(session, sessions_dir), _data(data_dir), round, images=images)


def samples(
    session: Place,
    client: int,
    *,
    data_dir: Place | None = None,
    sessions_dir: Place | None = None,
) -> "ClientSamples":
    """A client's classes before round 1, each with its number of training samples and the first of them.

    Texts are text, and images and signals are small rows of numbers. Of a table, it has the means of the features.
    Raises SessionUnreadable, ConfigError, and DataError.
    """
    return samples_of_clients(session, [client], data_dir=data_dir, sessions_dir=sessions_dir)[0]


def samples_of_clients(
    session: Place,
    clients: Sequence[int] | None = None,
    *,
    data_dir: Place | None = None,
    sessions_dir: Place | None = None,
) -> "tuple[ClientSamples, ...]":
    """As `samples`, of several clients (None: all). The data are read once."""
    from simulator.results.inspection.looking import of_session

    return of_session(_folder(session, sessions_dir), _data(data_dir), clients)


def _folder(session: Place, sessions_dir: Place | None) -> Path:
    return folders.session_folder(session, folders.sessions_dir(sessions_dir))


def _data(data_dir: Place | None) -> Path:
    from simulator.data.datasets import data_folder

    return data_folder(None if data_dir is None else str(data_dir))
