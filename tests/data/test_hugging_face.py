"""Data sets of Hugging Face: by name, with a small stand-in for the package `datasets`, and folders that it saved.

Folders of clients are as Flower writes them.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import htfl_sim as hs
from htfl_sim.configuring import Choices
from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError, DataError
from simulator.data import datasets, words
from simulator.data.dividing import divided
from simulator.data.samples import ArraySet
from tests import federations
from tests.data.pictures import encoded

pa: Any = pytest.importorskip("pyarrow")
NAME = "hf:some/set"
TEXT, WHOLE = ({"dtype": dtype, "_type": "Value"} for dtype in ("string", "int64"))
LABEL, IMAGE = {"names": ["no", "yes"], "_type": "ClassLabel"}, {"_type": "Image"}
KINDS = {
    "Image": pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
    "ClassLabel": pa.int64(),
    "List": pa.list_(pa.int64()),
    "int64": pa.int64(),
    "string": pa.string(),
}
BY_LABEL = DataConfig(target="label")
Rows = Mapping[str, tuple[Any, Sequence[Any]]]
"""A column's feature, as JSON has it, and its values."""


def rows(labels: Sequence[int], **columns: tuple[Any, Sequence[Any]]) -> Rows:
    return {**columns, "label": (LABEL, labels)}


def table(*values: int) -> Rows:
    """A feature, and whether it is odd."""
    return rows([value % 2 for value in values], x=(WHOLE, values))


def texts(*pairs: tuple[str, int]) -> Rows:
    return rows([label for _, label in pairs], text=(TEXT, [text for text, _ in pairs]))


def cell(image: Image.Image, **options: Any) -> dict[str, Any]:
    return {"bytes": encoded(image, **options), "path": None}


def picture(shade: int, size: tuple[int, int] = (3, 2), mode: str = "L") -> dict[str, Any]:
    return cell(Image.new(mode, size, shade if mode == "L" else (shade, 0, 0)))


def pictures(*cells: Any, labels: Sequence[int] = (0, 1)) -> Rows:
    return rows(labels, image=(IMAGE, cells))


class Part:
    """A split of the package: its features as JSON, and its columns, which `with_format("arrow")[:]` gives."""

    def __init__(self, given: Rows) -> None:
        self.given = given

    @property
    def features(self) -> SimpleNamespace:
        return SimpleNamespace(to_dict=lambda: {name: feature for name, (feature, _) in self.given.items()})

    def with_format(self, kind: str) -> "Part":
        assert kind == "arrow"
        return self

    def __getitem__(self, _: slice) -> Any:
        return pa.table({name: values for name, (_, values) in self.given.items()})


Install = Callable[..., list[tuple[str, str | None]]]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes a hub with one data set. Returns the list of what is asked of it."""

    def install(version: str = "4.0.0", **parts: Rows) -> list[tuple[str, str | None]]:
        asked: list[tuple[str, str | None]] = []

        def load_dataset(path: str, name: str | None = None) -> dict[str, Part]:
            asked.append((path, name))
            if path != "some/set":
                raise FileNotFoundError(f"Dataset '{path}' doesn't exist on the Hub or cannot be accessed.")
            return {key: Part(part) for key, part in parts.items()}

        module = ModuleType("datasets")
        offline = SimpleNamespace(HF_HUB_OFFLINE=False)
        vars(module).update(load_dataset=load_dataset, __version__=version, config=offline)
        monkeypatch.setitem(sys.modules, "datasets", module)
        return asked

    return install


def load(columns: DataConfig = BY_LABEL, name: str | Path = NAME) -> Any:
    name = name if isinstance(name, str) else f"hf:{name}"
    return federations.formed(datasets.load(name, Path(), config=columns))


# By name


def test_texts_become_tokens_with_the_vocabulary_of_the_training_part(hub: Install) -> None:
    """a and b appear twice each, and the alphabet decides: a 2, b 3. Only the test part has c."""
    asked = hub(train=texts(("b a a", 1), ("b", 0)), test=texts(("a c", 0)), validation=texts(("z", 1)))
    samples = load(name=f"{NAME}@small")
    assert isinstance(samples, ArraySet) and samples.spec == words.SPEC
    assert samples.values[:, :3].tolist() == [[3, 2, 2], [3, 0, 0], [2, words.UNKNOWN, 0]]
    assert samples.classes == ("no", "yes") and samples.labels.tolist() == [1, 0, 0]
    assert samples.test_from == 2 and asked == [("some/set", "small")]


def test_splits_and_columns_that_are_not_read_are_said(hub: Install) -> None:
    part = rows([0, 1], x=(WHOLE, [1, 5]), id=(WHOLE, [7, 7]))
    hub(train=part, validation=part)
    found = load(DataConfig(target="label", ignore=("id",))).reading.left_out
    assert [name for name, _ in found] == ["id", "split validation"]
    hub(train=texts(("a", 1), ("b", 0)), test=texts(("c", -1)))  # a test part without labels
    assert load().test_from == 2 == len(load())


def test_images_are_gray_if_all_that_are_trained_on_are(hub: Install) -> None:
    hub(train=pictures(picture(7), picture(9), labels=[1, 0]) | {"writer": (WHOLE, [31, 40])})
    samples = load(DataConfig(target="label", client="writer"))
    assert samples.images.shape == (2, 2, 3, 1)  # 3 wide, 2 high
    assert samples.images[:, 0, 0, 0].tolist() == [7, 9] and samples.users == ("31", "40")
    assert samples.test_from == 2 and samples.classes == ("no", "yes")
    parts = pictures(picture(7), labels=[0]), pictures(picture(200, mode="RGB"), labels=[1])
    hub(train=parts[1], test=parts[0])
    samples = load()
    assert samples.images[:, 0, 0].tolist() == [[200, 0, 0], [7, 7, 7]] and samples.test_from == 1
    hub(train=parts[0], test=parts[1])
    assert load().images[:, 0, 0].tolist() == [[7], [60]]  # 0.299 · 200


def test_images_are_turned_upright_except_in_older_sessions_and_what_is_left_out_is_said(
    hub: Install,
) -> None:
    """Orientation 6 is a quarter turn. The pictures are 3 wide and 2 high."""
    exif = Image.Exif()
    exif[274] = 6
    turned, clear = cell(Image.new("RGB", (3, 2)), exif=exif), cell(Image.new("RGBA", (2, 3)))
    hub(train=pictures(turned, clear), validation=pictures(turned, clear))
    samples = load()
    assert samples.images.shape == (2, 3, 2, 3)
    assert [name for name, _ in samples.reading.left_out] == ["split validation"]
    assert samples.reading.warnings == ("An alpha channel is left out: 1 image, such as image 2.",)
    assert samples.reading.notes[-1] == "Turned upright by EXIF orientation: 1 image, such as image 1."
    hub(train=pictures(turned, turned))
    assert load(DataConfig(target="label", domains="found")).values.shape == (2, 2, 3, 3)


def test_other_columns_are_a_table_and_names_of_classes_become_features(hub: Install) -> None:
    """age, city = Oslo, city = Rome, smokes = no, smokes = yes"""
    part = {"age": (WHOLE, [30, 41]), "city": (TEXT, ["Rome", "Oslo"]), "smokes": (LABEL, [1, 0])}
    hub(only={**part, "sick": (TEXT, ["b", "a"])})
    samples = load(DataConfig(target="sick"))
    assert samples.values.tolist() == [[30, 0, 1, 0, 1], [41, 1, 0, 1, 0]]
    assert samples.labels.tolist() == [1, 0] and not samples.has_test_set
    assert load(DataConfig(target="sick", ignore=("city", "smokes"))).values.tolist() == [[30], [41]]


def test_the_columns_decide_on_the_kind_and_it_on_the_preset(hub: Install) -> None:
    for part, kind, preset in (
        (texts(("a", 1), ("b", 0)), "tokens", "quickstart_text"),
        (pictures(picture(7), picture(9)), "image", "quickstart"),
        (table(1, 2), "table", "quickstart_table"),
    ):
        hub(train=part)
        assert datasets.kind_of(NAME, BY_LABEL) == kind
        config = Choices(dataset=NAME, assignments=["data.target=label"]).read()
        assert (config.preset, config.data.dataset) == (preset, NAME)
    hub(train=rows([0, 1], idx=(WHOLE, [0, 1]), text=(TEXT, ["a", "b"])))
    for more, kind in (({}, "table"), ({"text": "text"}, "tokens"), ({"ignore": ("idx",)}, "tokens")):
        assert load(DataConfig(target="label", **more)).spec.kind == kind  # type: ignore[arg-type]


def test_each_client_is_one_user(hub: Install) -> None:
    part = texts(*((f"word{n}", n % 2) for n in range(30)))
    hub(train={**part, "who": (TEXT, [f"user{n % 3}" for n in range(30)])})
    given = ["data.target=label", "data.client=who", "data.min_samples=10"]
    config = Choices(dataset=NAME, assignments=given).read()
    assert config.data.partition == "natural" and config.federation.clients == 3


def test_equal_data_have_equal_fingerprints_and_names_need_no_file(hub: Install) -> None:
    prints = []
    for word in ("a", "a", "c"):
        hub(train=texts((word, 1), ("b", 0)))
        prints.append(load().fingerprint)
    assert prints[0] == prints[1] != prints[2]
    assert datasets.absolute(NAME) == NAME
    assert datasets.folder_with(NAME, Path("/data")) == Path("/data")
    assert datasets.declared(NAME, DataConfig(target="label", text="text")) == words.SPEC
    assert datasets.declared(NAME) is None


def test_what_is_no_name_or_may_run_code_is_never_asked_for(
    hub: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = hub(train=texts(("a", 1)))
    for name in ("set", "imagefolder", "a/b/c", "a/b.py@", ""):
        with pytest.raises(ConfigError, match="Use hf:OWNER/NAME or hf:OWNER/NAME@CONFIG"):
            load(name=f"hf:{name}")
    with pytest.raises(
        DataError, match=r"'hf:some/other' cannot be loaded \(Dataset 'some/other' doesn't exist"
    ):
        load(name="hf:some/other")
    assert asked == [("some/other", None)]
    asked = hub("3.6.0", train=texts(("a", 1)))
    with pytest.raises(ConfigError, match=r"datasets 3\.6\.0 can run code of .* `pip install 'datasets>=4'`"):
        load()
    (tmp_path / "some" / "set").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="or the file or folder some/set here"):
        load()
    assert asked == []


def test_a_missing_extra_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match=r"datasets is not installed .* `pip install 'datasets(>=4)?'`"):
        load()


DEEP = cell(Image.fromarray(np.zeros((2, 3), np.uint16)))
A = texts(("a", 1))
SWAPPED = {"x": (WHOLE, [5]), "label": ({**LABEL, "names": ["yes", "no"]}, [1])}
UNFIT: list[tuple[type[Exception], dict[str, Rows], dict[str, Any], str]] = [
    (ConfigError, {"train": A}, {"target": None}, "Set data.target to one of text, label"),
    (ConfigError, {"train": A}, {"target": "lable"}, "data.target is 'lable', .* Did you mean 'label'"),
    (ConfigError, {"train": rows([1], image=(IMAGE, [picture(7)]), mask=(IMAGE, [picture(1)]))}, {},
     "several columns of images: image, mask"),
    (DataError, {"train": pictures(picture(7), picture(9, (4, 2)))}, {}, "image 2 is 4×2 pixels, and the first is 3×2"),
    (DataError, {"train": pictures(picture(7), None)}, {}, "sample 2 has no image"),
    (DataError, {"train": pictures({"bytes": b"none", "path": None}, labels=[0])}, {}, "image 1 cannot be read"),
    (DataError, {"train": pictures(DEEP, labels=[0])}, {}, "image 1 has more than 8 bits"),
    (DataError, {"train": texts(("a", 1), ("b", 2))}, {}, "column 'label' has numbers of no class"),
    (DataError, {"train": texts(("a", 1), ("b", -1))}, {}, "column 'label' has numbers of no class"),
    (DataError, {"a": A, "b": A}, {}, "no split 'train'. It has a, b"),
    (DataError, {"train": A, "test": {"text": (TEXT, ["a"])}}, {}, "its split 'test' has no column 'label'"),
    (DataError, {"train": table(1, 4), "test": SWAPPED}, {}, "'label' has other classes in 'test' than in 'train'"),
    (DataError, {"train": rows([0], boxes=([WHOLE], [[1]]), n=(WHOLE, [1]))}, {},
     "column 'boxes' is neither numbers nor texts"),
]  # fmt: skip


def test_unfit_data_and_columns_end_in_a_sentence(hub: Install) -> None:
    for error, parts, columns, message in UNFIT:
        hub(**parts)
        with pytest.raises(error, match=message):
            load(DataConfig(**{"target": "label", **columns}))


# Saved folders


def save(folder: Path, given: Rows, shards: int = 1, **state: Any) -> Path:
    """One data set, as `Dataset.save_to_disk` writes it."""
    folder.mkdir(parents=True)
    whole = pa.table(
        {
            name: pa.array(values, KINDS.get(feature["_type"]) or KINDS[feature["dtype"]])
            for name, (feature, values) in given.items()
        }
    )
    names = [f"data-{number:05}-of-{shards:05}.arrow" for number in range(shards)]
    ends = [number * len(whole) // shards for number in range(shards + 1)]
    for name, start, end in zip(names, ends, ends[1:], strict=False):
        part = whole.take([*range(start, end)])
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, part.schema) as stream:
            stream.write_table(part)
    files = {"_data_files": [{"filename": name} for name in names]}
    plain = {"_fingerprint": "f", "_format_type": None, "_format_columns": None, "_split": None}
    (folder / "state.json").write_text(json.dumps(files | plain | state))
    features = {name: feature for name, (feature, _) in given.items()}
    (folder / "dataset_info.json").write_text(json.dumps({"features": features, "description": ""}))
    return folder


def save_splits(folder: Path, **splits: Rows) -> Path:
    """Several splits, as `DatasetDict.save_to_disk` writes them."""
    for name, given in splits.items():
        save(folder / name, given)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": [*splits]}))
    return folder


def clients_of(folder: Path, *settings: str) -> Any:
    """The configuration of a run, and the features of each client's train and test samples."""
    config = Choices(dataset=f"hf:{folder}", assignments=["data.target=label", *settings]).read()
    samples = datasets.read(config.data, config.data.dataset, Path())
    parts = divided(config.data, config.federation.clients, 0, samples)
    features = samples.columns[0].astype(int)  # type: ignore[attr-defined]  # rows of a table
    return config, [(features[train].tolist(), features[test].tolist()) for train, _, test in parts]


def test_a_saved_table_is_read_from_all_its_files_in_order_without_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    samples = load(name=save(tmp_path / "s", table(7, 8, 10), shards=2))
    assert samples.values.tolist() == [[7], [8], [10]] and samples.labels.tolist() == [1, 0, 0]
    assert samples.classes == ("no", "yes") and not samples.has_test_set


def test_saved_splits_keep_their_test_samples_and_say_what_is_left_out(tmp_path: Path) -> None:
    folder = save_splits(tmp_path / "s", train=table(1, 4), test=table(6), validation=table(9))
    (folder / "build.py").write_text("raise SystemExit")
    (folder / "train" / "cache-1.arrow").touch()
    samples = load(name=folder)
    assert samples.values.tolist() == [[1], [4], [6]] and samples.test_from == 2
    assert dict(samples.reading.left_out) == {
        "build.py": "it is no split",
        "train/cache-1.arrow": "state.json does not name it",
        "split validation": "only train and test are read",
    }
    save(tmp_path / "named" / "train_data", table(1, 4))
    save(tmp_path / "named" / "test_data", table(6))
    assert load(name=tmp_path / "named").test_from == 2  # without a list of the splits
    hidden = {"x": (WHOLE, [5]), "label": (LABEL, [-1])}
    samples = load(name=save_splits(tmp_path / "hidden", train=table(1, 4), test=hidden))
    assert len(samples) == 2
    assert samples.reading.left_out == (("split test", "its labels are hidden"),)


def test_the_path_of_a_saved_image_is_not_opened(tmp_path: Path) -> None:
    cells = [picture(shade) | {"path": "/dev/zero"} for shade in (7, 9)]
    samples = load(name=save(tmp_path / "s", pictures(*cells)))
    assert samples.images[:, 0, 0, 0].tolist() == [7, 9] and samples.images.shape == (2, 2, 3, 1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="sample 2 has no image"):
        load(name=save(tmp_path / "t", pictures(cells[0], {"bytes": None, "path": str(tmp_path / "pipe")})))


def test_a_saved_folder_has_an_absolute_path_and_needs_the_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "s", table(1, 4))
    monkeypatch.chdir(tmp_path)
    assert datasets.absolute("hf:./s") == f"hf:{tmp_path / 's'}"
    with pytest.raises(ConfigError, match=r"Use hf:\./s for the folder"):
        load(name="hf:s")
    for folder in (tmp_path, tmp_path / "s"):
        with pytest.raises(ConfigError, match=rf"Use hf:{folder}\."):
            datasets.load(str(folder), Path(), config=BY_LABEL)


# Clients


def test_each_folder_is_a_client_in_the_order_of_numbers(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        save(tmp_path / f"partition_{number}", table(*range(10 * number, 10 * number + 8)))
    config, clients = clients_of(tmp_path, "data.split=3:1")
    assert config.data.partition == "natural" and config.federation.clients == 3
    assert [sorted(train + test) for train, test in clients] == [
        [*range(first, first + 8)] for first in (10, 20, 100)
    ]
    samples = load(name=tmp_path)
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
        held = table(*range(20 * number, 20 * number + 20))
        save_splits(tmp_path / f"part_{number}", train=held, test=table(60 + number))
    config, clients = clients_of(tmp_path, "data.partition=iid", "data.split=1:1")
    assert (config.data.partition, config.data.split, config.federation.clients) == ("iid", "1:1", 2)
    assert sorted(x for train, test in clients for x in train + test) == [*range(40), 60, 61]


def test_a_column_of_users_takes_precedence_over_folders(tmp_path: Path) -> None:
    save(tmp_path / "part_0", {**table(*range(30)), "who": (TEXT, [f"u{n % 3}" for n in range(30)])})
    samples = load(DataConfig(target="label", client="who"), tmp_path)
    assert samples.users == ("u0", "u1", "u2")


def test_a_folder_that_is_probably_no_client_is_refused(tmp_path: Path) -> None:
    for name in ("server_val_data", "test", "mnist_test"):
        place = tmp_path / f"of {name}"
        for folder in ("client_0", name):
            save(place / folder, table(1, 4))
        with pytest.raises(DataError, match=f"'{name}' looks like samples of no client. Move it out"):
            load(name=place)


def test_clients_with_other_columns_or_splits_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "one" / "c0", table(1, 4))
    save(tmp_path / "one" / "c1", {"y": (WHOLE, [1]), "label": (LABEL, [0])})
    with pytest.raises(DataError, match="'c0' and 'c1' have other columns, types, or classes"):
        load(name=tmp_path / "one")
    save(tmp_path / "two" / "c0", table(1, 4))
    save_splits(tmp_path / "two" / "c1", train=table(1), test=table(4))
    with pytest.raises(DataError, match="'c0' has train, and 'c1' has train and test"):
        load(name=tmp_path / "two")


def test_split_own_needs_users_and_test_samples_of_each(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"split 'own' .* belongs to partition 'natural'"):
        hs.preset("quickstart", data__split="own")
    save(tmp_path / "c0", table(*range(20)))
    with pytest.raises(DataError, match="no test set of its own, which split 'own' needs"):
        clients_of(tmp_path, "data.split=own")


# Damaged folders

ARROW = "data-00000-of-00001.arrow"
DAMAGED = [
    ("state.json", "{", "state.json is no JSON"),
    ("state.json", "[]", "state.json has no JSON object"),
    ("state.json", '{"_data_files": [{"filename": "../s.arrow"}]}', "names no Arrow files in it"),
    ("state.json", '{"_data_files": [{"filename": ".."}]}', "names no Arrow files in it"),
    ("state.json", '{"_data_files": 3}', "names no Arrow files in it"),
    ("state.json", '{"_data_files": [{"filename": 3}]}', "names no Arrow files in it"),
    ("state.json", '{"_data_files": [{"filename": "a.arrow"}]}', "a.arrow"),
    ("dataset_info.json", '{"features": {}}', "dataset_info.json has other columns"),
    ("dataset_info.json", "{}", "no features"),
    (ARROW, "none", "is no Arrow stream"),
    (ARROW, "", "is no Arrow stream"),
]


def test_a_damaged_folder_ends_in_a_sentence(tmp_path: Path) -> None:
    for case, (file, content, message) in enumerate(DAMAGED):
        folder = save(tmp_path / str(case), table(1, 4))
        (folder / file).write_text(content)
        with pytest.raises(DataError, match=message):
            load(name=folder)
    for file in ("dataset_info.json", ARROW):
        folder = save(tmp_path / f"pipe {file}", table(1, 4))
        (folder / file).unlink()
        os.mkfifo(folder / file)
        with pytest.raises(DataError, match="it is a pipe"):
            load(name=folder)
    folder = save(tmp_path / "order", table(1, 4), _indices_data_files=[{"filename": "indices.arrow"}])
    with pytest.raises(DataError, match=r"save `dataset\.flatten_indices\(\)`"):
        load(name=folder)


def test_texts_with_offsets_outside_their_bytes_are_refused(tmp_path: Path) -> None:
    folder = save(tmp_path / "s", texts(("ab", 0), ("cd", 1)))
    file = folder / ARROW
    offsets, wrong = (np.array(each, "<i4").tobytes() for each in ([0, 2, 4], [0, 2, 1 << 30]))
    assert file.read_bytes().count(offsets) == 1
    file.write_bytes(file.read_bytes().replace(offsets, wrong))
    with pytest.raises(DataError, match="is no Arrow stream"):
        load(name=folder)


def test_a_column_of_lists_is_named_and_can_be_left_out(tmp_path: Path) -> None:
    folder = save(tmp_path / "s", {**table(1, 4), "boxes": ({"_type": "List"}, [[1], [2]])})
    with pytest.raises(DataError, match="column 'boxes' is neither numbers nor texts"):
        load(name=folder)
    assert load(DataConfig(target="label", ignore=("boxes",)), folder).values.tolist() == [[1], [4]]


def test_plain_files_are_answered_with_the_command_that_saves_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,label\n1,0\n")
    with pytest.raises(DataError, match=r"no data set that save_to_disk wrote\. Write one with `python -c"):
        load(name=tmp_path)
    with pytest.raises(DataError, match="There is no folder"):
        load(name=tmp_path / "none")
