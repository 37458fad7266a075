"""The command line. Commands import what they need when they run, so help, completion, and listings need no torch."""

import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Annotated, Any

import typer

from tui.cli import catalog, machine, options, results, running, sessions, steer, sweep, tui
from tui.common import errors

app = typer.Typer(
    name="htfl-sim",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog=errors.CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"htfl-sim {version('htfl-sim')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; works anywhere.")
    ] = False,
) -> None:
    """Heterogeneous federated learning on one machine: many clients with different data and different models.

    \b
    Examples
      htfl-sim run                         five CNNs learn handwritten digits
      htfl-sim run --preset fedlora_htm5   a row of a paper's table
      htfl-sim tui                         the terminal app
      htfl-sim resume NAME                 resume after a stop, bit for bit
      htfl-sim sweep STUDY --over seed=0..2   a session for every point of a study
      htfl-sim switch NAME fedssa          another method from the next round
      htfl-sim show NAME                   its results
      htfl-sim why NAME --client 6         why a client does as it does
      htfl-sim compare t3 --by method      several sessions as one table
      htfl-sim plot accuracy t3 --out a.pdf   a figure of them
      htfl-sim report t3                   one page with all results
      htfl-sim doctor                      what this machine offers
    """


@cache
def _called() -> Any:
    """The commands as they are called. Typer takes 30 ms to make them."""
    return typer.main.get_command(app)


_BY_SIGNAL = {128 + number: number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
"""Exit codes of commands that a signal ended, as in shells."""
_PANELS: dict[str, list[Callable[..., None]]] = {
    "Run": [running.run, tui.tui, running.resume, sweep.sweep, sweep.tune],
    "Steer": [steer.pause, steer.stop, steer.checkpoint, steer.switch, running.fork],
    "Sessions": [
        *(sessions.sessions, sessions.show, sessions.why, sessions.tag, sessions.note, sessions.partition),
        *(sessions.export, sessions.verify, sessions.inspect, sessions.prune, sessions.rename, sessions.rm),
    ],
    "Results": [results.compare, results.plot, results.report],
    "What there is": [catalog.presets, catalog.methods, catalog.models, catalog.datasets, catalog.config],
}
for _panel, _commands in _PANELS.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel)(options.expanded(_command))
app.add_typer(machine.app, name="data", rich_help_panel="Machine")
app.command(rich_help_panel="Machine")(options.expanded(machine.doctor))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. By default, a signal ends the whole process."""
    code = _run(arguments)
    if arguments is None and code in _BY_SIGNAL:
        from htfl_sim.shown import die_by

        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        die_by(_BY_SIGNAL[code])
    return code


def _run(arguments: Sequence[str] | None) -> int:
    _have_standard_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    given = options.with_watchers([argument for argument in given if argument != "--debug"]) or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # an ASCII terminal shows '?' for '→' and does not crash
    try:
        status = _called().main(given, prog_name="htfl-sim", standalone_mode=False)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        return _failed(error, debug, given)
    return status if isinstance(status, int) else 0


def _have_standard_streams() -> None:
    """Replace closed standard streams, so that files of htfl-sim do not get their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - for as long as we run
    sys.stdout = sys.stdout or _Nowhere()


class _Nowhere(io.TextIOBase):
    """Replaces a closed standard output: nothing can be written to it."""

    encoding = "utf-8"

    def write(self, text: str, /) -> int:
        raise errors.NoOutput


def _failed(error: BaseException, debug: bool, given: Sequence[str]) -> int:
    code = errors.report(error, debug, _flags(given))
    unread = isinstance(error, errors.OutputClosed | BrokenPipeError)
    try:
        sys.stdout.flush()
    except OSError:  # the disk is full, or a part of what nobody reads was left
        unread = True
    if unread:  # the interpreter must not try again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _flags(given: Sequence[str]) -> set[str] | None:
    """The flags of the typed command; None if it is unknown."""
    command = _called().commands.get(next((word for word in given if not word.startswith("-")), ""))
    if command is None:
        return None
    return {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}
