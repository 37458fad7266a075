"""Command lines in this process, as in the command line's own tests."""

from tests.cli.conftest import _made, cli, done, sessions

__all__ = ["_made", "cli", "done", "sessions"]
