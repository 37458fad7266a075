"""Open images from any source. Checks the format, the number of pixels, and the free memory."""

import io
import stat
import warnings
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from simulator.base.errors import DataError
from simulator.data.samples import Reading

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
"""Decoded formats, whatever the file's name says. Some of Pillow's other formats start programs."""
PIXELS = 1 << 24
"""The maximum number of pixels, 4096×4096. A small file can claim any number."""
GREY_MODES = ("1", "L", "LA")
DEEP_MODES = ("I", "F")
UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError)
_EXIF = {"exif", "Raw profile type exif", "xmp", "XML:com.adobe.xmp"}
"""Pillow's names of the blocks with an orientation."""
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What turns an image upright, by its EXIF orientation."""


def opened(source: Path | io.BytesIO) -> Image.Image:
    """An image that is not decoded yet. Raises OSError for another format, and DataError for a large image."""
    if isinstance(source, Path) and not stat.S_ISREG(source.stat().st_mode):
        raise DataError(f"{source} is not a plain file; replace or remove it.")
    where = f"{source} has" if isinstance(source, Path) else "an image has"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(source, formats=FORMATS)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as large:
        raise DataError(f"{where} too many pixels; at most {PIXELS:,} are read. Make it smaller.") from large
    except UnidentifiedImageError as other:
        raise OSError(f"its content is none of {', '.join(FORMATS)}") from other
    width, height = image.size
    if width * height > PIXELS:
        image.close()
        raise DataError(f"{where} {width}×{height} pixels; at most {PIXELS:,} are read. Make it smaller.")
    return image


def converted(image: Image.Image, mode: str) -> NDArray[np.uint8]:
    """The pixels in a mode. Pillow warns of palettes with transparency, which is left out."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Palette images with Transparency", UserWarning)
        return np.asarray(image.convert(mode))


def turn_of(image: Image.Image) -> Image.Transpose | None:
    """What turns an opened image upright. None if it is upright, or says nothing."""
    if image.format == "TIFF" or not image.info.keys() & _EXIF:  # Pillow turns a TIFF as it decodes it
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # The base method, because that of PNG decodes the image.
            return _TURNS.get(Image.Image.getexif(image).get(ExifTags.Base.Orientation, 1))
        except Exception:  # a damaged block says nothing, and its errors have no common class
            return None


def upright(image: Image.Image) -> Image.Image:
    turn = turn_of(image)
    return image if turn is None else image.transpose(turn)


def size_of(image: Image.Image, old: bool) -> tuple[int, int]:
    """Width and height of an opened image once it is upright. `old`: of the stored one."""
    width, height = image.size
    sideways = not old and turn_of(image) in [_TURNS[each] for each in (5, 6, 7, 8)]
    return (height, width) if sideways else (width, height)


_TURNED = "Turned upright by EXIF orientation"


class Oddities:
    """What images have that a sample keeps no trace of: the names of the images, by what is said of them."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}

    def note(self, name: str, image: Image.Image) -> None:
        odd = {
            "An alpha channel is left out": image.has_transparency_data,
            "Only the first of several frames is read": _has_frames(image),
            _TURNED: turn_of(image) is not None,
        }
        for what in filter(odd.get, odd):
            self._found.setdefault(what, []).append(name)

    def told(self, reading: Reading) -> Reading:
        """The reading with a sentence for each kind, the number of images, and the first of them."""
        said = {
            what: f"{what}: {len(names):,} image{'s' * (len(names) > 1)}, such as {names[0]}."
            for what, names in self._found.items()
        }
        notes = [said.pop(_TURNED)] if _TURNED in said else []
        return reading.plus(warnings=said.values(), notes=notes)


def _has_frames(image: Image.Image) -> bool:
    try:
        return bool(getattr(image, "is_animated", False))
    except Exception:  # a second frame that is damaged is not read
        return True


def check_memory(path: Path | str, needed: int) -> None:
    """Raise DataError unless this many bytes of images fit into the free memory."""
    free = psutil.virtual_memory().available
    if needed > free:
        raise DataError(
            f"{path} asks for {needed / 2**30:.1f} GiB of memory, and {free / 2**30:.1f} GiB are free; "
            "use smaller or fewer images."
        )
