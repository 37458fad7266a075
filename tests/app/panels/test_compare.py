"""The Compare panel: standings, targets, files."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.results.analysis.ledger import Ledger
from simulator.results.analysis.run import SessionData
from simulator.results.figures.palette import OKABE_ITO
from simulator.studies.selection import Seeds
from tests.app.panels.stage import after_each, measured, on_stage, read, settle, staged, words
from tui.app.panels.compare import (
    ALONE,
    different_clients,
    figure,
    row_of,
    shown_of,
)
from tui.app.view import ColorSlots, View


def view_of(home: Path, *names: str) -> View:
    runs = tuple(read(home / name) for name in names)
    return View(runs[0], compared=runs, marked=tuple(run.folder for run in runs))


def row(target: float, *runs: SessionData) -> tuple[Any, ...]:
    """The cells of a line of these sessions."""
    return row_of(0, Seeds(runs[0].name, runs), target).cells


def test_standings_count_rounds_and_bytes_to_the_target(at_home: Path) -> None:
    base, main, fork = (read(at_home / name) for name in ("base", "main", "main-fork"))
    reached = int((base.curves["accuracy"] >= 0.5).argmax()) + 1
    total = base.records[reached - 1]["bytes"]["up_total"] * 2
    cells = row(0.5, base)
    assert cells[:5] == ("1", "base", "standalone", "finished", "20/20")
    assert cells[7:9] == (str(reached), f"{total / 2**20:.1f} MiB")
    assert row(0.99, base)[7] == "never"
    # main reaches 69 %; its fork ran 12 rounds and did not: at least the rounds that it ran
    reached = int((main.curves["accuracy"] >= 0.69).argmax()) + 1
    cells = row(0.69, main, fork)
    assert cells[7] == f"≥ {(reached + 12) / 2:g} (1/2)"
    assert all(str(cell).startswith("≥ ") for cell in cells[8:])
    assert row(0.69, fork, fork)[7:] == ("never", "–", "–", "–")
    when = int(main.curves["accuracy"].argmax()) + 1
    assert row(0.5, main)[5] == f"{100 * main.curves['accuracy'].max():.1f} % (r{when})"


def test_a_session_in_which_every_client_diverged_has_no_score_and_no_line(at_home: Path) -> None:
    """Nor have its seeds together: a mean over the other would hide the failure."""
    main, base = read(at_home / "main"), read(at_home / "base")
    records = [{**record, "diverged": record["participants"]} for record in base.records]
    failed = replace(base, ledger=Ledger.of(records))
    assert row(0.5, failed)[5:7] == row(0.5, main, failed)[5:7] == ("no score", "no score")
    found = figure([Seeds("main", (main,)), Seeds("m", (main, failed))], [0, 1], "accuracy", "rounds", [])
    assert [line.key for line in found.series] == ["1"]


def lines_of(*names: str) -> list[Seeds]:
    return [Seeds(name, (SessionData(Path("sessions") / name),)) for name in names]


def test_a_line_keeps_its_key_and_colour_while_others_come_and_go() -> None:
    places, many = ColorSlots(), [str(number) for number in range(len(OKABE_ITO))]
    for names, kept in (
        ("abc", [0, 1, 2]),
        ("ca", [2, 0]),
        ("cda", [2, 3, 0]),
        ("ba", [1, 0]),
    ):  # back, as it was
        assert places.of(lines_of(*names)) == kept
    places = ColorSlots()
    places.of(lines_of(*many))  # a color that all are out of is taken from a line that is gone
    assert places.of(lines_of(*many[:3], *many[4:], "new"))[-1] == 3
    assert places.of(lines_of(*many, "new"))[3] == len(OKABE_ITO)


@pytest.mark.long
def test_y_goes_through_the_measures_and_back_and_says_what_no_session_has(at_home: Path) -> None:
    def look(panel: Any) -> tuple[str, str]:
        said = " ".join(panel.app.text().split()).partition("None of these sessions ")[2]
        return str(panel._curves.border_title).removesuffix(" (y) over rounds (u)"), said[:30]

    view = replace(view_of(at_home, "base"), pinned=frozenset({7, 3}))
    seen = after_each("compare", view, ["chart"] * len(shown_of(())), look)
    no_test = "has measured its test part. Ea"
    assert seen == [
        ("worst client", ""), ("std over clients", ""), ("training loss", ""), ("test loss", no_test),
        ("test F1", no_test), ("CKA", "has measured CKA. In a running"),
        ("selected on eval", "has an eval part to select rou"), ("accuracy of client 3, 7", ""), ("mean accuracy", ""),
    ]  # fmt: skip


def test_y_also_goes_through_the_losses_and_the_users_own_metrics(at_home: Path) -> None:
    view = view_of(at_home, "main", "base")
    one = replace(view.compared[0], ledger=Ledger.of(measured(view.compared[0].records)))
    assert shown_of([one])[-3:] == ("selected on eval", "recall_of_0", "accuracy of clients")
    lines = [Seeds("main", (one,)), Seeds("base", (view.compared[1],))]
    for shown, unit, values in (
        ("test loss", "", [1.9, 1.8]),
        ("test F1", "%", [40.5, 41]),
        ("recall_of_0", "", [3.01, 3.02]),
    ):
        chart = figure(lines, [0, 1], shown, "rounds", [])
        assert (chart.unit, chart.series[0].y[:2].tolist()) == (unit, pytest.approx(values))
        assert not len(chart.series[1].y)  # base has not measured its test part


@pytest.mark.long
def test_clients_of_one_number_with_other_data_are_said_to_be_different_clients(at_home: Path) -> None:
    view = replace(view_of(at_home, "main", "base"), client=4)
    main, base = view.compared
    other = replace(base, document={**base.document, "data_fingerprint": "0" * 64})
    to_clients = ["chart"] * (len(shown_of(())) - 1)
    said = "Client 4 has other data in base than in main: these are different clients."
    mixed = replace(view, compared=(main, other))
    assert said in words("compare", mixed, *to_clients)
    assert "different clients" not in words("compare", mixed)  # means over all clients are of one thing
    assert "different clients" not in words("compare", view, *to_clients)
    pinned = replace(mixed, pinned=frozenset({7, 3}))
    assert "Clients 3, 7 have other data in base than in main" in words("compare", pinned, *to_clients)


@pytest.mark.long
async def test_a_long_note_ends_with_an_ellipsis_and_is_a_row_on_a_low_screen(
    at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.app.panels.compare.rows_differ", lambda *_: ["Rows differ in x: 1, 2. " * 20])
    for size, rows in (((60, 16), 1), ((60, 24), 3)):
        async with staged("compare", view_of(at_home, "main", "base"), size=size) as (app, _):
            note = app.panel._caveat
            assert re.search(r"Rows differ in x: 1, 2\..*…$", str(note.content), re.DOTALL)
            assert note.region.height == rows


def test_a_line_over_seeds_with_data_of_their_own_is_said_to_be_a_mean_of_different_clients(
    at_home: Path,
) -> None:
    one = read(at_home / "main")
    other = replace(one, document={**one.document, "data_fingerprint": "0" * 64})
    (said,) = different_clients([Seeds("t3/fedlora", (one, other))], [0])
    assert said.endswith("A line over seeds is the mean of different clients.")
    assert different_clients([Seeds("t3/fedlora", (one, one))], [0]) == []
    assert different_clients([Seeds("a", (one,)), Seeds("b", (other,))], []) == []


def drawn(home: Path, shown: Any, clients: Sequence[int], *names: str) -> dict[str, tuple[Any, Any, Any]]:
    """Key, x and y of each line."""
    lines = [Seeds(name, (read(home / name),)) for name in names]
    chart = figure(lines, range(len(lines)), shown, "rounds", clients)
    return {one.key: (one.name, one.x, one.y) for one in chart.series}


def test_a_fork_is_drawn_from_the_round_in_which_it_left_its_parent(at_home: Path) -> None:
    _, rounds, accuracy = drawn(at_home, "mean accuracy", [], "main", "main-fork")["2"]
    assert list(rounds) == [10, 11, 12]
    np.testing.assert_allclose(accuracy, read(at_home / "main-fork").curves["accuracy"][9:] * 100)
    _, rounds, _ = drawn(at_home, "mean accuracy", [], "main-fork", "base")["1"]
    assert list(rounds) == list(range(1, 13))  # its parent is not there


def test_what_all_names_begin_with_is_left_out_where_all_are_of_one_study() -> None:
    for names, shown in (
        (("t3/fd-lr0.1", "t3/fedgh"), ["fd-lr0.1", "fedgh"]),
        (("t3/fd", "t4/fd"), ["t3/fd", "t4/fd"]),
        (("t3/fd", "base"), ["t3/fd", "base"]),
        (("base", "main"), ["base", "main"]),
    ):
        assert [one.name for one in figure(lines_of(*names), [0, 1], "loss", "rounds", []).series] == shown


def test_each_client_of_each_session_has_a_combination_of_colour_and_stroke_of_its_own(at_home: Path) -> None:
    found = drawn(at_home, "accuracy of clients", [3, 7], "main", "base")
    assert list(found) == ["1:3", "1:7", "2:3", "2:7"] and found["2:7"][0] == "base"
    np.testing.assert_allclose(found["2:7"][2], read(at_home / "base").curves.accuracy.of(7) * 100)
    lines = [Seeds(name, (read(at_home / name),)) for name in ("main", "base")]
    for places in ([0, 1], [1, 9]):  # the second has the first's colour: there are eight
        series = figure(lines, places, "accuracy of clients", "rounds", [3, 5, 7]).series
        assert len({(one.colour, one.stroke) for one in series}) == 6
        assert len({one.colour for one in series[:3]}) == len({one.colour for one in series[3:]}) == 1


def test_keys_move_the_target_by_a_hundredth_and_cycle_the_x_axis(at_home: Path) -> None:
    view = view_of(at_home, "main", "base")

    def look(panel: Any) -> tuple[float, str]:
        return panel.target(view.compared), panel._chart.figure.x_label

    seen = after_each("compare", view, ["next", "next", "previous", *["unit"] * 4], look)
    targets, labels = zip(*seen, strict=True)
    assert np.diff(targets[:4]).round(6).tolist() == [0.01, -0.01, 0]
    assert labels[3:] == ("MiB", "FLOPs", "seconds", "rounds")


@pytest.mark.long
def test_compare_asks_for_marks_while_fewer_than_two_sessions_are_drawn(at_home: Path) -> None:
    one, two = view_of(at_home, "main"), view_of(at_home, "main", "base")

    assert ALONE in words("compare", one)
    assert ALONE not in words(
        "compare", replace(two, marked=(at_home,))
    )  # a study is one mark with several sessions
    unread = replace(one, compared=())
    assert "None of the marked sessions has been read yet." in words("compare", unread)
    assert "No session is marked." in words("compare", replace(unread, marked=()))


@pytest.mark.long
async def test_a_filter_leaves_the_sessions_and_the_settings_with_its_words(at_home: Path) -> None:
    view = view_of(at_home, "base", "main")
    async with staged("compare", view) as (app, pilot):
        panel = app.panel
        both = [row.key.name for row in panel._table.rows], len(panel._settings.rows)
        panel.show(replace(view, filter="base"))
        assert [row.key.name for row in panel._table.rows] == ["base"] and both[0] == ["base", "main"]
        panel.show(replace(view, filter="no such setting"))
        assert not panel._settings.rows and not panel._table.rows
        panel.show(replace(view, filter="method.name"))
        assert [row.key for row in panel._settings.rows] == ["method.name"] and both[1] > 1
        assert "No session matches the filter. Press / to change it." in await settle(pilot)


@pytest.mark.long
def test_values_are_those_of_the_last_common_round_which_is_named(at_home: Path) -> None:
    _, text = on_stage("compare", view_of(at_home, "main", "main-fork"), size=(200, 60))
    main, fork = (read(at_home / name) for name in ("main", "main-fork"))
    assert (main.round, fork.round) == (20, 12)
    header = next(line for line in text.splitlines() if "bytes to" in line)
    assert "best to r12" in header and "at r12" in header
    both = [f"{100 * run.curves['accuracy'][11]:.1f} %" for run in (main, fork)]
    assert f"at r12  1 main {both[0]}  2 main-fork {both[1]}" in text
    rows = [line for line in text.splitlines() if "/20 " in line]
    assert [row.split("(r12)")[1].split()[0] for row in rows] == [each.split()[0] for each in both]


@pytest.mark.long
async def test_a_sentence_says_what_is_known_of_the_line_under_the_cursor_and_the_first(
    at_home: Path,
) -> None:
    view = view_of(at_home, "main", "main-fork", "base")
    async with staged("compare", view) as (app, pilot):
        for other in ("2 main-fork", "3 base"):
            said = str(app.panel._known.content)
            assert said.startswith(f"{other} − 1 main = −") and "at round 12, 10 of 10 clients lose, " in said
            assert "(paired t over 10 clients, 95 %: " in said
            app.panel._table.put_cursor(view.compared[2].folder)
            await settle(pilot)
    async with staged("compare", view_of(at_home, "main")) as (app, _):
        assert not app.panel._known.display
