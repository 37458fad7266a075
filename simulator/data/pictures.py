"""Open images from any source. Checks the format, the number of pixels, and the free memory."""

import io
import stat
from pathlib import Path

import psutil
from PIL import Image

from simulator.base.errors import DataError

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
"""Decoded formats, whatever the file's name says. Some of Pillow's other formats start programs."""
PIXELS = 1 << 24
"""The maximum number of pixels, 4096×4096. A small file can claim any number."""


def opened(source: Path | io.BytesIO) -> Image.Image:
    """An image that is not decoded yet. Raises OSError for another format, and DataError for a large image."""
    if isinstance(source, Path) and not stat.S_ISREG(source.stat().st_mode):
        raise DataError(f"{source} is not a plain file; replace or remove it.")
    image = Image.open(source, formats=FORMATS)
    width, height = image.size
    if width * height > PIXELS:
        image.close()
        where = f"{source} has" if isinstance(source, Path) else "an image has"
        raise DataError(f"{where} {width}×{height} pixels; at most {PIXELS:,} are read. Make it smaller.")
    return image


def check_memory(path: Path | str, needed: int) -> None:
    """Raise DataError unless this many bytes of images fit into the free memory."""
    free = psutil.virtual_memory().available
    if needed > free:
        raise DataError(
            f"{path} asks for {needed / 2**30:.1f} GiB of memory, and {free / 2**30:.1f} GiB are free; "
            "use smaller or fewer images."
        )
