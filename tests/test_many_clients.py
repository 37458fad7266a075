"""Ledgers of very many clients: a round tells of those of whom there is news, and readers put it together.

Few clients are told of like many where the settings say so; what is known is then the same either way.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checkpoints
from checkpoints import SessionReader
from checkpoints.schema import canonical, seal
from htfl_sim.configuring import Choices
from simulator.base.nested import as_toml
from simulator.base.record import check_record
from simulator.base.sections import MANY
from simulator.config import Config
from simulator.metrics import by_client
from simulator.results.analysis import feed, tidy
from simulator.results.analysis.clients import results
from simulator.results.analysis.comparison import differences
from simulator.results.analysis.ledger import NUMBERS
from simulator.results.export.sinks import scalars
from simulator.results.inspection import checkpoint
from simulator.sessions.history import completed
from simulator.sessions.session import Session
from simulator.studies.study import StudySpec
from tests import federations

pytestmark = pytest.mark.usefixtures("generated_images")


NEWS: dict[str, Any] = {"initial": "skip", "metrics_for": "changed"}
ALL: dict[str, Any] = {"initial": "skip", "metrics_for": "all"}


def config(evaluation: dict[str, Any], **sections: Any) -> Config:
    federation = {"clients": 8, "participation": 0.25, "group": "tiny"}
    return federations.config(
        "lg_fedavg", **{"rounds": 4, "federation": federation, "evaluation": evaluation, **sections}
    )


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same four rounds, told of in both ways."""
    folder = tmp_path_factory.mktemp("many")
    with federations.on_images(federations.generated()):
        for name, evaluation in (("news", NEWS), ("all", ALL)):
            Session.create(config(evaluation), folder / name, folder).run()
    return {name: folder / name for name in ("news", "all")}


def records(folder: Path) -> list[dict[str, Any]]:
    return [federations.untimed(record) for record in SessionReader(folder).records()]


# What is told


def test_a_round_names_those_of_whom_there_is_news(told: dict[str, Path]) -> None:
    for record in SessionReader(told["news"]).records():
        participants = list(map(str, record["participants"]))
        assert record["clients"] == 8
        for values in (
            record["accuracy"]["per_client"],
            record["loss"]["per_client"],
            record["bytes"]["per_client_up"],
            record["bytes"]["per_client_down"],
            record["evaluation"]["test"]["f1"]["per_client"],
            record["timing"]["per_client"],
        ):
            assert list(values) == participants


def test_everything_but_the_figures_by_client_is_the_same_either_way(told: dict[str, Path]) -> None:
    """Told of all, clients that have never taken part have no accuracy."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: without(each)
                for key, each in value.items()
                if not key.startswith("per_client") and key != "clients"
            }
        return value

    assert list(map(without, records(told["news"]))) == list(map(without, records(told["all"])))
    trained: set[int] = set()
    for record in records(told["all"]):
        trained |= set(record["participants"])
        known = {client for client, value in enumerate(record["accuracy"]["per_client"]) if value is not None}
        assert known == trained


def test_where_so_many_are_drawn_for_evaluation_they_are_drawn_of_those_that_took_part() -> None:
    engine = federations.built(config({**NEWS, "clients": 3})).engine
    state = engine.initial_state()
    for _ in range(4):
        state = engine.round(state, lambda event: None)
        assert state.record is not None
        measured = set(map(int, state.record["accuracy"]["per_client"]))
        assert measured <= state.known.trained
        assert len(measured) == min(3, len(state.known.trained))


def test_above_a_thousand_clients_it_is_so_unless_the_settings_say_otherwise() -> None:
    for clients, many in ((MANY, False), (MANY + 1, True)):
        federation = {"clients": clients, "participation": 0.1}
        usual = Config.read({"method": {"name": "standalone"}, "federation": federation})
        assert (usual.skips_initial, usual.records_changed) == (many, many)
        said = usual.with_(evaluation__initial="all", evaluation__metrics_for="all")
        assert (said.skips_initial, said.records_changed) == (False, False)


# What is read


def test_curves_put_the_news_together(told: dict[str, Path]) -> None:
    news, every = (feed.read(told[name]).curves for name in ("news", "all"))
    by_client = ("accuracy", "loss", "client_up", "client_down", "participated")
    for name in by_client:
        one, other = (getattr(curves, name).select(range(8)) for curves in (news, every))
        np.testing.assert_array_equal(one, other, err_msg=name)
    measured = {"memory", *(each.column for each in NUMBERS if each.unit == "seconds"), "workers"}
    for column in {each.column for each in NUMBERS} - measured:
        np.testing.assert_array_equal(news[column], every[column], err_msg=column)
    for column in measured:  # whether there is a number
        np.testing.assert_array_equal(np.isfinite(news[column]), np.isfinite(every[column]), err_msg=column)
    took = [np.isfinite(curves.client_seconds.select(range(8))) for curves in (news, every)]
    np.testing.assert_array_equal(*took)


def test_tables_have_a_row_for_each_client_of_whom_there_is_news(told: dict[str, Path]) -> None:
    run = feed.read(told["news"])
    every = {row[:2]: row for row in tidy.clients(feed.read(told["all"])).rows}
    rows = tidy.clients(run).rows
    assert [row[:2] for row in rows] == [
        (record["round"], client) for record in run.records for client in record["participants"]
    ]
    assert all(row == every[row[:2]] for row in rows)
    assert [each.client for each in results(run.records[0], "tiny")] == run.records[0]["participants"]
    numbers = scalars(run.records[0], run)
    for client in run.records[0]["participants"]:
        assert numbers[f"accuracy/client_{client}"] == by_client.of(
            run.records[0]["accuracy"]["per_client"], client
        )


def test_a_clients_recorded_accuracy_is_the_last_one_that_a_round_told(told: dict[str, Path]) -> None:
    last = records(told["all"])[-1]["accuracy"]["per_client"]
    shown = checkpoint.of_clients(told["news"], told["news"].parent, None).clients
    assert [model.recorded for model in shown] == last


@pytest.mark.long
def test_a_session_may_tell_of_all_and_then_of_news(told: dict[str, Path], tmp_path: Path) -> None:
    """Under either name of the setting."""
    for word in ('metrics_for="changed"', 'figures="news"'):
        folder = tmp_path / word.partition("=")[0]
        with Session.create(config(ALL), folder, tmp_path) as session:
            switch = {"method": None, "set": [f"evaluation.{word}"], "at_round": 2}
            checkpoints.post(folder, "switch", switch)
            session.run()
        ran = records(folder)
        assert ran[:2] == records(told["all"])[:2]
        assert ran[2:] == records(told["news"])[2:]


def test_the_former_name_of_the_setting_is_read_wherever_users_wrote_it() -> None:
    former = {"initial": "skip", "figures": "news"}
    assert config(former) == config(NEWS)
    assert config(ALL).with_(evaluation__figures="news").evaluation.metrics_for == "changed"
    assert Choices(assignments=["evaluation.figures=news"]).read().evaluation.metrics_for == "changed"
    assert completed({"evaluation": {"figures": None}})["evaluation"]["metrics_for"] is None
    assert completed({"evaluation": {}})["evaluation"]["metrics_for"] == "all"


def test_what_is_given_last_wins_under_either_name(tmp_path: Path) -> None:
    for former, word, expected in (
        ({"evaluation": {"figures": "news"}}, "evaluation.metrics_for=all", "all"),
        ({"evaluation": {"metrics_for": "all"}}, "evaluation.figures=news", "changed"),
        ({"evaluation": {"figures": "all"}}, "evaluation.figures=news", "changed"),
    ):
        file = tmp_path / "mine.toml"
        file.write_text(as_toml(config(ALL).to_json() | former))
        read = Choices(file=file, assignments=[word]).read()
        assert read.evaluation.metrics_for == expected
        study = StudySpec(
            config=config(ALL).to_json() | former, over={word.split("=")[0]: (word.split("=")[1],)}
        )
        [point] = study.points(tmp_path)
        assert point.config["evaluation"]["metrics_for"] == expected
    raw = config(ALL).to_json()
    raw["data"]["seed"] = 3  # the former name of seed.data
    study = StudySpec(config=raw, over={"seed.data": (0, 1)})
    assert [Config.read(point.config).data_seed for point in study.points(tmp_path)] == [0, 1]


def test_a_session_made_under_the_former_name_goes_on(told: dict[str, Path], tmp_path: Path) -> None:
    with Session.create(config(NEWS), tmp_path / "s", tmp_path) as session:
        session.run(upto=2)
    file = tmp_path / "s" / "session.json"
    document = json.loads(file.read_text())
    assert document["config"]["evaluation"].pop("metrics_for") == "changed"
    document["config"]["evaluation"]["figures"] = "news"
    del document["sha256"]
    file.chmod(0o644)
    file.write_bytes(seal(document))
    assert differences([feed.read(tmp_path / "s"), feed.read(told["news"])]) == []
    with Session.resume(tmp_path / "s", tmp_path) as session:
        session.run()
    assert records(tmp_path / "s") == records(told["news"])


# What is refused


def test_a_record_that_names_nobody_or_says_nothing_possible_is_none(told: dict[str, Path]) -> None:
    for change in (
        lambda record: record["accuracy"]["per_client"].update({"8": 0.5}),
        lambda record: record["loss"]["per_client"].update({"one": 0.5}),
        lambda record: record["bytes"]["per_client_up"].update({"1": -1}),
        lambda record: record.update(clients=9),
    ):
        record = SessionReader(told["news"]).records()[0]
        check_record(record, 8)
        change(record)
        with pytest.raises(ValueError, match="client"):
            check_record(record, 8)


# By itself

ROUNDS = st.lists(st.dictionaries(st.integers(0, 5), st.none() | st.floats(0, 1)), min_size=1, max_size=6)


@given(ROUNDS)
def test_what_stands_is_what_lists_of_all_would_say(rounds: list[dict[int, float | None]]) -> None:
    full: dict[int, float | None] = {}
    told = []
    for news in rounds:
        full |= news
        told.append({"accuracy": {"per_client": json.loads(canonical(by_client.written(news, None)))}})
    standing = by_client.standing(told)
    assert standing is not None
    last = {"accuracy": {"per_client": by_client.written(full, 6)}}
    assert by_client.known(standing["accuracy"], {}) == by_client.known(last["accuracy"], {})
    assert by_client.standing(told[1:], by_client.standing(told[:1])) == standing
