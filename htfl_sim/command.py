"""The entry point of the command `htfl-sim`. Checks the packages around it before it imports any of them."""

import sys

from htfl_sim import rooms


def main() -> int:
    """Run the command line. Exits with code 2 if another package replaces one of htfl-sim's."""
    try:
        rooms.check()
    except rooms.ForeignPackage as foreign:
        print(f"error: {foreign}", file=sys.stderr)
        return foreign.exit_code
    from tui.cli import main as command_line

    return command_line()
