"""What a hook may hand back, at its limits: the last value that is taken, and the first that is refused."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from simulator.methods import checks
from simulator.training.phase import Nets, Phase
from tests import federations


def nested(value: object, lists: int, as_mapping: bool = False) -> Any:
    """The value in so many lists, or mappings, in one another."""
    for _ in range(lists):
        value = {"inner": value} if as_mapping else [value]
    return value


def phase(**settings: Any) -> Phase:
    return Phase("p", **({"loss": lambda *_: torch.zeros(())} | settings))


def nets() -> Nets:
    return Nets(federations.federation(["tiny_cnn"]).architectures["tiny_cnn"])


@pytest.mark.parametrize(
    ("figure", "taken"),
    [
        (2**64 - 1, 2**64 - 1),
        (1 - 2**64, 1 - 2**64),
        (torch.tensor([0.5]), 0.5),
        (torch.tensor([[3]]), 3),
        (np.array(0.25), 0.25),
        (nested(1, 20), nested(1, 20)),
        (nested(1, 20, as_mapping=True), nested(1, 20, as_mapping=True)),
        ((1, 2), [1, 2]),
    ],
)
def test_a_figure_is_taken_as_plain_json(figure: object, taken: object) -> None:
    found = checks.metrics({"x": figure})["x"]
    assert (found, type(found)) == (taken, type(taken))


@pytest.mark.parametrize(
    ("figure", "reason"),
    [
        (2**64, "more than 64 bits"),
        (-(2**64), "more than 64 bits"),
        (torch.tensor([0.5, 1.5]), r"a tensor float32 \[2\] as the figure 'x'"),
        (torch.ones(0), r"a tensor float32 \[0\] as the figure 'x'"),
        (np.ones(2), "an ndarray as the figure 'x'"),
        (memoryview(np.array(1.0)), "a memoryview as the figure 'x'"),
        ({"a": 1, 2: 3}, "a dict as the figure 'x'"),
        (nested(1, 21), "lists without end"),
        (nested(1, 21, as_mapping=True), "lists without end"),
    ],
)
def test_a_figure_that_json_cannot_hold_is_refused(figure: object, reason: str) -> None:
    with pytest.raises(checks.Unusable, match=reason):
        checks.metrics({"x": figure})


@pytest.mark.parametrize("figures", [None, ["loss"], 0.5])
def test_figures_without_names_are_refused(figures: object) -> None:
    with pytest.raises(checks.Unusable, match="instead of metrics by name"):
        checks.metrics(figures)


def test_a_tensor_whose_name_is_no_text_is_refused() -> None:
    with pytest.raises(checks.Unusable, match="named a tensor 1; a name reads"):
        checks.tensors({1: torch.ones(1)})


def test_a_tensor_moved_to_another_device_is_refused() -> None:
    with pytest.raises(checks.Unusable, match="moved 'a' from meta to cpu"):
        checks.state({"a": torch.ones(2)}, {"a": torch.ones(2, device="meta")})


@pytest.mark.parametrize("bad", [[1.0, torch.nan], [torch.inf, 1.0]])
def test_one_number_that_is_not_finite_is_found_with_its_name(bad: list[float]) -> None:
    with pytest.raises(checks.Unusable, match="not finite in 'b'"):
        checks.finite({"a": torch.ones(2), "b": torch.tensor(bad), "c": torch.ones(2)})


@pytest.mark.parametrize("named", [{}, {"a": torch.ones(2, device="meta")}])
def test_tensors_without_values_are_not_looked_at(named: Mapping[str, Tensor]) -> None:
    checks.finite(named)


@pytest.mark.parametrize(
    "settings",
    [
        {"lr": 1},
        {"lr": 1e-9},
        {"epochs": 1},
        {"epochs": 2},
        {"draws": lambda *_: {}},
        {"optimizer": "sgd"},
        {"optimizer": "adam", "keeps": "adam"},
        {"samples": torch.tensor([0, 2])},
        {"batches": ()},
        {"batches": iter([])},
        {"correction": {"model/head.bias": torch.ones(2)}},
        {"within": {"model/head.bias": (0.0, 1.0)}},
        {"within": {"model/head.bias": (0.5, 0.5)}},
    ],
)
def test_settings_of_a_phase_that_can_be_used_are_taken(settings: dict[str, Any]) -> None:
    given = phase(**settings)
    assert checks.phases((given,), nets(), ["adam/step"]) == [given]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"lr": 0}, "has lr = 0 "),
        ({"lr": torch.inf}, "has lr = inf "),
        ({"lr": True}, "has lr = True "),
        ({"epochs": 0}, "has epochs = 0 "),
        ({"steps": 1.5}, "has steps = 1.5 "),
        ({"epochs": 1, "steps": 2}, "has both epochs and steps "),
        ({"draws": 3}, "loss or draws in phase 'p' that cannot be called"),
        ({"batches": 5}, "has an int as batches in phase 'p'; they are a list of Batch"),
        ({"samples": torch.tensor(1)}, r"a tensor int64 \[\] as samples"),
        ({"samples": torch.tensor([[0, 1]])}, r"a tensor int64 \[1, 2\] as samples"),
        ({"samples": torch.tensor([True])}, r"a tensor bool \[1\] as samples"),
        (
            {"within": {"model/alpha": (0, 1)}},
            "bounds 'model/alpha' in phase 'p', and there is no such weight",
        ),
        ({"within": {"model/head.bias": (1, 0)}}, "bounds 'model/head.bias' in phase 'p' from 1 to 0"),
    ],
)
def test_settings_of_a_phase_that_cannot_be_used_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(checks.Unusable, match=reason):
        checks.phases([phase(**settings)], nets(), ())


def test_a_list_of_other_things_than_phases_is_refused() -> None:
    with pytest.raises(checks.Unusable, match="a list instead of a list of phases"):
        checks.phases([phase(), "model"], nets(), ())


@pytest.mark.parametrize("answer", [None, 1.0, [[0.5, 0.5]]])
def test_scores_that_are_no_tensor_are_refused(answer: object) -> None:
    with pytest.raises(checks.Unusable, match=r"instead of scores, floats \[1, 2\]"):
        checks.scores(answer, 1, 2)


def test_a_state_keeps_the_order_of_its_names() -> None:
    """A sum over names is the same after a resume, whatever order the method returns."""
    one, two = torch.zeros(1), torch.ones(1)
    assert list(checks.state({"b": two, "a": one}, {"a": one, "b": two})) == ["a", "b"]
