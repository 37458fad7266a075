"""`hs.run`, `Run.run`, `fork`, `switch`, `extend`: a session run from Python."""

import gc
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import checkpoints
import htfl_sim as hs
from checkpoints import Locked, SessionReader, Store
from htfl_sim import shown
from simulator.studies.folder import Status
from tests.cli.conftest import rewrite
from tests.face.conftest import ROUNDS, tiny
from tests.federations import committed

ROOT = Path(__file__).parents[2]


def in_a_fork(work: Callable[[], object]) -> str:
    """What `work` returns or raises in a child that os.fork() made, as text; fails after 20 seconds without either."""
    answers, says = os.pipe()
    if not (child := os.fork()):
        try:
            said = str(work())
        except BaseException as error:
            said = str(error)
        os.write(says, said.encode())
        os._exit(0)
    os.close(says)
    with os.fdopen(answers, encoding="utf-8") as pipe:
        answered = select.select([pipe], [], [], 20.0)[0]
        if not answered:
            os.kill(child, signal.SIGKILL)
        said = pipe.read()
    os.waitpid(child, 0)
    return said if answered else "hangs"


def test_a_run_that_rests_on_its_way_ends_bit_for_bit_as_one_that_does_not(tmp_path: Path) -> None:
    config = tiny(checkpoint__every=1)
    whole = hs.run(config, tmp_path / "whole")
    rested = hs.run(config, str(tmp_path / "rested"), until=1)
    assert (rested.state, rested.round) == ("paused", 1)
    rested.run(until=3).run()
    assert (rested.state, rested.round) == ("finished", ROUNDS)
    assert committed(rested.path) == committed(whole.path)


def test_while_it_rests_the_session_belongs_to_this_process_until_it_is_closed(tmp_path: Path) -> None:
    with hs.run(tiny(), tmp_path / "nb", until=1) as run:
        assert SessionReader(run.path).alive()
    assert not SessionReader(run.path).alive()
    assert run.run().round == ROUNDS


@pytest.mark.long
def test_a_configuration_with_more_rounds_extends_the_session_to_the_bits_of_an_extension(
    tmp_path: Path,
) -> None:
    hs.run(tiny(), tmp_path / "extended").extend(ROUNDS + 2).run()
    hs.run(tiny(), tmp_path / "nb")
    more = tiny(rounds=ROUNDS + 2)
    assert hs.run(more, tmp_path / "nb", until=ROUNDS + 1).round == ROUNDS + 1
    assert hs.run(more, tmp_path / "nb").round == ROUNDS + 2
    assert committed(tmp_path / "nb") == committed(tmp_path / "extended")
    with pytest.raises(hs.ConfigError, match=f"rounds {ROUNDS + 2}, not {ROUNDS}"):
        hs.run(tiny(), tmp_path / "nb")


DIFFERENT = [
    ({"rounds": ROUNDS - 1}, f"rounds {ROUNDS}, not {ROUNDS - 1}"),
    ({"training__lr": 0.5}, "training.lr 0.01, not 0.5"),
    ({"rounds": ROUNDS + 2, "training__lr": 0.5}, "training.lr 0.01, not 0.5"),
    ({"seed": 5}, "seed 0, not 5"),
    ({"runtime__runner": "stacked"}, 'runtime.runner "parallel", not "stacked"'),
    ({"runtime__threads_per_client": 2}, "runtime.threads_per_client 1, not 2"),
]


def test_any_other_difference_is_listed_and_nothing_runs_but_another_number_of_workers_is_none(
    done: Path,
) -> None:
    before = committed(done)
    for settings, named in DIFFERENT:
        with pytest.raises(hs.ConfigError, match="is a session made with other settings") as refused:
            hs.run(tiny(cka__every=4, **settings), done)
        assert named in str(refused.value)
    assert committed(done) == before and not checkpoints.pending(done)
    assert hs.run(tiny(cka__every=4, runtime__workers=2, runtime__runner="sequential"), done).round == ROUNDS
    hs.resume(done).close()
    with Store.open(done), pytest.raises(Locked, match="in use"):  # by another owner
        hs.resume(done).extend(6).run()


def test_a_session_of_other_code_is_returned_only_if_that_is_allowed(done: Path) -> None:
    rewrite(done, environment={**SessionReader(done).document["environment"], "program": "0" * 64})
    with pytest.raises(hs.SessionError, match=r"program 000000000000 → .* or use `allow_inexact=True`"):
        hs.run(tiny(cka__every=4), done)
    with pytest.raises(hs.SessionError, match="program"):
        hs.run(tiny(cka__every=4, rounds=ROUNDS + 1), done)
    assert not checkpoints.pending(done), "a refused extension does not take hold later"
    assert hs.run(tiny(cka__every=4), done, allow_inexact=True).round == ROUNDS


def test_an_extension_of_a_schedule_says_that_finished_rounds_keep_their_rates(tmp_path: Path) -> None:
    cosine = {"training__schedule": "cosine"}
    hs.run(tiny(**cosine), tmp_path / "nb")
    with pytest.warns(UserWarning, match="finished rounds keep the learning rates"):
        hs.run(tiny(rounds=ROUNDS + 1, **cosine), tmp_path / "nb")


def test_more_rounds_leave_a_session_alone_that_another_process_runs(tmp_path: Path) -> None:
    run = hs.run(tiny(), tmp_path / "nb", until=1)
    said = in_a_fork(lambda: hs.run(tiny(rounds=ROUNDS + 2), tmp_path / "nb"))
    assert "is a fork of it" in said or "in use" in said
    assert not checkpoints.pending(run.path)


def test_a_second_run_of_one_folder_goes_on_with_the_open_session(tmp_path: Path) -> None:
    first = hs.run(tiny(), tmp_path / "nb", until=1)
    assert hs.run(tiny(), tmp_path / "nb", until=2).round == first.round == 2  # a cell that is run again
    second = hs.Run(tmp_path / "nb")
    assert first.run(until=3).round == second.round == 3
    del first
    gc.collect()
    assert second.run().state == "finished"
    hs.run(tiny(), tmp_path / "free", until=1).records()
    gc.collect()  # nobody holds it
    assert hs.open(tmp_path / "free").state == "stopped"
    with pytest.raises(hs.ConfigError, match=r"has 4 rounds.*extend\(6\)"):
        second.run(until=6)
    third = hs.run(tiny(rounds=ROUNDS + 2), tmp_path / "nb", until=ROUNDS + 1)
    assert hs.run(tiny(rounds=ROUNDS + 3), tmp_path / "nb").round == third.round == ROUNDS + 3


def test_a_folder_that_was_removed_under_an_open_run_can_be_run_anew(tmp_path: Path) -> None:
    old = hs.run(tiny(), tmp_path / "nb", until=2)
    shutil.rmtree(old.path)
    new = hs.run(tiny(), tmp_path / "nb", until=1)
    del old
    gc.collect()
    assert new.run(until=3).round == 3


def test_a_fork_of_the_process_may_read_a_run_and_leaves_it_to_its_parent(tmp_path: Path) -> None:
    run = hs.run(tiny(runtime__workers=2), tmp_path / "nb", until=1)
    assert in_a_fork(lambda: run.round) == "1"
    refusal = "belongs to process .* is a fork of it. Run the session there, or close it before you fork."
    assert re.search(refusal, in_a_fork(run.run))
    assert in_a_fork(run.close) == "None"
    assert hs.open(run.path).state == "paused"
    assert run.run().state == "finished"


def test_a_fork_that_outlives_the_run_does_not_keep_its_lock(tmp_path: Path) -> None:
    run = hs.run(tiny(), tmp_path / "nb", until=1)
    if not (child := os.fork()):
        signal.pause()
    try:
        run.close()
        assert hs.run(tiny(), tmp_path / "nb", until=2).round == 2
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.long
def test_a_program_that_ends_closes_its_open_runs(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; import htfl_sim as hs; from tests.face.conftest import tiny\n"
        "run = hs.run(tiny(), Path(sys.argv[1]), until=1)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "nb")], capture_output=True, text=True, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert hs.open(tmp_path / "nb").state == "stopped"


def test_progress_is_quiet_or_a_line_a_round_or_a_callback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = hs.run(tiny(), tmp_path / "nb", until=1)
    assert capsys.readouterr().out == ""
    run.run(until=2, progress=True)
    assert capsys.readouterr().out == f"round 2: accuracy {run.accuracy:.4f}\n"
    told: list[dict[str, Any]] = []
    run.run(progress=told.append)
    assert [record["round"] for record in told] == [3, 4]


class ZMQInteractiveShell:
    """What IPython runs a notebook's cells in. Jupyter has this class itself, and Colab has a subclass."""


class Cell(ModuleType):
    """`IPython.display` of a notebook, which notes what is under its cell."""

    def __init__(self) -> None:
        super().__init__("IPython.display")
        self.outputs: list[list[str]] = []
        """The texts of every output, the newest last."""
        self.HTML = str

    def display(self, shown: str, *, display_id: bool) -> SimpleNamespace:
        assert display_id  # else an output cannot be updated
        self.outputs.append([shown])
        return SimpleNamespace(update=self.outputs[-1].append)


@pytest.fixture(params=[ZMQInteractiveShell, type("Shell", (ZMQInteractiveShell,), {})])
def cell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Cell:
    """The process is a notebook's kernel."""
    ipython, cell = ModuleType("IPython"), Cell()
    ipython.get_ipython = request.param  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", cell)
    return cell


def bar(value: str, text: str, rounds: int = 2) -> str:
    return f'<progress value="{value}" max="{rounds}"></progress> {text}'


def test_a_notebook_shows_one_bar_that_grows_with_each_client_and_ends_full(
    tmp_path: Path, cell: Cell, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two clients train in each of two rounds."""
    run = hs.run(tiny(rounds=2, clients=2, federation__participation=1.0), tmp_path / "nb", progress=True)
    first, second = (
        f"accuracy {record['accuracy']['mean']:.4f}" for record in SessionReader(run.path).records()
    )
    one = [bar(value, "round 1 of 2") for value in ("0", "0.5", "1")]
    two = [bar(value, "round 2 of 2") for value in ("1", "1.5", "2")]
    ends = bar("1", f"round 1: {first}"), bar("2", f"round 2: {second}")
    assert cell.outputs == [["", *one, ends[0], *two, ends[1]]]
    assert capsys.readouterr().out == ""


def test_the_bar_of_a_study_counts_rounds_and_prints_only_why_a_point_failed(
    cell: Cell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done, lost = Status("a-s0", 2, "finished", 2), Status("a-s1", 2, "failed", 1, reason="No memory <left>.")
    with shown.points(True) as observe:
        observe([done, replace(lost, state="running", reason="")])
        observe([done, lost])
    text = bar("3", "1 of 2 points finished", 4)
    assert cell.outputs == [["", text, text]]
    assert capsys.readouterr().out == "a-s1: No memory <left>., round 1 of 2\n"
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", type("TerminalInteractiveShell", (), {}))
    assert not shown.in_notebook()  # IPython in a terminal shows lines


@pytest.mark.long
def test_an_interrupt_stops_with_everything_kept_and_the_run_goes_on(tmp_path: Path) -> None:
    def stop_in_round_two(record: dict[str, Any]) -> None:
        if record["round"] == 2:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        hs.run(tiny(), tmp_path / "nb", progress=stop_in_round_two)
    assert signal.getsignal(signal.SIGINT) is before
    assert hs.open(tmp_path / "nb").state == "stopped"
    again = hs.run(tiny(), tmp_path / "nb")
    assert committed(again.path) == committed(hs.run(tiny(), tmp_path / "whole").path)


def test_a_fork_takes_another_method_from_a_round_whose_checkpoint_is_gone_and_so_does_a_switch(
    done: Path,
) -> None:
    parent = hs.resume(done)
    assert parent.checkpoints == (ROUNDS,)
    fork = parent.fork(done.parent / "ssa", at=1, method="fedssa").run()
    assert fork.records()["method"].tolist() == ["fedlora", "fedssa", "fedssa", "fedssa"]
    more = fork.extend(6).switch("fedgh", training__lr=0.05).run()
    assert more.records()["method"].tolist()[4:] == ["fedgh"] * 2
    assert more.settings["training"]["lr"] == 0.05


def test_a_run_is_not_run_twice_at_once_nor_closed_under_way(tmp_path: Path) -> None:
    refused: list[str] = []

    def again(record: dict[str, Any]) -> None:
        for call in (hs.resume(tmp_path / "nb").run, hs.resume(tmp_path / "nb").close):
            with pytest.raises(Locked) as error:
                call()
            refused.append(str(error.value))

    assert hs.run(tiny(), tmp_path / "nb", until=1, progress=again).round == 1
    assert refused == [f"{tmp_path / 'nb'} is being run by this process. Wait until that call returns."] * 2


OF_ANOTHER = (
    r"'method\.mu' is an option of .*fedlora.*, not of fedssa\. Leave it out\. If it came with a method that "
    r"'method\.name' replaced, name the new method with `method` instead\."
)


def test_with_changes_any_key_and_another_method_begins_with_its_own_defaults() -> None:
    changed = tiny().with_(method__mu=0.5, training__lr=0.2, rounds=9)
    assert (changed.method.model_dump()["mu"], changed.training.lr, changed.rounds) == (0.5, 0.2, 9)
    assert changed.with_(method="fedgh").method.name == "fedgh"
    assert changed.with_(method="fedlora").method.model_dump()["mu"] == 0.5
    with pytest.raises(hs.ConfigError, match=r"unknown key 'method\.mux'.*method\.mu"):
        changed.with_(method__mux=1)
    with pytest.raises(hs.ConfigError, match=OF_ANOTHER):  # FedLoRA has an option `mu`, and FedSSA none
        tiny().with_(method__name="fedssa")


def test_a_run_is_marked_and_a_reader_sees_it(tmp_path: Path) -> None:
    run = hs.run(tiny(rounds=1), tmp_path / "marked")
    assert run.tag("paper", "old").tag("t3", remove=["old"]).tags == ("paper", "t3")
    assert hs.open(tmp_path / "marked").tags == ("paper", "t3")
    with pytest.raises(hs.ConfigError, match="is not a tag"):
        run.tag("two words")


def test_what_resuming_finds_amiss_is_a_python_warning(done: Path) -> None:
    checkpoints.post(done, "tag", {"add": ["b"], "remove": []})
    shutil.rmtree(done / "control")
    with pytest.warns(UserWarning, match="control was removed or emptied"):
        hs.resume(done).run()
