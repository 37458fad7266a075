"""What is exported can be used: CSV that a program reads."""

import csv
import math
from pathlib import Path

import pytest

from tui.app.app import free_path, write_csv


def test_a_csv_file_has_a_line_per_row_and_nothing_where_there_is_no_value(tmp_path: Path) -> None:
    path = free_path(tmp_path, "live", "csv")
    write_csv(path, ["round", "mean", "what"], [[1, 0.5, "a, b"], [2, math.nan, None]])
    with path.open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["round", "mean", "what"], ["1", "0.5", "a, b"], ["2", "", ""]]
    assert free_path(tmp_path, "live", "csv").name == "live-2.csv"
    with pytest.raises(FileExistsError):
        write_csv(path, [], [])
