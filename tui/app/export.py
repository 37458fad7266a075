"""What is shown, as files."""

import csv
from collections.abc import Sequence
from pathlib import Path


def free_path(folder: Path, stem: str, ending: str) -> Path:
    """A file of that name that is not there yet."""
    number = 1
    while (path := folder / f"{stem}{'' if number == 1 else f'-{number}'}.{ending}").exists():
        number += 1
    return path


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A header and a line per row; None and NaN are empty. Raises OSError."""
    with path.open("x", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in rows:
            writer.writerow("" if cell is None or cell != cell else cell for cell in row)
