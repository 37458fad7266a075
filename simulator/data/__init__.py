"""Data sets, their division over clients, and the federation's data on the device.

Only `federated` and `inputs` import torch, so that listing and completing data sets stays quick.
"""

from simulator.data import (
    cifar,
    cinic10,
    digits,
    domains,
    fashion_mnist,
    flowers102,
    shakespeare,
    signals,
    svhn,
    text,
    tiny_imagenet,
)
from simulator.data.datasets import Dataset, register
from simulator.data.images import ImageSet
from simulator.data.samples import ArraySet
from simulator.data.specs import ImageSpec, SignalSpec, TableSpec, TokenSpec

__all__ = [
    "ArraySet",
    "Dataset",
    "ImageSet",
    "ImageSpec",
    "SignalSpec",
    "TableSpec",
    "TokenSpec",
    "cifar",
    "cinic10",
    "digits",
    "domains",
    "fashion_mnist",
    "flowers102",
    "register",
    "shakespeare",
    "signals",
    "svhn",
    "text",
    "tiny_imagenet",
]
