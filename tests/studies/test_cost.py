"""What a study will cost, counted before it runs."""

from pathlib import Path

import pytest

from checkpoints import SessionReader
from tests.cli.conftest import TINY, Cli, cli, sessions

__all__ = ["cli", "sessions"]


@pytest.mark.long
def test_the_cost_of_a_study_is_counted_as_its_ledger_will_have_it(cli: Cli, sessions: Path) -> None:
    """FedGH's server trains, FedProto collects, FedL2G-l has phases of its own."""
    methods = ("standalone", "fedgh", "fedproto", "fedl2g_l")
    options = [*TINY, "--set=data.limit=400", "--rounds=1", "--set=training.epochs=3"]
    cost = cli("sweep", "t", *options, f"--over=method={','.join(methods)}", "--dry-run", "--json").json()
    assert [(each["point"], each["rounds"]) for each in cost["points"]] == [
        (f"t/{each}", 1) for each in methods
    ]
    assert not (sessions / "t").exists() and cost["seconds"] > 0
    for method, each in zip(methods, cost["points"], strict=True):
        assert cli("run", *options, f"--method={method}", f"--session={method}").code == 0
        record = SessionReader(sessions / method).records()[0]
        assert each["flops"] == record["flops"]["total"]
