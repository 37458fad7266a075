"""What every registered method promises, checked for each of them alike; and that each check can fail."""

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulator import methods, runners
from simulator.base.errors import ConfigError
from simulator.contract import Promise, Subject
from simulator.data.specs import Kind
from simulator.training.precision import Precision
from tests import federations
from tests.contract.device import PROMISES

DOCS = Path(__file__).parents[2] / "docs" / "methods"


@functools.cache
def subject(name: str, runner: str, precision: Precision) -> Subject:
    return Subject(name, SHORT.get(name), runner=runner, precision=precision)


SHORT: dict[str, dict[str, int]] = {
    "feddf": {"server_steps": 3, "server_batch": 16},
    "fedktl": {"server_epochs": 5},
    "fedmd": {"public_epochs": 1, "private_epochs": 1},
}
"""Settings of methods whose first round is long by default."""
KIN = ("inco_prox", "inco_nova", "inco_scaffold", "inco_moon", "fedrolex", "fedl2g_f")
"""Methods that share their code with another one, which is tried each time."""
WAYS: list[tuple[str, Precision]] = [*itertools.product(runners.names_within(), ("float32", "bf16"))]
"""Every runner of this process with every precision that a CPU has."""
ON_RAY: list[tuple[str, Precision]] = [("ray", "float32"), ("ray", "bf16")]
"""The same on Ray, which takes long to start: one for all of them, and never each time."""
ALIKE = ("its card", "every phase trains", "losses are pure", "a whole round stays")
"""How promises begin that know nothing of runners."""
IMPLIED = "the same seed gives"
"""By the promise about the number of workers, which are two runs of one seed."""
LOOKS_ON = "measured traffic"
"""A promise that is watched in the method's hooks, which on Ray are called in other processes; records that are equal
in process and on Ray imply it (`tests/runners/test_ray.py`)."""

KINDS: tuple[Kind, ...] = ("tokens", "signal", "table")
"""The kinds of samples besides images."""
OF_MODELS = ("states keep", "every phase trains")
"""How promises begin that a model of another kind of samples could break, and that are tried in a second."""
STAYS = "a whole round stays"
"""The same, but it takes longer. One method tries it on each kind each time."""


def trials() -> Iterator[Any]:
    """Every promise of every method in every way. One way of each method is tried each time, in turn; of kin, of that
    the traffic alone."""
    turn = itertools.cycle(WAYS)
    usual = {name: next(turn) for name in methods.names()}
    ways = [*WAYS, *ON_RAY]
    for name, (runner, precision), promise in itertools.product(methods.names(), ways, PROMISES):
        if promise.sentence.startswith(ALIKE) and runner != usual[name][0]:
            continue
        if promise.sentence.startswith(LOOKS_ON) and runner == "ray":
            continue
        fast = (runner, precision) == usual[name] and not promise.sentence.startswith(IMPLIED)
        if name in KIN:
            fast = fast and promise.sentence.startswith("measured traffic")
        words = promise.sentence.replace(" ", "_")
        marks = () if fast else pytest.mark.slow
        yield pytest.param(
            promise, name, runner, precision, id=f"{words}-{name}-{runner}-{precision}", marks=marks
        )


@pytest.fixture(scope="module")
def actors() -> Iterator[None]:
    """A Ray and two actors, for all that is tried on it."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")
    engine = Subject("fedavg").built(runtime={"runner": "ray", "workers": 2}).engine
    engine.open()
    yield
    engine.close()


@pytest.mark.parametrize(("promise", "name", "runner", "precision"), [*trials()])
def test_every_method_keeps_its_promises(
    promise: Promise, name: str, runner: str, precision: Precision, request: pytest.FixtureRequest
) -> None:
    if runner == "ray":
        request.getfixturevalue("actors")
    assert promise.broken_by(subject(name, runner, precision)) is None


def trials_of_kinds() -> Iterator[Any]:
    """Every promise of every method on samples of every other kind that it takes, with one runner each. Each kind tries
    three promises of some methods each time: those of which a model can break one."""
    turn = itertools.cycle(KINDS)
    names = [name for name in methods.names() if name not in federations.OF_IMAGES]
    usual = {name: next(turn) for name in names if name not in KIN}
    for kind, name, promise in itertools.product(KINDS, names, PROMISES):
        fast = usual.get(name) == kind and promise.sentence.startswith(OF_MODELS)
        fast = fast or (name == "standalone" and promise.sentence.startswith(STAYS))
        words = promise.sentence.replace(" ", "_")
        yield pytest.param(
            promise, name, kind, id=f"{words}-{name}-{kind}", marks=() if fast else pytest.mark.slow
        )


@functools.cache
def subject_of_kind(name: str, kind: Kind, dataset: str) -> Subject:
    """Some groups of tiny models meet the needs of every method, on every kind that it takes."""
    return Subject(name, SHORT.get(name), runner="parallel", precision="float32", dataset=dataset, kind=kind)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[Kind, str]:
    folder = tmp_path_factory.mktemp("samples")
    return {kind: federations.saved(kind, folder) for kind in KINDS}


@pytest.mark.parametrize(("promise", "name", "kind"), [*trials_of_kinds()])
def test_every_method_keeps_its_promises_on_every_kind_of_samples(
    promise: Promise, name: str, kind: Kind, files: dict[Kind, str]
) -> None:
    assert promise.broken_by(subject_of_kind(name, kind, files[kind])) is None


REFUSED: list[tuple[str, Kind, str, str]] = [
    ("lg_fedavg", "table", "tiny_heads_of_rows", r"one linear layer: client 1 \(tiny_mlp_h4\)"),
    (
        "heterofl",
        "tokens",
        "tiny_text",
        r"widths that nest: client 0 \(tiny_fasttext\) lacks 'cells.* are tiny_text_widths",
    ),
    ("heteroavg", "tokens", "tiny_text", r"nested architectures: client 0 \(tiny_fasttext\) has '"),
    ("fedrolex", "signal", "tiny_signal", r"widths that nest: client 0 \(tiny_harcnn1\) lacks 'convs\.1"),
    ("fedproto", "tokens", "tiny_text_widths", r"one width .* client 1 \(tiny_fasttext_w2\) has 'fc1' of"),
    (
        "fedkwaz",
        "signal",
        "tiny_signal",
        r"needs images \(it mixes patches of them\): the samples are signals",
    ),
    (
        "pfedes",
        "table",
        "tiny_table",
        r"needs images \(its extractor makes images of images\): the samples are",
    ),
    ("fd", "signal", "tiny", r"'tiny_cnn' takes images, .* signals .*Groups for signals: .*tiny_signal"),
    (
        "fd",
        "tokens",
        "tiny_table",
        r"'tiny_mlp' takes images or signals or table rows, and the samples are tok",
    ),
]


@pytest.mark.parametrize(("name", "kind", "group", "reason"), REFUSED)
def test_a_pair_of_method_and_models_that_cannot_run_is_refused_with_the_reason(
    name: str, kind: Kind, group: str, reason: str
) -> None:
    members = ["tiny_mlp", "tiny_mlp_h4"] if group == "tiny_heads_of_rows" else group
    config = federations.config(name, federation={"group": members})
    with pytest.raises(ConfigError, match=reason):
        federations.built(config, federations.samples(kind))


@pytest.mark.parametrize("name", methods.names())
def test_every_method_has_a_page(name: str) -> None:
    page = DOCS / f"{name}.md"
    assert page.is_file()
    assert methods.get(name).card.title in page.read_text(encoding="utf-8")
