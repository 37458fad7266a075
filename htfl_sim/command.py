"""What the command `htfl-sim` begins with: a look at the packages around it, before any of them is imported."""

import sys

from htfl_sim import rooms


def main() -> int:
    """Run the command line; exit code 2, with a sentence, where another package stands in the place of one of ours."""
    try:
        rooms.check()
    except rooms.ForeignPackage as foreign:
        print(f"error: {foreign}", file=sys.stderr)
        return foreign.exit_code
    from tui.cli import main as command_line

    return command_line()
