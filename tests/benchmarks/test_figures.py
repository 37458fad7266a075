"""A benchmark's figures as a file, and what is said of an earlier one."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from benchmarks import figures, plain
from benchmarks.bench import Bench
from simulator.base.errors import ConfigError

SHARE, TIMES = "matrix/htm5/64/fedgh/share", "plain/htm5/10/times_plain"
NAMES = st.text(min_size=1)
FIGURES = st.floats(min_value=1e-9, max_value=1e12)


def document(**changed: Any) -> dict[str, Any]:
    """What a file of this machine holds, with these entries instead."""
    return {"format": figures.FORMAT, "machine": figures.machine(), "figures": {SHARE: 0.5}} | changed


def told(found: Any, tmp_path: Path) -> str:
    """What a reader of a file with that content is told."""
    path = tmp_path / "figures.json"
    path.write_text(found if isinstance(found, str) else json.dumps(found))
    with pytest.raises(ConfigError) as refused:
        figures.read(path)
    assert str(path) in str(refused.value)
    return str(refused.value)


@pytest.mark.long
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # of a busy machine
@given(st.dictionaries(NAMES, FIGURES))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, measured: dict[str, float]
) -> None:
    path = tmp_path_factory.mktemp("figures") / "figures.json"
    figures.write(path, measured)
    assert figures.read(path) == measured


def test_a_file_that_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*missing\.json: No such file"):
        figures.read(tmp_path / "missing.json")


def test_a_file_that_is_no_json_is_said_to_be_none(tmp_path: Path) -> None:
    for text in ("", "speed: fast", "[" * 100_000):
        assert "is no JSON" in told(text, tmp_path)


def test_json_that_no_benchmark_wrote_is_refused(tmp_path: Path) -> None:
    for other in ([1, 2], {"figures": {}}, document(format="htfl-sim benchmark 9")):
        assert "give a file that --json wrote" in told(other, tmp_path)


def test_figures_are_positive_numbers(tmp_path: Path) -> None:
    for figure in ("fast", True, None, 0, -1.0, float("nan"), float("inf"), [1.0]):
        assert "no positive numbers" in told(document(figures={SHARE: figure}), tmp_path)
        assert "no positive numbers" in told(document(figures=[figure]), tmp_path)


def test_figures_of_another_machine_are_refused_with_what_differs(tmp_path: Path) -> None:
    here = figures.machine()
    said = told(document(machine=here | {"cores": 96, "torch": "1.0"}), tmp_path)
    assert f"cores 96, here {here['cores']}; torch 1.0, here {here['torch']}" in said
    assert "cpu" not in said
    assert "cpu unknown" in told(document(machine=None), tmp_path)


def test_a_file_that_could_not_be_written_is_refused_beforehand(tmp_path: Path) -> None:
    figures.refuse_unwritable(tmp_path / "new.json")
    for path in (tmp_path, tmp_path / "missing" / "new.json"):
        with pytest.raises(ConfigError, match="cannot write"):
            figures.refuse_unwritable(path)


def test_only_figures_of_both_runs_compare_in_the_order_of_this_one() -> None:
    found = figures.changes({"a": 1.0, "b": 2.0, "gone": 3.0}, {"b": 3.0, "new": 1.0, "a": 1.0})
    assert [(change.name, change.ratio) for change in found] == [("b", 1.5), ("a", 1.0)]


def test_a_smaller_share_and_a_smaller_gain_over_the_plain_loop_are_slower() -> None:
    assert figures.verdict(figures.changes({TIMES: 2.0, SHARE: 0.8}, {TIMES: 1.6, SHARE: 0.4})) == [
        "Slower: htm5, 64, fedgh trains at 0.40 of the matrix rate, before at 0.80.",
        "Slower: htm5, 10 is 1.60 times as fast as the plain loop, before 2.00 times.",
    ]


def test_scatter_is_not_called_slower() -> None:
    found = figures.changes({TIMES: 1.00, SHARE: 0.5}, {TIMES: 0.92, SHARE: 0.9})
    assert figures.verdict(found) == ["Nothing got slower by more than 10%, of 2 figures that compare."]


def test_seconds_of_the_wall_clock_are_shown_and_not_judged() -> None:
    found = figures.changes({"plain/htm5/10/seconds": 1.0}, {"plain/htm5/10/seconds": 9.0})
    assert found[0].ratio == 9
    assert figures.verdict(found) == ["The two runs have no figure in common by which speed is judged."]


def test_the_features_of_the_cpu_are_those_that_linux_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "cpuinfo"
    monkeypatch.setattr(figures, "CPU_INFO", listed)
    assert figures.features() == []
    listed.write_text("processor : 0\nflags : fpu avx2 avx512f_not amx_bf16\nflags : avx512f\n")
    assert figures.features() == ["avx2", "amx_bf16"]
    figures.write(tmp_path / "figures.json", {SHARE: 0.5})
    assert json.loads((tmp_path / "figures.json").read_text())["features"] == ["avx2", "amx_bf16"]


def test_both_limits_of_the_cpu_are_among_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "SIDE", 64)
    monkeypatch.setattr(plain, "SECONDS", 0.001)
    console = Console(file=io.StringIO(), width=120)
    bench = Bench(console, rounds=1)
    sheet = bench.ceilings()
    assert [row[0] for row in sheet.rows] == ["float32", "bf16"]
    assert set(bench.figures) == {"ceiling/float32/rate", "ceiling/bf16/rate"}
    assert all(rate > 0 for rate in bench.figures.values())


def test_the_rate_of_products_counts_those_of_every_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 products fit into SECONDS; each is 2 · 8³ operations, and the clock stands at 10 s after them."""
    monkeypatch.setattr(plain, "SIDE", 8)
    monkeypatch.setattr(plain, "_seconds", lambda work: 0.005)
    clock = iter([0.0, 10.0])
    monkeypatch.setattr(plain.time, "perf_counter", lambda: next(clock))
    assert plain.rate(workers=3) == 3 * 100 * 2 * 8**3 / 10
