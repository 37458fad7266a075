"""`htfl-sim calibrate`: measure how fast this machine trains each architecture, for the computed clock."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import htfl_sim as hs
from tui.cli import options, output
from tui.cli.options import HOW, WHERE

OUT = "Configuration file to write. The devices are written beside it, as NAME.devices.toml."
PASSES = "Number of timed dispatches of each architecture. Default: 5."
LIKE = (
    "Known device with the bandwidths, latency, and watts of this machine, which are not measured. "
    "Default: desktop, or server_gpu with CUDA."
)


@options.expanded
def calibrate(
    setup: options.Setup,
    *,
    out: Annotated[Path | None, options.option(OUT, "--out", "-o", metavar="FILE", panel=WHERE)] = None,
    passes: Annotated[int | None, options.option(PASSES, "--passes", metavar="N", least=1, panel=HOW)] = None,
    like: Annotated[str | None, options.option(LIKE, "--like", metavar="NAME", panel=HOW)] = None,
    data_dir: options.DataDir = None,
    device: options.DeviceOption = None,
    workers: options.Workers = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure how fast this machine trains each architecture of a run, for its computed clock.

    One client of each architecture trains with the run's method, a few times.
    With --out, the run on its clock is written as a configuration. If the run has
    devices, they stay, and get a factor for each architecture.

    \b
    Examples
      htfl-sim calibrate --preset fedlora_htm5 --dataset fashion_mnist --out mine.toml
      htfl-sim run --config mine.toml
      htfl-sim calibrate --method fedavg --set system.devices=phone --json
    """
    from tui.cli.data import fetch_missing

    options.load_plugins(setup.plugin)
    settings = replace(setup.choices(options.Machine(device, workers))).read()
    fetch_missing(settings.data.dataset, data_dir)
    found = hs.calibrate(settings, out, passes=passes or 5, like=like, data_dir=data_dir)
    if as_json:
        output.emit(found.to_json())
        return
    output.show_table(found)
    if out is None:
        output.say("Add --out FILE to write the run on this clock as a configuration.")
    else:
        output.say(f"Run it: htfl-sim run --config {out}")
