"""The matrix of classes by client: recall, its change, and its gain, with counts that one can work out."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.base.record import Record
from simulator.results.analysis.ledger import Ledger
from simulator.results.analysis.partners import Pair, Partners
from simulator.results.analysis.run import Samples, SessionData
from tests import sessions
from tests.app.panels.stage import doing, on_stage, read
from tui.app.panels import data_features as data
from tui.app.panels.data_features import CHANGE, GAIN, RECALL, ClassMap
from tui.app.view import View

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
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sessions")
    sessions.make(folder / "main", rounds=20, samples=sessions.samples(10))
    sessions.make(folder / "base", rounds=18, method="standalone", cka_every=0, samples=sessions.samples(10))
    return folder


@pytest.fixture(scope="module")
def view(home: Path) -> View:
    """A session with counts and its partner, which ends after round 18."""
    run = read(home / "main")
    partner = Partners().find(run, home)[0]
    other = counted(read(partner.folder), alone)
    return View(counted(run, own), client=0, sessions_dir=home, pair=Pair(run.folder, partner, other))


def of_mode(view: View, mode: int) -> ClassMap | str:
    samples = Samples.of(view.run)
    assert samples is not None
    return data.class_map(view, mode, samples)


def shown(view: View, mode: int) -> ClassMap:
    found = of_mode(view, mode)
    assert isinstance(found, ClassMap)
    return found


def instead(view: View, mode: int) -> str:
    found = of_mode(view, mode)
    assert isinstance(found, str)
    return found


# What it says


def test_recall_names_the_classes_that_are_recognized_most_and_least(view: View) -> None:
    """Of class 0 clients 1, 2, 4, 5, 7, and 8 hold 36 samples: 6 + 5 · 3 = 21. Classes 4: 7 · 4 of 42. 7: 14 of 42."""
    found = shown(view, RECALL)
    assert data.most(found, 200) == (
        "Highest recall: 4 (66.7 %, 28 of 42 samples), 0 (58.3 %, 21 of 36 samples); "
        "lowest: 7 (33.3 %, 14 of 42 samples), 9 (50.0 %, 18 of 36 samples)"
    )
    assert data.most(found, 60) == "Highest recall: 4 (66.7 %); lowest: 7 (33.3 %)"


def test_a_change_is_since_the_round_before_and_has_its_counts(view: View) -> None:
    """Class 4: 21 to 28 of 42, +16.7 pp. Class 0: 18 to 21 of 36, +8.3 pp. Class 7: 21 to 14 of 42."""
    found = shown(view, CHANGE)
    assert (found.round, found.against) == (20, "round 19")
    assert data.most(found, 200) == (
        "Classes gained most: 4 (+16.7 pp: 21 to 28 of 42 samples), 0 (+8.3 pp: 18 to 21 of 36 samples); "
        "lost most: 7 (−16.7 pp: 21 to 14 of 42 samples)"
    )
    assert data.most(found, 60) == "Gained: 4 (+16.7 pp, 28 of 42); lost: 7 (−16.7 pp, 14 of 42)"
    assert data.most(found, 40) == "Gained: 4 (+16.7 pp); lost: 7 (−16.7 pp)"
    assert data.summary(found, 200) == "2 of 10 classes gained, 1 lost, over all clients, against round 19"


def test_a_change_can_be_since_the_round_under_the_crosshair(view: View) -> None:
    for round, at, against in ((None, 12.0, 12), (None, 20.0, 19), (9, 12.0, 8)):
        there = replace(view, round=round, crosshair=("rounds", at))
        assert shown(there, CHANGE).against == f"round {against}"
    assert data.most(shown(replace(view, round=10), CHANGE), 200) == "No class gained or lost."


def test_the_gain_is_over_the_partner_in_the_last_round_that_both_have(view: View) -> None:
    """In round 18, clients know half of class 2, and all of it under Standalone: 21 and 42 of 42 samples."""
    found = shown(view, GAIN)
    assert (found.round, found.against) == (18, "standalone (base)")
    assert data.most(found, 200) == (
        "Classes gained most: none; lost most: 2 (−50.0 pp: 42 to 21 of 42 samples)"
    )


def test_a_cell_has_its_counts(view: View) -> None:
    recall, change = shown(view, RECALL), shown(view, CHANGE)
    assert data.cell(recall, 1, 0, 200) == ("Client 1, class 0: 6 of 6 samples; answered 7 times, 1 wrong")
    assert data.cell(change, 1, 0, 200) == (
        "Client 1, class 0: 3 of 6 to 6 of 6 samples; wrong answers 1 to 1"
    )
    assert data.cell(change, 1, 0, 20) == "3 of 6 to 6 of 6 samples"
    assert data.cell(recall, 3, 0, 200) == "Client 3, class 0: no test samples; answered once"


def test_one_class_with_enough_samples_is_not_ranked_alone(view: View) -> None:
    """Class 4 has 42 samples, and the others have the 6 of client 1, with the gain of class 0."""
    found = shown(view, CHANGE)
    mostly = (np.arange(10)[:, None] == 1) | (np.arange(10)[None] == 9)
    assert found.before is not None
    few = replace(found, now=found.now.only(mostly), before=found.before.only(mostly))
    assert [each.label for each in few.changes if each.now.samples >= 20] == [9]
    assert data.most(few, 200).startswith("Classes gained most: 0 (")


# What stands in its way


def test_sessions_without_counts_say_how_to_get_them(home: Path, view: View) -> None:
    old = View(read(home / "main"), sessions_dir=home)
    assert instead(old, RECALL).startswith("Round 20 has no counts of answers by class.")
    assert "press m and set evaluation.classes to true" in instead(old, CHANGE)
    assert instead(old, GAIN).startswith("No session here has the same clients under Standalone.")
    assert instead(replace(view, round=1), CHANGE).startswith("No earlier round has counts")
    assert instead(replace(view, round=0), RECALL) == data.NO_RECALL
    pair = view.pair
    assert pair is not None
    bare = replace(view, pair=replace(pair, other=read(home / "base")))
    assert instead(bare, GAIN).startswith("base has no counts of answers by class in round 18. Press A")
    base = View(counted(read(home / "base"), alone), sessions_dir=home)
    assert instead(base, GAIN).startswith("This session is Standalone itself.")


# On screen


@pytest.mark.long
def test_y_shows_one_after_the_other_and_then_the_samples(view: View) -> None:
    seen = list[str]()
    on_stage(
        "data", view, doing(*["chart"] * 4, each=lambda panel: seen.append(panel.app.text().splitlines()[0]))
    )
    for said, caption in zip(
        ("recall by class, round 20", "change in recall, round 19 to 20",
         "gain in recall, round 18, over standalone", "training samples: 10 classes"), seen, strict=True,
    ):  # fmt: skip
        assert said in caption


def test_below_the_map_are_the_classes_and_the_cell_under_the_cursor(view: View) -> None:
    app, text = on_stage("data", view, ["chart", "chart", "tab", "right", "right"])
    assert "Classes gained most: 4 (+16.7 pp: 21 to 28 of 42 samples); lost most: 7" in text
    assert "Client 1, class 0: 3 of 6 to 6 of 6 samples" in text
    assert "class 0 × client 1 cnn2: +50 pp" in text
    assert app.selected[-1] == 1


@pytest.mark.long
def test_it_fits_every_size(view: View) -> None:
    for size, glyphs in (((60, 16), "ascii"), ((60, 16), "braille"), ((200, 60), "braille")):
        _, text = on_stage("data", view, ["chart"] * 2, size=size, glyphs=glyphs)  # type: ignore[arg-type]
        lines = text.splitlines()
        assert max(map(len, lines)) <= size[0]
        assert any("4 (+16.7 pp" in line for line in lines[-2:]), text
        assert "2 of 10 classes gained, 1 lost" in lines[-1]
        assert text.isascii() or glyphs != "ascii"


@pytest.mark.long
def test_an_earlier_round_and_the_crosshair_are_drawn_when_they_change(view: View) -> None:
    async def travel(pilot: Any, panel: Any) -> None:
        await doing("chart", "chart")(pilot, panel)
        panel.show(replace(view, crosshair=("rounds", 5.0)))

    _, text = on_stage("data", view, travel)
    assert "change in recall, round 5 to 20" in text


@pytest.mark.long
def test_the_file_has_a_row_for_each_client_and_class(view: View) -> None:
    columns, rows = data.class_rows(shown(view, CHANGE))
    assert columns == [
        "round", "client", "class", "samples", "correct", "answered", "recall", "against",
        "samples before", "correct before", "change",
    ]  # fmt: skip
    assert rows[0] == [20, 0, "0", 0, 0, 1, None, "round 19", 0, 0, None]
    assert [20, 1, "0", 6, 6, 7, 1.0, "round 19", 6, 3, 0.5] in rows
    assert len(rows) == 100

    app, _ = on_stage("data", view, ["chart"])
    assert app.panel.table(view) == data.class_rows(shown(view, RECALL))
