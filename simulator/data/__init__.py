"""Data sets, their division over clients, and the federation's data on the device.

Nothing here imports torch but `federated`, so that listing and completing data sets stays quick.
"""

from simulator.data import cifar, cinic10, digits, domains, fashion_mnist, flowers102, svhn, tiny_imagenet
from simulator.data.images import ImageSet

__all__ = [
    "ImageSet",
    "cifar",
    "cinic10",
    "digits",
    "domains",
    "fashion_mnist",
    "flowers102",
    "svhn",
    "tiny_imagenet",
]
