"""A user's own methods: the documented example runs; a session knows the file it was made with."""

import hashlib
import re
import shutil
import sys
from collections.abc import Iterator
from inspect import isfunction
from pathlib import Path

import pytest
import torch

import checkpoints
import simulator
from simulator import methods
from simulator.base import own_files, tensors
from simulator.base.errors import ConfigError, SessionError
from simulator.config import Config
from simulator.methods import Method, Uplink, needs, registry
from simulator.methods.base import cross_entropy
from simulator.models import registry as models
from simulator.sessions.session import Session
from tests import federations

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLE = DOCS / "examples" / "my_method.py"
SMALLEST = """
from simulator.methods import Card, Method, register

@register("{name}")
class Own(Method):
    card = Card("Own", "none", "no sharing", "nothing", "–", "–")
"""
MODEL = """
from torch import nn
from simulator.models import Network, register

class Own(Network):
    layers = ("features",)

    def __init__(self, shape, num_classes):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(shape.channels * shape.height * shape.width, 8), nn.{bend}())
        self.head = nn.Linear(8, num_classes)

    def represent(self, x):
        return {{"features": self.body(x)}}

register("own_model", "one layer of 8", 1)(Own)
"""


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is gone after it. A method is registered as it is imported, so fedavg comes before."""
    methods.get("fedavg")
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    monkeypatch.setattr(registry, "_ORIGINS", {})
    monkeypatch.setattr(models, "_MODELS", dict(models._MODELS))
    with federations.on_images(federations.generated()):
        yield


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process that has loaded no plugin."""
    for kind, name in registry._ORIGINS:
        monkeypatch.delitem(registry._METHODS if kind == "method" else models._MODELS, name)
    monkeypatch.setattr(registry, "_ORIGINS", {})


def written(path: Path, source: str) -> Path:
    path.write_text(source, encoding="utf-8")
    return path


def example() -> Config:
    registry.load(EXAMPLE)
    return federations.config("median_head")


def package(folder: Path, source: str, name: str = "own", module: str = "own_package") -> None:
    """An installed package that offers a method."""
    written(folder / "own_package.py", source)
    info = folder / "own_package-1.0.dist-info"
    info.mkdir()
    written(info / "METADATA", "Metadata-Version: 2.1\nName: own-package\nVersion: 1.0\n")
    written(info / "entry_points.txt", f"[htfl_sim.methods]\n{name} = {module}\n")


def test_the_example_runs_shares_heads_and_counts_them() -> None:
    """Four classes of eight features: a head is 4·8 + 4 numbers, 144 B, for each of three participants."""
    state = federations.run(federations.built(example()).engine, 2)
    traffic = state.record["bytes"]
    assert traffic["by_tensor"] == {"down/head": 3 * 144, "up/head": 3 * 144}
    assert state.record["method_metrics"]["spread"] > 0
    assert state.record["method"] == "median_head"


def test_the_examples_server_takes_the_median_number_by_number() -> None:
    config = example()
    federation = federations.federation(["tiny_cnn"] * 3)
    method = methods.get("median_head")(config.method, federation)
    rows = [torch.tensor([1.0, 50.0]), torch.tensor([2.0, -9.0]), torch.tensor([900.0, 0.5])]
    heads = [{"head/weight": row[:, None], "head/bias": row} for row in rows]
    uplinks = [Uplink(client, head) for client, head in zip(federation.clients, heads, strict=True)]
    merged = method.aggregate(1, {"head/weight": torch.zeros(2, 1), "head/bias": torch.zeros(2)}, uplinks)
    assert merged.server["head/bias"].tolist() == [2.0, 0.5]
    assert merged.server["head/weight"].tolist() == [[2.0], [0.5]]


def test_the_examples_loss_holds_the_head_to_the_received_one() -> None:
    """A head of 4·8 + 4 numbers, each ½ away from the received one: ρ · 36 · ¼ more than cross-entropy alone."""
    registry.load(EXAMPLE)
    parts = federations.built(federations.config("median_head", method={"rho": 2.0}))
    state = parts.engine.initial_state()
    local = federations.local(parts, 0, state.clients[0])
    parts.method.receive(local, parts.method.downlink(1, state.server, local.info))
    (phase,) = parts.method.phases(local)
    local.nets.eval()
    with torch.no_grad():
        for weights in local.nets.model.head.parameters():
            weights += 0.5
    batch = local.batch(local.train)
    extra = phase.loss(local.nets, phase.state, batch, {}) - cross_entropy(local.nets, {}, batch, {})
    assert extra.item() == pytest.approx(2.0 * 36 * 0.25, rel=1e-5)


def test_the_example_is_refused_where_heads_differ() -> None:
    config = example()
    federation = federations.federation(["cnn5", "tiny_cnn"], shape=federations.ImageShape(1, 28, 28))
    with pytest.raises(ConfigError, match=r"method 'median_head' cannot run here: .*client 1"):
        methods.get("median_head")(config.method, federation).check()


def test_the_page_shows_the_example_as_it_is() -> None:
    """Every Python block of the page stands in the file, in order, and together they are all of its class."""
    source = EXAMPLE.read_text(encoding="utf-8")
    page = (DOCS / "writing-a-method.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    places = [source.index(block) for block in blocks]
    assert places == sorted(places)
    shown = "".join("".join(blocks).split())
    assert "".join(source[source.index("class MedianHeadConfig") :].split()) == shown


def test_the_page_lists_helpers_that_exist_and_every_need() -> None:
    page = (DOCS / "writing-a-method.md").read_text(encoding="utf-8")
    section = page.partition("\n## Helpers\n")[2].partition("\n## ")[0]
    cells = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    listed = {name for cell in cells for name in re.findall(r"`(?:\w+\.)?(\w+)", cell)}
    parts = federations.built(federations.config())
    local = federations.local(parts, 0, parts.engine.initial_state().clients[0])
    assert listed - {*dir(local), *dir(parts.federation), *dir(needs), *dir(tensors)} == set()
    own = [each for each in vars(needs).values() if isfunction(each) and each.__module__ == needs.__name__]
    assert {each.__name__ for each in own if each.__name__[0] != "_"} - {"width"} <= listed


def test_a_plugins_method_stands_beside_built_in_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one in the home folder, without a card. Loading it again does nothing."""
    monkeypatch.setenv("HOME", str(tmp_path))
    path = written(tmp_path / "mine.py", SMALLEST.format(name="own").replace("    card", "    other"))
    plugin = registry.load(Path("~/mine.py"))
    assert plugin == registry.Plugin("mine.py", hashlib.sha256(path.read_bytes()).hexdigest())
    assert registry.load(path) == plugin
    assert {"own", "fedavg"} <= set(methods.names())
    assert registry.get("own").card.title == "own"
    assert registry.origin("own") == plugin
    assert registry.origin("fedavg") is None
    assert federations.config("own").method.name == "own"
    with pytest.raises(ConfigError, match=r"unknown method 'fedavgg'.*fedavg"):
        registry.get("fedavgg")


def test_a_hook_of_a_former_name_alone_is_refused(subtests: pytest.Subtests) -> None:
    """Beside the hook's new name it is a helper of the method's own."""
    for case, (former, now) in enumerate(
        [("merge", "aggregate"), ("start_server", "init_server"), ("start_client", "init_client")]
    ):
        with subtests.test(case=case):
            hook = {former: lambda self: None}
            with pytest.raises(ValueError, match=rf"{former}\(\) is called {now}\(\) now"):
                registry.register(f"own{case}")(type("Own", (Method,), hook))
            both = type("Own", (Method,), hook | {now: lambda self: None})
            assert registry.register(f"own{case}")(both).name == f"own{case}"


def test_a_plugin_that_fails_says_where_and_leaves_nothing(tmp_path: Path) -> None:
    own, fedavg, before = SMALLEST.format(name="own"), SMALLEST.format(name="fedavg"), methods.names()
    for source, message in (
        ("import os\n1 / 0\n", r"failed, line 2: ZeroDivisionError: division by zero\.$"),
        ("x = (\n", "failed, line 1: SyntaxError"),
        ("import no_such_module\n", r"line 1: ModuleNotFoundError: No module named 'no_such_module'\.$"),
        ("x = 1\n", "registers no method and no model; put @register"),
        (fedavg, r"failed, line 4: ValueError: a method named 'fedavg' exists already\.$"),
        (own + "raise RuntimeError('late')\n", r"failed, line 7: RuntimeError: late\.$"),
    ):
        with pytest.raises(ConfigError, match=rf"mine\.py .*{message}"):
            registry.load(written(tmp_path / "mine.py", source))
        assert methods.names() == before
    for name in ("none.py", ""):
        with pytest.raises(ConfigError, match=f"cannot read the plugin {re.escape(str(tmp_path / name))}"):
            registry.load(tmp_path / name)


def test_a_session_keeps_the_files_name_and_hash_without_its_folder(tmp_path: Path) -> None:
    Session.create(example(), tmp_path / "s", tmp_path).close()
    digest = hashlib.sha256(EXAMPLE.read_bytes()).hexdigest()
    document = checkpoints.SessionReader(tmp_path / "s").document
    assert document["plugin"] == {"name": "my_method.py", "sha256": digest}
    assert str(EXAMPLE.parent) not in (tmp_path / "s" / "session.json").read_text(encoding="utf-8")
    Session.create(federations.config("fedavg"), tmp_path / "built in", tmp_path).close()
    assert checkpoints.SessionReader(tmp_path / "built in").document["plugin"] is None


def test_a_session_resumes_with_its_plugin_to_its_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Session.create(example(), tmp_path / "alone", tmp_path).run()
    Session.create(example(), tmp_path / "stopped", tmp_path).run(stop=lambda: "enough")
    forget(monkeypatch)
    elsewhere = shutil.copy(EXAMPLE, tmp_path / "renamed.py")
    registry.load(Path(elsewhere))
    Session.resume(tmp_path / "stopped", tmp_path).run()
    assert federations.committed(tmp_path / "stopped") == federations.committed(tmp_path / "alone")


def test_a_resume_without_the_same_plugin_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Session.create(example(), tmp_path / "s", tmp_path).close()
    forget(monkeypatch)
    said = r"its method comes from the plugin my_method\.py, which is not loaded\. Add `plugin="
    with pytest.raises(SessionError, match=said):
        Session.resume(tmp_path / "s", tmp_path)
    registry.load(written(tmp_path / "my_method.py", EXAMPLE.read_text(encoding="utf-8") + "\n"))
    said = r"my_method\.py is not the one this session was made with"
    with pytest.raises(SessionError, match=said) as refused:
        Session.resume(tmp_path / "s", tmp_path)
    assert refused.value.exit_code == 4


def test_local_files_count_as_the_plugin_that_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin imports a package in a function, whose module imports its neighbor."""
    (tmp_path / "helpers").mkdir()
    written(tmp_path / "helpers" / "__init__.py", "")
    written(tmp_path / "helpers" / "means.py", "from . import rates\n")
    written(tmp_path / "helpers" / "rates.py", "RATE = 0.1\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    split = EXAMPLE.read_text(encoding="utf-8") + "\n\ndef mean():\n    import helpers.means\n"
    registry.load(written(tmp_path / "my_method.py", split))
    assert sorted(own_files.local_modules(split.encode())) == ["helpers", "helpers.means", "helpers.rates"]
    Session.create(federations.config("median_head"), tmp_path / "s", tmp_path).close()

    forget(monkeypatch)
    registry.load(tmp_path / "my_method.py")
    Session.resume(tmp_path / "s", tmp_path).close()

    forget(monkeypatch)
    written(tmp_path / "helpers" / "rates.py", "RATE = 0.2\n")
    registry.load(tmp_path / "my_method.py")
    with pytest.raises(
        SessionError, match=r"my_method\.py is not the one .* or imports a local file that changed"
    ):
        Session.resume(tmp_path / "s", tmp_path)


def test_a_session_may_have_the_plugins_own_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    written(tmp_path / "rates_beside.py", "RATE = 0.1\n")
    source = EXAMPLE.read_text(encoding="utf-8") + "\n\nimport rates_beside\n"
    plugin = registry.load(written(tmp_path / "my_method.py", source))
    alone = hashlib.sha256(source.encode()).hexdigest()
    assert plugin.sha256 != alone
    assert own_files.local_modules(EXAMPLE.read_bytes()) == {}
    registry.check(tmp_path, "median_head", {"name": "my_method.py", "sha256": alone})
    with pytest.raises(SessionError, match="is not the one this session was made with"):
        registry.check(tmp_path, "median_head", {"name": "my_method.py", "sha256": "0" * 64})


def test_an_installed_method_is_loaded_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its origin is known before it is used. Methods are listed by name wherever they come from. Other entry points,
    and those of broken modules, are left alone.
    """
    package(tmp_path, SMALLEST.format(name="a_first"), name="a_first")
    points = tmp_path / "own_package-1.0.dist-info" / "entry_points.txt"
    others = (
        "[another.group]\na_first = nowhere_at_all\nx = json\n[htfl_sim.methods]\n0broken = nowhere_at_all\n"
    )
    written(points, others + "a_first = own_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_package", raising=False)
    assert methods.names() == sorted(methods.names())
    assert methods.names()[:2] == ["0broken", "a_first"]
    assert "a_first" not in registry._METHODS
    assert registry.installed_files() == {"own_package.py"}
    origin = registry.origin("a_first")
    assert origin is not None and origin.name == "own_package.py"
    assert registry.origin("nobodys") is None
    Session.create(federations.config("a_first"), tmp_path / "s", tmp_path).run()
    digest = hashlib.sha256((tmp_path / "own_package.py").read_bytes()).hexdigest()
    kept = checkpoints.SessionReader(tmp_path / "s").document["plugin"]
    assert kept == {"name": "own_package.py", "sha256": digest}
    monkeypatch.delitem(sys.modules, "own_package")


@pytest.mark.parametrize(
    ("source", "offer", "message"),
    [
        (SMALLEST.format(name="other"), {}, "offers a method 'own' but registers none of that name"),
        ("1 / 0\n", {}, r"own_package\.py failed, line 1: ZeroDivisionError"),
        ("", {"module": "nowhere_at_all"}, "'own' should be in module 'nowhere_at_all', which is not there"),
        ("", {"module": "itertools"}, "'own' should be in module 'itertools', which is not there"),
        ("", {"module": "folder_alone"}, "'own' should be in module 'folder_alone', which is not there"),
    ],
)
def test_a_broken_package_is_named_and_breaks_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, offer: dict[str, str], message: str
) -> None:
    package(tmp_path, source, **offer)
    (tmp_path / "folder_alone").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_package", raising=False)
    with pytest.raises(ConfigError, match=message):
        methods.get("own")
    assert methods.get("fedavg").name == "fedavg"


# Models of a plugin


def of_own_model(folder: Path, bend: str = "ReLU") -> Config:
    registry.load(written(folder / "model.py", MODEL.format(bend=bend)))
    return federations.config("fedavg", rounds=1, federation={"group": ["own_model"]})


def test_a_session_goes_on_with_a_models_own_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Session.create(of_own_model(tmp_path), tmp_path / "s", tmp_path) as session:
        session.run()
    kept = checkpoints.SessionReader(tmp_path / "s").document["model_plugins"]
    sha256 = hashlib.sha256((tmp_path / "model.py").read_bytes()).hexdigest()
    assert kept == {"own_model": {"name": "model.py", "sha256": sha256}}
    assert registry.origin("own_model", "model") == registry.Plugin("model.py", sha256)
    assert registry.origin("cnn1", "model") is None

    forget(monkeypatch)
    with pytest.raises(SessionError, match=r"its model 'own_model' comes from the plugin model\.py.*plugin="):
        Session.resume(tmp_path / "s", tmp_path)
    for _ in range(2):  # loading it again does nothing
        of_own_model(tmp_path)
    Session.resume(tmp_path / "s", tmp_path).close()

    forget(monkeypatch)
    of_own_model(tmp_path, "Tanh")
    with pytest.raises(SessionError, match=r"the plugin model\.py is not the one this session was made with"):
        Session.resume(tmp_path / "s", tmp_path)
    with pytest.raises(SessionError, match=r"is not the one"):
        simulator.fork(tmp_path / "s", tmp_path / "fork", tmp_path, 1, assignments=["rounds=2"])
    assert not (tmp_path / "fork").exists()


def test_of_a_plugin_that_fails_no_model_stays(tmp_path: Path) -> None:
    before = models.names()
    source = MODEL.format(bend="ReLU") + "1 / 0\n"
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        registry.load(written(tmp_path / "model.py", source))
    assert models.names() == before


NESTED = """
from simulator.base.sections import MethodConfig


@register("nested")
class Nested(Own):
    class Config(MethodConfig):
        rates: dict[str, float] = {"head": 0.1}
"""


def test_settings_that_a_session_could_not_be_read_with_are_refused(tmp_path: Path) -> None:
    registry.load(written(tmp_path / "nested.py", SMALLEST.format(name="own") + NESTED))
    said = r"history\[0\]\.method\.rates .*Use numbers, texts, and lists of them"
    with pytest.raises(ConfigError, match=said):
        Session.create(federations.config("nested"), tmp_path / "new", tmp_path)
    with Session.create(federations.config("own"), tmp_path / "s", tmp_path) as session:
        session.run(upto=1)
        command = checkpoints.post(tmp_path / "s", "switch", {"method": "nested", "set": []})
        session.run()
    answer = checkpoints.answer(tmp_path / "s", command.id)
    assert answer is not None and answer.outcome == "refused" and "rates" in answer.message
    assert not (tmp_path / "new").exists()
