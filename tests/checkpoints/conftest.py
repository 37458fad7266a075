"""The store's tests count writes, so the heart beats only where a test is about it."""

import pytest

from checkpoints import lock


@pytest.fixture(autouse=True)
def no_pulse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "PULSE_SECONDS", 1e6)
