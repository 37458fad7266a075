"""The terminal app: panels, dialogs, widgets and charts, and what steers and runs sessions under them."""
