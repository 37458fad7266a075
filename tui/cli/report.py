"""`htfl-sim report`: one page about sessions or a study, to send and to keep."""

from pathlib import Path
from typing import Annotated

from simulator.analysis.comparison import table
from simulator.analysis.feed import read
from simulator.errors import ConfigError
from simulator.report.choice import pictures
from simulator.report.contents import gather, study_file
from simulator.report.page import page
from tui.cli import options, output
from tui.cli.compare import BASELINE, SELECT, TARGET, By, Names, Select, readable
from tui.common import folders

OUT = "The file to write. Default: the first name with .html, in this folder."


def report(
    names: Names,
    out: Annotated[Path | None, options.option(OUT, "--out", "-o", metavar="FILE")] = None,
    by: By = None,
    target: Annotated[float | None, options.option(TARGET, "--target", metavar="A")] = None,
    baseline: Annotated[str | None, options.option(BASELINE, "--baseline", metavar="VALUE")] = None,
    select: Annotated[Select | None, options.option(SELECT, "--select")] = None,
    sessions_dir: options.SessionsDir = None,
) -> None:
    """Write one HTML page: what was asked, the table, figures, events, environment, the commands for the same bits.

    It opens without a network, in light and dark, on a phone and on paper.

    \b
    Examples
      htfl-sim report t3
      htfl-sim report 'mu/*' --by method.mu --select eval --out mu.html
    """
    home = folders.sessions_dir(sessions_dir)
    chosen, left_out = readable(names, sessions_dir)
    runs = [read(run.folder) for run in chosen]
    axes = tuple(by or ())
    result = table(runs, axes, target, baseline, None if select is None else "eval")
    file = out or Path(f"{Path(names[0].rstrip('/*')).name or 'report'}.html")
    contents = gather(
        ", ".join(names), runs, result, pictures(names, runs, result.by), study_file(home, names), left_out
    )
    try:
        file.write_text(page(contents), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}.") from error
    output.say(f"wrote {file}")
