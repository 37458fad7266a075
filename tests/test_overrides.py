"""What a resume may lay over a session's settings, and which of it is a change of bits."""

from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import checkpoints
from simulator.base.errors import ConfigError, SessionError
from simulator.engine import builder
from simulator.results.inspection import checkpoint
from simulator.sessions.forking import fork
from simulator.sessions.history import overrides
from simulator.sessions.metadata import current
from simulator.sessions.reader import CheckedReader
from simulator.sessions.session import RunOutcome, Session, other_bits
from tests import federations

pytestmark = pytest.mark.usefixtures("generated_images")


def made(folder: Path, **sections: Any) -> Path:
    """A session of three rounds that stopped after the first."""
    with Session.create(federations.config("fedavg", **sections), folder / "s", folder) as session:
        session.run(upto=1)
    return folder / "s"


def go_on(session: Path, upto: int | None = None) -> RunOutcome:
    with Session.resume(session, session.parent) as opened:
        return opened.run(upto=upto)


def test_another_precision_is_refused_unless_allowed_and_then_recorded(tmp_path: Path) -> None:
    session = made(tmp_path)
    asked = {"settings": ["training.precision=bf16"]}
    with pytest.raises(SessionError, match=r"no longer be bit-identical \(precision float32 → bf16\)"):
        Session.resume(session, tmp_path, **asked)
    with Session.resume(session, tmp_path, **asked, allow_inexact=True) as opened:
        assert opened.config.training.precision == "bf16"
    (event,) = [e for e in checkpoints.SessionReader(session).events() if e["event"] == "resumed"]
    assert event["inexact"] == ["precision float32 → bf16"]


def test_the_precision_of_a_session_is_recorded_and_stays(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    session, alone = (made(each, training={"precision": "bf16"}) for each in (tmp_path, tmp_path / "alone"))
    for each in (session, alone):
        assert CheckedReader(each).document["config"]["training"]["precision"] == "bf16"
    go_on(session, upto=2)
    go_on(session)
    go_on(alone)
    assert federations.committed(session) == federations.committed(alone)


def test_a_switch_to_another_precision_is_in_the_history_and_no_reason_to_refuse(tmp_path: Path) -> None:
    session = made(tmp_path)
    checkpoints.post(session, "switch", {"method": None, "set": ["training.precision=bf16"]})
    go_on(session, upto=2)
    assert go_on(session).round == 3
    manifest = CheckedReader(session).manifest()
    assert manifest.history[-1]["changes"] == ["training.precision float32 → bf16"]


def test_a_switch_to_a_precision_that_the_device_lacks_is_refused(tmp_path: Path) -> None:
    session = made(tmp_path)
    command = checkpoints.post(session, "switch", {"method": None, "set": ["training.precision=tf32"]})
    assert go_on(session).round == 3
    answer = checkpoints.answer(session, command.id)
    assert answer is not None
    assert (answer.outcome, "needs a CUDA device" in answer.message) == ("refused", True)


@pytest.mark.long
def test_a_session_from_before_there_was_a_precision_goes_on_in_float32(tmp_path: Path) -> None:
    """On a GPU torch had its convolutions in TF32."""
    session = CheckedReader(made(tmp_path))
    config, _ = current(session, {})
    settings = session.manifest().history[-1]["settings"]
    settings["training"].pop("precision")
    rewritten = mock.Mock(document=session.document, rounds=lambda: [1])
    now = session.manifest().history[-1] | {"settings": settings}
    rewritten.manifest.return_value = mock.Mock(history=[now])
    assert other_bits(rewritten, config, on_cuda=False) == []
    other = other_bits(rewritten, config, on_cuda=True)
    assert other == ["precision float32, convolutions in tf32 → float32"]


@pytest.mark.long
def test_a_session_in_a_missing_precision_can_be_forked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session in TF32, on a machine without a GPU: it is not gone on with."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(builder, "refuse_lacking", lambda precision, device: None)
        session = made(tmp_path, training={"precision": "tf32"})
    with pytest.raises(ConfigError, match="'tf32' needs a CUDA device"):
        go_on(session)
    assert checkpoint.cka(session, tmp_path)["round"] == 1
    with pytest.raises(ConfigError, match="'tf32' needs a CUDA device"):
        fork(session, tmp_path / "same", tmp_path, 1)
    otherwise = ["training.precision=float32", "rounds=3"]
    forked = fork(session, tmp_path / "other", tmp_path, 1, assignments=otherwise)
    assert forked.changes == ("training.precision tf32 → float32",)
    assert go_on(tmp_path / "other").round == 3


def test_settings_of_the_run_are_no_business_of_a_resume() -> None:
    with pytest.raises(ConfigError, match=r"'training\.lr' cannot change on resume"):
        overrides(None, None, ["training.lr=0.1"], Path("s"))


def test_they_are_laid_over_the_recorded_ones() -> None:
    given = overrides(2, "cpu", ["runtime.threads_per_client=4", "training.precision=bf16"], Path("s"))
    runtime = {"workers": 2, "device": "cpu", "threads_per_client": 4}
    assert given == {"runtime": runtime, "training": {"precision": "bf16"}}
