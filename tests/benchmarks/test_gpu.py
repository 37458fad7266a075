"""What the benchmark of a GPU computes without one: rates, its tables and their places."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from benchmarks import figures, gpu
from benchmarks.figures import Sheet
from simulator.base.errors import ConfigError
from tests import federations

CPU = torch.device("cpu")


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is half a second later each time that somebody looks."""
    ticks = iter(range(1000))
    monkeypatch.setattr(gpu.time, "perf_counter", lambda: next(ticks) / 2)


# Ceilings


def test_a_product_of_squares_of_side_n_is_two_n_cubed_operations(ticking: None) -> None:
    """Three products of side 10 in half a second: 3 · 2 · 1,000 / 0.5."""
    for precision in gpu.PRECISIONS:
        assert gpu.products(CPU, precision, side=10, repeats=3) == 12_000


def test_the_first_call_is_not_timed() -> None:
    calls: list[int] = []
    gpu.seconds(CPU, lambda: calls.append(1), repeats=3)
    assert len(calls) == 1 + 3


# The command


def test_the_second_round_is_looked_at() -> None:
    seen: list[int] = []

    def look(work: Any) -> str:
        seen.append(work().round)
        return "seen"

    with federations.on_images(federations.generated()):
        assert gpu.of_a_round(federations.config(), look) == "seen"
    assert seen == [2]


def test_without_a_device_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="no CUDA device here to measure; `make bench` measures") as refused:
        gpu.main([])
    assert refused.value.exit_code == 2


def test_every_way_is_a_configuration_that_there_is() -> None:
    assert list(gpu.WAYS) == [
        *("float32, side by side", "float32, stacked"),
        *("tf32, side by side", "tf32, stacked"),
        *("bf16, side by side", "bf16, stacked"),
    ]
    for way in gpu.WAYS.values():
        run = gpu.config("htfe8", 10, device="cuda", **way)
        assert (run.training.precision, run.runtime.runner) == (
            way["training"]["precision"],
            way["runtime"]["runner"],
        )
        assert (run.federation.clients, run.runtime.device) == (40, "cuda")


def test_the_page_has_a_place_for_every_table(tmp_path: Path) -> None:
    for part in gpu.PARTS:
        page = tmp_path / "page.md"
        page.write_text(gpu.PAGE.read_text("utf-8"), "utf-8")
        sheet = Sheet("Measured", ("what",))
        gpu.write(page, {part: sheet})
        assert page.read_text("utf-8") == gpu.PAGE.read_text(
            "utf-8"
        )  # nothing measured, nothing written over
        sheet.add("a row")
        gpu.write(page, {part: sheet})
        assert f"<!-- gpu-{part} -->\n\nMeasured:\n" in page.read_text("utf-8")


def test_tables_of_a_device_are_those_of_a_cpu_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix rate of 10 GFLOP/s; ours is at 5, and twice as fast as the plain loop by the wall clock."""
    monkeypatch.setattr(gpu, "products", lambda device, precision: 1e10)
    found = {
        "plain_seconds": 2.0,
        "seconds": 1.0,
        "times_plain": 2.0,
        "processor_times_plain": 1.5,
        "rate": 5e9,
    }
    monkeypatch.setattr("benchmarks.plain.beside", lambda run, rounds: dict(found))
    bench = gpu.OnDevice(Console(quiet=True), 1, CPU, "a Device")
    sheet = bench.plain(["htm5"], [10])
    assert "on a Device" in sheet.title
    assert sheet.rows[1] == (
        "htm5",
        "10",
        "float32, stacked",
        "2.00",
        "1.00",
        "2.00",
        "1.50",
        "–",
        "–",
        "0.50",
    )
    assert bench.figures["plain/htm5/10/bf16, stacked/times_plain"] == 2.0


def test_what_a_device_cannot_is_left_out_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "products", lambda device, precision: 1e10)

    def beside(run: Any, rounds: int) -> dict[str, float]:
        raise ConfigError(f"no {run.training.precision} here.")

    monkeypatch.setattr("benchmarks.plain.beside", beside)
    bench = gpu.OnDevice(Console(width=120), 1, CPU, "a Device")
    assert bench.plain(["htm5"], [10]).rows == []
    bench.end()
    assert "not measured: htm5, tf32, stacked: no tf32 here." in capsys.readouterr().out


def test_figures_of_a_gpu_belong_to_that_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path, cuda = tmp_path / "figures.json", torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A")
    figures.write(path, {"matrix/htm5/64/fedgh/share": 0.7}, cuda)
    assert json.loads(path.read_text())["machine"]["device"] == "cuda (A)"
    assert figures.read(path, cuda) == {"matrix/htm5/64/fedgh/share": 0.7}
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "B")
    with pytest.raises(ConfigError, match=r"device cuda \(A\), here cuda \(B\)"):
        figures.read(path, cuda)
