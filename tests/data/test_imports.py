"""Federations of other tools: the same clients and samples here, and PFLlib's folders written back bit for bit."""

import json
import os
import pickle
import resource
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import htfl_sim as hs
from simulator.base.errors import ConfigError, DataError
from simulator.data import unpickling
from simulator.data.other_tools import MOST_VALUES, convert
from tests.cli.conftest import Cli, cli, sessions

__all__ = ["cli", "sessions"]

Client = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
"""x and y for training, x and y for test."""


def pfllib(folder: Path, clients: Sequence[Client], **config: Any) -> Path:
    """A folder as PFLlib's `save_file` writes it (TsingZ0/PFLlib@0154cff): pickled dictionaries in compressed npz."""
    for part in ("train", "test"):
        (folder / part).mkdir(parents=True)
    for number, (x, y, test_x, test_y) in enumerate(clients):
        pickled(folder / "train" / f"{number}.npz", {"x": x, "y": y})
        pickled(folder / "test" / f"{number}.npz", {"x": test_x, "y": test_y})
    if config:
        (folder / "config.json").write_text(json.dumps(config))
    return folder


def pickled(file: Path, data: object) -> None:
    with file.open("wb") as opened:
        np.savez_compressed(opened, data=data)  # type: ignore[arg-type]  # numpy pickles it


def unpickled(file: Path) -> Any:
    with np.load(file, allow_pickle=True) as arrays:
        return arrays["data"].tolist()


def numbers(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def images(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Images [n, c, h, w] as ToTensor and Normalize(0.5, 0.5) of torchvision make them."""
    half = np.float32(0.5)
    return (pixels / np.float32(255) - half) / half


def federation(clients: int = 20, channels: int = 3) -> list[Client]:
    """Images of 16×16 pixels. A quarter of each client's is for test, in random order."""
    draw, made = np.random.default_rng(1), []
    for _ in range(clients):
        count = int(draw.integers(12, 25))
        x = images(draw.integers(0, 256, (count, channels, 16, 16), dtype=np.uint8))
        y = draw.permutation(np.arange(count) % 4).astype(np.int64)
        held = count * 3 // 4
        made.append((x[:held], y[:held], x[held:], y[held:]))
    return made


def small(x: NDArray[Any] | None = None, y: NDArray[Any] | None = None) -> list[Client]:
    """Two clients with the same four samples for training, of which two are for test."""
    x = numbers(4, 3) if x is None else x
    y = np.array([0, 1, 0, 1]) if y is None else y
    return [(x, y, x[:2], y[:2])] * 2


def imported(folder: Path, **options: Any) -> tuple[Any, list[Any], Any]:
    """The arrays, the clients, and the report of an import."""
    target = folder.parent / "own"
    report = hs.catalog.import_federation(folder, target, unpickle=True, **options)
    with np.load(target / "samples.npz") as arrays:
        return dict(arrays), json.loads((target / "clients.json").read_text()), report


@pytest.mark.long
def test_twenty_clients_of_pfllib_run_here_and_go_back_bit_for_bit(tmp_path: Path, cli: Cli) -> None:
    clients = federation()
    about = {
        "num_clients": 20, "num_classes": 4, "non_iid": True, "balance": False, "partition": "pat",
        "Size of samples for labels in clients": [
            [[label, int((np.append(y, other) == label).sum())] for label in range(4)] for _, y, _, other in clients
        ],
        "alpha": 0.1, "batch_size": 10,
    }  # fmt: skip
    pfllib(tmp_path / "theirs", clients, **about)

    read = cli("data", "import", "theirs", "our own", "--unpickle", "--json")
    assert read.code == 0, read.err
    with np.load("our own/samples.npz") as arrays:
        samples, labels = arrays["images"], arrays["labels"]
    for (x, y, test_x, test_y), parts in zip(
        clients, json.loads(Path("our own/clients.json").read_text()), strict=True
    ):
        for part, theirs, own in (("train", x, y), ("test", test_x, test_y)):
            assert np.array_equal(images(samples[parts[part]].transpose(0, 3, 1, 2)), theirs)
            assert np.array_equal(labels[parts[part]], own)

    program, *typed = shlex.split(read.json()["command"])
    tiny = ("--set=federation.group=tiny", "--set=training.epochs=1", "--workers=1")
    run = cli(*typed, "--method", "fedproto", "--rounds", "2", "--session", "theirs", *tiny)
    assert (program, run.code) == ("htfl-sim", 0), run.err
    assert len(hs.open("sessions/theirs").records()) == 2

    back = cli("data", "export", "back", *typed[1:])
    assert back.code == 0, back.err
    for file in sorted((tmp_path / "theirs").rglob("*.npz")):
        one, other = unpickled(file), unpickled(tmp_path / "back" / file.relative_to(tmp_path / "theirs"))
        assert [*other] == ["x", "y"]
        for key in one:
            assert (one[key].dtype, one[key].shape) == (other[key].dtype, other[key].shape)
            assert one[key].tobytes() == other[key].tobytes()
    written = json.loads((tmp_path / "back" / "config.json").read_text())
    assert written.keys() == about.keys()
    assert {key: written[key] for key in (*about,)[:2]} == {"num_clients": 20, "num_classes": 4}
    assert written["Size of samples for labels in clients"] == about["Size of samples for labels in clients"]


# What is pickled


class _Writes:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.system, (f"echo run > {self.file}",)


def test_a_pickle_that_writes_a_file_writes_nothing(tmp_path: Path, cli: Cli) -> None:
    folder = pfllib(tmp_path / "theirs", small())
    pickled(folder / "train" / "1.npz", {"x": _Writes(tmp_path / "written"), "y": np.array([0])})
    unasked = cli("data", "import", "theirs", "own", "--kind", "features")
    asked = cli("data", "import", "theirs", "own", "--unpickle")
    assert (unasked.code, asked.code) == (3, 3)
    assert "a pickle can run any program" in unasked.err
    assert "`htfl-sim data import theirs own --kind features --unpickle`" in unasked.err
    assert "1.npz has posix.system" in asked.err
    assert not (tmp_path / "written").exists() and not (tmp_path / "own").exists()


def npz_of(file: Path, stream: bytes) -> None:
    """An `.npz` with these bytes in the place of numpy's pickle."""
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (), }\n"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "data.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + stream
        )


def call_of(module: str, name: str, *arguments: object) -> bytes:
    """A pickle of `module.name(*arguments)`."""
    return f"c{module}\n{name}\n".encode() + pickle.dumps(arguments, 2)[2:-1] + b"R"


DTYPE = call_of("numpy", "dtype", "f4", False, True)
ARRAY = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R"


A_PICKLE_OF_ANYTHING: list[Any] = [
    (call_of("builtins", "eval", "1"), "has builtins.eval"),
    (call_of("numpy", "load", "x.npy"), "has numpy.load"),
    (call_of("numpy", "dtype", "V8"), "has an array of the type 'V8'"),
    (pickle.dumps({"x": np.array(1.0), "y": np.array([0])}, 3)[:-1], "has an array without samples"),
    (pickle.dumps({"x": np.zeros((2, 0)), "y": np.array([0])}, 3)[:-1], "has an array without samples"),
    (
        DTYPE + pickle.dumps((3, "<", None, ("a",), {"a": 1}, -1, -1, 0), 2)[2:-1] + b"b",
        "an array of records",
    ),
    (ARRAY + b"(K\x01(Mpqt" + DTYPE + b"\x89C\x01atb", "has an array whose shape is not that of its values"),
    (b"Pother\n", "has an object of another file"),
    (b"}", "has data other than a dictionary of 'x' and 'y'"),
    (b"garbage", "is damaged"),
    (b"X\xff\xff\xff\x7f", "is damaged"),
    (b"Nr\xff\xff\xff\x7f", "needs more than 2 GiB of memory"),
]


def test_a_pickle_of_anything_else_is_refused_by_name(tmp_path: Path) -> None:
    for case, (stream, why) in enumerate(A_PICKLE_OF_ANYTHING):
        place = tmp_path / str(case)
        folder = pfllib(place / "theirs", small())
        npz_of(folder / "test" / "0.npz", stream + b".")
        with pytest.raises(DataError, match=why):
            convert(folder, place / "own", unpickle=True)


@pytest.mark.long
def test_a_small_file_that_unpacks_to_gigabytes_takes_no_memory_here(tmp_path: Path) -> None:
    folder = pfllib(tmp_path / "theirs", small())
    npz_of(folder / "train" / "0.npz", b"B\x00\x00\x00\xf0" + bytes(300 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match=r"0\.npz needs more than 2 GiB of memory|is damaged"):
        convert(folder, tmp_path / "own", unpickle=True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


@pytest.mark.long
def test_the_process_that_unpickles_could_write_no_file_if_it_ran_code(tmp_path: Path) -> None:
    stream = pickle.dumps({"x": _Writes(tmp_path / "written"), "y": 0}, 2)
    npz_of(tmp_path / "0.npz", stream)
    content = (tmp_path / "0.npz").read_bytes()
    program = f"""if True:
        import os, sys
        sys.path.append({str(Path(unpickling.__file__).parent)!r})
        import unpickling
        unpickling._KNOWN["posix", "system"] = os.system
        unpickling.main(sys.stdin.buffer, sys.stdout.buffer)"""
    answer = subprocess.run(
        [sys.executable, "-c", program],
        input=len(content).to_bytes(8, "little") + content,
        capture_output=True,
        check=True,
    )
    assert b"'x' of the type int" in answer.stdout  # it ran, with its exit code as result
    assert not (tmp_path / "written").exists()


# What the samples are


def test_bytes_become_pfllibs_values_of_torchvision() -> None:
    transforms = pytest.importorskip("torchvision.transforms")
    every = np.arange(256, dtype=np.uint8).reshape(16, 16)
    make = transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5], [0.5])])
    from simulator.data.other_tools import PIXELS

    assert make(every[:, :, None]).numpy().tobytes() == PIXELS[every][None].tobytes()


def test_signals_of_pfllib_lose_their_axis_of_one(tmp_path: Path) -> None:
    x = numbers(4, 9, 1, 128).astype(np.float64)
    arrays, _, report = imported(pfllib(tmp_path / "har", small(x, np.array([0, 1, 0, 1], dtype=np.int32))))
    assert np.array_equal(arrays["signals"][:4], x[:, :, 0])
    assert "'x' [n, 9, 1, 128] is read as signals." in report["notes"]


def test_a_list_of_samples_is_an_array_and_channels_of_several_sensors_are_put_in_one_axis(
    tmp_path: Path,
) -> None:
    folder = pfllib(tmp_path / "camelyon", small())
    pickled(folder / "train" / "0.npz", {"x": [*numbers(4, 3)], "y": [0, 1, 0, 1]})
    arrays, _, _ = imported(folder)
    assert np.array_equal(arrays["features"][:4], numbers(4, 3))
    x = numbers(4, 9, 3, 32)
    arrays, _, _ = imported(pfllib(tmp_path / "more" / "pamap2", small(x)))
    assert np.array_equal(arrays["signals"][:4], x.reshape(4, 27, 32))


def texts() -> NDArray[Any]:
    """Texts of four tokens with lengths, as PFLlib's `tokenizer` leaves them: padded, with the padded length."""
    pairs = np.empty((4, 2), dtype=object)
    for pair, tokens in zip(pairs, ([5, 6, 7, 8], [5, 6, 0, 0], [9, 0, 0, 0], [5, 5, 5, 0]), strict=True):
        pair[:] = tokens, 4
    return pairs


def test_texts_of_pfllib_go_there_and_back(tmp_path: Path) -> None:
    folder = pfllib(tmp_path / "agnews", small(texts()))
    arrays, clients, _ = imported(folder)
    assert arrays["tokens"][:2].tolist() == [[5, 6, 7, 8], [5, 6, 0, 0]]
    assert clients[1] == {"train": [4, 5, 6, 7], "test": [10, 11]}
    config = hs.preset(
        dataset=tmp_path / "own" / "samples.npz", clients=2,
        data__partition="indices", data__indices=str(tmp_path / "own" / "clients.json"),
    )  # fmt: skip
    notes = hs.catalog.export_federation(config, tmp_path / "back")
    assert unpickled(tmp_path / "back" / "train" / "0.npz")["x"].tolist() == texts().tolist()
    assert "Texts are pairs of tokens and length" in notes[0]


def test_whole_numbers_without_lengths_are_tokens_without_padding(tmp_path: Path) -> None:
    arrays, _, report = imported(
        pfllib(tmp_path / "shakespeare", small(np.array([[0, 79], [3, 0], [1, 1], [2, 5]])))
    )
    assert (int(arrays["vocabulary"]), int(arrays["padding"])) == (81, 80)
    assert arrays["tokens"][:2].tolist() == [[0, 79], [3, 0]]
    assert any("none of them is padding" in note for note in report["notes"])


def test_labels_that_begin_at_another_number_are_kept_and_said(tmp_path: Path) -> None:
    arrays, _, report = imported(
        pfllib(tmp_path / "odd", small(y=np.array([3, 7, 3, 7])), num_clients=2, num_classes=9)
    )
    assert arrays["labels"][:4].tolist() == [3, 7, 3, 7]
    assert report["classes"] == {"3": 6, "7": 6}
    assert "config.json has 9 classes, and 2 of them have samples. Models get 2." in report["notes"]
    assert "Labels are not 0 to 1. Class 3 is the first." in report["notes"]


OTHER = (images(np.full((4, 3, 8, 8), 9, dtype=np.uint8)) * 2).astype(np.float32)


SAMPLES_THAT_UNCLEAR: list[Any] = [
    (OTHER, None, r"values from -1\.\d+ to -1\.\d+.*as in PFLlib's images.*`kind='features'`"),
    (numbers(4, 3, 1, 8), None, r"can be read in several ways. Use `kind='images'` or `kind='signals'`"),
    (numbers(4, 28, 28), None, r"can be read in several ways. Use `kind='signals'` or `kind='features'`"),
    (numbers(4, 5, 6, 7, 2), None, r"is not read as images or signals. Use `kind='features'`"),
    (np.ones((4, 3, 8, 8), dtype=np.float32), None, r"can be \(k/255 − 0.5\)/0.5 or k/255 of bytes k"),
    (np.array([[-1, 2]] * 4), None, "has the token -1"),
    (numbers(4, 5) * np.inf, None, "has a value that is not finite"),
    (numbers(4, 5), np.array([0.0, 1, 0, 1]), "'y' must be 4 whole numbers, not float64"),
    (numbers(4, 5), np.array([0, 1, 0]), r"'y' must be 4 whole numbers, not int64 \[3\]"),
    (numbers(4, 5), np.array([0, 0, 0, 0]), "has a single class"),
    (numbers(0, 5), np.array([], dtype=int), "has no samples, and a client needs some in each part"),
]


def test_samples_that_are_unclear_are_refused(tmp_path: Path) -> None:
    for case, (x, y, why) in enumerate(SAMPLES_THAT_UNCLEAR):
        place = tmp_path / str(case)
        folder = pfllib(place / "theirs", small(x, np.array([0, 1, 0, 1]) if y is None else y))
        with pytest.raises(DataError, match=why):
            hs.catalog.import_federation(folder, place / "own", unpickle=True)
        assert not list((place / "own").glob("*"))


def test_what_was_unclear_is_read_as_it_is_declared(tmp_path: Path) -> None:
    arrays, _, _ = imported(pfllib(tmp_path / "theirs", small(OTHER)), kind="features")
    assert np.array_equal(arrays["features"][:4], OTHER.reshape(4, -1))


def without(*names: str) -> Callable[[Path], None]:
    return lambda folder: [(folder / name).unlink() for name in names] and None


A_FOLDER_THAT: list[Any] = [
    (without("train/0.npz", "test/0.npz"), r"train has 1 files, and no 0\.npz, but 1\.npz"),
    (without("train/1.npz"), r"1 files in train, and its config\.json has 2 clients"),
    (without("test/1.npz"), "2 files in train and 1 in test"),
    (
        lambda folder: pickled(folder / "test" / "1.npz", {"x": numbers(1, 4), "y": np.array([0])}),
        "differs from",
    ),
    (lambda folder: (folder / "config.json").write_text("{"), r"config\.json is not JSON"),
    (lambda folder: (folder / "train" / "0.npz").write_bytes(b"PK"), r"0\.npz is damaged"),
    (lambda folder: (folder / "train" / "users.json").write_text("{}"), "files of PFLlib and of LEAF"),
]


def test_a_folder_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    for case, (change, why) in enumerate(A_FOLDER_THAT):
        place = tmp_path / str(case)
        folder = pfllib(place / "theirs", small(), num_clients=2, num_classes=2)
        change(folder)
        with pytest.raises(DataError, match=why):
            convert(folder, place / "own", unpickle=True)


def test_what_is_not_read_is_listed(tmp_path: Path) -> None:
    folder = pfllib(tmp_path / "theirs", small())
    (folder / "rawdata").mkdir()
    pickled(folder / "train" / "0.npz", {"x": numbers(4, 3), "y": np.array([0, 1, 0, 1]), "domain": 1})
    _, _, report = imported(folder)
    assert report["left_out"] == {
        "rawdata": "no part of PFLlib's clients", "'domain' in the files": "PFLlib does not read it"
    }  # fmt: skip


def test_clients_without_test_parts_need_a_split(tmp_path: Path) -> None:
    folder = pfllib(tmp_path / "theirs", small(numbers(10, 3), np.arange(10) % 2))
    for file in (folder / "test").iterdir():
        file.unlink()
    with pytest.raises(DataError, match=r"has no test parts.*`split='8:2'`"):
        convert(folder, tmp_path / "own", unpickle=True)
    _, clients, _ = imported(folder, split="8:2")
    assert [(len(each["train"]), len(each["test"])) for each in clients] == [(8, 2), (8, 2)]
    assert sorted(clients[1]["train"] + clients[1]["test"]) == [*range(10, 20)]


def test_a_target_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine").touch()
    with pytest.raises(ConfigError, match=r"is there already. Name a new folder"):
        convert(pfllib(tmp_path / "theirs", small()), tmp_path / "own", unpickle=True)


# LEAF


def leaf(file: Path, users: dict[str, tuple[list[Any], list[Any]]], **more: Any) -> Path:
    """A file of LEAF, and the folder of its data."""
    file.parent.mkdir(parents=True, exist_ok=True)
    data = {user: {"x": x, "y": y} for user, (x, y) in users.items()}
    counts = [len(y) for _, y in users.values()]
    file.write_text(json.dumps({"users": [*users], "num_samples": counts, "user_data": data} | more))
    return file.parent.parent


def both(folder: Path, x: list[Any], y: list[Any], name: str = "ann") -> Path:
    """A user whose samples are for training and, again, for test."""
    leaf(folder / "train" / "all_data_0_train_9.json", {name: (x, y)})
    return leaf(folder / "test" / "all_data_0_test_9.json", {name: (x, y)})


def pixels(count: int, seed: int = 0) -> list[list[float]]:
    found: list[list[float]] = (np.random.default_rng(seed).integers(0, 256, (count, 784)) / 255).tolist()
    return found


def test_femnists_fractions_are_images_of_the_same_bytes(tmp_path: Path) -> None:
    rows = pixels(3)
    leaf(tmp_path / "f" / "train" / "all_data_10.json", {"bob": (rows[:2], [5, 61])})
    leaf(tmp_path / "f" / "train" / "all_data_9.json", {"ann": (rows[:1], [5])})
    leaf(tmp_path / "f" / "test" / "all_data_0.json", {"ann": (rows[2:], [5]), "bob": (rows[2:], [61])})
    arrays, clients, report = imported(tmp_path / "f")
    assert np.array_equal(arrays["images"].reshape(-1, 784)[1:3] / 255, rows[:2])
    assert clients == [{"train": [0], "test": [3]}, {"train": [1, 2], "test": [4]}]
    assert report["clients"] == {"ann": 2, "bob": 3}
    assert any(
        "784 fractions k/255, read as gray images of 28×28 pixels. `kind='features'`" in note
        for note in report["notes"]
    )


OF_FEATURES: list[tuple[list[list[float]], str | None]] = [
    ([[0.5, 1.5]] * 2, None),
    ([[0.0] * 64, [1.0] * 64], None),
    ([[0.1] * 64, [0.7] * 64], None),
    (pixels(2), "features"),
]


def test_other_numbers_are_features_and_fractions_if_the_user_says_so(tmp_path: Path) -> None:
    for case, (rows, kind) in enumerate(OF_FEATURES):
        arrays, _, _ = imported(both(tmp_path / str(case) / "f", rows, [0, 1]), kind=kind)
        assert np.array_equal(arrays["features"][:2], np.array(rows, dtype=np.float32))


def test_the_command_names_the_line_that_runs_the_files(tmp_path: Path, cli: Cli) -> None:
    both(tmp_path / "leaf", [[0.5, 1.5]] * 2, [0, 1])
    result = cli("data", "import", "leaf", "own", "--json")
    files = "--dataset own/samples.npz --partition own/clients.json"
    assert result.json()["command"] == f"htfl-sim run {files} --clients 1"


def test_shakespeares_characters_are_tokens_of_leafs_alphabet(tmp_path: Path) -> None:
    arrays, _, report = imported(both(tmp_path / "s", ["ab", "a~"], ["\n", "b"]))
    a = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]a".index("a") + 1
    assert arrays["tokens"][:2].tolist() == [[a, a + 1], [a, 81]]
    assert (int(arrays["vocabulary"]), int(arrays["padding"])) == (82, 0)
    assert report["classes"] == {"b": 2, "newline": 2}
    assert any("2 other characters are token 81" in note for note in report["notes"])


def test_sent140s_texts_are_words_of_the_training_parts(tmp_path: Path) -> None:
    leaf(
        tmp_path / "s" / "train" / "a.json",
        {"ann": ([["1", "Mon", "so so good"], ["2", "Tue", "so bad"]], [1, 0])},
    )
    leaf(tmp_path / "s" / "test" / "a.json", {"ann": ([["3", "Wed", "good grief"]], [1])})
    arrays, _, report = imported(tmp_path / "s")
    assert arrays["tokens"].tolist() == [
        [2, 2, 4],
        [2, 3, 0],
        [4, 1, 0],
    ]  # so, bad, good, and an unknown word
    assert report["left_out"]["column 2 of x"] == "the text is in the last column"


def test_whole_numbers_can_be_tokens(tmp_path: Path) -> None:
    folder = both(tmp_path / "w", [[1, 2], [3, 4]], [0, 1])
    arrays, _, report = imported(folder, kind="tokens")
    assert arrays["tokens"][:2].tolist() == [[1, 2], [3, 4]]
    assert any("read as tokens. `kind='features'` reads features." in note for note in report["notes"])


def test_undivided_users_get_the_split_that_is_asked_for(tmp_path: Path) -> None:
    rows = numbers(10, 3).tolist()
    folder = leaf(
        tmp_path / "syn" / "all_data" / "data.json", {"0": (rows, [0, 1] * 5), "1": (rows, [0, 1] * 5)}
    )
    with pytest.raises(DataError, match="has no test parts"):
        convert(folder, tmp_path / "own")
    _, clients, _ = imported(folder, split="6:2:2")
    assert [[len(part) for part in each.values()] for each in clients] == [[6, 2, 2]] * 2


def test_users_with_a_part_alone_and_unlisted_ones_are_left_out_and_said(tmp_path: Path) -> None:
    rows = numbers(2, 3).tolist()
    leaf(
        tmp_path / "f" / "train" / "a.json", {"ann": (rows, [0, 1]), "bob": (rows, [0, 1])}, hierarchies=["x"]
    )
    folder = leaf(
        tmp_path / "f" / "test" / "a.json", {"ann": (rows, [0, 1]), "cleo": (rows, [0, 1]), "dan": ([], [])}
    )
    _, clients, report = imported(folder)
    assert len(clients) == 1 and [*report["clients"]] == ["ann"]
    assert {*report["left_out"]} == {"hierarchies", "user bob", "user cleo", "user dan"}


A_FILE_OF_LEAF: list[Any] = [
    (lambda at: (at.write_text("{}"),), "it needs users, num_samples, and user_data"),
    (lambda at: (at.write_text("[" * 100_000),), "is not JSON"),
    (lambda at: (at.write_text("[" + "0," * MOST_VALUES + "0]"),), "has more than 24,000,000 values"),
    (lambda at: (at.unlink(), os.mkfifo(at)), "it is a pipe"),
    (lambda at: leaf(at, {"ann": ([[1.5]], [0])}, num_samples=[2]), "must have the same number of samples"),
    (lambda at: leaf(at, {"ann": ([[1.5], [1.5, 2]], [0, 1])}), "rows of finite numbers of one length"),
    (lambda at: leaf(at, {"ann": ([[1.5], [1e999]], [0, 1])}), "rows of finite numbers of one length"),
    (lambda at: leaf(at, {"ann": ([[1.5], "a"], [0, 1])}), "rows of finite numbers of one length"),
    (lambda at: leaf(at, {"ann": ([[[1]], [[2]]], [{"a": 1}, {}])}), "rows of finite numbers of one length"),
    (lambda at: leaf(at, {"ann": (["a b", "b"], [0, 0.5])}), "'y' must be whole numbers or texts"),
    (lambda at: leaf(at, {"ann": (["a b", "b"], [0, 1 << 80])}), "'y' must have whole numbers of 64 bits"),
    (lambda at: both(at.parents[1], ["01.jpg", "02.jpg"], [0, 1]), "the names of image files"),
    (lambda at: leaf(at, {"bob": ([[1.5]], [0])}), "train and test have different users"),
    (lambda at: leaf(at.with_name("b.json"), {"ann": ([[1.5]], [0])}), "another file has this user too"),
]


def test_a_file_of_leaf_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for case, (write, why) in enumerate(A_FILE_OF_LEAF):
        place = tmp_path / str(case)
        folder = both(place / "f", [[1.5], [2.5]], [0, 1])
        write(folder / "train" / "all_data_0_train_9.json")
        with pytest.raises(DataError, match=why):
            convert(folder, place / "own")


def test_leafs_steps_side_by_side_are_not_chosen_from(tmp_path: Path) -> None:
    rows = numbers(2, 3).tolist()
    for step in ("all_data", "sampled_data"):
        leaf(tmp_path / "f" / step / "a.json", {"ann": (rows, [0, 1])})
    with pytest.raises(DataError, match=r"has JSON files in sampled_data and in all_data. Name one"):
        convert(tmp_path / "f", tmp_path / "own", split="8:2")


def test_a_folder_of_something_else_is_refused_with_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "cats").mkdir()
    with pytest.raises(DataError, match=r"no federation that htfl-sim knows.*train/0\.npz.*JSON"):
        convert(tmp_path / "cats", tmp_path / "own")


# Writing


def test_what_pfllib_cannot_hold_is_said(tmp_path: Path) -> None:
    config = hs.preset(clients=4, data__limit=300, data__partition="iid", data__split="8:1:1")
    notes = hs.catalog.export_federation(config, tmp_path / "back")
    assert "samples of eval parts are left out. `data.split=8:2` makes none." in notes[0]
    with pytest.raises(ConfigError, match="is there already"):
        hs.catalog.export_federation(config, tmp_path / "back")
    with pytest.raises(ConfigError, match=r"data\.size and data\.rgb change images"):
        hs.catalog.export_federation(config.with_(data__size=16), tmp_path / "other")


@pytest.mark.parametrize(
    ("name", "shape", "written"), [("features", (13,), (13,)), ("signals", (6, 100), (6, 1, 100))]
)
def test_rows_and_signals_are_written_as_32_bit_numbers(
    tmp_path: Path, name: str, shape: tuple[int, ...], written: tuple[int, ...]
) -> None:
    np.savez(tmp_path / "own.npz", **{name: numbers(80, *shape), "labels": np.arange(80) % 4})
    config = hs.preset(dataset=tmp_path / "own.npz", clients=2, data__partition="iid")
    hs.catalog.export_federation(config, tmp_path / "back")
    found = unpickled(tmp_path / "back" / "train" / "1.npz")
    assert (found["x"].dtype, found["x"].shape[1:]) == (np.float32, written)
    assert found["y"].dtype == np.int64
