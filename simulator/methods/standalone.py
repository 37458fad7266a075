"""Standalone: every client trains alone. The papers compare with it as the lower bound.

State: only the model. Traffic: none.
"""

from simulator.methods import Card, Method, register


@register("standalone")
class Standalone(Method):
    """E epochs of cross-entropy on D_k; nothing is sent."""

    card = Card(
        title="Standalone",
        paper="baseline of FedLoRA, FedGH, FedSSA, FedL2G",
        kind="no sharing",
        needs="nothing",
        down="–",
        up="–",
        stale="nothing: no client sends anything",
        partial="nothing: no client sends anything",
    )
