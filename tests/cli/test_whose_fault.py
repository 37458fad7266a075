"""Whose fault an error is, and remedies that work when they are typed."""

import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import htfl_sim as hs
from simulator.base import own_files
from tests.cli.conftest import TINY, Cli
from tui.common.errors import explain

DRY = ("run", *TINY, "--dry-run")
SWEEP = ("sweep", "t", *TINY, "--rounds=1", "--dry-run")


@pytest.mark.parametrize(
    ("mistake", "said", "remedy"),
    [
        ((*DRY, "--method", "FedGH"), "Did you mean 'fedgh'?", (*DRY, "--method", "fedgh")),
        ((*DRY, "--method", "LG-FedAvg"), "Did you mean 'lg_fedavg'?", (*DRY, "--method", "lg_fedavg")),
        ((*DRY, "--method", "FedDistill"), "Did you mean 'fd'?", (*DRY, "--method", "fd")),
        ((*DRY, "--set", "method=fedgh"), "--method fedgh", (*DRY, "--method", "fedgh")),
        (
            (*DRY, "--set", "training.learning_rate=0.1"),
            "Did you mean 'training.lr'?",
            (*DRY, "--set", "training.lr=0.1"),
        ),
        (
            (*DRY, "--set", "learning_rate=0.1"),
            "Did you mean 'training.lr'?",
            (*DRY, "--set", "training.lr=0.1"),
        ),
        (
            (*DRY, "--set", "batchsize=8"),
            "Did you mean 'training.batch_size'?",
            (*DRY, "--set", "training.batch_size=8"),
        ),
        (
            (*DRY, "--set", "participation=0.5"),
            "Did you mean 'federation.participation'?",
            (*DRY, "--set", "federation.participation=0.5"),
        ),
        (
            (*DRY, "--set", "federation.group=tiny_cnn,tiny_mlp"),
            "--set 'federation.group=[tiny_cnn,tiny_mlp]'",
            (*DRY, "--set", "federation.group=[tiny_cnn,tiny_mlp]"),
        ),
        (
            ("run", "--dry-run", "--clients=2", "--model", "tiny_cnn, tiny_mlp"),
            "--set 'federation.group=[tiny_cnn,tiny_mlp]'",
            ("run", "--dry-run", "--clients=2", "--set", "federation.group=[tiny_cnn,tiny_mlp]"),
        ),
        (
            ("run", "--dry-run", "--clients=2", "--model", "timm/test_resnet"),
            "timm:test_resnet",
            ("run", "--dry-run", "--clients=2", "--model", "timm:test_resnet"),
        ),
        ((*DRY, "--set", "data=digits"), "--set data.dataset=digits", (*DRY, "--set", "data.dataset=digits")),
        (
            (*DRY, "--set", "selection=utility"),
            "--set selection.strategy=utility",
            (*DRY, "--set", "selection.strategy=utility"),
        ),
        (
            (*DRY, "--set", "system=phone"),
            "--set system.devices=phone",
            (*DRY, "--set", "system.devices=phone"),
        ),
        ((*DRY, "--selection", "oort"), "Did you mean 'utility'?", (*DRY, "--selection", "utility")),
        ((*DRY, "--set", "seed=0-2"), "--over seed=0..2", (*SWEEP, "--over", "seed=0..2")),
        ((*DRY, "--seed", "0-2"), "--over seed=0..2", (*SWEEP, "--over", "seed=0..2")),
        ((*SWEEP, "--over", "seed=0-2"), "--over seed=0..2", (*SWEEP, "--over", "seed=0..2")),
        ((*DRY, "--until", "90"), "--until 0.9", (*DRY, "--until", "0.9")),
        (
            (*DRY, "--set", "federation.participation=50"),
            "--set federation.participation=0.5",
            (*DRY, "--set", "federation.participation=0.5"),
        ),
        ((*DRY, "--dataset", "Digits"), "Did you mean 'digits'?", (*DRY, "--dataset", "digits")),
        ((*DRY, "--preset", "QuickStart"), "Did you mean 'quickstart'?", (*DRY, "--preset", "quickstart")),
    ],
    ids=lambda each: " ".join(each[-2:]) if isinstance(each, tuple) else "",
)
def test_a_mistaken_word_is_answered_with_words_that_work(
    cli: Cli, mistake: tuple[str, ...], said: str, remedy: tuple[str, ...]
) -> None:
    refused = cli(*mistake)
    assert refused.code == 2 and said in refused.err, refused.err
    assert cli(*remedy).code == 0


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        ("report", "done", "--out", "new folder/x.html"),
        ("plot", "accuracy", "done", "--out", "new folder/x.png"),
        ("export", "done", "--what", "partition", "--out", "new folder/x.csv"),
    ],
    ids=" ".join,
)
def test_a_missing_output_folder_is_answered_with_the_command_that_makes_it(
    cli: Cli, done: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    refused = cli(*command)
    assert refused.code == 2 and "mkdir -p 'new folder'" in refused.err, refused.err
    (tmp_path / "new folder").mkdir()
    assert cli(*command).code == 0


@pytest.mark.parametrize(
    "command",
    [
        ("export", "done", "--to", "csv", "--out", "."),
        ("export", "done", "--what", "partition", "--out", "."),
        ("report", "done", "--out", "folder.html"),
        ("plot", "accuracy", "done", "--out", "folder.png"),
    ],
    ids=" ".join,
)
def test_a_folder_in_place_of_an_output_file_is_the_users(
    cli: Cli, done: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    for name in ("folder.html", "folder.png"):
        (tmp_path / name).mkdir()
    refused = cli(*command)
    assert refused.code == 2 and "is a folder. Name a file in it." in refused.err, refused.err


def test_a_file_in_place_of_an_output_folder_is_the_users(cli: Cli, done: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for wanted in (("--to", "tensorboard"), ("--weights", "client/0")):
        refused = cli("export", "done", *wanted, "--out", "file")
        assert refused.code == 2 and "file needs a folder where a file is" in refused.err, refused.err


@pytest.mark.long
def test_a_report_is_refused_under_the_name_of_another_format(cli: Cli, done: Path, tmp_path: Path) -> None:
    refused = cli("report", "done", "--out", "x.pdf")
    assert refused.code == 2 and "A report is written as .html" in refused.err
    assert not (tmp_path / "x.pdf").exists()
    assert cli("report", "done", "--out", "x.html").code == 0


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("quickstart", "hs.preset('quickstart')"),
        ("my.toml", "hs.config('my.toml')"),
        (3, "hs.preset or hs.config"),
    ],
)
def test_a_run_of_something_else_than_a_configuration_names_the_call_that_makes_one(
    tmp_path: Path, given: object, made: str
) -> None:
    with pytest.raises(hs.ConfigError) as refused:
        hs.run(given, tmp_path / "s")  # type: ignore[arg-type]
    assert made in str(refused.value)


# Errors that nobody foresaw


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """W&B as it is without a login."""

    class UsageError(Exception):
        """As W&B's own, in its module."""

    def init(**_: object) -> types.SimpleNamespace:
        import os

        if os.environ.get("WANDB_MODE") != "offline":
            raise UsageError("api_key not configured (no-tty). call wandb.login(key=[your_api_key])")
        return types.SimpleNamespace(log=lambda *_, **__: None, finish=lambda: None)

    UsageError.__module__ = "wandb.errors.errors"
    module = types.ModuleType("wandb")
    module.init = init  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)
    yield module


@pytest.mark.long
def test_a_missing_login_is_the_other_programs(
    cli: Cli, done: Path, wandb: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = cli("export", "done", "--to", "wandb")
    assert refused.code == 2 and "bug" not in refused.err
    assert "wandb failed: UsageError: api_key not configured" in refused.err
    assert "`wandb login`" in refused.err and "WANDB_MODE=offline" in refused.err
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert cli("export", "done", "--to", "wandb").code == 0


def _raised(code: str, file: str) -> Exception:
    """The error of this code as a file of that name raises it."""
    try:
        exec(compile(code, file, "exec"), {})
    except Exception as error:
        return error
    raise AssertionError


def test_an_error_in_a_users_file_is_its_authors(tmp_path: Path) -> None:
    own_files.mark(tmp_path / "mine.py")
    said, code = explain(_raised("\n{}['nope']", str(tmp_path / "mine.py")))
    assert said.startswith(f"{tmp_path / 'mine.py'}, line 2: KeyError: 'nope'.") and code == 2


def test_an_error_of_a_library_below_a_users_line_is_the_users(tmp_path: Path) -> None:
    own_files.mark(tmp_path / "mine.py")
    said, code = explain(_raised("import torch\ntorch.zeros(2) @ torch.zeros(3)", str(tmp_path / "mine.py")))
    assert "mine.py, line 2: RuntimeError" in said and code == 2


@pytest.mark.parametrize(
    "code",
    [
        "{}['nope']",
        "import torch; torch.zeros(2) @ torch.zeros(3)",
        "from simulator.config import Config; Config()",
    ],
)
def test_an_error_of_our_own_or_of_a_requirement_is_a_bug(code: str) -> None:
    said, number = explain(_raised(code, "simulator/ours.py"))
    assert "this is a bug in htfl-sim" in said and number == 1


def test_a_full_disk_is_no_fault_of_a_path() -> None:
    said, code = explain(OSError(28, "No space left on device", "x.csv"))
    assert "Check the disk" in said and code == 5


@pytest.mark.parametrize(
    "command",
    [
        ("show", "."),
        ("run", "--config", "."),
        ("run", "--plugin", "."),
        ("sweep", "."),
        ("run", "--partition", ".", "--dry-run"),
        ("run", "--data-dir", "file", "--dataset", "fashion_mnist", "--dry-run"),
        ("run", "--sessions-dir", "file", *TINY, "--rounds=1"),
        ("sessions", "--sessions-dir", "file"),
    ],
    ids=" ".join,
)
def test_a_path_of_the_wrong_kind_is_never_called_a_bug(
    cli: Cli, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    refused = cli(*command)
    assert "a bug" not in refused.err and "Check the disk" not in refused.err
    assert refused.code in (0, 2, 3, 4, 5), (refused.code, refused.err)
