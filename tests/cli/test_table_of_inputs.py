"""The table of inputs: files and folders of other people, what is read of them, what is said, and the exit code.

A row is one input, made in its own format, and `htfl-sim datasets PATH --json` on it. Every remedy in an error of a row
with `then` is typed as it is printed.
"""

import gzip
import os
import re
import shlex
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from PIL import ExifTags, Image

from tests.cli.conftest import Cli
from tests.data import pictures as makers
from tests.data.pictures import shades

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
Make = Callable[[Path], object]


class Input(NamedTuple):
    """A row of the table."""

    name: str
    """The file or folder, and in brackets what is special."""
    content: str | bytes | Make
    settings: tuple[str, ...] = ()
    """As typed after `--set data.`. Tables have `target=y` as well."""
    read: str = ""
    """Samples | classes | domains | users | features, where there are any. Empty if the input is refused."""
    said: str = ""
    """A part of what is said: left out, warnings, notes; or a part of the error. Empty if nothing is said."""
    exit: int = 0
    then: str = ""
    """What is read once the first remedy is typed."""


def refused(
    name: str, content: str | bytes | Make, said: str, *settings: str, exit: int = 3, then: str = ""
) -> Input:
    return Input(name, content, settings, "", said, exit, then)


def pictures(*files: str, more: Make = lambda root: None) -> Make:
    return lambda root: more(makers.pictures(root, *files))


def pets(*files: str, mode: str = "RGB", name: str = "cat/x.png", **saved: Any) -> Make:
    """Two cats, a dog, and a third cat in another mode of pixels."""
    size = saved.pop("size", (4, 3))
    return pictures(
        "cat/2", "dog/1", *files, more=lambda root: Image.new(mode, size).save(root / name, **saved)
    )


def columns(*, y: Any = ("a", "b", "a", "b"), **kept: Any) -> Make:
    """A Parquet file."""
    return lambda file: pq.write_table(pa.table({**kept, "y": list(y)}), file)


TURNED = Image.Exif()
TURNED[ExifTags.Base.Orientation] = 6


def png(shade: int, size: tuple[int, int] = (3, 2)) -> bytes:
    return makers.encoded(Image.new("L", size, shade))


IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def hub(*contents: bytes | None, **others: Any) -> Make:
    """A Parquet file with images as Hugging Face writes them."""
    cells = [{"bytes": each, "path": "/etc/passwd"} for each in contents]
    return columns(image=pa.array(cells, IMAGE), y=["a", "b", "a"], **others)


def arrays(**kept: Any) -> Make:
    return lambda file: np.savez(file, **kept)


L = np.array([0, 1, 1, 0])
MEDMNIST = {
    f"{part}_{what}": shades(n, 8, 8, 3) if what == "images" else L[:n, None]
    for part, n in (("train", 4), ("val", 2), ("test", 2))
    for what in ("images", "labels")
}
KERAS = {"x_train": shades(4, 8, 8), "y_train": L, "x_test": shades(2, 8, 8), "y_test": L[:2]}
XY = "x,y\n5,a\n2,b\n"
TWO = "2 samples | a 1, b 1 | x"
FOUR = "4 samples | a 2, b 2 | x"
PETS = "4 samples | cat 3, dog 1"

CSV = [
    Input("t.csv", XY, (), TWO),
    Input("t.csv (byte order mark, line ends of Windows)", "\ufeff" + XY.replace("\n", "\r\n"), (), TWO),
    Input("t.csv (line ends of old Macs)", XY.replace("\n", "\r"), (), TWO),
    Input("t.csv (blank lines around)", f"\n{XY.replace(',', ';')}\n\n", (), TWO, "separated by semicolons"),
    Input("t.csv (line breaks in quotes)", 'x,"a\nnote",y\n5,"p\nq",a\n2,p,b\n3,p,b\n4,p,a\n', (),
          "4 samples | a 2, b 2 | x, a\nnote 2"),
    Input("t.csv (quotes in cells)", 'x,s,y\n5,"6"" pipe",a\n2,6" pipe,b\n4,"7, or 8",b\n9,6" pipe,a\n', (),
          "4 samples | a 2, b 2 | x, s 2"),
    Input("t.csv (spaces around names)", " x , y \n5,a\n2,b\n", (), TWO),
    Input("t.csv (names that differ in case)", "x,X,y\n5,2,a\n2,4,b\n", (), "2 samples | a 1, b 1 | x, X"),
    Input("t.csv (signs and exponents)", "x,y\n+5,a\n-2.5E-2,b\n1e3,a\n.5,b\n", (), FOUR),
    Input("t.csv (truth values)", "x,z,y\n" + "True,yes,a\nFALSE,no,b\ntrue,no,a\nfalse,no,b\n" * 2, (),
          "8 samples | a 4, b 4 | x 2, z 2"),
    Input("t.CSV (a link)", lambda file: (file.with_name("r").write_text(XY), file.symlink_to("r")), (), TWO),
    Input("t.csv.gz", gzip.compress(XY.encode()), (), TWO),
    Input("t.tsv.gz", gzip.compress(b"x\ty\n5\ta,b\n2\tc\n"), (), '2 samples | a,b 1, c 1 | x', "separated by tabs"),
    Input("t.csv (vertical bars, and a comma in quotes)", '"x, mm"|y\n5|a\n2|b\n', (),
          "2 samples | a 1, b 1 | x, mm", "separated by vertical bars"),
    Input("t.csv (users and classes are texts)", "x,u,y\n5,007,01\n3,07,1\n2,7,01\n4,1e5,1\n9,100000,1\n",
     ("client=u",), "5 samples | 01 2, 1 3 | 007 1, 07 1, 7 1, 1e5 1, 100000 1 | x",
     "Column 'y' has '01' and '1', which are different texts.\nColumn 'u' has '007' and '07', which"),
    Input("t.csv (a class with a space)", "x,y\n5,a\n2,a \n3,b\n", (), "3 samples | a 1, a  1, b 1 | x",
          "'a' and 'a '"),
    Input("t.csv (NA is a text)", "x,u,y\n5,null,NA\n2,None,b\n", ("client=u",),
          "2 samples | NA 1, b 1 | null 1, None 1 | x"),
    Input("t.csv (an index with a name)", "id,x,y\n0,5,a\n1,7,b\n2,5,a\n", (), "3 samples | a 2, b 1 | id, x",
          "Column 'id' numbers the rows (0, 1, …) and is a feature."),
    Input("t.csv (no line of names)", "5.1,3.5,a\n4.9,3,a\n6.2,2.9,b\n", ("target=a",),
          "2 samples | a 1, b 1 | 5.1, 3.5",
          "The names of columns have numbers, such as 5.1. If the first line is a row"),
    Input("t.csv (names from 0, as of a matrix)", "0,1,y\n5.1,3.5,a\n4.9,3,b\n", (), "2 samples | a 1, b 1 | 0, 1"),
    refused("t.csv (to_csv with the index)", ",x,y\n0,5,a\n1,7,b\n",
     "the column without a name ('Unnamed: 0') looks like an " "index (0, 1, …)", then=TWO),
    refused("t.csv (an index in the middle)", "x,,y\n5,9,a\n7,4,b\n", "('Unnamed: 1') looks like an index (9, 4, …)",
          then=TWO),
    refused("t.csv (Excel's comma at each end)", "x,y,\n5,a,\n2,b,\n",
     "column 'Unnamed: 2' has no value in row 1 and 1 more", "ignore=[]"),
    refused("t.csv (a line of commas)", XY + ",\n", "column 'y' has no value in row 3. Fill it in, or remove the row."),
    refused("t.csv (one ?)", "x,y\n5,a\n?,b\n3,a\n",
     "column 'x' has '?' in row 2, which is no number, and other rows have", then="3 samples | a 2, b 1 | x"),
    refused("t.csv (an empty cell)", "x,y\n5,a\n,b\n", "column 'x' has no value in row 2", then=TWO),
    refused("t.csv (NaN among numbers)", "x,y\n5,a\nNaN,b\n", "column 'x' has 'NaN' in row 2", then=TWO),
    refused("t.csv (true among numbers)", "x,y\n5,a\ntrue,b\n", "column 'x' has 'true' in row 2", then=TWO),
    refused("t.csv (−inf)", "x,y\n5,a\n-inf,b\n",
          "column 'x' has -inf in row 2, which is not finite as a 32-bit number"),
    refused("t.csv (decimal commas)", 'x,y\n"0,5",a\n"2,5",b\n', "column 'x' has '0,5' in row 1, which may be a number",
          then=TWO),
    refused("t.csv (thousands with commas)", 'x,y\n"1,100",a\n7,b\n', "column 'x' has '1,100' in row 1"),
    refused("t.csv (thousands with narrow spaces)", "x,y\n1\u202f100,a\n7,b\n", "'1 100' in row 1", then=TWO),
    refused("t.csv (thousands with apostrophes)", "x,y\n1'100,a\n7,b\n", "'1'100' in row 1"),
    refused("t.csv (thousands with Swiss apostrophes)", "x,y\n1’100,a\n2’100,b\n", "has '1’100' in row 1, which may be",
          then=TWO),
    refused("t.csv (percentages)", "x,y\n12%,a\n7 %,b\n", "column 'x' has '12%' in row 1, which may be a number"),
    refused("t.csv (money)", "x;y\n12,50 €;a\n7 €;b\n", "column 'x' has '12,50 €' in row 1, which may be a number"),
    refused("t.csv (dates of ISO 8601)", "x,d,y\n5,2020-01-31T12:00Z,a\n2,2020-02-01,b\n",
     "'d' has dates or times, such as 2020-01-31T", then=TWO),
    refused("t.csv (dates in German)", "x,d,y\n5,31.1.20,a\n2,1.2.20,b\n", "dates or times, such as 31.1.20", then=TWO),
    refused("t.csv (dates with months in words)", "x,d,y\n5,31-Jan-2020,a\n2,1-Feb-2020,b\n", "dates or times",
          then=TWO),
    refused("t.csv (times, and one unknown)", "x,d,y\n5,9:30 PM,a\n2,unknown,b\n", "dates or times, such as 9:30 PM",
          then=TWO),
    Input("t.csv (codes that look like dates)", "x,v,y\n5,1.2.20,a\n2,1.2.20,b\n", ("numbers=[x]",),
          "2 samples | a 1, b 1 | x, v 1"),
    refused("t.csv (comments first)", "# tool 3\n" + XY,
          "its first line, '# tool 3', does not separate names of columns"),
    refused("t.csv (spaces as separators)", "x y\n5 a\n2 b\n",
          "'x y', does not separate names of columns. Save it with commas"),
    refused("t.csv (Excel's first line)", "sep=;\n" + XY,
          "its first line is 'sep=;', and must have the names of the columns"),
    refused("t.tsv (commas)", XY, "its first line, 'x,y', does not separate names of columns"),
    refused("t.csv (two separators)", "x;z\ty\n1;2\ta\n", "has semicolons and tabs, so the separator is not clear"),
    refused("t.csv (row names of R)", '"x","y"\n"1",5,"a"\n"2",6,"b"\n', "rows with more values than column names"),
    refused("t.csv (an open quote)", 'x,y\n5,"a\n2,b\n', "is no table"),
    refused("t.csv (equal names)", "x,x,y\n5,2,a\n3,4,b\n", "has several columns named 'x'"),
    refused("t.csv (names alone)", "x,y\n", "has no rows. Add some below its column names."),
    refused("t.csv (one row)", "x,y\n5,a\n", "column 'y' has a single value, and data.target needs 2 to 100 classes"),
    refused("t.csv (empty)", "", "is empty. It needs a line of column names, and rows."),
    refused("t.csv (UTF-16)", XY.encode("utf-16"), "is not UTF-8 text (byte 0). Save it as CSV in UTF-8."),
    refused("t.csv (Latin-1)", "größe,y\n5,a\n2,b\n".encode("latin-1"), "is not UTF-8 text (byte 2)"),
    refused("t.csv (a workbook)", b"PK\x03\x04" + bytes(range(256)), "is not UTF-8 text"),
    refused("t.csv.gz (not compressed)", XY, "cannot be read (Not a gzipped file"),
    refused("t.csv (a long cell)", f"x,y\n{'z' * 1001},a\nw,b\n",
          "column 'x' has a cell with 1,001 characters in row 1"),
    refused("t.csv (fractions as classes)", "x,y\n5,0.5\n2,1\n", "numbers with fractions"),
    refused("t.csv (reviews as a feature)", "t,y\nvery good,a\nbad,b\nso good,b\nnot bad,a\n",
     "texts would become 4 columns of zeros", then="4 samples | a 2, b 2"),
    refused("t.csv (another target)", XY, "data.target is 'Y', and ", "target=Y", exit=2),
]  # fmt: skip
NAMES = [
    refused("t.xlsx", b"PK", "has another ending than .csv, .tsv, .csv.gz, .tsv.gz, .parquet, and .npz", exit=2),
    refused("t.txt", XY, "Save it in one of these formats, or rename it", exit=2),
    refused("gone.csv", lambda file: file.with_name("gone2.csv").write_text(XY),
          "does not exist. Did you mean 'gone2.csv'?", exit=2),
    refused("t.parquet (a folder of parts)", pictures("part.parquet"), "is no CSV or Parquet file", exit=2),
]  # fmt: skip
PARQUET = [
    *(Input(f"t.parquet ({kind})", columns(x=pa.array([5, 2, 3, 9], getattr(pa, kind)())), (), FOUR)
      for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")),
    Input("t.parquet (float16)", columns(x=pa.array(np.float16([5, 2, 3, 9]))), (), FOUR),
    Input("t.parquet (decimals)", columns(x=[Decimal(each) for each in ("5", "2.5", "3", "9")]), (), FOUR),
    Input("t.parquet (a dictionary of numbers)", columns(x=pa.array([5, 2, 5, 9]).dictionary_encode()), (), FOUR),
    Input("t.parquet (a dictionary of texts)", columns(x=pa.array([*"pqpq"]).dictionary_encode()), (), FOUR + " 2"),
    Input("t.parquet (large_string)", columns(x=pa.array([*"pqpq"], pa.large_string())), (), FOUR + " 2"),
    Input("t.parquet (truth values)", columns(x=[True, False, True, True]), (), FOUR + " 2"),
    Input("t.parquet (texts of numbers)", columns(x=["5", "2", "5", "5"]), (), FOUR + " 2"),
    Input("t.parquet (the same, declared)", columns(x=["5", "2", "5", "5"]), ("numbers=[x]",), FOUR),
    Input("t.parquet (classes by number)", columns(x=[5, 2, 3, 9], y=[10, 9, 10, 9]), (), "4 samples | 9 2, 10 2 | x"),
    refused("t.parquet (an index of pandas)", lambda file: pd.DataFrame({"x": [5, 2], "y": ["a", "b"]}, [7,
     3]).to_parquet(file), "('__index_level_0__') looks like an index (7, 3, …)", then=TWO),
    refused("t.parquet (a missing number)", columns(x=[5, None, 3, 9]), "column 'x' has no value in row 2", then=FOUR),
    refused("t.parquet (only missing values)", columns(x=[5, 2, 3, 9], n=pa.nulls(4)),
          "column 'n' has no value in row 1 and 3 more"),
    refused("t.parquet (infinity)", columns(x=[5, np.inf, 3, 9]), "column 'x' has inf in row 2, which is not finite"),
    *(refused(f"t.parquet ({kind})", columns(x=[5, 2, 3, 9], odd=odd), f"column 'odd' has {kind}", then=FOUR)
      for kind, odd in {
          "lists": [[1]] * 4, "structs": [{"a": 1}] * 4, "bytes": [b"1"] * 4, "dates or times": [date(2020, 1, 1)] * 4,
          "dates or times, such as 12:30": [time(12, 30)] * 4, "dates or times, such as 2020": [datetime(2020, 1,
          1)] * 4,
          "dates or times, such as 2021-0": ["2021-01-31"] * 4, "maps": pa.array([[("a", 1)]] * 4, pa.map_(pa.string(),
          pa.int64())),
      }.items()),
    refused("t.parquet (classes are bytes)", columns(x=[5, 2, 3, 9], y=[b"a", b"b"] * 2),
          "Name another column with data.target"),
    refused("t.parquet (no rows)", columns(x=pa.array([], pa.int64()), y=[]), "has no rows"),
    refused("t.parquet (a CSV file)", XY, "is no Parquet file"),
]  # fmt: skip
OF_DOMAINS = ("photo/mug/2", "photo/pen/1", "sketch/mug/1", "sketch/pen/3")
FOLDERS = [
    Input("pets (annotations beside the class folders)", pictures("train/cat/2", "train/dog/1", "train/coco.json"), (),
          "3 samples | cat 2, dog 1", "train/coco.json: no image"),
    Input("own (.JPG)", pets(name="cat/x.JPG"), (), PETS),
    Input("own (Tiny-ImageNet)", pictures("train/n1/images/5", "train/n1/n1_boxes.txt", "train/n2/images/4",
     "val/images/3", "val/notes.txt", "test/images/2", "wnids.txt"), (), "9 samples | n1 5, n2 4",
     "test: it has no class folders with images\nval: it has no class folders with images\n"
     "2 files, such as train/n1/n1_boxes.txt: no images\n"
     "Images in deeper folders have the class of the folder around: 9 files, such as train/n1/images/0.png."),
    Input("own (train, val, test)", pictures("train/cat/2", "train/dog/2", "val/cat/1", "val/dog/1", "test/cat/3",
          "test/dog/4"), (),
          "11 samples, 7 test | cat 5, dog 6", "val: test is the own test set, and no other split is used"),
    Input("own (Train, Test)", pictures("Train/a/2", "Train/b/2", "Test/b/4"), (), "8 samples, 4 test | a 2, b 6"),
    Input("own (training_set, testing)", pictures("training_set/a/2", "training_set/b/2", "testing/a/1"), (),
          "5 samples, 1 test | a 3, b 2"),
    Input("own (train, validation)", pictures("train/a/2", "train/b/2", "valid/b/1", "test/7"), (),
     "5 samples, 1 test | a 2, b 3", "test: it has no class folders with images\n"
     "valid is the own test set, because no split 'test' has class folders."),
    Input("own (files beside splits)", pictures("train/a/2", "train/b/2", "test/a/1", "extra/9", "LICENSE"), (),
     "5 samples, 1 test | a 3, b 2", "extra: it is beside the folders of splits\nLICENSE: no images"),
    Input("own (splits in each class)", pictures("cat/train/2", "cat/test/1", "cat/val/5", "dog/train/3",
     "dog/test/2", "empty/x.txt"), (), "8 samples, 3 test | cat 3, dog 5",
     "empty: it has no images\nval: test is the own test set, and no other split is used"),
    Input("own (images and subfolders)", pictures("cat/4", "cat/more/12", "cat/more/deep/12", "dog/2"), (),
          "30 samples | cat 28, dog 2",
          "Images in deeper folders have the class of the folder around: 24 files, such as cat/more/0.png."),
    Input("own (classes named train and test)", pictures("bus/2", "train/2", "test/3"), (),
          "7 samples | bus 2, test 3, train 2"),
    Input("own (what computers leave behind)", pictures("cat/2", "dog/2", "/1", ".git/2", "__MACOSX/cat/2",
          "cat/.DS_Store", "cat/Thumbs.db"), (),
          "4 samples | cat 2, dog 2", "0.png: they are in no class folder\ncat/Thumbs.db: no images"),
    Input("own (links)", pictures("cat/2", "dog/1", more=lambda root: ((root / "fox").symlink_to(root / "dog"),
          (root / "cat/again").symlink_to(root))), (),
          "5 samples | cat 3, dog 1, fox 1", "Images in deeper folders have the class of the folder around: "),
    Input("own (classes that look alike)", pictures("Cat/2", "cat/1", "dog/1"), (), "4 samples | Cat 2, cat 1, dog 1",
          "has 'Cat' and 'cat', which"),
    Input("own (domains)", pictures(*OF_DOMAINS), ("domains=true",),
          "7 samples | mug 3, pen 4 | photo 3, sketch 4"),
    Input("own (domains in splits)", pictures(*(f"train/{each}" for each in OF_DOMAINS), "test/sketch/pen/1",
          "test/photo/mug/1"), ("domains=true",), "9 samples, 2 test | mug 4, pen 5 | photo 4, sketch 5"),
    Input("own (splits in domains)", pictures("a/train/x/2", "a/train/y/2", "a/test/x/1", "b/train/x/2", "b/train/y/2",
          "b/test/y/1"), ("domains=true",), "10 samples, 2 test | x 5, y 5 | a 5, b 5"),
    *(refused(f"own ({said})", pictures(*names), said, f"domains={given}")
      for given in ("true", "found")
      for names, said in (
          ((*OF_DOMAINS, "photo/cup/1"), "sketch has no class folder 'cup', as "),
          ((*OF_DOMAINS, "sketch/cup/0", "photo/cup/0"), "cup has no images; add some or remove the folder in every"),
          ((*OF_DOMAINS, "clip art/1"), "clip art has no class folders, as "),
          (OF_DOMAINS[:2], "has a single domain, photo; name "),
      )),
    refused("own (no domains)", pictures("a/1", "b/1"), "has no domains: its folders a, b have no class folders. Leave",
            "domains=true"),
    refused("own (other domains in a split)", pictures(*(f"train/{each}" for each in OF_DOMAINS), "test/sketch/pen/1"),
          "test have different domains, such as photo; give both", "domains=true"),
    refused("own (a class of test alone)", pictures("train/a/1", "train/b/1", "test/fox/1"),
            "fox is a class that has no training images"),
    refused("own (domains or classes)", pictures("photo/mug/2", "photo/pen/1", "sketch/mug/1"),
            "with the classes photo, sketch, or with these as domains and the classes mug, pen.",
            then="4 samples | photo 3, sketch 1"),
    refused("own (a split or a class)", pictures("train/a/2", "train/b/2", "bus/2"),
          "'train' is a split with the classes a, b, or a class beside bus"),
    refused("own (splits in one class)", pictures("cat/train/2", "cat/test/2", "dog/2"),
          "cat has folders of splits, and dog has none"),
    refused("own (two training splits)", pictures("Train/a/1", "train/b/1"),
          "has two folders of one split, Train and train. Join them"),
    refused("own (no training split)", pictures("test/a/1", "val/a/1"),
          "has the split test, and no split 'train'. Rename the one to train on"),
    refused("own (one folder around)", pictures("own/a/2", "own/b/2"),
          "has a single class, 'own'. If a, b are the classes, name "),
    refused("own (one class)", pictures("images/3"),
          "has a single class, 'images'; put the images of each class into a folder of its own."),
    refused("own (no class folders)", pictures("/3"), "has no class folders; put the images"),
    refused("own (a class without images)", pictures("a/2", "b/2", "c/Thumbs.db"),
          "own/c has no images; add some or remove the folder"),
    refused("own (images beside labels.csv)", pictures("images/3", "labels.csv=file,label|0.png,a|1.png,b"),
     "has a single class, 'images'; ", then="2 samples | a 1, b 1"),
    refused("own (images, masks, labels.csv)", pictures("images/2", "masks/2",
          "labels.csv=file,label|images/0.png,a|images/1.png,b"),
            "with the classes images, masks, or with the classes in labels.csv", then="2 samples | a 1, b 1"),
    *(Input(f"own (labels for {cell})", pictures("images/3",
          f"l.csv=file,label|{cell.format(0)},007|{cell.format(1)},7"), ("labels=l.csv",),
            "2 samples | 007 1, 7 1", "images/2.png: l.csv has no line for them\n"
            "The data set has '007' and '7', which are different texts")
      for cell in ("images/{}.png", ".\\images\\{}.png", "{}.png", "{}")),
    Input("own (labels with an index)", pictures("2", "l.csv=,file,label|0,0.png,a|1,1.png,b"), ("labels=l.csv",),
          "2 samples | a 1, b 1"),
    Input("own (labels of splits)", pictures("train/2", "val/1", "test/1",
          "l.csv=f,l|train/0.png,a|train/1.png,b|val/0.png,a|test/0.png,b"),
          ("labels=l.csv",), "3 samples, 1 test | a 1, b 2", "val/0.png: the split test is the own test set"),
    Input("own (one of several columns)", pictures("2", "l.csv=age,file,sick|1,0.png,yes|0,1.png,no"),
     ("labels=l.csv", "target=sick"), "2 samples | no 1, yes 1"),
    *(refused(f"own (labels: {lines})", pictures("2", f"l.csv={lines}"), said, "labels=l.csv", exit=code)
      for lines, said, code in (
          ("age,file,sick|1,0.png,yes", "Nothing says which column", 2),
          ("f,l|0.png,a|9.png,b", "line 3: '9.png' names no image", 3),
          ("f,l|0.png,a|1.png,", "line 3: column 'l' is empty. Fill it in", 3),
          ("f,l|0.png,a|0.png,b", "line 3: 0.png has two lines. Remove one.", 3),
          ("f,l|0.png,a|1.png", "line 3: 1 values for 2 columns. Correct this line.", 3),
          ("f,l|0.png,a|1.png,a", "column 'l' has a single class, 'a'", 3),
          ("f,l|x.png,a", "has no column that names the images. Its first row is 'x.png, a'", 3),
          ("f;l|0.png;a", "needs a line of column names with commas between", 3),
          ("0.png,a|1.png,b", "has no line of column names: its first line has 0.png. Add one", 3),
          ("id,digit|0,1|1,0", "Set data.target to one of id, digit.", 2),
      )),
    refused("own (another column of labels)", pictures("2", "l.csv=file,sick|0.png,yes|1.png,no"),
            "has no such column. Did you mean 'sick'?", "labels=l.csv", "target=sik", exit=2),
    refused("own (two columns of images)", pictures("2", "l.csv=a,b,c|0,0,x|1,1,y"),
            "l.csv has several columns that name images: a, b. Keep one.", "labels=l.csv", "target=c"),
    refused("own (another file of labels)", pictures("2", "meta.csv=f,l|0.png,a"),
            "no such file. Did you mean 'meta.csv'?", "labels=met.csv", exit=2),
    refused("own (labels in a pipe)", pictures("2", more=lambda root: os.mkfifo(root / "l.csv")),
            "l.csv: it is a pipe. Name a regular file", "labels=l.csv"),
    refused("own (large labels)", pictures("2", more=lambda root: (root / "l.csv").open("w").truncate((64 << 20) + 1)),
            "l.csv is larger than 64", "labels=l.csv"),
    refused("own (labels and domains)", pictures("a/1", "b/1"),
            "data.domains reads domains from folders, and data.labels needs", "labels=x.csv", "domains=true", exit=2),
    Input("own (palette with transparency)", pets(mode="P", transparency=b"\0\1"), (), PETS,
          "An alpha channel is left out: 1 image, such as cat/x.png."),
    Input("own (alpha)", pets(mode="LA"), (), PETS, "An alpha channel is left out: 1 image, such as cat/x.png."),
    Input("own (CMYK)", pets(mode="CMYK", name="cat/x.jpg"), (), PETS),
    Input("own (an animation)", pets(name="cat/x.gif", save_all=True, append_images=[Image.new("RGB", (4, 3),
     9)]), (), PETS, "Only the first of several frames is read: 1 image, such as cat/x.gif."),
    Input("own (EXIF orientation)", pets(name="cat/x.jpg", size=(3, 4), exif=TURNED), (), PETS,
          "Turned upright by EXIF orientation: 1 image, such as cat/x.jpg."),
    refused("own (16 bits)", pets(mode="I;16"), "cat/x.png has more than 8 bits per channel; save it with 8."),
    refused("own (another size)", pets(size=(5, 5)), "cat/x.png is 5×5 pixels where most images are 4×3"),
    refused("own (many pixels)", pets(mode="1", size=(9_500, 9_500)),
          "cat/x.png has too many pixels; at most 16,777,216 are read"),
    refused("own (no image)", pictures("cat/2", "dog/1", "dog/x.png=words"),
          "dog/x.png cannot be read (its content is none of PNG, JPEG"),
    refused("own (a pipe)", pictures("cat/2", "dog/1", more=lambda root: os.mkfifo(root / "cat/x.png")),
          "cat/x.png is not a plain file"),
]  # fmt: skip
ARRAYS = [
    Input("t.npz (own keys, texts)", arrays(images=shades(4, 8, 8), labels=np.array(["cat", "dog", "dog", "cat"])), (),
          "4 samples | cat 2, dog 2"),
    Input("t.npz (labels in bytes)", arrays(images=shades(4, 8, 8), labels=np.array([b"k\xc3\xb6", b"a", b"a", b"a"])),
          (), "4 samples | a 3, kö 1"),
    Input("t.NPZ (another array)", lambda file: (np.savez(file.with_suffix(".npz"), images=shades(4, 8, 8), labels=L,
          n="mine"), file.with_suffix(".npz").rename(file)), (),
          "4 samples | 0 2, 1 2", "array 'n': its key has no meaning"),
    Input("t.npz (fractions from 0 to 1)", arrays(images=shades(4, 8, 8, 1) / 250, labels=L), (),
     "4 samples | 0 2, 1 2", "'images' have numbers from 0 to 1. They are multiplied by 255 and rounded."),
    Input("t.npz (features)", arrays(features=np.eye(4, 2), labels=L), (), "4 samples | 0 2, 1 2 | 0, 1"),
    *(refused(f"t.npz ({what})", arrays(**{"images": shades(4, 8, 8), "labels": L, **odd}), said)
      for what, odd, said in (
          ("one column for each class", {"labels": np.eye(4)},
          "'labels' has 4 values for each sample, and a sample has one class"),
          ("numbers as labels", {"labels": L / 1},
          "4 whole numbers or texts, not float64 [4]. Of others, save `labels.astype(int)`."),
          ("objects as labels", {"labels": np.array(["a", None, "b", "b"])},
          "'labels' holds Python objects, and nothing is unpickled"),
          ("one class", {"labels": L * 0}, "has a single class, '0'"),
          ("images from −1 to 1", {"images": shades(4, 8, 8) / 125 - 1},
          "fractions from -1 to 1, and images are read from 0 to 1 or"),
          ("images with NaN", {"images": np.full((4, 8, 8), np.nan)}, "'images' have fractions from nan to nan"),
          ("images of 16 bits", {"images": shades(4, 8, 8).astype(np.uint16) * 9}, "whole numbers from 0 to 2250"),
          ("images in rows", {"images": shades(4, 8)}, "'images' must be numbers from 0 to 255 or from 0 to 1, "
           "[n, h, w] or [n, h, w, c], not uint8 [4, 8]."),
          ("complex images", {"images": np.zeros((4, 4, 5), complex)}, "not complex128 [4, 4, 5]."),
          ("no images", {"images": shades(0, 4, 5), "labels": L[:0]}, "'images' must be numbers"),
          ("large images", {"images": np.zeros((1, 4097, 4096), np.uint8), "labels": [0]},
           "more than 16,777,216 pixels an image"),
          ("few labels", {"labels": L[:3]}, "'labels' must be 4 whole numbers or texts, not int64 [3]"),
          ("test images of another size", {"test_images": shades(1, 9, 9), "test_labels": [0]},
           "'test_images' differ from 'images' in size or channels."),
          ("test labels of another type", {"test_images": shades(1, 8, 8), "test_labels": ["0"]},
           "only one of 'labels' and 'test_labels' has texts."),
          ("other axes", {"axes": "hwn"}, "'axes' is 'hwn', and 'images' [4, 8, 8] takes nhw"),
          ("fractions and bytes", {"images": np.full((4, 4, 5), 200 / 255), "test_images": np.full((4, 4, 5), 200.0),
           "test_labels": L}, "'images' and 'test_images' have fractions from 0.784314 to 200"),
          ("two kinds", {"features": shades(4, 2)}, "has both 'images' and 'features'"),
          ("test images alone", {"test_images": shades(2, 8, 8)}, "has only one of 'test_images' and 'test_labels'"),
          ("a class of test alone", {"test_images": shades(2, 8, 8), "test_labels": [0, 7]},
          "class 7 of 'test_labels' has no training images"),
      )),
    *(refused(f"t.npz ({what})", arrays(labels=L, **given), said)
      for what, given, said in (
          ("no labels", {"train_images": shades(4, 8, 8)}, "has no array 'train_labels'"),
          ("fractions as tokens", {"tokens": np.zeros((4, 3))},
           "'tokens' must be whole numbers [n, length], not float64 [4, 3]"),
          ("a negative token", {"tokens": np.full((4, 3), -1), "vocabulary": 1},
           "token -1 is outside the vocabulary of 1: tokens are 0"),
          ("a small vocabulary", {"tokens": shades(4, 3), "vocabulary": 5}, "token 11 is outside the vocabulary of 5"),
          ("a vocabulary with a fraction", {"tokens": shades(4, 3), "vocabulary": 2.5},
           "'vocabulary' must be one whole number ≥ 0, not float64"),
          ("padding outside", {"tokens": shades(4, 3), "vocabulary": 12, "padding": 12},
           "'padding' 12 is outside the vocabulary of 12"),
          ("features of two axes", {"features": np.zeros((4, 1, 2))}, "'features' must be numbers [n, features], not"),
          ("test tokens of another length", {"tokens": shades(4, 3), "test_tokens": shades(4, 4), "test_labels": L},
           "'test_tokens' differ from 'tokens' in shape."),
      )),
    refused("t.npz (arrays without keys)", arrays(arr_0=shades(4, 8, 8), arr_1=L),
          "has no array of samples among ['arr_0', 'arr_1']"),
    refused("t.npz (numbers that overflow)", arrays(features=np.full((4, 2), 1e300), labels=L),
          "a sample has a value that is not finite"),
    refused("t.npz (a single array)", lambda file: np.save(file.open("wb"), L),
          "is a single array; save the samples (such as 'images')"),
    refused("t.npz (a pickle)", b"\x80\x04K\x01.", "is no .npz file. Write it with numpy.savez."),
]  # fmt: skip
GOOD_AND_BAD = {
    "texts in column 't'": {
        "English": ("good film", "bad film"), "Korean": ("좋은 영화", "나쁜 영화"), "Hindi": ("अच्छी फिल्म", "खराब फिल्म"),
    },
    "Each character of a script without spaces is a word.": {
        "Chinese": ("电影很好", "电影很差"), "Japanese": ("良い映画", "悪い映画です"), "Thai": ("ดีมาก", "แย่มาก"),
        "mixed": ("iPhone很好", "iPhone 差"),
    },
    "1 of 2 texts have no words, such as that of row 2.": {"an emoji": ("good", "👎"), "spaces": ("good", '"  "')},
}  # fmt: skip
TEXTS = [
    *(Input(f"t.csv ({language})", f"t,y\n{good},a\n{bad},b\n", ("text=t",), "2 samples | a 1, b 1", said)
      for said, texts in GOOD_AND_BAD.items()
      for language, (good, bad) in texts.items()),
    refused("t.csv (numbers as texts)", "t,y\n1,a\n2,b\n", "column 't' has values such as 1, and data.text needs texts",
          "text=t"),
    refused("t.csv (an empty text)", "t,y\ngood,a\n,b\n",
          "column 't' has no value in row 2. Fill it in, or remove the row.", "text=t"),
]  # fmt: skip
OTHER_TOOLS = [
    refused("MNIST (PFLlib)", pictures("train/0.npz", "test/0.npz", "config.json"),
          "is a federation of PFLlib. Turn it into files to run with `htfl-sim data import "),
    refused("femnist (LEAF)", pictures("train/a.json", "test/a.json"), "is a federation of LEAF"),
    refused("shakespeare (LEAF, undivided)", pictures("all_data/a.json"), "is a federation of LEAF"),
    refused("saved (save_to_disk)", pictures("state.json", "dataset_info.json", "data-00000-of-00001.arrow"),
          "was written by save_to_disk of Hugging Face. Use hf:", exit=2),
    Input("t.npz (MedMNIST)", arrays(**MEDMNIST), (), "6 samples, 2 test | 0 3, 1 3",
          "array 'val_images': 'test_images' is the own test set"),
    Input("t.npz (MedMNIST without test)", arrays(**{key: each for key, each in MEDMNIST.items() if "test" not in key}),
          (),
          "6 samples, 2 test | 0 3, 1 3", "'val_images' is the own test set, because there is no 'test_images'."),
    refused("t.npz (MedMNIST with several labels)", arrays(**{**MEDMNIST, "train_labels": np.ones((4, 14), int)}),
          "'train_labels' has 14 values for each"),
    Input("t.npz (Keras)", arrays(**KERAS), (), "6 samples, 2 test | 0 3, 1 3"),
    Input("t.npz (Keras, X_train)", arrays(**{key.replace("x", "X"): each for key, each in KERAS.items()}), (),
          "6 samples, 2 test | 0 3, 1 3"),
    refused("t.npz (Keras, images or signals)", arrays(x_train=np.zeros((4, 8, 8)), y_train=L),
          "can be read in two ways: as images or as signals"),
    refused("t.npz (Keras, tokens or features)", arrays(x_train=np.zeros((4, 8), int), y_train=L),
          "can be read in two ways: as tokens or as features. Save it as 'tokens'"),
    refused("t.npz (Keras, lists of words)", arrays(x_train=np.array([[1], [2, 3]], dtype=object), y_train=L[:2]),
          "no kind of samples has this form"),
    Input("t.parquet (Hugging Face)", hub(png(1), png(2), png(3), size=[1, 2, 3]), (), "3 samples | a 2, b 1",
          "size: the samples are the images of 'image'\nimages in column 'image'"),
    Input("t.parquet (Hugging Face, users)", hub(png(1), png(2), png(3), u=["p", "q", "p"]), ("client=u",),
          "3 samples | a 2, b 1 | p 2, q 1", "images in"),
    refused("t.parquet (Hugging Face, paths alone)", hub(None, None, None), "sample 1 has no image. Remove this row"),
    refused("t.parquet (Hugging Face, another size)", hub(png(1), png(2, size=(4, 4)), png(3)),
          "image 2 is 4×4 pixels, and the first is 3×2"),
    refused("t.parquet (Hugging Face, no images)", hub(b"1", b"2", b"3"),
          "image 1 cannot be read (its content is none of PNG, JPEG"),
    refused("t.parquet (Hugging Face, two images)", hub(png(1), png(2), png(3), other=pa.array([{"bytes": png(1),
          "path": ""}] * 3, IMAGE)),
            "has several columns of images: image, other", exit=2, then="3 samples | a 2, b 1"),
]  # fmt: skip
"""Formats of other tools and hubs. Rows for further tools belong here."""


def summary(report: dict[str, Any]) -> str:
    tested = f", {report['test']} test" if report["test"] else ""
    counted = [
        ", ".join(f"{name} {count}" for name, count in report[key].items())
        for key in ("classes", "domains", "clients")
    ]
    features = ", ".join(f"{name} {count}" if count else name for name, count in report["features"].items())
    return " | ".join(filter(None, [f"{report['samples']} samples{tested}", *counted, features]))


def said(report: dict[str, Any]) -> str:
    notes = [note for note in report["notes"] if note != "separated by commas"]
    return "\n".join(
        [*(f"{name}: {why}" for name, why in report["left_out"].items()), *report["warnings"], *notes]
    )


def fault(cli: Cli, folder: Path, row: Input) -> str:
    """What `htfl-sim datasets PATH --json` does otherwise than the row; empty if nothing."""
    file = folder / row.name.partition(" (")[0]
    folder.mkdir()
    if callable(row.content):
        row.content(file)
    else:
        file.write_bytes(row.content if isinstance(row.content, bytes) else row.content.encode())
    is_table = file.name.lower().endswith((".csv", ".tsv", ".gz", ".parquet", ".xlsx", ".txt"))
    settings = (f"--set=data.{each}" for each in ("target=y",) * is_table + row.settings)
    command = ["datasets", file, "--json", *settings]
    result = cli(*command)
    if result.code != row.exit:
        return f"exit code {result.code}: {result.err}"
    if row.exit == 0:
        found, told = summary(result.json()), said(result.json())
        is_as_told = row.said in told and bool(row.said) == bool(told) and not result.err
        return "" if found == row.read and is_as_told else f"{found}; {told} {result.err}"
    if row.said not in result.err or "bug in htfl-sim" in result.err or result.err.count("\n") != 1:
        return result.err
    for _ in range(2 * bool(row.then)):  # a missing value is declared first, and then filled
        flag = re.search(r"""--set ('[^']*'|"[^"]*"|[^\s'"])+""", result.err)
        if flag is None:
            return f"no remedy: {result.err}"
        command += shlex.split(flag[0].rstrip(",."))
        if (result := cli(*command)).code == 0:
            break
    is_read = not row.then or (result.code == 0 and summary(result.json()) == row.then)
    return "" if is_read else f"after the remedy: {result.err}"


@pytest.mark.parametrize(
    "rows",
    [CSV, NAMES, PARQUET, FOLDERS, ARRAYS, TEXTS, OTHER_TOOLS],
    ids=["CSV", "names", "Parquet", "folders", "arrays", "texts", "other tools"],
)
def test_what_is_read_and_said(cli: Cli, tmp_path: Path, rows: list[Input]) -> None:
    found = [(row.name, fault(cli, tmp_path / f"in{number}", row)) for number, row in enumerate(rows)]
    assert [(name, each) for name, each in found if each] == []
