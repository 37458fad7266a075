"""Films: a frame for each round, the same bytes each time, and points that move steadily."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import htfl_sim as hs
from htfl_sim.filming import frames_of
from simulator.results.inspection.embedding import Embedding
from simulator.results.inspection.representations import Representations
from tests import sessions
from tests.cli.conftest import call
from tests.metrics.test_representations import session
from tui.app.charts.canvas import BOLD, Canvas
from tui.cli.cast import HEIGHT, WIDTH, ansi


def frames(file: Path) -> list[bytes]:
    with Image.open(file) as film:
        found = []
        for number in range(film.n_frames):
            film.seek(number)
            found.append(film.convert("RGB").tobytes())
        return found


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Eight rounds, of which the ledger has CKA of rounds 3 and 6."""
    return sessions.make(tmp_path / "main", rounds=8, clients=4, cka_every=3, state="finished")


def test_a_film_of_the_accuracy_has_a_frame_for_each_round(made: Path, tmp_path: Path) -> None:
    found = hs.film(made, tmp_path / "f.gif")
    assert (found.rounds, found.left_out) == (tuple(range(1, 9)), ())
    pictures = frames(tmp_path / "f.gif")
    assert len(pictures) == 8 == len({*pictures})


def test_each_frame_is_shown_for_the_given_seconds_and_the_film_starts_over(
    made: Path, tmp_path: Path
) -> None:
    hs.film(made, tmp_path / "f.gif", seconds=0.2)
    with Image.open(tmp_path / "f.gif") as film:
        assert (film.info["duration"], film.info["loop"]) == (200, 0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rounds of FedProto with their checkpoints."""
    return session(tmp_path_factory.mktemp("film") / "s", "fedproto", cka_every=2)


@pytest.mark.parametrize("of", ["accuracy", "cka", "tsne"])
def test_the_same_session_gives_the_same_bytes_and_a_frame_for_each_kept_round(
    trained: Path, tmp_path: Path, of: Any
) -> None:
    for name in ("one.gif", "other.gif"):
        found = hs.film(trained, tmp_path / name, of, images=8, data_dir=trained.parent / "data")
        assert (found.rounds, found.left_out) == ((1, 2), ())
    assert (tmp_path / "one.gif").read_bytes() == (tmp_path / "other.gif").read_bytes()
    assert len(frames(tmp_path / "one.gif")) == 2


def test_cka_is_that_of_the_ledger_or_computed_from_the_checkpoint(trained: Path) -> None:
    data, told = trained.parent / "data", list[tuple[int, int, int]]()
    found = hs.film(trained, of="cka", data_dir=data, done=lambda *each: told.append(each))
    first, second = found.measured
    assert first.cka["matrix"] == hs.sessions.similarity(trained, 1, data_dir=data)["matrix"]
    recorded = hs.sessions.records(trained)[1]["cka"]
    assert recorded is not None and second.cka["matrix"] == recorded["matrix"]
    assert told == [(1, 1, 2), (2, 2, 2)]


def representations(moved: float, clients: list[int], anchors: bool = True) -> Representations:
    """Three classes of 20 samples each around places of their own, all shifted by `moved`."""
    draw, labels = np.random.default_rng(0), np.repeat([0, 1, 2], 20)
    features = 10 * np.eye(3)[labels] + draw.standard_normal((60, 3)) + moved
    middles = 10 * np.eye(3) + moved if anchors else np.zeros((0, 3))
    return Representations(
        1, features.astype(np.float32), labels, np.array(clients), ("a", "b", "c"),
        middles.astype(np.float32), np.arange(len(middles)), "prototype" if anchors else "",
    )  # fmt: skip


CLIENTS = [0, 1] * 30


def test_a_frame_starts_where_the_one_before_ended() -> None:
    """The features are only shifted, so t-SNE of them alone could turn the plane, and must not here."""
    before = representations(0.0, CLIENTS).embedded()
    after = representations(3.0, CLIENTS).embedded(before)
    moved = np.linalg.norm(after.points - before.points, axis=1)
    reach = np.linalg.norm(before.points - before.points.mean(axis=0), axis=1)
    assert moved.mean() < 0.25 * reach.mean()


def test_samples_are_followed_by_client_and_new_ones_start_in_the_middle_of_their_class() -> None:
    points = np.array([[0.0, 0.0], [4.0, 0.0], [10.0, 10.0]])
    none = np.zeros((0, 2))
    before = Embedding(
        1, points, np.array([0, 0, 1]), np.array([3, 5, 5]), ("a", "b"), none, np.arange(0), ""
    )
    now = Representations(
        2, np.zeros((4, 3), np.float32), np.array([0, 1, 0, 1]), np.array([5, 5, 6, 3]), ("a", "b"),
        np.zeros((2, 3), np.float32), np.array([0, 1]), "prototype",
    )  # fmt: skip
    # Client 5's two samples, then one of client 6, then the first of client 3; the anchors are new.
    expected = [[4, 0], [10, 10], [2, 0], [0, 0], [2, 0], [10, 10]]
    assert now._positions(before).tolist() == expected


def test_cka_also_has_the_rounds_of_the_ledger(made: Path) -> None:
    """Checkpoints are kept of rounds 5 and 8, and CKA of rounds 3 and 6."""
    run = hs.open(made).moment
    assert frames_of(run, "tsne") == (5, 8) and frames_of(run, "cka") == (3, 5, 6, 8)


def test_rounds_without_a_checkpoint_are_left_out_and_told(trained: Path, tmp_path: Path) -> None:
    folder, out = Path(shutil.copytree(trained, tmp_path / "s")), tmp_path / "f.gif"
    hs.sessions.prune(folder, keep_last=1, keep_best=False)
    result = call(
        "plot", "film", folder, "--of", "tsne", "--out", out, "--data-dir", trained.parent / "data",
    )  # fmt: skip
    assert result.code == 0 and "Rounds without a checkpoint are left out: 1." in result.err
    assert "round 2: frame 1 of 1" in result.err and len(frames(out)) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"of": "loss"}, "a film of 'loss' does not exist"),
        ({"out": "film.mp4"}, "written as .gif; 'film.mp4' ends otherwise"),
        ({"seconds": 0.0}, "seconds=0"),
    ],
)
def test_what_a_film_cannot_be_is_refused_before_it_is_computed(
    made: Path, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(hs.ConfigError, match=said):
        hs.film(made, **options)


def test_a_session_without_a_checkpoint_has_no_film_of_its_models(tmp_path: Path) -> None:
    begun = sessions.make(tmp_path / "new", rounds=0, of=3)
    with pytest.raises(hs.ConfigError, match="No round is finished yet"):
        hs.film(begun, of="tsne")


# As a recording of a terminal


def cast(session: Path, tmp_path: Path, *options: str) -> list[Any]:
    out = tmp_path / "film.cast"
    result = call(
        "plot", "film", session, "--out", out, "--data-dir", session.parent / "data",
        "--sessions-dir", session.parent, *options,
    )  # fmt: skip
    assert result.code == 0, result.err
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("of", ["accuracy", "cka", "tsne"])
def test_a_recording_has_a_header_and_an_event_for_each_frame(trained: Path, tmp_path: Path, of: str) -> None:
    header, *events = cast(trained, tmp_path, "--of", of, "--seconds", "0.25")
    assert header == {"version": 2, "width": WIDTH, "height": HEIGHT, "title": f"s: {of}"}
    assert [event[:2] for event in events] == [
        [0.0, "o"],
        [0.25, "o"],
        [0.5, "o"],
    ]  # the last one ends the film
    for number, (_, _, text) in enumerate(events[:2], 1):
        rows = text.split("\r\n")
        assert len(rows) == HEIGHT and f"s, round {number}" in rows[0]
        assert "\n" not in "".join(rows) and all(row.endswith("\x1b[0m") for row in rows)


def test_a_row_of_a_recording_has_its_colors_as_escape_sequences() -> None:
    canvas = Canvas.blank(4, 1)
    canvas.put(0, 1, "ab", 0x010203, BOLD)
    assert list(ansi(canvas)) == ["\x1b[0m \x1b[0;1;38;2;1;2;3mab\x1b[0m \x1b[0m"]


def test_the_command_tells_of_its_frames_and_of_rounds_that_are_left_out(tmp_path: Path, made: Path) -> None:
    out = tmp_path / "f.gif"
    result = call("plot", "film", "main", "--out", out, "--sessions-dir", tmp_path)
    assert result.code == 0 and f"{out}: 8 frames" in result.err
    refused = call("plot", "film", "main", "--out", tmp_path / "f.pdf", "--sessions-dir", tmp_path)
    assert refused.code == 2 and "written as .gif or .cast" in refused.err
    other = call(
        "plot", "box", "main", "--of", "cka", "--out", tmp_path / "f.pdf", "--sessions-dir", tmp_path
    )
    assert other.code == 2 and "--of changes nothing of 'box'" in other.err
