"""Files from strangers are data: no path, link, size, header, or command in them is taken on trust."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from checkpoints import (
    Damaged,
    SessionReader,
    SessionUnreadable,
    Store,
    TensorSpec,
    answer,
    pending,
    post,
    verify,
)
from checkpoints.schema import seal, unseal
from tests.checkpoints.helpers import commit, damaged, make, save_unfinished_round, warnings, weights

MANIFEST = "manifests/000001.json"
ID = "01790000000000000000-0123abcd"
COMMAND = f"control/inbox/{ID}.json"
PARTIAL = "partial/000002.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make(tmp_path / "s", rounds=1)


def server_file(folder: Path) -> Path:
    return folder / SessionReader(folder).manifest().states["server"].name


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


OBJECT = {"sha256": "a" * 64, "size": 1}
CHANGES: list[dict[str, Any]] = [
    *[{"states": {"server": OBJECT | {"sha256": name}}} for name in ("../../passwd", "A" * 64, "a" * 64 + "\n")],
    *[{"states": {"server": OBJECT | change}} for change in ({"size": -1}, {"size": 1 << 60}, {"path": "/etc/passwd"})],
    *[{"states": {name: OBJECT}} for name in ("client/../server", "client/٣")],
    {"states": []},
    *[{"round": round} for round in (2, True, "1")],
    {"record": {"round": 9}},
    *[{"ledger": ledger} for ledger in ({"bytes": -1, "sha256": "a" * 64}, {"bytes": 0, "sha256": "x"}, None)],
    {"history": "fedlora"},
    {"applied": [1]},
    {"more": 1},
]  # fmt: skip


def test_a_manifest_that_says_anything_else_is_refused(folder: Path) -> None:
    sound = (folder / MANIFEST).read_bytes()
    for change in CHANGES:
        (folder / MANIFEST).write_bytes(sound)
        rewrite(folder, change)
        for use in (SessionReader(folder).manifest, lambda: Store.open(folder)):
            with pytest.raises(Damaged, match="000001"):
                use()
        assert MANIFEST in damaged(folder)


LINKED = ["session.json", MANIFEST, "ledger.jsonl", "events.jsonl", "object", "manifests"]


def test_links_are_not_followed_even_to_sound_files(tmp_path: Path) -> None:
    for number, name in enumerate(LINKED):
        folder = make(tmp_path / str(number), rounds=1)
        path = server_file(folder) if name == "object" else folder / name
        path.symlink_to(path.rename(folder.parent / f"elsewhere{number}"))

        with pytest.raises(SessionUnreadable, match="links are not followed"):
            Store.open(folder)
        assert any("links are not followed" in finding.message for finding in verify(folder))


def test_a_pipe_in_the_place_of_a_file_does_not_block(folder: Path) -> None:
    path = server_file(folder)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(Damaged, match="not a plain file"):
        SessionReader(folder).load(None, "server")


def test_what_is_larger_than_it_may_be_is_not_read(folder: Path) -> None:
    """Holes: a terabyte to read, and nothing on disk."""
    os.truncate(server_file(folder), 1 << 40)
    expected = {name: TensorSpec.of(tensor) for name, tensor in weights(1).items()}
    with pytest.raises(Damaged, match="more than the"):
        SessionReader(folder).load(1, "server", expected)
    server_file(folder).write_bytes(b"")
    os.truncate(folder / "session.json", 1 << 40)
    with pytest.raises(Damaged, match="more than the"):
        SessionReader(folder)


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


def test_an_object_with_a_hostile_header_is_refused(folder: Path) -> None:
    for data, reason in HEADERS:
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


# Commands and unfinished rounds


def command(**change: Any) -> bytes:
    return seal({"id": ID, "kind": "pause", "arguments": {}, "at": "now", "by": "me"} | change)


NO_COMMANDS = [
    b"",
    b"[" * 5000,
    command()[:-2],
    command().replace(b"pause", b"pausE"),
    seal({}),
    command(id="01790000000000000000-ffffffff"),
    command(id=1),
    command(kind="rm -rf"),
    command(kind="pause\n"),
    command(arguments=[]),
    command(by="\x1b[2J"),
    command(more=1),
    command(arguments={"x": "y" * (64 << 10)}),
]


def test_a_file_that_is_no_command_is_refused_and_the_next_one_read(folder: Path) -> None:
    for data in NO_COMMANDS:
        (folder / COMMAND).write_bytes(data)
        good = post(folder, "stop")
        assert pending(folder) == [good]
        assert damaged(folder) == {COMMAND}

        with Store.open(folder) as store:
            assert store.commands() == [good]
            assert warnings(store)[-1].startswith("A command was refused: ")
            store.answer(good, "refused")
            commit(store, (store.round or 0) + 1)
        reply = answer(folder, ID)
        assert reply is not None and (reply.kind, reply.outcome) == ("", "refused")
        assert not (folder / COMMAND).exists()
        assert damaged(folder) == set()
        (folder / "control" / "done" / f"{ID}.json").unlink()


def test_what_is_no_plain_file_is_removed_and_not_followed(tmp_path: Path) -> None:
    for number, kind in enumerate(["link", "broken link", "pipe"]):
        folder = make(tmp_path / str(number), rounds=1)
        elsewhere = folder.parent / f"elsewhere{number}.json"
        if kind == "pipe":
            os.mkfifo(folder / COMMAND)
        else:
            (folder / COMMAND).symlink_to(elsewhere)
        if kind == "link":
            elsewhere.write_bytes(command())

        with Store.open(folder) as store:
            assert store.commands() == []
            assert "not a plain file" in warnings(store)[0]
        assert not os.path.lexists(folder / COMMAND)
        assert elsewhere.exists() == (kind == "link")


def test_a_folder_in_the_place_of_a_command_is_left_alone_and_told_of_once(folder: Path) -> None:
    (folder / COMMAND).mkdir()
    (folder / COMMAND / "mine").write_text("x")

    for _ in range(2):
        with Store.open(folder) as store:
            assert store.commands() == store.commands() == []
            assert len(warnings(store)) == 1
            commit(store, (store.round or 0) + 1)
    assert (folder / COMMAND / "mine").read_text() == "x"


def test_files_of_other_names_are_left_alone_and_told_of_once(folder: Path) -> None:
    names = ["notes.txt", f"{ID}.json.json", f"{ID.upper()}.json", "٣" * 20 + "-00000000.json", "\x1b[2J\n"]
    for name in (*names, ".nfs0001"):
        (folder / "control" / "inbox" / name).write_bytes(command())

    with Store.open(folder) as store:
        assert store.commands() == store.commands() == []
        told = warnings(store)
    assert len(told) == len(names)
    assert all("is not a command; it was left alone" in line and line.isprintable() for line in told)
    assert len(list((folder / "control" / "inbox").iterdir())) == len(names) + 1


def test_an_inbox_that_becomes_a_link_stops_commands_and_not_the_run(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere"
    with Store.open(folder) as store:
        (folder / "control" / "inbox").rename(elsewhere)
        (folder / "control" / "inbox").symlink_to(elsewhere)
        (elsewhere / f"{ID}.json").write_bytes(command())

        assert store.commands() == store.commands() == []
        (warning,) = warnings(store)
        assert warning.startswith("No commands can be received: control/inbox is not a plain folder")
        with pytest.raises(Damaged, match="links are not followed"):
            post(folder, "pause")
        commit(store, 2)
    assert [path.name for path in elsewhere.iterdir()] == [f"{ID}.json"]


ALTERED = [b"", seal({}), b"x" * (65 << 10)]


def test_an_answer_that_was_altered_is_damaged(folder: Path) -> None:
    for data in ALTERED:
        (folder / "control" / "done" / f"{ID}.json").write_bytes(data)

        with pytest.raises(Damaged, match=f"control/done/{ID}"):
            answer(folder, ID)
        assert damaged(folder) == {f"control/done/{ID}.json"}


OF_ROUNDS: list[dict[str, Any]] = [
    *[{"round": round} for round in (3, True, "2")],
    {"note": []},
    {"states": []},
    {"states": {"../../etc/passwd": OBJECT}},
    *[{"states": {"client/0/state": ref}} for ref in (OBJECT | {"sha256": "../../../etc/passwd"}, None)],
    {"more": 1},
]


def test_an_unfinished_round_that_says_anything_else_is_computed_again(folder: Path) -> None:
    for change in OF_ROUNDS:
        with Store.open(folder) as store:
            save_unfinished_round(store, 2)
        document = unseal((folder / PARTIAL).read_bytes(), PARTIAL)
        (folder / PARTIAL).write_bytes(seal(document | change))
        assert damaged(folder) == {PARTIAL}
        assert SessionReader(folder).unfinished_round() is None

        with Store.open(folder) as store:
            assert store.unfinished_round() is None
            assert warnings(store)[-1].endswith("the finished clients of round 2 are computed again.")
        assert damaged(folder) == set()


def test_a_link_for_an_unfinished_round_is_removed_and_a_folder_refused(folder: Path) -> None:
    with Store.open(folder) as store:
        save_unfinished_round(store, 2)
    elsewhere = (folder / PARTIAL).rename(folder.parent / "elsewhere.json")
    (folder / PARTIAL).symlink_to(elsewhere)
    with Store.open(folder) as store:
        assert store.unfinished_round() is None
    assert elsewhere.exists() and not os.path.lexists(folder / PARTIAL)

    (folder / PARTIAL).mkdir()
    with pytest.raises(SessionUnreadable, match="the store did not make"):
        Store.open(folder)
