"""Files from strangers are data: no path, link, size or header in them is taken on trust."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from checkpoints import Damaged, SessionReader, SessionUnreadable, Store, TensorSpec, verify
from checkpoints.schema import seal, unseal
from tests.checkpoints.helpers import make, weights

MANIFEST = "manifests/000001.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make(tmp_path / "s", rounds=1)


def rewrite(folder: Path, change: dict[str, Any]) -> None:
    """A manifest with a valid seal and the stranger's contents."""
    document = unseal((folder / MANIFEST).read_bytes(), MANIFEST)
    (folder / MANIFEST).write_bytes(seal(document | change))


def plant(folder: Path, data: bytes) -> None:
    """Make `data` the server's object, hash and size in order."""
    sha256 = hashlib.sha256(data).hexdigest()
    (folder / "objects" / sha256[:2]).mkdir(exist_ok=True)
    (folder / "objects" / sha256[:2] / f"{sha256}.safetensors").write_bytes(data)
    rewrite(folder, {"states": {"server": {"sha256": sha256, "size": len(data)}}})


def safetensors(header: object, body: bytes = b"") -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + body


CHANGES = [
    {"states": {"server": {"sha256": "../../../etc/passwd", "size": 1}}},
    {"states": {"server": {"sha256": "A" * 64, "size": 1}}},
    {"states": {"server": {"sha256": "a" * 64 + "\n", "size": 1}}},
    {"states": {"server": {"sha256": "a" * 64, "size": -1}}},
    {"states": {"server": {"sha256": "a" * 64, "size": 1 << 60}}},
    {"states": {"server": {"sha256": "a" * 64, "size": 1, "path": "/etc/passwd"}}},
    {"states": {"client/../server": {"sha256": "a" * 64, "size": 1}}},
    {"states": {"client/٣": {"sha256": "a" * 64, "size": 1}}},
    {"states": []},
    {"round": 2},
    {"round": True},
    {"round": "1"},
    {"record": {"round": 9}},
    {"ledger": {"bytes": -1, "sha256": "a" * 64}},
    {"ledger": {"bytes": 0, "sha256": "x"}},
    {"ledger": None},
    {"history": "fedlora"},
    {"applied": [1]},
    {"more": 1},
]


def test_a_manifest_that_says_anything_else_is_refused(tmp_path: Path) -> None:
    for number, change in enumerate(CHANGES):
        folder = make(tmp_path / str(number), rounds=1)
        rewrite(folder, change)

        with pytest.raises(Damaged, match="000001"):
            SessionReader(folder).manifest(1)
        with pytest.raises(Damaged, match="000001"):
            Store.open(folder)
        assert MANIFEST in {finding.path for finding in verify(folder) if finding.severity == "damage"}


LINKED = ["session.json", MANIFEST, "ledger.jsonl", "events.jsonl", "object", "manifests"]


def test_links_are_not_followed_even_to_sound_files(tmp_path: Path) -> None:
    for number, name in enumerate(LINKED):
        folder = make(tmp_path / str(number), rounds=1)
        path = folder / (SessionReader(folder).manifest().states["server"].name if name == "object" else name)
        elsewhere = path.rename(folder.parent / f"elsewhere{number}")
        path.symlink_to(elsewhere)

        with pytest.raises(SessionUnreadable, match="links are not followed"):
            Store.open(folder)
        assert any("links are not followed" in finding.message for finding in verify(folder))


def test_a_pipe_in_the_place_of_a_file_does_not_block(folder: Path) -> None:
    path = folder / SessionReader(folder).manifest().states["server"].name
    path.unlink()
    os.mkfifo(path)

    with pytest.raises(Damaged, match="not a plain file"):
        SessionReader(folder).load(None, "server")


HEADERS = [
    (b"", "unreadable header"),
    (b"\x08", "unreadable header"),
    ((1 << 20 | 1).to_bytes(8, "little") + b" " * (2 << 20), "claims a header of 1,048,577 bytes"),
    ((1 << 63).to_bytes(8, "little"), "claims a header"),
    (safetensors(b"{"), "unreadable header"),
    (safetensors(b"[" * 5000), "unreadable header"),
    (safetensors([]), "no table"),
    (safetensors({str(n): {} for n in range(10_001)}), "more than 10,000 tensors"),
    (safetensors(b'{"a":{},"a":{}}'), "occurs twice"),
    (safetensors({"__metadata__": {"x": "y"}}), "unreadable header"),
    (safetensors({"a": {"dtype": "PICKLE", "shape": [1], "data_offsets": [0, 1]}}, b"x"), "unreadable"),
    (safetensors({"a": {"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]}}, b"x"), "unreadable"),
    (safetensors({"a": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}}, b"x"), "not valid"),
    (safetensors({"a": {"dtype": "U8", "shape": [1 << 62], "data_offsets": [0, 1]}}, b"x"), "not valid"),
]


def test_an_object_with_a_hostile_header_is_refused(tmp_path: Path) -> None:
    for number, (data, reason) in enumerate(HEADERS):
        folder = make(tmp_path / str(number), rounds=1)
        plant(folder, data)

        with pytest.raises(Damaged, match=f"round 1, server: .*{reason}"):
            SessionReader(folder).load(1, "server")


EXPECTED = [
    ({"fc.bias": TensorSpec((3,), "float32")}, "'fc.bias' is missing"),
    ({"fc.weight": TensorSpec((3, 2), "float32")}, "'fc.steps' is not expected"),
    (
        {"fc.weight": TensorSpec((2, 3), "float32"), "fc.steps": TensorSpec((1,), "int64")},
        r"'fc.weight' is float32\[3, 2\], not float32\[2, 3\]",
    ),
    (
        {"fc.weight": TensorSpec((3, 2), "float32"), "fc.steps": TensorSpec((1,), "int32")},
        r"'fc.steps' is int64\[1\], not int32\[1\]",
    ),
]


def test_tensors_are_exactly_the_expected_ones(folder: Path) -> None:
    for expected, reason in EXPECTED:
        with pytest.raises(Damaged, match=reason):
            SessionReader(folder).load(1, "server", expected)


def test_an_object_larger_than_its_manifest_says_is_not_read(folder: Path) -> None:
    path = folder / SessionReader(folder).manifest().states["server"].name
    os.truncate(path, 1 << 40)  # a hole: a terabyte to read, nothing on disk

    with pytest.raises(Damaged, match="more than the"):
        SessionReader(folder).load(1, "server", {name: TensorSpec.of(t) for name, t in weights(1).items()})


def test_json_over_its_cap_is_not_parsed(folder: Path) -> None:
    os.truncate(folder / "session.json", 1 << 40)

    with pytest.raises(Damaged, match="more than the"):
        SessionReader(folder)
