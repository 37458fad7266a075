"""What every registered method promises, checked for each of them alike; and that each check can fail."""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from simulator import methods, runners
from simulator.base.errors import ConfigError
from simulator.contract import Subject
from simulator.data.specs import Kind
from simulator.training.precision import Precision
from tests import federations
from tests.contract.imitation import PROMISES


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
"""How promises begin that know nothing of runners. They are tried with each method's usual runner alone."""
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
SMOKE = ("fedavg", "fedgh", "fedproto", "fedlora", "fedl2g_l", "scaffold")
"""Methods of different families, which `make test` tries."""


def broken(subject: Subject, tried: Callable[[str], bool]) -> dict[str, str]:
    """How the method breaks promises, by their sentences; of those that are tried."""
    found = {each.sentence: each.broken_by(subject) for each in PROMISES if tried(each.sentence)}
    return {sentence: how for sentence, how in found.items() if how is not None}


def trials() -> Iterator[Any]:
    """Every method in every way, and whether that is its usual one. One way of each method is tried each time."""
    turn = itertools.cycle(WAYS)
    for name in methods.names():
        usual = next(turn)
        for way in (*WAYS, *ON_RAY):
            marks = (
                []
                if way == usual and name in SMOKE
                else [pytest.mark.long if way == usual else pytest.mark.slow]
            )
            yield pytest.param(name, *way, usual, id="-".join((name, *way)), marks=marks)


@pytest.fixture(scope="module")
def actors() -> Iterator[None]:
    """A Ray and two actors, for all that is tried on it."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")
    engine = Subject("fedavg").built(runtime={"runner": "ray", "workers": 2}).engine
    engine.open()
    yield
    engine.close()


@pytest.mark.long
@pytest.mark.parametrize(("name", "runner", "precision", "usual"), [*trials()])
def test_every_method_keeps_its_promises(
    name: str, runner: str, precision: Precision, usual: tuple[str, Precision], request: pytest.FixtureRequest
) -> None:
    if runner == "ray":
        request.getfixturevalue("actors")

    def tried(sentence: str) -> bool:
        if (runner, precision) == usual:
            return (
                sentence.startswith("measured traffic") if name in KIN else not sentence.startswith(IMPLIED)
            )
        if sentence.startswith(LOOKS_ON) and runner == "ray":
            return False
        return runner == usual[0] or not sentence.startswith(ALIKE)

    assert broken(subject(name, runner, precision), tried) == {}


def trials_of_kinds() -> Iterator[Any]:
    """Every method on samples of every other kind that it takes, with one runner. Each kind tries some promises of some
    methods each time: those that a model can break.
    """
    turn = itertools.cycle(KINDS)
    names = [name for name in methods.names() if name not in federations.OF_IMAGES]
    usual = {name: next(turn) for name in names if name not in KIN}
    for kind, name in itertools.product(KINDS, names):
        few = usual.get(name) == kind or name == "standalone"
        mark = pytest.mark.long if few else pytest.mark.slow
        yield pytest.param(name, kind, few, id=f"{name}-{kind}", marks=mark)


@functools.cache
def subject_of_kind(name: str, kind: Kind, dataset: str) -> Subject:
    """Some groups of tiny models meet the needs of every method, on every kind that it takes."""
    return Subject(name, SHORT.get(name), runner="parallel", precision="float32", dataset=dataset, kind=kind)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[Kind, str]:
    folder = tmp_path_factory.mktemp("samples")
    return {kind: federations.saved(kind, folder) for kind in KINDS}


@pytest.mark.parametrize(("name", "kind", "few"), [*trials_of_kinds()])
def test_every_method_keeps_its_promises_on_every_kind_of_samples(
    name: str, kind: Kind, few: bool, files: dict[Kind, str]
) -> None:
    of_models = (*OF_MODELS, STAYS) if name == "standalone" else OF_MODELS
    assert (
        broken(subject_of_kind(name, kind, files[kind]), lambda each: not few or each.startswith(of_models))
        == {}
    )


REFUSED = r"""
lg_fedavg table tiny_heads_of_rows: one linear layer: client 1 \(tiny_mlp_h4\)
heterofl tokens tiny_text: widths that nest: client 0 \(tiny_fasttext\) lacks 'cells.* are tiny_text_widths
heteroavg tokens tiny_text: nested architectures: client 0 \(tiny_fasttext\) has '
fedrolex signal tiny_signal: widths that nest: client 0 \(tiny_harcnn1\) lacks 'convs\.1
fedproto tokens tiny_text_widths: one width .* client 1 \(tiny_fasttext_w2\) has 'fc1' of
fedkwaz signal tiny_signal: needs images \(it mixes patches of them\): the samples are signals
pfedes table tiny_table: needs images \(its extractor makes images of images\): the samples are
fd signal tiny: 'tiny_cnn' takes images, .* signals .*Groups for signals: .*tiny_signal
fd tokens tiny_table: 'tiny_mlp' takes images or signals or table rows, and the samples are tok
"""


def test_a_pair_of_method_and_models_that_cannot_run_is_refused_with_the_reason() -> None:
    for line in REFUSED.strip().splitlines():
        about, _, reason = line.partition(": ")
        name, kind, group = about.split()
        members = ["tiny_mlp", "tiny_mlp_h4"] if group == "tiny_heads_of_rows" else group
        config = federations.config(name, federation={"group": members})
        with pytest.raises(ConfigError, match=reason):
            federations.built(config, federations.samples(kind))  # type: ignore[arg-type]
