"""What every method declares, what its page says, and what a round of it costs."""

import csv
import pickle
import re
import runpy
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from unittest import mock

import pytest
from pydantic import ValidationError

from simulator import methods
from simulator.base import rng
from simulator.base.errors import ConfigError
from simulator.base.nested import flattened, with_overrides
from simulator.base.rng import EVERYONE
from simulator.base.sections import MethodConfig
from simulator.config import Config, limits_of
from simulator.engine.progress import unobserved
from simulator.methods import declarations, registry
from tests import federations

# What every method declares: its phases and streams, the ranges of its options, the model that answers.


class Declared(NamedTuple):
    """A method among four clients with tiny models."""

    adopts: tuple[str, ...] = ()
    """Parts of another method's state that it takes over at a switch."""
    drawn: tuple[str, ...] = ()
    """Streams that the server and client 1 start from."""
    phases: Mapping[str, tuple[str, ...]] = MappingProxyType({"model": ("model",)})
    """Every phase with the modules that it trains."""
    beside: tuple[str, ...] = ()
    """Models that train beside the client's own."""
    answers: str = "local"
    """Prototypes answer for FedProto and FedTGP, the meme and the model for FedAPEN, the part of the global model for
    the others with "aggregated"."""


PAIR = ("tiny_cnn", "tiny_mlp"), ("server/tiny_cnn", "server/tiny_mlp")
NESTED = ("tiny_resnet10",), ("server/tiny_resnet10",)
DECLARED_HEAD = ("head",), ("server/head",)
SMALL = ("tiny_cnn",)
MEME = ("meme",), ("server/meme",), {"mutual": ("model", "meme")}, SMALL
FACTORS = ("server/tiny_cnn", "server/tiny_cnn/adapter", "server/tiny_mlp", "server/tiny_mlp/adapter")
METHODS = {
    "ditto": Declared(*PAIR, phases={"own": ("model",), "model": ("shared",)}),
    "fd": Declared(),
    "fedapen": Declared(*MEME, answers="aggregated"),
    "fedavg": Declared(*PAIR),
    "fedclassavg": Declared(*DECLARED_HEAD),
    "feddf": Declared(*PAIR),
    "fedgen": Declared(*DECLARED_HEAD),
    "fedgh": Declared(*DECLARED_HEAD),
    "fedkd": Declared(
        ("meme",), ("server/meme", "client/projection"), {"mutual": ("model", "meme", "projection")}, SMALL
    ),
    "fedktl": Declared(drawn=("server/generator", "server/etf")),
    "fedkwaz": Declared(
        drawn=("client/proxy",),
        phases={"align": ("model", "proxy"), "refine": ("model", "proxy")},
        beside=SMALL,
    ),
    "fedl2g_f": Declared(drawn=("server/vectors",)),
    "fedl2g_l": Declared(drawn=("server/vectors",)),
    "fedlora": Declared(drawn=("server/adapter",), phases={"model": ("model",), "adapter": ("adapter",)}),
    "fedmd": Declared(phases={"public": ("model",), "private": ("model",)}),
    "fedmrl": Declared(
        (), ("server/small", "client/projection"), {"model": ("model", "small", "projection")}, SMALL
    ),
    "fednova": Declared(*PAIR),
    "fedper": Declared(*PAIR),
    "fedproto": Declared(("prototypes",), answers="aggregated"),
    "fedprox": Declared(*PAIR),
    "fedre": Declared(*DECLARED_HEAD),
    "fedrep": Declared(*PAIR, phases={"head": ("model",), "body": ("model",)}),
    "fedrolex": Declared(*NESTED, answers="aggregated"),
    "fedssa": Declared(*DECLARED_HEAD),
    "fedtgp": Declared(answers="aggregated"),
    "fiarse": Declared(*PAIR, answers="aggregated"),
    "fml": Declared(*MEME),
    "heteroavg": Declared(*NESTED),
    "heterofl": Declared(*NESTED, answers="aggregated"),
    **{f"inco_{base}": Declared(*NESTED) for base in ("avg", "moon", "nova", "prox", "scaffold")},
    "lg_fedavg": Declared(*DECLARED_HEAD),
    "lora": Declared(drawn=FACTORS, phases={"adapter": ("adapter",)}),
    "moon": Declared(*PAIR),
    "pfedafm": Declared(
        (), ("server/small", "client/alpha"), {"model": ("model", "alpha"), "small": ("small",)}, SMALL
    ),
    "pfedes": Declared(
        drawn=("server/extractor",), phases={"model": ("model",), "extractor": ("extractor",)}
    ),
    "pfedmoe": Declared((), ("server/small", "client/gate"), {"model": ("model", "small", "gate")}, SMALL),
    "scaffold": Declared(*PAIR),
    "standalone": Declared(),
}


def found(name: str) -> Declared:
    """What the method declares, and does before its first step."""
    parts = federations.built(federations.config(name))
    method = parts.method
    with mock.patch.object(rng, "torch_stream", side_effect=rng.torch_stream) as opened:
        method.init_server()
        method.init_client(parts.federation.clients[1])
    drawn = {call.args for call in opened.call_args_list}
    expected = METHODS[name].drawn
    whose = {(7, each, 0, 1 if each.startswith("client/") else EVERYONE) for each in expected}
    state = parts.engine.initial_state()
    local = federations.local(parts, 0, state.clients[0])
    method.receive(local, method.downlink(1, state.server, local.info))
    return Declared(
        tuple(method.adopts()),
        expected if drawn == whose else tuple(sorted(str(each) for each in drawn)),
        {phase.name: phase.trains for phase in method.phases(local)},
        tuple(method.trained_beside()),
        method.answers,
    )


@pytest.mark.long
def test_phases_and_streams_keep_their_names() -> None:
    """Names key the order of batches and the first weights: under other names a run would have other numbers."""
    assert {name: found(name) for name in declarations.modules()} == METHODS


def test_heads_of_different_widths_are_refused_where_they_are_shared() -> None:
    federation = federations.federation(["tiny_cnn", "tiny_cnn_w2"])
    for name in ("fedclassavg", "fedgen", "fedgh", "fedssa", "lg_fedavg"):
        with pytest.raises(ConfigError, match=r"client 0 \(tiny_cnn\) has a head 8→2, client 1 .* 4→2"):
            methods.get(name)(federations.config(name).method, federation).check()


RANGES = """
ditto: lam >= 0
fd: gamma >= 0
fedapen: lam_share > 0, lam_share < 1, lam_epochs >= 0, lam_lr > 0
fedclassavg: rho >= 0, contrast >= 0, tau > 0
feddf: server_steps >= 1, server_batch >= 2, server_lr > 0
fedgen: alpha >= 0, beta >= 0, decay > 0, decay <= 1, noise_width >= 1, hidden >= 1, diversity >= 0
fedgen: server_steps >= 1, server_batch >= 2, server_lr > 0
fedgh: eta_theta > 0, server_epochs >= 1
fedkd: t_start > 0, t_end <= 1
fedktl: mu >= 0, lam >= 0, margin >= 0, scale > 0, server_epochs >= 1, server_lr > 0, server_batch >= 2
fedkwaz: tau > 0, every >= 1
fedl2g_f: eta_s > 0
fedl2g_l: eta_s > 0, t_warm >= 0, clip > 0
fedlora: mu >= 0.5, mu < 1, hidden >= 1, eta_theta > 0
fedmd: subset >= 2, public_epochs >= 0, public_batch >= 2, private_epochs >= 1, digest_epochs >= 1, digest_batch >= 2
fedmrl: d_1 >= 1, m_small >= 0, m_large >= 0
fedproto: lam >= 0
fedprox: mu >= 0
fedre: server_lr > 0, server_epochs >= 1, server_batch >= 1
fedrep: head_epochs >= 1
fedssa: mu_0 > 0, mu_0 <= 1, t_stable >= 1
fedtgp: lam >= 0, tau >= 0, server_epochs >= 1, server_lr > 0, server_batch >= 1
fml: alpha >= 0, alpha <= 1, beta >= 0, beta <= 1
inco_avg: epsilon >= 0, clamp > 0
lora: alpha > 0
moon: mu >= 0, tau > 0
pfedafm: alpha >= 0, alpha <= 1
pfedes: mu >= 0, mu <= 1, channels >= 1, extractor_epochs >= 1
pfedmoe: gate_hidden >= 1
scaffold: eta_g > 0
"""


def test_an_option_takes_the_end_of_its_range_and_refuses_what_is_beyond() -> None:
    for line in RANGES.strip().splitlines():
        name, _, ranges = line.partition(": ")
        section = declarations.settings(name)
        for option, sign, end in re.findall(r"(\w+) ([<>]=?) ([\d.]+)", ranges):
            bound = float(end) if "." in end else int(end)
            whole = "int" in str(section.model_fields[option].annotation)
            step = 1 if whole else 0.01
            inward = step if sign.startswith(">") else -step
            last, beyond = (bound, bound - inward) if sign.endswith("=") else (bound + inward, bound)
            assert getattr(section.model_validate({"name": name, option: last}), option) == last
            with pytest.raises(ValidationError, match=option):
                section.model_validate({"name": name, option: beyond})


# What a method declares is read from its source, without the imports of its module, and is what its class has.


def test_a_declaration_is_that_of_the_class_and_pickle_finds_the_one_class_of_settings() -> None:
    for name in declarations.modules():
        declared, method = declarations.declared(name), methods.get(name)
        assert (declared.name, declared.card, declared.answers) == (method.name, method.card, method.answers)
        assert declarations.settings(name) is method.Config is pickle.loads(pickle.dumps(method.Config))


def test_settings_are_those_that_the_whole_module_makes_when_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, type[MethodConfig]] = {}

    def register(name: str) -> Callable[[type[methods.Method]], type[methods.Method]]:
        def keep(method: type[methods.Method]) -> type[methods.Method]:
            made[name] = method.Config
            return method

        return keep

    monkeypatch.setattr(methods, "register", register)
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


def test_limits_of_a_methods_setting() -> None:
    """μ of FedLoRA is from 0.5 to below 1. A method that is not of htfl-sim has the settings of all methods."""
    assert declarations.settings("mine") is MethodConfig
    assert limits_of("method.mu", "fedlora") == {"ge": 0.5, "lt": 1}
    assert limits_of("method.mu", "mine") == {}
    assert limits_of("training.lr", "mine") == {"gt": 0}


# docs/methods: every page says where paper, authors' code and this code differ, and names only options there are.


DOCS = Path(__file__).parents[2] / "docs" / "methods"
READ = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{7}\b")
NOT_FOUND = re.compile(r"\bno code\b[^.]*\bfound\b", re.IGNORECASE)
SETTING = re.compile(r"`([a-z_]+(?:\.[a-z_]+)?) ?= ?([^`]+)`")
OPTION = re.compile(r"`method\.(\w+)")

NAMES = methods.names()
SOURCES = {"paper", "code", "comparison", "here"}


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def differences(text: str) -> str:
    """The section of that name; it is the page's last."""
    _, heading, section = text.partition("\n## Differences\n")
    assert heading, "the page has no section 'Differences'"
    return section


def rows(section: str) -> list[list[str]]:
    """The cells of its tables' lines, without the lines below the headings."""
    lines = [line for line in section.splitlines() if line.startswith("|") and set(line) - set("|- ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def settings(text: str) -> list[str]:
    """Everything of the form `key = value`, as --set takes it; a key without a section is the method's."""
    return [f"{key if '.' in key else f'method.{key}'}={value}" for key, value in SETTING.findall(text)]


def accepted(name: str, *assignments: str) -> Config:
    """The configuration of that method with these settings; raises ConfigError for one there is not."""
    return Config.read(with_overrides({"method": {"name": name}}, assignments))


def test_every_page_has_its_title_and_one_table_of_numbered_differences() -> None:
    for name in NAMES:
        assert methods.get(name).card.title in page(name)
        heading, *numbered = rows(differences(page(name)))
        assert [heading[0], heading[1], heading[3]] == ["#", "paper", "here"], name
        assert numbered, name
        assert [row[0] for row in numbered] == [str(number) for number in range(1, len(numbered) + 1)], name
        assert all(len(row) == 4 and all(row) for row in numbered), name


def test_every_page_names_the_commit_of_the_code_that_was_read_or_says_that_none_was_found() -> None:
    sections = {name: differences(page(name)) for name in NAMES}
    assert [
        name for name in NAMES if not (READ.search(sections[name]) or NOT_FOUND.search(sections[name]))
    ] == []


def test_every_setting_and_option_a_page_names_is_one_the_method_takes() -> None:
    for name in NAMES:
        text = page(name)
        for line in text.splitlines():
            for setting in settings(line):
                accepted(name, *settings(line), setting)  # it may need the others of its line
        assert set(OPTION.findall(text)) <= {*methods.get(name).Config.model_fields}, name
        assert f"\n<!-- made by docsite.method {name} -->\n" in text


def sourced(name: str) -> dict[str, tuple[str, str]]:
    """Every default that the list beside the index has for the method: its value and its source."""
    with (DOCS / "defaults.csv").open(encoding="utf-8") as file:
        found = [row for row in csv.DictReader(file) if row["method"] == name]
    assert all(row["where"] for row in found)
    assert len(found) == len({row["option"] for row in found})
    return {row["option"]: (row["default"], row["source"]) for row in found}


def test_the_list_has_every_default_as_it_is_with_its_source() -> None:
    """An option whose default is found out later is `none`."""
    for name in NAMES:
        defaults = flattened(accepted(name).to_json()["method"])
        del defaults["name"]
        listed = sourced(name)
        assert listed.keys() == defaults.keys(), name
        for option, (value, source) in listed.items():
            assert set(source.split(" and ")) <= SOURCES, f"{name}.{option}: {source}"
            if value == "none":
                assert defaults[option] is None, f"{name}.{option}"
            else:
                assert accepted(name, f"method.{option}={value}") == accepted(name), f"{name}.{option}"


def test_a_setting_that_is_not_the_methods_is_noticed() -> None:
    found = settings("`t_stable = 10`, `training.clip = 50`, `x = y`")
    assert found == ["method.t_stable=10", "training.clip=50", "method.x=y"]
    with pytest.raises(ConfigError, match=r"unknown key 'method\.x'"):
        accepted("fedssa", "method.x=y")


# What a round costs, as the pages of the methods say: bytes of each client's messages, and operations of training.


CNN, MLP, HALF = "tiny_cnn", "tiny_mlp", "tiny_cnn_w2"
K, C, SEEN, PIXELS = 8, 4, 2, 64
"""The width of the features, classes, those of each client, and pixels of a gray image."""
COST_HEAD = (K + 1) * C
OF_CNN = (9 + 1) * 4 + (16 + 1) * 12 + (12 + 1) * 8 + COST_HEAD
OF_HALF = (9 + 1) * 2 + (8 + 1) * 6 + (6 + 1) * 4
"""Numbers of tiny_cnn at half its width, without a head."""
OF_MLP = (64 + 1) * 12 + 4 * 12 + (12 + 1) * 8 + COST_HEAD


class Cost(NamedTuple):
    """Numbers of four bytes in rounds 1 and 2: of every client alike, or of each of four."""

    up: int | list[int]
    down: int | list[int]
    later_up: int | list[int] | None = None
    later_down: int | list[int] | None = None
    options: dict[str, Any] = {}  # noqa: RUF012
    group: str | list[str] = CNN


PARTS = [OF_CNN, OF_HALF + (4 + 1) * C] * 2
GENERATOR = (3 + C) * 5 + 4 * 5 + (5 + 1) * K
"""3 + C inputs, 5 hidden with BatchNorm in place of a bias, K out."""
COSTS = {
    "fedavg": Cost(OF_CNN, OF_CNN),
    "feddf": Cost(OF_CNN, OF_CNN, options={"server_steps": 1}),
    "fedper": Cost(OF_CNN - COST_HEAD, OF_CNN - COST_HEAD),
    "fednova": Cost(OF_CNN + 1, OF_CNN),
    "scaffold": Cost(2 * OF_CNN, 2 * OF_CNN),
    "heterofl": Cost(PARTS, PARTS, group=[CNN, HALF]),
    "fedrolex": Cost(PARTS, PARTS, group=[CNN, HALF]),
    "fml": Cost(OF_MLP, OF_MLP, group=MLP),
    "fedapen": Cost(OF_MLP, OF_MLP, group=MLP),
    "fedmrl": Cost(OF_HALF + 3 * C, OF_HALF + 3 * C, options={"d_1": 2}, group=[CNN, HALF]),
    "pfedafm": Cost(OF_HALF, OF_HALF, group=[CNN, HALF]),
    "pfedmoe": Cost(OF_HALF, OF_HALF, group=[CNN, HALF]),
    "pfedes": Cost(18 * 8 + 8 + 1, 18 * 8 + 8 + 1),
    "lora": Cost(*[2 * (16 + 12) + 2 * (12 + 8) + COST_HEAD] * 2, options={"ranks": [2]}),
    "fedre": Cost(K + 2 * SEEN, COST_HEAD),
    "fedtgp": Cost(SEEN * (K + 1), 0, None, C * K, {"server_epochs": 1}),
    "fedmd": Cost(6 * C, 0, None, 6 * C, {"subset": 6, "public_epochs": 1, "private_epochs": 1}),
    "fedktl": Cost(SEEN * (C + 1), 0, None, C * (PIXELS + 64), {"server_epochs": 1}),
    "fedkwaz": Cost(SEEN * (2 * (K + C) + 1), 0, None, C * (2 * (K + C) + 1)),
    "fedgen": Cost(
        COST_HEAD + SEEN,
        COST_HEAD + 1,
        COST_HEAD,
        COST_HEAD + GENERATOR + C,
        {"server_steps": 1, "noise_width": 3, "hidden": 5},
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", COSTS)
def test_messages_have_the_bytes_of_the_page(name: str) -> None:
    cost = COSTS[name]
    everybody = {"participation": 1.0, "group": cost.group}
    config = federations.config(name, method=cost.options, federation=everybody)
    parts = federations.built(config)
    state, found = parts.engine.initial_state(), []
    assert {len(client.classes) for client in parts.federation.clients} == {SEEN}
    for _ in (1, 2):
        state = parts.engine.round(state, unobserved)
        assert state.record is not None
        found += [state.record["bytes"][f"per_client_{way}"] for way in ("up", "down")]
    later = [cost.up if cost.later_up is None else cost.later_up]
    later += [cost.down if cost.later_down is None else cost.later_down]
    expected = [each if isinstance(each, list) else [each] * 4 for each in (cost.up, cost.down, *later)]
    assert found == [[4 * numbers for numbers in each] for each in expected]


def flops(method: str, architecture: str, **options: object) -> float:
    """The FLOPs of training on one sample: those of a round of one client, over its number of samples."""
    alone = {"clients": 1, "participation": 1.0, "group": [architecture]}
    config = federations.config(method, method=options, federation=alone)
    parts = federations.built(config)
    record = federations.run(parts.engine, 1).record
    assert record is not None
    return record["flops"]["clients"] / len(parts.data.clients[0].train)


TRAINED = {
    CNN: 4 * 9 * 36 * 4 + 6 * (16 * 12 + 12 * 8 + 8 * 4),
    HALF: 4 * 9 * 36 * 2 + 6 * (8 * 6 + 6 * 4 + 4 * 4),
}
"""A step per sample: 2 operations for each product forward, as many for the gradient of the weights, and, but for the
first layer, of the input. A 3×3 kernel sees 36 places of 8×8 pixels."""
FORWARD, BACKWARD = 2 * (64 * 12 + 12 * 8 + 8 * 4), 2 * (64 * 12 + 12 * 8 + 8 * 4) + 2 * (12 * 8 + 8 * 4)
"""Of tiny_mlp."""
IMAGE = 2 * 9 * 8 * 64
"""A convolution of pFedES between 1 and 8 channels of 8×8 pixels."""
GATE = 4 * 64 * 32 + 6 * 32 * 2
ADAPTER = (8 * 60, 60 * 4)
OPERATIONS: dict[str, tuple[str, dict[str, object], int]] = {
    "standalone": (MLP, {}, FORWARD + BACKWARD),
    # FedGH adds a pass of the features over all samples.
    "fedgh": (MLP, {}, FORWARD + BACKWARD + 2 * (64 * 12 + 12 * 8)),
    # First, the adapter is frozen: forward, and back to its input. Then, the model is read up to FC2.
    "fedlora": (
        MLP,
        {},
        FORWARD + BACKWARD + 4 * sum(ADAPTER) + 2 * (64 * 12 + 12 * 8) + 4 * ADAPTER[0] + 6 * ADAPTER[1],
    ),
    "fml": (CNN, {"meme": HALF}, TRAINED[CNN] + TRAINED[HALF]),
    # Both models without the extractor's head; a gate, whose first layer passes no gradient on; pooling 4 numbers to 8.
    "pfedmoe": (CNN, {"small": HALF}, TRAINED[CNN] + TRAINED[HALF] - 6 * 4 * C + GATE + 4 * 4 * 8),
    # The same, a pass of the extractor, and one through the client's head and back; pooling twice, its gradient once.
    "pfedafm": (
        CNN,
        {"small": HALF},
        TRAINED[CNN]
        + TRAINED[HALF]
        - 6 * 4 * C
        + 2 * (9 * 36 * 2 + 8 * 6 + 6 * 4)
        + 4 * K * C
        + 3 * 2 * 4 * 8,
    ),
    # Phase `model`: two convolutions forward, two steps of the model. Phase `extractor`, twice: forward, both
    # gradients of weights, the second convolution's input, and through the model and back to its input.
    "pfedes": (
        CNN,
        {"extractor_epochs": 2},
        2 * TRAINED[CNN] + 2 * IMAGE + 2 * (5 * IMAGE + 4 * (9 * 36 * 4 + 16 * 12 + 12 * 8 + 8 * 4)),
    ),
    # Both networks. Stage I: F + B. Stage II: 4F + 3B without the head's 64 and 128. The means: F. Nine pairs: 9F.
    "fedkwaz": (
        MLP,
        {"every": 1},
        2 * (FORWARD + BACKWARD + 4 * FORWARD + 3 * BACKWARD - 64 - 128 + 10 * FORWARD),
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_training_has_the_operations_of_the_page(name: str) -> None:
    architecture, options, expected = OPERATIONS[name]
    assert flops(name, architecture, **options) == expected
