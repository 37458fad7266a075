"""The promises of every method, each checked in seconds on a tiny federation, for built-in methods and users' own."""

from simulator.contract.promises import PROMISES, Broken, Promise, Subject

__all__ = ["PROMISES", "Broken", "Promise", "Subject"]
