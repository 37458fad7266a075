"""Figures of gains: what is drawn equals numbers derived by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from simulator.base.errors import ConfigError
from simulator.results.analysis.costs import pareto_front
from simulator.results.figures import gains
from simulator.results.figures.kinds import notes
from tests.analysis.runs import clocked, run
from tests.analysis.test_gain import STUDY, session

approx = pytest.approx


def test_the_sorted_gains_of_all_clients_of_all_seeds() -> None:
    plot = gains.gain_clients(STUDY, by="method").axes[0]
    line = plot.lines[0]
    assert line.get_ydata().tolist() == approx([-10, 0, 10, 10, 10, 20])
    assert line.get_xdata().tolist() == approx([100 * (place + 0.5) / 6 for place in range(6)])


def test_by_study_a_session_is_in_the_line_of_each_that_uses_it() -> None:
    runs = [replace(each, studies=("s", "t") if each.name == "gh-0" else ("s",)) for each in STUDY]
    for draw in (gains.gain_clients, gains.gain_map):
        assert draw(runs, by="study").axes
    lines = gains.gain_clients(runs, by="study").axes[0].lines[:2]
    assert {line.get_label(): len(line.get_ydata()) for line in lines} == {"s": 6, "t": 3}


def test_the_map_has_a_row_for_a_client_of_a_seed_and_a_column_for_a_round() -> None:
    runs = [
        session("a", "standalone", 0, [0.1, 0.2, 0.3], [0.5, 0.5, 0.5]),
        session("b", "fedgh", 0, [0.2, 0.2, 0.2], [0.4, 0.5, 0.9]),
    ]
    figure = gains.gain_map(runs, by="method")
    image = figure.axes[0].images[0]
    # Gains of clients 0, 1, 2: (+0.1, −0.1), (0, 0), (−0.1, +0.4). The highest last gain comes first.
    assert np.asarray(image.get_array()).tolist() == [approx([-10, 40]), approx([0, 0]), approx([10, -10])]
    assert image.get_clim() == (approx(-40), approx(40))
    assert figure.axes[0].get_title() == "FedGH"
    assert figure.axes[1].get_ylabel() == "gain over Standalone, pp"


def test_a_session_without_a_partner_is_named_beside_the_figure() -> None:
    wide = session("wide", "fedgh", 1, [0.6] * 3, models={"features": 64})
    [note] = notes("gain-map", [*STUDY, wide], {"by": "method"})
    assert note.startswith("wide is left out") and "models.features: 64 (fedgh), not set (standalone)" in note


def test_mean_ranks_and_the_critical_difference_of_demsars_formula() -> None:
    ranks, difference = gains.mean_ranks(np.array([[0.9, 0.8, 0.7], [0.9, 0.9, 0.1], [0.5, 0.6, 0.4]]))
    assert ranks.tolist() == approx([(1 + 1.5 + 2) / 3, (2 + 1.5 + 1) / 3, 3])
    # Demšar's Table 5 has q = 2.343 for three classifiers at the 5 % level.
    assert difference == approx(2.343 * math.sqrt(3 * 4 / (6 * 3)), abs=1e-3)


def test_a_bar_joins_the_longest_stretches_within_the_difference() -> None:
    assert gains.cliques(np.array([1.0, 1.4, 1.9, 3.5]), 0.6) == [(0, 1), (1, 2)]
    assert gains.cliques(np.array([1.0, 1.4, 1.9, 3.5]), 1.0) == [(0, 2)]
    assert gains.cliques(np.array([1.0, 2.0]), 0.5) == []


def of_two_sets() -> list:  # type: ignore[type-arg]
    accuracies = {"digits": (0.9, 0.7), "mnist": (0.8, 0.6)}
    return [
        run(f"{method}-{name}-{seed}", [values[place] + 0.01 * seed], seed, method, data={"dataset": name})
        for name, values in accuracies.items()
        for place, method in enumerate(("fedlora", "fedgh"))
        for seed in (0, 1)
    ]


def test_conditions_are_data_sets_and_not_seeds() -> None:
    plot = gains.critical_difference(of_two_sets()).axes[0]
    assert plot.get_xlabel() == "mean rank over 2 conditions"
    assert [label.get_text() for label in plot.get_yticklabels()] == ["FedLoRA", "FedGH"]
    assert [line.get_xdata()[0] for line in plot.lines[:2]] == [1, 2]


def test_ranks_over_one_condition_or_with_a_missing_one_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 groups and 1 conditions"):
        gains.critical_difference(of_two_sets()[:4])
    with pytest.raises(
        ConfigError, match="FedGH has no finished session for dataset mnist, which others have"
    ):
        gains.critical_difference(of_two_sets()[:-2])


def test_the_front_has_the_points_that_none_beats() -> None:
    points = {"a": (1.0, 0.5), "b": (2.0, 0.9), "c": (3.0, 0.8), "d": (1.0, 0.4), "e": (4.0, 0.95)}
    assert pareto_front(points) == [(1.0, 0.5), (2.0, 0.9), (4.0, 0.95)]


def test_accuracy_also_stands_over_simulated_time_and_energy_if_all_sessions_have_a_clock() -> None:
    """Rounds end after 10 s and 300 s, and each takes 3 J."""
    runs = [clocked("a", [(10, 0.5), (300, 0.7)], method="fedgh"), clocked("b", [(60, 0.6)])]
    figure = gains.pareto(runs, by="method")
    shown = [plot for plot in figure.axes if plot.get_visible()]
    first = ["traffic, B", "computation, FLOPs", "time, s"]
    assert [plot.get_xlabel() for plot in shown] == [*first, "simulated time, min", "energy, J"]
    points = [[container[0].get_xydata()[0].tolist() for container in plot.containers] for plot in shown[3:]]
    assert points == [[approx([5, 70]), approx([1, 60])], [approx([6, 70]), approx([3, 60])]]
    mixed = gains.pareto([runs[0], run("c", [0.5])], by="method")
    assert len(mixed.axes) == 3
