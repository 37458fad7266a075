"""Samples that are no images: a small token data set through everything that a run and a session can do."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import htfl_sim as hs
from htfl_sim.catalog import method_choices
from simulator import methods
from simulator.base import rng
from simulator.base.documents import check_document
from simulator.base.errors import ConfigError, DataError
from simulator.base.nested import merged
from simulator.config import Config
from simulator.data import datasets
from simulator.data.inputs import TokenInputs
from simulator.data.specs import ImageSpec, SignalSpec, TableSpec, TokenSpec
from simulator.engine.builder import build
from simulator.models import GROUPS as GROUPS_OF_MODELS
from simulator.models import libraries as own_models
from simulator.models import registry
from simulator.results.inspection import checkpoint, partition
from simulator.sessions.reader import CheckedReader
from simulator.sessions.session import Session
from tests import federations
from tests.own import another_process, written

__all__ = ["another_process"]
LENGTH, VOCABULARY, CLASSES = 10, 29, 4
MODELS = """
from torch import nn

class Mean(nn.Module):
    def __init__(self, vocabulary, padding, num_classes):
        super().__init__()
        self.features = nn.EmbeddingBag(vocabulary, 8, padding_idx=padding)
        self.head = nn.Linear(8, num_classes)

class Sensors(nn.Module):
    def __init__(self, in_channels, time, num_classes):
        super().__init__()
        self.features = nn.Sequential(nn.Conv1d(in_channels, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * time - 8, 8))
        self.head = nn.Linear(8, num_classes)

class Rows(nn.Module):
    def __init__(self, in_features, num_classes):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(in_features, 8), nn.ReLU())
        self.head = nn.Linear(8, num_classes)
"""


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(federations.saved("tokens", tmp_path_factory.mktemp("data")))


@pytest.fixture(autouse=True)
def _models(another_process: object, tmp_path: Path) -> None:
    own_models.load(written(tmp_path, "textnets.py", MODELS))


def config(texts: Path, name: str = "standalone", group: Any = "tiny_text", /, **more: Any) -> Config:
    return federations.config(
        name,
        **merged(
            {"data": {"dataset": str(texts)}, "federation": {"group": group}, "cka": {"every": 1}}, more
        ),
    )


def trained(chosen: Config, folder: Path) -> Path:
    with Session.create(chosen, folder, folder.parent) as session:
        session.run()
    return folder


def test_a_session_of_tokens_resumes_to_the_same_bits_with_records_of_all_measures(
    texts: Path, tmp_path: Path
) -> None:
    chosen = config(texts, "fedproto")
    whole = federations.assert_a_stop_changes_nothing(chosen, tmp_path, lambda session: session.round == 1)
    last = CheckedReader(whole).records()[-1]
    assert last["flops"]["total"] > 0 and last["bytes"]["up"] > 0
    assert last["cka"]["layers"].keys() == {"mean", "features", "state1", "state2"}
    assert all(0 <= value < 1.0001 for value in last["cka"]["layers"].values() if value is not None)


@pytest.mark.long
def test_training_on_tokens_learns(texts: Path, tmp_path: Path) -> None:
    """Two classes on each client: a guess is right in half of the cases."""
    everybody, faster = {"participation": 1.0}, {"lr": 1.0}
    chosen = config(texts, "standalone", ["tiny_fasttext"], rounds=15, federation=everybody, training=faster)
    accuracy = CheckedReader(trained(chosen, tmp_path / "s")).records()[-1]["accuracy"]["mean"]
    assert accuracy > 0.8


@pytest.mark.long
def test_other_precisions_and_runners_take_tokens(texts: Path, tmp_path: Path) -> None:
    losses = []
    for more in ({}, {"training": {"precision": "bf16"}}, {"runtime": {"runner": "stacked"}}):
        folder = trained(config(texts, "fedproto", **more), tmp_path / str(len(losses)))
        losses.append(CheckedReader(folder).records()[-1]["loss"]["mean"])
    assert losses == pytest.approx([losses[0]] * 3, abs=0.1)


@pytest.mark.long
def test_a_session_of_tokens_is_looked_at_and_exported_like_one_of_images(
    texts: Path, tmp_path: Path
) -> None:
    """An exported file computes the scores that the session evaluates, from tokens as the data set has them."""
    run = hs.open(trained(config(texts, rounds=2), tmp_path / "s"))
    tokens, labels = run.data(1)
    assert tokens.dtype == torch.int64 and tokens.shape == (len(labels), LENGTH)
    assert checkpoint.representations(run.path, tmp_path).points.shape[1] == 8
    assert checkpoint.cka(run.path, tmp_path)["layers"].keys() == {"mean", "features", "state1", "state2"}
    assert sum(map(sum, partition.of_session(run.path, tmp_path).counts["train"])) > 100
    (exported,) = run.export_weights([1], tmp_path / "models")
    assert exported.program is not None
    spec = importlib.util.spec_from_file_location("client_1", exported.program)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    scores = module.load()(module.prepare(tokens.to(torch.int32).numpy()))
    assert torch.equal(scores, run.scores(1))
    assert (module.LENGTH, module.VOCABULARY, module.PADDING) == (LENGTH, VOCABULARY, 0)


WHAT_ONLY_IMAGES_HAVE: list[Any] = [
    (
        {"federation": {"group": "htm5"}},
        r"Model 'cnn1' takes images, and the samples are tokens \(length 10, vocabulary 29\)\. Groups for tokens: "
        r"htfe_txt2, .* your own as `model=FILE\.py:NAME`: it can take length, vocabulary, padding, and num_cl",
    ),
    ({"federation": {"group": ["textnets:Sensors"]}}, "'textnets:Sensors' takes signals, .* are tokens"),
    ({"federation": {"group": ["textnets:Rows"]}}, "'textnets:Rows' takes table rows, .* are tokens"),
    ({"data": {"size": 8}}, r"data\.size changes images, and the samples of .* are tokens\. Leave it out"),
    ({"data": {"rgb": True}}, r"data\.rgb changes images"),
    ({"training": {"augment": ["flip"]}}, r"training\.augment has 'flip', which changes images, .* tokens"),
    ({"models": {"stem": "cifar"}}, r"models\.stem changes models of images, and the samples are tokens"),
    (
        {"method": {"name": "fedclassavg", "contrast": 1.0}},
        r"needs images \(method\.contrast compares two random views of each image; set it to 0\): .* tokens",
    ),
    (
        {"method": {"name": "fml", "meme": "cnn5"}},
        "Model 'cnn5' takes images, and the samples are tokens",
    ),
]


def test_what_only_images_have_is_refused_for_tokens(texts: Path) -> None:
    for more, message in WHAT_ONLY_IMAGES_HAVE:
        with pytest.raises(ConfigError, match=message):
            build(config(texts, **more), Path())
    with pytest.raises(
        ConfigError, match=r"'textnets:Mean' takes tokens, and the samples are images \(1×8×8\)"
    ):
        federations.built(federations.config(federation={"group": ["textnets:Mean"]}))


def test_a_model_without_a_forward_mode_derivative_is_refused_before_round_1(texts: Path) -> None:
    """FedL2G's product is one; torch has none of EmbeddingBag."""
    fault = r"forward-mode derivative: client 0 \(.*Mean\) has none \(.*embedding_bag"
    for method in ("fedl2g_l", "fedl2g_f"):
        with pytest.raises(ConfigError, match=fault):
            build(config(texts, method, ["textnets:Mean"]), Path())


def test_a_registered_model_of_the_kind_is_named(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    monkeypatch.setitem(GROUPS_OF_MODELS, "words", ("words",))
    registry.register("words", "a bag of words", kind="tokens")(lambda spec, classes: None)
    named = r"Groups for tokens: .*, words\. Models for tokens: fasttext, .*, …\. Or name your own"
    with pytest.raises(ConfigError, match=named):
        build(config(texts, federation={"group": "htm5"}), Path())


@pytest.mark.long
@pytest.mark.parametrize(("name", "net"), [("signals", "Sensors"), ("features", "Rows")])
def test_signals_and_tables_train_and_are_normalized_on_training_samples(
    name: str, net: str, tmp_path: Path
) -> None:
    draw = rng.numpy_stream(0, "tests/numbers")
    labels = np.arange(120) % CLASSES
    shape = (120, 2, 9) if name == "signals" else (120, 2)
    scale = np.array([100.0, 0.0]).reshape(-1, *[1] * (len(shape) - 2))
    values = 5 + scale * (draw.standard_normal(shape) + labels.reshape(-1, *[1] * (len(shape) - 1)))
    np.savez(tmp_path / "numbers.npz", **{name: values, "labels": labels})
    chosen = config(tmp_path / "numbers.npz", "fedproto", [f"textnets:{net}"])
    data = build(chosen, Path()).data
    assert data.spec == (SignalSpec(2, 9) if name == "signals" else TableSpec(2))
    x, _ = data.batch(torch.cat([client.train for client in data.clients]))
    assert x.dtype == torch.float32
    torch.testing.assert_close(x.transpose(0, 1).flatten(1).mean(1), torch.zeros(2), atol=1e-4, rtol=0)
    deviations = x.transpose(0, 1).flatten(1).std(1, correction=0)  # one that never varies keeps its scale
    torch.testing.assert_close(deviations, torch.tensor([1.0, 0.0]), atol=1e-4, rtol=0)
    run = hs.open(trained(chosen, tmp_path / "s"))
    exported = run.export_weights([0], tmp_path / "models")[0]
    assert exported.program is not None and "SCALE, SHIFT" in exported.program.read_text()


def test_the_form_of_a_file_is_known_without_loading_it(texts: Path, tmp_path: Path) -> None:
    data = build(config(texts), Path()).data
    assert isinstance(data.inputs, TokenInputs) and data.inputs.tokens.dtype == torch.int32  # four bytes
    assert data.batch(torch.tensor([3]))[0].dtype == torch.int64  # indices
    tokens, labels = np.full((2, 3), 4), np.arange(2)
    np.savez(tmp_path / "a.npz", images=np.zeros((6, 4, 5), np.uint8), labels=np.zeros(6, int))
    (tmp_path / "b.npz").write_bytes(b"no archive")
    np.savez(tmp_path / "c.npz", tokens=tokens, labels=labels, padding=np.array("x"))
    np.savez(tmp_path / "d.npz", tokens=tokens, labels=labels)
    forms = [datasets.declared(str(tmp_path / f"{name}.npz")) for name in "abcd"]
    assert forms == [ImageSpec(1, 4, 5), None, None, TokenSpec(3, 5)]
    assert datasets.declared(str(texts)) == data.spec == TokenSpec(LENGTH, VOCABULARY, 0)
    assert datasets.declared("digits") is None


PLUGIN = """
import numpy as np
from simulator.data import ArraySet, Dataset, TokenSpec, register

@register
class Reviews(Dataset):
    name = "reviews"
    title = "Reviews"
    source = "made up"
    train_samples, test_samples, classes = 80, 20, 2
    spec = TokenSpec(length=80, vocabulary=1000, padding=0)

    def load(self, folder):
        draw = np.random.default_rng(0)
        tokens, labels = draw.integers(0, {top}, (100, 80)), np.arange(100) % 2
        tokens[0, 0] = {top} - 1
        return ArraySet.of(self.spec, (tokens[:80], labels[:80]), (tokens[80:], labels[80:]), ("bad", "good"))
"""


@pytest.fixture
def _data_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "_DATASETS", dict(datasets._DATASETS))
    monkeypatch.setattr(methods.registry, "_ORIGINS", {})


@pytest.mark.usefixtures("_data_sets")
def test_a_plugin_brings_a_data_set_that_declares_its_spec(tmp_path: Path) -> None:
    missed = r"'reviews' is neither a data set, .* A plugin's data set needs `plugin=FILE`"
    with pytest.raises(ConfigError, match=missed):
        build(config(Path("reviews")), tmp_path)
    load, path = methods.registry.load, written(tmp_path, "reviews.py", PLUGIN.format(top=1000))
    assert load(path) == load(path) == methods.registry.origin("reviews", "data set")
    assert methods.registry.origin("digits", "data set") is None
    chosen = config(Path("reviews"), rounds=1, data={"split": "global"}, federation={"participation": 1.0})
    document = CheckedReader(trained(chosen, tmp_path / "s")).document
    assert document["inputs"] == {"kind": "tokens", "length": 80, "vocabulary": 1000, "padding": 0}
    assert document["samples"]["classes"] == ["bad", "good"]
    assert document["samples"]["test"] == [20] * 4
    assert {choice.name: choice.obstacle for choice in method_choices(chosen.to_json())}["fedproto"] is None


@pytest.mark.usefixtures("_data_sets")
def test_a_plugin_that_fails_or_has_samples_outside_its_spec_is_refused(tmp_path: Path) -> None:
    before = datasets.names()
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        methods.registry.load(written(tmp_path, "failing.py", PLUGIN.format(top=9) + "1 / 0"))
    assert datasets.names() == before  # its data set is taken back
    methods.registry.load(written(tmp_path, "reviews.py", PLUGIN.format(top=1001)))
    with pytest.raises(DataError, match="token 1000 is outside the vocabulary of 1000"):
        datasets.load("reviews", tmp_path)


def test_a_session_without_a_record_of_its_inputs_has_images(tmp_path: Path) -> None:
    """Sessions made before samples could be anything else resume."""
    with federations.on_images(federations.generated()):
        folder = trained(federations.config(), tmp_path / "s")
        document = CheckedReader(folder).document
        assert document["inputs"] == {"kind": "image", "channels": 1, "height": 8, "width": 8}
        check_document({key: each for key, each in document.items() if key != "inputs"})
