"""Small images for tests of data: in folders, and as the bytes of a file."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def draw(file: Path, value: int, mode: str = "RGB") -> None:
    """A picture of 4×3 pixels of one value."""
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (4, 3), value if mode == "L" else (value,) * len(mode)).save(file)


def pictures(root: Path, *files: str) -> Path:
    """Images whose value is their number. `cat/3` are three in the folder `cat`. Other files have a text, after a `=`
    if any, with `|` for the ends of lines.
    """
    for file in files:
        name, _, text = file.partition("=")
        folder, _, count = name.rpartition("/")
        (root / folder).mkdir(parents=True, exist_ok=True)
        if not count.isdigit():
            (root / name).write_text(text.replace("|", "\n"))
            continue
        for number in range(int(count)):
            draw(root / folder / f"{number}.png", number)
    return root


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    content = io.BytesIO()
    image.save(content, kind, **options)
    return content.getvalue()


def shades(*shape: int) -> Any:
    """Pixels of many values."""
    return (np.arange(np.prod(shape)) % 251).astype(np.uint8).reshape(shape)
