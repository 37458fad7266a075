"""Draws every picture under docs/images: `make pictures`. Sessions in build/pictures are used again."""

import asyncio
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import htfl_sim as hs
from htfl_sim.comparing import Kind
from tui.app.app import HtflApp
from tui.app.panels.sessions import SessionList
from tui.app.runs import LaunchOptions

ROOT = Path(__file__).parents[1]
IMAGES, WORK = ROOT / "docs" / "images", ROOT / "build" / "pictures"
DATA = Path("data")
METHODS = ("standalone", "fedgh", "fedproto", "fedlora")
MUS, WIDTHS, ALPHAS = (0.5, 0.7, 0.9), (30, 60), (0.1, 0.5, 5.0)


def train() -> None:
    """Train what is missing in sessions/, whose sessions the screens show, and in small/."""

    def run(name: str, rounds: int, method: str = "fedlora", **settings: Any) -> None:
        config = hs.preset("quickstart", rounds=rounds, method=method)
        config = config.with_(**{"training__epochs": 1, "cka__every": 0, **settings})
        hs.run(config, Path(name), data_dir=DATA, allow_inexact=True).close()

    run("sessions/digits", 20, training__epochs=2, cka__every=2)
    if not Path("sessions/digits-fedssa").exists():
        hs.fork("sessions/digits", "sessions/digits-fedssa", 10, method="fedssa", data_dir=DATA).close()
    hs.resume("sessions/digits-fedssa", data_dir=DATA, allow_inexact=True).run().close()
    short = hs.preset("quickstart", rounds=8).with_(training__epochs=2)
    hs.sweep("sessions/t3", short, {"method": METHODS, "seed": range(2)}, jobs=2, data_dir=DATA)
    tuned = ["standalone", "fedgh"]
    hs.tune("t4", tuned, preset="quickstart", budget=4, seeds=(0,), rounds=3, jobs=2, data_dir=DATA)
    run("small/crowd", 40, "fedavg", federation__clients=400, federation__group="cnn5",
        federation__participation=0.1, data__partition="iid", data__min_samples=1, data__split="global",
        training__epochs=5, training__batch_size=4, training__lr=0.05)  # fmt: skip
    run("small/fedl2g_f-s0", 6, "fedl2g_f")
    run("small/inco_avg-s0", 4, "inco_avg", federation__group="inco_resnet_narrow", cka__every=1)
    run("small/deadline", 5, "fedavg", federation__clients=12, federation__group="cnn5",
        system__devices={"phone": 0.5, "laptop": 0.5}, system__schedule="deadline",
        system__deadline_quantile=0.7)  # fmt: skip
    for mu, hidden in product(MUS, WIDTHS):
        run(f"small/grid-{mu}-{hidden}", 3, method__mu=mu, method__hidden=hidden)
    for alpha, method in product(ALPHAS, METHODS):
        run(f"small/alpha{alpha}-{method}", 3, method, data__alpha=alpha)


FIGURES: dict[str, tuple[Kind, list[str], dict[str, Any]]] = {
    "accuracy": ("accuracy", ["t3"], {"by": ["method"]}),
    "accuracy-bytes": ("accuracy", ["t3"], {"by": ["method"], "x": "bytes"}),
    "box": ("box", ["t3"], {"by": ["method"]}),
    "tradeoff": ("tradeoff", ["t3/fed*"], {"by": ["method"]}),
    "pareto": ("pareto", ["t3"], {"by": ["method"]}),
    "gain-map": ("gain-map", ["t3"], {"by": ["method"]}),
    "gain-clients": ("gain-clients", ["t3"], {"by": ["method"]}),
    "critical-difference": ("critical-difference", ["alpha*"], {"by": ["method"]}),
    "tuning": ("tuning", ["t4"], {}),
    "timeline": ("timeline", ["deadline"], {"rounds": 4}),
    "loss": ("loss", ["t3"], {"by": ["method"]}),
    "metrics": ("metrics", ["fedl2g_f-s0"], {}),
    "partition": ("partition", ["t3/fedlora-s0"], {}),
    "tsne": ("tsne", ["t3/fedproto-s0"], {}),
    "tsne-fedl2g": ("tsne", ["fedl2g_f-s0"], {}),
    "cka": ("cka", ["inco_avg-s0"], {}),
    "cka-curves": ("cka-curves", ["inco_avg-s0"], {}),
    "inco": ("inco", ["inco_avg-s0"], {}),
    "sensitivity": ("sensitivity", ["grid-*"], {"axis": "method.mu", "by": ["method.hidden"]}),
    "heatmap": ("heatmap", ["grid-*"], {"axes": ["method.mu", "method.hidden"]}),
}
"""By the end of its file's name, the kind of each figure, its sessions, and its options."""


@dataclass(frozen=True)
class Screen:
    """A screenshot: the folder of the session to open, the keys to press, and whether the screen is complete."""

    session: str
    keys: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    complete: Callable[[HtflApp], bool] = lambda app: True


SCREENS = {
    "live": Screen("sessions/digits-fedssa", ("p",)),
    "compare": Screen("sessions/digits-fedssa", ("v",), ("digits-fedssa", "digits")),
    "data-features": Screen(
        "sessions/t3/fedproto-s0", ("7", "t"), complete=lambda app: bool(app.view.embeddings.of(app.view.run))
    ),
    "similarity": Screen("sessions/digits-fedssa", ("3", "d")),
    "sessions": Screen("sessions/digits", ("s",)),
    "many-clients": Screen("small/crowd"),
}


async def shoot(screen: Screen) -> str:
    """The SVG of a screen of 120×40 cells."""
    opened = Path(screen.session)
    app = HtflApp(LaunchOptions(Path(opened.parts[0]), DATA), opened)
    async with app.run_test(size=(120, 40)) as pilot:

        async def until(condition: Callable[[], bool]) -> None:
            while not condition():
                await pilot.pause(0.1)
            await pilot.pause(0.5)

        await until(lambda: app.view.run.round > 0 and app.view.run.round == app.view.run.rounds)
        for session in screen.marked:
            await pilot.press("s")
            listed = app.query_one("#sessions SessionList", SessionList)
            await until(lambda: listed.found is not None and len(listed.rows) > len(screen.marked))  # noqa: B023
            listed.put_cursor(Path("sessions", session))
            await pilot.press("x")
        for key in screen.keys:
            await pilot.press(key)
        await until(lambda: screen.complete(app))
        for listed in app.query(SessionList):
            if listed.is_on_screen:
                await until(lambda: len(listed.sketches) == len(listed.found or ()) > 0)  # noqa: B023
        return app.export_screenshot(title=f"htfl-sim · {app.view.run.name}", simplify=True)


def main() -> None:
    WORK.mkdir(parents=True, exist_ok=True)
    os.chdir(WORK)
    os.environ["COLORTERM"] = "truecolor"
    warnings.simplefilter("ignore")
    train()
    for name, (kind, sessions, options) in FIGURES.items():
        out, home = IMAGES / f"plot-{name}.png", "sessions" if sessions[0].startswith("t") else "small"
        hs.plot(kind, sessions, out, sessions_dir=home, data_dir=DATA, say=print, **options)
    for name, screen in SCREENS.items():
        (IMAGES / f"{name}.svg").write_text(asyncio.run(shoot(screen)), encoding="utf-8")


if __name__ == "__main__":
    main()
