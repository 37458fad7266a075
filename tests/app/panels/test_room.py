"""What the Live panel gives its room to: what varies."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simulator.results.analysis.ledger import Ledger
from tests import sessions
from tests.app.panels.stage import on_stage, read
from tui.app.view import View


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> View:
    """A hundred clients."""
    folder = tmp_path_factory.mktemp("crowd")
    return View(read(sessions.make(folder / "hundred", rounds=6, clients=100)), sessions_dir=folder)


def shares(view: View, size: tuple[int, int]) -> dict[str, float]:
    """The share of the screen that each part of the panel has."""
    found: dict[str, float] = {}

    async def measure(pilot: Any, panel: Any) -> None:
        found.update({name: part.region.area / (size[0] * size[1]) for name, part in panel._parts.items()})

    on_stage("live", view, measure, size=size)
    return found


@pytest.mark.long
def test_with_a_hundred_clients_accuracy_has_a_third_of_the_screen(crowd: View) -> None:
    assert min(shares(crowd, size)["accuracy"] for size in ((80, 24), (120, 40), (200, 60))) >= 1 / 3


@pytest.mark.long
def test_with_a_hundred_clients_every_map_says_where_it_shows_means(crowd: View) -> None:
    _, similarity = on_stage("similarity", crowd, size=(200, 60), glyphs="ascii")
    assert "rows are means of 1-2 clients" in similarity
    _, live = on_stage("live", replace(crowd, chart=2), size=(200, 60), glyphs="ascii")
    assert "rows are means of 2-3 clients" in live and "cells are means of 5-6 x 1-2 clients" in live


@pytest.mark.long
def test_the_matrix_has_what_a_few_clients_leave_and_little_before_it_is_measured(
    at_home: Path, crowd: View
) -> None:
    few = View(read(at_home / "main"), sessions_dir=at_home)
    bare = replace(crowd, run=read(sessions.make(crowd.library / "bare", rounds=2, clients=100, cka_every=0)))
    for_few, for_many, unmeasured = (shares(each, (200, 60)) for each in (few, crowd, bare))
    assert for_few["similarity"] > 2 * for_few["clients"]
    assert for_many["similarity"] == pytest.approx(for_many["clients"], rel=0.1)
    assert unmeasured["similarity"] < unmeasured["clients"] / 5


@pytest.mark.long
@pytest.mark.parametrize("panel", ["clients", "cost"])
def test_a_table_of_few_clients_leaves_the_room_it_does_not_need_to_the_charts(
    panel: str, at_home: Path, crowd: View
) -> None:
    seen: list[int] = []

    async def measure(pilot: Any, shown: Any) -> None:
        seen.append(shown._parts["clients"].region.height)

    for view in (View(read(at_home / "main"), sessions_dir=at_home), crowd):
        on_stage(panel, view, measure, size=(200, 60))
    assert seen[0] == (
        10 + 2 if panel == "clients" else 16 + 2
    )  # a line for each client or fact, title and header
    assert seen[1] >= 24


@pytest.mark.long
def test_traffic_that_is_the_same_in_every_round_gives_way_to_the_loss(at_home: Path, crowd: View) -> None:
    varying = View(read(at_home / "main"), sessions_dir=at_home)  # client 3 misses every fourth round
    _, text = on_stage("live", varying)
    assert "22.8 MiB up, 22.8 MiB down in total" in text
    steady = View(
        read(sessions.make(crowd.library / "steady", rounds=3, clients=4)), sessions_dir=crowd.library
    )
    app, text = on_stage("live", steady)
    assert "training loss; 479.2 KiB up and down per round" in text  # 4 × 122,680 bytes
    losses = [record["loss"]["mean"] for record in steady.run.records]
    assert app.panel._trend.figure.series[0].y.tolist() == pytest.approx(losses)  # type: ignore[attr-defined]
    _, text = on_stage("cost", steady, size=(200, 60))
    assert "total bytes; 479.2 KiB up and down per round" in text and "bytes per round" not in text


def alone(folder: Path, losses: bool = True) -> View:
    """Four clients that send nothing, and whose losses may be unknown."""
    run, nobody = read(sessions.make(folder / "alone", rounds=3, clients=4, method="standalone")), [0] * 4
    totals: dict[str, Any] = dict.fromkeys(("up", "down", "up_total", "down_total"), 0)
    traffic = {**totals, "per_client_up": nobody, "per_client_down": nobody, "by_tensor": {}}
    records: list[Any] = [{**record, "bytes": traffic} for record in run.records]
    if not losses:
        records = [{**each, "loss": {"mean": None, "per_client": [None] * 4}} for each in records]
    return View(replace(run, ledger=Ledger.of(records)), sessions_dir=folder)


@pytest.mark.long
def test_of_a_method_that_sends_nothing_there_is_no_chart_of_bytes(tmp_path: Path) -> None:
    seen: list[str] = []

    async def go_round(pilot: Any, panel: Any) -> None:
        for _ in range(4):
            seen.append(pilot.app.text())
            panel.action_unit()
            await pilot.pause()

    on_stage("cost", alone(tmp_path), go_round, size=(80, 24))
    charts = (
        "seconds per round",
        "accuracy over FLOPs",
        "accuracy over seconds",
        "peak memory of the process",
    )
    for text, chart in zip(seen, charts, strict=True):
        assert f"{chart}; standalone sends nothing" in text and "bytes" not in text


@pytest.mark.long
def test_live_shows_the_loss_of_a_method_that_sends_nothing(tmp_path: Path) -> None:
    assert "training loss; standalone sends nothing" in on_stage("live", alone(tmp_path))[1]
    assert "standalone sends nothing." in on_stage("live", alone(tmp_path / "b", losses=False))[1]


@pytest.mark.long
def test_the_title_of_accuracy_names_its_mode_where_it_fits_whole(crowd: View) -> None:
    _, narrow = on_stage("live", replace(crowd, chart=2), size=(120, 40))
    assert re.match(r"─accuracy .+, best \d\d\.\d % \(r6\)──", narrow)
    _, wide = on_stage("live", replace(crowd, chart=2), size=(200, 60))
    assert "(r6), 1 diverged in 1 round; clients × rounds──" in wide.splitlines()[0]
