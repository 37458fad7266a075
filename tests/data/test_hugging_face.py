"""Data sets of Hugging Face by name. A small stand-in has the parts of the package `datasets` that are used."""

import io
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
from simulator.base.errors import ConfigError, DataError, HtflError
from simulator.data import datasets, words
from simulator.data.samples import ArraySet, ImageSet
from tests import federations

pa: Any = pytest.importorskip("pyarrow")
NAME = "hf:some/set"


class Part:
    """A split: its features as JSON, and its columns, which `with_format("arrow")[:]` gives as an Arrow table."""

    def __init__(self, features: Mapping[str, Any], columns: Mapping[str, Sequence[Any]]) -> None:
        self.declared, self.columns = dict(features), dict(columns)

    @property
    def features(self) -> SimpleNamespace:
        return SimpleNamespace(to_dict=lambda: self.declared)

    def with_format(self, kind: str) -> "Part":
        assert kind == "arrow"
        return self

    def __getitem__(self, rows: slice) -> Any:
        return pa.table(self.columns)


TEXT, WHOLE = ({"dtype": dtype, "_type": "Value"} for dtype in ("string", "int64"))
LABEL, IMAGE = {"names": ["no", "yes"], "_type": "ClassLabel"}, {"_type": "Image"}
Install = Callable[..., list[tuple[str, str | None]]]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes a hub with one data set. Returns the list of what is asked of it."""

    def install(version: str = "4.0.0", **parts: Part) -> list[tuple[str, str | None]]:
        asked: list[tuple[str, str | None]] = []

        def load_dataset(path: str, name: str | None = None) -> dict[str, Part]:
            asked.append((path, name))
            if path != "some/set":
                raise FileNotFoundError(f"Dataset '{path}' doesn't exist on the Hub or cannot be accessed.")
            return parts

        module = ModuleType("datasets")
        vars(module).update(
            load_dataset=load_dataset,
            __version__=version,
            config=SimpleNamespace(HF_HUB_OFFLINE=False),
        )
        monkeypatch.setitem(sys.modules, "datasets", module)
        return asked

    return install


def load(columns: DataConfig, name: str = NAME) -> Any:
    return federations.formed(datasets.load(name, Path(), config=columns))


def texts(*rows: tuple[str, int]) -> Part:
    return Part(
        {"text": TEXT, "label": LABEL}, {"text": [row[0] for row in rows], "label": [row[1] for row in rows]}
    )


def picture(shade: int, size: tuple[int, int] = (3, 2), mode: str = "L") -> dict[str, Any]:
    content = io.BytesIO()
    Image.new(mode, size, shade if mode == "L" else (shade, 0, 0)).save(content, "PNG")
    return {"bytes": content.getvalue(), "path": None}


def pictures(*cells: Any, labels: Sequence[int]) -> Part:
    return Part({"image": IMAGE, "label": LABEL}, {"image": cells, "label": list(labels)})


def test_texts_become_tokens_with_the_vocabulary_of_the_training_part(hub: Install) -> None:
    asked = hub(train=texts(("b a a", 1), ("b", 0)), test=texts(("a c", 0)), validation=texts(("z", 1)))
    samples = load(DataConfig(target="label"), f"{NAME}@small")
    assert isinstance(samples, ArraySet) and samples.spec == words.SPEC
    # a and b appear twice each, and the alphabet decides: a 2, b 3. Only the test part has c.
    assert samples.values[:, :3].tolist() == [[3, 2, 2], [3, 0, 0], [2, words.UNKNOWN, 0]]
    assert samples.classes == ("no", "yes") and samples.labels.tolist() == [1, 0, 0]
    assert samples.test_from == 2 and asked == [("some/set", "small")]


def test_splits_and_columns_that_are_not_read_are_said(hub: Install) -> None:
    part = Part(
        {"x": WHOLE, "id": WHOLE, "label": LABEL}, {"x": [1, 5], "id": [7, 7], "label": [0, 1]}
    )  # fmt: skip
    hub(train=part, validation=part)
    found = datasets.load(NAME, Path(), config=DataConfig(target="label", ignore=("id",))).reading.left_out
    assert [name.strip("'").split()[-1].strip("'") for name, _ in found] == ["id", "validation"]


def test_a_test_part_without_labels_is_left_out(hub: Install) -> None:
    hub(train=texts(("a", 1), ("b", 0)), test=texts(("c", -1)))
    assert load(DataConfig(target="label")).test_from == 2 == len(load(DataConfig(target="label")))


def test_images_are_gray_if_all_are_and_have_the_users_of_their_column(hub: Install) -> None:
    part = pictures(picture(7), picture(9), labels=[1, 0])
    part.declared["writer"], part.columns["writer"] = WHOLE, [31, 40]
    hub(train=part)
    samples = load(DataConfig(target="label", client="writer"))
    assert isinstance(samples, ImageSet) and samples.images.shape == (2, 2, 3, 1)  # 3 wide, 2 high
    assert samples.images[:, 0, 0, 0].tolist() == [7, 9] and samples.users == ("31", "40")
    assert samples.test_from == 2 and samples.classes == ("no", "yes")


def test_one_color_image_that_is_trained_on_makes_all_images_rgb(hub: Install) -> None:
    parts = pictures(picture(7), labels=[0]), pictures(picture(200, mode="RGB"), labels=[1])
    hub(train=parts[1], test=parts[0])
    samples = load(DataConfig(target="label"))
    assert samples.images[:, 0, 0].tolist() == [[200, 0, 0], [7, 7, 7]] and samples.test_from == 1
    hub(train=parts[0], test=parts[1])
    assert load(DataConfig(target="label")).images[:, 0, 0].tolist() == [[7], [60]]  # 0.299 · 200


def test_images_are_turned_upright_except_in_older_sessions_and_what_is_left_out_is_said(
    hub: Install,
) -> None:
    """Orientation 6 is a quarter turn. The pictures are 3 wide and 2 high."""
    exif = Image.Exif()
    exif[274] = 6
    turned, clear = io.BytesIO(), io.BytesIO()
    Image.new("RGB", (3, 2)).save(turned, "PNG", exif=exif)
    Image.new("RGBA", (2, 3)).save(clear, "PNG")
    cells = [{"bytes": each.getvalue(), "path": None} for each in (turned, clear)]
    hub(train=pictures(*cells, labels=[0, 1]), validation=pictures(*cells, labels=[0, 1]))
    samples = load(DataConfig(target="label"))
    assert samples.images.shape == (2, 3, 2, 3)
    assert [name for name, _ in samples.reading.left_out] == ["split validation"]
    assert samples.reading.warnings == ("An alpha channel is left out: 1 image, such as image 2.",)
    assert samples.reading.notes[-1] == "Turned upright by EXIF orientation: 1 image, such as image 1."
    hub(train=pictures(cells[0], cells[0], labels=[0, 1]))
    old = datasets.load(
        NAME,
        Path(),
        config=DataConfig(target="label", domains="found"),
    )
    assert federations.formed(old).values.shape == (2, 2, 3, 3)


def test_other_columns_are_a_table_and_names_of_classes_become_features(hub: Install) -> None:
    features = {"age": WHOLE, "city": TEXT, "smokes": LABEL, "sick": TEXT}
    columns = {"age": [30, 41], "city": ["Rome", "Oslo"], "smokes": [1, 0], "sick": ["b", "a"]}
    hub(only=Part(features, columns))
    samples = load(DataConfig(target="sick"))
    # age, city = Oslo, city = Rome, smokes = no, smokes = yes
    assert samples.values.tolist() == [[30, 0, 1, 0, 1], [41, 1, 0, 1, 0]]
    assert samples.labels.tolist() == [1, 0] and not samples.has_test_set
    assert load(DataConfig(target="sick", ignore=("city", "smokes"))).values.tolist() == [[30], [41]]


def test_a_named_column_of_texts_comes_before_other_columns(hub: Install) -> None:
    part = Part(
        {"idx": WHOLE, "text": TEXT, "label": LABEL}, {"idx": [0, 1], "text": ["a", "b"], "label": [0, 1]}
    )
    hub(train=part)
    assert load(DataConfig(target="label")).spec.kind == "table"
    assert load(DataConfig(target="label", text="text")).spec.kind == "tokens"
    assert load(DataConfig(target="label", ignore=("idx",))).spec.kind == "tokens"


def test_equal_data_have_equal_fingerprints_and_changed_data_another(hub: Install) -> None:
    prints = []
    for word in ("a", "a", "c"):
        hub(train=texts((word, 1), ("b", 0)))
        prints.append(load(DataConfig(target="label")).fingerprint)
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.long
def test_a_resume_refuses_data_that_changed_at_their_publisher(hub: Install, tmp_path: Path) -> None:
    rows = [n % 2 for n in range(40)]
    features = {"age": WHOLE, "label": LABEL}
    config = hs.config(
        {
            "rounds": 1,
            "data": {"dataset": NAME, "target": "label", "partition": "iid"},
            "federation": {"clients": 2, "group": ["tiny_mlp"]},
            "method": {"name": "standalone"},
            "runtime": {"workers": 1, "device": "cpu"},
        }
    )
    hub(train=Part(features, {"age": [*range(40)], "label": rows}))
    hs.run(config, tmp_path / "s")
    hub(train=Part(features, {"age": [*range(1, 41)], "label": rows}))
    with pytest.raises(
        HtflError, match=r"the data set 'hf:some/set' .* is not the one this session was made with"
    ):
        hs.resume(tmp_path / "s", rounds=2).run()


def test_a_run_without_a_preset_takes_the_quickstart_of_the_kind(
    hub: Install, subtests: pytest.Subtests
) -> None:
    for case, (part, kind, preset) in enumerate(
        [
            (texts(("a", 1), ("b", 0)), "tokens", "quickstart_text"),
            (pictures(picture(7), picture(9), labels=[1, 0]), "image", "quickstart"),
            (
                Part({"age": WHOLE, "label": LABEL}, {"age": [1, 2], "label": [0, 1]}),
                "table",
                "quickstart_table",
            ),
        ]
    ):
        with subtests.test(case=case):
            hub(train=part)
            assert datasets.kind_of(NAME, DataConfig(target="label")) == kind
            config = Choices(dataset=NAME, assignments=["data.target=label"]).read()
            assert (config.preset, config.data.dataset) == (preset, NAME)


def test_each_client_is_one_user(hub: Install) -> None:
    part = texts(*((f"word{n}", n % 2) for n in range(30)))
    part.declared["who"], part.columns["who"] = TEXT, [f"user{n % 3}" for n in range(30)]
    hub(train=part)
    config = Choices(
        dataset=NAME, assignments=["data.target=label", "data.client=who", "data.min_samples=10"]
    ).read()
    assert config.data.partition == "natural" and config.federation.clients == 3


def test_names_stay_as_they_are_and_need_no_file() -> None:
    assert datasets.absolute(NAME) == NAME
    assert datasets.folder_with(NAME, Path("/data")) == Path("/data")
    assert datasets.declared(NAME, DataConfig(target="label", text="text")) == words.SPEC
    assert datasets.declared(NAME) is None


# Errors


def test_a_name_without_an_owner_is_refused(hub: Install, subtests: pytest.Subtests) -> None:
    for case, name in enumerate(["set", "imagefolder", "a/b/c", "a/b.py@", ""]):
        with subtests.test(case=case):
            asked = hub(train=texts(("a", 1)))
            with pytest.raises(ConfigError, match="Use hf:OWNER/NAME or hf:OWNER/NAME@CONFIG"):
                load(DataConfig(target="label"), f"hf:{name}")
            assert asked == []


def test_a_folder_of_that_name_is_never_loaded(
    hub: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some" / "set").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    asked = hub(train=texts(("a", 1)))
    with pytest.raises(ConfigError, match="or the file or folder some/set here"):
        load(DataConfig(target="label"))
    assert asked == []


def test_a_package_that_can_run_code_of_a_data_set_is_refused(hub: Install) -> None:
    asked = hub("3.6.0", train=texts(("a", 1)))
    with pytest.raises(ConfigError, match=r"datasets 3\.6\.0 can run code of .* `pip install 'datasets>=4'`"):
        load(DataConfig(target="label"))
    assert asked == []


def test_a_missing_extra_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        ConfigError, match=r"datasets is not installed .* Install it: `pip install 'datasets(>=4)?'`"
    ):
        load(DataConfig(target="label"))


def test_an_unknown_name_ends_in_a_sentence(hub: Install) -> None:
    hub()
    with pytest.raises(
        DataError, match=r"'hf:some/other' cannot be loaded \(Dataset 'some/other' doesn't exist"
    ):
        load(DataConfig(target="label"), "hf:some/other")


def test_wrong_columns_are_refused(hub: Install, subtests: pytest.Subtests) -> None:
    for case, (columns, message) in enumerate(
        [
            (DataConfig(), "Set data.target to one of text, label"),
            (DataConfig(target="lable"), "data.target is 'lable', .* Did you mean 'label'"),
            (DataConfig(target="label", text="txt"), "data.text is 'txt', .* Did you mean 'text'"),
        ]
    ):
        with subtests.test(case=case):
            hub(train=texts(("a", 1), ("b", 0)))
            with pytest.raises(ConfigError, match=message):
                load(columns)


def deep() -> dict[str, Any]:
    content = io.BytesIO()
    Image.fromarray(np.zeros((2, 3), np.uint16)).save(content, "PNG")
    return {"bytes": content.getvalue(), "path": None}


def test_unfit_data_end_in_a_sentence(hub: Install, subtests: pytest.Subtests) -> None:
    for case, (parts, message) in enumerate(
        [
            (
                {"train": pictures(picture(7), picture(9, (4, 2)), labels=[0, 1])},
                "image 2 is 4×2 pixels, and the first is 3×2",
            ),
            ({"train": pictures(picture(7), None, labels=[0, 1])}, "sample 2 has no image"),
            ({"train": pictures({"bytes": b"none", "path": None}, labels=[0])}, "image 1 cannot be read"),
            ({"train": pictures(deep(), labels=[0])}, "image 1 has more than 8 bits"),
            ({"train": texts(("a", 1), ("b", 2))}, "column 'label' has numbers of no class"),
            ({"train": texts(("a", 1), ("b", -1))}, "column 'label' has numbers of no class"),
            ({"a": texts(("a", 1)), "b": texts(("b", 1))}, "no split 'train'. It has a, b"),
            (
                {"train": texts(("a", 1)), "test": Part({"text": TEXT}, {"text": ["a"]})},
                "its split 'test' has no column 'label'",
            ),
            (
                {
                    "train": Part(
                        {"boxes": [WHOLE], "n": WHOLE, "label": LABEL},
                        {"boxes": [[1]], "n": [1], "label": [0]},
                    )
                },
                "column 'boxes' is neither numbers nor texts",
            ),
        ]
    ):
        with subtests.test(case=case):
            hub(**parts)
            with pytest.raises(DataError, match=message):
                load(DataConfig(target="label"))


def test_several_columns_of_images_need_a_choice(hub: Install) -> None:
    part = pictures(picture(7), picture(9), labels=[1, 0])
    part.declared["mask"], part.columns["mask"] = IMAGE, [picture(1), picture(2)]
    hub(train=part)
    with pytest.raises(ConfigError, match="several columns of images: image, mask"):
        load(DataConfig(target="label"))
    assert load(DataConfig(target="label", ignore=("mask",))).images[:, 0, 0, 0].tolist() == [7, 9]
