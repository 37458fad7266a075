"""The learning rate of a round: a pure function of the round, so no state is saved."""

import math

from simulator.base.sections import TrainingConfig


def rate(training: TrainingConfig, round: int, rounds: int) -> float:
    """η_t in round t of T, both counted from 1.

    cosine: η_min + (η − η_min)·(1 + cos(π(t − 1)/T))/2 (Loshchilov and Hutter 2017, eq. 5, without restarts), from η in
    round 1 to nearly η_min in round T. step: η·d^⌊(t − 1)/s⌋, the decay d after every s rounds.
    """
    done = round - 1
    match training.schedule:
        case "cosine":
            least = training.lr_min or 0.0
            return least + (training.lr - least) * (1 + math.cos(math.pi * done / rounds)) / 2
        case "step":
            assert training.lr_step is not None
            return float(training.lr * training.lr_decay ** (done // training.lr_step))
    return training.lr
