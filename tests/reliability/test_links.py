"""A stranger's session with links below its folders: nothing outside is read, listed, written or removed."""

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

import checkpoints
import simulator
from checkpoints import Damaged, SessionUnreadable
from simulator.engine.progress import ClientTrained, Event
from simulator.sessions.session import Session
from tests import federations
from tests.reliability.sessions import contents

pytestmark = pytest.mark.usefixtures("generated_images")


FOLDERS = ["objects", "manifests", "partial", "control", "control/inbox", "control/done", "tmp"]


def stopped(folder: Path, seed: int = 7) -> Path:
    """A session stopped within its third round, with an unfinished round and a command that waits."""

    def stop(event: Event) -> None:
        if isinstance(event, ClientTrained) and (event.round, event.done) == (3, 1):
            checkpoints.post(folder, "stop")

    config = federations.config("fedavg", seed=seed, checkpoint={"keep_last": 1})
    Session.create(config, folder, folder).run(stop)
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
    neighbour, folder = stopped(tmp_path / "neighbour", seed=8), stopped(tmp_path / "s")
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
            if at == "partial":
                checkpoints.post(folder, "stop")

    session = Session.create(federations.config("fedavg"), folder, tmp_path)
    with pytest.raises(Damaged, match="links are not followed"), session:
        session.run(put_links)
    assert list(outside.iterdir()) == []


def test_a_link_to_a_whole_session_is_that_session(tmp_path: Path) -> None:
    """Inside a session nothing is followed; where it lies is its owner's concern."""
    stopped(tmp_path / "elsewhere")
    (tmp_path / "s").symlink_to(tmp_path / "elsewhere")
    assert Session.resume(tmp_path / "s", tmp_path).run().state == "finished"
    assert [each.name for each in checkpoints.sessions(tmp_path)] == ["elsewhere", "s"]
    assert (tmp_path / "s").readlink() == tmp_path / "elsewhere"
