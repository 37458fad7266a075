"""What a hook may hand back, at its limits: the last value that is taken, and the first that is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

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


def assert_refused(check: Callable[[], object], reason: str) -> None:
    with pytest.raises(checks.Unusable, match=reason):
        check()


def test_a_figure_is_taken_as_plain_json() -> None:
    for figure, taken in (
        (2**64 - 1, 2**64 - 1),
        (1 - 2**64, 1 - 2**64),
        (torch.tensor([0.5]), 0.5),
        (torch.tensor([[3]]), 3),
        (np.array(0.25), 0.25),
        (nested(1, 20), nested(1, 20)),
        (nested(1, 20, as_mapping=True), nested(1, 20, as_mapping=True)),
        ((1, 2), [1, 2]),
    ):
        found = checks.metrics({"x": figure})["x"]
        assert (found, type(found)) == (taken, type(taken))


def test_a_figure_that_json_cannot_hold_is_refused() -> None:
    itself: list[object] = []
    itself.append(itself)
    for figure, reason in (
        (2**64, "more than 64 bits"),
        (-(2**64), "more than 64 bits"),
        (torch.tensor([0.5, 1.5]), r"a tensor float32 \[2\] as the figure 'x'"),
        (torch.ones(0), r"a tensor float32 \[0\] as the figure 'x'"),
        (np.ones(2), "an ndarray as the figure 'x'"),
        (memoryview(np.array(1.0)), "a memoryview as the figure 'x'"),
        ({"a": 1, 2: 3}, "a dict as the figure 'x'"),
        (nested(1, 21), "lists without end"),
        (nested(1, 21, as_mapping=True), "lists without end"),
        (itself, "lists without end"),
    ):
        assert_refused(lambda figure=figure: checks.metrics({"x": figure}), reason)
    for figures in (None, ["loss"], 0.5, {1: 0.5}):
        assert_refused(lambda figures=figures: checks.metrics(figures), "instead of metrics by name")


def test_tensors_have_names_and_values() -> None:
    for value, reason in (
        ([torch.ones(1)], "returned a list instead of named tensors"),
        ({1: torch.ones(1)}, "named a tensor 1; a name reads"),
        ({"a b": torch.ones(1)}, "named a tensor 'a b'"),
        ({"x": torch.eye(2).to_sparse()}, "'x' as a sparse tensor"),
    ):
        assert_refused(lambda value=value: checks.tensors(value), reason)


def test_a_state_keeps_its_names_in_order_its_shapes_dtypes_and_device() -> None:
    """A sum over names is the same after a resume, whatever order the method returns."""
    one, two = torch.zeros(2), torch.ones(2)
    before = {"a": one, "b": two}
    assert list(checks.state({"b": two, "a": one}, before)) == ["a", "b"]
    for value, reason in (
        ({"a": one}, "dropped 'b'"),
        (before | {"c": one}, "added 'c', which was not kept before"),
        (before | {"a": torch.ones(3)}, r"made 'a' float32 \[3\] of float32 \[2\]"),
        (before | {"a": one.long()}, r"made 'a' int64 \[2\] of float32 \[2\]"),
        (before | {"a": torch.ones(2, device="meta")}, "moved 'a' from cpu to meta"),
    ):
        assert_refused(lambda value=value: checks.state(value, before), reason)


def test_one_number_that_is_not_finite_is_found_with_its_name() -> None:
    for bad in ([1.0, torch.nan], [torch.inf, 1.0]):
        named = {"a": torch.ones(2), "b": torch.tensor(bad), "c": torch.ones(2)}
        assert_refused(lambda named=named: checks.finite(named), "not finite in 'b'")
    checks.finite({})
    checks.finite({"a": torch.ones(2, device="meta")})  # has no values


def test_settings_of_a_phase_that_can_be_used_are_taken() -> None:
    for settings in (
        {"lr": 1}, {"lr": 1e-9}, {"epochs": 1}, {"draws": lambda *_: {}}, {"optimizer": "sgd"},
        {"optimizer": "adam", "keeps": "adam"}, {"samples": torch.tensor([0, 2])}, {"batches": ()},
        {"batches": iter([])}, {"correction": {"model/head.bias": torch.ones(2)}},
        {"within": {"model/head.bias": (0.0, 1.0)}}, {"within": {"model/head.bias": (0.5, 0.5)}},
    ):  # fmt: skip
        given = phase(**settings)
        assert checks.phases((given,), nets(), ["adam/step"]) == [given]


def test_settings_of_a_phase_that_cannot_be_used_are_refused() -> None:
    bias = "model/head.bias"
    for settings, reason in (
        ({"lr": 0}, "has lr = 0 "),
        ({"lr": torch.inf}, "has lr = inf "),
        ({"lr": True}, "has lr = True "),
        ({"lr": "x"}, "has lr = 'x' in phase 'p'"),
        ({"epochs": 0}, "has epochs = 0 "),
        ({"steps": 1.5}, "has steps = 1.5 "),
        ({"epochs": 1, "steps": 2}, "has both epochs and steps "),
        ({"optimizer": "adamm"}, "has optimizer = 'adamm'"),
        ({"loss": None}, "loss or draws in phase 'p' that cannot be called"),
        ({"draws": 3}, "loss or draws in phase 'p' that cannot be called"),
        ({"trains": ("header",)}, "trains 'header' in phase 'p'; there are model"),
        ({"trains": ()}, "trains no parameters in phase 'p'"),
        ({"keeps": "adam"}, "keeps the moments of phase 'p' in 'adam', which its state does not have"),
        ({"batches": 5}, "has an int as batches in phase 'p'; they are a list of Batch"),
        ({"samples": [1]}, "has a list as samples"),
        ({"samples": torch.tensor(1)}, r"a tensor int64 \[\] as samples"),
        ({"samples": torch.tensor([[0, 1]])}, r"a tensor int64 \[1, 2\] as samples"),
        ({"samples": torch.tensor([True])}, r"a tensor bool \[1\] as samples"),
        (
            {"correction": {"model/no": torch.ones(1)}},
            "corrects 'model/no' in phase 'p', and there is no such",
        ),
        (
            {"correction": {bias: torch.ones(3)}},
            rf"'{bias}' in phase 'p' by float32 \[3\]; it is float32 \[2\]",
        ),
        (
            {"within": {"model/alpha": (0, 1)}},
            "bounds 'model/alpha' in phase 'p', and there is no such weight",
        ),
        ({"within": {bias: (1, 0)}}, f"bounds '{bias}' in phase 'p' from 1 to 0"),
    ):
        assert_refused(lambda settings=settings: checks.phases([phase(**settings)], nets(), ()), reason)
    assert_refused(lambda: checks.phases([phase(), phase()], nets(), ()), "has two phases named 'p'")
    assert_refused(
        lambda: checks.phases([phase(), "model"], nets(), ()), "a list instead of a list of phases"
    )


def test_networks_and_scores_are_what_they_are_called() -> None:
    assert_refused(lambda: checks.networks([1]), "returned a list instead of modules by name")
    for answer in (None, 1.0, [[0.5, 0.5]], torch.ones(1, 3), torch.ones(1, 2) > 0):
        assert_refused(lambda answer=answer: checks.scores(answer, 1, 2), r"of scores, floats \[1, 2\]")
