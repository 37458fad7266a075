"""The Learning panel: the partition, and t-SNE of a round with all that may stand in its way."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simulator.results.inspection.client_samples import ClassSample, ClientSamples, FeatureMean
from tests import sessions
from tests.app.panels.stage import doing, on_stage, read
from tui.app.panels.data_features import gone, sample_table
from tui.app.view import Embeddings, SamplesRead, View, Wanted, session_of


@pytest.fixture
def view(at_home: Path) -> View:
    """A session of 20 rounds, of which 10, 15 and 20 are kept."""
    return View(read(at_home / "main"), client=0, sessions_dir=at_home)


def drawn(view: View, *rounds: int, **more: Any) -> View:
    """The same with t-SNE of these rounds."""
    found = {(session_of(view.run), round): sessions.embedding(10, round) for round in rounds}
    return replace(view, embeddings=Embeddings(found, **more))


def instead(view: View) -> str:
    """What is said in place of the picture."""
    app, _ = on_stage("data", view)
    return str(app.panel._plane._said)


@pytest.mark.long
def test_the_partition_shows_who_holds_which_classes(view: View) -> None:
    async def move(pilot: Any, panel: Any) -> None:
        panel._map.focus()
        await pilot.press("right", "right")
        seen.append(pilot.app.text())
        panel.show(replace(view, client=4))
        await pilot.press("down", "down")

    seen = list[str]()
    app, text = on_stage("data", view, move)
    assert "training samples: 10 classes × 10 clients" in seen[0]
    assert "class 0 × client 1 cnn2: 11\n" in seen[0]  # 4 + 7 of client 1
    assert 1 in app.selected
    assert "class 2 × client 4 cnn5: " in text  # in the column of the client selected


@pytest.mark.long
def test_the_first_line_says_what_was_read(view: View) -> None:
    report = {
        "samples": 1_234, "test": 0, "classes": {"a": 1_000, "b": 234}, "domains": {}, "clients": {}, "notes": [],
        "features": {"x": 0, "s": 3}, "left_out": {"id": "data.ignore names it"}, "warnings": ["Column 'n' is odd."],
    }  # fmt: skip
    document = {**view.run.document, "read": report}
    _, text = on_stage("data", replace(view, run=replace(view.run, document=document)))
    assert "read: 1,234 samples, 2 classes, 2 features, left out: id; Column 'n' is odd." in text


@pytest.mark.long
def test_an_older_session_has_no_line_on_what_was_read_and_says_who_counts(at_home: Path) -> None:
    _, text = on_stage("data", View(read(at_home / "base"), sessions_dir=at_home))
    assert "htfl-sim partition base counts them" in text and "read: " not in text


@pytest.mark.long
def test_t_asks_for_the_picture_to_stop_it_or_to_try_again(view: View) -> None:
    assert on_stage("data", view)[0].posted == []  # nothing is computed before it is asked for
    own, why = session_of(view.run), "main: its clients' features differ in width (84, 120)."
    for each, said, wanted in (
        (view, "Press t to draw a t-SNE of the models' features after round 20", 20),
        (drawn(view, under_way=(own, 19)), "Computing t-SNE of round 19.", 19),
        (replace(view, embeddings=Embeddings({(own, 20): why})), f"{why}\n\nPress t to try again.", 20),
        (
            replace(view, embeddings=Embeddings({("another", 20): sessions.embedding(10, 20)})),
            "Press t to draw a t-SNE",
            20,
        ),
    ):
        app, _ = on_stage("data", each, ["embed"])
        assert str(app.panel._plane._said).startswith(said)
        assert app.posted == [Wanted("embeddings", wanted)]


@pytest.mark.long
def test_a_round_whose_checkpoint_is_gone_says_what_can_be_done(view: View) -> None:
    earlier = replace(view, round=7)
    app, _ = on_stage("data", earlier, ["embed"])
    said = instead(earlier)
    assert said.startswith("The checkpoint of round 7 is gone, and the models with it.")
    assert "Rounds 10, 15, 20 can be computed. Press [ or ] to go there." in said
    assert "Press f to fork a session that computes this round again." in said
    assert app.posted == []
    assert (
        gone(replace(earlier, run=replace(view.run, checkpoints=()))).count("No other checkpoint is left.")
        == 1
    )


def test_the_round_shown_is_drawn_and_live_the_newest_that_is_kept(view: View) -> None:
    assert replace(view, round=15).kept == 15
    assert replace(view, round=17).kept is None
    sparse = replace(view, run=replace(view.run, checkpoints=(0, 5, 10)))
    assert sparse.kept == 10
    assert replace(sparse, run=replace(view.run, checkpoints=(0,))).kept is None


@pytest.mark.long
def test_the_picture_shown_is_the_last_one_up_to_the_round_and_names_its_own(view: View) -> None:
    several = drawn(view, 10, 20)
    seen = {round: on_stage("data", replace(several, round=round))[1] for round in (20, 15, 12)}
    assert "t-SNE after round 20, by class─" in seen[20]
    assert "t-SNE after round 10, by class; press t for round 15" in seen[15]
    assert "t-SNE after round 10, by class; round 12 has no checkpoint" in seen[12]
    assert instead(replace(several, round=9)).startswith("The checkpoint of round 9 is gone")


@pytest.mark.long
def test_of_very_many_clients_it_says_how_many_are_drawn(view: View) -> None:
    thousands = replace(
        view.run, config={**view.run.config, "federation": {"clients": 5_000, "group": "htm5"}}
    )
    crowd = replace(view, run=thousands)
    assert "up to 15 of each of 100 sampled clients" in instead(crowd)
    _, text = on_stage("data", drawn(crowd, 20))
    assert "t-SNE after round 20, by class; sample of 100 clients" in text


@pytest.mark.long
def test_points_are_named_by_class_by_client_and_of_the_client_selected_alone(view: View) -> None:
    chosen, seen = replace(drawn(view, 20), client=3), list[str]()
    on_stage("data", chosen, doing(*["colours"] * 3, each=lambda panel: seen.append(panel.app.text())))
    by_client, alone, by_class = seen
    assert "[k] prototype of class k  0   1   2" in by_class and "[7]" in by_class
    assert "t-SNE after round 20, by client─" in by_client and "3 cnn4  4 cnn5" in by_client
    assert "t-SNE after round 20, client 3 by class─" in alone and "·" in alone


@pytest.mark.long
def test_the_file_has_the_points_or_while_there_are_none_the_partition(view: View) -> None:
    app, _ = on_stage("data", view)
    columns, rows = app.panel.table(view)
    assert columns == ["client", "class", "train"] and rows[10] == [1, "0", 11]
    columns, rows = app.panel.table(drawn(view, 20))
    assert columns == ["round", "x", "y", "class", "client", "what"]
    assert len(rows) == 130 and rows[0][3:] == ["0", 0, "image"] and rows[-1][3:] == ["9", None, "prototype"]


@pytest.mark.long
def test_where_clients_are_many_the_partition_has_the_whole_width(view: View) -> None:
    crowd = replace(view.run, config={**view.run.config, "federation": {"clients": 60, "group": "htm5"}})
    first = on_stage("data", replace(view, run=crowd), size=(80, 24))[1].splitlines()[0]
    assert "10 classes" in first and "t-SNE" not in first


# Samples of the client selected


def with_samples(view: View, *clients: int, **more: Any) -> View:
    """The same with a text of the class "a" of these clients."""
    found: dict[tuple[str, int], ClientSamples | str] = {
        (session_of(view.run), client): ClientSamples(
            client, "tokens", (ClassSample(0, "a", 10 + client, f"to be⏎{client}"),)
        )
        for client in clients
    }
    return replace(view, samples=SamplesRead(found, **more))


@pytest.mark.long
def test_i_reads_the_samples_of_the_client_selected(view: View) -> None:
    own = session_of(view.run)
    failed = replace(view, samples=SamplesRead({(own, 0): "There are no data."}))
    for each, said, posted in (
        (replace(view, client=3), "client 3 cnn4: samples before round 1", [Wanted("samples", client=3)]),
        (with_samples(view, under_way=own), "Reading the samples of client 0.", []),
        (failed, "There are no data.", [Wanted("samples", client=0)]),
    ):
        app, text = on_stage("data", each, ["samples"])
        assert app.posted == posted and said in " ".join(text.split()) and "t-SNE" not in text

    assert "Press i to try again." in text

    async def then_another(pilot: Any, panel: Any) -> None:
        await doing("samples")(pilot, panel)
        panel.show(replace(with_samples(view, 0), client=5))

    _, text = on_stage("data", with_samples(view, 0), then_another)
    assert "Press i to read the samples of client 5." in text


@pytest.mark.long
def test_the_samples_of_the_client_selected_are_beside_the_partition(view: View) -> None:
    chosen, glyphs = replace(with_samples(view, 2, 3), client=3), ("braille", "ascii")
    for size, end, used in zip(((80, 24), (200, 60)), "⏎/", glyphs, strict=True):
        app, text = on_stage("data", chosen, ["samples"], size=size, glyphs=used)  # type: ignore[arg-type]
        assert app.posted == [] and f"a 13  to be{end}3" in text and f"to be{end}2" not in text
        assert text.isascii() or used != "ascii"


@pytest.mark.long
def test_the_same_key_leads_back_and_so_do_those_of_the_plane(view: View) -> None:
    seen = list[bool]()
    steps = ("samples", "samples", "samples", "embed")
    there_and_back = doing(*steps, each=lambda panel: seen.append("t-SNE" in panel.app.text()))
    app, _ = on_stage("data", with_samples(view, 0), there_and_back)
    assert seen == [False, True, False, True]
    assert app.posted == [Wanted("embeddings", 20)]


@pytest.mark.long
def test_the_file_has_the_samples_that_are_shown(view: View) -> None:
    told = with_samples(view, 0)
    seen = list[Any]()
    on_stage("data", told, doing("samples", each=lambda panel: seen.append(panel.table(told))))
    assert seen == [(["client", "class", "train", "text"], [[0, "a", 10, "to be⏎0"]])]
    means = ClientSamples(4, "table", (), features=(FeatureMean("age", 71.0, 40.0, 1.5),))
    assert sample_table(means)[1] == [[4, "age", 71.0, 40.0, 1.5]]
