"""A film of a session: its accuracy, CKA, or t-SNE, one frame for each round.

hs.film("demo", "demo.gif", of="tsne")
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from checkpoints import SessionUnreadable
from htfl_sim import folders
from htfl_sim.inspecting import representations
from simulator.base.errors import ConfigError, cannot_write, check_output
from simulator.results.analysis.cka import CkaMeasurement
from simulator.results.analysis.feed import read
from simulator.results.analysis.run import SessionData
from simulator.results.inspection.embedding import Embedding

if TYPE_CHECKING:
    from simulator.results.figures.style import Width

Place = str | Path
Topic = Literal["accuracy", "cka", "tsne"]
Done = Callable[[int, int, int], object]
"""Receives the round of a frame that is about to be made, its number, and the number of all frames."""
SECONDS = 0.5
IMAGES = 40


@dataclass(frozen=True, eq=False)
class Film:
    """The frames of a film. left_out: the rounds that have none.

    CKA and t-SNE need a kept checkpoint, except for rounds whose CKA is in the ledger. accuracy has no frames of its
    own: the session has all numbers.
    """

    run: SessionData
    of: Topic
    rounds: tuple[int, ...]
    left_out: tuple[int, ...]
    measured: tuple[CkaMeasurement, ...] = ()
    embeddings: tuple[Embedding, ...] = ()
    file: Path | None = None


def film(
    session: Place,
    out: Place | None = None,
    of: Topic = "accuracy",
    *,
    layers: Sequence[str] = (),
    images: int = IMAGES,
    seconds: float = SECONDS,
    width: "Width | None" = None,
    sessions_dir: Place | None = None,
    data_dir: Place | None = None,
    done: Done | None = None,
) -> Film:
    """Make a film of a session, and write it as a GIF, unless `out` is None. The same session gives the same bytes.

    of: 'accuracy' has all rounds. 'cka' has the rounds of the ledger's measurements and of kept checkpoints. 'tsne' has
    the rounds of kept checkpoints; it starts each frame at the positions of the last one. layers: of cka; all by
    default. images: test images per client in tsne. seconds: of each frame. width: of the picture, 'column' or 'page'.
    done: told of each frame before it is made. Raises ConfigError, SessionUnreadable, and DataError.
    """
    if of not in get_args(Topic):
        raise ConfigError(f"a film of '{of}' does not exist. Choose one of {', '.join(get_args(Topic))}.")
    if not 0.02 <= seconds <= 60:
        raise ConfigError(f"`seconds={seconds:g}` is not from 0.02 to 60 seconds per frame.")
    if out is not None and Path(out).suffix.lower() != ".gif":
        raise ConfigError(f"a film is written as .gif; '{Path(out).name}' ends otherwise.")
    if out is not None:
        check_output(Path(out))
    folder = folders.session_folder(session, folders.sessions_dir(sessions_dir))
    run = read(folder)
    if run.error:
        raise SessionUnreadable(run.error)
    rounds = frames_of(run, of)
    if not rounds:
        raise ConfigError(
            f"{run.name} has no round for a film of {of}. " + (NO_ROUND if not run.round else NO_CHECKPOINT)
        )
    left_out = tuple(round for round in range(1, run.round + 1) if round not in rounds)
    measured: tuple[CkaMeasurement, ...] = ()
    embeddings: tuple[Embedding, ...] = ()
    if of == "cka":
        measured = tuple(similarities(run, rounds, data_dir=data_dir, done=done))
    elif of == "tsne":
        embeddings = tuple(positions(run, rounds, images=images, data_dir=data_dir, done=done))
    made = Film(run, of, rounds, left_out, measured, embeddings, None if out is None else Path(out))
    if made.file is not None:
        _write(made, made.file, layers, seconds, width)
    return made


NO_ROUND = "No round is finished yet."
NO_CHECKPOINT = "No checkpoint is kept. In a new run, `checkpoint.keep_every=1` keeps those of all rounds."


def frames_of(run: SessionData, of: Topic) -> tuple[int, ...]:
    """The rounds that a film has frames of."""
    if of == "accuracy":
        return tuple(range(1, run.round + 1))
    kept = {round for round in run.checkpoints if 0 < round <= run.round}
    measured = {one.round for one in run.ledger.measured if one.round <= run.round}
    return tuple(sorted(kept | measured if of == "cka" else kept))


def positions(
    run: SessionData,
    rounds: Sequence[int],
    *,
    images: int = IMAGES,
    data_dir: Place | None = None,
    done: Done | None = None,
) -> Iterator[Embedding]:
    """t-SNE of kept rounds. The samples of each start where they were in the round before, and so move steadily."""
    before = None
    for number, round in enumerate(rounds, 1):
        if done is not None:
            done(round, number, len(rounds))
        before = representations(run.folder, round, images=images, data_dir=data_dir).embedded(before)
        yield before


def similarities(
    run: SessionData, rounds: Sequence[int], *, data_dir: Place | None = None, done: Done | None = None
) -> Iterator[CkaMeasurement]:
    """CKA of rounds: what the ledger has, else from the checkpoint. Raises ConfigError if no two models compare."""
    from htfl_sim.sessions import similarity

    known = {one.round: one for one in run.ledger.measured}
    for number, round in enumerate(rounds, 1):
        if done is not None:
            done(round, number, len(rounds))
        if round not in known:
            found = similarity(run.folder, round, data_dir=data_dir)
            if not found["order"]:
                raise ConfigError(
                    "No two clients have a layer of the same name, so their models cannot be compared."
                )
            known[round] = CkaMeasurement(round, tuple(found["order"]), found)
        yield known[round]


def _write(made: Film, out: Path, layers: Sequence[str], seconds: float, width: "Width | None") -> None:
    from simulator.results.figures import film as figures

    if made.of == "accuracy":
        draws = figures.accuracy(made.run, made.rounds, width=width or "column")
    elif made.of == "cka":
        draws = figures.cka(made.run.name, made.measured, layers, width=width or "page")
    else:
        draws = figures.tsne(made.run.name, made.embeddings, width=width or "page")
    try:
        figures.save(out, draws, seconds)
    except OSError as error:
        raise cannot_write(out, error) from error
