"""Devices for tensors, set up so that the same computation always gives the same bits."""

import os

import torch

from simulator.base.errors import ConfigError


def select_device(wanted: str) -> torch.device:
    """The device for 'auto', 'cpu', or 'cuda', set up to compute the same bits every time.

    Raises ConfigError if CUDA is requested and missing.
    """
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ConfigError(
            "device 'cuda' is not available here. Use `device='cpu'`, or see `htfl-sim doctor`."
        )
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    return torch.device("cuda", torch.cuda.current_device())
