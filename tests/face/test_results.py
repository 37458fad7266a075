"""`hs.open`: data frames and models of a session."""

import subprocess
import sys
from pathlib import Path

import pytest

import htfl_sim as hs
from checkpoints import SessionReader, SessionUnreadable
from simulator.results.analysis import tidy
from simulator.results.inspection import partition
from tests.face.conftest import ROUNDS, tiny
from tests.sessions import make


def test_records_clients_and_cka_are_the_ledger_with_a_row_for_each_round_client_and_pair(done: Path) -> None:
    results, ledger = hs.open(done), SessionReader(done).records()
    frame, clients, pairs = results.records(), results.clients(), results.cka()
    assert tuple(frame.columns)[: len(tidy.ROUND_COLUMNS)] == tuple(tidy.ROUND_COLUMNS)
    assert frame["accuracy"].tolist() == [record["accuracy"]["mean"] for record in ledger]
    lost = [record["method_metrics"]["adapter_loss"] for record in ledger]
    assert frame["metric_adapter_loss"].tolist() == lost and frame["participants"].tolist() == [3] * ROUNDS
    assert str(frame["at"].dtype).endswith("UTC]")
    for record in ledger:
        rows = clients[clients["round"] == record["round"]]
        assert rows["model"].tolist() == ["tiny_cnn", "tiny_mlp"] * 2
        assert rows["accuracy"].tolist() == record["accuracy"]["per_client"]
        assert rows[rows["took_part"]]["client"].tolist() == record["participants"]
        assert rows[~rows["took_part"]]["loss"].isna().all()
    matrix = ledger[-1]["cka"]["matrix"]
    assert set(pairs["round"]) == {4} and (pairs["client"] < pairs["other"]).all()
    for _, row in pairs.iterrows():
        assert row["cka"] == matrix[row["layer"]][row["client"]][row["other"]]


def test_the_partition_adds_up_to_the_images_of_the_session(done: Path) -> None:
    frame = hs.open(done).partition()
    assert tuple(frame.columns) == tuple(partition.COLUMNS)
    assert len(frame) == 4 * 10
    assert frame[["train", "eval", "test"]].to_numpy().sum() == 200


def test_a_frame_of_a_session_without_rounds_has_its_columns(tmp_path: Path) -> None:
    empty = hs.open(make(tmp_path / "new", rounds=0, of=3))
    assert tuple(empty.records().columns) == tuple(tidy.ROUND_COLUMNS)
    assert empty.accuracy is None and len(empty.clients()) == 0


@pytest.mark.long
def test_a_model_answers_as_the_ledger_says_also_where_its_checkpoint_is_gone(done: Path) -> None:
    results = hs.open(done)
    for record in SessionReader(done).records():
        for client, recorded in enumerate(record["accuracy"]["per_client"]):
            assert answers(results, client, record["round"]) == pytest.approx(recorded, abs=1e-7)


def answers(results: hs.Results, client: int, round: int) -> float:
    """The share of a client's test samples on which its model is right."""
    x, y = results.data(client)
    return float((results.model(client, round)(x).argmax(1) == y).float().mean())


@pytest.mark.parametrize("method", ["fedmrl", "fedproto"])
def test_where_a_method_answers_with_more_than_the_model_it_says_so_and_scores_are_the_ledgers(
    method: str, tmp_path: Path
) -> None:
    run = hs.run(tiny(method=method, federation__group="tiny_cnn"), tmp_path / "more", until=3)
    with pytest.warns(
        UserWarning, match=rf"Method {method} answers with more than this model.*scores\(client=1\)"
    ):
        run.model(1)
    _, y = run.data(1)
    recorded = run.clients().query("round == 3 and client == 1")["accuracy"].item()
    assert float((run.scores(1).argmax(1) == y).float().mean()) == pytest.approx(recorded, abs=1e-7)


@pytest.mark.long
def test_with_an_aggregated_evaluation_the_model_is_the_one_received_next_also_across_a_switch(
    tmp_path: Path,
) -> None:
    config = tiny(method="fedavg", federation__group="tiny_cnn", training__lr=0.2)
    run = hs.run(config, tmp_path / "avg", until=2).switch(training__lr=0.1).run()
    assert run.checkpoints == (ROUNDS,)
    frame = run.clients()
    for round in (2, 3, 4):
        recorded = frame[(frame["round"] == round) & (frame["client"] == 2)]["accuracy"].item()
        assert answers(run, 2, round) == pytest.approx(recorded, abs=1e-7)


def test_a_client_or_round_that_is_not_there_is_said(done: Path) -> None:
    results = hs.open(done)
    with pytest.raises(hs.ConfigError, match="has no client 9; it has clients 0 to 3"):
        results.model(9)
    with pytest.raises(hs.ConfigError, match="has no round 7; it has rounds 0 to 4"):
        results.model(0, round=7)
    with pytest.raises(SessionUnreadable, match="is not a session"):
        hs.open(done.parent / "nothing")


@pytest.mark.long
def test_reading_loads_no_torch(done: Path) -> None:
    reads = f"r = hs.open({str(done)!r}); r.records(), r.clients(), r.cka(), repr(r)"
    code = f"import sys, htfl_sim as hs; {reads}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
