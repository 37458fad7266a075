"""Charts, heatmaps, and tables on grids of character cells. They take numpy arrays and return a canvas.

look: the grid, characters, and colors; plot: axes and lines as dots; chart: line charts; heatmap, scatter, timeline,
samples, table: what their names say. None of them needs the app or a terminal.
"""
