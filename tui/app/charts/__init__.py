"""Charts, heatmaps and tables on grids of character cells: numpy in, a canvas out, no app and no terminal.

canvas: the grid; glyphs: the three sets of characters; colours: palettes that read on any theme; axis, trace, figure,
plot_area, legend, chart: line charts; heatmap, bins, order: heatmaps; sparkline, table: text.
"""
