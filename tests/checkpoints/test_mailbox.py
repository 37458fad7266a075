"""Commands reach the owner once each, from any process, and every one is answered."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from checkpoints import (
    Command,
    Store,
    answer,
    mailbox,
    pending,
    post,
)
from checkpoints.schema import seal
from tests.checkpoints.helpers import make, record, weights
from tests.processes import FORKED


def inbox(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "control" / "inbox").iterdir())


def post_many(folder: Path, kind: str, times: int) -> None:
    for number in range(times):
        post(folder, kind, {"number": number})


def test_a_command_reaches_the_owner_and_its_answer_the_poster(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        posted = post(tmp_path / "s", "switch", {"method": "fedgh", "set": {"mu": 0.5}})
        assert answer(tmp_path / "s", posted.id) is None
        assert pending(tmp_path / "s") == [posted]

        (received,) = store.commands()
        store.answer(received, "refused", "client 3 has no such head", round=7)

    assert received == posted
    assert received.by.endswith(f"@{socket.gethostname()} {os.getpid()}")
    reply = answer(tmp_path / "s", posted.id)
    assert reply is not None
    assert (reply.kind, reply.outcome, reply.message, reply.round) == (
        "switch",
        "refused",
        "client 3 has no such head",
        7,
    )
    assert inbox(tmp_path / "s") == []


def test_commands_posted_by_several_processes_at_once_all_arrive(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    received: list[Command] = []
    with Store.create(folder, {}) as store:
        posters = [FORKED.Process(target=post_many, args=(folder, kind, 20)) for kind in ("pause", "resume")]
        for poster in posters:
            poster.start()
        while any(poster.is_alive() for poster in posters):
            received += store.commands()
        received += store.commands()

    assert len({command.id for command in received}) == len(received) == 40
    for kind in ("pause", "resume"):
        numbers = [command.arguments["number"] for command in received if command.kind == kind]
        assert numbers == list(range(20))


def test_what_a_checkpoint_applied_is_answered_when_opened(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with Store.create(folder, {}) as store:
        applied, other = post(folder, "switch"), post(folder, "pause")
        store.commands()
        # The owner dies between its commit and its answer.
        store.commit(1, {"server": store.put(weights(1))}, record(1), [], [applied.id])

    with Store.open(folder) as store:
        assert store.commands() == [other]
    reply = answer(folder, applied.id)
    assert reply is not None
    assert (reply.kind, reply.outcome, reply.round) == ("switch", "applied", 1)
    assert inbox(folder) == [f"{other.id}.json"]


def test_a_command_answered_before_its_owner_died_is_not_done_again(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with Store.create(folder, {}) as store:
        command = post(folder, "stop")
        file = folder / "control" / "inbox" / f"{command.id}.json"
        data = file.read_bytes()
        store.commands()
        store.answer(command, "applied")
    file.write_bytes(data)  # as if the power had failed before its removal was durable

    with Store.open(folder) as store:
        assert store.commands() == []
    assert inbox(folder) == []


def test_the_newest_answers_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "ANSWERS_KEPT", 3)
    folder = tmp_path / "s"
    with Store.create(folder, {}) as store:
        commands = [post(folder, "checkpoint") for _ in range(5)]
        for command in store.commands():
            store.answer(command, "applied")

        assert [answer(folder, command.id) is not None for command in commands] == [False] * 2 + [True] * 3
        # A clock that runs behind makes old ids; whoever waits for such an answer still gets it.
        late = Command("0" * 20 + "-00000000", "pause", {}, "", "")
        store.answer(late, "applied")
        assert answer(folder, late.id) is not None
    assert len(list((folder / "control" / "done").iterdir())) == 3


def test_what_a_dead_poster_left_is_removed_after_a_minute(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)
    names = [f"{number:020d}-00000000.tmp" for number in (1, 2)]
    for name, age in zip(names, (61, 30), strict=True):
        path = folder / "control" / "inbox" / name
        path.write_bytes(b"{")
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age))

    with Store.open(folder) as store:
        assert store.commands() == []
    assert inbox(folder) == [names[1]]


def test_a_poster_that_dies_first_has_posted_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        with monkeypatch.context() as patch:
            patch.setattr(
                mailbox.files.os, "replace", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
            )
            with pytest.raises(KeyboardInterrupt):
                post(tmp_path / "s", "pause")
        assert pending(tmp_path / "s") == store.commands() == []


def test_what_is_no_command_is_not_posted_and_an_id_is_never_a_path(tmp_path: Path) -> None:
    folder = make(tmp_path / "s", rounds=1)
    named: list[tuple[str, Any]] = [(kind, {}) for kind in ("Pause", "", "a/b")]
    for kind, arguments in [*named, ("switch", {"x": float("nan")}), ("switch", {"x": "y" * (64 << 10)})]:
        with pytest.raises(ValueError, match=r"command|JSON"):
            post(folder, kind, arguments)
        assert inbox(folder) == []
    (folder / "control" / "secret.json").write_bytes(seal({"id": "../secret"}))
    with pytest.raises(ValueError, match="not the id of a command"):
        answer(folder, "../secret")
