"""Exported LoRA adapters: peft's names and configuration, and the client's model from body and factors."""

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import htfl_sim as hs
from checkpoints import SessionReader
from simulator.results.export.weights import Exported, LowRank
from tests.face.conftest import tiny

PREFIX = "base_model.model."


def exported(folder: Path, group: str = "tiny_vit1", **method: object) -> dict[int, Exported]:
    """The clients of two rounds with one small model, of which three of four take part in each."""
    options = {f"method__{key}": value for key, value in method.items()}
    config = tiny(method="lora", federation__group=group, rounds=2, training__lr=0.5, **options)
    hs.run(config, folder / "run")
    return {each.client: each for each in written(folder)}


def written(folder: Path, program: bool = False) -> tuple[Exported, ...]:
    return hs.sessions.export_weights(folder / "run", None, folder / "models", program=program).models


def read(adapter: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The configuration, and the tensors without peft's prefix."""
    tensors = load_file(adapter / "adapter_model.safetensors")
    assert all(name.startswith(PREFIX) for name in tensors)
    config = json.loads((adapter / "adapter_config.json").read_text())
    return config, {name.removeprefix(PREFIX): each for name, each in tensors.items()}


def of_layer(config: dict[str, Any], key: str, default: str, path: str) -> float:
    """As peft finds a layer's own value: by a pattern that matches the end of its name."""
    found = [each for pattern, each in config[key].items() if re.match(rf"(.*\.)?({pattern})$", path)]
    return float(found[0] if found else config[default])


LONG = pytest.mark.long
OPTIONS = (
    {"ranks": [2, 16], "alpha": 3.0},
    pytest.param({"ranks": [2, 16]}, marks=LONG),
    pytest.param({"ranks": [1], "aggregation": "flora", "head": "local"}, marks=LONG),
)


@pytest.mark.parametrize("options", OPTIONS, ids=["alpha", "no alpha", "flora"])
def test_body_and_factors_give_the_model(options: dict[str, Any], tmp_path: Path) -> None:
    """Ranks above 8, the smaller side of all layers, are cut. The sum of all updates of `flora` has any rank."""
    trained = {client: each for client, each in exported(tmp_path, **options).items() if each.adapter}
    assert len(trained) >= 3
    body = load_file(tmp_path / "models" / "tiny_vit1.body.safetensors")
    for client, each in trained.items():
        assert each.adapter is not None
        config, tensors = read(each.adapter)
        rank = 8 if "aggregation" in options else min(8, options["ranks"][client % 2])
        alpha = options.get("alpha", rank)
        assert (config["r"], config["lora_alpha"], config["peft_type"]) == (rank, alpha, "LORA")
        built = body | {name: tensors[name] for name in ("head.weight", "head.bias")}
        paths = [name.removesuffix(".lora_A.weight") for name in tensors if name.endswith("lora_A.weight")]
        for path in paths:
            b, a = tensors[f"{path}.lora_B.weight"], tensors[f"{path}.lora_A.weight"]
            assert of_layer(config, "rank_pattern", "r", path) == len(a) == b.shape[1] == rank
            scale = of_layer(config, "alpha_pattern", "lora_alpha", path) / rank
            built[f"{path}.weight"] = body[f"{path}.weight"] + scale * (b @ a)
            assert (scale * (b @ a)).abs().max() > 0.001
        merged = load_file(each.weights)
        assert built.keys() == merged.keys()
        for name, weight in merged.items():
            torch.testing.assert_close(built[name], weight, rtol=1e-4, atol=1e-5)
        modules = {name.rpartition(".")[0] for name in merged}
        assert sorted(m for m in modules if re.fullmatch(config["target_modules"], m)) == sorted(paths)
        heads = {"head.weight", "head.bias"}
        assert tensors.keys() == heads | {f"{path}.lora_{kind}.weight" for path in paths for kind in "AB"}
        assert len(paths) == 4  # qkv, proj, fc1, fc2


@pytest.mark.long
def test_with_flora_each_layer_has_the_rank_of_its_own_smaller_side(tmp_path: Path) -> None:
    """tiny_cnn's layers have 12 and 8 outputs. After a round, the stack of three clients has rank 12 at least."""
    trained = [
        each.adapter for each in exported(tmp_path, "tiny_cnn", ranks=[6], aggregation="flora").values()
    ]
    adapters = [read(each)[1] for each in trained if each is not None]
    assert len(adapters) >= 3
    for tensors in adapters:
        assert [len(tensors[f"{path}.lora_A.weight"]) for path in ("fc1", "fc2")] == [12, 8]


@pytest.mark.long
def test_the_file_beside_a_model_loads_the_body_too_with_torch_alone(tmp_path: Path) -> None:
    """The file's `load` takes any such weights."""
    without = exported(tmp_path)
    again = hs.sessions.export_weights(tmp_path / "run", [0], tmp_path / "again").models[0]
    file = runpy.run_path(str(again.program))
    (body,) = (tmp_path / "again").glob("*.body.safetensors")
    expected = load_file(tmp_path / "models" / body.name)
    assert without[0].program is None
    assert all(torch.equal(each, expected[name]) for name, each in file["load"](body).state_dict().items())


def test_layers_of_different_ranks_have_patterns_of_their_whole_names() -> None:
    """`fc` has rank 4, and `block.fc`, whose name ends with it, 8. So do their scales, without α."""
    config = LowRank({}, {"fc": 4, "block.fc": 8}, None).config()
    assert (config["r"], config["lora_alpha"]) == (8, 8)
    for key, default in (("rank_pattern", "r"), ("alpha_pattern", "lora_alpha")):
        assert [of_layer(config, key, default, path) for path in ("fc", "block.fc")] == [4, 8]
    assert LowRank({}, {"fc": 4, "block.fc": 8}, 3.0).config()["alpha_pattern"] == {}


def test_the_configuration_has_what_peft_reads_of_a_trained_adapter() -> None:
    config = LowRank({}, {"fc": 4}, None).config()
    assert {key: config[key] for key in config if key not in ("r", "lora_alpha", "target_modules")} == {
        "peft_type": "LORA", "base_model_name_or_path": None, "task_type": None, "inference_mode": True,
        "rank_pattern": {}, "alpha_pattern": {}, "lora_dropout": 0.0, "bias": "none", "modules_to_save": ["head"],
    }  # fmt: skip


@pytest.mark.long
def test_a_client_that_never_took_part_has_no_adapter(tmp_path: Path) -> None:
    """Its model is its own first one, without the common body."""
    hs.run(tiny(method="lora", rounds=1), tmp_path / "run")
    participants = SessionReader(tmp_path / "run").records()[0]["participants"]
    found = [each.client for each in written(tmp_path) if each.adapter is not None]
    assert found == participants and len(found) == 3


def test_an_adapter_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "models" / "client_0.adapter").mkdir(parents=True)
    with pytest.raises(hs.ConfigError, match=r"client_0\.adapter is there already"):
        exported(tmp_path)


def test_other_methods_have_no_adapter(trained: Path) -> None:
    (each,) = hs.open(trained).export_weights([0], trained.parent / "models")
    assert each.adapter is None and not list(each.weights.parent.glob("*.body.safetensors"))
