"""The terminal app: panels, dialogs, widgets, and charts, and the code that steers and runs sessions."""

import os

os.environ.setdefault("TEXTUAL_FPS", "240")
"""How often per second Textual checks whether something has to be painted.

A key waits for one or two of these checks, 17 ms each at its 60 per second. It is read once, when textual is imported.
"""
