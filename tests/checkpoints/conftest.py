"""The store's tests count writes, so the heart beats only where a test is about it."""

import pytest

from checkpoints import lock


@pytest.fixture(autouse=True)
def no_pulse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "PULSE_SECONDS", 1e6)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a heartbeat is watched is for the tests that are about it to say."""
    monkeypatch.setattr(lock, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(lock, "SETTLE_SECONDS", 0.01)
