"""Representations in the plane, in a form that passes from one process to another. Reading it needs no torch."""

import io
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Embedding:
    """n samples after a round: points [n, 2] without unit, their labels [n] and clients [n]; anchors [m, 2] of the
    classes `anchor_labels` [m], and what one of them is called ("" where there are none)."""

    round: int
    points: NDArray[np.float64]
    labels: NDArray[np.int64]
    clients: NDArray[np.int64]
    classes: tuple[str, ...]
    anchors: NDArray[np.float64]
    anchor_labels: NDArray[np.int64]
    anchor_kind: str

    def to_bytes(self) -> bytes:
        """As numpy's archive of arrays."""
        file = io.BytesIO()
        np.savez(
            file, allow_pickle=False, **{name: np.asarray(value) for name, value in asdict(self).items()}
        )
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Embedding":
        """What `to_bytes` gave. Raises ValueError or OSError for anything else."""
        with np.load(io.BytesIO(content), allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        own = {
            "round": int(arrays["round"]),
            "classes": tuple(arrays["classes"].tolist()),
            "anchor_kind": str(arrays["anchor_kind"]),
        }
        return cls(**(arrays | own))
