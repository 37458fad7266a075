"""Folders that `save_to_disk` of the package `datasets` writes, and folders of clients, as Flower writes them."""

import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import htfl_sim as hs
from htfl_sim.configuring import Choices
from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError, DataError
from simulator.data import datasets
from simulator.data.dividing import divided
from simulator.sessions.reader import CheckedReader
from tests import federations

pa: Any = pytest.importorskip("pyarrow")

WHOLE, TEXT = ({"dtype": dtype, "_type": "Value"} for dtype in ("int64", "string"))
LABEL, IMAGE = {"names": ["no", "yes"], "_type": "ClassLabel"}, {"_type": "Image"}
TYPES = {"int64": pa.int64(), "string": pa.string()}
BY_LABEL = DataConfig(target="label")
Rows = Mapping[str, tuple[Any, Sequence[Any]]]
"""A column's feature, as dataset_info.json has it, and its values."""


def save(folder: Path, rows: Rows, shards: int = 1, **state: Any) -> Path:
    """One data set, as `Dataset.save_to_disk` writes it."""
    folder.mkdir(parents=True)
    kinds = {
        "Image": pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
        "ClassLabel": pa.int64(),
        "List": pa.list_(pa.int64()),
    }
    table = pa.table(
        {
            name: pa.array(values, kinds.get(feature["_type"]) or TYPES[feature["dtype"]])
            for name, (feature, values) in rows.items()
        }
    )
    names = [f"data-{number:05}-of-{shards:05}.arrow" for number in range(shards)]
    for number, name in enumerate(names):
        part = table.take(
            [*range(len(table))][number * len(table) // shards : (number + 1) * len(table) // shards]
        )
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, part.schema) as stream:
            stream.write_table(part)
    files = {"_data_files": [{"filename": name} for name in names]}
    plain = {"_fingerprint": "f", "_format_type": None, "_format_columns": None, "_split": None}
    (folder / "state.json").write_text(json.dumps(files | plain | state))
    features = {name: feature for name, (feature, _) in rows.items()}
    (folder / "dataset_info.json").write_text(json.dumps({"features": features, "description": ""}))
    return folder


def save_splits(folder: Path, **splits: Rows) -> Path:
    """Several splits, as `DatasetDict.save_to_disk` writes them."""
    for name, rows in splits.items():
        save(folder / name, rows)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": [*splits]}))
    return folder


def table(*values: int) -> Rows:
    """A feature, and whether it is odd."""
    return {"x": (WHOLE, values), "label": (LABEL, [value % 2 for value in values])}


def pictures(*shades: int | None, path: str | None = None) -> Rows:
    cells: list[Any] = []
    for shade in shades:
        content = io.BytesIO()
        Image.new("L", (3, 2), shade or 0).save(content, "PNG")
        cells.append({"bytes": None if shade is None else content.getvalue(), "path": path})
    return {"image": (IMAGE, cells), "label": (LABEL, [number % 2 for number in range(len(shades))])}


def load(folder: Path, columns: DataConfig = BY_LABEL) -> Any:
    return federations.formed(datasets.load(f"hf:{folder}", Path(), config=columns))


def clients_of(folder: Path, *settings: str) -> Any:
    """The configuration of a run, and the features of each client's train and test samples."""
    config = Choices(dataset=f"hf:{folder}", assignments=["data.target=label", *settings]).read()
    samples = datasets.read(config.data, config.data.dataset, Path())
    parts = divided(config.data, config.federation.clients, 0, samples)
    features = samples.columns[0].astype(int)  # type: ignore[attr-defined]  # rows of a table
    return config, [(features[train].tolist(), features[test].tolist()) for train, _, test in parts]


# One data set


def test_a_saved_table_is_read_from_all_its_files_in_order(tmp_path: Path) -> None:
    samples = load(save(tmp_path / "s", table(7, 8, 10), shards=2))
    assert samples.values.tolist() == [[7], [8], [10]] and samples.labels.tolist() == [1, 0, 0]
    assert samples.classes == ("no", "yes") and not samples.has_test_set


def test_saved_splits_keep_their_test_samples_and_say_what_is_left_out(tmp_path: Path) -> None:
    folder = save_splits(tmp_path / "s", train=table(1, 4), test=table(6), validation=table(9))
    (folder / "build.py").write_text("raise SystemExit")
    (folder / "train" / "cache-1.arrow").touch()
    samples = load(folder)
    assert samples.values.tolist() == [[1], [4], [6]] and samples.test_from == 2
    assert dict(samples.reading.left_out) == {
        "build.py": "it is no split",
        "train/cache-1.arrow": "state.json does not name it",
        "split validation": "only train and test are read",
    }


def test_folders_with_names_of_splits_are_splits_without_a_list_of_them(tmp_path: Path) -> None:
    save(tmp_path / "train_data", table(1, 4))
    save(tmp_path / "test_data", table(6))
    assert load(tmp_path).test_from == 2


def test_hidden_labels_of_a_test_split_are_left_out(tmp_path: Path) -> None:
    hidden = {"x": (WHOLE, [5]), "label": (LABEL, [-1])}
    samples = load(save_splits(tmp_path / "s", train=table(1, 4), test=hidden))
    assert len(samples) == 2
    assert samples.reading.left_out == (("split test", "its labels are hidden"),)


def test_other_classes_in_the_test_split_are_refused(tmp_path: Path) -> None:
    other = dict(table(5)) | {"label": ({"names": ["yes", "no"], "_type": "ClassLabel"}, [1])}
    with pytest.raises(DataError, match="column 'label' has other classes in 'test' than in 'train'"):
        load(save_splits(tmp_path / "s", train=table(1, 4), test=other))


def test_saved_images_are_read_from_their_bytes(tmp_path: Path) -> None:
    samples = load(save(tmp_path / "s", pictures(7, 9, path="/dev/zero")))
    assert samples.images[:, 0, 0, 0].tolist() == [7, 9] and samples.images.shape == (2, 2, 3, 1)


def test_the_path_of_an_image_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="sample 2 has no image"):
        load(save(tmp_path / "s", pictures(7, None, path=str(tmp_path / "pipe"))))


def test_a_column_of_texts_alone_becomes_tokens(tmp_path: Path) -> None:
    folder = save(tmp_path / "s", {"text": (TEXT, ["a b", "b"]), "label": (LABEL, [0, 1])})
    assert (
        load(folder).spec.kind == "tokens"
        and datasets.kind_of(f"hf:{folder}", DataConfig(target="label")) == "tokens"
    )


def test_a_saved_folder_needs_no_package_of_hugging_face(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    assert len(load(save(tmp_path / "s", table(1, 4)))) == 2


def test_a_relative_folder_has_an_absolute_path_in_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "s", table(1, 4))
    monkeypatch.chdir(tmp_path)
    assert datasets.absolute("hf:./s") == f"hf:{tmp_path / 's'}"
    with pytest.raises(ConfigError, match=r"Use hf:\./s for the folder"):
        datasets.load("hf:s", Path(), config=DataConfig(target="label"))


def test_a_saved_folder_without_hf_is_refused_with_the_name_that_works(tmp_path: Path) -> None:
    save(tmp_path / "all" / "part_1", table(1, 4))
    for folder in (tmp_path / "all", tmp_path / "all" / "part_1"):
        with pytest.raises(ConfigError, match=rf"Use hf:{folder}\."):
            datasets.load(str(folder), Path(), config=DataConfig(target="label"))


# Clients


def test_each_folder_is_a_client_in_the_order_of_numbers(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        save(tmp_path / f"partition_{number}", table(*range(10 * number, 10 * number + 8)))
    config, clients = clients_of(tmp_path, "data.split=3:1")
    assert config.data.partition == "natural" and config.federation.clients == 3
    assert [sorted(train + test) for train, test in clients] == [
        [*range(first, first + 8)] for first in (10, 20, 100)
    ]
    samples = load(tmp_path)
    assert samples.users == ("partition_1", "partition_2", "partition_10")
    assert samples.reading.notes == ("each of 3 folders has the samples of a client",)


def test_each_client_keeps_its_own_train_and_test_samples(tmp_path: Path) -> None:
    save_splits(tmp_path / "part_0", train=table(1, 2, 3), test=table(4))
    save_splits(tmp_path / "part_1", train=table(5, 6), test=table(7, 8))
    config, clients = clients_of(tmp_path)
    assert config.data.split == "own"
    assert clients == [([1, 2, 3], [4]), ([5, 6], [7, 8])]


def test_another_partition_divides_the_samples_of_all_folders_again(tmp_path: Path) -> None:
    for number in (0, 1):
        rows = table(*range(20 * number, 20 * number + 20))
        save_splits(tmp_path / f"part_{number}", train=rows, test=table(60 + number))
    config, clients = clients_of(tmp_path, "data.partition=iid", "data.split=1:1")
    assert (config.data.partition, config.data.split, config.federation.clients) == ("iid", "1:1", 2)
    assert sorted(x for train, test in clients for x in train + test) == [*range(40), 60, 61]


def test_a_column_of_users_takes_precedence_over_folders(tmp_path: Path) -> None:
    rows = dict(table(*range(30))) | {"who": (TEXT, [f"u{n % 3}" for n in range(30)])}
    save(tmp_path / "part_0", rows)
    samples = load(tmp_path, DataConfig(target="label", client="who"))
    assert samples.users == ("u0", "u1", "u2")


def test_a_run_on_clients_of_others_ends(tmp_path: Path) -> None:
    for number in (0, 1):
        rows = table(*range(20 * number, 20 * number + 20))
        save_splits(tmp_path / "all" / f"part_{number}", train=rows, test=table(1, 2))
    config = hs.preset(
        dataset=f"hf:{tmp_path / 'all'}", method="fedproto", rounds=1, data__target="label",
        federation__group=["tiny_mlp"], runtime__workers=1, runtime__device="cpu",
    )  # fmt: skip
    hs.run(config, tmp_path / "s")
    assert config.data.split == "own" and len(CheckedReader(tmp_path / "s").records()) == 1


def test_a_folder_that_is_probably_no_client_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for case, name in enumerate(["server_val_data", "test", "mnist_test"]):
        with subtests.test(case=case):
            place = tmp_path / str(case)
            place.mkdir()
            for folder in ("client_0", name):
                save(place / folder, table(1, 4))
            with pytest.raises(DataError, match=f"'{name}' looks like samples of no client. Move it out"):
                load(place)


def test_clients_with_other_columns_or_splits_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "one" / "c0", table(1, 4))
    save(tmp_path / "one" / "c1", {"y": (WHOLE, [1]), "label": (LABEL, [0])})
    with pytest.raises(DataError, match="'c0' and 'c1' have other columns, types, or classes"):
        load(tmp_path / "one")
    save(tmp_path / "two" / "c0", table(1, 4))
    save_splits(tmp_path / "two" / "c1", train=table(1), test=table(4))
    with pytest.raises(DataError, match="'c0' has train, and 'c1' has train and test"):
        load(tmp_path / "two")


def test_split_own_needs_users_and_test_samples_of_each(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"split 'own' .* belongs to partition 'natural'"):
        hs.preset("quickstart", data__split="own")
    save(tmp_path / "c0", table(*range(20)))
    with pytest.raises(DataError, match="no test set of its own, which split 'own' needs"):
        clients_of(tmp_path, "data.split=own")


# Damaged folders


def test_a_damaged_folder_ends_in_a_sentence(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for case, (file, content, message) in enumerate(
        [
            ("state.json", "{", "state.json is no JSON"),
            ("state.json", "[]", "state.json has no JSON object"),
            ("state.json", '{"_data_files": [{"filename": "../s.arrow"}]}', "names no Arrow files in it"),
            ("state.json", '{"_data_files": [{"filename": ".."}]}', "names no Arrow files in it"),
            ("state.json", '{"_data_files": 3}', "names no Arrow files in it"),
            ("state.json", '{"_data_files": [{"filename": 3}]}', "names no Arrow files in it"),
            ("state.json", '{"_data_files": [{"filename": "a.arrow"}]}', "a.arrow"),
            ("dataset_info.json", '{"features": {}}', "dataset_info.json has other columns"),
            ("dataset_info.json", "{}", "no features"),
            ("data-00000-of-00001.arrow", "none", "is no Arrow stream"),
            ("data-00000-of-00001.arrow", "", "is no Arrow stream"),
        ]
    ):
        with subtests.test(case=case):
            place = tmp_path / str(case)
            place.mkdir()
            (save(place / "s", table(1, 4)) / file).write_text(content)
            with pytest.raises(DataError, match=message):
                load(place / "s")


def test_a_pipe_in_place_of_a_file_is_not_opened(tmp_path: Path) -> None:
    for file in ("dataset_info.json", "data-00000-of-00001.arrow"):
        folder = save(tmp_path / file, table(1, 4))
        (folder / file).unlink()
        os.mkfifo(folder / file)
        with pytest.raises(DataError, match="it is a pipe"):
            load(folder)


def test_texts_with_offsets_outside_their_bytes_are_refused(tmp_path: Path) -> None:
    folder = save(tmp_path / "s", {"text": (TEXT, ["ab", "cd"]), "label": (LABEL, [0, 1])})
    file = folder / "data-00000-of-00001.arrow"
    offsets, wrong = (np.array(each, "<i4").tobytes() for each in ([0, 2, 4], [0, 2, 1 << 30]))
    assert file.read_bytes().count(offsets) == 1
    file.write_bytes(file.read_bytes().replace(offsets, wrong))
    with pytest.raises(DataError, match="is no Arrow stream"):
        load(folder)


def test_an_order_in_another_file_is_refused(tmp_path: Path) -> None:
    folder = save(tmp_path / "s", table(1, 4), _indices_data_files=[{"filename": "indices.arrow"}])
    with pytest.raises(DataError, match=r"save `dataset\.flatten_indices\(\)`"):
        load(folder)


def test_a_column_of_lists_is_named(tmp_path: Path) -> None:
    rows = dict(table(1, 4)) | {"boxes": ({"_type": "List"}, [[1], [2]])}
    folder = save(tmp_path / "s", rows)
    with pytest.raises(DataError, match="column 'boxes' is neither numbers nor texts"):
        load(folder)
    assert load(folder, DataConfig(target="label", ignore=("boxes",))).values.tolist() == [[1], [4]]


def test_plain_files_are_answered_with_the_command_that_saves_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,label\n1,0\n")
    with pytest.raises(DataError, match=r"no data set that save_to_disk wrote\. Write one with `python -c"):
        load(tmp_path)
    with pytest.raises(DataError, match="There is no folder"):
        load(tmp_path / "none")
