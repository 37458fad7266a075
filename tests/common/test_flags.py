"""An error names arguments as Python takes them; the command line shows them as its own flags."""

from pathlib import Path

import pytest

import htfl_sim as hs
from tests.face.conftest import tiny
from tui.common.errors import as_flags

FORK = ("--rounds", "--seed", "--set", "--data-dir", "--allow-inexact")
SWITCH = ("--set", "--at-round", "--timeout")


SHOWN: list[tuple[str, tuple[str, ...] | None, str]] = [
    ("Add rounds: `rounds=13`.", FORK, "Add rounds: --rounds 13."),
    ("Add rounds: `rounds=13`.", SWITCH, "Add rounds: --set rounds=13."),
    ("Add `until=0` to run all.", FORK, "Add --set until=0 to run all."),
    ("Use `allow_inexact=True`.", FORK, "Use --allow-inexact."),
    ("Use `program=False`.", None, "Use --no-program."),
    ("Name it: `data_dir=DIR`.", None, "Name it: --data-dir DIR."),
    ("As `origin='t3/a@5'`.", None, "As --from t3/a@5."),
    ("As `preset='{method}_htm5'`.", None, "As --preset '{method}_htm5'."),
    ("As `over={'seed': [0, 1]}`.", None, "As --over seed=0,1."),
    ("`timeout` or `preset`", SWITCH, "--timeout or `preset`"),
    ("Use `data.split=8:1:1`.", FORK, "Use --set data.split=8:1:1."),
    ("Type `htfl-sim run --rounds 5`.", FORK, "Type `htfl-sim run --rounds 5`."),
]


def test_arguments_are_shown_as_the_flags_of_the_command() -> None:
    for text, flags, shown in SHOWN:
        assert as_flags(text, flags) == shown


@pytest.mark.long
def test_python_is_told_the_argument_that_helps(tmp_path: Path) -> None:
    run = hs.run(tiny(rounds=1), tmp_path / "nb")
    with pytest.raises(hs.ConfigError, match=r"Add rounds: `rounds=11`\."):
        run.fork(tmp_path / "more", at=1)
    assert run.fork(tmp_path / "more", at=1, rounds=11).rounds == 11
