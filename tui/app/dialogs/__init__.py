"""Modal screens. Each is left with escape, holds at 80×24, and hands back what was chosen, or None."""
