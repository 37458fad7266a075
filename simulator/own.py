"""The files that a configuration names as a user wrote it: loaded, with their names alone left in it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from simulator.nested import Raw, merged


def loaded(raw: Mapping[str, Any]) -> Raw:
    """`raw` with `nets/mynets.py:MyNet` in federation.group as `mynets:MyNet`, and `figures/f1.py` in
    evaluation.metrics as `f1`, once their files have been run.

    For what a user has written, never for what a session's files say. Raises ConfigError for a file that cannot be
    read, or fails.
    """
    result = merged(raw, {})
    federation, evaluation = (result.get(section) for section in ("federation", "evaluation"))
    if isinstance(federation, dict) and "group" in federation:
        federation["group"] = _each(federation["group"], _model)
    if isinstance(evaluation, dict) and "metrics" in evaluation:
        evaluation["metrics"] = _each(evaluation["metrics"], _metric)
    return result


def _each(given: Any, short: Callable[[str], str]) -> Any:
    """A name, or the names of a list, in short; what is neither is for the configuration to refuse."""
    if isinstance(given, list | tuple):
        return [_each(name, short) for name in given]
    return short(given) if isinstance(given, str) else given


def _model(name: str) -> str:
    """The model's name once its file is loaded; names without a file are as they were."""
    file, colon, model = name.rpartition(".py:")
    if not colon:
        return name
    from simulator.models import own

    path = Path(f"{file}.py")
    own.load(path)
    return f"{path.stem}:{model}"


def _metric(name: str) -> str:
    if not name.endswith(".py"):
        return name
    from simulator.metrics import own

    own.load(Path(name))
    return Path(name).stem
