"""The terminal app: panels, dialogs, widgets and charts, and what steers and runs sessions under them."""

import os

os.environ.setdefault("TEXTUAL_FPS", "240")
"""Textual looks this often a second whether something is to be painted, and paints nothing otherwise. A key waits for
one look or two, 17 ms each at its 60 a second. It is read once, when textual is imported."""
