"""A user's own files, and processes that have loaded none."""

from pathlib import Path
from typing import Any

import pytest

from simulator.base import own_files
from simulator.metrics import user_metrics as metrics
from simulator.models import libraries as models
from simulator.models import registry
from simulator.selection import user_selection

MODEL = """
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.fc = nn.Linear(32 * 32, 5)
        self.last = nn.Linear(5, num_classes)

    def forward(self, x):
        return self.last(self.fc(x.flatten(1)))
"""
METRIC = "def metric(scores, labels):\n    return (scores.argmax(1) == labels).double().mean()\n"


@pytest.fixture(autouse=True)
def another_process(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Each test begins, and leaves, as a process that has loaded no file; called, it makes another one."""

    def forget() -> None:
        monkeypatch.setattr(own_files, "_LOADED", {})
        monkeypatch.setattr(own_files, "_PATHS", set())
        monkeypatch.setattr(models, "_FILES", {})
        monkeypatch.setattr(metrics, "_FUNCTIONS", {})
        monkeypatch.setattr(user_selection, "_FUNCTIONS", {})
        kept = {prefix: each for prefix, each in registry._LIBRARIES.items() if prefix != "mynets"}
        monkeypatch.setattr(registry, "_LIBRARIES", kept)

    forget()
    return forget


def written(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path
