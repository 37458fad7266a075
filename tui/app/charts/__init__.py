"""Charts and heatmaps on grids of character cells. They take numpy arrays and return a canvas, without the app."""
