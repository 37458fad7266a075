"""Data sets, their division over clients, and the federation's data on the device.

Only `federated` and `inputs` import torch, so that listing and completing data sets stays quick.
"""

from simulator.data import array_sets, image_sets
from simulator.data.datasets import Dataset, register
from simulator.data.samples import ArraySet, ImageSet
from simulator.data.specs import ImageSpec, SignalSpec, TableSpec, TokenSpec

__all__ = [
    "ArraySet",
    "Dataset",
    "ImageSet",
    "ImageSpec",
    "SignalSpec",
    "TableSpec",
    "TokenSpec",
    "array_sets",
    "image_sets",
    "register",
]
