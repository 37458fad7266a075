"""`make bench` without a clock: rates, tables, figures as a file, and the loop without a simulator."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from benchmarks import bench, figures, plain
from benchmarks.bench import PAGE, PARTS, PRECISIONS, WAYS, Bench
from benchmarks.figures import Sheet
from benchmarks.plain import PlainLoop
from simulator.base.errors import ConfigError
from simulator.base.tensors import part
from tests import federations

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
SHARE, TIMES = "matrix/htm5/64/fedgh/share", "plain/htm5/10/times_plain"


@pytest.fixture
def sheet() -> Sheet:
    sheet = Sheet("Steps", ("group", "batch", "µs"))
    sheet.add("htm5", "10", "4,238")
    sheet.add("htfe8", "64", "12")
    return sheet


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A benchmark of a device whose matrix rate is 10 GFLOP/s."""
    monkeypatch.setattr(plain, "products", lambda device, precision: 1e10)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Device")
    return Bench(Console(width=120), 1, CUDA)


# Rates


def test_the_rate_of_products_counts_those_of_every_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 products fit into SECONDS; each is 2 · 8³ operations, and the clock stands at 10 s after them."""
    monkeypatch.setattr(plain, "SIDE", 8)
    monkeypatch.setattr(plain, "seconds", lambda work: 0.005)
    clock = iter([0.0, 10.0])
    monkeypatch.setattr(plain.time, "perf_counter", lambda: next(clock))
    assert plain.rate(workers=3) == 3 * 100 * 2 * 8**3 / 10


def test_a_product_of_squares_of_side_n_is_two_n_cubed_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three products of side 10 in half a second, by a clock that is half a second later at each look."""
    ticks = iter(range(1000))
    monkeypatch.setattr(plain.time, "perf_counter", lambda: next(ticks) / 2)
    for precision in PRECISIONS["cuda"]:
        assert plain.products(CPU, precision, side=10, repeats=3) == 3 * 2 * 10**3 / 0.5


def test_both_limits_of_the_cpu_are_among_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "SIDE", 64)
    monkeypatch.setattr(plain, "SECONDS", 0.001)
    cpu = Bench(Console(quiet=True), rounds=1)
    assert [row[0] for row in cpu.ceilings().rows] == ["float32", "bf16"]
    assert set(cpu.figures) == {"ceiling/float32/rate", "ceiling/bf16/rate"}
    assert all(rate > 0 for rate in cpu.figures.values())


# Tables and their places


def test_a_table_has_its_title_columns_and_rows_on_a_page_and_in_a_terminal(sheet: Sheet) -> None:
    assert sheet.markdown().splitlines() == [
        *("Steps:", "", "| group | batch | µs |", "| --- | --- | --- |"),
        *("| htm5 | 10 | 4,238 |", "| htfe8 | 64 | 12 |"),
    ]
    console = Console(file=io.StringIO(), width=60)
    console.print(sheet.shown())
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "│ htm5  │    10 │ 4,238 │" in shown and "│ htfe8 │    64 │    12 │" in shown
    with pytest.raises(ValueError, match="2 cells for the columns group, batch, µs"):
        sheet.add("htm5", "10")


def test_the_page_has_a_place_for_every_table_of_a_gpu(tmp_path: Path, sheet: Sheet) -> None:
    page, before = tmp_path / "page.md", PAGE.read_text("utf-8")
    for name in PARTS["cuda"]:
        page.write_text(before, "utf-8")
        bench.write(page, name, Sheet("Measured", ("what",)))
        assert page.read_text("utf-8") == before  # nothing measured, nothing written over
        bench.write(page, name, sheet)
        assert f"<!-- gpu-{name} -->\n\nSteps:\n" in page.read_text("utf-8")


def test_every_way_of_a_gpu_is_a_configuration_that_there_is() -> None:
    runs = {way: plain.config("htfe8", 10, device="cuda", **more) for way, more in WAYS["cuda"].items()}
    assert {way: (run.training.precision, run.runtime.runner) for way, run in runs.items()} == {
        f"{precision}, {words}": (precision, runner)
        for precision in ("float32", "tf32", "bf16")
        for words, runner in (("side by side", "parallel"), ("stacked", "stacked"))
    }
    assert {(run.federation.clients, run.runtime.device) for run in runs.values()} == {(40, "cuda")}


def test_tables_of_a_device_have_its_name(gpu: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours is at half of the matrix rate, and twice as fast as the plain loop by the wall clock."""
    found = {
        "plain_seconds": 2.0,
        "seconds": 1.0,
        "times_plain": 2.0,
        "processor_times_plain": 1.5,
        "rate": 5e9,
    }
    monkeypatch.setattr(plain, "beside", lambda run, rounds: dict(found))
    sheet = gpu.plain(["htm5"], [10])
    assert "on an Device with torch" in sheet.title
    numbers = ("2.00", "1.00", "2.00", "1.50", "–", "–", "0.50")
    assert sheet.rows[1] == ("htm5", "10", "float32, stacked", *numbers)
    assert gpu.figures["plain/htm5/10/bf16, stacked/times_plain"] == 2.0


def test_what_a_device_cannot_is_left_out_and_said(
    gpu: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def beside(run: Any, rounds: int) -> dict[str, float]:
        raise ConfigError(f"no {run.training.precision} here.")

    monkeypatch.setattr(plain, "beside", beside)
    assert gpu.plain(["htm5"], [10]).rows == []
    gpu.end()
    assert "not measured: htm5, tf32, stacked: no tf32 here." in capsys.readouterr().out


def test_without_a_device_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="no CUDA device here to measure; `make bench` measures") as refused:
        bench.main([], "cuda")
    assert refused.value.exit_code == 2


# Figures as a file


def document(**changed: Any) -> dict[str, Any]:
    """What a file of this machine holds, with these entries instead."""
    return {"format": figures.FORMAT, "machine": figures.machine(), "figures": {SHARE: 0.5}} | changed


def test_a_file_is_read_again_and_anything_else_refused_with_the_reason(tmp_path: Path) -> None:
    path, measured = tmp_path / "figures.json", {SHARE: 1e-9, "µ/ä": 1e12}
    figures.write(path, measured)
    assert figures.read(path) == measured
    with pytest.raises(ConfigError, match=r"cannot read .*missing\.json: No such file"):
        figures.read(tmp_path / "missing.json")
    figures.refuse_unwritable(tmp_path / "new.json")
    for other in (tmp_path, tmp_path / "missing" / "new.json"):
        with pytest.raises(ConfigError, match="cannot write"):
            figures.refuse_unwritable(other)
    here, no_figures = figures.machine(), ("fast", True, None, 0, -1.0, float("nan"), float("inf"), [1.0])
    another = here | {"cores": 96, "torch": "1.0"}
    strange: list[Any] = [[1, 2], {"figures": {}}, document(format="htfl-sim benchmark 9")]
    cores = f"cores 96, here {here['cores']}; torch 1.0, here {here['torch']}"
    for text, why in [
        *((text, "is no JSON") for text in ("", "speed: fast", "[" * 100_000)),
        *((json.dumps(other), "give a file that --json wrote") for other in strange),
        *((json.dumps(document(figures={SHARE: each})), "no positive numbers") for each in no_figures),
        (json.dumps(document(figures=[0.5])), "no positive numbers"),
        (json.dumps(document(machine=another)), cores),
        (json.dumps(document(machine=None)), "cpu unknown"),
    ]:
        path.write_text(text)
        with pytest.raises(ConfigError) as refused:
            figures.read(path)
        assert str(path) in str(refused.value) and why in str(refused.value), text[:50]


def test_figures_of_a_gpu_belong_to_that_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A")
    figures.write(path, {SHARE: 0.7}, CUDA)
    assert json.loads(path.read_text())["machine"]["device"] == "cuda (A)"
    assert figures.read(path, CUDA) == {SHARE: 0.7}
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "B")
    with pytest.raises(ConfigError, match=r"device cuda \(A\), here cuda \(B\)"):
        figures.read(path, CUDA)


def test_a_smaller_share_and_a_smaller_gain_are_slower_and_scatter_and_seconds_are_not() -> None:
    found = figures.changes({"a": 1.0, "b": 2.0, "gone": 3.0}, {"b": 3.0, "new": 1.0, "a": 1.0})
    assert [(change.name, change.ratio) for change in found] == [("b", 1.5), ("a", 1.0)]
    slower = [
        "Slower: htm5, 64, fedgh trains at 0.40 of the matrix rate, before at 0.80.",
        "Slower: htm5, 10 is 1.60 times as fast as the plain loop, before 2.00 times.",
    ]
    even = ["Nothing got slower by more than 10%, of 2 figures that compare."]
    none = ["The two runs have no figure in common by which speed is judged."]
    for before, now, said in (
        ({TIMES: 2.0, SHARE: 0.8}, {TIMES: 1.6, SHARE: 0.4}, slower),
        ({TIMES: 1.00, SHARE: 0.5}, {TIMES: 0.92, SHARE: 0.9}, even),
        ({"plain/htm5/10/seconds": 1.0}, {"plain/htm5/10/seconds": 9.0}, none),
    ):
        assert figures.verdict(figures.changes(before, now)) == said


def test_features_of_the_cpu_are_those_that_linux_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "cpuinfo"
    monkeypatch.setattr(figures, "CPU_INFO", listed)
    assert figures.features() == []
    listed.write_text("processor : 0\nflags : fpu avx2 avx512f_not amx_bf16\nflags : avx512f\n")
    figures.write(tmp_path / "figures.json", {SHARE: 0.5})
    assert json.loads((tmp_path / "figures.json").read_text())["features"] == ["avx2", "amx_bf16"]


# The loop without a simulator


def test_a_step_of_all_images_ends_at_the_same_weights_but_for_the_rounding_of_sums() -> None:
    config = federations.config(
        training={"batch_size": 1_000, "momentum": 0.9, "weight_decay": 0.01},
        federation={"participation": 1, "group": "tiny_cnn"},  # which drops nothing out
    )
    with federations.on_images(federations.generated()):
        loop = PlainLoop(config)
    state = federations.run(federations.built(config).engine, rounds=1)
    assert state.record is not None
    loss = loop.round()
    for model, tensors in zip(loop.models, state.clients, strict=True):
        torch.testing.assert_close(model.state_dict(), part(tensors, "model"))
    samples = [len(loader.dataset) for loader in loop.loaders]  # type: ignore[arg-type]
    losses = state.record["loss"]["per_client"]
    weighted = sum(n * each for n, each in zip(samples, losses, strict=True)) / sum(samples)
    assert abs(loss - weighted) < 1e-5
    small = federations.config(training={"batch_size": 8}, federation={"participation": 1})
    with federations.on_images(federations.generated()):
        loop = PlainLoop(small)
    steps = [-(-len(client.train) // 8) for client in federations.built(small).data.clients]
    assert [len(loader) for loader in loop.loaders] == steps


def test_the_loop_has_as_many_threads_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first state is made with a client's one thread."""
    monkeypatch.setattr(plain, "_LOOP", [])
    before = torch.get_num_threads()
    try:
        with federations.on_images(federations.generated()):
            plain._begin(federations.config(), threads=3)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
        torch.use_deterministic_algorithms(True)


@pytest.mark.long
def test_a_round_is_timed_by_workers_and_threads_the_default_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with federations.on_images(federations.generated()):
        found = plain.by_workers(federations.config(), rounds=1)
    assert list(found) == [(2, 1), (3, 1), (1, 2), (1, 1)]
    assert min(found.values()) > 0
