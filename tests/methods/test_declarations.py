"""What every method declares: its phases and streams, the ranges of its options, the model that answers."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from unittest import mock

import pytest

from simulator import methods
from simulator.base import rng
from simulator.base.errors import ConfigError
from simulator.base.rng import EVERYONE
from simulator.methods import declarations
from tests import federations


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
HEAD = ("head",), ("server/head",)
SMALL = ("tiny_cnn",)
MEME = ("meme",), ("server/meme",), {"mutual": ("model", "meme")}, SMALL
FACTORS = ("server/tiny_cnn", "server/tiny_cnn/adapter", "server/tiny_mlp", "server/tiny_mlp/adapter")
METHODS = {
    "ditto": Declared(*PAIR, phases={"own": ("model",), "model": ("shared",)}),
    "fd": Declared(),
    "fedapen": Declared(*MEME, answers="aggregated"),
    "fedavg": Declared(*PAIR),
    "fedclassavg": Declared(*HEAD),
    "feddf": Declared(*PAIR),
    "fedgen": Declared(*HEAD),
    "fedgh": Declared(*HEAD),
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
    "fedre": Declared(*HEAD),
    "fedrep": Declared(*PAIR, phases={"head": ("model",), "body": ("model",)}),
    "fedrolex": Declared(*NESTED, answers="aggregated"),
    "fedssa": Declared(*HEAD),
    "fedtgp": Declared(answers="aggregated"),
    "fiarse": Declared(*PAIR, answers="aggregated"),
    "fml": Declared(*MEME),
    "heteroavg": Declared(*NESTED),
    "heterofl": Declared(*NESTED, answers="aggregated"),
    **{f"inco_{base}": Declared(*NESTED) for base in ("avg", "moon", "nova", "prox", "scaffold")},
    "lg_fedavg": Declared(*HEAD),
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
        for option, sign, end in re.findall(r"(\w+) ([<>]=?) ([\d.]+)", ranges):
            bound = float(end) if "." in end else int(end)
            whole = "int" in str(methods.get(name).Config.model_fields[option].annotation)
            step = 1 if whole else 0.01
            inward = step if sign.startswith(">") else -step
            last, beyond = (bound, bound - inward) if sign.endswith("=") else (bound + inward, bound)
            assert getattr(federations.config(name, method={option: last}).method, option) == last
            with pytest.raises(ConfigError, match=option):
                federations.config(name, method={option: beyond})
