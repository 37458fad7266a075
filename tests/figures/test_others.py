"""Losses, coefficients, similarity, sensitivity, partition and the plane: what is drawn is what the ledgers say."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from simulator.base.errors import ConfigError
from simulator.results.analysis.run import SessionData
from simulator.results.figures import accuracy, clients, sensitivity, style
from simulator.results.figures.clients import coefficients, embedding, look, partition
from simulator.results.figures.palette import contrast
from simulator.results.inspection.client_samples import Embedding
from simulator.results.inspection.partition import Partition
from tests.analysis.runs import chosen, of, record, run

approx = pytest.approx


def session(
    name: str,
    first: list[float],
    method: str = "fedlora",
    plain: list[float | None] | None = None,
    seed: int = 0,
    **metrics: list[float],
) -> SessionData:
    """Rounds with these mean losses of the first phase, and with these numbers of the method's own.

    plain: the cross-entropies, if the version of the session recorded them.
    """
    records = []
    for at, value in enumerate(first):
        loss = {"mean": value, "per_client": [value]} | ({"cross_entropy": plain[at]} if plain else {})
        own = {name: values[at] for name, values in metrics.items()}
        records.append(record(at + 1, 0.5, loss=loss, method_metrics=own))
    return of(name, records, seed, method=method)


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def titles(figure: Figure) -> list[str]:
    return [plot.get_title() for plot in figure.axes if plot.get_visible()]


def test_losses_are_the_cross_entropies_of_all_methods_or_where_a_seed_lacks_them_the_objectives() -> None:
    """The paper draws nine methods' "original local loss" on one axis (FedL2G, Figure 3)."""
    fd = session("b", [3, 2], "fd", [1.5, 1])
    earlier = session("c", [9, 8], "fedl2g_f", cross_entropy_loss=[2, 1])
    for runs, expected in (
        ([session("a", [7, 5], plain=[2, 1], adapter_loss=[4, 3]), fd],
         {"FedLoRA": [[1, 2], [2, 1]], "FD (FedDistill)": [[1, 1.5], [2, 1]]}),
        ([session("a", [7, 5]), fd, earlier],
         {"FD (FedDistill)": [[1, 1.5], [2, 1]], "FedL2G-f": [[1, 2], [2, 1]],
          "FedLoRA (whole objective)": [[1, 7], [2, 5]]}),
        ([session("a", [7, 5]), session("b", [5, 3], plain=[2, 1], seed=1)],
         {"FedLoRA (whole objective)": [[1, 6], [2, 4]]}),
        ([session("a", [7, 5], plain=[None, 1])], {"FedLoRA": [[2, 1]]}),  # a round in which nobody trains
    ):  # fmt: skip
        figure = accuracy.losses(runs, by="method")
        assert titles(figure) == ["cross-entropy"]
        drawn = {line.get_label(): line.get_xydata().tolist() for line in figure.axes[0].lines}
        assert drawn == expected and (len(expected) == 1 or legend(figure) == list(expected))


def test_every_phase_has_a_plot_with_the_methods_that_have_it() -> None:
    runs = [session("a", [2, 1], adapter_loss=[4, 3]), session("b", [3, 2], "standalone")]
    figure = accuracy.losses(runs, metrics=["objective", "adapter_loss"], by="method")
    assert titles(figure) == ["objective of the first phase", "adapter"]
    first, adapter = figure.axes[:2]
    assert [line.get_ydata().tolist() for line in first.lines] == [[2, 1], [3, 2]]
    assert [line.get_ydata().tolist() for line in adapter.lines] == [[4, 3]]
    assert first.lines[0].get_color() == adapter.lines[0].get_color()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["FedLoRA", "Standalone"]


def test_metrics_are_the_methods_own_numbers_losses_apart() -> None:
    runs = [session("a", [2, 1], adapter_loss=[4, 3], guided=[7, 9], norm=[0.5, 0.25])]
    assert titles(accuracy.metrics(runs)) == ["guided", "norm"]
    figure = accuracy.metrics(runs, metrics=["norm"], x="bytes")
    assert figure.axes[0].lines[0].get_xydata().tolist() == [[150, 0.5], [300, 0.25]]


def test_a_loss_or_metric_that_is_not_there_is_refused_with_those_that_are() -> None:
    runs = [session("a", [2], norm=[0.5])]
    many = [session("a", [2], **{f"m{each}": [1.0] for each in range(13)})]
    nrm = r"no session here has a metric 'nrm'\. Did you mean 'norm'\? There are: norm"
    for draw, of_runs, names, said in (
        (accuracy.losses, runs, ["objectiv"], r"a loss 'objectiv'\. Did you mean 'objective'"),
        (accuracy.metrics, runs, ["nrm"], nrm),
        (accuracy.metrics, [session("a", [2])], [], "no numbers"),
        (accuracy.metrics, many, [], "13 metrics do not fit"),
    ):
        with pytest.raises(ConfigError, match=said):
            draw(of_runs, metrics=names)


def test_theta_and_beta_are_drawn_by_layer_and_round_as_the_mean_over_sessions() -> None:
    def inco(name: str, theta: float) -> SessionData:
        metrics = {"theta/conv1.weight": [theta, 1.0], "theta/conv2.weight": [0.5, 0.5],
                   "beta/conv1.weight": [3.0, 3.0], "beta/conv2.weight": [4.0, -4.0]}  # fmt: skip
        return session(name, [1, 1], "inco_avg", **metrics)

    figure = coefficients([inco("a", 0.1), inco("b", 0.3)], by="method")
    theta, beta = figure.axes[:2]
    assert theta.images[0].get_array().tolist() == [[approx(0.2), 1.0], [0.5, 0.5]]
    assert beta.images[0].get_array().tolist() == [[3.0, 3.0], [4.0, -4.0]]
    assert beta.images[0].get_clim() == (-4, 4)
    assert titles(figure)[:2] == ["θ, InCoAvg", "β, InCoAvg"]
    assert [text.get_text() for text in theta.get_yticklabels()] == ["conv1", "conv2"]
    with pytest.raises(ConfigError, match="InCo Aggregation"):
        coefficients([session("a", [1])])


def measured(
    name: str,
    *rounds: tuple[int, float, float],
    seed: int = 0,
    method: str = "fedlora",
    layers: tuple[str, str] = ("conv", "fc"),
) -> SessionData:
    """CKA of two clients after these rounds: of a shallow and of a deep layer."""
    at = {round: (shallow, deep) for round, shallow, deep in rounds}
    one, other = layers
    records = []
    for round in range(1, max(at) + 1):
        shallow, deep = at.get(round, (0.0, 0.0))
        matrices = {one: [[1.0, shallow], [shallow, 1.0]], other: [[1.0, None], [None, 1.0]]}
        cka = {"order": list(layers), "layers": {one: shallow, other: deep}, "matrix": matrices}
        records.append(record(round, 0.5, clients=[0.5, 0.5], cka=cka if round in at else None))
    return of(name, records, seed, method=method)


def test_cka_matrices_are_those_of_the_last_measurement_up_to_a_round() -> None:
    one = measured("a", (2, 0.25, 0.5), (4, 0.75, 0.5))
    figure = clients.cka_matrices(one)
    assert titles(figure)[:2] == ["conv", "fc"]
    assert figure.axes[0].images[0].get_array().tolist() == [[1, 0.75], [0.75, 1]]
    absent = np.isnan(np.ma.filled(figure.axes[1].images[0].get_array(), np.nan))
    assert absent.tolist() == [[False, True], [True, False]]
    earlier = clients.cka_matrices(one, round=3, layers=["conv"])
    assert titles(earlier)[:1] == ["conv"]
    assert earlier.axes[0].images[0].get_array()[0].tolist() == [1, 0.25]
    assert earlier.get_supxlabel() == "client (round 2)"


def test_cka_curves_are_means_over_seeds_by_round_and_by_layer() -> None:
    runs = [measured("a", (2, 0.2, 0.4), (4, 0.6, 0.8)), measured("b", (2, 0.4, 0.4), (4, 0.8, 0.4), seed=1)]
    figure = clients.cka_curves(runs, by="method")
    by_round, by_layer = figure.axes
    assert legend(figure) == ["conv", "fc"]
    assert by_round.lines[0].get_xydata().tolist() == [[2, approx(0.3)], [4, approx(0.7)]]
    assert by_layer.lines[0].get_ydata().tolist() == [approx(0.7), approx(0.6)]
    apart = measured("c", (1, 0.5, 0.5), method="fedgh")
    other = measured("d", (2, 0.5, 0.5), method="fedgh", seed=1)  # no round in common
    assert len(clients.cka_curves([*runs, apart, other], by="method").axes[1].lines) == 1


def test_cka_curves_of_several_groups_name_each_group_and_each_layer_once() -> None:
    other = measured("b", (2, 0.5, 0.25), method="inco_avg", layers=("conv", "stage1"))
    figure = clients.cka_curves([measured("a", (2, 0.2, 0.4)), other], by="method")
    by_round, by_layer = figure.axes
    assert legend(figure) == ["FedLoRA", "InCoAvg", "conv", "fc", "stage1"]
    assert [line.get_ydata().tolist() for line in by_round.lines] == [[0.2], [0.4], [0.5], [0.25]]
    assert [line.get_xydata().tolist() for line in by_layer.lines] == [
        [[0, approx(0.2)], [1, approx(0.4)]], [[0, approx(0.5)], [2, approx(0.25)]],
    ]  # fmt: skip


def test_a_legend_above_takes_the_columns_that_fit_and_makes_the_figure_higher() -> None:
    wide = "a name that takes some 2 inches of 3.5"
    for labels, columns, rows in ((["a", "b", "c", "d", "e"], 5, 1), ([wide] * 3, 1, 3)):
        figure, plot = style.single("column")
        style.legend_above(figure, [plot.plot([1, 2])[0] for _ in labels], labels)
        assert figure.legends[0]._ncols == columns
        assert figure.get_figheight() - 3.5 * 0.68 == approx(rows * 1.5 * 7 / 72)
    assert [style.balanced(number, 5) for number in (1, 5, 6, 11)] == [(1, 1), (5, 1), (3, 2), (4, 3)]


def test_cka_that_was_not_measured_is_refused() -> None:
    helps = r"run with `cka\.every=5`, or see `htfl-sim checkpoint SESSION --cka`"
    without, known = run("a", [0.5]), measured("a", (1, 0.5, 0.5))
    with pytest.raises(ConfigError, match=f"a has no CKA in its ledger; {helps}"):
        clients.cka_matrices(without)
    with pytest.raises(ConfigError, match="a has no CKA"):
        clients.cka_curves([without])
    with pytest.raises(ConfigError, match=r"no layer 'convv' was measured\. Did you mean 'conv'"):
        clients.cka_matrices(known, layers=["convv"])


def test_names_under_a_plot_are_slanted_where_they_would_run_together_and_the_figure_grows_by_that() -> None:
    long = "inco_avg, group inco_resnet_narrow"
    for labels, slant, growth in (
        (["conv1", "fc"], 0, 0),
        (["fedlora", long], 30, 0.5 * style.inches(long, 7)),
    ):
        figure, plot = style.single("column")
        before = figure.get_figheight()
        style.named(plot, range(len(labels)), labels, 2.9)
        assert plot.get_xticklabels()[0].get_rotation() == slant
        assert figure.get_figheight() - before == approx(growth)


GRID = [
    run(f"mu{mu}-h{hidden}-s{seed}", [0.1, 0.4 + mu / 10 + hidden / 100 + seed / 10], seed,
        method_settings={"mu": mu, "hidden": hidden})
    for mu in (2, 1) for hidden in (10, 20) for seed in (0, 1)
]  # fmt: skip


def test_a_sensitivity_curve_is_the_mean_over_seeds_at_each_value_with_its_standard_deviation() -> None:
    figure = sensitivity.curve(GRID, axis="method.mu", by="method.hidden")
    containers = figure.axes[0].containers
    assert [each.get_label() for each in containers] == ["hidden 10", "hidden 20"]
    line, _, (bars,) = containers[0]
    # hidden 10: 0.4 + 0.1 + 0.1 + {0, 0.1} at μ = 1, a tenth more at 2; std √(2 · 0.05²)
    assert line.get_xydata().tolist() == [[1, approx(65)], [2, approx(75)]]
    low, high = bars.get_segments()[0][:, 1]
    assert (high - low) / 2 == approx(100 * 0.05 * 2**0.5)
    bottom, top = figure.axes[0].get_ylim()
    assert bottom < low and high < top


def test_words_on_an_axis_are_drawn_one_after_the_other() -> None:
    runs = [run("a", [0.1], method="fedgh"), run("b", [0.3], method="standalone")]
    figure = sensitivity.curve(runs, axis="method")
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["fedgh", "standalone"]


def test_a_heatmap_has_the_mean_over_seeds_for_every_pair_of_values() -> None:
    figure = sensitivity.heatmap(GRID, axes=("method.mu", "method.hidden"))
    plot = figure.axes[0]
    assert np.allclose(plot.images[0].get_array(), [[65, 75], [75, 85]])
    assert [text.get_text() for text in plot.texts] == ["65.0", "75.0", "75.0", "85.0"]
    assert [text.get_color() for text in plot.texts] == ["white"] * 3 + ["black"]  # the lightest cell
    assert [text.get_text() for text in plot.get_yticklabels()] == ["1", "2"]


def test_sensitivity_can_be_of_the_accuracy_selected_on_eval() -> None:
    runs = [chosen(f"mu{mu}", [(0.5, 0.9), (0.8, 0.1)], method_settings={"mu": mu}) for mu in (1, 2)]
    figure = sensitivity.curve(runs, axis="method.mu", select="eval")
    assert figure.axes[0].containers[0][0].get_ydata().tolist() == [50, 50]
    with pytest.raises(ConfigError, match="not measured on eval: mu2-h10-s0"):
        sensitivity.curve(GRID, axis="method.mu", select="eval")


def test_an_axis_with_one_value_is_refused() -> None:
    for draw, options, said in (
        (sensitivity.curve, {"axis": "rounds"}, r"'rounds' has one value"),
        (sensitivity.heatmap, {"axes": ("rounds", "method")}, "have one value each"),
        (sensitivity.curve, {"axis": "mu"}, r"Did you mean 'method\.mu'"),
    ):
        with pytest.raises(ConfigError, match=said):
            draw(GRID, **options)  # type: ignore[operator]


def test_a_bubble_stands_where_a_client_has_a_class_with_an_area_as_its_samples() -> None:
    figure = partition(Partition(("cat", "dog"), {"train": [[4, 0], [1, 2]]}))
    (bubbles,) = figure.axes[0].collections
    assert bubbles.get_offsets().tolist() == [[0, 0], [1, 0], [1, 1]]
    sizes = bubbles.get_sizes()
    assert (sizes[0] / sizes[1], sizes[0] / sizes[2]) == (approx(4), approx(2))
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["cat", "dog"]
    with pytest.raises(ConfigError, match="no samples"):
        partition(Partition(("cat", "dog"), {"train": [[0, 0], [0, 0]]}))


def test_a_legend_names_at_most_two_dozen_clients() -> None:
    for number, named in ((24, 24), (25, 0)):
        each = np.arange(number)
        anchors = np.zeros((0, 2)), np.zeros(0, dtype=int), ""
        drawn = embedding(Embedding(1, np.zeros((number, 2)), each % 2, each, ("cat", "dog"), *anchors))
        legend = drawn.axes[1].get_legend()
        assert len(legend.get_texts() if legend else []) == named


def test_the_plane_is_drawn_by_class_and_by_client_with_anchors_in_both() -> None:
    points, labels, clients = np.array([[0.0, 1], [2, 3], [4, 5]]), np.array([0, 1, 0]), np.array([0, 0, 1])
    anchors = np.array([[9.0, 9]]), np.array([1]), "prototype"
    figure = embedding(Embedding(1, points, labels, clients, ("cat", "dog"), *anchors))
    by_class, by_client = figure.axes
    anchor = [[9, 9]]
    for plot, expected in ((by_class, [[[0, 1], [4, 5]], [[2, 3]], anchor]),
                           (by_client, [[[0, 1], [2, 3]], [[4, 5]], anchor])):  # fmt: skip
        assert [each.get_offsets().tolist() for each in plot.collections] == expected
    assert [text.get_text() for text in by_class.get_legend().get_texts()] == ["cat", "dog", "prototype"]
    colours = [each.get_facecolor()[0].tolist() for each in by_class.collections]
    assert colours[2] == colours[1] != colours[0]


def test_ten_classes_look_different() -> None:
    assert len({look(place, 10) for place in range(10)}) == 10
    assert len({look(place, 100) for place in range(100)}) == 100


def test_series_have_three_to_one_contrast_on_white() -> None:
    assert all(contrast(int(style.colour(place)[1:], 16), 0xFFFFFF) >= 3 for place in range(8))
