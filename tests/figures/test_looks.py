"""Colors of methods: by name, whatever else is drawn and wherever."""

from itertools import permutations

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from simulator import methods
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.static_names import titles
from simulator.results.figures import accuracy, clients, gains, palette, sensitivity, style
from simulator.results.figures.kinds import OF_SESSIONS
from simulator.results.figures.palette import OKABE_ITO, look_of
from simulator.studies.selection import Seeds
from tests.analysis.runs import run
from tests.figures.test_others import measured
from tui.app.panels.compare import colours

NAMES = ("fedgh", "inco_avg", "mine")


def sessions(*names: str) -> list[SessionData]:
    return [run(name, [0.2, 0.5], method=name) for name in names]


def shades(figure: Figure, names: tuple[str, ...]) -> dict[str, str]:
    """The color of each line of the first plot, by its label."""
    of = {titles().get(name, name): name for name in names}
    lines = [line for line in figure.axes[0].lines if line.get_label() in of]
    return {of[str(line.get_label())]: to_hex(line.get_color()) for line in lines}


def expected(*names: str) -> dict[str, str]:
    return {name: style.shade(look_of(name)) for name in names}


def test_every_registered_method_has_a_color_with_dashes_and_a_mark_of_its_own() -> None:
    """Areas have no dashes."""
    looks = [look_of(name) for name in methods.names()]
    assert len({(look.colour, look.dashes) for look in looks}) == len(looks) >= 29
    assert len({(look.colour, look.mark) for look in looks}) == len(looks)


def test_methods_that_the_papers_compare_differ_in_color() -> None:
    baselines = ("standalone", "fml", "fedkd", "lg_fedavg", "fedproto")
    for table in (
        (*baselines, "fd", "fedgh", "fedlora", "fedssa"),
        (*baselines[1:], "fedgh", "fd", "fedl2g_l", "fedl2g_f", "fedgen"),
        ("fedavg", "fedprox", "fednova", "moon", "scaffold", "heterofl", "fedrolex", "heteroavg"),
        (*baselines, "fedgh", "fedlora", "fedssa", "fedl2g_f", "fedtgp"),
    ):
        assert len({look_of(name).colour for name in table}) == len(table)
        assert len({(look_of(name).dashes, look_of(name).mark) for name in table}) == len(table), "in grays"


def test_a_method_of_ones_own_has_its_look_by_a_hash_of_its_name() -> None:
    """SHA-256 begins 3fd30542fe3f61b1, of which 0x1b1 = 433 is the end: 433 % 8, 4 + 433 // 8 % 2, 433 // 64 % 8."""
    mine = look_of("mine")
    assert (OKABE_ITO.index(mine.colour), mine.dashes, mine.mark) == (1, 4, 6)
    built_in = {(look_of(name).colour, look_of(name).dashes) for name in methods.names()}
    assert (mine.colour, mine.dashes) not in built_in


@pytest.mark.long
def test_a_method_has_its_color_in_whatever_order_it_is_drawn() -> None:
    for order in permutations(NAMES):
        for number in (3, 2, 1):
            figure = accuracy.over(sessions(*order[:number]), by="method")
            assert shades(figure, NAMES) == expected(*order[:number])


def test_a_method_has_its_color_in_every_kind_of_figure() -> None:
    runs, shown = sessions(*NAMES), [*expected(*NAMES).values()]
    assert shades(accuracy.losses(runs, metrics=["objective"], by="method"), NAMES) == expected(*NAMES)
    both = [measured(name, (2, 0.2, 0.4), method=name) for name in NAMES]
    by_round, by_layer = clients.cka_curves(both, by="method").axes
    alone = run("alone", [0.4], 0, "standalone")
    grid = [
        run(f"{name}-{size}", [0.5], method=name, training={"batch_size": size})
        for name in NAMES
        for size in (8, 16)
    ]
    curve = sensitivity.curve(grid, axis="training.batch_size", by="method").axes[0]
    for drawn in (
        [box.get_facecolor() for box in accuracy.boxes(runs, by="method").axes[0].patches],
        [disc.get_facecolor()[0] for disc in accuracy.tradeoff(runs, by="method").axes[0].collections],
        [line.get_color() for line in by_round.lines[::2]],  # two layers each
        [line.get_color() for line in by_layer.lines],
        [line[0].get_color() for line in curve.containers],
        [line.get_color() for line in gains.gain_clients([*runs, alone], by="method").axes[0].lines[:-1]],
        [bar[0].get_color() for bar in gains.pareto(runs, by="method").axes[0].containers],
    ):
        assert list(map(to_hex, drawn)) == shown
    assert set(OF_SESSIONS) - {"heatmap", "inco", "gain-map", "critical-difference"} == {
        "accuracy", "box", "tradeoff", "loss", "metrics", "cka-curves", "sensitivity", "gain-clients", "pareto",
    }  # fmt: skip


def test_a_method_has_its_color_in_the_app() -> None:
    lines = [Seeds(each.name, (each,)) for each in sessions(*NAMES)]
    orange, sky_blue = OKABE_ITO[:2]
    assert colours(lines, [5, 2, 0]) == [(orange, 0), (orange, 1), (sky_blue, 0)]
    assert [look_of(name).colour for name in NAMES] == [orange, orange, sky_blue]


def test_lines_of_one_method_are_told_apart_by_the_palettes_order() -> None:
    runs = [run(str(mu), [0.5], method_settings={"mu": mu}) for mu in (1, 2, 3)]
    drawn = accuracy.over(runs, by="method.mu").axes[0].lines
    assert [to_hex(line.get_color()) for line in drawn] == [style.colour(place) for place in range(3)]
    lines = [Seeds(each.name, (each,)) for each in runs]
    assert colours(lines, [0, 1, 9]) == [(OKABE_ITO[0], 0), (OKABE_ITO[1], 0), (OKABE_ITO[1], 1)]


def test_several_lines_of_a_method_share_its_color_and_differ_in_dashes_from_all_others() -> None:
    runs = [*sessions("fedlora", "inco_prox", "fedprox"), run("again", [0.5], method="fedlora")]
    drawn = accuracy.over(runs, by="session").axes[0].lines
    assert len({line.get_color() for line in drawn}) == 1, "all three are sky blue"
    assert len({(str(line._unscaled_dash_pattern), line.get_marker()) for line in drawn}) == 4


@pytest.mark.long
def test_areas_of_ten_methods_differ_in_color_and_in_mark() -> None:
    ten = palette._METHODS[:10]
    assert len({look_of(name).colour for name in ten}) == 10
    for names in (ten, ("fd", "fml", "standalone", "fedl2g_l", "fedclassavg")):
        drawn = accuracy.tradeoff(sessions(*names), by="method").axes[0].collections
        assert len({each.get_paths()[0].vertices.tobytes() for each in drawn}) == len(names)
