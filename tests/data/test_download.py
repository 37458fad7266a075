"""Fetching a published file."""

import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.base.errors import DataError
from simulator.data import download as downloading
from simulator.data.datasets import silent
from simulator.data.download import download
from tests.data.server import Served, serving

CONTENT = bytes(range(256)) * 4096  # 1 MiB
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def server() -> Iterator[Served]:
    with serving(CONTENT) as served:
        yield served


def fetch(url: str, target: Path) -> None:
    download(url, target, MD5, silent, "cifar10")


def test_a_file_is_fetched_into_a_folder_that_is_made_with_progress_to_the_end(
    server: Served, tmp_path: Path
) -> None:
    told: list[tuple[int, int]] = []
    target = tmp_path / "new" / "data.bin"
    download(server.url, target, MD5, lambda done, total: told.append((done, total)), "cifar10")
    assert target.read_bytes() == CONTENT
    assert [file.name for file in target.parent.iterdir()] == ["data.bin"]
    assert told == sorted(told)
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert len(told) > 1


def test_a_broken_download_goes_on_where_it_stopped(server: Served, tmp_path: Path) -> None:
    target = tmp_path / "data.bin"
    server.breaks_off_after = 500_000
    with pytest.raises(DataError, match="broke off after 500000 of 1048576 bytes"):
        fetch(server.url, target)
    assert not target.exists()
    server.breaks_off_after = None
    fetch(server.url, target)
    assert target.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=500000-"]


def test_a_server_that_cannot_continue_is_taken_from_the_start(server: Served, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(CONTENT[:1000])
    server.honours_ranges = False
    fetch(server.url, tmp_path / "data.bin")
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_a_part_that_is_whole_already_is_put_in_place(server: Served, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(CONTENT)
    fetch(server.url, tmp_path / "data.bin")
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_another_file_than_the_published_one_is_thrown_away(server: Served, tmp_path: Path) -> None:
    server.content = CONTENT[:-1] + b"!"
    with pytest.raises(DataError, match="not the published file"):
        fetch(server.url, tmp_path / "data.bin")
    assert list(tmp_path.iterdir()) == []


def test_an_unreachable_server_is_reported_with_file_place_and_both_ways_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(DataError) as error:
        fetch(f"http://127.0.0.1:{port}/", tmp_path / "data.bin")
    message = str(error.value)
    for part in ("data.bin", str(tmp_path), "htfl-sim data fetch cifar10", "`dataset='digits'`", "refused"):
        assert part in message
    assert error.value.exit_code == 3


def test_a_server_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloading, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute, pytest.raises(DataError, match="timed out"):
        fetch(f"http://127.0.0.1:{mute.getsockname()[1]}/", tmp_path / "data.bin")
