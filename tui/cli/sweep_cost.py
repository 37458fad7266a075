"""`htfl-sim sweep --dry-run`: the points of a study and their cost."""

from typing import TYPE_CHECKING

import htfl_sim as hs
from tui.cli import output
from tui.common.formatting import amount, duration

if TYPE_CHECKING:
    from htfl_sim.studies import Plan


def show(planned: "Plan", data_dir: str | None, as_json: bool) -> None:
    """Print the remaining cost of every point, and the total."""
    name = planned.folder.name
    output.say("counting a round's operations of every kind of point, and timing one")
    found = hs.studies.cost(planned, data_dir)
    axes = {point.name: point.axes for point in planned.points}
    seconds, flops = sum(cost.seconds for cost in found), sum(cost.flops for cost in found)
    if as_json:
        points = [
            {
                "point": f"{name}/{cost.name}",
                "axes": axes[cost.name],
                "rounds": cost.rounds,
                "flops": cost.flops,
                "seconds": cost.seconds,
            }
            for cost in found
        ]
        output.emit(
            {"study": name, "notes": planned.caveats(), "points": points, "flops": flops, "seconds": seconds}
        )
        return
    rows = (
        [f"{name}/{cost.name}", cost.rounds, amount(cost.flops), duration(cost.seconds)] for cost in found
    )
    output.show(
        *planned.caveats(),
        output.table(["point", ">rounds left", ">FLOPs", ">about"], rows),
        f"{len(found)} points, {amount(flops)} floating-point operations of training: about {duration(seconds)} "
        "on this machine, one after the other.",
    )
