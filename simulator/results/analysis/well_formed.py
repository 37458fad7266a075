"""What becomes of JSON that is sound, but not a session's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checkpoints import Damaged


@contextmanager
def well_formed(folder: Path) -> Iterator[None]:
    """Within it, a key or a value that the session's files lack raises Damaged instead of a KeyError."""
    try:
        yield
    except (
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        ValueError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise Damaged(
            f"{folder} is no session that htfl-sim wrote: its JSON lacks what belongs there ({error})."
        ) from error
