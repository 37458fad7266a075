"""A benchmark's tables, and the page they are written into."""

import io

import pytest
from rich.console import Console

from benchmarks.figures import Sheet


@pytest.fixture
def sheet() -> Sheet:
    sheet = Sheet("Steps", ("group", "batch", "µs"))
    sheet.add("htm5", "10", "4,238")
    sheet.add("htfe8", "64", "12")
    return sheet


def test_a_page_has_the_title_the_columns_and_the_rows(sheet: Sheet) -> None:
    assert sheet.markdown().splitlines() == [
        "Steps:",
        "",
        "| group | batch | µs |",
        "| --- | --- | --- |",
        "| htm5 | 10 | 4,238 |",
        "| htfe8 | 64 | 12 |",
    ]


def test_in_a_terminal_words_begin_at_the_left_and_numbers_end_at_the_right(sheet: Sheet) -> None:
    console = Console(file=io.StringIO(), width=60)
    console.print(sheet.shown())
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "│ htm5  │    10 │ 4,238 │" in shown
    assert "│ htfe8 │    64 │    12 │" in shown


def test_a_row_has_a_cell_for_every_column(sheet: Sheet) -> None:
    with pytest.raises(ValueError, match="2 cells for the columns group, batch, µs"):
        sheet.add("htm5", "10")
