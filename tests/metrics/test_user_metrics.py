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


def test_settings_without_sense_are_refused() -> None:
    for evaluation, why in [
        (
            {"metrics": ["f7"]},
            r"names 'f7', which is neither built in .* nor a loaded file\. Add `metric=f7\.py`",
        ),
        ({"metrics": ["f7"], "parts": []}, "metrics are of the parts that are recorded"),
        ({"metrics": ["f7", "f7"]}, "names one twice"),
    ]:
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


def test_the_documented_figure_can_be_used(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "your-own.md").read_text(encoding="utf-8")
    (source,) = [block for block in page.split("```") if block.startswith("python\n# top2.py")]
    load(tmp_path, source.removeprefix("python\n"))
    assert record()["evaluation"]["eval"]["metrics"]["top2"]["mean"] is not None


# Built-in metrics


SCORES = torch.tensor([[3.0, 1, 0], [0, 1, 0], [2, 1, 0], [0, 3, 0], [1, 0, 0]])
LABELS = torch.tensor([0, 0, 0, 1, 1])
"""Class 2 has no samples. Softmax of class 0, by sample: 0.84, 0.21, 0.67, 0.05, 0.58. Of class 1: 0.11, 0.58, 0.24,
0.91, 0.21."""


def test_balanced_accuracy_is_the_mean_recall_of_the_classes_that_a_client_has() -> None:
    """Of class 0, 2 of 3 samples are right; of class 1, 1 of 2. The class without samples does not count."""
    assert user_metrics.balanced_accuracy(SCORES, LABELS) == pytest.approx((2 / 3 + 1 / 2) / 2)


@pytest.mark.long
def test_auroc_is_the_mean_share_of_pairs_in_the_right_order() -> None:
    """Class 0 has 3 × 2 pairs, of which (0.21, 0.58) is in the wrong order: 5/6. Class 1: 0.91 is above all three, and
    0.21 above one of them: 4/6."""
    assert user_metrics.auroc(SCORES, LABELS) == pytest.approx((5 / 6 + 4 / 6) / 2)


@pytest.mark.long
def test_auprc_is_the_mean_average_precision() -> None:
    """Class 0 is at ranks 1, 2, and 4: (1/1 + 2/2 + 3/4) / 3. Class 1 at ranks 1 and 4: (1/1 + 2/4) / 2."""
    assert user_metrics.auprc(SCORES, LABELS) == pytest.approx(((1 + 1 + 3 / 4) / 3 + (1 + 1 / 2) / 2) / 2)


@pytest.mark.long
def test_a_ranking_of_a_single_class_and_of_no_numbers_is_null() -> None:
    for area in [user_metrics.auroc, user_metrics.auprc]:
        assert area(SCORES, torch.zeros(5, dtype=torch.int64)) is None
        assert area(SCORES * torch.inf, LABELS) is None


@pytest.mark.long
def test_built_in_metrics_need_no_file() -> None:
    """On the last, every client's own value is a share of classes; a client without one has null."""
    found = record(evaluation={"metrics": ["balanced_accuracy", "auroc", "auprc"]})["evaluation"]["test"][
        "metrics"
    ]
    assert list(found) == ["balanced_accuracy", "auroc", "auprc"]
    assert all(
        0 <= value <= 1 for each in found.values() for value in each["per_client"] if value is not None
    )


def test_a_metric_by_another_name_is_answered_with_ours() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'auroc'"):
        user_metrics.measures(["AUC"], 3)


def test_a_file_with_the_name_of_a_built_in_metric_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has the name of a built-in metric"):
        load(tmp_path, TOP2, "auroc.py")
