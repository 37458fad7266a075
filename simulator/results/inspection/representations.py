"""What clients' models make of their test samples after a round, and the same in the plane (t-SNE)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simulator.base.errors import ConfigError
from simulator.base.sections import MANY, SAMPLED
from simulator.metrics import by_client
from simulator.metrics.cka_matrices import drawn
from simulator.results.inspection.cka import opened
from simulator.results.inspection.embedding import Embedding
from simulator.training.client import LocalClient

IMAGES = 40
"""Test samples of each client, the first of its part, unless said otherwise."""
_ANCHORS = {"prototypes/mean": "prototype", "vectors": "guiding vector"}
"""What a server may hold of each class, as wide as what is drawn: its tensor, and what one of its rows is called."""
_AMONG_LOGITS = "{} (points are logits)"


@dataclass(frozen=True, eq=False)
class Representations:
    """n samples: features [n, K], labels [n], clients [n]; anchors [m, K] of the classes `anchor_labels` [m].

    If the anchors are logits, as FedL2G-l's guiding vectors, the features are the logits, too. The paper calls them
    "feature vectors with lower dimensions".
    """

    round: int
    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    clients: NDArray[np.int64]
    classes: tuple[str, ...]
    anchors: NDArray[np.float32]
    anchor_labels: NDArray[np.int64]
    anchor_kind: str

    def embedded(self) -> Embedding:
        """The samples in the plane."""
        points, anchors = self.in_the_plane()
        return Embedding(
            self.round, points, self.labels, self.clients, self.classes,
            anchors, self.anchor_labels, self.anchor_kind,
        )  # fmt: skip

    def in_the_plane(self, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """t-SNE (van der Maaten & Hinton, 2008) of features and anchors together: [n, 2], [m, 2].

        It starts at the first two principal components, and draws from `seed` alone;
        perplexity 30, less where there are too few points.
        """
        from sklearn.manifold import TSNE

        points = np.concatenate([self.features, self.anchors])
        perplexity = min(30.0, (len(points) - 1) / 3)
        found = TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(points)
        return found[: len(self.features)], found[len(self.features) :]


def of_checkpoint(
    folder: Path, data_dir: Path, round: int | None = None, *, images: int = IMAGES
) -> Representations:
    """What the head of each client's own model reads of its first test samples, after a kept round (None: the newest).

    If the server guides logits, it is what the head answers. Of very many clients some are looked at, drawn from those
    that have been trained (`similarity.drawn`). Raises like `cka.of_checkpoint`, and ConfigError where the clients'
    features differ in width.
    """
    found = opened(folder, data_dir, round, "local", {})
    federation, data = found.built.federation, found.built.data
    records = found.session.records()[: found.round]
    server: Mapping[str, Tensor] = found.session.load(found.round, "server")
    widths = {network.num_features for network in federation.architectures.values()}
    logits = _guides_logits(server, records[-1]["method"], widths, federation.num_classes)
    if not logits and len(widths) > 1:
        said = ", ".join(map(str, sorted(widths)))
        raise ConfigError(
            f"{folder.name}: its clients' features differ in width ({said}) and have no common plane."
        )
    took_part = by_client.trained(records)
    everybody = range(len(federation.clients))
    many = len(everybody) > MANY and took_part
    features, labels, clients = [], [], []
    chosen = drawn(took_part, federation, found.config.training_seed, SAMPLED) if many else everybody
    for client in chosen:
        info = federation.clients[client]
        local = LocalClient(found.context, info, 0, found.tensors(info.id))
        x, y = data.batch(data.clients[info.id].test[:images])
        features.append(_shown(local, x, logits))
        labels.append(y.cpu())
        clients.append(torch.full((len(y),), info.id))
    anchors, anchor_labels, kind = _anchors(server, federation.num_classes if logits else widths.pop())
    return Representations(
        found.round,
        torch.cat(features).numpy(),
        torch.cat(labels).numpy(),
        torch.cat(clients).numpy(),
        data.classes,
        anchors.numpy(),
        anchor_labels.numpy(),
        _AMONG_LOGITS.format(kind) if logits else kind,
    )


@torch.no_grad()
def _shown(local: LocalClient, x: Tensor, logits: bool) -> Tensor:
    local.nets.eval()
    model = local.nets.model
    return (model(x) if logits else model.features(x)).flatten(1).float().cpu()


def _guides_logits(server: Mapping[str, Tensor], method: str, widths: Collection[int], classes: int) -> bool:
    """Whether the server's guiding vectors are logits. If features are as wide as logits, the method decides."""
    vectors = server.get("vectors")
    if vectors is None or vectors.dim() != 2 or vectors.shape[1] != classes:
        return False
    return method == "fedl2g_l" or classes not in widths


def _anchors(server: Mapping[str, Tensor], width: int) -> tuple[Tensor, Tensor, str]:
    """What the server holds of each class in this width: rows, their classes, and what they are called."""
    for name, kind in _ANCHORS.items():
        rows = server.get(name)
        if rows is not None and rows.dim() == 2 and rows.shape[1] == width:
            known = server.get("prototypes/known", torch.ones(len(rows))) > 0
            return rows[known].float().cpu(), torch.arange(len(rows))[known.cpu()], kind
    return torch.zeros(0, width), torch.zeros(0, dtype=torch.int64), ""
