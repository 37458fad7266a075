"""`htfl-sim why`: why a client does as it does."""

from typing import TYPE_CHECKING, Annotated, Any

import htfl_sim as hs
from tui.cli import options, output
from tui.common import confusion as grids
from tui.common.formatting import percent

if TYPE_CHECKING:
    from simulator.results.analysis.confusion import Confusion
    from simulator.results.analysis.why import Why
    from simulator.results.analysis.why_parts import ClassRow


def why(
    session: options.SessionArgument,
    client: Annotated[int, options.option("Client to explain.", "--client", least=0, metavar="K")],
    round: Annotated[
        int | None, options.option("Round to explain. Default: the last.", "--round", least=1, metavar="R")
    ] = None,
    sessions_dir: options.SessionsDir = None,
    confusion: Annotated[
        bool, options.flag("Also print the confusion matrix, computed from the checkpoint.", "--confusion")
    ] = False,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Explain a client after a round, in sentences with numbers: its classes, data, model, peers, and the last round.

    Sentences marked ! may explain a low accuracy and come first. The gain is
    over a session of standalone with the same data, models, and seeds, if the
    folder has one. Works while the session runs.

    \b
    Examples
      htfl-sim why mu07 --client 6
      htfl-sim why mu07 --client 6 --round 12
      htfl-sim why mu07 --client 6 --confusion
      htfl-sim why mu07 --client 6 --json | jq .findings
    """
    found = hs.sessions.why(session, client, round, sessions_dir=sessions_dir)
    matrix = None
    if confusion:
        matrix = hs.sessions.confusion(session, client, round, data_dir=data_dir, sessions_dir=sessions_dir)
    if as_json:
        output.emit(found.to_json() | ({} if matrix is None else {"confusion": matrix.to_json()}))
    else:
        output.show(*page(found), *([] if matrix is None else matrix_page(matrix)))


def page(found: "Why") -> list[Any]:
    """The page for people."""
    first, *rest = found.findings
    facts = [(f"{'!' if each.bad else ' '} {each.topic}", each.text) for each in rest]
    parts: list[Any] = [first.text, output.facts(facts)]
    if found.classes:
        columns = ["class", ">test", ">correct", ">recall", ">round before", ">answered", ">train"]
        parts += [output.heading("Classes"), output.table(columns, map(_row, found.classes))]
    if found.missing:
        parts += [output.heading("Missing"), *found.missing]
    return parts


def matrix_page(found: "Confusion") -> list[Any]:
    """The confusion matrix for people."""
    lines = map(grids.plain, grids.grid(found, output.stdout().width))
    return [output.heading("Confusion matrix"), grids.summary(found), "", *lines, "", *grids.notes(found)]


def _row(row: "ClassRow") -> list[object]:
    cells = (row.samples, row.correct, percent(row.recall), row.before, row.answered, row.train)
    return [row.name, *map(output.dash, cells)]
