"""Figures of a user's own: what the function is given, what the ledger has of it, and what is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from simulator.base import own_files
from simulator.base.errors import ConfigError
from simulator.metrics import user_metrics
from tests import federations

TOP2 = """
import torch

def metric(scores, labels):
    return (scores.topk(2).indices == labels[:, None]).any(1).float().mean()
"""


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins, and leaves, as a process that has loaded no file."""
    monkeypatch.setattr(own_files, "_LOADED", {})
    monkeypatch.setattr(user_metrics, "_FUNCTIONS", {})
    with federations.on_images(federations.generated()):
        yield


def load(folder: Path, source: str, name: str = "top2.py") -> None:
    (folder / name).write_text(source, encoding="utf-8")
    user_metrics.load(folder / name)


def record(rounds: int = 1, **sections: Any) -> Any:
    sections = {"evaluation": {"metrics": ["top2"], "batch_size": 3}, **sections}
    return federations.run(federations.built(federations.config(**sections)).engine, rounds).record


def test_the_ledger_has_it_per_client_for_every_part(tmp_path: Path) -> None:
    """The most likely two of four classes; a client holds two, so that every part of it is a share of its samples."""
    load(tmp_path, TOP2)
    evaluation = record()["evaluation"]
    for part in ("test", "eval"):
        figure = evaluation[part]["metrics"]["top2"]
        assert len(figure["per_client"]) == 4
        assert figure["mean"] == pytest.approx(sum(figure["per_client"]) / 4)
        assert all(
            top2 >= top1
            for top2, top1 in zip(
                figure["per_client"], evaluation[part]["accuracy"]["per_client"], strict=True
            )
        )


def test_it_is_given_all_scores_and_labels_of_a_part_at_once(tmp_path: Path) -> None:
    load(tmp_path, "def metric(scores, labels):\n    return scores.shape[0] * 100 + scores.shape[1]\n")
    parts = federations.built(federations.config(evaluation={"metrics": ["top2"], "batch_size": 3}))
    found = federations.run(parts.engine, 1).record
    assert found is not None
    sizes = [client.num_test for client in parts.data.clients]
    assert found["evaluation"]["test"]["metrics"]["top2"]["per_client"] == [100 * size + 4 for size in sizes]


def test_accuracy_written_by_a_user_is_the_ledgers(tmp_path: Path) -> None:
    load(tmp_path, "def metric(scores, labels):\n    return (scores.argmax(1) == labels).double().mean()\n")
    evaluation = record(2)["evaluation"]
    for part in ("test", "eval"):
        own_figure, accuracy = evaluation[part]["metrics"]["top2"], evaluation[part]["accuracy"]
        assert own_figure["per_client"] == pytest.approx(accuracy["per_client"])
        assert own_figure["weighted"] == pytest.approx(accuracy["weighted"])


def test_its_draws_are_the_same_every_time(tmp_path: Path) -> None:
    load(tmp_path, "import torch\ndef metric(scores, labels):\n    return torch.rand(())\n")
    assert record()["evaluation"] == record()["evaluation"]


def test_what_is_no_number_is_null(tmp_path: Path) -> None:
    """Infinite but for the trial, in which every answer is right."""
    load(
        tmp_path,
        "def metric(scores, labels):\n    return 1.0 if scores.max() == 1 and len(labels) == 4 else float('nan')\n",
    )
    assert record()["evaluation"]["test"]["metrics"]["top2"] == {
        "mean": None,
        "weighted": None,
        "per_client": [None] * 4,
    }


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("x = 1", r"has no function metric\(scores, labels\)"),
        ("def metric(scores, labels):\n    return scores.nosuch", "failed, line 2: AttributeError"),
        ("def metric(scores, labels):\n    return 'high'", "failed.*: ValueError"),
        ("def metric(scores):\n    return 1", "failed.*: TypeError"),
        ("import nosuchmodule", "failed, line 1: ModuleNotFoundError"),
    ],
)
def test_a_file_that_gives_no_figure_is_refused_before_round_1(tmp_path: Path, source: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load(tmp_path, source)
        federations.built(federations.config(evaluation={"metrics": ["top2"]}))


@pytest.mark.parametrize(
    ("evaluation", "why"),
    [
        ({"metrics": ["f7"]}, r"names 'f7', whose file is not loaded\. Add `metric=f7\.py`"),
        ({"metrics": ["f7"], "parts": []}, "metrics are of the parts that are recorded"),
        ({"metrics": ["f7", "f7"]}, "names one twice"),
    ],
)
def test_settings_without_sense_are_refused(evaluation: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        federations.built(federations.config(evaluation=evaluation))


def test_a_metric_that_fails_later_says_where(tmp_path: Path) -> None:
    load(
        tmp_path,
        "def metric(scores, labels):\n    if scores.max() != 1:\n        raise KeyError('few')\n    return 1\n",
    )
    parts = federations.built(federations.config(evaluation={"metrics": ["top2"]}))
    with pytest.raises(ConfigError, match=r"the metric top2\.py, given scores .* failed, line 3: KeyError"):
        federations.run(parts.engine, 1)


def test_a_tensor_on_the_device_is_a_number(tmp_path: Path) -> None:
    load(tmp_path, TOP2)
    measure = user_metrics.measures(["top2"], 3)["top2"]
    assert measure(torch.eye(3), torch.tensor([0, 1, 2])) == 1.0


def test_the_documented_figure_can_be_used(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "your-own.md").read_text(encoding="utf-8")
    (source,) = [block for block in page.split("```") if block.startswith("python\n# top2.py")]
    load(tmp_path, source.removeprefix("python\n"))
    assert record()["evaluation"]["eval"]["metrics"]["top2"]["mean"] is not None
