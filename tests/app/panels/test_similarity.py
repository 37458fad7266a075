"""The Similarity panel, and its matrix beside Live: pairs by name, by depth and over the rounds, and the scale."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simulator.results.analysis.ledger import least_similar
from simulator.results.analysis.run import SessionData
from tests import sessions
from tests.app.panels.stage import after_each, on_stage, read, settle, staged, take, words
from tui.app.charts.heatmap import cell_at
from tui.app.view import Similarities, View, session_of

CKA_OF_THREE = {**sessions.cka(3, 5), "clients": [1, 3, 5]}


@pytest.mark.long
def test_where_cka_was_not_measured_it_is_said_how_it_can_be(at_home: Path) -> None:
    ended = read(at_home / "begun")
    base = read(at_home / "base")
    known, key = View(base, sessions_dir=at_home), (base.document["id"], 20)
    offered = "CKA of round 20 was not measured. Press c to compute it from the checkpoint."
    for view, way in (
        (View(replace(ended, state="running"), sessions_dir=at_home), "Press c to measure it now"),
        (View(ended, sessions_dir=at_home), "Press space to resume it, then c to measure CKA."),
        (View(SessionData(Path()), sessions_dir=at_home), "No session is open"),
        (known, offered),
        (replace(known, round=7), "The checkpoint of round 7 is gone"),
        (
            replace(known, similarities=Similarities(under_way=key)),
            "Computing CKA of round 20. Press c to stop.",
        ),
        (replace(known, similarities=Similarities({key: "No data."})), "No data. Press c to try again."),
    ):
        assert way in words("similarity", view)
    assert on_stage("live", known)[0].panel._parts["similarity"]._said == offered


@pytest.mark.long
def test_a_run_that_measures_by_default_says_that_round_1_is_the_first(at_home: Path) -> None:
    begun = replace(read(at_home / "begun"), state="running")
    by_default = {**begun.config, "cka": {"every": None}}
    view = View(replace(begun, config=by_default), sessions_dir=at_home)
    said = "CKA is first measured after round 1."
    assert said in on_stage("similarity", view)[1]
    assert on_stage("live", view)[0].panel._parts["similarity"]._said == said


@pytest.mark.long
def test_what_was_computed_from_a_checkpoint_is_shown_beside_what_the_run_measured(view: View) -> None:
    kept = sorted(view.run.checkpoints)
    assert [each.round for each in view.measured] == [5, 10, 15, 20] and kept == [10, 15, 20]
    sparse = replace(view, run=replace(view.run, ledger=replace(view.run.ledger, measured=view.measured[:1])))
    assert "CKA of fc2, round 5: 0.682" in (text := on_stage("similarity", sparse)[1])
    assert "; press c for round 20" in text
    known = Similarities({(session_of(view.run), 20): view.measured[-1]})
    computed = replace(sparse, similarities=known)
    app, text = on_stage("similarity", computed)
    assert "CKA of fc2, round 20" in text and "press c" not in text
    assert list(app.panel._rounds.figure.series[0].x) == [5.0, 20.0]
    other = replace(computed, similarities=Similarities({("another session", 20): view.measured[-1]}))
    assert other.cka is not None and other.cka.round == 5


def test_a_pair_is_shown_by_name_over_rounds_and_by_depth(view: View) -> None:
    cka = view.run.ledger.whole.measured[-1]
    one, other = least_similar(cka.matrix("fc2"))[1]
    app, text = on_stage("similarity", view, ["least", "least"])
    names = " × ".join(f"{client} {view.run.models[client]}" for client in (one, other))
    assert f"{names}: {cka.matrix('fc2')[one, other]:.3f} of fc2" in text
    assert f"{names}, by depth, read at fc2" in text
    pair = app.panel._rounds.figure.series[0]
    assert list(pair.y) == [each.matrix("fc2")[one, other] for each in view.run.ledger.whole.measured]
    assert app.selected[-1] == one


@pytest.mark.long
async def test_d_begins_at_the_pair_least_alike_wherever_the_cursor_was_put_before(view: View) -> None:
    pairs = least_similar(view.run.ledger.whole.measured[-1].matrix("fc2"))
    shallow = least_similar(view.run.ledger.whole.measured[-1].matrix("conv2"))
    seen = []
    async with staged("similarity", view) as (app, pilot):
        panel = app.panel
        panel._map.put_cursor(*pairs[5])
        for steps in (
            ["least"],
            ["least"],
            ["least"],
            ["down", "least"],
            ["least"],
            ["previous", "previous", "least"],
        ):
            panel._map.focus()
            await take(pilot, *steps)
            seen.append(panel._map.cursor)
    assert seen == [*pairs[:3], *pairs[:2], shallow[0]]


@pytest.mark.long
async def test_by_depth_is_read_at_the_layer_chosen(view: View) -> None:
    cka = view.run.ledger.whole.measured[-1]
    for layers_up, pair in ((3, None), (1, (2, 6))):
        layer = cka.layers[-1 - layers_up]
        async with staged("similarity", view) as (app, pilot):
            if pair is not None:
                app.panel._map.put_cursor(*pair)
            for _ in range(layers_up):
                app.panel.action_previous()
            text = await settle(pilot)
        depth = text[text.index("by depth") : text.index("over rounds" if pair is None else f" of {layer}─")]
        assert f"read at {layer}" in depth
        value = (
            f"round 20 {cka.mean(layer):.3f}" if pair is None else f"the pair {cka.between(*pair, layer):.3f}"
        )
        assert value in depth


@pytest.mark.long
def test_the_scale_can_be_fitted_to_the_pairs_and_says_so(view: View) -> None:
    seen = after_each(
        "similarity", view, ["sort"] * 2, lambda panel: (panel._matrix.border_title, panel.app.text())
    )
    titles, (_, text) = zip(*seen, strict=True)
    assert ["similar clients adjacent" in title for title in titles] == [True, False]
    assert "round 20: 0.490, scale 0–1─" in text and "mean 0.490" in text
    _, text = on_stage("similarity", view, ["scale"])
    assert "round 20: 0.490, scale fitted: 0.132–0.799─" in text
    assert "▀▀ 0.799" in text and "▀▀ 0.132" in text


def on_cell(panel: Any, cell: tuple[int, int]) -> tuple[int, int]:
    """Where a cell of the matrix is drawn."""
    width, height = panel._map.content_size
    places = ((x, y) for x in range(width) for y in range(height))
    figure = panel._map._figure()
    return next(at for at in places if cell_at(figure, width, height, True, *at) == cell)


@pytest.mark.long
@pytest.mark.parametrize("shown", ["similarity", "live"])
async def test_the_matrix_of_clients_that_were_drawn_selects_and_follows_those(
    shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its three rows are clients 1, 3 and 5."""
    monkeypatch.setattr(sessions, "cka", lambda *_: CKA_OF_THREE)
    view = View(read(sessions.make(tmp_path / "s", rounds=5, clients=6)), sessions_dir=tmp_path)
    async with staged(shown, view) as (app, pilot):
        await pilot.click(app.panel._map, offset=on_cell(app.panel, (1, 0)))
        await pilot.pause()
        assert "client 3 cnn4 × client 1 cnn2: " in app.text()
        app.panel.show(replace(view, client=5))
        await pilot.pause()
        assert app.panel._map.cursor[0] == 2
        await settle(pilot)
        assert 3 in app.selected and 1 not in app.selected


@pytest.mark.long
def test_the_layer_keys_go_shallower_and_deeper_and_stop_at_the_ends(view: View) -> None:
    steps = ("previous", "previous", "previous", "previous", "next")
    titles = after_each("similarity", view, steps, lambda panel: panel._matrix.border_title)
    assert [title.split()[2].rstrip(",") for title in titles] == ["fc1", "conv2", "conv1", "conv1", "conv2"]
