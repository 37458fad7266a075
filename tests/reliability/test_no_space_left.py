"""No space left: a real `htfl-sim run` on a file system that fills up, and goes on when there is room."""

import re
import subprocess
from pathlib import Path

import pytest

import checkpoints
from tests import federations
from tests.cli.conftest import TINY, call
from tests.reliability.sessions import COMMAND, mounted

RUN = ("run", *TINY, "--rounds=12", "--session=s", "--method=fedlora")
ROOM = "700k"
"""More than one round takes, and less than twelve."""


@pytest.mark.slow
def test_a_run_on_a_disk_that_fills_up_says_what_it_needed_and_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    small = tmp_path / "small"
    assert call(*RUN, "--sessions-dir", tmp_path).code == 0
    with mounted(small, "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs"):
        with (tmp_path / "log").open("wb") as log:  # the messages have room
            process = subprocess.Popen(
                [COMMAND, *RUN, "--set=checkpoint.keep_last=99", "--sessions-dir", small], stderr=log
            )
        assert process.wait(timeout=600) == 5
        said = (tmp_path / "log").read_text().splitlines()[-1]
        assert said.startswith("error: ") and str(small / "s") in said and "no space left" in said
        assert re.search(r"[\d,]+ bytes were needed", said)
        assert "Traceback" not in (tmp_path / "log").read_text()

        reached = checkpoints.SessionReader(small / "s").rounds()[-1]
        assert 1 <= reached < 12
        assert [f for f in checkpoints.verify(small / "s") if f.severity == "damage"] == []
        assert call("show", "s", "--sessions-dir", small).code == 0
        assert call("resume", "s", "--sessions-dir", small).code == 5, "there is still no room"

        subprocess.run(["mount", "-o", "remount,size=100m", small], check=True)
        assert call("resume", "s", "--sessions-dir", small).code == 0
        assert federations.committed(small / "s") == federations.committed(tmp_path / "s")
        assert checkpoints.verify(small / "s") == []
        assert list((small / "s" / "tmp").iterdir()) == []
