"""What methods compute with: means over clients and classes, rows of what clients sent, and divergences."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from simulator.base.tensors import Tensors, floating
from simulator.methods.base import Aggregated, Uplink
from simulator.models import Network
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, WeightedBatch
from simulator.training.trainer import CentralServer


def rows_of(x: Tensor, y: Tensor, weights: Tensor | None, rows: Tensor | slice) -> Batch:
    """A batch of some rows, with their weights if there are any."""
    return Batch(x[rows], y[rows]) if weights is None else WeightedBatch(x[rows], y[rows], weights[rows])


def mean_cross_entropy(scores: Tensor, batch: Batch) -> Tensor:
    """The mean over the batch, in which rows of stale uplinks count by their weight."""
    if not isinstance(batch, WeightedBatch):
        return F.cross_entropy(scores, batch.y)
    return (F.cross_entropy(scores, batch.y, reduction="none") * batch.weight).mean()


def sums_by_class(name: str, values: Tensor, y: Tensor, classes: int) -> Tensors:
    """For a loss's `sums`: a batch's values [B, D] summed by class [C, D], and the class's `samples` [C]."""
    of_class = F.one_hot(y, classes).to(values.dtype)
    return {name: of_class.T @ values.detach(), "samples": of_class.sum(0)}


def collected_means(
    local: LocalClient, name: str, complete: bool, of: Callable[[Network, Tensor], Tensor] = Network.features
) -> tuple[Tensor, Tensor]:
    """The means [|S_k|, D] of the collected sums, and their labels, int32.

    Unless `complete`, a class without collected samples has its mean of `class_means`.
    """
    labels = torch.tensor(local.info.classes, device=local.federation.device)
    sums, samples = local.collected[name][labels], local.collected["samples"][labels, None]
    means = sums / samples
    if not complete:
        after, _ = local.class_means(of)
        means = torch.where(samples > 0, means, after)
    return means, labels.to(torch.int32)


def by_class(labels: Tensor, rows: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """The rows [C, D] of all classes from those [n, D] of these labels, zero for others, and which are known [C]."""
    known = torch.zeros(classes, device=rows.device).index_fill(0, labels.long(), 1.0)
    return rows.new_zeros(classes, rows.shape[1]).index_copy(0, labels.long(), rows), known


def rows_sent(uplinks: Sequence[Uplink], name: str) -> tuple[Tensor, Tensor]:
    """All rows [n, D] that were sent under this name, in client order, and their labels [n], int64."""
    rows, labels = (torch.cat([payload[key] for _, payload in uplinks]) for key in (name, "labels"))
    return rows, labels.long()


def shuffled(server: CentralServer, rows: int, sizes: int | list[int], epochs: int) -> list[Tensor]:
    """The places of the rows in each batch of these sizes, epoch by epoch. The server's stream gives the order."""
    stream = server.stream("order")
    orders = [torch.randperm(rows, generator=stream) for _ in range(epochs)]
    return [places for order in orders for places in order.to(server.federation.device).split(sizes)]


def row_weights(uplinks: Sequence[Uplink], rows: str) -> Tensor | None:
    """The weight of each row of all payloads[rows], in client order. None without stale uplinks."""
    if all(uplink.weight == 1 for uplink in uplinks):
        return None
    tensors = [uplink.payload[rows] for uplink in uplinks]
    pairs = zip(uplinks, tensors, strict=True)
    return torch.cat([torch.full((len(each),), uplink.weight, device=each.device) for uplink, each in pairs])


def divergence(teacher: Tensor, student: Tensor) -> Tensor:
    """KL(teacher ‖ student) of two softmaxes of logits [B, C], mean over the batch. No gradient for the teacher."""
    p = F.log_softmax(teacher.detach(), dim=1)
    return F.kl_div(F.log_softmax(student, dim=1), p, reduction="batchmean", log_target=True)


def weighted_mean(uplinks: Sequence[Uplink], name: str) -> Tensor:
    """Σ n_k/n · payload_k[name] over the participants, in client order. A stale uplink counts as fewer samples."""
    return weighted_sum(uplinks, name, sample_shares(uplinks))


def sample_shares(uplinks: Sequence[Uplink]) -> list[float]:
    """p_k = n_k w_k / Σ n w: each participant's share of the samples, with the weights of stale uplinks."""
    total = sum(uplink.client.samples * uplink.weight for uplink in uplinks)
    return [uplink.client.samples * uplink.weight / total for uplink in uplinks]


def toward(before: Tensor, mean: Tensor, uplinks: Sequence[Uplink]) -> Tensor:
    """(1 − a) · before + a · mean, with a the mean weight of the uplinks over their samples: 1 without stale ones."""
    if all(uplink.weight == 1 for uplink in uplinks):
        return mean
    total = sum(uplink.client.samples for uplink in uplinks)
    a = sum(uplink.client.samples * uplink.weight for uplink in uplinks) / total
    return before + a * (mean - before)


def averaged(server: Mapping[str, Tensor], uplinks: Sequence[Uplink]) -> Aggregated:
    """The server's state, of which all but integer counters become the weighted mean of the uplinks."""
    means = {name: toward(server[name], weighted_mean(uplinks, name), uplinks) for name in floating(server)}
    return Aggregated(dict(server) | means, {})


def weighted_sum(uplinks: Sequence[Uplink], name: str, weights: Sequence[float]) -> Tensor:
    """Σ weight_k · payload_k[name], in client order."""
    total = uplinks[0].payload[name] * weights[0]
    for uplink, weight in zip(uplinks[1:], weights[1:], strict=True):
        total += uplink.payload[name] * weight
    return total


def class_averages(before: Tensor, known: Tensor, uplinks: Sequence[Uplink], rows: str) -> Tensor:
    """A row [C, D] per class: Σ_k n_kc row_kc / Σ_k n_kc over the uplinks with class c. Those of other classes stay.

    Uplinks have `rows` [|S_k|, D], `labels`, and, unless all count the same, `counts`. `known` [C] is 0 for classes
    that were never sent. Other rows move less far towards stale ones, as `toward` does.
    """
    sums, weights, samples = torch.zeros_like(before), torch.zeros_like(known), torch.zeros_like(known)
    for uplink in uplinks:
        labels = uplink.payload["labels"].long()
        n = uplink.payload.get("counts", torch.ones_like(uplink.payload["labels"])).to(sums.dtype)
        samples[labels] += n
        n = n * uplink.weight
        sums[labels] += n[:, None] * uplink.payload[rows]
        weights[labels] += n
    mean = torch.where(weights[:, None] > 0, sums / weights[:, None], before)
    stale = (weights > 0) & (weights < samples) & (known > 0)
    if stale.any():
        moved = before + (weights / samples)[:, None] * (mean - before)
        mean = torch.where(stale[:, None], moved, mean)
    return mean
