"""Accuracy figures: what is drawn equals numbers derived by hand, and files are the same bytes each time."""

from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from simulator.base.errors import ConfigError
from simulator.results.analysis.costs import Cost
from simulator.results.analysis.run import SessionData
from simulator.results.figures import accuracy, gains, sensitivity, style
from simulator.results.figures.grouped import scaled
from simulator.results.figures.kinds import notes
from tests.analysis.runs import of, record, run

approx = pytest.approx


def plot(figure: Figure):  # type: ignore[no-untyped-def]
    return figure.axes[0]


def texts(figure: Figure) -> list[str]:
    legend = plot(figure).get_legend()
    return [] if legend is None else [each.get_text() for each in legend.get_texts()]


TWO_SEEDS = [
    run("a0", [0.1, 0.3, 0.5], 0),
    run("a1", [0.3, 0.5, 0.9], 1),
    run("b0", [0.2, 0.4, 0.6], 0, "fedgh"),
]


def test_a_line_is_the_mean_over_seeds_and_a_band_one_sample_standard_deviation() -> None:
    figure = accuracy.over(TWO_SEEDS, by="method")
    first, second = plot(figure).lines
    assert first.get_xdata().tolist() == [1, 2, 3]
    assert first.get_ydata().tolist() == [approx(20), approx(40), approx(70)]
    assert second.get_ydata().tolist() == [approx(20), approx(40), approx(60)]
    (band,) = plot(figure).collections  # of the two seeds; a single session has none
    corners = band.get_paths()[0].vertices
    # of 0.5 and 0.9: mean 0.7, std √(2 · 0.2²) = 0.282843
    assert max(y for x, y in corners if x == 3) == approx(98.2843, abs=1e-4)
    assert min(y for x, y in corners if x == 3) == approx(41.7157, abs=1e-4)
    assert texts(figure) == ["FedLoRA", "FedGH"]


def test_no_figure_draws_a_session_in_which_every_client_diverged() -> None:
    """Nor the other seeds of its group: they would hide the failure."""
    failed = of("c0", [record(1, 0.9, participants=[0], diverged=[0])], 0, "fedproto")
    sound = run("c1", [0.7], 1, "fedproto")
    runs = [*TWO_SEEDS, failed, sound]
    assert texts(accuracy.over(runs, by="method")) == ["FedLoRA", "FedGH"]
    assert len(plot(accuracy.boxes(runs, by="method")).get_xticklabels()) == 2
    assert len(plot(accuracy.tradeoff(runs, by="method")).collections) == 2
    assert len(gains.pareto(runs, by="method").axes[0].containers) == 2
    assert len(plot(sensitivity.curve(runs, axis="method")).get_xticklabels()) == 2
    for draw in (accuracy.over, accuracy.boxes, accuracy.tradeoff):
        with pytest.raises(ConfigError, match="FedProto: every client of a session diverged in every round"):
            draw([failed, sound], by="method")


def test_a_line_can_be_drawn_over_what_rounds_cost() -> None:
    costs: dict[Cost, tuple[list[float], str]] = {
        "bytes": ([150, 300, 450], "traffic, B"), "FLOPs": ([7, 14, 21], "computation, FLOPs"),
        "seconds": ([2, 4, 6], "time, s"),
    }  # fmt: skip
    for x, (values, label) in costs.items():
        drawn = plot(accuracy.over([run("a", [0.1, 0.3, 0.5])], x=x))
        assert (drawn.lines[0].get_xdata().tolist(), drawn.get_xlabel()) == (values, label)


def test_large_costs_are_drawn_in_large_units() -> None:
    for x, most, axis in (
        ("bytes", 5 * 1024**3, ("traffic, GiB", 1024**3)), ("FLOPs", 3e13, ("computation, 10¹² FLOPs", 1e12)),
        ("seconds", 7200, ("time, h", 3600)), ("seconds", 119, ("time, s", 1)), ("joules", 5e3, ("energy, kJ", 1e3)),
    ):  # fmt: skip
        assert scaled(x, most) == axis  # type: ignore[arg-type]


def test_more_than_four_lines_have_their_legend_above_the_plot() -> None:
    figure = accuracy.over([run(str(each), [0.1]) for each in range(5)], by="session")
    assert plot(figure).get_legend() is None
    assert [each.get_text() for each in figure.legends[0].get_texts()] == ["0", "1", "2", "3", "4"]


def test_a_box_spans_the_quartiles_of_all_clients_and_seeds_and_its_diamond_is_their_mean() -> None:
    def session(name: str, seed: int, clients: list[float | None]) -> SessionData:
        return of(name, [record(1, 0.1, clients=[0.0] * len(clients)), record(2, 0.5, clients=clients)], seed)

    figure = accuracy.boxes(
        [session("a", 0, [0.1, 0.2, 0.3]), session("b", 1, [0.4, 1.0, None])], by="method"
    )
    # 10, 20, 30, 40, 100: quartiles 20 and 40, median 30, mean 40
    box = plot(figure).patches[0].get_path().vertices
    assert (box[:, 1].min(), box[:, 1].max()) == (approx(20), approx(40))
    drawn = [line.get_ydata().tolist() for line in plot(figure).lines]
    assert [approx(30), approx(30)] in drawn and [approx(40)] in drawn
    assert [each.get_text() for each in plot(figure).get_xticklabels()] == ["FedLoRA"]
    first = accuracy.boxes([session("a", 0, [0.1, 0.2, 0.3])], round=1)
    assert [0.0] in [line.get_ydata().tolist() for line in plot(first).lines]


def test_a_disc_lies_at_its_traffic_and_best_accuracy_with_an_area_that_grows_with_computation() -> None:
    runs = [run("a", [0.1, 0.6, 0.5]), run("b", [0.9, 0.2], method="fedgh")]
    figure = accuracy.tradeoff(runs, by="method")
    first, second = plot(figure).collections
    assert first.get_offsets().tolist() == [[300, approx(60)]]  # best in round 2
    assert second.get_offsets().tolist() == [[150, approx(90)]]
    assert (first.get_sizes()[0] - 30) == approx(2 * (second.get_sizes()[0] - 30))  # 14 operations and 7
    assert [each.get_text() for each in plot(figure).texts] == ["FedLoRA", "FedGH"]
    reached = accuracy.tradeoff(runs, by="method", target=0.55)
    assert reached.axes[0].collections[0].get_offsets().tolist() == [[300, approx(60)]]


def costly(name: str, method: str, sent: int) -> SessionData:
    """One round that sends so many bytes."""
    made = record(1, 0.5)
    made["bytes"] |= {"up_total": sent, "down_total": 0}
    return of(name, [made], method=method)


def test_one_costly_method_makes_the_axis_of_traffic_logarithmic_and_zero_has_a_place() -> None:
    """10 KiB and 100 MiB differ by a factor of 10,240; 1000 B and 29,000 B only by one of 29."""
    runs = [costly("a", "fedgh", 10 * 1024), costly("b", "fedavg", 100 * 1024**2)]
    both = plot(accuracy.tradeoff(runs, by="method"))
    assert (both.get_xscale(), both.get_xlabel()) == ("log", "traffic, logarithmic")
    assert [each.get_text() for each in both.get_xticklabels()] == [
        "10 KiB", "100 KiB", "1 MiB", "10 MiB", "100 MiB",
    ]  # fmt: skip
    assert both.collections[0].get_offsets()[0][0] == 10 * 1024
    with_none = plot(accuracy.tradeoff([*runs, costly("c", "standalone", 0)], by="method"))
    assert with_none.get_xscale() == "symlog" and with_none.get_xticklabels()[0].get_text() == "0"
    near = plot(accuracy.tradeoff([costly("a", "fedgh", 1000), costly("b", "fedavg", 29_000)], by="method"))
    assert near.get_xscale() == "linear"


def test_a_group_is_no_disc_where_some_of_its_seeds_missed_the_target() -> None:
    """a0 never reaches 0.8; a mean over a1 alone would flatter its group."""
    runs = [run("a0", [0.5], 0), run("a1", [0.9], 1), run("b0", [0.9], 0, "fedgh")]
    figure = accuracy.tradeoff(runs, by="method", target=0.8)
    assert [disc.get_label() for disc in plot(figure).collections] == ["FedGH"]
    assert notes("tradeoff", runs, {"by": "method", "target": 0.8}) == [
        "FedLoRA is left out: 1 of 2 sessions did not reach 80 %."
    ]


def test_names_that_would_cover_each_other_become_a_legend_and_no_tick_is_below_zero() -> None:
    runs = [run("a", [0.5]), run("b", [0.5], method="fedgh"), run("c", [0.9], method="fedproto")]
    figure = accuracy.tradeoff(runs, by="method")
    assert list(plot(figure).texts) == []
    assert [each.get_text() for each in figure.legends[0].get_texts()] == ["FedLoRA", "FedGH", "FedProto"]
    assert min(plot(figure).get_xticks()) >= 0


def test_what_cannot_be_drawn_is_refused() -> None:
    for draw in (accuracy.over, accuracy.boxes, accuracy.tradeoff):
        with pytest.raises(ConfigError, match="run them further"):
            draw([run("a", [None])])
        with pytest.raises(ConfigError, match="at least one session"):
            draw([])
    with pytest.raises(ConfigError, match="Did you mean 'method'"):
        accuracy.over(TWO_SEEDS, by="metod")
    with pytest.raises(ConfigError, match="a0 has no round 9; it has 3"):
        accuracy.boxes(TWO_SEEDS, round=9)
    with pytest.raises(ConfigError, match="In no group did all sessions reach"):
        accuracy.tradeoff(TWO_SEEDS, target=0.99)


RUNS = [run("a", [0.1, 0.3], 0), run("b", [0.2, 0.5], 1)]


@pytest.mark.long
def test_the_same_figure_is_the_same_file(tmp_path: Path) -> None:
    for name in ("f.pdf", "f.svg", "f.png"):
        texts = []
        for _ in range(2):
            style.save(accuracy.over(RUNS), tmp_path / name)
            texts.append((tmp_path / name).read_bytes())
        assert texts[0] == texts[1]
        assert b"CreationDate" not in texts[0] and b"<dc:date>" not in texts[0]


def test_text_stays_text_in_files_as_wide_as_a_column_or_page(tmp_path: Path) -> None:
    assert [accuracy.over(RUNS, width=each).get_figwidth() for each in ("column", "page")] == [
        3.5,
        7.16,
    ]  # inches
    with pytest.raises(ConfigError, match=r"\.pdf, \.svg, \.png; 'f\.jpg' is none"):
        style.save(accuracy.over(RUNS), tmp_path / "f.jpg")
    style.save(accuracy.over(RUNS), tmp_path / "f.svg")
    assert "mean test accuracy, %</text>" in (tmp_path / "f.svg").read_text()
    style.save(accuracy.over(RUNS), tmp_path / "f.pdf")
    assert b"/FontFile2" in (tmp_path / "f.pdf").read_bytes()  # TrueType, embedded


def test_drawing_leaves_matplotlibs_settings_as_they_are() -> None:
    before = dict(mpl.rcParams)
    accuracy.over(RUNS)
    assert dict(mpl.rcParams) == before
