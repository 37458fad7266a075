"""What a client trains on, in cells: one sample of each class as text, sparklines, or a small picture, and means."""

import numpy as np

from simulator.results.inspection.client_samples import ClassSample, ClientSamples
from tui.app.charts.look import BOLD, GREYS_256, Array, Canvas, Look, codes
from tui.common.cells import cell_count, fit, head
from tui.common.formatting import sparkline

NARROWEST, WIDEST = 12, 32
"""Cells of a sparkline."""


def draw_samples(samples: ClientSamples, width: int, height: int, look: Look) -> Canvas:
    """`samples` on [height, width] cells. The largest classes come first. The last line counts those without room."""
    canvas = look.blank(width, height)
    if width < 8 or height < 1:
        return canvas
    if samples.kind == "image" and _draw_pictures(canvas, samples, look):
        return canvas
    below = canvas
    if samples.channels:
        start = sum(_left(samples, width)) + 3
        chosen, across = _channels(len(samples.channels), width - start)
        names = [fit(look.spelled(samples.channels[each]), across, look.glyphs.ellipsis) for each in chosen]
        canvas.put(0, start, " ".join(names), look.muted)  # over their sparklines
        below = canvas.window(1, 0, height - 1, width)
    elif samples.features:
        rows = min(len(samples.classes), max(height // 3, 1))
        for row, line in enumerate(feature_lines(samples, width, look)[: max(height - rows - 1, 0)]):
            canvas.put(rows + 1 + row, 0, line, look.text if row else look.muted, 0 if row else BOLD)
        below = canvas.window(0, 0, rows, width)
    fits = below.height - (len(samples.classes) > below.height)
    for row, each in enumerate(samples.classes[:fits]):
        below.put(row, 0, class_line(samples, each, width, look), look.text)
    _draw_rest(below, fits, samples, look)
    return canvas


def class_line(samples: ClientSamples, each: ClassSample, width: int, look: Look) -> str:
    """The name of a class, its number of training samples, and a sample, in one line of `width` cells."""
    names, counts = _left(samples, width)
    start = f"{fit(look.spelled(each.name), names, look.glyphs.ellipsis)} {each.count:>{counts}}"
    room = width - cell_count(start) - 2
    if room < 4:
        return fit(start, width, look.glyphs.ellipsis)
    if each.text:
        return f"{start}  {fit(look.spelled(each.text), room, look.glyphs.ellipsis)}".rstrip()
    if samples.channels:
        chosen, across = _channels(len(samples.channels), room)
        lines = [sparkline(each.values[channel], across, look.glyphs.bars) for channel in chosen]
        return f"{start}  {' '.join(lines)}"
    return start


def feature_lines(samples: ClientSamples, width: int, look: Look) -> list[str]:
    table = [("mean of", "client", "all", "SDs")]
    for each in samples.features:
        numbers = f"{each.mean:.4g}", f"{each.overall:.4g}", f"{each.difference:+.2f}"
        table.append((look.spelled(each.name), *numbers))
    sizes = [max(cell_count(row[column]) for row in table) for column in range(4)]
    name = max(min(sizes[0], width - sum(sizes[1:]) - 6), 4)
    return [
        fit(row[0], name, look.glyphs.ellipsis)
        + "".join(f"  {text:>{size}}" for text, size in zip(row[1:], sizes[1:], strict=True))
        for row in table
    ]


def _left(samples: ClientSamples, width: int) -> tuple[int, int]:
    """The cells of names and of counts."""
    names = max((cell_count(each.name) for each in samples.classes), default=0)
    return min(names, width // 3), max((len(str(each.count)) for each in samples.classes), default=0)


def _channels(count: int, room: int) -> tuple[list[int], int]:
    """The channels to draw, one of each group of neighbors if not all fit, and the cells of each."""
    number = max(min(count, (room + 1) // (NARROWEST + 1)), 1)
    across = min((room + 1) // number - 1, WIDEST)
    return [place * count // number for place in range(number)], across


def _draw_pictures(canvas: Canvas, samples: ClientSamples, look: Look) -> bool:
    """Draw a grid of pictures below their names; half as large if not all fit. False if not even one fits."""
    pictures = [np.array(each.values) for each in samples.classes]
    if not pictures:
        return False
    small = pictures
    for shrunk in (False, True):
        if shrunk:  # the mean of 2 × 2 pixels in place of each, without those left over at the edges
            small = [
                picture[: rows * 2, : columns * 2].reshape(rows, 2, columns, 2).mean(axis=(1, 3))
                if (rows := picture.shape[0] // 2) and (columns := picture.shape[1] // 2)
                else picture
                for picture in pictures
            ]
        down, across = (small[0].shape[0] + 1) // 2 + 1, small[0].shape[1] + 2
        columns = (canvas.width + 2) // across
        fits = (canvas.height // down) * columns
        if fits >= len(small):
            break
    if len(small) > fits:  # the last line counts the others
        fits = ((canvas.height - 1) // down) * columns
    if not fits:
        return False
    for place, (each, picture) in enumerate(zip(samples.classes[:fits], small[:fits], strict=True)):
        top, left = place // columns * down, place % columns * across
        name = look.spelled(each.name)
        room = max(min(cell_count(name), across - 3 - len(str(each.count))), 1)
        title = f"{fit(name, room, look.glyphs.ellipsis)} {each.count}"
        canvas.put(top, left, head(title, across - 1), look.text)
        paint(canvas.window(top + 1, left, down - 1, across - 2), picture, look)
    _draw_rest(canvas, fits, samples, look)
    return True


def paint(plot: Canvas, picture: Array, look: Look) -> None:
    """Brightness [2 × rows, columns] from 0 to 1: two pixels per cell in gray, or else their mean as a character."""
    if len(picture) % 2:
        picture = np.vstack([picture, picture[-1:]])
    above, below = picture[0::2], picture[1::2]
    if look.painted:
        plot.chars[:] = ord("▀")
        plot.fg[:], plot.bg[:] = _grey(above, look), _grey(below, look)
        return
    ramp = codes(look.glyphs.ramp)
    plot.chars[:] = ramp[np.clip((above + below) / 2 * len(ramp), 0, len(ramp) - 1).astype(int)]


def _grey(brightness: Array, look: Look) -> Array:
    if look.exact:
        return np.clip(brightness * 255 + 0.5, 0, 255).astype(np.int32) * 0x010101
    greys = np.array(GREYS_256, np.int32)
    return np.asarray(greys[np.clip(brightness * len(greys), 0, len(greys) - 1).astype(int)])


def _draw_rest(canvas: Canvas, fits: int, samples: ClientSamples, look: Look) -> None:
    """Count the classes without room in the last line."""
    if (rest := len(samples.classes) - fits) > 0:
        canvas.put(canvas.height - 1, 0, f"+{rest} class{'es' * (rest > 1)}", look.muted)
