"""Damaged, torn and hostile files: found before they are used, named, and never silent, by the commands themselves."""

import json
from pathlib import Path

import pytest

from checkpoints import SessionReader
from simulator.base import rng
from tests.cli.conftest import Cli
from tests.cli.test_bad_input import assert_refused
from tests.federations import committed


def flip(path: Path, at: float) -> None:
    """One bit of a file, `at` of the way through."""
    data = bytearray(path.read_bytes())
    data[int(at * (len(data) - 1))] ^= 16
    path.write_bytes(data)


@pytest.mark.parametrize("at", [0.0, 0.02, 0.5, 1.0], ids=["length", "header", "middle", "last"])
@pytest.mark.parametrize("state", ["server", "client/2"])
def test_a_bit_flipped_object_is_found_named_and_an_older_round_offered(
    cli: Cli, done: Path, state: str, at: float
) -> None:
    name = SessionReader(done).manifest().states[state].name
    flip(done / name, at)
    assert_refused(cli("resume", "done"), 4, "round 3", name)
    assert_refused(cli("resume", "done"), 4, state, "go on from round 2")
    assert cli("fork", "done", "--at-round=2", "--session=child", "--run").code == 0


@pytest.mark.parametrize("left", [0, 7, 200])
def test_a_truncated_object_is_found_named_and_an_older_round_offered(
    cli: Cli, done: Path, left: int
) -> None:
    name = SessionReader(done).manifest().states["client/2"].name
    (done / name).write_bytes((done / name).read_bytes()[:left])
    assert_refused(cli("resume", "done"), 4, "round 3", "client/2", name, "go on from round 2")


def test_a_flipped_bit_in_any_file_is_named_by_verify(cli: Cli, done: Path) -> None:
    draw = rng.numpy_stream(0, "tests/flips")
    for path in sorted(each for each in done.rglob("*") if each.is_file() and each.stat().st_size):
        whole = path.read_bytes()
        flip(path, float(draw.uniform()))
        result = cli("verify", "done")
        assert (result.code, path.relative_to(done).as_posix() in result.out + result.err) == (4, True)
        path.write_bytes(whole)
    assert cli("verify", "done").code == 0


@pytest.mark.parametrize("tear", [1, 40, 600])
def test_a_torn_last_ledger_line_is_rebuilt_and_said(cli: Cli, done: Path, tear: int) -> None:
    before = committed(done)
    whole = (done / "ledger.jsonl").read_bytes()
    (done / "ledger.jsonl").write_bytes(whole[:-tear])
    assert cli("show", "done", "--round=3", "--json").json()["round"] == 3
    assert committed(done) == before, "a reader fills in what is missing"
    assert cli("resume", "done").code == 0
    assert (done / "ledger.jsonl").read_bytes() == whole
    assert any(event["event"] == "warning" for event in SessionReader(done).events())


@pytest.mark.parametrize("name", ["session.json", "manifests/000003.json"])
def test_a_hostile_session_json_or_manifest_reaches_no_file_outside(
    cli: Cli, done: Path, tmp_path: Path, name: str
) -> None:
    """A link in its place, to a sound file of the same name elsewhere."""
    outside = tmp_path / "outside.json"
    (done / name).rename(outside)
    (done / name).symlink_to(outside)
    assert_refused(cli("resume", "done"), 4, "links are not followed")


def test_a_hostile_safetensors_file_in_the_place_of_a_state_is_refused_unread(cli: Cli, done: Path) -> None:
    """A header of 200,000 empty tensors: safetensors itself would read it. With hashes that fit: see test_hostile."""
    name = SessionReader(done).manifest().states["server"].name
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header = json.dumps({f"t{number}": empty for number in range(200_000)}).encode()
    (done / name).write_bytes(len(header).to_bytes(8, "little") + header)
    assert_refused(cli("resume", "done"), 4, "round 3, server", name)
