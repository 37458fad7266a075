"""FedL2G: Zhang et al., "FedL2G: Learning to Guide Local Training in Heterogeneous Federated Learning", 2024, Algorithm
1. Two methods with one rule: FedL2G-l guides the logits (M = C), FedL2G-f the features (M = K).

Server state: `vectors` [C, M], the guiding vectors 𝒢 = {v_y}. Client state: only the model. On the wire: 𝒢 down; up,
the non-zero rows of the client's gradient π [rows, M] with their classes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Self

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from simulator.base.rng import drawing_from
from simulator.base.sections import Log, MethodConfig
from simulator.base.tensors import Tensors, nonzero_rows
from simulator.methods import Aggregated, Card, Method, Uplink, needs, register
from simulator.methods.base import own_cross_entropy
from simulator.models import Network
from simulator.models.federation import ClientInfo
from simulator.training.client import LocalClient
from simulator.training.forward_mode import derivative_along
from simulator.training.phase import Batch, Draws, LossParts, Nets, Phase, recorded_cross_entropy, weighing


def default_warm_up(rounds: int) -> int:
    """T_warm of a run with this many rounds. The paper warms up for 50 of 1,000: one in twenty."""
    return min(50, rounds // 20)


ETA_S = "η_s, learning rate of the guiding vectors on the server (eq. 6)"


class FedL2GConfig(MethodConfig, space={"eta_s": Log(0.01, 10)}):
    """Hyper-parameters of FedL2G, §3.2."""

    eta_s: float
    t_warm: int | None = Field(
        None,
        ge=0,
        description="T_warm, first rounds without local training; default 50, at most a twentieth of the run's",
    )
    clip: float | None = Field(
        None, gt=0, description="largest norm of the vectors' gradient on the server; default: no clipping"
    )

    def begun(self, rounds: int) -> Self:
        if self.t_warm is not None:
            return self
        return self.model_copy(update={"t_warm": default_warm_up(rounds)})


class FedL2GLConfig(FedL2GConfig):
    """η_s is the best of Table 4."""

    eta_s: float = Field(0.1, gt=0, description=ETA_S)


class FedL2GFConfig(FedL2GConfig, space={"eta_s": Log(1, 1000)}):
    """η_s is the best of Table 4."""

    eta_s: float = Field(100.0, gt=0, description=ETA_S)


class Guided(nn.Module):
    """A network with two outputs, the guided values and the logits: x → g(x) [B, M], logits [B, C]."""

    def __init__(self, network: Network, show: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.network, self.show = network, show

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.network.features(x)
        logits = self.network.head(features)
        return self.show(features, logits), logits


class FedL2G(Method):
    """The server learns vectors. Models that are guided towards them improve on data outside their training set."""

    config: FedL2GConfig

    def shown(self, features: Tensor, logits: Tensor) -> Tensor:
        """g(x) [B, M]: the values that the vectors guide."""
        raise NotImplementedError

    def width(self) -> int:
        """M, the width of a guiding vector."""
        raise NotImplementedError

    @property
    def t_warm(self) -> int:
        """T_warm: the rounds in which only the vectors learn."""
        fixed = self.config.t_warm
        return default_warm_up(self.federation.rounds) if fixed is None else fixed

    def unmet_need(self) -> str | None:
        few = needs.samples(self.federation, 4, "two to study and two for the quiz")
        return few or needs.forward_derivative(self.federation)

    def init_server(self) -> Tensors:
        stream = self.federation.stream("server/vectors")
        return {"vectors": torch.randn(self.federation.num_classes, self.width(), generator=stream)}

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        return dict(server)  # step 1: 𝒢^{t−1}

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        local.nets["guide"] = nn.Embedding.from_pretrained(payload["vectors"])  # y → v_y, frozen

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        """Step 2, after the warm-up: E epochs on the study set 𝒟^s."""
        study, _ = self.divided(local)
        warm = local.round - self.federation.begun <= self.t_warm
        return [] if warm else [Phase("model", self.loss, samples=study)]

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> LossParts:
        """ℓ_ce + ℓ_g, the latter the mean squared distance of g(x) from v_y (eq. 4). Each is recorded."""
        guided, logits = Guided(nets.model, self.shown)(batch.x)
        ce, guiding = recorded_cross_entropy(logits, batch.y), F.mse_loss(guided, nets["guide"](batch.y))
        return LossParts(ce + guiding, terms={"cross_entropy": ce, "guiding": guiding})

    def uplink(self, local: LocalClient) -> Tensors:
        """Steps 3 to 5: π on a random study batch ℬ^s and the quiz 𝒟^q. Its non-zero rows are sent."""
        study, quiz = self.divided(local)
        drawn = torch.randperm(len(study), generator=local.stream("study batch")).to(study.device)
        batch = local.batch(study[drawn[: self.federation.training.batch_size]])
        pi = self.guiding_gradient(local, batch, local.batch(quiz))
        labels = nonzero_rows(pi)
        return {"gradients": pi[labels], "labels": labels.to(torch.int32)}

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        """Steps 6 and 7: per class the mean over its senders, v_y ← v_y − η_s π_y (eq. 6)."""
        vectors = server["vectors"]
        sums, senders = torch.zeros_like(vectors), vectors.new_zeros(len(vectors), 1)
        for _, payload in uplinks:
            labels = payload["labels"].long()
            sums[labels] += payload["gradients"]
            senders[labels] += 1
        pi = sums / senders.clamp(min=1)
        metrics = {"guided_classes": int((senders > 0).sum()), "gradient_norm": float(pi.norm())}
        if self.config.clip is not None:
            pi = pi * (self.config.clip / pi.norm().clamp(min=self.config.clip))
        return Aggregated({"vectors": vectors - self.config.eta_s * pi}, metrics)

    def divided(self, local: LocalClient) -> tuple[Tensor, Tensor]:
        """Indices of the study set 𝒟^s and the quiz set 𝒟^q: one batch, at most half, the same in every round."""
        stream = self.federation.stream("quiz", client=local.info.id, initial=False)
        samples = local.train[torch.randperm(len(local.train), generator=stream).to(local.train.device)]
        size = min(self.federation.training.batch_size, len(samples) // 2)
        return samples[size:], samples[:size]

    def guiding_gradient(self, local: LocalClient, study: Batch, quiz: Batch) -> Tensor:
        """π = ∂ℓ_ce(θ'; quiz)/∂𝒢 [C, M] for the pseudo-step θ' = θ − η_c ∇_θ[ℓ_ce + ℓ_g](θ; study) (eqs 5 and 6).

        Of the pseudo-step only −η_c ∇_θ ℓ_g depends on 𝒢, and its derivative by v_y is (2η_c/MB) Σ_{i: y_i=y} J_iᵀ with
        J_i = ∂g(x_i)/∂θ. So with u = ∇ℓ_ce(θ'; quiz), π_y = (2η_c/MB) Σ_{i: y_i=y} J_i u: one product in forward mode
        at θ for the whole batch, and no second-order graph.

        Both batches pass in training mode, as in training. BatchNorm uses the batch's own statistics, which J then
        contains; its updates of running statistics are discarded. Dropout drops the same units in g and in J.
        """
        network = Guided(local.nets.model.train(), self.shown)
        theta = {name: weight.detach() for name, weight in network.named_parameters()}
        statistics = dict(network.named_buffers())

        def at(theta: Tensors, batch: Batch, draws: str) -> tuple[Tensor, Tensor]:
            thrown_away = {name: buffer.clone() for name, buffer in statistics.items()}
            with drawing_from(local.stream(draws, self.federation.device)), local.precise():
                shown: tuple[Tensor, Tensor] = functional_call(network, (theta, thrown_away), (batch.x,))
            return shown

        def objective(theta: Tensors) -> Tensor:
            guided, logits = at(theta, study, "draws/study")
            return own_cross_entropy(logits, study.y) + F.mse_loss(guided, local.nets["guide"](study.y))

        def objective_on_quiz(theta: Tensors) -> Tensor:
            return own_cross_entropy(at(theta, quiz, "draws/quiz")[1], quiz.y)

        with weighing(local.class_weights), local.step("pseudo-step", len(study.y)):
            gradient = _gradient(objective, theta)
        theta_prime = {name: weight - local.lr * gradient[name] for name, weight in theta.items()}
        with weighing(local.class_weights), local.step("quiz", len(quiz.y)):
            u = _gradient(objective_on_quiz, theta_prime)
        with local.step("product", len(study.y)), torch.no_grad():
            products = derivative_along(lambda theta: at(theta, study, "draws/study")[0], theta, u)
            of_class = F.one_hot(study.y, self.federation.num_classes).to(products.dtype)
            pi: Tensor = 2 * local.lr / products.numel() * (of_class.T @ products)
        return pi


@register("fedl2g_l")
class FedL2GL(FedL2G):
    """FedL2G-l: the guiding vectors are logits."""

    card = Card(
        title="FedL2G-l",
        paper="Zhang et al. 2024",
        kind="guiding vectors",
        needs="four training samples on every client",
        down="guiding vectors of logits",
        up="non-zero gradients of the vectors, labels",
    )
    config: FedL2GLConfig

    def shown(self, features: Tensor, logits: Tensor) -> Tensor:
        return logits

    def width(self) -> int:
        return self.federation.num_classes


@register("fedl2g_f")
class FedL2GF(FedL2G):
    """FedL2G-f: the guiding vectors are features."""

    card = Card(
        title="FedL2G-f",
        paper="Zhang et al. 2024",
        kind="guiding vectors",
        needs="the same feature width on every client, four training samples each",
        down="guiding vectors of features",
        up="non-zero gradients of the vectors, labels",
    )
    config: FedL2GFConfig

    def unmet_need(self) -> str | None:
        return needs.same_width(self.federation) or super().unmet_need()

    def shown(self, features: Tensor, logits: Tensor) -> Tensor:
        return features

    def width(self) -> int:
        return self.federation.architecture_of(self.federation.clients[0]).num_features


def _gradient(function: Callable[[Tensors], Tensor], point: Tensors) -> Tensors:
    """∇ of a scalar function of named tensors."""
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in point.items()}
    gradients = torch.autograd.grad(function(leaves), list(leaves.values()), materialize_grads=True)
    return dict(zip(leaves, gradients, strict=True))
