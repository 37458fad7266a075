"""FedKTL: Zhang et al., "An Upload-Efficient Scheme for Transferring Knowledge From a Server-Side Pre-trained Generator
to Clients in Heterogeneous Federated Learning", CVPR 2024.

Every client classifies with the same fixed vectors v_c [C] of the classes, an equiangular tight frame (ETF). It sends
the mean direction P^c [C] of its classes. The server trains a feature transformer F, which maps these prototypes to
latent vectors of its generator G. Clients then receive an image of every class with its latent vector.

Server state: `transformer/…`, F; `centroids/weight` [C, H], the latent vector Q̄^c of each class; `generator/…`, G,
which does not change; `images` [C, …], G(Q̄^c); `trained` [1], 0 before the first uplink. Client state: `etf` [C, C],
v_c in rows, the same on all clients and in all rounds.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.rng import drawing_from
from simulator.base.sections import Log, MethodConfig
from simulator.base.tensors import Tensors, named, of_module
from simulator.data.specs import ImageSpec
from simulator.methods import COUNTS_FULLY, Aggregated, Card, Method, Uplink, needs, register
from simulator.methods.base import own_cross_entropy
from simulator.methods.means import rows_sent, shuffled
from simulator.models import Network, generators
from simulator.models.federation import ClientInfo
from simulator.models.generators import Design, Generator
from simulator.training.client import LocalClient, batch_sizes
from simulator.training.phase import Batch, Draws, LossParts, Nets, Phase, recorded_cross_entropy
from simulator.training.trainer import CentralServer

BANDWIDTHS = (10.0, 15.0, 20.0, 50.0)
"""Those of the kernels whose sum is MMD's kernel."""
LARGEST = 64
"""The side of the largest images of an untrained generator. They are scaled up for larger samples."""
FLAT = 1e-6
"""The smallest sin² of an angle in the margin. At angle 0, the gradient of the sine is infinite."""


class FedKTLConfig(
    MethodConfig, space={"mu": Log(1, 200), "lam": Log(0.01, 10), "server_lr": Log(1e-3, 1e-1)}
):
    """Hyper-parameters of FedKTL. Defaults are those of the authors' script for StyleGAN-XL."""

    generator_file: str | None = Field(
        None,
        description="safetensors file with the pretrained generator; default: an untrained one is drawn",
    )
    mu: float = Field(50.0, ge=0, description="μ, weight of the clients' task on generated images")
    lam: float = Field(
        1.0, ge=0, description="λ, weight of the distance to the class's centroid on the server"
    )
    margin: float = Field(
        0.5, ge=0, description="angle added between an output and its class, in radians (ArcFace)"
    )
    scale: float = Field(
        64.0, gt=0, description="factor of the cosines in the clients' cross-entropy (ArcFace)"
    )
    server_epochs: int = Field(100, ge=1, description="passes of the server over the received prototypes")
    server_lr: float = Field(0.01, gt=0, description="learning rate of F and the centroids (Adam)")
    server_batch: int = Field(100, ge=2, description="prototypes in a step of the server")


class Transformer(nn.Module):
    """F: prototypes [n, C] → layer, BatchNorm, ReLU, layer → latent vectors [n, H]."""

    def __init__(self, classes: int, latent: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(classes, classes), nn.BatchNorm1d(classes), nn.ReLU(), nn.Linear(classes, latent)
        )

    def forward(self, prototypes: Tensor) -> Tensor:
        latents: Tensor = self.layers(prototypes)
        return latents


@register("fedktl")
class FedKTL(Method):
    """The server's generator makes an image of every class from what clients send. Clients learn its latent vector."""

    card = Card(
        title="FedKTL",
        paper="Zhang et al. 2024, CVPR",
        kind="generator",
        needs="images of two classes or more; for real use, a pretrained generator of images (generator_file)",
        down="an image and a latent vector of every class",
        up="class-mean directions of the outputs, labels",
        partial=COUNTS_FULLY,
    )
    config: FedKTLConfig

    def unmet_need(self) -> str | None:
        if unmet := needs.kind(self.federation, "image", "its generator makes images"):
            return unmet
        if self.federation.num_classes < 2:
            return "needs two classes, as one has no angle to another"
        if (made := self.design().channels) != (wanted := self.federation.spec.shape[0]):
            return (
                f"needs a generator of images with {wanted} channels: {self.config.generator_file} makes {made}. "
                "For gray images, data.rgb=true gives them three"
            )
        return None

    def design(self) -> Design:
        """The generator's sizes: those of the file, or of an untrained one for these images."""
        if self.config.generator_file is not None:
            return generators.design_of(Path(self.config.generator_file))
        spec, size = self.spec, generators.SMALLEST
        while size < min(LARGEST, max(spec.height, spec.width)):
            size *= 2
        return Design(noise=64, latent=64, layers=2, width=16, size=size, channels=spec.channels)

    @property
    def spec(self) -> ImageSpec:
        """The form of the samples."""
        assert isinstance(self.federation.spec, ImageSpec)
        return self.federation.spec

    def server_networks(self) -> Mapping[str, nn.Module]:
        design, classes = self.design(), self.federation.num_classes
        return {
            "transformer": Transformer(classes, design.latent),
            "centroids": nn.Embedding(classes, design.latent),
            "generator": Generator(design),
        }

    def init_server(self) -> Tensors:
        if self.config.generator_file is not None:
            weights = generators.read(Path(self.config.generator_file))
        else:
            weights = of_module(generators.drawn(self.design(), self.federation.stream("server/generator")))
        images = torch.zeros(self.federation.num_classes, *self.federation.spec.shape)
        kept = {"images": images, "trained": torch.zeros(1)}
        return super().init_server() | named("generator", weights) | kept

    def init_client(self, client: ClientInfo) -> Tensors:
        return {"etf": etf(self.federation.num_classes, self.federation.stream("server/etf"))}

    def downlink(self, round: int, server: Mapping[str, Tensor], client: ClientInfo) -> Tensors:
        if not server["trained"]:
            return {}
        return {"images": server["images"], "latents": server["centroids/weight"]}

    def receive(self, local: LocalClient, payload: Mapping[str, Tensor]) -> None:
        """Every round begins with the same projection h' from the features to latent vectors. All know its draw."""
        local.received = payload
        if payload:
            with drawing_from(self.federation.stream("server/projection")):
                projection = nn.Linear(local.nets.model.num_features, payload["latents"].shape[1])
            weights = {key: each.to(self.federation.device) for key, each in of_module(projection).items()}
            local.add_network("projection", projection, weights)

    def phases(self, local: LocalClient) -> Sequence[Phase]:
        """The classification alone until there are images."""
        if not local.received:
            return [Phase("model", self.own, state=local.state)]
        state = {**local.state, **local.received}
        return [Phase("guided", self.loss, trains=("model", "projection"), draws=self.draws, state=state)]

    def draws(self, stream: torch.Generator, batch: Batch) -> Draws:
        """The classes of a step's generated images, as many as a batch has: each at most once."""
        classes = torch.randperm(self.federation.num_classes, generator=stream, device=self.federation.device)
        return {"pairs": classes[: self.federation.training.batch_size]}

    def own(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> LossParts:
        """L^A: cross-entropy of the scaled cosines, with the margin at the own class (ArcFace)."""
        cosines = directions(nets.model, batch.x) @ state["etf"].T
        own = F.one_hot(batch.y, self.federation.num_classes).to(cosines.dtype)
        farther = math.cos(self.config.margin) * cosines - math.sin(self.config.margin) * sine(cosines)
        recorded_cross_entropy(self.config.scale * cosines.detach(), batch.y)  # without the margin
        ce = own_cross_entropy(self.config.scale * torch.where(own > 0, farther, cosines), batch.y)
        return LossParts(ce, {"cross_entropy": ce})

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> LossParts:
        """L^A + μ·L^M, with L^M the mean square of h'(f(I^c)) − Q̄^c over the generated images I^c of the step."""
        loss, terms = self.own(nets, state, batch, draws)[:2]
        features = nets.model.features(state["images"][draws["pairs"]])
        transferred = F.mse_loss(nets["projection"](features), state["latents"][draws["pairs"]])
        return LossParts(loss + self.config.mu * transferred, {**terms, "transferred": transferred})

    def uplink(self, local: LocalClient) -> Tensors:
        """P^c: the direction of the mean direction of a class, in evaluation mode."""
        means, labels = local.class_means(of=directions)
        return {"prototypes": F.normalize(means), "labels": labels}

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
        return Aggregated(dict(server) | {"trained": torch.ones_like(server["trained"])}, {})

    def server_phases(self, server: CentralServer, uplinks: Sequence[Uplink]) -> Sequence[Phase]:
        """Domain alignment: epochs of Adam, started anew each round, over all prototypes in shuffled batches."""
        self.place(server, uplinks)
        prototypes, labels = rows_sent(uplinks, "prototypes")
        if len(labels) == 1:  # BatchNorm cannot train on a single row
            prototypes, labels = prototypes.expand(2, -1), labels.expand(2)
        sizes = batch_sizes(len(labels), self.config.server_batch)
        batches = shuffled(server, len(labels), sizes, self.config.server_epochs)
        width, device = generator_of(server.nets).design.noise, self.federation.device

        def draws(stream: torch.Generator, batch: Batch) -> Draws:
            """Noise [B, width] for as many latent vectors of the generator as there are prototypes."""
            return {"noise": torch.randn(len(batch.y), width, generator=stream, device=device)}

        return [
            Phase(
                "align",
                self.server_loss,
                trains=("transformer", "centroids"),
                lr=self.config.server_lr,
                optimizer="adam",
                batches=[Batch(prototypes[rows], labels[rows]) for rows in batches],
                draws=draws,
            )
        ]

    def server_loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> LossParts:
        """L^MMD(F(P), w) + λ·L^MSE(F(P), Q̄), where w are latent vectors that G itself makes of noise."""
        latents = nets["transformer"](batch.x)
        with torch.no_grad():
            usual = generator_of(nets).latents(draws["noise"])
        own = F.one_hot(batch.y, self.federation.num_classes).to(latents.dtype)
        near = F.mse_loss(latents, own @ nets["centroids"].get_parameter("weight"))
        return LossParts(mmd(latents, usual) + self.config.lam * near)

    def after_server_phases(self, server: CentralServer, uplinks: Sequence[Uplink]) -> None:
        """Image generation: G makes an image from the centroid of every class, which is scaled to the samples' size."""
        self.place(server, uplinks)
        centroids = server.nets["centroids"].get_parameter("weight")
        with server.step("generate", len(centroids)), server.precise():
            images = server.nets["generator"](centroids)
        if (size := tuple(self.spec.shape[1:])) != tuple(images.shape[2:]):
            images = F.interpolate(images, size, mode="bilinear", antialias=True)
        kept = torch.empty_like(server.state["images"]).copy_(images)  # with the strides of a restored state
        server.state = server.state | {"images": kept}

    @torch.no_grad()
    def place(self, server: CentralServer, uplinks: Sequence[Uplink]) -> None:
        """Q̄^c becomes the mean of F(P^c) over the clients with P^c, in evaluation mode. Other classes keep theirs."""
        prototypes, labels = rows_sent(uplinks, "prototypes")
        server.nets.eval()
        with server.step("place", len(labels)), server.precise():
            latents = server.nets["transformer"](prototypes)
        of_class = F.one_hot(labels, self.federation.num_classes).to(latents.dtype)
        senders = of_class.sum(0)[:, None]
        centroids = server.nets["centroids"].get_parameter("weight")
        centroids.copy_(torch.where(senders > 0, of_class.T @ latents / senders.clamp(min=1), centroids))

    def predict(self, nets: Nets, state: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """The cosine of the output's angle to each class."""
        return directions(nets.model, x) @ state["etf"].T


def directions(model: Network, x: Tensor) -> Tensor:
    """The model's outputs [B, C], each divided by its length."""
    return F.normalize(model(x))


def sine(cosines: Tensor) -> Tensor:
    """The sine of angles from 0 to π with these cosines, with a finite gradient."""
    return (1 - cosines.square()).clamp(min=FLAT).sqrt()


def etf(classes: int, stream: torch.Generator) -> Tensor:
    """The vectors v_c [C, C] in rows: length 1, and cosine −1/(C − 1) between any two. A drawn rotation places them."""
    drawn = torch.rand(classes, classes, generator=stream, dtype=torch.float64)
    rotation = torch.linalg.qr(drawn).Q
    centered = torch.eye(classes, dtype=torch.float64) - 1 / classes
    vectors = F.normalize((rotation @ centered).T)
    return vectors.to(torch.get_default_dtype()).contiguous()  # as a restored state has it


def mmd(x: Tensor, y: Tensor) -> Tensor:
    """Maximum mean discrepancy of x and y [n, H]: the mean of k(x, x) + k(y, y) − 2·k(x, y) over all n² pairs.

    k(a, b) = Σ_s exp(−‖a − b‖² / (2s)) over the bandwidths s.
    """

    def kernel(a: Tensor, b: Tensor) -> Tensor:
        squares = a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T
        return torch.stack([torch.exp(-squares / (2 * bandwidth)) for bandwidth in BANDWIDTHS]).sum(0)

    return (kernel(x, x) + kernel(y, y) - 2 * kernel(x, y)).mean()


def generator_of(nets: Nets) -> Generator:
    """The server's generator."""
    generator = nets["generator"]
    assert isinstance(generator, Generator)
    return generator
