"""The terminal app: its screens, widgets and drawing."""
