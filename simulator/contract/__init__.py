"""What every method promises, tried on a tiny federation: for the built-in methods, and for a user's own.

`Subject(name)` is the method on trial; every `Promise` in `PROMISES` has a sentence, and `broken_by(subject)` says how
the method breaks it, if it does. A few seconds each.
"""

from simulator.contract.promises import PROMISES, Broken, Promise
from simulator.contract.subject import Subject

__all__ = ["PROMISES", "Broken", "Promise", "Subject"]
