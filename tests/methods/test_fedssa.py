"""FedSSA: rows of the head by class, and their fusion with the local ones, by hand."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from simulator.base.tensors import Tensors
from simulator.methods import Uplink
from simulator.methods.fedssa import FedSSA
from tests import federations
from tests.methods import sharing

CLASSES = [(0, 1), (1, 2), (0, 3)]


def method(**options: Any) -> FedSSA:
    """Three clients that see classes 0 and 1, 1 and 2, 0 and 3, of five."""
    config = federations.config("fedssa", method=options)
    federation = federations.federation(["tiny_cnn"] * 3, [1, 10, 100], CLASSES, num_classes=5)
    return FedSSA(config.method, federation)


def head(*rows: float) -> Tensors:
    """A head, or some rows of one, each filled with one number."""
    bias = torch.tensor(rows)
    return {"head/weight": bias[:, None].repeat(1, 8), "head/bias": bias}


def uplink(method: FedSSA, client: int, *rows: float) -> Uplink:
    return Uplink(method.federation.clients[client], head(*rows))


def test_a_row_is_the_plain_mean_over_the_clients_that_see_the_class() -> None:
    """Samples (1, 10, 100) do not weigh. Class 0: (2 + 6)/2 = 4; class 1: (4 + 10)/2 = 7; class 2 and 3: one holder."""
    fedssa = method()
    uplinks = [uplink(fedssa, 0, 2.0, 4.0), uplink(fedssa, 1, 10.0, 20.0), uplink(fedssa, 2, 6.0, 8.0)]
    server, _ = fedssa.aggregate(1, head(0.0, 0.0, 0.0, 0.0, 9.0), uplinks)
    assert federations.bits(server) == federations.bits(head(4.0, 7.0, 20.0, 8.0, 9.0))


def test_only_seen_rows_travel() -> None:
    fedssa = method()
    payload = fedssa.downlink(1, head(1.0, 2.0, 3.0, 4.0, 5.0), fedssa.federation.clients[2])
    assert federations.bits(payload) == federations.bits(head(1.0, 4.0))


def test_mu_falls_as_a_quarter_cosine_and_stays_at_zero() -> None:
    """μ_0 = 0.8, T_stable = 4: μ^t = 0.8 cos(π t / 8) up to t = 4, and t counts from 0 (Algorithm 1)."""
    for round, mu in [
        (1, 0.8),
        (2, 0.8 * math.cos(math.pi / 8)),
        (3, 0.8 * math.sqrt(0.5)),
        (5, 0.0),
        (6, 0.0),  # the cosine would be −0.31
        (9, 0.0),  # and −0.8 here
    ]:
        fedssa = method(mu_0=0.8, t_stable=4)
        assert fedssa.mu(round) == pytest.approx(mu, abs=1e-12)
        assert fedssa.aggregate(round, head(*[0.0] * 5), [uplink(fedssa, 0, 1.0, 1.0)]).metrics[
            "mu"
        ] == fedssa.mu(round)


def test_sessions_from_before_count_t_from_one() -> None:
    """½ cos(π/20), ½ cos(2π/20), and nothing from round 10 on."""
    fedssa = method(t_stable=10, t_from=1)
    assert [fedssa.mu(round) for round in (1, 2, 10)] == pytest.approx([0.4938442, 0.4755283, 0], abs=1e-7)


def test_t_counts_from_the_round_in_which_the_method_began() -> None:
    """Switched to after round 30: round 31 is t = 0."""
    fedssa = method(t_stable=10)
    later = FedSSA(fedssa.config, replace(fedssa.federation, begun=30))
    assert [later.mu(round) for round in (31, 32, 41)] == [fedssa.mu(round) for round in (1, 2, 11)]


def received(fusion: str, round: int = 3) -> tuple[Tensor, Tensor]:
    """Rows of a client that sees classes 0 and 1 of four, after it receives; μ in round 3 is 0.5 · cos(π/3) = ¼."""
    options = {"mu_0": 0.5, "t_stable": 3, "fusion": fusion}
    images = federations.generated()
    parts = federations.built(federations.config("fedssa", method=options), images)
    client = parts.federation.clients[0]
    state = parts.engine.initial_state()
    start = state.clients[0] | {
        "model/head.weight": torch.full((4, 8), 8.0),
        "model/head.bias": torch.full((4,), 8.0),
    }
    local = federations.local(parts, 0, start, round)
    parts.method.receive(local, parts.method.downlink(round, head(100.0, 101.0, 102.0, 103.0), client))
    seen = torch.zeros(4, dtype=torch.bool)
    seen[list(client.classes)] = True
    assert 0 < seen.sum() < 4
    weight, bias = local.nets.model.head.weight.detach(), local.nets.model.head.bias.detach()
    assert (weight == bias[:, None]).all()
    return bias, seen


def test_seen_rows_are_fused_and_unseen_rows_stay_local() -> None:
    for fusion, expected in [
        ("sum", lambda theta: theta + 0.25 * 8.0),  # eq. 4 as printed
        ("convex", lambda theta: 0.75 * theta + 0.25 * 8.0),
        ("replace_seen", lambda theta: theta),  # ablation B of Table 3
    ]:
        rows, seen = received(fusion)
        theta = torch.tensor([100.0, 101.0, 102.0, 103.0])
        torch.testing.assert_close(rows, torch.where(seen, expected(theta), torch.tensor(8.0)))


def test_in_ablation_a_seen_rows_go_up_and_the_whole_header_comes_down() -> None:
    """§6.4, A: aggregation by class stays, and the latest global header takes the place of the fusion."""
    fedssa = method(fusion="replace_all")
    uplinks = [uplink(fedssa, 0, 2.0, 4.0), uplink(fedssa, 2, 6.0, 8.0)]  # of classes 0, 1 and 0, 3
    server, _ = fedssa.aggregate(1, head(*[0.0] * 5), uplinks)
    assert federations.bits(server) == federations.bits(head(4.0, 4.0, 0.0, 8.0, 0.0))
    assert federations.bits(fedssa.downlink(2, server, fedssa.federation.clients[1])) == federations.bits(
        server
    )
    parts, _, _, local = sharing.working("fedssa", receives=False, options={"fusion": "replace_all"})
    assert len(parts.method.uplink(local)["head/bias"]) == len(local.info.classes)


def test_over_all_holders_the_absent_count_with_what_they_last_sent() -> None:
    """Class 1 is held by clients 0 and 1 and begins at ½. Client 0 sends 1: (1 + ½)/2; then 1 sends 3: (1 + 3)/2."""
    fedssa = method(holders="all")
    begun = head(*[0.5] * 5)
    start = begun | {
        name.replace("head", "sent"): rows.expand(3, *rows.shape) for name, rows in begun.items()
    }
    first, _ = fedssa.aggregate(1, start, [uplink(fedssa, 0, 9.0, 1.0)])
    second, _ = fedssa.aggregate(2, first, [uplink(fedssa, 1, 3.0, 9.0)])
    assert [server["head/bias"][1].item() for server in (first, second)] == [0.75, 2.0]
    assert (second["head/weight"][1] == 2.0).all()
    assert second["head/bias"][4] == 0.5  # nobody holds class 4


def test_an_aggregated_evaluation_fuses_as_the_next_round_will(monkeypatch: pytest.MonkeyPatch) -> None:
    """T_stable = 2: after round 1 (μ = ½) clients answer with ½ cos(π/4), that of the payload they received."""
    asked: list[int] = []
    fused = FedSSA._fused
    monkeypatch.setattr(
        FedSSA,
        "_fused",
        lambda self, theta, own, round: (asked.append(round), fused(self, theta, own, round))[1],
    )
    settings = federations.config("fedssa", method={"t_stable": 2}, evaluation={"model": "aggregated"})
    federations.run(federations.built(settings).engine, 1)
    trained, evaluated = (
        asked[: 3 * 2],
        asked[3 * 2 :],
    )  # weight and bias of three participants, then of all four
    assert trained == [1] * 6
    assert evaluated == [2] * 8
