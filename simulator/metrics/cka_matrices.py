"""How alike the clients' models have become, layer by layer: CKA between all pairs of clients on one probe batch.

For Gram matrices K = XXᵀ and L = YYᵀ of n samples, linear CKA = HSIC(K, L) / √(HSIC(K, K) · HSIC(L, L)) (Kornblith et
al. 2019, §3). It measures how alike two networks represent the same samples, whatever the basis and the scale they do
it in. Both estimators of HSIC are inner products ⟨K̃, L̃⟩ of matrices centred each by itself, up to a factor that
cancels: Kornblith's with K̃ = HKH, and the unbiased one (Song et al. 2012, which Nguyen et al. 2021 put into CKA) with
K̃ "U-centred" (Székely and Rizzo 2014). So each network is centred and scaled once, and all pairs are one product.
"""

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from checkpoints import limits
from simulator.base import rng
from simulator.base.errors import ConfigError, DataError, nearest
from simulator.base.record import Cka
from simulator.base.sections import SAMPLED
from simulator.data.federated import FederatedData
from simulator.models.federation import Federation
from simulator.training.client import LocalClient
from simulator.training.trainer import TrainingContext

PROBE = 256
"""Samples in a probe, unless said otherwise."""
DIGITS = 6
"""Decimals in the ledger."""
NUMBERS = limits.RECORD_VALUES - 1_000_000
"""CKA values in a round's record. The others are of the clients."""
USUAL = 10
"""Rounds between measurements, unless said otherwise."""
SHARE = 0.02
"""Largest share of training that CKA takes unless it is asked for."""
MEMORY = 1 << 30
"""Bytes that the outputs of one client may take, unless CKA is asked for."""
_BATCH = 128
Layers = Mapping[str, Mapping[int, str]]
"""Layers that can be compared, shallow to deep: layer → client → that client's own name for it."""
Grams = dict[str, Tensor]
"""One client's centred Gram matrices by layer."""
Each = Callable[[Iterable[int], Callable[[int], Grams]], list[Grams]]
"""Does a piece of work for every client, side by side or not, and gives the results in the order of the clients."""
FEWEST_IMAGES = 4
"""The unbiased estimator divides by n(n − 3)."""
ROUNDING = 1e-6
"""What varies by less than this, relative to the whole, is float32's rounding and not a representation."""
_COLUMNS = 8192
"""Widened to float64 at a time."""


def probe(data: FederatedData, seed: int, images: int = PROBE) -> Tensor:
    """Indices of so many of all clients' test samples, ascending, the same in a run. Raises DataError for too few."""
    test: Tensor = data.as_client(torch.cat([client.test for client in data.clients]), 0).unique()
    if len(test) < FEWEST_IMAGES:
        raise DataError(
            f"the clients have {len(test)} test samples between them and CKA needs {FEWEST_IMAGES}; "
            "give the data split a larger test part."
        )
    drawn = rng.numpy_stream(seed, "cka/probe").choice(len(test), min(images, len(test)), replace=False)
    drawn.sort()
    return test.index_select(0, torch.from_numpy(drawn).to(test.device))


def common_layers(federation: Federation, wanted: Sequence[str] | None = None) -> Layers:
    """The layers that at least two clients have, all of them or the `wanted` ones.

    A layer is the same in two networks when it bears the same name: stage 2 of any ResNet, block 7 of any ViT (InCo
    Aggregation, appendix E.1). The last one, which the head reads, is the same in all networks; where their names for
    it differ it is called "features". Raises ConfigError for a wanted layer that no two clients have.
    """
    last = {network.layers[-1] for network in federation.architectures.values()}
    own = {  # architecture → layer → its own name
        architecture: {name: name for name in network.layers[:-1]}
        | {"features" if len(last) > 1 else network.layers[-1]: network.layers[-1]}
        for architecture, network in federation.architectures.items()
    }
    order: list[str] = []  # that of the longest; a name it lacks follows the one before it
    for names in sorted(own.values(), key=len, reverse=True):
        at = 0
        for name in names:
            if name not in order:
                order.insert(at, name)
            at = order.index(name) + 1
    having = {
        layer: {
            client.id: own[client.architecture][layer]
            for client in federation.clients
            if layer in own[client.architecture]
        }
        for layer in order
    }
    common = {layer: names for layer, names in having.items() if len(names) > 1}
    if wanted is None:
        return common
    for layer in (each for each in wanted if each not in common):
        if layer in having:
            raise ConfigError(
                f"cka.layers: only {federation.clients[next(iter(having[layer]))]} has a layer '{layer}', so there is "
                "nothing to compare it with; leave it out."
            )
        raise ConfigError(
            f"cka.layers: no client has a layer '{layer}'.{nearest(layer, common)} "
            f"Known here: {', '.join(common) or 'none that two clients have'}."
        )
    return {layer: names for layer, names in common.items() if layer in wanted}


def among(layers: Layers, clients: Collection[int]) -> Layers:
    """The layers as these clients alone have them; a layer that none of them has stays, without anybody."""
    return {layer: {k: name for k, name in names.items() if k in clients} for layer, names in layers.items()}


def compared(
    federation: Federation,
    seed: int,
    wanted: Sequence[str] | None = None,
    clients: Collection[int] | None = None,
    most: int = SAMPLED,
) -> tuple[Layers, int]:
    """The layers as those present clients have them that are compared, and the largest number of such clients.

    clients: those with trained models; None: all. Of a federation of more than `most`, or than fit into a record, so
    many are drawn. Raises like `common_layers`.
    """
    layers = among(common_layers(federation, wanted), federation.present_ids)
    if clients is not None:
        layers = among(layers, clients)
    # A session of an earlier version may have more layers and clients than fit.
    most = min(most, room(layers))
    return among(layers, drawn(set().union(*layers.values()), federation, seed, most)), most


def check_size(layers: Layers, clients: int, most: int) -> None:
    """Raise ConfigError where the matrices of so many `clients`, of which `most` are compared, would not fit."""
    rows = min(clients, most)
    if rows > (fitting := room(layers)):
        raise ConfigError(
            f"cka.clients = {most}: CKA of {len(layers)} layers would add {len(layers) * rows**2:,} numbers to a "
            f"round's record, which has room for {NUMBERS:,}. Use cka.clients={fitting}, or name fewer cka.layers."
        )


def interval(shown: int, trained: float) -> int:
    """Rounds between measurements by default: ten, or as many tens as it takes to stay within 2 % of training.

    `shown` are the samples that all compared clients see for a measurement, `trained` those of a round's steps. A shown
    sample takes about a third of a trained one (docs/cka.md, What it costs).
    """
    return USUAL * max(1, math.ceil(shown / (3 * max(trained, 1)) / SHARE / USUAL))


def room(layers: Layers) -> int:
    """How many clients can be compared in these layers, so that the matrices fit into a round's record."""
    return max(math.isqrt(NUMBERS // max(len(layers), 1)), 2)


def drawn(clients: Collection[int], federation: Federation, seed: int, most: int = SAMPLED) -> list[int]:
    """At most so many of the clients, ascending: the first of one order for a run, so that new ones change little."""
    if len(federation.clients) <= most:
        return sorted(clients)
    order = rng.numpy_stream(seed, "cka/clients").permutation(len(federation.clients)).tolist()
    return sorted([client for client in order if client in clients][:most])


def measure(
    context: TrainingContext,
    each: Each,
    tensors_of: Callable[[int], Mapping[str, Tensor]],
    layers: Layers,
    probe: Tensor,
    debiased: bool = False,
    most: int = SAMPLED,
    memory: int | None = None,
) -> Cka:
    """CKA of every pair of clients in every one of `layers`, as the ledger keeps it under "cka".

    `tensors_of` gives a client's state, once. "order" is the layers, shallow to deep; "layers" their means over the
    pairs i < j; "matrix" has a row and a column per client, null where one has no such layer, is not among those of
    `layers`, or CKA is not defined. Of more than `most` clients, only those of `layers` have a row and a column, and
    "clients" names them. Raises ConfigError if one client's outputs take more bytes than `memory`.
    """

    def grams_of(client: int) -> Grams:
        own = {layer: names[client] for layer, names in layers.items() if client in names}
        local = LocalClient(context, context.federation.clients[client], 0, tensors_of(client))
        if memory is not None:
            of_one = _outputs(local, own.values(), probe[:1])
            if (taken := 4 * len(probe) * sum(each.numel() for each in of_one.values())) > memory:
                raise ConfigError(
                    f"the layers' outputs for {len(probe)} samples take {taken / 2**30:.1f} GiB for {local.info}. Use "
                    f"cka.every={USUAL} with fewer cka.layers or a smaller cka.probe."
                )
        shown = _outputs(local, own.values(), probe)
        return {layer: centred_gram(shown.pop(name), debiased) for layer, name in own.items()}

    holders = sorted(set().union(*layers.values()))
    grams = dict(zip(holders, each(holders, grams_of), strict=True))
    many = len(context.federation.clients) > most
    rows = holders if many else range(len(context.federation.clients))
    place = {client: number for number, client in enumerate(rows)}
    matrix: dict[str, list[list[float | None]]] = {}
    means: dict[str, float | None] = {}
    for layer, names in layers.items():
        holding = list(names)
        shown = [grams[client].pop(layer) for client in holding]
        alike = all_pairs(torch.stack(shown)).tolist() if shown else []
        matrix[layer] = [[None] * len(rows) for _ in rows]
        for one, values in zip(holding, alike, strict=True):
            for other, value in zip(holding, values, strict=True):
                matrix[layer][place[one]][place[other]] = _rounded(value)
        pairs = (alike[i][j] for i, j in itertools.combinations(range(len(holding)), 2))
        above = [value for value in pairs if math.isfinite(value)]
        means[layer] = _rounded(math.fsum(above) / len(above)) if above else None
    found: Cka = {"order": list(layers), "layers": means, "matrix": matrix}
    if many:
        found["clients"] = holders
    return found


@torch.no_grad()
def _outputs(local: LocalClient, names: Iterable[str], probe: Tensor) -> dict[str, Tensor]:
    """What the client's model makes of the probe in evaluation mode, by its own names: [n, width] each."""
    local.nets.eval()
    parts: dict[str, list[Tensor]] = {name: [] for name in names}
    for indices in probe.split(_BATCH):
        shown = local.nets.model.represent(local.own_view(indices))
        for name, batches in parts.items():
            batches.append(shown[name].flatten(1))
    return {name: torch.cat(parts.pop(name)) for name in list(parts)}


def _rounded(value: float) -> float | None:
    return round(value, DIGITS) + 0.0 if math.isfinite(value) else None  # + 0.0: no negative zero


def centred_gram(x: Tensor, debiased: bool = False) -> Tensor:
    """A layer's centred Gram matrix [n²] of outputs x [n, …], of norm 1. All NaN for equal or not finite outputs."""
    x = x.flatten(1).to(torch.float32)
    x = x / torch.linalg.vector_norm(x)
    # Centring the features centres their Gram matrix; done afterwards, it would subtract large numbers from each other.
    x -= x.mean(0)
    gram = (x @ x.T).double()
    variance = gram.trace()
    n = len(gram)
    if debiased:  # K̃ with zero diagonal and sums of rows, so that ⟨K̃, L̃⟩/(n(n − 3)) is the unbiased HSIC
        gram.fill_diagonal_(0)
        rows = gram.sum(1) / (n - 2)
        centred = (gram - rows[:, None] - rows + rows.sum() / (n - 1)).fill_diagonal_(0)
    else:  # HKH with H = 1 − 11ᵀ/n
        rows = gram.mean(1)
        centred = gram - rows[:, None] - rows + rows.mean()
    norm = torch.linalg.matrix_norm(centred)
    nothing = (variance <= ROUNDING**2) | (norm <= ROUNDING * variance)
    return torch.where(nothing, torch.nan, centred / norm).flatten().to(torch.float32)


def all_pairs(grams: Tensor) -> Tensor:
    """CKA of every pair of centred Gram matrices [clients, n²]: [clients, clients], float64."""
    total = torch.zeros(len(grams), len(grams), dtype=torch.float64, device=grams.device)
    for columns in grams.split(_COLUMNS, dim=1):
        wide = columns.double()
        total += wide @ wide.T
    return (total + total.T) / 2  # the product's rounding need not be the same on both sides
