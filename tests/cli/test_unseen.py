"""Unseen clients in `show`, `compare`, and `export`."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkpoints import SessionReader
from tests.cli.conftest import TINY, Cli, call


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Sessions of two seeds, in which two of four clients are unseen and measured after rounds 2 and 3."""
    folder = tmp_path_factory.mktemp("unseen") / "sessions"
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("HTFL_SESSIONS", str(folder))
        changed.setenv("HTFL_DATA", str(folder.parent / "data"))
        for seed in (0, 1):
            given = ("--rounds=3", "--set=federation.unseen=0.5", "--set=unseen.every=2", f"--seed={seed}")
            made = call("run", "--session", f"s{seed}", "--method=fedavg", *TINY, *given)
            assert made.code == 0, made.err
        yield folder


@pytest.fixture
def cli(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("HTFL_SESSIONS", str(folder))
    return call


def records(folder: Path, name: str) -> list[Any]:
    return SessionReader(folder / name).records()


def percent(accuracy: float) -> str:
    return f"{100 * accuracy:.1f}"


def test_show_has_a_row_for_each_unseen_client_and_their_mean(cli: Cli, folder: Path) -> None:
    unseen = records(folder, "s0")[2]["unseen"]
    page = cli("show", "s0").out
    lines = page[page.index("Unseen clients after round 3") :].splitlines()[2:5]
    for line, client in zip(lines, unseen["clients"], strict=False):
        assert line.split()[0] == str(client)
        for moment in ("before", "after", "alone"):
            assert percent(unseen[moment]["per_client"][str(client)]) in line
    assert percent(unseen["alone"]["mean"]) in lines[2]
    assert f"Participating clients: {percent(unseen['participating'])}" in page


def test_show_of_a_round_without_a_measurement_has_the_last_one(cli: Cli) -> None:
    assert "Unseen clients" not in cli("show", "s0", "--round=1").out
    assert "Unseen clients after round 2" in cli("show", "s0", "--round=2").out


def test_compare_has_columns_of_unseen_clients_if_they_are_named(cli: Cli, folder: Path) -> None:
    """Means over two seeds of the last measurement."""
    given = ("compare", "s0", "s1", "--by=method")
    named = [f"--columns=unseen {moment}" for moment in ("before", "after", "alone")]
    [row] = cli(*given, *named, "--json").json()["rows"]
    last = [records(folder, name)[2]["unseen"] for name in ("s0", "s1")]
    for moment in ("before", "after", "alone"):
        assert row["extras"][f"unseen {moment}"]["mean"] == pytest.approx(
            sum(each[moment]["mean"] for each in last) / 2
        )
    assert cli(*given, *named).out.split("\n")[0] == "unseen before, %  unseen after, %  unseen alone, %"
    assert "unseen" not in cli(*given).out


def test_exported_tables_have_columns_of_unseen_clients(cli: Cli, folder: Path) -> None:
    rounds = list(csv.DictReader(io.StringIO(cli("export", "s0").out)))
    recorded = [record.get("unseen") for record in records(folder, "s0")]
    assert [row["unseen_after"] for row in rounds] == [
        "" if each is None else str(each["after"]["mean"]) for each in recorded
    ]
    clients = list(csv.DictReader(io.StringIO(cli("export", "s0", "--what=clients").out)))
    found = {(row["round"], row["client"]): row["unseen_alone"] for row in clients if row["unseen_alone"]}
    assert found == {
        (str(round), client): str(alone)
        for round in (2, 3)
        for client, alone in recorded[round - 1]["alone"]["per_client"].items()
    }
