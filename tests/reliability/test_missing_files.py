"""Files that are missing, and links in their place: the others say what was there, and nothing outside is touched."""

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

import checkpoints
import simulator
from checkpoints import Damaged, SessionUnreadable
from simulator.base.errors import ConfigError
from simulator.engine.progress import ClientTrained, Event, RoundFinished
from simulator.sessions.session import Session
from tests import federations
from tests.reliability.sessions import configuration, contents, finish, messages, start

pytestmark = pytest.mark.usefixtures("generated_images")


CONFIG = federations.config("fedavg", rounds=4, checkpoint={"keep_last": 2, "keep_best": False})


def switched(folder: Path) -> Path:
    """A finished session that went on with another method after its first round."""

    def switch(event: Event) -> None:
        if isinstance(event, RoundFinished) and event.record["round"] == 1:
            checkpoints.post(folder, "switch", {"method": "fedprox", "set": []})

    Session.create(CONFIG, folder, folder).run(switch)
    return folder


def damage(folder: Path) -> list[tuple[str, str]]:
    return [(each.path, each.message) for each in checkpoints.verify(folder) if each.severity == "damage"]


@pytest.mark.long
@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_a_session_without_its_newest_checkpoint_is_refused(tmp_path: Path, clean: bool) -> None:
    """Killed: nothing says how its owner ended. Without any checkpoint, its first method is not trained again."""
    folder = switched(tmp_path / "s")
    if not clean:
        (folder / "owner.json").unlink()
    gone = folder / "manifests" / "000004.json"
    gone.rename(tmp_path / "kept")
    before = contents(folder)
    ((path, said),) = [each for each in damage(folder) if each[0].startswith("manifests")]
    assert path == "manifests/000004.json" and "the checkpoint of round 4 is missing" in said
    with pytest.raises(
        Damaged, match=r"round 4 is missing .* go on from round 3: `htfl-sim fork .*/s --at-round 3 "
    ):
        Session.resume(folder, tmp_path)
    assert contents(folder) == before, "nothing is touched"
    simulator.fork(folder, tmp_path / "again", tmp_path, 3)
    Session.resume(tmp_path / "again", tmp_path).run()
    (tmp_path / "kept").rename(gone)
    assert federations.committed(tmp_path / "again") == federations.committed(folder)

    for each in (folder / "manifests").iterdir():
        each.unlink()
    before = contents(folder)
    assert any("missing" in said and "--at-round 0" in said for _, said in damage(folder))
    with pytest.raises(Damaged, match=r"begin again: `htfl-sim fork .*/s --at-round 0 "):
        Session.resume(folder, tmp_path)
    assert contents(folder) == before


def test_an_older_checkpoint_that_is_gone_is_said_and_the_run_goes_on(tmp_path: Path) -> None:
    folder = switched(tmp_path / "s")
    (folder / "manifests" / "000003.json").unlink()

    ((_, said), *_) = damage(folder)
    assert "the checkpoint of round 3 is missing" in said and "Newer ones are kept: 4" in said
    with Session.resume(folder, tmp_path) as session:
        assert any("round 3 is missing" in warning for warning in session.warnings)
    assert damage(folder) == []


def test_lines_that_were_cut_off_the_ledger_or_the_events_are_noticed(tmp_path: Path) -> None:
    for name in ("ledger.jsonl", "events.jsonl"):
        folder = tmp_path / name.split(".")[0]
        config = federations.config(rounds=3, checkpoint={"every": 2})
        Session.create(config, folder, folder).run()
        lines = (folder / name).read_bytes().splitlines(keepends=True)
        (folder / name).write_bytes(b"".join(lines[:-1]))
        assert [path for path, _ in damage(folder)] == [name]


@pytest.mark.long
def test_a_command_that_was_posted_and_is_gone_is_noticed_and_said_once(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with Session.create(CONFIG, folder, tmp_path):
        pass
    posted = [
        checkpoints.post(folder, "switch", {"method": None, "set": [f"training.lr={rate}"]})
        for rate in (0.2, 0.3)
    ]
    (folder / "control" / "inbox" / f"{posted[1].id}.json").unlink()

    assert damage(folder) == [
        ("control", "command 2 was posted and is neither waiting nor answered: its file is gone.")
    ]
    with Session.resume(folder, tmp_path) as session:
        assert [warning for warning in session.warnings if "number 2" in warning]
        session.run()
    assert checkpoints.verify(folder) == []
    with Session.resume(folder, tmp_path) as session:
        assert session.warnings == []


@pytest.mark.long
def test_a_control_folder_that_is_gone_with_a_switch_is_noticed_and_said_once(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    Session.create(CONFIG, folder, tmp_path).close()
    checkpoints.post(folder, "tag", {"add": ["a"], "remove": []})
    Session.resume(folder, tmp_path).close()
    checkpoints.post(folder, "switch", {"method": None, "set": ["training.lr=0.2"]})
    shutil.rmtree(folder / "control")

    assert damage(folder) == [
        (
            "control",
            "control was removed or emptied. Commands 1 to 2 were posted; those that waited are lost.",
        )
    ]
    with Session.resume(folder, tmp_path) as session:
        [warning] = session.warnings
        assert "Commands 1 to 2" in warning and f"`htfl-sim switch {folder} METHOD`" in warning
        session.run()
    assert checkpoints.verify(folder) == []
    assert checkpoints.post(folder, "pause").id.startswith(f"{3:020d}")


@pytest.mark.long
def test_a_run_whose_control_folder_is_removed_goes_on_and_takes_later_commands(tmp_path: Path) -> None:
    folder = tmp_path / "s"

    def remove_and_post(event: Event) -> None:
        if isinstance(event, RoundFinished) and event.record["round"] == 1:
            shutil.rmtree(folder / "control")
            checkpoints.post(folder, "tag", {"add": ["later"], "remove": []})

    with Session.create(CONFIG, folder, tmp_path) as session:
        assert session.run(remove_and_post).round == 4
    assert checkpoints.tags_of(folder) == ("later",)


@pytest.mark.slow
def test_a_folder_without_session_json_says_what_is_left(tmp_path: Path) -> None:
    config = configuration(tmp_path, "fedavg", 2)
    finish(tmp_path, "run", "--config", config, "--session", "s")
    kept = (tmp_path / "s" / "session.json").rename(tmp_path / "kept")
    before = contents(tmp_path / "s")

    for command in (["run", "--config", config, "--session", "s"], ["resume", "s"], ["show", "s"]):
        assert start(tmp_path, *command).wait(timeout=600) == 4
        said = messages(tmp_path).splitlines()[-1]
        assert (
            "has no session.json. But it holds the checkpoints of rounds 1, 2 and a ledger of 2 rounds"
            in said
        )
        assert "restore session.json from a backup" in said
    assert contents(tmp_path / "s") == before

    kept.rename(tmp_path / "s" / "session.json")
    assert checkpoints.verify(tmp_path / "s") == []


@pytest.mark.parametrize("left", ["manifests/000001.json", "objects"])
def test_a_folder_is_free_only_without_checkpoints_objects_and_ledger(tmp_path: Path, left: str) -> None:
    whole = tmp_path / "whole"
    Session.create(federations.config(rounds=1), whole, tmp_path).run()
    target = tmp_path / "s" / left
    target.parent.mkdir(parents=True)
    (shutil.copytree if left == "objects" else shutil.copy)(whole / left, target)
    before = contents(tmp_path / "s")

    for make in (
        lambda: Session.create(CONFIG, tmp_path / "s", tmp_path),
        lambda: simulator.fork(whole, tmp_path / "s", tmp_path, 1, assignments=["rounds=2"]),
    ):
        with pytest.raises((SessionUnreadable, ConfigError)):
            make()
    assert contents(tmp_path / "s") == before


FOLDERS = ["objects", "manifests", "partial", "control", "control/inbox", "control/done", "tmp"]


def waiting(folder: Path, seed: int = 7) -> Path:
    """A session stopped within its third round, with an unfinished round and a command that waits."""
    federations.stopped(folder, federations.config("fedavg", seed=seed, checkpoint={"keep_last": 1}), round=3)
    checkpoints.post(folder, "switch", {"method": None, "set": ["training.lr=0.05"]})
    return folder


def link_away(folder: Path, name: str, neighbour: Path) -> None:
    """In the stranger's session, what bears this name is a link to the neighbour's."""
    path = folder / name
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(neighbour / name)


def subfolders(session: Path) -> set[str]:
    return {path.relative_to(session).as_posix() for path in (session / "objects").iterdir()}


@pytest.mark.long
@pytest.mark.parametrize("name", [*FOLDERS, "objects/??"])
def test_a_link_in_the_place_of_a_folder_reaches_nothing_of_a_neighbour(tmp_path: Path, name: str) -> None:
    neighbour, folder = waiting(tmp_path / "neighbour", seed=8), waiting(tmp_path / "s")
    # Objects that the session itself has must stay, or it would be refused for want of them.
    names = sorted(subfolders(neighbour) - subfolders(folder)) if name == "objects/??" else [name]
    for each in names:
        link_away(folder, each, neighbour)
    before = contents(neighbour)

    findings = checkpoints.verify(folder)
    assert any(each.severity == "damage" and "links are not followed" in each.message for each in findings)
    with pytest.raises(SessionUnreadable, match=r"links are not followed|missing|has no checkpoint"):
        Session.resume(folder, tmp_path).run()
    with suppress(SessionUnreadable):  # it only reads, and can do without some folders
        simulator.fork(folder, tmp_path / "fork", tmp_path, 2)
    assert contents(neighbour) == before


@pytest.mark.long
@pytest.mark.parametrize("at", ["objects/??", "tmp", "control/done"])
def test_a_link_that_comes_while_the_owner_works_is_not_followed_either(tmp_path: Path, at: str) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "s"
    outside.mkdir()

    def put_links(event: Event) -> None:
        if isinstance(event, ClientTrained) and (event.round, event.done) == (2, 1):
            names = [f"objects/{n:02x}" for n in range(256)] if at == "objects/??" else [at]
            for name in names:
                if (folder / name).exists():
                    (folder / name).rename(tmp_path / f"moved-{name.replace('/', '-')}")
                (folder / name).symlink_to(outside)
            if at == "control/done":
                checkpoints.post(folder, "pause")
                checkpoints.post(folder, "resume")

    session = Session.create(federations.config("fedavg"), folder, tmp_path)
    with pytest.raises(Damaged, match="links are not followed"), session:
        session.run(put_links)
    assert list(outside.iterdir()) == []


def test_a_link_to_a_whole_session_is_that_session(tmp_path: Path) -> None:
    """Inside a session nothing is followed; where it lies is its owner's concern."""
    waiting(tmp_path / "elsewhere")
    (tmp_path / "s").symlink_to(tmp_path / "elsewhere")
    assert Session.resume(tmp_path / "s", tmp_path).run().state == "finished"
    assert [each.name for each in checkpoints.sessions(tmp_path)] == ["elsewhere", "s"]
    assert (tmp_path / "s").readlink() == tmp_path / "elsewhere"
