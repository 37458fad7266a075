"""The page about time shows the devices of the library as they are."""

from docsite import devices
from simulator.clock.devices import LIBRARY


def test_the_page_has_the_table_of_the_library() -> None:
    """`python -m docsite.devices` writes it."""
    assert devices.table() in devices.PAGE.read_text(encoding="utf-8")


def test_the_table_has_every_device_and_marks_estimates() -> None:
    rows = {line.split("`")[1]: line for line in devices.table().splitlines()[2:]}
    assert list(rows) == list(LIBRARY)
    assert rows["phone"] == "| `phone` | 24.7 | 4 | 35.96 | 11.22 | 0.04 | 3 | ≈ 2.4 | ≈ 0.1 |"
