"""The ledger's figures of the test and eval parts, and figures of a user's own."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from simulator.base.errors import ConfigError
from simulator.base.sections import CLASS_CELLS, EvaluationConfig
from simulator.base.tensors import part
from simulator.metrics import user_metrics
from simulator.metrics.evaluation import counts_classes, macro_f1, mean_loss, part_metrics
from simulator.runners.evaluation import Answers
from simulator.sessions import history
from tests import federations
from tests.own import another_process

pytestmark = pytest.mark.usefixtures("generated_images")
__all__ = ["another_process"]

# The ledger's figures of the test and eval parts, by hand, and as a run records them.


def test_a_class_the_client_has_no_sample_of_is_left_out_of_its_f1() -> None:
    """Two of ten answers name class 2, which it lacks: classes 0 and 1 lose hits, class 2 has no term of its own."""
    f1 = macro_f1(Answers((5, 3, 0), (5, 3, 2), (5, 5, 0), 0.0))
    assert f1 == pytest.approx((2 * 5 / 10 + 2 * 3 / 8) / 2)


def test_a_loss_is_the_mean_over_samples_and_null_where_it_is_not_finite() -> None:
    assert mean_loss(Answers((1, 1), (1, 3), (2, 2), 6.0)) == 1.5
    assert mean_loss(Answers((1, 1), (1, 3), (2, 2), math.inf)) is None


RIGHT = Answers((2, 2), (2, 2), (2, 2), 4.0)
HALF = Answers((6, 0), (12, 0), (6, 6), 24.0)
"""Of twelve samples every one is answered with class 0: F1 (12/18 + 0)/2 = 1/3."""


def test_means_weigh_clients_alike_and_weighted_ones_by_samples() -> None:
    """Accuracies 1 (of 4) and 0.5 (of 12): mean 0.75, weighted 10/16. Losses 1 and 2: 1.5, 28/16. F1: 2/3, 1/2."""
    result = part_metrics({0: {"test": RIGHT}, 1: {"test": HALF}}, {"test": [4, 12]}, None)
    assert result == {
        "test": {
            "accuracy": {"mean": 0.75, "weighted": 0.625, "per_client": [1.0, 0.5]},
            "loss": {"mean": 1.5, "weighted": 1.75, "per_client": [1.0, 2.0]},
            "f1": {
                "mean": pytest.approx(2 / 3),
                "weighted": pytest.approx((4 + 12 / 3) / 16),
                "per_client": [1.0, pytest.approx(1 / 3)],
            },
        }
    }


def test_who_is_not_evaluated_now_stays_as_before_and_who_never_was_is_null() -> None:
    sizes = {"eval": [4, 12, 4]}
    first = part_metrics({0: {"eval": RIGHT}}, sizes, None)
    assert first["eval"]["accuracy"] == {"mean": 1.0, "weighted": 1.0, "per_client": [1.0, None, None]}
    second = part_metrics({1: {"eval": HALF}}, sizes, first)
    assert second["eval"]["accuracy"]["per_client"] == [1.0, 0.5, None]
    assert second["eval"]["loss"]["mean"] == 1.5


def test_answers_are_counted_by_class_without_classes_that_have_neither_samples_nor_answers() -> None:
    """Class 0: all 3 found. Class 1: of 2 samples one is taken for class 3, which has none. Class 2: neither."""
    some = Answers((3, 1, 0, 0), (3, 1, 0, 1), (3, 2, 0, 0), 1.0)
    result = part_metrics({1: {"test": some}}, {"test": [4, 5]}, None, by_class=True)
    assert result["test"]["classes"] == {"per_client": [None, [[0, 3, 3, 3], [1, 2, 1, 1], [3, 0, 0, 1]]]}


def test_counts_by_class_stay_until_a_client_is_evaluated_again_or_absent() -> None:
    sizes = {"eval": [4, 12, 4]}
    right, half = [[0, 2, 2, 2], [1, 2, 2, 2]], [[0, 6, 6, 12], [1, 6, 0, 0]]
    first = part_metrics({0: {"eval": RIGHT}}, sizes, None, by_class=True)
    second = part_metrics({1: {"eval": HALF}}, sizes, first, by_class=True)
    assert second["eval"]["classes"]["per_client"] == [right, half, None]
    third = part_metrics({}, sizes, second, absent={0}, by_class=True)
    assert third["eval"]["classes"]["per_client"] == [None, half, None]
    changed = part_metrics({1: {"eval": RIGHT}}, sizes, second, only_changed=True, absent={0}, by_class=True)
    assert changed["eval"]["classes"]["per_client"] == {"0": None, "1": right}


def test_counts_by_class_are_recorded_by_default_where_they_are_few() -> None:
    automatic = EvaluationConfig()
    assert counts_classes(automatic, 100, CLASS_CELLS // 100)
    assert not counts_classes(automatic, 100, CLASS_CELLS // 100 + 1)
    assert counts_classes(EvaluationConfig(classes=True), 10**6, 1000)
    assert not counts_classes(EvaluationConfig(classes=False), 2, 2)


# In a run


def run(name: str = "standalone", rounds: int = 2, **sections: Any) -> Any:
    parts = federations.built(federations.config(name, **sections))
    state = federations.run(parts.engine, rounds)
    return SimpleNamespace(parts=parts, state=state, record=state.record)


def scores(ran: Any, client: int, name: str) -> tuple[Tensor, Tensor]:
    """What a client's model says of a part in one plain forward pass, and the labels."""
    network = ran.parts.federation.build(ran.parts.federation.clients[client].architecture, torch.Generator())
    network.load_state_dict(part(ran.state.clients[client], "model"))
    x, y = ran.parts.data.batch(ran.parts.data.clients[client].part(name))
    return network.eval()(x), y


def test_a_run_records_what_one_forward_pass_over_the_part_says() -> None:
    """Batches of three and one pass over all: the same counts, and the same loss to the last few digits."""
    for name in ["test", "eval"]:
        ran = run(evaluation={"batch_size": 3})
        recorded = ran.record["evaluation"][name]
        for client in range(4):
            said, labels = scores(ran, client, name)
            right = said.argmax(1) == labels
            assert recorded["accuracy"]["per_client"][client] == int(right.sum()) / len(labels)
            probabilities = said.softmax(1)[torch.arange(len(labels)), labels]
            loss = -probabilities.log().mean().item()
            assert recorded["loss"]["per_client"][client] == pytest.approx(loss, rel=1e-5)
            f1 = [
                2 * int((right & (labels == label)).sum())
                / int((said.argmax(1) == label).sum() + (labels == label).sum())
                for label in labels.unique()
            ]  # fmt: skip
            assert recorded["f1"]["per_client"][client] == pytest.approx(sum(f1) / len(f1))
            assert recorded["classes"]["per_client"][client] == [
                [label, samples, int((right & (labels == label)).sum()), answered]
                for label in range(4)
                for samples, answered in [
                    (int((labels == label).sum()), int((said.argmax(1) == label).sum()))
                ]
                if samples or answered
            ]


def test_the_parts_that_are_asked_for_are_recorded() -> None:
    for sections, expected in [
        ({}, {"test", "eval"}),
        ({"evaluation": {"parts": ["eval"]}}, {"eval"}),
        ({"evaluation": {"parts": ["test"]}}, {"test"}),
        ({"data": {"split": "75:25"}}, {"test"}),
    ]:
        assert run(rounds=1, **sections).record["evaluation"].keys() == expected


def test_what_is_recorded_of_parts_changes_nothing_else() -> None:
    all_parts, none = (run("fedssa", evaluation={"parts": parts}) for parts in (["test", "eval"], []))
    assert "evaluation" not in none.record
    assert federations.state_bits(all_parts.state) == federations.state_bits(none.state)
    rest = {key: value for key, value in all_parts.record.items() if key != "evaluation"}
    assert federations.untimed(rest) == federations.untimed(none.record)


def test_a_part_that_the_split_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match="names 'eval', a part that no client has here"):
        run(data={"split": "75:25"}, evaluation={"parts": ["test", "eval"]})


def test_everybody_is_evaluated_in_the_first_round_that_measures_a_part() -> None:
    """Switched on after round 1: in round 2 one of four takes part, and all have figures."""
    quarter = {"participation": 0.25}
    parts = federations.built(federations.config(evaluation={"parts": []}, federation=quarter))
    first = federations.run(parts.engine, 1)
    later = federations.settings(parts, evaluation={"parts": ["eval"]})
    second = later.engine.round(first, lambda _: None).record
    assert second is not None
    assert None not in second["evaluation"]["eval"]["accuracy"]["per_client"]


def test_a_session_recorded_without_parts_measures_none() -> None:
    before = history.completed({"method": {"name": "fedlora"}, "evaluation": {"clients": "all"}})
    assert before["evaluation"]["parts"] == []
    assert before["evaluation"]["classes"] is False
    assert before["evaluation"]["clients"] == "all"


# Figures of a user's own: what the function is given, what the ledger has of it, and what is refused.


def load(folder: Path, source: str, name: str = "top2.py") -> None:
    (folder / name).write_text(source, encoding="utf-8")
    user_metrics.load(folder / name)


def record(rounds: int = 1, **sections: Any) -> Any:
    return run(rounds=rounds, **{"evaluation": {"metrics": ["top2"], "batch_size": 3}, **sections}).record


GIVEN = """
def metric(scores, labels):
    return scores.shape[0] * 100 + scores.shape[1]
"""


def test_it_is_given_all_scores_and_labels_of_a_part_at_once(tmp_path: Path) -> None:
    load(tmp_path, GIVEN)
    ran = run(rounds=1, evaluation={"metrics": ["top2"], "batch_size": 3})
    sizes = [len(client.test) for client in ran.parts.data.clients]
    found = ran.record["evaluation"]["test"]["metrics"]["top2"]
    assert found["per_client"] == [100 * size + 4 for size in sizes]


def test_what_is_no_number_is_null(tmp_path: Path) -> None:
    """Infinite but for the trial, in which every answer is right."""
    load(
        tmp_path,
        "def metric(scores, labels):\n    return 1.0 if scores.max() == 1 and len(labels) == 4 else float('nan')\n",
    )
    top2 = record()["evaluation"]["test"]["metrics"]["top2"]
    assert top2 == {"mean": None, "weighted": None, "per_client": [None] * 4}


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("x = 1", r"has no function metric\(scores, labels\)"),
        ("def metric(scores, labels):\n    return scores.nosuch", "failed, line 2: AttributeError"),
        ("def metric(scores, labels):\n    return 'high'", "failed.*: ValueError"),
        ("import nosuchmodule", "failed, line 1: ModuleNotFoundError"),
    ],
)
def test_a_file_that_gives_no_figure_is_refused_before_round_1(tmp_path: Path, source: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load(tmp_path, source)
        federations.built(federations.config(evaluation={"metrics": ["top2"]}))


def test_settings_without_sense_are_refused() -> None:
    for evaluation, why in [
        ({"metrics": ["f7"]}, r"names 'f7', which is neither .* nor a loaded file\. Add `metric=f7\.py`"),
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
def test_areas_are_means_over_the_classes_and_need_no_file() -> None:
    """Class 0 has 3 × 2 pairs, of which (0.21, 0.58) is in the wrong order: 5/6. Class 1: 0.91 is above all three, and
    0.21 above one of them: 4/6. Class 0 is at ranks 1, 2, and 4: (1/1 + 2/2 + 3/4) / 3. Class 1 at ranks 1 and 4:
    (1/1 + 2/4) / 2. A ranking of a single class, or of no numbers, is null.
    """
    precision = ((1 + 1 + 3 / 4) / 3 + (1 + 1 / 2) / 2) / 2
    for area, expected in ((user_metrics.auroc, (5 / 6 + 4 / 6) / 2), (user_metrics.auprc, precision)):
        assert area(SCORES, LABELS) == pytest.approx(expected)
        assert area(SCORES, torch.zeros(5, dtype=torch.int64)) is None
        assert area(SCORES * torch.inf, LABELS) is None
    names = ["balanced_accuracy", "auroc", "auprc"]
    found = record(evaluation={"metrics": names})["evaluation"]["test"]["metrics"]
    assert list(found) == names
    values = [value for each in found.values() for value in each["per_client"] if value is not None]
    assert all(0 <= value <= 1 for value in values)


def test_names_of_built_in_metrics_are_known_by_other_words_and_taken(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'auroc'"):
        user_metrics.measures(["AUC"], 3)
    with pytest.raises(ConfigError, match="has the name of a built-in metric"):
        load(tmp_path, GIVEN, "auroc.py")
