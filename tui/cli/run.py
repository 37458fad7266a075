"""`htfl-sim run`: run a federation from its configuration to its last round."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated

import htfl_sim as hs
from tui.cli import options, running
from tui.cli.options import HOW, WHERE


@options.expanded
def run(
    setup: options.Setup,
    session: Annotated[
        str | None,
        options.option("Name of the new session. Default: a generated name.", metavar="NAME", panel=WHERE),
    ] = None,
    tag: options.Tags = None,
    *,
    places: options.Folders,
    dry_run: Annotated[
        bool, options.dry_run("Only check the settings and print what would run.", HOW)
    ] = False,
    timing_only: Annotated[
        bool,
        options.flag(
            "Only draw the rounds on the computed clock, without training.", "--timing-only", panel=HOW
        ),
    ] = False,
    machine: options.Machine,
    runner: options.RunnerOption = None,
    watch: options.Watch = None,
    progress: options.Progress = None,
    as_json: options.Records = False,
) -> None:
    """Run a federation from its first round to its last, with a checkpoint after every round.

    Ctrl-C lets the clients at work finish, writes a checkpoint, and exits.
    `resume` continues from there, and the results are those of a run that
    never stopped. Steer it from another terminal: pause, switch, fork, stop.

    \b
    Examples
      htfl-sim run                   quickstart: no download, seconds a round
      htfl-sim run --preset fedgh_htm5 --dataset fashion_mnist --rounds 10
      htfl-sim run --method fedavg --clients 20 --set training.epochs=2
      htfl-sim run --set method.mu=0.7 --session mu07 --tag paper
      htfl-sim run --rounds 500 --until 0.9     at most 500, to 90 % accuracy
      htfl-sim run --rounds 500 --until-time 2h --set system.devices=phone
      htfl-sim run --rounds 500 --watch plateau:action=stop --watch collapse
      htfl-sim run --set 'federation.group=["cnn1","cnn3"]'
      htfl-sim run --config mine.toml --json > records.jsonl
      htfl-sim run --preset fedgh_htm5 --dry-run
      htfl-sim run --plugin my_method.py --method median_head
      htfl-sim run --runner ray --set runtime.address=auto
      htfl-sim run --model cnn1 --model mynets.py:MyNet --metric top2.py
    """
    name = hs.folders.checked_name(session) if session is not None else None
    tags = list(map(hs.folders.checked_tag, tag or ()))

    from htfl_sim.configuring import new_name
    from tui.cli.data import fetch_missing

    options.load_plugins(setup.plugin)
    settings = replace(setup.choices(machine), runner=runner, watch=watch or ()).read()
    folder = hs.folders.sessions_dir(places.sessions_dir)
    folder = folder / (name or new_name(settings, folder, datetime.now().astimezone()))
    if dry_run:
        running.rehearse(settings, folder, places.data_dir, as_json)
        return
    fetch_missing(settings.data.dataset, places.data_dir)
    if timing_only:
        running.draw(settings, places.data_dir, as_json)
        return
    from htfl_sim.running import begin

    with begin(
        settings, folder, data_dir=places.data_dir, allow_inexact=machine.allow_inexact, tags=tags
    ) as opened:
        own = options.Own(
            running.model_files(setup.model),
            setup.metric,
            setup.plugin,
            running.selection_files(setup.selection),
        )
        running.carry_out(opened, running.mention(places.sessions_dir, own.options()), progress, as_json)
