"""Fingerprints: equal for runs that give the same bits, and for no others."""

import json
from pathlib import Path
from typing import Any

import pytest

import checkpoints
import htfl_sim as hs
from checkpoints.schema import seal
from simulator.config import Config
from simulator.sessions.fingerprint import fingerprint_of, finished_twin
from simulator.sessions.metadata import of_new
from simulator.sessions.reader import CheckedReader
from simulator.sessions.session import Session
from tests import federations
from tests.cli.conftest import rewrite

pytestmark = pytest.mark.usefixtures("generated_images")


def made(folder: Path, run: bool = True, **sections: Any) -> Path:
    """A session of one round, with these settings."""
    session = Session.create(federations.config(**{"rounds": 1, **sections}), folder, folder.parent)
    with session:
        if run:
            session.run()
    return folder


def printed(**sections: Any) -> str:
    """The fingerprint of a run with these settings."""
    config: Config = federations.config(**sections)
    built = federations.built(config)
    return str(of_new(config, built, None)["fingerprint"])


def test_settings_that_change_bits_change_the_fingerprint_and_no_others() -> None:
    plain = printed()
    for same in (
        {"runtime": {"workers": 2}},
        {"runtime": {"runner": "sequential"}},
        {"checkpoint": {"every": 2}},
        {"preset": "quickstart"},
        {"seed": {"all": 3, "data": 7, "init": 7, "training": 7}},
    ):
        assert printed(**same) == plain, same
    others: list[dict[str, Any]] = [
        {"rounds": 4},
        {"seed": {"all": 7, "init": 8}},
        {"seed": {"all": 7, "data": 8}},
        {"seed": {"all": 7, "training": 8}},
        {"training": {"lr": 0.2}},
        {"wire": {"drop": 0.1}},
        {"runtime": {"runner": "stacked"}},
        {"runtime": {"threads_per_client": 2}},
        {"evaluation": {"parts": ["test", "eval"]}},
    ]
    assert len({plain, *(printed(**each) for each in others)}) == len(others) + 1
    images = federations.generated(per_class=41)
    with federations.on_images(images):
        config = federations.config()
        assert of_new(config, federations.built(config, images), None)["fingerprint"] != plain


def test_the_content_of_a_file_of_the_clock_counts_and_its_path_does_not(tmp_path: Path) -> None:
    rows = "client,device\n" + "".join(f"{client},phone\n" for client in range(8))
    found = []
    for name, text in (("a", rows), ("b", rows), ("c", rows.replace("0,phone", "0,laptop"))):
        (tmp_path / name).mkdir()
        file = tmp_path / name / "trace.csv"
        file.write_text(text)
        found.append(printed(system={"trace": str(file)}))
    assert found[0] == found[1] != found[2]
    assert found[0] != printed()


def test_sessions_of_other_partitions_keep_their_settings_and_so_their_fingerprints() -> None:
    plain, shards, sizes, idle = (
        federations.config(data=data)
        for data in (
            {},
            {"partition": "shards"},
            {"partition": "iid", "quantity": "lognormal"},
            {"partition": "iid", "sigma": 0.5},
        )
    )
    found = [
        {key: value for key, value in each.to_json()["data"].items() if key in ("shards_per_client", "sigma")}
        for each in (plain, shards, sizes, idle)
    ]
    assert found == [{}, {"shards_per_client": 2}, {"sigma": 0.3}, {"sigma": 0.5}]
    assert all(Config.read(each.to_json()) == each for each in (plain, shards, sizes, idle))


def test_a_finished_run_has_a_twin_and_an_unfinished_one_has_none(tmp_path: Path) -> None:
    done, begun = made(tmp_path / "done"), made(tmp_path / "begun", run=False, training={"lr": 0.2})
    for folder, twin in ((done, done), (begun, None)):
        wanted = CheckedReader(folder).document
        assert finished_twin(wanted, [begun, tmp_path / "gone", done]) == (twin, [])


def test_a_damaged_session_is_no_twin_and_the_damage_is_said(tmp_path: Path) -> None:
    done = made(tmp_path / "done")
    wanted = CheckedReader(done).document
    (server,) = {manifest.states["server"].name for manifest in [CheckedReader(done).manifest()]}
    (done / server).write_bytes(b"x" + (done / server).read_bytes()[1:])
    found, (said,) = finished_twin(wanted, [done])
    assert found is None
    assert said.startswith(
        "done is an identical run, but it is damaged, so this run is computed: round 1, server"
    )


def test_a_run_with_the_same_settings_and_other_code_is_no_twin_and_the_code_is_named(tmp_path: Path) -> None:
    done = made(tmp_path / "done")
    wanted = CheckedReader(done).document
    environment = {**wanted["environment"], "program": "0" * 64}
    rewrite(done, environment=environment, fingerprint="1" * 64)
    found, (said,) = finished_twin(wanted, [done])
    assert found is None
    assert said.startswith(
        f"done has the same settings and data, but was made with other code (program {'0' * 12} → "
    )
    rewrite(done, data_fingerprint="of other data")
    assert finished_twin(wanted, [done]) == (None, [])


def test_duplicates_are_listed_in_groups_oldest_first(tmp_path: Path) -> None:
    names = [("a", 0.1), ("b", 0.2), ("c", 0.1)]
    for name, lr in names:
        made(tmp_path / name, run=False, training={"lr": lr})
    assert [[each.name for each in group] for group in hs.sessions.duplicates(tmp_path)] == [["a", "c"]]


def test_a_fork_a_switched_session_and_an_older_one_have_no_fingerprint(tmp_path: Path) -> None:
    parent = made(tmp_path / "parent")
    assert fingerprint_of(parent) is not None
    hs.fork(parent, tmp_path / "fork", 1, rounds=2, data_dir=tmp_path)
    assert fingerprint_of(tmp_path / "fork") is None
    document = json.loads((tmp_path / "fork" / "session.json").read_text())
    assert document["fingerprint"] is None
    document = checkpoints.SessionReader(parent).document
    before = (parent / "session.json").read_bytes()
    without = {key: each for key, each in document.items() if key != "fingerprint"}
    (parent / "session.json").chmod(0o644)
    (parent / "session.json").write_bytes(seal(without))
    assert fingerprint_of(parent) is None
    (parent / "session.json").write_bytes(before)
    checkpoints.post(parent, "switch", {"method": None, "set": ["rounds=2"]})
    with Session.resume(parent, tmp_path) as session:
        session.run()
    assert fingerprint_of(parent) is None
