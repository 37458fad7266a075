"""The gain over the partner in Live: a sentence, a map, and a line, with differences that one can work out."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.results.analysis.gain import Pair, Partners, RoundGain, Worst
from simulator.results.analysis.ledger import Ledger
from simulator.results.analysis.run import SessionData
from tests import sessions
from tests.app.panels.stage import on_stage, read
from tui.app.panels import gains
from tui.app.view import ACCURACIES, GAIN, View


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of ten clients, and one with the same clients under Standalone."""
    folder = tmp_path_factory.mktemp("sessions")
    sessions.make(folder / "main", rounds=20, samples=sessions.samples(10))
    sessions.make(folder / "base", rounds=20, method="standalone", cka_every=0)
    return folder


def paired(home: Path, falls: float = 0.041, client: int = 3, **changes: Any) -> View:
    """Client 3 loses 4.1 pp to its partner in round 20, clients 0 and 1 are equal, and the other seven gain 2 pp."""
    run, partner = read(home / "main"), Partners().find(read(home / "main"), home)[0]
    other = read(partner.folder)
    records = [dict(each) for each in other.records]
    own = run.records[-1]["accuracy"]["per_client"]
    last = [value - 0.02 for value in own]
    last[client] = own[client] + falls
    last[0], last[1] = own[:2]
    records[-1] = records[-1] | {"accuracy": records[-1]["accuracy"] | {"per_client": last}}
    other = replace(other, ledger=Ledger.of(records))
    return View(run, sessions_dir=home, pair=Pair(run.folder, partner, other), **changes)


def test_the_sentence_counts_those_who_gain_and_names_the_worst() -> None:
    found = RoundGain(20, clients=10, better=7, worse=1, mean=0.01, worst=Worst(3, -0.041, None))
    for by, correct, counted, said in (
        (-0.041, None, True, "−4.1 pp (client 3)"),
        (-1 / 24, (15, 16, 24), True, "−4.2 pp (client 3: 15 vs 16 of 24)"),
        (-0.041, (80, 84, 100), True, "−4.1 pp (client 3)"),  # one image is 1 pp or less
        (-1 / 9, (5, 6, 9), False, "−11.1 pp (client 3, 9 samples)"),
    ):
        one = replace(found, worst=Worst(3, by, correct))
        assert gains.sentence(one, counted) == f"7 of 10 clients gain; worst {said}"
    one = RoundGain(2, clients=1, better=1, worse=0, mean=0.1, worst=Worst(0, 0.1, None))
    assert gains.sentence(one) == "1 of 1 client gains; least +10.0 pp (client 0)"


def test_the_colors_of_the_map_reach_to_the_largest_gain_or_loss_shown() -> None:
    assert gains.reach(np.array([[-33.3, 2.0], [np.nan, 50.0]])) == (-50.0, 50.0)
    assert gains.reach(np.array([[-0.2, 0.0]])) == (-1.0, 1.0)


def test_live_has_the_line_where_it_fits(home: Path) -> None:
    view = paired(home, client=4)  # with 20 test samples, so that it can be judged
    _, text = on_stage("live", view)
    correct = [round((view.run.records[-1]["accuracy"]["per_client"][4] + by) * 20) for by in (0, 0.041)]
    told = f"7 of 10 clients gain; worst −4.1 pp (client 4: {correct[0]} vs {correct[1]} of 20)"
    assert f"{told} over standalone (base)" in text
    assert "b standalone" in text  # the partner's mean is a line of the chart
    assert gains.line(view, 60) == "7 of 10 clients gain; worst −4.1 pp (client 4)"


@pytest.mark.long
def test_b_shows_clients_by_rounds_and_again_the_chart(home: Path) -> None:
    view = paired(home, client=4)
    _, text = on_stage("live", view, ["gain"], size=(200, 60))
    assert "gain over standalone (base), pp" in text
    last = text[text.index("\n 4  ") :].split("\n")[1].split()
    assert last[20] == "−4.1"

    _, text = on_stage("live", view, ["gain", "gain"])
    assert " pp in 5 rounds), best" in text


@pytest.mark.long
def test_the_chart_of_the_gain_has_the_mean_and_its_band(home: Path) -> None:
    view = paired(home, client=4)
    assert view.charts[-1] == GAIN
    shown = replace(view, chart=len(view.charts) - 1)
    figure = gains.figure(shown)
    assert figure.series[0].y[-1] == pytest.approx((7 * 2 - 4.1) / 10)
    assert figure.band is not None
    low, high = np.quantile([-4.1, 0, 0] + [2] * 7, (0.1, 0.9))
    assert (figure.band.low[-1], figure.band.high[-1]) == (pytest.approx(low), pytest.approx(high))
    _, text = on_stage("live", shown)
    assert "gain over standalone (base): +1.0 pp after round 20" in text


def test_a_shadow_is_compared_from_the_fork_on(home: Path) -> None:
    view = paired(home)
    assert view.pair is not None
    shadow = replace(view, pair=replace(view.pair, partner=replace(view.pair.partner, shared=15)))
    assert gains.rounds(shadow).tolist() == [16, 17, 18, 19, 20]
    assert gains.partner_mean(shadow)[0].points[0].tolist() == [15, 16, 17, 18, 19, 20]  # they part at 15
    assert gains.at_round(replace(shadow, round=12)) is None
    earlier = gains.at_round(replace(view, round=7))
    assert earlier is not None and (earlier.round, earlier.better) == (7, 0)


@pytest.mark.long
def test_without_a_partner_a_sentence_says_how_to_get_one(home: Path) -> None:
    alone = replace(paired(home), pair=None)
    _, text = on_stage("live", alone, ["gain"], size=(80, 24))
    assert "Press A to start one" in text.replace("\n", " ")
    assert alone.charts[: len(ACCURACIES)] == ACCURACIES and GAIN not in alone.charts
    base = View(read(home / "base"), sessions_dir=home)
    assert gains.missing(base) == gains.ITSELF
    other = replace(paired(home), run=SessionData(home / "other"))
    assert other.paired is None  # the partner of another session is none of this one
