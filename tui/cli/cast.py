"""A film as a recording of a terminal, in the format asciicast v2.

Its first line is a JSON object with version, width, and height. Each other line is an event: [seconds, "o", output].
Source: https://docs.asciinema.org/manual/asciicast/v2
"""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from htfl_sim.filming import SECONDS, Film
from tui.app.charts.canvas import BOLD, DEFAULT, REVERSE, Canvas, row_text
from tui.app.charts.chart import draw_chart
from tui.app.charts.colours import ColourScheme
from tui.app.charts.figure import Figure, Series
from tui.app.charts.glyphs import GLYPHS
from tui.app.charts.heat_plan import HeatFigure
from tui.app.charts.heatmap import draw_heatmap
from tui.app.charts.scatter import ScatterFigure, draw_scatter

WIDTH, HEIGHT = 80, 24
CLEAR, HOME, HIDE, SHOW = "\x1b[2J", "\x1b[H", "\x1b[?25l", "\x1b[?25h"
SCHEME, SET = ColourScheme(), GLYPHS["braille"]


def save(film: Film, out: Path, seconds: float | None = None, layers: Sequence[str] | None = None) -> None:
    """Write the film, each frame shown for so many seconds. Raises OSError."""
    text = "\n".join(lines(film, SECONDS if seconds is None else seconds, layers or ())) + "\n"
    out.write_text(text, encoding="utf-8")


def lines(film: Film, seconds: float, layers: Sequence[str] = ()) -> Iterator[str]:
    """The lines of the file. The last event only gives the last frame its time."""
    frames = list(_frames(film, layers))
    title = f"{film.run.name}: {film.of}"
    header = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": title}
    yield json.dumps(header)
    for number, (said, canvas) in enumerate(frames):
        head = Canvas.blank(WIDTH, 1, SCHEME.text, SCHEME.background)
        head.put(0, 1, said, SCHEME.text, BOLD)
        shown = "\r\n".join([*ansi(head), *ansi(canvas)])
        yield _event(number * seconds, (HIDE + CLEAR if not number else "") + HOME + shown)
    yield _event(len(frames) * seconds, "\r\n" + SHOW)


def ansi(canvas: Canvas) -> Iterator[str]:
    """The rows with their colors, as escape sequences."""
    for row in range(canvas.height):
        look = np.stack([each[row] for each in (canvas.fg, canvas.bg, canvas.flags)])
        starts = [0, *(np.flatnonzero((look[:, 1:] != look[:, :-1]).any(axis=0)) + 1).tolist(), canvas.width]
        yield (
            "".join(
                _look(*look[:, start].tolist()) + row_text(canvas.chars[row, start:end])
                for start, end in pairwise(starts)
            )
            + "\x1b[0m"
        )


def _look(foreground: int, background: int, flags: int) -> str:
    codes = ["0", *(["1"] if flags & BOLD else []), *(["7"] if flags & REVERSE else [])]
    for kind, color in ((38, foreground), (48, background)):
        if color != DEFAULT:
            codes.append(f"{kind};2;{color >> 16};{color >> 8 & 255};{color & 255}")
    return f"\x1b[{';'.join(codes)}m"


def _event(seconds: float, text: str) -> str:
    return json.dumps([round(seconds, 6), "o", text])


def _frames(film: Film, layers: Sequence[str]) -> Iterator[tuple[str, Canvas]]:
    """Each frame's title and the chart below it."""
    name, room = film.run.name, (WIDTH, HEIGHT - 1, SCHEME, SET)
    if film.of == "accuracy":
        mean = 100 * np.asarray(film.run.totals.mean)
        known = mean[np.isfinite(mean)]
        span = (float(known.min()), float(known.max())) if known.size else (0.0, 100.0)
        for number in film.rounds:
            line = Series("mean", mean[:number], pinned=True)
            figure = Figure(
                [line], x_label="round", unit="%", x_range=(1.0, max(float(len(mean)), 2.0)), y_range=span
            )
            yield f"{name}, round {number}: mean accuracy {mean[number - 1]:.1f} %", draw_chart(figure, *room)
    elif film.of == "cka":
        for found in film.measured:
            layer = next((each for each in layers if each in found.layers), found.layers[-1])
            names = [str(client) for client in found.clients]
            heat = HeatFigure(found.matrix(layer), names, names, (0.0, 1.0), axes=("client", "client"))
            yield f"{name}, round {found.round}: CKA of {layer}", draw_heatmap(heat, *room)
    else:
        every = np.concatenate([np.concatenate([each.points, each.anchors]) for each in film.embeddings])
        reach = np.stack([every.min(axis=0), every.max(axis=0)])
        for one in film.embeddings:
            plane = ScatterFigure(
                one.points, one.labels, one.classes, one.anchors, one.anchor_labels, one.anchor_kind,
                reach=reach,
            )  # fmt: skip
            yield f"{name}, round {one.round}: t-SNE by class", draw_scatter(plane, *room)
