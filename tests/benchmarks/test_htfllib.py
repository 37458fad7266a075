"""The comparison with HtFLlib: what it gives to HtFLlib, how it reads what HtFLlib prints, and when results differ."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import htfllib, htfllib_inside
from benchmarks.htfllib import SETTINGS, Course, difference, in_words, numbered, write_clients, write_waves
from simulator.base.data_section import DataConfig
from simulator.data.federated import FederatedData
from simulator.data.samples import ArraySet
from simulator.data.specs import ImageSpec, InputSpec, SignalSpec, TokenSpec

PRINTED = """
-------------Round number: 0-------------
Processor seconds: 10.0
Client 0: Acc: 0.5, AUC: 0.5
Averaged Test Accuracy: 0.2500
------------------------- time cost ------------------------- 9.0

-------------Round number: 1-------------
Processor seconds: 18.0
Averaged Test Accuracy: 0.5000
------------------------- time cost ------------------------- 3.0

-------------Round number: 2-------------
Processor seconds: 20.5
Averaged Test Accuracy: 0.7500
-------------------------------------------------- 4.0

Best accuracy.
0.75
"""


def federated(spec: InputSpec, values: "np.ndarray[Any, Any]", seed: int = 3) -> FederatedData:
    """Two clients with half of the samples each, three quarters of them for training."""
    samples = ArraySet.of(spec, (values, np.arange(len(values)) % 2))
    config = DataConfig(partition="iid", quantity="equal", split="75:25")
    return FederatedData.build(config, 2, seed, samples, torch.device("cpu"))


def read(folder: Path, part: str, client: int) -> dict[str, Any]:
    """As HtFLlib reads a file."""
    with np.load(folder / part / f"{client}.npz", allow_pickle=True) as file:
        data: dict[str, Any] = file["data"].tolist()
    return data


def test_its_first_accuracy_is_that_before_round_1_and_its_first_round_is_not_timed() -> None:
    """Rounds 1 and 2 take 3 and 4 s. The clock stands at 18 s when round 1 begins, and at 20.5 s after it."""
    assert htfllib.course(PRINTED) == Course((0.5, 0.75), 3.5, 2.5)
    with pytest.raises(ValueError, match="3 accuracies, 2 times of rounds, and 3 clocks"):
        htfllib.course(PRINTED.replace("- 3.0", ""))


def test_a_text_is_written_with_its_length_in_another_order(tmp_path: Path) -> None:
    """Of 40 texts, each client trains on 15. All of a client's texts are there once, with their labels."""
    tokens = np.repeat(np.arange(40)[:, None], 6, axis=1)  # text i is six times token i, its class i mod 2
    data = federated(TokenSpec(6, 40), tokens)
    write_clients(tmp_path, data, seed=1)
    held = read(tmp_path, "train", 1)
    first = [text[0] for text, _ in held["x"]]
    assert [(len(text), length) for text, length in held["x"]] == [(6, 6)] * 15
    assert sorted(first) == data.clients[1].train.tolist()
    assert first != sorted(first)
    assert held["y"].tolist() == [token % 2 for token in first]
    assert len(read(tmp_path, "test", 0)["x"]) == 5


def test_a_signal_is_written_normalized_as_an_image_of_height_1_and_an_image_as_it_is(tmp_path: Path) -> None:
    """Our batches have mean 0 and variance 1 in each channel of the 30 training samples, and so have the files."""
    values = np.random.default_rng(0).normal(5, 3, (40, 2, 7)).astype(np.float32)
    write_clients(tmp_path, federated(SignalSpec(2, 7), values), seed=1)
    x = np.concatenate([read(tmp_path, "train", client)["x"] for client in (0, 1)])
    assert x.shape == (30, 2, 1, 7)
    assert np.allclose(x.mean((0, 2, 3)), 0, atol=1e-5)
    assert np.allclose(x.std((0, 2, 3)), 1, atol=1e-4)
    images = np.random.default_rng(0).integers(0, 256, (40, 1, 3, 4), dtype=np.uint8)
    write_clients(tmp_path / "images", federated(ImageSpec(1, 3, 4), images), seed=1)
    assert read(tmp_path / "images", "train", 0)["x"].shape == (15, 1, 3, 4)


def test_words_are_numbered_by_frequency_and_then_by_the_alphabet() -> None:
    """b occurs three times, a and c twice, d once. With three numbers, d is token 1. Fourth words are left over."""
    tokens, labels = numbered([["b", "a", "b", "c"], ["c", "d", "b", "a"]], length=3, vocabulary=3)
    assert tokens.tolist() == [[2, 3, 2], [4, 1, 2]]
    assert labels.tolist() == [0, 1]


def test_signals_have_the_form_of_uci_har_and_are_always_the_same(tmp_path: Path) -> None:
    write_waves(tmp_path / "a.npz", 12)
    write_waves(tmp_path / "b.npz", 12)
    a, b = (np.load(tmp_path / name) for name in ("a.npz", "b.npz"))
    assert a["signals"].shape == (12, 9, 128)
    assert (a["signals"] == b["signals"]).all()
    assert np.bincount(a["labels"]).tolist() == [2] * 6


def test_both_get_the_same_setting() -> None:
    for name, method in [(name, method) for name, setting in SETTINGS.items() for method in setting.methods]:
        setting = SETTINGS[name]
        ours = htfllib.config(setting, method, Path("samples.npz"), seed=2, rounds=7)
        words = htfllib.arguments(setting, method, rounds=7)
        theirs = dict(zip(words[::2], words[1::2], strict=True))
        training = ours.training
        same = int(theirs["-lbs"]), int(theirs["-ls"]), float(theirs["-lr"])
        assert (training.batch_size, training.epochs, training.lr) == same
        assert (ours.rounds, ours.federation.clients) == (int(theirs["-gr"]), int(theirs["-nc"]))
        assert (training.momentum, training.weight_decay, training.clip) == (0, 0, None)
        assert (ours.federation.participation, float(theirs["-jr"])) == (1, 1)
        assert getattr(ours.method, "lam", None) == (float(theirs["-lam"]) if "-lam" in theirs else None)
        assert getattr(ours.method, "d_1", None) == (int(theirs["-sfd"]) if "-sfd" in theirs else None)


def test_the_interval_of_a_difference_is_students() -> None:
    """Differences of 0.1, 0.2, and 0.3: mean 0.2, standard error 0.1 / √3, and t of 2 degrees of freedom.

    For p = 1 − 0.05 / intervals / 2, this t is (2p − 1) · √(2 / (4p (1 − p))).
    """
    for intervals, reach in ((1, 4.3027), (4, 8.8600)):
        found = difference((0.5, 0.6, 0.7), (0.4, 0.4, 0.4), intervals)
        assert found == pytest.approx((0.2, reach * 0.1 / 3**0.5), rel=1e-4)
        assert "*" not in in_words(*found)

    # 0.20, 0.21, and 0.22 in percent: 21 ± 4.3027 · 1 / √3; it is marked, as its interval excludes zero
    assert in_words(*difference((0.50, 0.51, 0.52), (0.30, 0.30, 0.30), 1)) == "+21.0 ± 2.5 *"
    assert in_words(*difference((0.50, 0.51, 0.40), (0.50, 0.49, 0.42), 1)) == "+0.0 ± 5.0"


def test_seconds_are_compared_seed_by_seed() -> None:
    """Two, three, and eight times as long: the median is three, and not 6 / 4."""
    seconds = ((1.0, 2.0), (4.0, 12.0), (5.0, 40.0))
    found = [(Course((), a, 2.0), Course((), b, 1.0), Course((), b, 1.0)) for a, b in seconds]
    assert htfllib.costs(found) == ("4.00", "12.00", "3.00", "2.00", "1.00", "0.50")


def test_its_models_become_htm5_and_one_of_its_own_width_the_smallest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Client 6 has the second of five models, CNN-2 with 16 filters. FedMRL's server asks for 128 features."""
    theirs = ModuleType("flcore.trainmodel.models")
    vars(theirs)["BaseHeadSplit"] = type("BaseHeadSplit", (torch.nn.Module,), {})
    for name in ("flcore", "flcore.trainmodel"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, theirs.__name__, theirs)
    htfllib_inside.supply_htm5()
    asked = SimpleNamespace(feature_dim=500, num_classes=10)
    of_client, small = theirs.BaseHeadSplit(asked, 6), theirs.BaseHeadSplit(asked, 0, 128)
    images = torch.zeros(2, 1, 28, 28)
    assert of_client.base.conv2.out_channels == 16
    assert small.base.fc1.out_features == 500
    assert (of_client.base(images).shape, small.base(images).shape) == ((2, 500), (2, 128))
    assert (of_client.head.in_features, small.head.in_features) == (500, 128)


@pytest.mark.slow
def test_a_script_gets_what_it_lacks_and_its_seed_and_its_folder_stays_as_it_is(tmp_path: Path) -> None:
    """The script sets torch's seed twice. Only with `weights` are the numbers after that different."""
    checkout = tmp_path / "checkout"
    (checkout / "system" / "flcore" / "servers").mkdir(parents=True)
    (checkout / "system" / "main.py").write_text(
        "import sys, h5py, calmsize, higher, torch\n"
        "from torch.utils.data import DataLoader\n"
        "from flcore.servers.serverktl_stylegan_3 import FedKTL\n"
        "print('\\n-------------Round number: 0-------------')\n"
        "with h5py.File('a', 'w') as file: file.create_dataset('x', data=[1, 2])\n"
        "with h5py.File('a', 'r') as file: print(file.get('x'), sys.argv[1:])\n"
        "drawn = []\n"
        "for _ in range(2): torch.manual_seed(0); drawn.append(torch.rand(1).item())\n"
        "print('same' if drawn[0] == drawn[1] else 'different')\n"
        "print(sum(len(batch) for batch in DataLoader(range(25), 10, drop_last=True, shuffle=False)))\n"
        "print(torch.nn.functional.log_softmax(torch.zeros(1, 1) + 3, dim=1).item())\n"
        "print(torch.nn.functional.log_softmax(torch.zeros(1, 2), dim=1).sum().item() == 0)\n"
    )
    before = sorted(checkout.rglob("*"))

    def lines(changes: str) -> list[str]:
        command = [sys.executable, htfllib_inside.__file__, str(checkout), "7", changes, "-go", "x"]
        done = subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout.splitlines()

    *_, clock, kept, drawn, samples, _, is_zero = lines("none")
    assert clock.startswith("Processor seconds: ")
    assert kept == "[1, 2] ['-go', 'x']"
    assert (drawn, samples, is_zero) == ("same", "20", "False")
    *_, drawn, samples, feature, is_zero = lines("batches,weights,features")
    assert (drawn, samples, feature, is_zero) == ("different", "25", "3.0", "True")
    assert sorted(checkout.rglob("*")) == before
