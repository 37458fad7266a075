"""A user's own table: numbers, texts, missing values, classes, and users. What is not clear ends in a way out."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import htfl_sim as hs
from htfl_sim.configuring import Choices
from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError, DataError
from simulator.base.nested import merged, with_overrides
from simulator.config import Config
from simulator.data import datasets, words
from simulator.data.federated import load
from simulator.data.samples import report_of
from simulator.sessions.history import completed
from simulator.sessions.session import Session
from tests import federations
from tests.data.pictures import encoded


def read(folder: Path, content: str | bytes, *settings: str, name: str = "t.csv", held: Any = None) -> Any:
    """The samples of a file with these settings, as they are typed after --set. The classes are in column y."""
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return of_file(folder / name, *settings, held=held)


def of_file(file: Path, *settings: str, held: Any = None) -> Any:
    data = with_overrides({"data": {"target": "y"}}, [f"data.{each}" for each in settings])["data"]
    columns = DataConfig.model_validate({"dataset": str(file), **data})
    return federations.formed(datasets.load(str(file), file.parent, config=columns), held)


def parquet(folder: Path, **columns: Any) -> Path:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"y": ["a", "b", "a"], **columns})
    pytest.importorskip("pyarrow.parquet").write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


NUMBERS: list[tuple[str, tuple[str, ...], list[float]]] = [
    ("x,y\n1,a\n2.5,b\n-3e2,a\n", (), [1, 2.5, -300]),
    ("x,y\n007,a\n8,b\n", (), [7, 8]),
    ("x;y\n0,5;a\n1;b\n", ("decimal=,",), [0.5, 1]),
    ('x,y\n"1,100",a\n"2,000,000.5",b\n3,a\n', ("thousands=,",), [1100, 2000000.5, 3]),
    ("x,y\n1\u00a0100,a\n7,b\n", ('thousands=" "',), [1100, 7]),
    ("x;y\n1.100,5;a\n2;b\n", ("decimal=,", "thousands=."), [1100.5, 2]),
    ("x,y\n1,a\n?,b\n3,a\n", ('missing=["?"]', "fill=mean"), [1, 2, 3]),
    ("x,y\n1,a\n,b\n1,b\n7,a\n", ("fill=median",), [1, 1, 1, 7]),
    ("x,y\n4,a\n,b\n1,b\n4,a\n", ("fill=frequent",), [4, 4, 1, 4]),
    ("x,y\n1,a\n2,b\n", ("numbers=[x]",), [1, 2]),
    ("x,y\n1,a\n-9,b\n", ("missing=-9", "fill=mean"), [1, 1]),
]


def test_numbers_are_read(tmp_path: Path) -> None:
    for content, settings, values in NUMBERS:
        samples = read(tmp_path, content, *settings)
        assert samples.names == ("x",) and samples.values[:, 0].tolist() == values, content


def test_texts_become_a_column_for_each_value_and_users_and_classes_are_named(tmp_path: Path) -> None:
    rows = "age,city,y,patient\n30,Rome,yes,b\n41,Oslo,no,a\n5,Rome,no,b\n"
    samples = read(tmp_path, rows, "client=patient")
    assert samples.names == ("age", "city = Oslo", "city = Rome")
    assert samples.values.tolist() == [[30, 0, 1], [41, 1, 0], [5, 0, 1]]
    assert samples.classes == ("no", "yes") and samples.labels.tolist() == [1, 0, 0]
    assert samples.users == ("b", "a") and samples.user.tolist() == [0, 1, 0]
    less = read(tmp_path, rows, "ignore=[city, patient]")
    assert less.values.tolist() == [[30], [41], [5]] and less.user is None
    packed = read(tmp_path, gzip.compress(rows.encode()), "client=patient", name="t.csv.gz")
    assert packed.fingerprint == samples.fingerprint
    numbered = read(tmp_path, "x,y\n1,10\n2,9\n3,10\n")
    assert numbered.classes == ("9", "10") and numbered.labels.tolist() == [1, 0, 1]


def test_a_text_is_missing_only_if_that_is_declared(tmp_path: Path) -> None:
    for text in ("NA", "None", "null", "nan", "N/A", "-"):
        content = f"city,y\n{text},a\nOslo,b\nOslo,a\n"
        assert set(read(tmp_path, content).names) == {f"city = {text}", "city = Oslo"}
        declared = read(tmp_path, content, f'missing=["{text}"]', "fill=frequent")
        assert declared.names == ("city = Oslo",) and declared.values.tolist() == [[1], [1], [1]]


def test_missing_values_are_filled_from_the_rows_that_clients_train_on(tmp_path: Path) -> None:
    content = "x,city,y\n1,Oslo,a\n3,Oslo,b\n,,a\n100,Rome,b\n100,Rome,a\n"
    samples = read(tmp_path, content, "fill=mean", held=np.array([0, 1]))
    assert samples.values[2].tolist() == [2, 1] and samples.names == ("x", "city = Oslo")
    with pytest.raises(DataError, match="column 'x' has no value in any row that clients train on"):
        read(tmp_path, "x,z,y\n,1,a\n,2,b\n5,3,a\n", "fill=mean", held=np.array([0, 1]))


def test_a_column_of_texts_becomes_tokens(tmp_path: Path) -> None:
    """The most frequent words first, then in the order of the alphabet: bad 2, film 3, good 4."""
    samples = read(
        tmp_path, "review,y,who\nGood film,good,b\nBad bad film,bad,a\n", "client=who", "text=review"
    )
    assert samples.spec == words.SPEC and samples.names == ("", "<?>", "bad", "film", "good")
    assert samples.values[:, :4].tolist() == [[4, 3, 0, 0], [2, 2, 3, 0]]
    assert samples.classes == ("bad", "good") and samples.labels.tolist() == [1, 0]
    assert samples.users == ("b", "a")
    file, of_text = str(tmp_path / "t.csv"), DataConfig(target="y", text="review")
    assert (datasets.kind_of(file), datasets.kind_of(file, of_text)) == ("table", "tokens")
    assert datasets.declared(file, of_text) == words.SPEC


def test_a_run_without_a_preset_takes_the_models_of_texts_and_one_client_per_user(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("review,verdict,who\n" + "".join(f"text {n},{n % 2},user{n % 3}\n" for n in range(30)))
    given = [f"data.{key}" for key in ("text=review", "target=verdict", "client=who", "min_samples=10")]
    config = Choices(dataset=str(file), assignments=given).read()
    assert config.preset == "quickstart_text" and config.data.text == "review"
    assert config.data.partition == "natural" and config.federation.clients == 3


# Parquet


def test_parquet_has_the_same_users_and_classes(tmp_path: Path) -> None:
    rows = pd.DataFrame({"x": [1.5, 2, 3], "u": ["007", "07", "7"], "y": ["01", "1", "10"]})
    rows.to_csv(tmp_path / "t.csv", index=False)
    csv = of_file(tmp_path / "t.csv", "client=u")
    written = parquet(tmp_path, x=rows["x"], u=rows["u"], y=rows["y"])
    assert of_file(written, "client=u").fingerprint == csv.fingerprint and csv.users == ("007", "07", "7")


def test_images_of_parquet_are_read(tmp_path: Path) -> None:
    images = [encoded(Image.new("L", (3, 2), shade)) for shade in (10, 20, 30)]
    cells = [{"bytes": each, "path": "no.png"} for each in images]
    file = parquet(tmp_path, image=cells, size=[1, 2, 3])
    samples = of_file(file)
    assert samples.images[:, 0, 0, 0].tolist() == [10, 20, 30] and samples.classes == ("a", "b")
    assert samples.reading.left_out == (("size", "the samples are the images of 'image'"),)
    assert datasets.kind_of(str(file), DataConfig(target="y")) == "image"


# What is refused

LONG = "z" * 1001
REVIEWS = "review,stars,y,who\nGood film,5,good,b\nBad bad film,1,bad,a\n"
REFUSED: list[tuple[type[Exception], str | bytes, tuple[str, ...], str]] = [
    (DataError, "x,y\n30,a\nold,b\n", ("numbers=[x]",), "'old' in row 2, which is no number. .* or use `data.missing"),
    (DataError, 'x,y\n"1,1,1",a\n7,b\n', ("thousands=,",), "column 'x' has '1,1,1' in row 1"),
    (DataError, "x;y\n1.5;a\n7;b\n", ("decimal=,",), "column 'x' has '1.5' in row 1"),
    (DataError, "x,y\n12%,a\n7,b\n", ("numbers=[x]",), r"'12%' in row 1, which is no number\. Correct it\."),
    (DataError, "x,y\n1,a\n2,\n", ("fill=mean",), "column 'y' has no value in row 2"),
    (DataError, "x,u,y\n1,p,a\n2,,b\n", ("client=u", "fill=mean"), "column 'u' has no value in row 2"),
    (DataError, "x,y\n1,a\n1e300,b\n", (), r"column 'x' has 1e\+300 in row 2, which is not finite"),
    (DataError, ",x,z,y\n9,5,1,a\n4,7,1,b\n", ("ignore=[z]",), r'`data\.ignore=\["z", "Unnamed: 0"\]`'),
    (DataError, f"{LONG},y\n1,a\n2,b\n", (), r"t\.csv has a column name with 1,001 characters"),
    (DataError, "a," * 1_000_000 + "y\n", (), r"t\.csv has more than 10,000 columns"),
    (DataError, b"PAR1\x00\x00,\x00y\n1,2\n", (), r"t\.csv is no text table: its first line has zero bytes"),
    (ConfigError, "x,y\n1,a\n2,b\n", ("numbers=[z]",), "data.numbers is 'z', and .* has no such column"),
    (ConfigError, "x,y\n1,a\n2,b\n", ("numbers=[y]",), "data.numbers names 'y', which is no column of features"),
    (ValueError, "x,y\n1,a\n2,b\n", ("decimal=,", "thousands=,"), "decimal and thousands are both ','"),
    (ConfigError, REVIEWS, ("target=null",), "which column holds the classes. Set data.target to one of review, stars"),
    (ConfigError, REVIEWS, ("client=whom",), "data.client is 'whom'"),
    (ConfigError, REVIEWS, ("ignore=[none]",), "data.ignore is 'none'"),
    (ConfigError, REVIEWS, ("client=y",), "data.client and data.target are both 'y'"),
    (ConfigError, REVIEWS, ("text=reviews",), "data.text is 'reviews', .* Did you mean 'review'"),
    (ConfigError, REVIEWS, ("text=y",), "data.text and data.target are both 'y'"),
    (ConfigError, REVIEWS, ("client=who", "text=who"), "data.text and data.client are both 'who'"),
    (ConfigError, REVIEWS, ("text=review", "ignore=[stars]"), "data.ignore changes nothing"),
]  # fmt: skip


def test_what_is_not_clear_is_refused_with_the_way_out(tmp_path: Path) -> None:
    for error, content, settings, message in REFUSED:
        with pytest.raises(error, match=message):
            read(tmp_path, content, *settings)
    with pytest.raises(ConfigError, match=r"'digits' is no CSV .* Leave out data\.decimal and data\.fill\."):
        datasets.load("digits", tmp_path, config=DataConfig(decimal=",", fill="mean"))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_end_in_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    for name in ("t.csv", "t.parquet"):
        try:
            read(tmp_path_factory.mktemp("any"), data, name=name)
        except (DataError, ConfigError) as sentence:
            assert str(sentence).endswith(".")


MEASURE = """
import resource, sys
from pathlib import Path
from simulator.base.data_section import DataConfig
from simulator.base.errors import HtflError
from simulator.data import datasets
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    datasets.load(sys.argv[1], Path(), config=DataConfig(target="y"))
except HtflError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.long
def test_a_file_with_one_long_cell_takes_little_memory(tmp_path: Path) -> None:
    """2 MB in one cell of 5,000 rows. An array of texts of equal widths would have 40 GB."""
    rows = [("short", "no" if number % 2 else "yes") for number in range(5_000)]
    rows[7] = ("z" * 2_000_000, "no")
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in rows))
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "t.csv")]
    said, mib = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "column 'x' has a cell with 2,000,000 characters in row 8" in said and len(said) < 400
    assert int(mib) < 500


def test_a_compressed_table_that_expands_without_bounds_is_refused(tmp_path: Path) -> None:
    content = b"x,y\n" + b"1,a\n" * 5_000_000
    with pytest.raises(DataError, match="bytes once it is decompressed"):
        read(tmp_path, gzip.compress(content), name="t.csv.gz")


# The report


def test_the_report_says_what_was_read_and_what_was_left_out(tmp_path: Path) -> None:
    rows = "x,city,id,u,y\n1,Oslo,7,p,a\n2,Rome,9,q,b\n3,Oslo,8,p,a\n"
    samples = read(tmp_path, rows, "client=u", "ignore=[id]")
    columns = DataConfig(target="y", client="u", ignore=("id",))
    report = report_of(datasets.load(str(tmp_path / "t.csv"), tmp_path, config=columns), samples.reading)
    assert report["classes"] == {"a": 2, "b": 1} and report["clients"] == {"p": 2, "q": 1}
    assert report["features"] == {"x": 0, "city": 2} and report["samples"] == len(samples) == 3
    assert report["left_out"] == {"id": "data.ignore names it"}


def test_too_many_columns_of_zeros_and_ones_are_refused_with_the_columns_to_leave_out(tmp_path: Path) -> None:
    """Six rows: three texts are as many as half of them, and four are more."""
    rows = "".join(f"{n},{'ab'[n % 2]},{'pqrs'[n % 4]},{'yn'[n % 2]}\n" for n in range(6))
    (tmp_path / "t.csv").write_text("x,s,l,y\n" + rows)
    with pytest.raises(
        DataError, match=r"6 columns of zeros and ones, more than half of its 6 rows.*\[\"l\"\]"
    ):
        hs.catalog.report(tmp_path / "t.csv", ["data.target=y"])
    report = hs.catalog.report(tmp_path / "t.csv", ["data.target=y", "data.ignore=[l]"])
    assert report["features"] == {"x": 0, "s": 2}


def config(file: Path, **data: Any) -> Config:
    return Config.read(
        {
            "seed": 3,
            "rounds": 1,
            "method": {"name": "standalone"},
            "data": {"dataset": str(file), "target": "y", "partition": "iid", **data},
            "federation": {"clients": 2, "group": "tiny_table"},
            "runtime": {"workers": 1, "device": "cpu"},
        }
    )


def test_a_session_records_the_report(tmp_path: Path) -> None:
    """Of a table of 40 rows with an index, two features, and the classes 2 and 10."""
    draw = np.random.default_rng(0)
    rows = pd.DataFrame({"x": draw.normal(size=40), "s": ["a", "b"] * 20, "y": [2, 10] * 20})
    rows.to_csv(tmp_path / "t.csv")
    chosen = config(tmp_path / "t.csv", ignore=["Unnamed: 0"])
    with Session.create(chosen, tmp_path / "s", tmp_path):
        pass
    read = json.loads((tmp_path / "s" / "session.json").read_text())["read"]
    assert read["features"] == {"x": 0, "s": 2} and read["classes"] == {"2": 20, "10": 20}
    assert read["left_out"] == {"Unnamed: 0": "data.ignore names it"}


# Older sessions


def test_older_sessions_keep_their_rule_and_new_ones_record_what_is_set() -> None:
    method = {"method": {"name": "fedavg"}}
    assert completed({**method, "data": {"dataset": "/x/T.CSV"}})["data"]["numbers"] == "inferred"
    assert "numbers" not in completed({**method, "data": {"dataset": "digits"}})["data"]
    assert completed(config(Path("t.csv")).to_json())["data"]["numbers"] is None
    keys = {"numbers", "decimal", "thousands", "missing", "fill"}
    assert not keys & set(Config.read(method).to_json()["data"])
    assert keys & set(config(Path("t.csv")).to_json()["data"]) == {"numbers"}
    given = config(Path("t.csv"), decimal=",", missing=["?"], fill="mean").to_json()["data"]
    assert keys & set(given) == {"numbers", "decimal", "missing", "fill"}


def test_older_sessions_read_a_table_as_before(tmp_path: Path) -> None:
    """An index stays a feature, 01 is the class 1, 007 is the user 7, and a column with one "?" has texts."""
    rows = [f"{n},{'?' if n == 39 else n % 3},{n % 4:03},0{1 + n % 2}" for n in range(40)]
    (tmp_path / "t.csv").write_text(",x,u,y\n" + "\n".join(rows) + "\n")
    raw = config(tmp_path / "t.csv", client="u").to_json()
    del raw["data"]["numbers"]
    data = load(Config.read(completed(raw)).source(tmp_path), federations.CPU)
    assert data.classes == ("1", "2") and data.names[0] == "Unnamed: 0" and "x = ?" in data.names
    assert data.report is not None and list(data.report["clients"]) == ["0", "1", "2", "3"]


def test_older_sessions_read_bytes_of_parquet_as_before(tmp_path: Path) -> None:
    """As numpy's `astype(str)` reads them: features and classes decoded, and users as Python prints them."""
    file = parquet(tmp_path, s=[b"p", b"q", b"p"], u=[b"1", b"1", b"2"], y=[b"a", b"b", b"a"])
    samples = of_file(file, "numbers=inferred", "client=u")
    assert samples.names == ("s = p", "s = q") and samples.classes == ("a", "b")
    assert samples.users == ("b'1'", "b'2'")


GOLDEN = "ddd2f50f7ac6266af1a409067a96152f47e738537a2797146ef63f3e99398b61"
"""The fingerprint of the data below, by htfl-sim before it read cells by this rule."""


@pytest.mark.parametrize("older", [False, True])
def test_a_normal_table_has_the_data_that_it_had(tmp_path: Path, older: bool) -> None:
    rows = [
        f"{20 + n * 7 % 50},{60 + n * 13 % 41 / 7:.3f},{['Oslo', 'Rome', 'Bern'][n % 3]},{n % 4 == 0},{n % 5},"
        f"{[2, 10][n * n % 3]}"
        for n in range(60)
    ]
    (tmp_path / "t.csv").write_text("age,weight,city,smokes,u,y\n" + "\n".join(rows) + "\n")
    raw = merged(config(tmp_path / "t.csv", client="u").to_json(), {"federation": {"clients": 3}})
    if older:
        del raw["data"]["numbers"]
    data = load(Config.read(completed(raw)).source(tmp_path), federations.CPU)
    assert data.fingerprint == GOLDEN and data.classes == ("2", "10")
