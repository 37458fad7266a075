"""Looks into a session: its clients' samples, their models' representations of them, and why a client does as it does.

Only `why` does not load torch.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from checkpoints import SessionUnreadable
from htfl_sim import folders
from simulator.results.analysis.cka import last_measured
from simulator.results.analysis.feed import read
from simulator.results.analysis.partners import Partners
from simulator.results.analysis.well_formed import well_formed
from simulator.results.analysis.why import Why
from simulator.results.analysis.why import why as explained

if TYPE_CHECKING:
    from simulator.results.analysis.confusion import Confusion
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


def why(session: Place, client: int, round: int | None = None, *, sessions_dir: Place | None = None) -> Why:
    """Why a client does as it does after a round (None: the last): findings as sentences with their numbers.

    The gain is over a session of standalone in the same folder with the same data, models, and seeds. Raises
    ConfigError for a client or a round that does not exist, and SessionUnreadable.
    """
    folder = _folder(session, sessions_dir)
    run = read(folder)
    if run.error:
        raise SessionUnreadable(run.error)
    with well_formed(folder):
        at = run.round if round is None else round
        partner = next(iter(Partners().find(run, folders.sessions_folder(folder))), None)
        return explained(
            run,
            client,
            round,
            cka=last_measured(run.ledger.measured, at),
            baseline=None if partner is None else read(partner.folder),
            shared=0 if partner is None else partner.shared,
        )


def confusion(
    session: Place,
    client: int,
    round: int | None = None,
    *,
    data_dir: Place | None = None,
    sessions_dir: Place | None = None,
) -> "Confusion":
    """A client's confusion matrix on its test samples after a kept round (None: the newest).

    Rows are the true classes, and columns the answers. Writes nothing. Raises SessionUnreadable for a round without a
    checkpoint, ConfigError for a client that does not exist, and DataError.
    """
    from simulator.results.inspection import models

    return models.confusion(_folder(session, sessions_dir), _data(data_dir), client, round)


def _folder(session: Place, sessions_dir: Place | None) -> Path:
    return folders.session_folder(session, folders.sessions_dir(sessions_dir))


def _data(data_dir: Place | None) -> Path:
    from simulator.data.datasets import data_folder

    return data_folder(None if data_dir is None else str(data_dir))
