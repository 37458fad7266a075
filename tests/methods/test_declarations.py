"""What every method declares: the defaults and ranges of its options, its phases, the model that answers.

Each default comes from the paper or the authors' code, as the page of the method says.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from unittest import mock

import pytest

from simulator import methods
from simulator.base import rng
from simulator.base.errors import ConfigError
from simulator.base.rng import EVERYONE
from tests import federations


class Declared(NamedTuple):
    """A method among four clients with tiny models."""

    options: Mapping[str, object]
    """Every option with its default."""
    adopts: tuple[str, ...] = ()
    """Parts of another method's state that it takes over at a switch."""
    drawn: tuple[str, ...] = ()
    """Streams that the server and client 1 start from."""
    phases: Mapping[str, tuple[str, ...]] = MappingProxyType({"model": ("model",)})
    """Every phase with the modules that it trains."""
    beside: tuple[str, ...] = ()
    """Models that train beside the client's own."""


PAIR = ("tiny_cnn", "tiny_mlp"), ("server/tiny_cnn", "server/tiny_mlp")
NESTED = ("tiny_resnet10",), ("server/tiny_resnet10",)
HEAD = ("head",), ("server/head",)
SMALL = ("tiny_cnn",)
GUIDE = {"t_warm": None, "clip": None}
PARTS = {"mask": True, "mask_answers": True, "scaler": True, "scale_layers": True}
INCO = {
    "per_epoch": False,
    "variant": "paper",
    "normalize": True,
    "optimize": True,
    "only_conflicting": False,
    "epsilon": 1e-7,
    "clamp": 5.0,
}
METHODS = {
    "ditto": Declared({"lam": 1.0}, *PAIR, phases={"own": ("model",), "model": ("shared",)}),
    "fd": Declared(
        {"gamma": 1.0, "distance": "cross_entropy", "collect": "all_epochs", "include_self": False}
    ),
    "fedapen": Declared(
        {"meme": None, "lam_share": 0.05, "lam_epochs": 10, "lam_lr": 0.001},
        ("meme",),
        ("server/meme",),
        {"mutual": ("model", "meme")},
        SMALL,
    ),
    "fedavg": Declared({}, *PAIR),
    "fedclassavg": Declared({"rho": 0.1, "contrast": 0.0, "tau": 0.07}, *HEAD),
    "feddf": Declared({"server_steps": 200, "server_batch": 128, "server_lr": 1e-3}, *PAIR),
    "fedgen": Declared(
        {
            "alpha": 1.0,
            "beta": 0.0,
            "decay": 1.0,
            "noise": "normal",
            "noise_width": 32,
            "hidden": 512,
            "hidden_bias": False,
            "labels": "counts",
            "teacher": "mean_logits",
            "weighting": "plain",
            "diversity": 1.0,
            "server_steps": 50,
            "server_batch": 32,
            "server_lr": 3e-4,
        },
        *HEAD,
    ),
    "fedgh": Declared({"eta_theta": 0.01, "server_epochs": 1, "server_step": "pair", "bias": False}, *HEAD),
    "fedkd": Declared(
        {"t_start": 0.95, "t_end": 0.98, "meme": None},
        ("meme",),
        ("server/meme", "client/projection"),
        {"mutual": ("model", "meme", "projection")},
        SMALL,
    ),
    "fedktl": Declared(
        {
            "generator_file": None,
            "mu": 50.0,
            "lam": 1.0,
            "margin": 0.5,
            "scale": 64.0,
            "server_epochs": 100,
            "server_lr": 0.01,
            "server_batch": 100,
        },
        drawn=("server/generator", "server/etf"),
    ),
    "fedkwaz": Declared(
        {
            "tau": 4.0,
            "every": 30,
            "strengths": (0.1, 0.5, 1.0),
            "patches": (64, 16, 4),
            "proxy": None,
            "divergence": "student_first",
            "base": "own",
            "labels": "first",
            "collect": "after",
            "align": True,
            "students": "both",
        },
        drawn=("client/proxy",),
        phases={"align": ("model", "proxy"), "refine": ("model", "proxy")},
        beside=SMALL,
    ),
    "fedl2g_f": Declared(GUIDE | {"eta_s": 100.0}, drawn=("server/vectors",)),
    "fedl2g_l": Declared(GUIDE | {"eta_s": 0.1}, drawn=("server/vectors",)),
    "fedlora": Declared(
        {"mu": 0.9, "structure": "decomposed", "hidden": None, "eta_theta": None},
        drawn=("server/adapter",),
        phases={"model": ("model",), "adapter": ("adapter",)},
    ),
    "fedmd": Declared(
        {
            "subset": 5000,
            "public_epochs": 20,
            "public_batch": 128,
            "private_epochs": 25,
            "digest_epochs": 1,
            "digest_batch": 256,
            "distance": "absolute",
        },
        phases={"public": ("model",), "private": ("model",)},
    ),
    "fedmrl": Declared(
        {"small": None, "d_1": None, "m_small": 1.0, "m_large": 1.0},
        drawn=("server/small", "client/projection"),
        phases={"model": ("model", "small", "projection")},
        beside=SMALL,
    ),
    "fednova": Declared({"tau_eff": "norms"}, *PAIR),
    "fedper": Declared({}, *PAIR),
    "fedproto": Declared(
        {"lam": 1.0, "weighting": "counts", "collect": "last_epoch", "inference": "nearest"}, ("prototypes",)
    ),
    "fedprox": Declared({"mu": 0.1}, *PAIR),
    "fedre": Declared({"server_lr": 0.01, "server_epochs": 1, "server_batch": 32}, *HEAD),
    "fedrep": Declared({"head_epochs": 10}, *PAIR, phases={"head": ("model",), "body": ("model",)}),
    "fedrolex": Declared(PARTS, *NESTED),
    "fedssa": Declared(
        {"mu_0": 0.5, "t_stable": 10, "t_from": 0, "fusion": "sum", "holders": "participants"}, *HEAD
    ),
    "fedtgp": Declared(
        {
            "lam": 0.1,
            "distance": "means",
            "tau": 100.0,
            "server_epochs": 100,
            "server_lr": None,
            "server_batch": None,
            "margin": "largest",
            "collect": "after",
            "inference": "nearest",
        }
    ),
    "fiarse": Declared({"sizes": (1, 1 / 4, 1 / 16, 1 / 64), "gradient": "importance"}, *PAIR),
    "fml": Declared(
        {"alpha": 0.5, "beta": 0.5, "meme": None},
        ("meme",),
        ("server/meme",),
        {"mutual": ("model", "meme")},
        SMALL,
    ),
    "heteroavg": Declared({"per_epoch": False}, *NESTED),
    "heterofl": Declared(PARTS, *NESTED),
    "inco_avg": Declared(INCO, *NESTED),
    "inco_moon": Declared(INCO | {"mu": 1.0, "tau": 0.5, "first": "equal"}, *NESTED),
    "inco_nova": Declared(INCO | {"tau_eff": "norms"}, *NESTED),
    "inco_prox": Declared(INCO | {"mu": 0.1}, *NESTED),
    "inco_scaffold": Declared(INCO | {"eta_g": 1.0}, *NESTED),
    "lg_fedavg": Declared({}, *HEAD),
    "lora": Declared(
        {
            "ranks": (8,),
            "order": "turn",
            "alpha": None,
            "aggregation": "flexlora",
            "targets": (),
            "head": "shared",
        },
        drawn=("server/tiny_cnn", "server/tiny_cnn/adapter", "server/tiny_mlp", "server/tiny_mlp/adapter"),
        phases={"adapter": ("adapter",)},
    ),
    "moon": Declared({"mu": 1.0, "tau": 0.5, "first": "equal"}, *PAIR),
    "pfedafm": Declared(
        {"small": None, "alpha": 1.0},
        drawn=("server/small", "client/alpha"),
        phases={"model": ("model", "alpha"), "small": ("small",)},
        beside=SMALL,
    ),
    "pfedes": Declared(
        {"mu": 0.5, "channels": 8, "extractor_epochs": None},
        drawn=("server/extractor",),
        phases={"model": ("model",), "extractor": ("extractor",)},
    ),
    "pfedmoe": Declared(
        {"small": None, "gate_hidden": 32},
        drawn=("server/small", "client/gate"),
        phases={"model": ("model", "small", "gate")},
        beside=SMALL,
    ),
    "scaffold": Declared({"eta_g": 1.0}, *PAIR),
    "standalone": Declared({}),
}
BUILT_IN = {name for name in methods.names() if methods.get(name).__module__.startswith("simulator.methods.")}
ALL = pytest.mark.parametrize(("name", "declared"), METHODS.items(), ids=METHODS)


def test_every_method_is_in_this_table() -> None:
    assert METHODS.keys() == BUILT_IN


@ALL
def test_every_option_has_the_default_of_its_page(name: str, declared: Declared) -> None:
    assert methods.get(name).Config(name=name).model_dump(exclude={"name"}) == declared.options


@ALL
def test_phases_and_streams_keep_their_names(name: str, declared: Declared) -> None:
    """Names key the order of batches and the first weights: under other names a run would have other numbers."""
    parts = federations.built(federations.config(name))
    with mock.patch.object(rng, "torch_stream", side_effect=rng.torch_stream) as opened:
        parts.method.init_server()
        parts.method.init_client(parts.federation.clients[1])
    whose = {purpose: 1 if purpose.startswith("client/") else EVERYONE for purpose in declared.drawn}
    assert {call.args for call in opened.call_args_list} == {
        (7, purpose, 0, client) for purpose, client in whose.items()
    }

    state = parts.engine.initial_state()
    local = federations.local(parts, 0, state.clients[0])
    parts.method.receive(local, parts.method.downlink(1, state.server, local.info))
    assert {phase.name: phase.trains for phase in parts.method.phases(local)} == declared.phases


@ALL
def test_a_method_names_what_it_adopts_and_the_models_that_train_beside(
    name: str, declared: Declared
) -> None:
    method = federations.built(federations.config(name)).method
    assert (tuple(method.adopts()), tuple(method.trained_beside())) == (declared.adopts, declared.beside)


AS_RECEIVED = {"fedapen", "fedproto", "fedtgp", "heterofl", "fedrolex", "fiarse"}


@pytest.mark.parametrize("name", METHODS)
def test_only_these_methods_answer_with_what_they_would_receive_next(name: str) -> None:
    """Prototypes answer for FedProto and FedTGP, the meme and the model for FedAPEN, the client's part of the global
    model for the others."""
    assert methods.get(name).answers == ("aggregated" if name in AS_RECEIVED else "local")


@pytest.mark.parametrize("name", ["fedclassavg", "fedgen", "fedgh", "fedssa", "lg_fedavg"])
def test_heads_of_different_widths_are_refused_where_they_are_shared(name: str) -> None:
    federation = federations.federation(["tiny_cnn", "tiny_cnn_w2"])
    with pytest.raises(ConfigError, match=r"client 0 \(tiny_cnn\) has a head 8→2, client 1 .* 4→2"):
        methods.get(name)(federations.config(name).method, federation).check()


ENDS: list[tuple[str, str, float, float]] = [
    ("ditto", "lam", 0, -0.01),
    ("fd", "gamma", 0, -0.01),
    ("fedapen", "lam_share", 0.01, 0),
    ("fedapen", "lam_share", 0.99, 1),
    ("fedapen", "lam_epochs", 0, -1),
    ("fedapen", "lam_lr", 0.001, 0),
    ("fedclassavg", "rho", 0, -0.01),
    ("fedclassavg", "contrast", 0, -0.01),
    ("fedclassavg", "tau", 0.01, 0),
    ("feddf", "server_steps", 1, 0),
    ("feddf", "server_batch", 2, 1),
    ("feddf", "server_lr", 0.001, 0),
    ("fedgen", "alpha", 0, -0.01),
    ("fedgen", "beta", 0, -0.01),
    ("fedgen", "decay", 0.01, 0),
    ("fedgen", "decay", 1, 1.01),
    ("fedgen", "noise_width", 1, 0),
    ("fedgen", "hidden", 1, 0),
    ("fedgen", "diversity", 0, -0.01),
    ("fedgen", "server_steps", 1, 0),
    ("fedgen", "server_batch", 2, 1),
    ("fedgen", "server_lr", 0.001, 0),
    ("fedgh", "eta_theta", 0.01, 0),
    ("fedgh", "server_epochs", 1, 0),
    ("fedkd", "t_start", 0.01, 0),
    ("fedkd", "t_end", 1, 1.01),
    ("fedktl", "mu", 0, -0.01),
    ("fedktl", "lam", 0, -0.01),
    ("fedktl", "margin", 0, -0.01),
    ("fedktl", "scale", 0.01, 0),
    ("fedktl", "server_epochs", 1, 0),
    ("fedktl", "server_lr", 0.001, 0),
    ("fedktl", "server_batch", 2, 1),
    ("fedkwaz", "tau", 0.01, 0),
    ("fedkwaz", "every", 1, 0),
    ("fedl2g_f", "eta_s", 0.01, 0),
    ("fedl2g_l", "eta_s", 0.01, 0),
    ("fedl2g_l", "t_warm", 0, -1),
    ("fedl2g_l", "clip", 0.01, 0),
    ("fedlora", "mu", 0.5, 0.49),
    ("fedlora", "mu", 0.99, 1),
    ("fedlora", "hidden", 1, 0),
    ("fedlora", "eta_theta", 0.001, 0),
    ("fedmd", "subset", 2, 1),
    ("fedmd", "public_epochs", 0, -1),
    ("fedmd", "public_batch", 2, 1),
    ("fedmd", "private_epochs", 1, 0),
    ("fedmd", "digest_epochs", 1, 0),
    ("fedmd", "digest_batch", 2, 1),
    ("fedmrl", "d_1", 1, 0),
    ("fedmrl", "m_small", 0, -0.01),
    ("fedmrl", "m_large", 0, -0.01),
    ("fedproto", "lam", 0, -0.01),
    ("fedprox", "mu", 0, -0.01),
    ("fedre", "server_lr", 0.001, 0),
    ("fedre", "server_epochs", 1, 0),
    ("fedre", "server_batch", 1, 0),
    ("fedrep", "head_epochs", 1, 0),
    ("fedssa", "mu_0", 0.01, 0),
    ("fedssa", "mu_0", 1, 1.01),
    ("fedssa", "t_stable", 1, 0),
    ("fedtgp", "lam", 0, -0.01),
    ("fedtgp", "tau", 0, -0.01),
    ("fedtgp", "server_epochs", 1, 0),
    ("fedtgp", "server_lr", 0.001, 0),
    ("fedtgp", "server_batch", 1, 0),
    ("fml", "alpha", 0, -0.01),
    ("fml", "alpha", 1, 1.01),
    ("fml", "beta", 0, -0.01),
    ("fml", "beta", 1, 1.01),
    ("inco_avg", "epsilon", 0, -0.01),
    ("inco_avg", "clamp", 0.01, 0),
    ("lora", "alpha", 0.01, 0),
    ("moon", "mu", 0, -0.01),
    ("moon", "tau", 0.01, 0),
    ("pfedafm", "alpha", 0, -0.01),
    ("pfedafm", "alpha", 1, 1.01),
    ("pfedes", "mu", 0, -0.01),
    ("pfedes", "mu", 1, 1.01),
    ("pfedes", "channels", 1, 0),
    ("pfedes", "extractor_epochs", 1, 0),
    ("pfedmoe", "gate_hidden", 1, 0),
    ("scaffold", "eta_g", 0.01, 0),
]
"""Method, option, a value at the end of the option's range, and one beyond it."""


@pytest.mark.parametrize(("name", "option", "last", "beyond"), ENDS)
def test_an_option_takes_the_end_of_its_range_and_refuses_what_is_beyond(
    name: str, option: str, last: float, beyond: float
) -> None:
    assert getattr(federations.config(name, method={option: last}).method, option) == last
    with pytest.raises(ConfigError, match=option):
        federations.config(name, method={option: beyond})
