"""The promises of every method, tested on a tiny federation: for the built-in methods, and for a user's own.

`Subject(name)` is the method under test. Every `Promise` in `PROMISES` has a sentence. `broken_by(subject)` says how
the method breaks it, if it does. Each takes a few seconds.
"""

from simulator.contract.promises import PROMISES, Broken, Promise, Subject

__all__ = ["PROMISES", "Broken", "Promise", "Subject"]
