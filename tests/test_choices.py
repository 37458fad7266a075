"""How the command line's words become one configuration, and the names of new sessions."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from htfl_sim.configuring import Choices, new_name

NOON = datetime(2026, 1, 2, 12, 0, 5, tzinfo=UTC)


def test_nothing_said_is_the_quickstart_and_quick_settings_come_over_a_preset() -> None:
    config = Choices().read()
    assert (config.preset, config.data.dataset, config.method.name) == ("quickstart", "digits", "fedlora")
    quick: dict[str, Any] = {"dataset": "fashion_mnist", "rounds": 7, "clients": 8, "seed": 3, "workers": 2}
    config = Choices(preset="fedgh_htm5_n50", **quick).read()
    assert (config.data.dataset, config.rounds, config.federation.clients) == ("fashion_mnist", 7, 8)
    assert (config.seed, config.runtime.workers) == (3, 2)
    assert config.federation.participation == 0.2  # the preset's


def test_set_has_the_last_word_and_the_last_set_the_very_last() -> None:
    config = Choices(rounds=7, assignments=["rounds=8", "rounds=9", "training.lr=0.5"]).read()
    assert (config.rounds, config.training.lr) == (9, 0.5)
    exchanged = Choices(method="nope", assignments=["method.name=fedavg"])  # so it need not be known
    assert exchanged.read().method.name == "fedavg"
    unquoted = Choices(assignments=["federation.group=[cnn1, timm:vit_tiny_patch16_224]"])  # by the shell
    assert list(unquoted.read().federation.group) == ["cnn1", "timm:vit_tiny_patch16_224"]


def test_another_method_does_not_inherit_the_presets_hyper_parameters_and_its_own_keeps_them() -> None:
    config = Choices(preset="fedlora_htm5", method="fedssa", assignments=["method.mu_0=0.4"]).read()
    found = config.method.model_dump()
    assert (found["name"], found["mu_0"], "hidden" in found) == ("fedssa", 0.4, False)
    own = Choices(preset="fedlora_cnn1", method="fedlora").read()
    assert own.method.model_dump()["structure"] == "direct"


def test_a_file_takes_the_place_of_a_preset(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('rounds = 4\nmethod = { name = "fedavg" }\n')
    config = Choices(file=tmp_path / "mine.toml", clients=3).read()
    found = (config.preset, config.rounds, config.method.name, config.federation.clients)
    assert found == (None, 4, "fedavg", 3)


def test_own_data_is_recorded_by_its_absolute_path_and_a_data_set_s_name_is_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("images", "digits"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert Choices(dataset="images").read().data.dataset == str(tmp_path / "images")
    assert Choices(assignments=["data.dataset=images"]).read().data.dataset == str(tmp_path / "images")
    assert Choices(dataset="digits").read().data.dataset == "digits"


def test_a_name_says_the_preset_and_what_differs_from_it_and_a_number_if_it_is_taken(tmp_path: Path) -> None:
    """A run from a file is named by its method and data."""
    (tmp_path / "mine.toml").write_text('method = { name = "fedavg" }\n')
    for choices, name in (
        (Choices(), "quickstart"),
        (Choices(method="fedavg", dataset="fashion_mnist"), "quickstart-fedavg-fashion_mnist"),
        (Choices(preset="fedgh_htm5"), "fedgh_htm5"),
        (Choices(assignments=["data.dataset='/my data/Kö pfe.npz'"]), "quickstart-K-pfe"),
        (Choices(file=tmp_path / "mine.toml"), "fedavg-digits"),
    ):
        assert new_name(choices.read(), tmp_path, NOON) == f"{name}-20260102-120005"
    for taken in ("quickstart-20260102-120005", "quickstart-20260102-120005-2"):
        (tmp_path / taken).mkdir()
    assert new_name(Choices().read(), tmp_path, NOON) == "quickstart-20260102-120005-3"
