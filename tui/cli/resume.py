"""`htfl-sim resume`: continue a paused session, restart a stopped one, or extend a finished one."""

from pathlib import Path
from typing import Annotated

import htfl_sim as hs
from tui.cli import options, output, running, steer
from tui.cli.options import SCALE
from tui.cli.ticker import Ticker


@options.expanded
def resume(
    session: options.SteerableArgument,
    rounds: Annotated[
        int | None,
        options.option(
            "New number of rounds. Extends a finished session.", least=1, metavar="N", panel=SCALE
        ),
    ] = None,
    until: options.Until = None,
    until_time: options.UntilTime = None,
    *,
    own: options.Own,
    places: options.Folders,
    machine: options.Machine,
    runner: options.RunnerOption = None,
    set_: options.MachineSettings = None,
    steal: options.Steal = False,
    progress: options.Progress = None,
    as_json: options.Records = False,
) -> None:
    """Resume a paused session, or a stopped one from its last checkpoint.

    The data must not have changed. The number of workers is free; another
    device gives close but not bit-identical results: see --allow-inexact.
    Waiting switches happen before the next round. A study's name resumes
    its paused sweep.

    \b
    Examples
      htfl-sim resume quickstart-20260102-101500
      htfl-sim resume mu07 --workers 8
      htfl-sim resume mu07 --rounds 200
      htfl-sim resume mu07 --until 0.95
      htfl-sim resume /mnt/big/sessions/mu07 --device cuda --allow-inexact
      htfl-sim resume mu07 --set training.precision=float32 --allow-inexact
    """
    if study := hs.folders.study_folder(session, hs.folders.sessions_dir(places.sessions_dir)):
        _go_on_with_study(study)
        return
    folder = hs.sessions.own_folder(session, places.sessions_dir)
    if hs.steering.is_live(folder) and not steal:
        given = {
            "--rounds": rounds,
            "--until": until,
            "--until-time": until_time,
            "--plugin": own.plugin,
            "--model": own.model,
            "--metric": own.metric,
            "--selection": own.selection,
            "--data-dir": places.data_dir,
            "--device": machine.device,
            "--workers": machine.workers,
            "--runner": runner,
            "--set": set_,
            "--allow-inexact": machine.allow_inexact or None,
            "--progress": progress,
            "--json": as_json or None,
        }
        _go_on(folder, [option for option, value in given.items() if value is not None])
        return

    from htfl_sim.running import extend, reopen

    own.load()
    if rounds is not None or until is not None or until_time is not None:
        extend(folder, rounds, until, until_time)
    waiting = hs.steering.waiting_switches(folder)
    with reopen(
        folder,
        data_dir=places.data_dir,
        workers=machine.workers,
        device=machine.device,
        settings=[*([f"runtime.runner={runner}"] if runner else []), *(set_ or ())],
        allow_inexact=machine.allow_inexact,
        steal=steal,
    ) as opened:
        for warning in opened.warnings:
            output.say(f"warning: {warning}", "yellow")
        for command in waiting:
            output.say(hs.steering.prospect(folder, command, opened.finished))
        if opened.finished:
            why, remedy = f"round {opened.round} was its last", "More rounds: --rounds N."
            if opened.goal_reached:
                why, remedy = (
                    opened.goal_reached,
                    "More rounds: a higher goal, or 0 to run all: --until, --until-time.",
                )
            output.say(f"{hs.sessions.name_of(folder)} is finished: {why}. {remedy}")
            return
        running.carry_out(opened, running.mention(places.sessions_dir, own.options()), progress, as_json)


def _go_on_with_study(folder: Path) -> None:
    """Resume a paused sweep. Raises ConfigError if there is none, because `sweep` runs studies."""
    if not hs.steering.is_live(folder):
        raise hs.ConfigError(
            f"No process runs the study {folder.name}. Continue it: "
            f"`htfl-sim {hs.folders.continues(folder)} {folder.name}`."
        )
    _ask_to_go_on(folder)


def _ask_to_go_on(folder: Path) -> None:
    with Ticker() as watch:
        reply = hs.steering.resume(folder, watch=watch)
    steer.report(reply, as_json=False)


def _go_on(folder: Path, options_given: list[str]) -> None:
    """Resume a live session if it is paused. Raises Locked otherwise."""
    who, state, name = *hs.steering.owner_of(folder), hs.folders.typed(folder)
    if state not in ("paused", "pausing"):
        raise hs.errors.Locked(
            f"{folder} is in use by {who}: it is {state} and needs no resume. See how far it is with "
            f"`htfl-sim show {name}`. If that machine is dead, add --steal."
        )
    if options_given:
        raise hs.ConfigError(
            f"{folder} is only paused, by {who}. {', '.join(options_given)} needs a restart: leave that out, "
            f"or stop it first: `htfl-sim stop {name}`. To change settings, use `htfl-sim switch {name}`."
        )
    _ask_to_go_on(folder)
