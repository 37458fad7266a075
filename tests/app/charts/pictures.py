"""Drawings as text, for tests that write out what they expect."""

from textwrap import dedent

import numpy as np

from tui.app.charts.canvas import Canvas


def picture(text: str) -> list[str]:
    """The lines of a picture written between | and |, the bars left out."""
    return [line.strip()[1:-1] for line in dedent(text).strip().splitlines()]


def drawn(canvas: Canvas) -> list[str]:
    """The lines of a canvas."""
    return canvas.text().split("\n")


def braille_dots(canvas: Canvas) -> np.ndarray:
    """[4 × height, 2 × width] of bool: the dots of the braille characters of a canvas."""
    bits = np.array([[0, 3], [1, 4], [2, 5], [6, 7]])  # as Unicode numbers them
    masks = np.where((canvas.chars >= 0x2800) & (canvas.chars < 0x2900), canvas.chars - 0x2800, 0)
    dots = (masks[:, :, None, None] >> bits[None, None]) & 1
    return dots.transpose(0, 2, 1, 3).reshape(4 * canvas.height, 2 * canvas.width).astype(bool)
