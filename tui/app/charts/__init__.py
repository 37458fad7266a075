"""Charts, heatmaps, and tables on grids of character cells. They take numpy arrays and return a canvas.

canvas: the grid; glyphs: the three sets of characters; colours: palettes for any theme; axis, trace, figure, plot_area,
legend, chart: line charts; heatmap, bins, order: heatmaps; sparkline, table: text. None of them needs the app or a
terminal.
"""
