"""How alike clients' models are, printed: measured by a live run, or from a kept checkpoint."""

from typing import Any

from tui.cli import output
from tui.common.formatting import number


def show(session: str, measured: dict[str, Any], as_json: bool) -> None:
    """The mean over all pairs of clients per layer, shallow to deep; as JSON also the matrices."""
    if as_json:
        output.emit({"session": session, **measured})
        return
    output.show(output.heading(f"CKA between clients of {session} after round {measured['round']}"))
    rows = ([name, number(measured["layers"][name])] for name in measured["order"])
    output.show(output.table(["layer", ">mean over pairs"], rows))
