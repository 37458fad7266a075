"""Dry runs download nothing. They say what a run would download, and with which command to do so before."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import huggingface_hub
import pytest

from tests.cli.conftest import TINY, Cli

STUDIES = (
    ("sweep", "t", "--over", "seed=0..1", "--rounds=30", "--dry-run"),
    ("tune", "t", "--over", "method=fedgh", "--rounds=30", "--dry-run"),
)
HUB = ("--dataset=hf:some/set", "--set=data.target=label", "--set=data.text=text")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A package `datasets` without network. `asked` has whether each request may use the network."""

    def load_dataset(path: str, name: str | None = None) -> Any:
        module.asked.append(not module.config.HF_HUB_OFFLINE)
        raise ConnectionError("Couldn't reach the Hugging Face Hub")

    module: Any = ModuleType("datasets")
    module.__version__, module.asked = "4.0.0", []
    module.load_dataset, module.config = load_dataset, SimpleNamespace(HF_HUB_OFFLINE=False)
    monkeypatch.setitem(sys.modules, "datasets", module)
    return module


@pytest.fixture
def weights(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each request for weights may use the network. None are in the cache."""
    asked: list[bool] = []

    def download(repository: str, file: str, local_files_only: bool = False) -> str:
        asked.append(not local_files_only)
        raise FileNotFoundError(file)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    return asked


@pytest.mark.parametrize("command", STUDIES)
def test_a_data_set_of_a_study_is_not_downloaded(cli: Cli, command: tuple[str, ...]) -> None:
    refused = cli(*command, "--dataset=cifar10")
    assert refused.code == 3 and "`htfl-sim data fetch cifar10`" in refused.err, refused.err


@pytest.mark.parametrize("command", STUDIES)
def test_a_data_set_of_hugging_face_is_not_downloaded(cli: Cli, hub: Any, command: tuple[str, ...]) -> None:
    refused = cli(*command, *HUB)
    assert hub.asked and not any(hub.asked)
    assert refused.code == 3, refused.err
    assert "`htfl-sim datasets hf:some/set --set data.target=label`" in refused.err


def test_a_run_on_hugging_face_says_that_it_would_download(cli: Cli, hub: Any) -> None:
    told = cli("run", *HUB, "--dry-run")
    assert told.code == 0 and "hf:some/set is not on this machine yet" in " ".join(told.out.split()), told.err
    assert hub.asked == [False]
    assert cli("run", *HUB).code == 3
    assert hub.asked == [False, True]  # a run may


def test_without_its_kind_a_run_on_hugging_face_has_no_preset(cli: Cli, hub: Any) -> None:
    refused = cli("run", "--dataset=hf:some/set", "--set=data.target=label", "--dry-run")
    assert refused.code == 3 and "hf:some/set is not on this machine yet" in refused.err
    assert hub.asked == [False]


@pytest.mark.parametrize("command", STUDIES)
def test_published_weights_of_a_study_are_not_downloaded(
    cli: Cli, weights: list[bool], command: tuple[str, ...]
) -> None:
    refused = cli(*command, "--model=resnet18", "--set=federation.pretrained=true")
    assert refused.code == 3 and "`hf download timm/resnet18.tv_in1k model.safetensors`" in refused.err
    assert weights and not any(weights)


def test_a_run_says_that_it_would_download_published_weights(cli: Cli, weights: list[bool]) -> None:
    told = cli("run", "--model=resnet18", "--set=federation.pretrained=true", "--dry-run")
    assert told.code == 0 and "weights of model 'resnet18' are not on this machine yet" in " ".join(
        told.out.split()
    )
    assert weights == [False]


def test_public_samples_are_not_downloaded(cli: Cli) -> None:
    public = ("--method=fedmd", "--set=data.public=cifar10", "--set=data.rgb=true")
    told = cli("run", *TINY, *public, "--dry-run")
    assert told.code == 0 and "cifar10 is not in" in told.out, told.err
