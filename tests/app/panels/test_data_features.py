"""The Data & features panel: the partition, t-SNE, samples, and recall by class with counts that one can work out."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.base.record import Record
from simulator.results.analysis.gain import Pair, Partners
from simulator.results.analysis.ledger import Ledger
from simulator.results.analysis.run import Samples, SessionData
from simulator.results.inspection.client_samples import ClassSample, ClientSamples, FeatureMean
from tests import sessions
from tests.app.panels.stage import after_each, on_stage, read, settle, staged, take
from tui.app.panels import data_features as data
from tui.app.panels.data_features import CHANGE, GAIN, RECALL, gone, sample_table
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
async def test_the_partition_shows_who_holds_which_classes(view: View) -> None:
    async with staged("data", view) as (app, pilot):
        app.panel._map.focus()
        await pilot.press("right", "right")
        assert "training samples: 10 classes × 10 clients" in app.text()
        assert "class 0 × client 1 cnn2: 11\n" in app.text()  # 4 + 7 of client 1
        app.panel.show(replace(view, client=4))
        await pilot.press("down", "down")
        assert "class 2 × client 4 cnn5: " in await settle(pilot)  # in the column of the client selected
        assert 1 in app.selected


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
    another = Embeddings({("another", 20): sessions.embedding(10, 20)})
    assert on_stage("data", view)[0].posted == []  # nothing is computed before it is asked for
    own, why = session_of(view.run), "main: its clients' features differ in width (84, 120)."
    for each, said, wanted in (
        (view, "Press t to draw a t-SNE of the models' features after round 20", 20),
        (drawn(view, under_way=(own, 19)), "Computing t-SNE of round 19.", 19),
        (replace(view, embeddings=Embeddings({(own, 20): why})), f"{why}\n\nPress t to try again.", 20),
        (replace(view, embeddings=another), "Press t to draw a t-SNE", 20),
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
    assert "No other checkpoint is left." in gone(replace(earlier, run=replace(view.run, checkpoints=())))


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
    chosen = replace(drawn(view, 20), client=3)
    by_client, alone, by_class = after_each("data", chosen, ["colours"] * 3, lambda panel: panel.app.text())
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
    found: dict[tuple[str, int], ClientSamples | str] = {}
    for client in clients:
        held = (ClassSample(0, "a", 10 + client, f"to be⏎{client}"),)
        found[session_of(view.run), client] = ClientSamples(client, "tokens", held)
    return replace(view, samples=SamplesRead(found, **more))


@pytest.mark.long
async def test_i_reads_the_samples_of_the_client_selected(view: View) -> None:
    own = session_of(view.run)
    failed = replace(view, samples=SamplesRead({(own, 0): "There are no data."}))
    for each, said, posted in (
        (replace(view, client=3), "client 3 cnn4: samples before round 1", [Wanted("samples", client=3)]),
        (with_samples(view, under_way=(own, 0)), "Reading the samples of client 0.", []),
        (failed, "There are no data.", [Wanted("samples", client=0)]),
    ):
        async with staged("data", each) as (app, pilot):
            await take(pilot, "samples")
            text = await settle(pilot)
            assert app.posted == posted and said in " ".join(text.split()) and "t-SNE" not in text
    assert "Press i to try again." in text
    async with staged("data", with_samples(view, 0)) as (app, pilot):
        await take(pilot, "samples")
        app.panel.show(replace(with_samples(view, 0), client=5))
        assert "Press i to read the samples of client 5." in await settle(pilot)


@pytest.mark.long
def test_the_samples_of_the_client_selected_are_beside_the_partition(view: View) -> None:
    chosen, glyphs = replace(with_samples(view, 2, 3), client=3), ("braille", "ascii")
    for size, end, used in zip(((80, 24), (200, 60)), "⏎/", glyphs, strict=True):
        app, text = on_stage("data", chosen, ["samples"], size=size, glyphs=used)  # type: ignore[arg-type]
        assert app.posted == [] and f"a 13  to be{end}3" in text and f"to be{end}2" not in text
        assert text.isascii() or used != "ascii"


@pytest.mark.long
async def test_the_same_key_leads_back_and_so_do_those_of_the_plane(view: View) -> None:
    seen = list[bool]()
    async with staged("data", with_samples(view, 0)) as (app, pilot):
        for step in ("samples", "samples", "samples", "embed"):
            await take(pilot, step)
            seen.append("t-SNE" in app.text())
        assert seen == [False, True, False, True]
        assert app.posted == [Wanted("embeddings", 20)]


@pytest.mark.long
def test_the_file_has_the_samples_that_are_shown(view: View) -> None:
    told = with_samples(view, 0)
    seen = after_each("data", told, ["samples"], lambda panel: panel.table(told))
    assert seen == [(["client", "class", "train", "text"], [[0, "a", 10, "to be⏎0"]])]
    means = ClientSamples(4, "table", (), features=(FeatureMean("age", 71.0, 40.0, 1.5),))
    assert sample_table(means)[1] == [[4, "age", 71.0, 40.0, 1.5]]


HELD = 6
"""Test samples of a client of each of its classes. It lacks every third class."""
Correct = Callable[[int, int, int], int]


def counted(run: SessionData, correct: Correct, clients: int = 10, classes: int = 10) -> SessionData:
    """The same session with counts by class. correct: of a round, a client, and a class that it has.

    Of a class that it lacks, a client answers one sample wrongly.
    """

    def row(round: int, client: int, label: int) -> list[int]:
        if (client + label) % 3 == 0:
            return [label, 0, 0, 1]
        hits = correct(round, client, label)
        return [label, HELD, hits, hits + 1]

    records = list[Record]()
    for record in run.records:
        rows = [
            [row(record["round"], client, label) for label in range(classes)] for client in range(clients)
        ]
        figure = {"mean": 0.5, "weighted": 0.5, "per_client": [0.5] * clients}
        part: Any = {"accuracy": figure, "loss": figure, "f1": figure, "classes": {"per_client": rows}}
        records.append({**record, "evaluation": {"test": part}})
    return replace(run, ledger=Ledger.of(records))


def own(round: int, client: int, label: int) -> int:
    """Half of the samples. In round 20, one more of class 4, one less of class 7, and all of client 1's class 0."""
    if round < 20:
        return 3
    return HELD if (client, label) == (1, 0) else {4: 4, 7: 2}.get(label, 3)


def alone(round: int, client: int, label: int) -> int:
    """Under Standalone, clients know half of each class, and all of class 2."""
    return HELD if label == 2 else 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sessions")
    sessions.make(folder / "main", rounds=20, samples=sessions.samples(10))
    sessions.make(folder / "base", rounds=18, method="standalone", cka_every=0, samples=sessions.samples(10))
    return folder


@pytest.fixture(scope="module")
def counts(folder: Path) -> View:
    """A session with counts and its partner, which ends after round 18."""
    run = read(folder / "main")
    partner = Partners().find(run, folder)[0]
    other = counted(read(partner.folder), alone)
    return View(counted(run, own), client=0, sessions_dir=folder, pair=Pair(run.folder, partner, other))


def shown(counts: View, mode: int) -> Any:
    """What a mode shows: a ClassMap, or the sentence in its place."""
    samples = Samples.of(counts.run)
    assert samples is not None
    return data.class_map(counts, mode, samples)


# What it says


def test_recall_names_the_classes_that_are_recognized_most_and_least(counts: View) -> None:
    """Of class 0 clients 1, 2, 4, 5, 7, and 8 hold 36 samples: 6 + 5 · 3 = 21. Classes 4: 7 · 4 of 42. 7: 14 of 42."""
    found = shown(counts, RECALL)
    assert data.most(found, 200) == (
        "Highest recall: 4 (66.7 %, 28 of 42 samples), 0 (58.3 %, 21 of 36 samples); "
        "lowest: 7 (33.3 %, 14 of 42 samples), 9 (50.0 %, 18 of 36 samples)"
    )
    assert data.most(found, 60) == "Highest recall: 4 (66.7 %); lowest: 7 (33.3 %)"


def test_a_change_is_since_the_round_before_and_has_its_counts(counts: View) -> None:
    """Class 4: 21 to 28 of 42, +16.7 pp. Class 0: 18 to 21 of 36, +8.3 pp. Class 7: 21 to 14 of 42."""
    found = shown(counts, CHANGE)
    assert (found.round, found.against) == (20, "round 19")
    assert data.most(found, 200) == (
        "Classes gained most: 4 (+16.7 pp: 21 to 28 of 42 samples), 0 (+8.3 pp: 18 to 21 of 36 samples); "
        "lost most: 7 (−16.7 pp: 21 to 14 of 42 samples)"
    )
    assert data.most(found, 60) == "Gained: 4 (+16.7 pp, 28 of 42); lost: 7 (−16.7 pp, 14 of 42)"
    assert data.most(found, 40) == "Gained: 4 (+16.7 pp); lost: 7 (−16.7 pp)"
    assert data.summary(found, 200) == "2 of 10 classes gained, 1 lost, over all clients, against round 19"


def test_a_change_can_be_since_the_round_under_the_crosshair(counts: View) -> None:
    for round, at, against in ((None, 12.0, 12), (None, 20.0, 19), (9, 12.0, 8)):
        there = replace(counts, round=round, crosshair=("rounds", at))
        assert shown(there, CHANGE).against == f"round {against}"
    assert data.most(shown(replace(counts, round=10), CHANGE), 200) == "No class gained or lost."


def test_the_gain_is_over_the_partner_in_the_last_round_that_both_have(counts: View) -> None:
    """In round 18, clients know half of class 2, and all of it under Standalone: 21 and 42 of 42 samples."""
    found = shown(counts, GAIN)
    assert (found.round, found.against) == (18, "standalone (base)")
    assert data.most(found, 200) == (
        "Classes gained most: none; lost most: 2 (−50.0 pp: 42 to 21 of 42 samples)"
    )


def test_a_cell_has_its_counts(counts: View) -> None:
    recall, change = shown(counts, RECALL), shown(counts, CHANGE)
    assert data.cell(recall, 1, 0, 200) == ("Client 1, class 0: 6 of 6 samples; answered 7 times, 1 wrong")
    assert data.cell(change, 1, 0, 200) == (
        "Client 1, class 0: 3 of 6 to 6 of 6 samples; wrong answers 1 to 1"
    )
    assert data.cell(change, 1, 0, 20) == "3 of 6 to 6 of 6 samples"
    assert data.cell(recall, 3, 0, 200) == "Client 3, class 0: no test samples; answered once"


def test_one_class_with_enough_samples_is_not_ranked_alone(counts: View) -> None:
    """Class 4 has 42 samples, and the others have the 6 of client 1, with the gain of class 0."""
    found = shown(counts, CHANGE)
    mostly = (np.arange(10)[:, None] == 1) | (np.arange(10)[None] == 9)
    few = replace(found, now=found.now.only(mostly), before=found.before.only(mostly))
    assert [each.label for each in few.changes if each.now.samples >= 20] == [9]
    assert data.most(few, 200).startswith("Classes gained most: 0 (")


# What stands in its way


def test_sessions_without_counts_say_how_to_get_them(folder: Path, counts: View) -> None:
    old = View(read(folder / "main"), sessions_dir=folder)
    assert shown(old, RECALL).startswith("Round 20 has no counts of answers by class.")
    assert "press m and set evaluation.classes to true" in shown(old, CHANGE)
    assert shown(old, GAIN).startswith("No session here has the same clients under Standalone.")
    assert shown(replace(counts, round=1), CHANGE).startswith("No earlier round has counts")
    assert shown(replace(counts, round=0), RECALL) == data.NO_RECALL
    pair = counts.pair
    assert pair is not None
    bare = replace(counts, pair=replace(pair, other=read(folder / "base")))
    assert shown(bare, GAIN).startswith("base has no counts of answers by class in round 18. Press A")
    base = View(counted(read(folder / "base"), alone), sessions_dir=folder)
    assert shown(base, GAIN).startswith("This session is Standalone itself.")


# On screen


@pytest.mark.long
def test_y_shows_one_after_the_other_and_then_the_samples(counts: View) -> None:
    seen = after_each("data", counts, ["chart"] * 4, lambda panel: panel.app.text().splitlines()[0])
    for said, caption in zip(
        ("recall by class, round 20", "change in recall, round 19 to 20",
         "gain in recall, round 18, over standalone", "training samples: 10 classes"), seen, strict=True,
    ):  # fmt: skip
        assert said in caption


def test_below_the_map_are_the_classes_and_the_cell_under_the_cursor(counts: View) -> None:
    app, text = on_stage("data", counts, ["chart", "chart", "tab", "right", "right"])
    assert "Classes gained most: 4 (+16.7 pp: 21 to 28 of 42 samples); lost most: 7" in text
    assert "Client 1, class 0: 3 of 6 to 6 of 6 samples" in text
    assert "class 0 × client 1 cnn2: +50 pp" in text
    assert app.selected[-1] == 1


@pytest.mark.long
def test_it_fits_every_size(counts: View) -> None:
    for size, glyphs in (((60, 16), "ascii"), ((60, 16), "braille"), ((200, 60), "braille")):
        _, text = on_stage("data", counts, ["chart"] * 2, size=size, glyphs=glyphs)  # type: ignore[arg-type]
        lines = text.splitlines()
        assert max(map(len, lines)) <= size[0]
        assert any("4 (+16.7 pp" in line for line in lines[-2:]), text
        assert "2 of 10 classes gained, 1 lost" in lines[-1]
        assert text.isascii() or glyphs != "ascii"


@pytest.mark.long
async def test_an_earlier_round_and_the_crosshair_are_drawn_when_they_change(counts: View) -> None:
    async with staged("data", counts) as (app, pilot):
        await take(pilot, "chart", "chart")
        app.panel.show(replace(counts, crosshair=("rounds", 5.0)))
        assert "change in recall, round 5 to 20" in await settle(pilot)


@pytest.mark.long
def test_the_file_has_a_row_for_each_client_and_class(counts: View) -> None:
    columns, rows = data.class_rows(shown(counts, CHANGE))
    assert columns == [
        "round", "client", "class", "samples", "correct", "answered", "recall", "against",
        "samples before", "correct before", "change",
    ]  # fmt: skip
    assert rows[0] == [20, 0, "0", 0, 0, 1, None, "round 19", 0, 0, None]
    assert [20, 1, "0", 6, 6, 7, 1.0, "round 19", 6, 3, 0.5] in rows
    assert len(rows) == 100

    app, _ = on_stage("data", counts, ["chart"])
    assert app.panel.table(counts) == data.class_rows(shown(counts, RECALL))
