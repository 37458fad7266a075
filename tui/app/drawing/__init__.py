"""Charts, heatmaps and sparklines as grids of character cells: numpy in, cells out, no app and no terminal.

cells: the grid; glyphs: the three sets of characters; colours: palettes and themes; axis, trace, chart, legend: line
charts; heatmap, bins, order: heatmaps; sparkline: one row of text; table: rows of the client table as text.
"""
