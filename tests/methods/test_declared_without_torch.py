"""What a method declares is read from its source, without the imports of its module, and is what its class has."""

import pickle
import runpy
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
from pydantic import ValidationError

from simulator import methods
from simulator.base.sections import MethodConfig
from simulator.config import limits_of
from simulator.methods import declarations, registry


def test_every_method_of_htfl_sim_is_found() -> None:
    modules = {methods.get(name).__module__ for name in declarations.modules()}
    assert modules == {f"simulator.methods.{module}" for module in declarations.modules().values()}


def test_a_declaration_is_that_of_the_class_and_pickle_finds_the_one_class_of_settings() -> None:
    for name in declarations.modules():
        declared, method = declarations.declared(name), methods.get(name)
        assert (declared.name, declared.card, declared.answers) == (method.name, method.card, method.answers)
        assert declarations.settings(name) is method.Config is pickle.loads(pickle.dumps(method.Config))


def test_settings_are_those_that_the_module_makes_when_it_runs_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: dict[str, type[MethodConfig]] = {}

    def register(name: str) -> Callable[[type[methods.Method]], type[methods.Method]]:
        def keep(method: type[methods.Method]) -> type[methods.Method]:
            made[name] = method.Config
            return method

        return keep

    monkeypatch.setattr(registry, "register", register)
    for module in sorted({*declarations.modules().values()}):
        runpy.run_path(f"{Path(registry.__file__).parent}/{module}.py", run_name=f"whole_{module}")
    for name, whole in made.items():
        declared = declarations.settings(name)
        assert whole.model_json_schema() == declared.model_json_schema()
        assert whole.space == declared.space
        assert whole(name=name).model_dump() == declared(name=name).model_dump()
    assert made.keys() == declarations.modules().keys()


def test_a_validator_of_the_settings_checks_them() -> None:
    with pytest.raises(ValidationError, match=r"t_start 0\.9 is above t_end 0\.5"):
        declarations.settings("fedkd")(name="fedkd", t_start=0.9, t_end=0.5)


def test_the_card_of_an_inco_method_has_the_texts_of_the_method_below_it() -> None:
    """A function of its module makes the card from that of FedProx."""
    made, below = declarations.declared("inco_prox").card, declarations.declared("fedprox").card
    assert made.title == "InCoProx"
    assert [each.name for each in fields(made) if getattr(made, each.name) == getattr(below, each.name)]


def test_a_method_that_is_not_of_htfl_sim_has_the_settings_of_all_methods() -> None:
    assert declarations.settings("mine") is MethodConfig


def test_limits_of_a_methods_setting() -> None:
    """μ of FedLoRA is from 0.5 to below 1."""
    assert limits_of("method.mu", "fedlora") == {"ge": 0.5, "lt": 1}
    assert limits_of("method.mu", "mine") == {}
    assert limits_of("training.lr", "mine") == {"gt": 0}
