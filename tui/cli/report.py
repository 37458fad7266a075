"""`htfl-sim report`: one page about sessions or a study, to send and to keep."""

from pathlib import Path
from typing import Annotated

import htfl_sim as hs
from tui.cli import options, output
from tui.cli.compare import BASELINE, SELECT, TARGET, By, Names, Select, warn

OUT = "File to write. Default: the first name with .html, in this folder."


def report(
    names: Names,
    out: Annotated[Path | None, options.option(OUT, "--out", "-o", metavar="FILE")] = None,
    by: By = None,
    target: Annotated[float | None, options.option(TARGET, "--target", metavar="A")] = None,
    baseline: Annotated[str | None, options.option(BASELINE, "--baseline", metavar="VALUE")] = None,
    select: Annotated[Select | None, options.option(SELECT, "--select")] = None,
    sessions_dir: options.SessionsDir = None,
    data_dir: options.DataDir = None,
) -> None:
    """Write one HTML page: table, figures, settings, events, environment, and commands that reproduce the bits.

    It needs no network and suits light, dark, phones, and paper.

    \b
    Examples
      htfl-sim report t3
      htfl-sim report 'mu/*' --by method.mu --select eval --out mu.html
    """
    page = hs.report(
        names,
        out,
        by or (),
        target,
        baseline,
        None if select is None else "eval",
        sessions_dir=sessions_dir,
        data_dir=data_dir,
        say=warn,
    )
    kib = page.file.stat().st_size / 1024
    output.say(f"{page.file}: {page.sessions} sessions, {page.figures} figures, {kib:.0f} KiB")
