"""The app's seven screens, by the ids that tabs and keys know them by."""

from tui.app.panels.live import LivePanel

PANELS = {"live": LivePanel}
