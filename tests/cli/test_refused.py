"""Refused command lines: a line on stderr that says what to do, an exit code, nothing written, a remedy that works.

In a line, TINY stands for a small federation, and DRY for a dry run of one.
"""

import gzip
import os
import re
import shlex
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest

import htfl_sim as hs
from checkpoints import SessionReader
from checkpoints.schema import seal
from simulator.base import own_files
from simulator.base.errors import DataError
from simulator.data import datasets
from simulator.data.datasets import Dataset, Progress
from tests import sessions as made
from tests.cli.conftest import TINY, Cli, Result, assert_refused, flip, rewrite
from tui.common.errors import explain

DRY = "run --set=federation.group=tiny --set=training.epochs=1 --dry-run"
IID, GLOBAL = "--set=data.partition=iid", "--set=data.split=global"
DIRICHLET, PATHOLOGICAL = "--set=data.partition=dirichlet", "--set=data.partition=pathological"


def typed(cli: Cli, line: str) -> Result:
    return cli(*shlex.split(line.replace("DRY", DRY).replace("TINY", shlex.join(TINY))))


# Before anything is written

NEW = [
    ("runn", "'runn'", "htfl-sim --help"),
    ("run --preset=fedlora_htm", "'fedlora_htm'", "'fedlora_htm5'", "htfl-sim presets"),
    ("run --method=fedlorra", "'fedlorra'", "'fedlora'", "htfl-sim methods"),
    ("run --dataset=fashion_mnits", "'fashion_mnits'", "'fashion_mnist'", "htfl-sim datasets"),
    ("run --set=federation.group=htm55", "'htm55'", "'htm5'", "htfl-sim models"),
    ("run TINY --set=training.epoch=3", "'training.epoch'", "'training.epochs'"),
    ("run TINY --set=epochs=3", "'epochs'", "'training.epochs'"),
    ("run TINY --method=fedavg --set=method.mu=0.5", "'method.mu'"),
    ("run TINY --set=training.lr=-1", "'training.lr'", "-1", "greater than 0"),
    ("run TINY --set=training.epochs=many", "'training.epochs'", "'many'"),
    ("run TINY --rounds=0", "'rounds'", "0"),
    ("run TINY --set=epochs", "'epochs'", "key=value"),
    ("run --preset=quickstart --config=x.toml", "--preset", "--config"),
    ("run --preset=fedlora_htm5 --profile=authors", "'fedlora_htm5'", "'authors'", "it has paper"),
    ("run --profile=authors", "--profile", "Name the --preset too"),
    ("run --config=x.toml", "x.toml", "No such file"),
    ("run --config=bad.toml", "bad.toml", "line 1"),
    ("run --dataset=bad.npz", "bad.npz"),
    (f"run TINY {PATHOLOGICAL} --set=data.classes_per_client=11", "11", "10"),
    ("run TINY --set=federation.participation=0.01", "selects no client"),
    ("run TINY --set=data.split=8:0:2", "data.split", "8:0:2"),
    ("DRY --method=lg_fedavg --set 'federation.group=[cnn5, tiny_cnn]'", "lg_fedavg", "client 1 (tiny_cnn)"),
    ("run TINY --method=heterofl", "client 0 (tiny_cnn)", "heterofl_resnet, heterofl_cnn"),
    ("run TINY --session=a/b", "'a/b'", "letters"),
    ("run TINY --session=", "''", "letters"),
    ("run TINY --session=..", "'..'", "letters"),
    ("run TINY --session=a --tag='two words'", "is not a tag: use up to 40 letters"),
    ("run TINY --presett=x", "--presett", "htfl-sim run --help"),
    ("run TINY --epochs=1", "--set training.epochs=VALUE"),
    ("run TINY --device=tpu", "tpu", "cuda"),
    ("run TINY --workers=0", "--workers"),
    ("run TINY --set=data.alpha=0.1", "data.alpha = 0.1 changes nothing", "'dirichlet'", "'iid'"),
    ("run TINY --set=data.sigma=0.3", "changes nothing: it is for data.quantity = 'lognormal'"),
    ("run TINY --set=data.shards_per_client=2", "it is for data.partition = 'shards'"),
    ("run TINY --watch=plateau:rounds=0", "'watch.plateau_rounds' = 0"),
    ("config lr", "'lr'", "'training.lr'"),
    ("presets fedgh_htm", "fedgh_htm5"),
    ("methods fedhg", "fedgh"),
    ("methods --check", "name it"),
    ("models cnn9", "cnn"),
    ("datasets cifar11", "cifar1"),
    ("datasets digits --set=data.target=y", "--set describes your own data"),
    ("data fetch cifar11", "cifar1"),
    ("data check cifar10", "data fetch cifar10", "--dataset digits"),
    ("tui", "The app needs a terminal", "`htfl-sim run`"),
    ("tui --port=8000", "Add --serve."),
    ("pause x --at=3", "--at"),
]


def test_a_line_is_refused_before_anything_is_written(cli: Cli, sessions: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("rounds = \n")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 and nothing more")
    for line, *fragments in NEW:
        code = 3 if "bad.npz" in line or line.startswith("data check") else 2
        assert_refused(typed(cli, line), code, *fragments)
        assert not sessions.exists(), line


def test_a_damaged_data_file_is_named(cli: Cli, sessions: Path, tmp_path: Path) -> None:
    raw = tmp_path / "data" / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (raw / f"{name}-ubyte.gz").write_bytes(gzip.compress(b"not images"))
    for line in ("run --dataset=fashion_mnist", "data check fashion_mnist"):
        assert_refused(typed(cli, line), 3, "train-images-idx3-ubyte.gz", "damaged")
    assert not sessions.exists()


def test_a_run_fetches_missing_data_and_stops_where_it_cannot(
    cli: Cli, sessions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def unreachable(dataset: Dataset, folder: Path, progress: Progress) -> None:
        asked.append(folder)
        raise DataError("there is no network here.")

    monkeypatch.setattr(type(datasets.get("cifar10")), "fetch", unreachable)
    assert_refused(cli("run", "--dataset=cifar10"), 3, "no network")
    assert asked == [tmp_path / "data"] and not sessions.exists()


# Of a session

OF_A_SESSION = [
    ("run TINY --session=done", 2, "done", "exists already", "another name"),
    *((f"{name} dome", 4, "'dome'", "'done'", "htfl-sim sessions") for name in ("resume", "show", "verify", "prune")),
    *((f"{name} folder.html", 4, "not a session") for name in ("resume", "show", "prune")),
    ("show done --round=4", 4, "rounds 1 to 3"),
    ("resume done --rounds=2", 2, "has 3 rounds already", "--at-round 2", "--rounds 13"),
    ("why done --client=9", 2, "done has no client 9", "clients 0 to 3"),
    ("why done --client=1 --round=9", 2, "rounds 1 to 3"),
    ("checkpoint done --cka --round=9", 4, "no checkpoint of round 9"),
    ("checkpoint done --round=3", 2, "--round belongs to --cka"),
    ("tag done '\x1b[2J'", 2, "is not a tag: use up to 40 letters"),
    ("note done 'two\nlines'", 2, "a note is one line without control characters"),
    ("export done --weights=x", 2, "names no client", "--weights all"),
    ("export done --weights=client/9", 2, "done has no client 9", "clients 0 to 3"),
    ("export done --at-round=2", 2, "--at-round makes no sense with numbers"),
    ("export done --weights=all --what=cka --follow", 2, "--what, --follow makes no sense with --weights"),
    ("switch done heteroavg --set=rounds=9", 2, "heteroavg", "client 0 (tiny_cnn)"),
    ("switch done fedssaa", 2, "'fedssaa'", "'fedssa'"),
    ("switch done fedlora", 2, "nothing would change"),
    ("switch done fedlora --set=training.lr=-1", 2, "'training.lr'"),
    ("switch done fedlora --set=seed=3", 2, "'seed' cannot change"),
    ("switch done fedssa", 2, "round 3 is done", "rounds=13"),
    ("switch done fedssa --at-round=1 --set=rounds=9", 2, "round 1 is over"),
    ("fork done --at-round=4 --session=new", 2, "rounds 0 to 3"),
    ("fork done --at-round=2 --session=done", 2, "exists already", "another name"),
    ("fork done --at-round=2 --session=a/b", 2, "'a/b'"),
    ("fork done --at-round=3 --session=new", 2, "--rounds 13"),
    ("fork done --at-round=2 --session=new --set=data.limit=100", 2, "'data' cannot change"),
    ("fork done --at-round=2", 2, "--session"),
    ("rename done ../up", 2, "'../up' is not a session name"),
    ("rm", 2, "--leftovers"),
    ("rm done --leftovers --yes", 2, "by itself"),
    ("compare c", 4, "no session and no study 'c'"),
    ("compare x*", 4, "matches no session"),
    ("compare tag:papr", 4, "no session in", "marked 'papr'"),
    ("compare done --by metod", 2, "Did you mean 'method'?"),
    ("compare done --by method --baseline fedgg", 2, "method is one of fedlora"),
    ("compare done --target 90", 2, "an accuracy from 0 to 1"),
    ("compare done --select test", 2, "'test'"),
    ("compare done --format html", 2, "'html'"),
    ("compare done --variance --target 0.5", 2, "--target changes nothing of"),
    ("compare done --holm", 2, "Add --gain"),
    ("plot pie done --out=f.png", 2, "'pie'"),
    ("plot accuracy done --axis seed --out=f.png", 2, "--axis changes nothing of 'accuracy', which takes --by, --x."),
    ("plot partition done --by seed --out=f.png", 2, "which takes none of them"),
    ("plot tsne done done2 --out=f.png", 2, "tsne is of one session; these are 2: done, done2."),
    ("plot sensitivity done --out=f.png", 2, "takes one --axis"),
    ("plot heatmap done --axis method.mu --out=f.png", 2, "takes two"),
    ("plot inco done --out=f.png", 2, "InCo Aggregation"),
    ("plot accuracy done --out=f.jpg", 2, "A figure is written as .pdf, .svg, .png"),
    ("plot accuracy done --out='new folder/f.png'", 2, "f.png cannot be written", "mkdir -p 'new folder'"),
    ("report done --out=f.pdf", 2, "A report is written as .html"),
    ("report done --out='new folder/x.html'", 2, "cannot be written", "mkdir -p 'new folder'"),
    ("export done --what=partition --out='new folder/x.csv'", 2, "mkdir -p 'new folder'"),
    ("report done --by metod", 2, "metod", "method"),
    ("export done --out=.", 2, "is a folder. Name a file in it."),
    ("export done --what=partition --out=.", 2, "is a folder. Name a file in it."),
    ("report done --out=folder.html", 2, "is a folder. Name a file in it."),
    ("plot accuracy done --out=folder.png", 2, "is a folder. Name a file in it."),
    ("export done --to tensorboard --out file", 2, "file needs a folder where a file is"),
    ("export done --weights client/0 --out file", 2, "file needs a folder where a file is"),
]  # fmt: skip


def test_a_refused_line_leaves_a_session_untouched(cli: Cli, done: Path, tmp_path: Path) -> None:
    made.make(done.parent / "done2", clients=4, rounds=3)
    for name in ("folder.html", "folder.png"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for line, code, *fragments in OF_A_SESSION:
        assert_refused(typed(cli, line), code, *fragments)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


DAMAGE = {
    "a damaged object": ("resume", "round 3", "client/2", "go on from round 2"),
    "a damaged file": ("resume show prune", "session.json", "damaged"),
    "a newer format": ("show", "format 4", "formats 1"),
    "a file of something else": ("show", "done"),
    "other data": ("resume", "digits", "--data-dir"),
    "another torch": ("resume", "torch 1.0", "--allow-inexact"),
}


@pytest.mark.parametrize("harm", DAMAGE)
def test_a_damaged_session_is_refused_with_what_is_wrong(cli: Cli, done: Path, harm: str) -> None:
    commands, *fragments = DAMAGE[harm]
    if harm == "a damaged object":
        fragments.append(SessionReader(done).manifest().states["client/2"].name)
        flip(done / fragments[-1])
    elif harm == "a damaged file":
        flip(done / "session.json")
    elif harm == "a file of something else":
        (done / "session.json").write_bytes(seal({"format": 1, "config": {"rounds": 3}}))
    elif harm == "another torch":
        rewrite(done, environment=SessionReader(done).document["environment"] | {"torch": "1.0"})
    else:
        rewrite(done, **({"format": 4} if harm == "a newer format" else {"data_fingerprint": "0" * 64}))
    for command in commands.split():
        assert_refused(cli(command, "done"), 4, *fragments)
    if harm == "another torch":
        assert cli("resume", "done", "--allow-inexact").code == 0


@pytest.mark.long
def test_a_session_that_another_process_holds_is_refused_with_its_number(cli: Cli, done: Path) -> None:
    hold = f"import checkpoints, pathlib; s = checkpoints.Store.open(pathlib.Path({str(done)!r})); print(); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", hold], stdin=pipe, stdout=pipe) as holder:
        assert holder.stdout and holder.stdout.readline()
        for line, more in (
            ("prune done", ""),
            ("resume done", "needs no resume"),
            ("resume done --steal", ""),
        ):
            assert_refused(typed(cli, line), 4, "in use", f"process {holder.pid}", more)
        assert cli("show", "done").code == 0
        holder.send_signal(signal.SIGKILL)


@pytest.mark.long
def test_a_run_resumes_after_a_full_disk(cli: Cli, sessions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = 400_000
    write = os.write

    def into_little_room(fd: int, data: bytes) -> int:
        nonlocal room
        room -= len(data)
        if room < 0:
            raise OSError(28, "No space left on device")
        return write(fd, data)

    with monkeypatch.context() as full:
        full.setattr("checkpoints.files.os.write", into_little_room)
        result = cli("run", *TINY, "--rounds=6", "--session=big")
    assert_refused(result, 5, str(sessions / "big"), "no space left", "bytes")
    assert 1 <= SessionReader(sessions / "big").rounds()[-1] < 6
    assert cli("resume", "big").code == 0
    assert [record["round"] for record in SessionReader(sessions / "big").records()] == [1, 2, 3, 4, 5, 6]


# The remedy, typed as it stands, works

SWEEP = "sweep t TINY --rounds=1 --dry-run"
MIX = "'federation.group=[tiny_cnn,tiny_mlp]'"
STACKS = f"DRY --clients=2 {IID} --set=runtime.runner=stacked --set=data.limit=200"
FEW = f"DRY {IID} {GLOBAL}"
DOMAINS = f"DRY {IID} --dataset=digits_domains"
MANY = f"DRY --clients=300 {DIRICHLET} {GLOBAL}"
SIZES = f"DRY --clients=200 {IID} --set=data.quantity=lognormal {GLOBAL}"
REMEDIES = [
    ("DRY --method FedGH", "Did you mean 'fedgh'?", "DRY --method fedgh"),
    ("DRY --method LG-FedAvg", "Did you mean 'lg_fedavg'?", "DRY --method lg_fedavg"),
    ("DRY --method FedDistill", "Did you mean 'fd'?", "DRY --method fd"),
    ("DRY --set method=fedgh", "--method fedgh", "DRY --method fedgh"),
    ("DRY --set training.learning_rate=1", "Did you mean 'training.lr'?", "DRY --set training.lr=1"),
    ("DRY --set batchsize=8", "Did you mean 'training.batch_size'?", "DRY --set training.batch_size=8"),
    ("DRY --set participation=0.5", "'federation.participation'?", "DRY --set federation.participation=0.5"),
    ("DRY --set federation.group=tiny_cnn,tiny_mlp", f"--set {MIX}", f"DRY --set {MIX}"),
    ("run --dry-run --clients=2 --model 'tiny_cnn, tiny_mlp'", f"--set {MIX}", f"DRY --clients=2 --set {MIX}"),
    ("run --dry-run --clients=2 --model timm/test_resnet", "timm:test_resnet",
     "run --dry-run --clients=2 --model timm:test_resnet"),
    ("DRY --set data=digits", "--set data.dataset=digits", "DRY --set data.dataset=digits"),
    ("DRY --set selection=utility", "selection.strategy=utility", "DRY --set selection.strategy=utility"),
    ("DRY --set system=phone", "--set system.devices=phone", "DRY --set system.devices=phone"),
    ("DRY --selection oort", "Did you mean 'utility'?", "DRY --selection utility"),
    ("DRY --set seed=0-2", "--over seed=0..2", f"{SWEEP} --over seed=0..2"),
    ("DRY --seed 0-2", "--over seed=0..2", ""),
    (f"{SWEEP} --over seed=0-2", "--over seed=0..2", ""),
    ("DRY --until 90", "--until 0.9", "DRY --until 0.9"),
    ("DRY --set federation.participation=50", "participation=0.5", "DRY --set federation.participation=0.5"),
    ("DRY --dataset Digits", "Did you mean 'digits'?", "DRY --dataset digits"),
    ("DRY --preset QuickStart", "Did you mean 'quickstart'?", "DRY --preset quickstart"),
    ("DRY --device=cuda", "Use --device cpu", "DRY --device=cpu"),
    ("DRY --set=training.precision=tf32", "use float32", "DRY --set=training.precision=float32"),
    (STACKS, "use --set runtime.runner=parallel", f"{STACKS} --set=runtime.runner=parallel"),
    ("DRY --set=evaluation.metrics=[top2]", "Add --metric top2.py", "DRY --metric=top2.py"),
    (f"{DOMAINS} --set=data.domains_per_client=9", "use at most 5", f"{DOMAINS} --set=data.domains_per_client=5"),
    (f"{DOMAINS} --clients=4 --set=data.domains_per_client=1", "use at least 5 clients",
     f"{DOMAINS} --clients=5 --set=data.domains_per_client=1"),
    (f"DRY {IID} --set=data.domains_per_client=1", "use digits_domains", f"{DOMAINS} --set=data.domains_per_client=1"),
    (f"DRY {PATHOLOGICAL} --set=data.classes_per_client=11", "use at most 10",
     f"DRY {PATHOLOGICAL} --set=data.classes_per_client=10"),
    (f"{FEW} --clients=100 --set=data.limit=125", "larger data.limit", f"{FEW} --clients=100 --set=data.limit=1000"),
    ("DRY --set=training.batch_size=1", "training.batch_size to 2 or more", "DRY --set=training.batch_size=2"),
    (f"{FEW} --clients=200 --set=data.limit=100", "Use at most 80 clients", f"{FEW} --clients=20 --set=data.limit=100"),
    (f"DRY --clients=300 {PATHOLOGICAL} --set=data.classes_per_client=8", "a smaller data.classes_per_client",
     f"DRY --clients=300 {PATHOLOGICAL} --set=data.classes_per_client=2"),
    (MANY, "Use at most 144 clients", f"{MANY} --clients=144"),
    (MANY, "lower data.min_samples", f"{MANY} --set=data.min_samples=3"),
    (SIZES, "lower data.min_samples", f"{SIZES} --set=data.min_samples=4"),
    ("DRY --clients=180 --set=data.partition=extended_dirichlet", "a smaller data.min_samples",
     "DRY --clients=180 --set=data.partition=extended_dirichlet --set=data.min_samples=6"),
    ("DRY --clients=20 --set=data.partition=shards --set=data.shards_per_client=100",
     "a smaller data.shards_per_client", "DRY --clients=20 --set=data.partition=shards --set=data.shards_per_client=2"),
    ("DRY --dataset=digits_domains --set=data.partition=shards --set=data.domains_per_client=2",
     "use domains_per_client 1",
     "DRY --dataset=digits_domains --set=data.partition=shards --set=data.domains_per_client=1"),
    ("DRY --set=training.schedule=step", "needs lr_step", "DRY --set=training.schedule=step --set=training.lr_step=2"),
    ("DRY --set=training.lr_min=0.001", "belongs to schedule 'cosine'; set that",
     "DRY --set=training.lr_min=0.001 --set=training.schedule=cosine"),
    ("DRY --set=training.optimizer=adam --set=training.momentum=0.5", "change the optimizer",
     "DRY --set=training.optimizer=sgd --set=training.momentum=0.5"),
    ("DRY --set=data.split=8:2 --set=evaluation.parts=[eval]", "as 8:1:1",
     "DRY --set=data.split=8:1:1 --set=evaluation.parts=[eval]"),
]  # fmt: skip


def test_a_remedy_works_as_it_is_typed(cli: Cli, tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / "top2.py").write_text("def metric(scores, labels): return 1.0\n")
    for line, said, remedy in REMEDIES:
        with subtests.test(line):
            refused = typed(cli, line)
            assert refused.code in (2, 3) and said in refused.err, refused.err
            followed = typed(cli, remedy) if remedy else Result(0, "", "")
            assert followed.code == 0, followed.err


def test_the_least_participation_selects_somebody(cli: Cli) -> None:
    for clients in (3, 7, 97):
        refused = typed(cli, f"{FEW} --clients={clients} --set=federation.participation=0.0001")
        [least] = re.findall(r"at least (\S+)\.", refused.err)
        assert typed(cli, f"{FEW} --clients={clients} --set=federation.participation={least}").code == 0


CROWDED = [
    f"--clients=300 {IID}",
    f"--clients=40 {IID} --set=data.limit=200",
    f"--clients=120 {DIRICHLET} --set=data.min_samples=1",
    "--clients=110 --set=data.partition=extended_dirichlet --set=data.classes_per_client=5 --set=data.min_samples=1",
    "--clients=300 --set=data.partition=inner_dirichlet",
    f"--clients=100 {IID} --set=data.quantity=lognormal --set=data.sigma=1 --set=data.min_samples=3",
    "--clients=600 --set=data.partition=shards",
    f"--clients=300 {PATHOLOGICAL} --set=data.quantity=pfllib --set=federation.group=tiny_cnn",
    f"--clients=500 {PATHOLOGICAL} --set=data.classes_per_client=3",
]


def test_each_way_to_give_clients_enough_samples_works(cli: Cli, subtests: pytest.Subtests) -> None:
    for crowded in CROWDED:
        with subtests.test(crowded):
            refused = typed(cli, f"DRY {crowded}")
            assert refused.code == 3 and "too few for 3 parts" in refused.err
            assert "use fewer clients" in refused.err
            ways = ["--clients=5", *re.findall(r"--set \S+=\w+", refused.err)]
            assert ("raise data.limit" in refused.err) == ("data.limit" in crowded)
            ways += ["--set=data.limit=1797"] if "data.limit" in crowded else []
            for way in ways:
                assert typed(cli, f"DRY {crowded} {way}").code == 0, way


def test_data_with_no_test_set_are_not_said_to_have_one(cli: Cli, tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", images=np.zeros((60, 8, 8), dtype=np.uint8), labels=np.arange(60) % 5)
    refused = typed(cli, f"DRY {IID} --dataset=own.npz --clients=10")
    assert "too few for 3 parts" in refused.err and "global" not in refused.err


# What a dry run would download

STUDIES = (
    "sweep t --over seed=0..1 --rounds=30 --dry-run",
    "tune t --over method=fedgh --rounds=30 --dry-run",
)
HUB = "--dataset=hf:some/set --set=data.target=label"
PRETRAINED = "--model=resnet18 --set=federation.pretrained=true"
NOT_HERE = "hf:some/set is not on this machine yet"


def said_of(result: Result) -> str:
    return " ".join((result.out + result.err).split())


def test_a_dry_run_checks_everything_and_writes_nothing(cli: Cli, sessions: Path) -> None:
    result = typed(cli, "run TINY --session=mine --dry-run")
    assert result.code == 0 and "data, models and method fit" in result.out
    assert not sessions.exists()


def test_a_dry_run_downloads_no_data_set_and_says_how_to(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(path: str, name: str | None = None) -> Any:
        asked.append(not hub.config.HF_HUB_OFFLINE)
        raise ConnectionError("Couldn't reach the Hugging Face Hub")

    asked: list[bool] = []
    hub: Any = types.ModuleType("datasets")
    hub.__version__, hub.load_dataset = "4.0.0", load_dataset
    hub.config = types.SimpleNamespace(HF_HUB_OFFLINE=False)
    monkeypatch.setitem(sys.modules, "datasets", hub)
    for study in STUDIES:
        assert_refused(typed(cli, f"{study} --dataset=cifar10"), 3, "`htfl-sim data fetch cifar10`")
        refused = typed(cli, f"{study} {HUB} --set=data.text=text")
        assert_refused(refused, 3, "`htfl-sim datasets hf:some/set --set data.target=label`")
    told = typed(cli, f"run {HUB} --set=data.text=text --dry-run")
    assert told.code == 0 and NOT_HERE in said_of(told)
    assert_refused(typed(cli, f"run {HUB} --dry-run"), 3, NOT_HERE)  # without its kind, it has no preset
    assert asked and not any(asked)
    assert typed(cli, f"run {HUB} --set=data.text=text").code == 3
    assert asked[-1]  # a run may
    public = typed(cli, "run TINY --method=fedmd --set=data.public=cifar10 --set=data.rgb=true --dry-run")
    assert public.code == 0 and "cifar10 is not in" in public.out


def test_a_dry_run_downloads_no_published_weights(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def download(repository: str, file: str, local_files_only: bool = False) -> str:
        asked.append(not local_files_only)
        raise FileNotFoundError(file)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    for study in STUDIES:
        refused = typed(cli, f"{study} {PRETRAINED}")
        assert_refused(refused, 3, "`hf download timm/resnet18.tv_in1k model.safetensors`")
    told = typed(cli, f"run {PRETRAINED} --dry-run")
    assert told.code == 0 and "weights of model 'resnet18' are not on this machine yet" in said_of(told)
    assert asked and not any(asked)


# Whose fault an error is


@pytest.mark.long
def test_a_missing_login_is_the_other_programs(cli: Cli, done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class UsageError(Exception):
        """As W&B's own, in its module."""

    def init(**_: object) -> types.SimpleNamespace:
        if os.environ.get("WANDB_MODE") != "offline":
            raise UsageError("api_key not configured (no-tty). call wandb.login(key=[your_api_key])")
        return types.SimpleNamespace(log=lambda *_, **__: None, finish=lambda: None)

    UsageError.__module__ = "wandb.errors.errors"
    module: Any = types.ModuleType("wandb")
    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    refused = cli("export", "done", "--to", "wandb")
    assert refused.code == 2 and "bug" not in refused.err
    assert "wandb failed: UsageError: api_key not configured" in refused.err
    assert "`wandb login`" in refused.err and "WANDB_MODE=offline" in refused.err
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert cli("export", "done", "--to", "wandb").code == 0


MULTIPLY = "import torch; torch.zeros(2) @ torch.zeros(3)"
FAULTS = [
    ("\n{}['nope']", "mine.py", "mine.py, line 2: KeyError: 'nope'.", 2),
    (MULTIPLY, "mine.py", "mine.py, line 1: RuntimeError", 2),  # of a library below a user's line
    ("{}['nope']", "simulator/ours.py", "this is a bug in htfl-sim", 1),
    (MULTIPLY, "simulator/ours.py", "this is a bug in htfl-sim", 1),
    ("from simulator.config import Config; Config()", "simulator/ours.py", "this is a bug in htfl-sim", 1),
    ("raise OSError(28, 'No space left on device', 'x.csv')", "simulator/ours.py", "Check the disk", 5),
]


def test_an_error_is_its_authors(tmp_path: Path) -> None:
    own_files.mark(tmp_path / "mine.py")
    for source, file, said, code in FAULTS:
        try:
            exec(compile(source, str(tmp_path / file), "exec"), {})
        except Exception as error:
            told, number = explain(error)
        assert said in told and number == code, told


WRONG_KIND = [
    "show .",
    "run --config .",
    "run --plugin .",
    "sweep .",
    "run --partition . --dry-run",
    "run --data-dir file --dataset fashion_mnist --dry-run",
    "run --sessions-dir file TINY --rounds=1",
    "sessions --sessions-dir file",
]


def test_a_path_of_the_wrong_kind_is_never_called_a_bug(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for line in WRONG_KIND:
        refused = typed(cli, line)
        assert "a bug" not in refused.err and "Check the disk" not in refused.err
        assert refused.code in (0, 2, 3, 4, 5), (refused.code, refused.err)
    assert_refused(
        cli("run", *TINY, "--sessions-dir", tmp_path / "file" / "s"), 5, str(tmp_path / "file" / "s")
    )
    listed = cli("sessions", "--sessions-dir", tmp_path / "file" / "s")
    assert listed.code == 0 and "No sessions" in listed.err


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("quickstart", "hs.preset('quickstart')"),
        ("my.toml", "hs.config('my.toml')"),
        (3, "hs.preset or hs.config"),
    ],
)
def test_a_run_of_no_configuration_names_the_call_to_make_one(tmp_path: Path, given: Any, made: str) -> None:
    with pytest.raises(hs.ConfigError) as refused:
        hs.run(given, tmp_path / "s")
    assert made in str(refused.value)
