"""Nothing of training follows from samples that nobody trains on: test and eval samples, and unseen and later clients'.

Six clients have given samples: four to train on, one for eval, and one to test. One client is unseen, and one joins in
round 2. The property tests change every other sample than those that the first clients train on, and what the first
clients train on must stay the same.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from simulator.base import rng
from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError, DataError
from simulator.base.nested import merged
from simulator.config import Config
from simulator.data import datasets
from simulator.data.federated import FederatedData, load
from simulator.data.samples import ArraySet, joined
from simulator.data.specs import SignalSpec
from simulator.engine.builder import build
from simulator.sessions.history import completed
from simulator.sessions.session import Session
from tests import federations

CLIENTS, HELD, CLASSES = 6, 6, 3
COUNT = CLIENTS * HELD
CPU = torch.device("cpu")
OLD: dict[str, Any] = {"data": {"statistics": "all"}}


def parts() -> list[dict[str, list[int]]]:
    firsts = range(0, COUNT, HELD)
    return [{"train": [*range(each, each + 4)], "eval": [each + 4], "test": [each + 5]} for each in firsts]


def config(folder: Path, data: dict[str, Any], /, **more: Any) -> Config:
    """Clients with the samples of `parts`. One is unseen, and the first of the others joins in round 2."""
    indices = folder / "parts.json"
    indices.write_text(json.dumps(parts()))
    base = {
        "seed": 3,
        "rounds": 1,
        "method": {"name": "fedproto"},
        "data": {"partition": "indices", "indices": str(indices), **data},
        "federation": {"clients": CLIENTS, "unseen": 0.2, "group": "tiny", "participation": 1.0},
        "training": {"batch_size": 4, "lr": 0.1},
        "runtime": {"workers": 1, "device": "cpu"},
    }
    drawn = Config.read(base).unseen_clients
    joins = next(client for client in range(CLIENTS) if client not in drawn)
    late = {"federation": {"timeline": [{"round": 2, "event": "join", "clients": [joins]}]}}
    return Config.read(merged(merged(base, late), more))


def others(chosen: Config) -> list[int]:
    """The samples that no client of round 1 trains on."""
    trained = {index for client in chosen.measured_clients for index in parts()[client]["train"]}
    return [index for index in range(COUNT) if index not in trained]


Rows = dict[str, np.ndarray]
"""The samples of a source by column. `label` has their classes."""


def labels() -> np.ndarray:
    return np.arange(COUNT) % CLASSES


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    return rng.numpy_stream(0, "tests/peeking").normal(5, 2, (COUNT, *shape)).astype(np.float32)


def images(shape: tuple[int, ...]) -> np.ndarray:
    return rng.numpy_stream(0, "tests/peeking").integers(0, 200, (COUNT, *shape)).astype(np.uint8)


def as_npz(name: str) -> Callable[[Path, Rows], dict[str, Any]]:
    def write(folder: Path, rows: Rows) -> dict[str, Any]:
        np.savez(folder / "own.npz", **{name: rows["value"], "labels": rows["label"]})
        return {"dataset": str(folder / "own.npz")}

    return write


def as_folder(folder: Path, rows: Rows) -> dict[str, Any]:
    """Images by class. The names keep the order of `rows`, in which classes stand one after the other."""
    for number, (pixels, label) in enumerate(zip(rows["value"], rows["label"], strict=True)):
        file = folder / "own" / f"class {label}" / f"{number:03}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        grey = (pixels[..., :1] == pixels).all()
        Image.fromarray(pixels[..., 0] if grey else pixels).save(file)
    return {"dataset": str(folder / "own")}


def as_table(ending: str) -> Callable[[Path, Rows], dict[str, Any]]:
    def write(folder: Path, rows: Rows) -> dict[str, Any]:
        table = pd.DataFrame({key: each for key, each in rows.items() if key != "label"})
        table["label"] = [f"class {each}" for each in rows["label"]]
        file = folder / f"own.{ending}"
        table.to_csv(file, index=False) if ending == "csv" else table.to_parquet(file)
        return {"dataset": str(file), "target": "label"}

    return write


def as_texts(folder: Path, rows: Rows) -> dict[str, Any]:
    return {**as_table("csv")(folder, {"text": rows["value"], "label": rows["label"]}), "text": "text"}


def as_news(folder: Path, rows: Rows) -> dict[str, Any]:
    """The files of ag_news: five in six texts are the data set's own training texts."""
    (folder / "ag_news").mkdir()
    lines = [f'"{label + 1}","{text}","."' for text, label in zip(rows["value"], rows["label"], strict=True)]
    cut = COUNT - HELD
    (folder / "ag_news" / "train.csv").write_text("\n".join(lines[:cut]) + "\n")
    (folder / "ag_news" / "test.csv").write_text("\n".join(lines[cut:]) + "\n")
    return {"dataset": "ag_news"}


WORDS = np.array(["red fish", "blue fish swims", "green tree", "old blue tree"], dtype=object)


def columns() -> Rows:
    """Two columns of numbers, one of texts, and one of truth values."""
    return {
        "age": numbers(())[:, None][:, 0],
        "height": np.array([f"{each:.2f}" for each in numbers(())], dtype=object),
        "city": np.array(["Oslo", "Bern", "Lima"], dtype=object)[labels()[::-1]],
        "member": labels() > 0,
        "label": labels(),
    }


def typed() -> Rows:
    rows = columns()
    return rows | {"height": rows["height"].astype(np.float32)}


def changed(rows: Rows, at: list[int], draw: np.random.Generator) -> Rows:
    """The same with other values and labels at these places, also with values that no other sample has."""
    found = {key: each.copy() for key, each in rows.items()}
    for key, each in found.items():
        if key == "label":
            each[at] = draw.integers(0, CLASSES, len(at))
        elif each.dtype == object:
            each[at] = [f"word{number} {number} fish" for number in draw.integers(0, 50, len(at))]
        elif each.dtype == bool:
            each[at] = draw.random(len(at)) < 0.5
        elif each.dtype == np.uint8:
            each[at] = draw.integers(0, 256, each[at].shape)
        elif each.dtype == np.int64:
            each[at] = draw.integers(0, 90, each[at].shape)
        else:
            each[at] += 30 * draw.normal(1, 1, each[at].shape)
    return found


def numeric_texts(rows: Rows, at: list[int], draw: np.random.Generator) -> Rows:
    """As `changed`, also with texts among truth values. In a column of numbers, they are refused (see below)."""
    found = changed(rows, at, draw)
    found["member"] = found["member"].astype(object)
    found["member"][at[::2]] = "maybe"
    found["height"][at] = [f"{each:.2f}" for each in draw.normal(90, 9, len(at))]
    return found


def sorted_by_class(shape: tuple[int, ...]) -> Rows:
    """Images in the order of a folder. A third of them are gray."""
    pixels = images(shape)
    pixels[::3] = pixels[::3, ..., :1]
    return {"value": pixels, "label": np.sort(labels())}


def same_classes(rows: Rows, at: list[int], draw: np.random.Generator) -> Rows:
    """As `changed`, but the labels stay: they are the folders, which number the images. Some images become gray."""
    found = changed(rows, at, draw) | {"label": rows["label"]}
    for index in at:
        if draw.random() < 0.7:
            found["value"][index] = found["value"][index][..., :1]
    return found


Kind = tuple[Callable[[], Rows], Callable[[Path, Rows], dict[str, Any]], Callable[..., Rows]]
KINDS: dict[str, Kind] = {
    "images": (lambda: {"value": images((8, 8)), "label": labels()}, as_npz("images"), changed),
    "own folder": (lambda: sorted_by_class((8, 8, 3)), as_folder, same_classes),
    "signals": (lambda: {"value": numbers((2, 9)), "label": labels()}, as_npz("signals"), changed),
    "tokens": (
        lambda: {"value": images((5,)).astype(np.int64) % 9, "label": labels()},
        as_npz("tokens"),
        changed,
    ),
    "CSV": (columns, as_table("csv"), numeric_texts),
    "Parquet": (typed, as_table("parquet"), changed),
    "text": (lambda: {"value": WORDS[np.arange(COUNT) % 4], "label": labels()}, as_texts, changed),
    "ag_news": (lambda: {"value": WORDS[np.arange(COUNT) % 4], "label": labels()}, as_news, changed),
}


OF_TOKENS = ("tokens", "text", "ag_news")


def trained_on(data: FederatedData, chosen: Config) -> tuple[Any, ...]:
    """Everything of the data that training of round 1 reads."""
    clients = [data.clients[client] for client in chosen.measured_clients]
    batches = [tuple(each.numpy().tobytes() for each in data.batch(client.train)) for client in clients]
    known = [(client.classes, client.class_counts) for client in clients]
    return str(data.spec), data.classes, data.names, batches, known, public_of(data)


def public_of(data: FederatedData) -> tuple[bytes, bytes] | None:
    if data.public is None:
        return None
    every = torch.arange(len(data.public))
    return data.public.batch(every).numpy().tobytes(), data.public.labels.numpy().tobytes()


def before_and_after(kind: str, folder: Path, seed: int = 0, **more: Any) -> Iterator[tuple[Config, Path]]:
    """A configuration with and without changes of all samples that nobody trains on, and the folder of its data."""
    rows, write, change = KINDS[kind]
    draw = rng.numpy_stream(seed, "tests/peeking/changes")
    for name in ("before", "after"):
        place = folder / name
        place.mkdir(parents=True)
        held, chosen = rows(), config(place, {"dataset": "digits"})
        held = held if name == "before" else change(held, others(chosen), draw)
        yield config(place, write(place, held), **more), place


def trained_before_and_after(kind: str, folder: Path, seed: int = 0, **more: Any) -> list[tuple[Any, ...]]:
    """What is trained on, without and with these changes."""
    both = before_and_after(kind, folder, seed, **more)
    return [trained_on(load(chosen.source(place), CPU), chosen) for chosen, place in both]


@pytest.mark.parametrize(
    ("kind", "statistics"),
    [
        ("CSV", "client"),
        *(pytest.param(kind, "pooled", marks=pytest.mark.long) for kind in KINDS),
        *(
            pytest.param(kind, "client", marks=pytest.mark.long)
            for kind in KINDS
            if kind not in (*OF_TOKENS, "CSV")
        ),
    ],
)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_clients_train_on_does_not_follow_from_any_other_sample(
    kind: str, statistics: str, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("example")
    before, after = trained_before_and_after(kind, folder, seed, data={"statistics": statistics})
    assert before == after


@pytest.mark.long
def test_by_the_rule_of_older_sessions_it_did(tmp_path: Path) -> None:
    """So the changes are large enough to be seen."""
    for kind in KINDS:
        before, after = trained_before_and_after(kind, tmp_path / kind, **OLD)
        assert before != after, kind


@pytest.mark.parametrize(("kind", "group"), [("images", "tiny"), ("CSV", "tiny_table")])
def test_models_after_a_round_do_not_follow_from_any_other_sample(
    kind: str, group: str, tmp_path: Path
) -> None:
    found = []
    for chosen, place in before_and_after(kind, tmp_path, federation={"group": group}):
        clients = federations.run(build(chosen, place).engine, 1).clients
        found.append([federations.bits(clients[client]) for client in chosen.measured_clients])
    assert found[0] == found[1]


@pytest.mark.parametrize("statistics", ["pooled", "client"])
@pytest.mark.parametrize("public", [0.2, "shown.npz"])
def test_public_samples_do_not_follow_from_samples_that_nobody_trains_on(
    public: float | str, statistics: str, tmp_path: Path
) -> None:
    """The parts follow from labels alone, so they stay. The first feature is the row in the file."""
    count = 120
    values = rng.numpy_stream(0, "tests/peeking").normal(5, 2, (count, 3)).astype(np.float32)
    values[:, 0] = np.arange(count)
    own = np.arange(count) % CLASSES
    np.savez(tmp_path / "shown.npz", features=values[:20], labels=own[:20])

    def built() -> FederatedData:
        np.savez(tmp_path / "own.npz", features=values, labels=own)
        shown = public if isinstance(public, float) else str(tmp_path / public)
        data = {"dataset": str(tmp_path / "own.npz"), "public": shown, "statistics": statistics}
        return load(Config.read({"method": {"name": "standalone"}, "data": data}).source(tmp_path), CPU)

    def rows(inputs: Any, at: torch.Tensor | slice = slice(None)) -> set[int]:
        return {int(row) for row in inputs.numbers[at, 0]}

    before = built()
    assert before.public is not None
    trained = rows(before.inputs, torch.cat([before.places(client.train) for client in before.clients]))
    values[sorted(rows(before.inputs) - trained), 1:] += 30
    assert len(trained) < count
    assert public_of(built()) == public_of(before)


def test_public_rows_of_another_file_get_the_clients_columns(tmp_path: Path) -> None:
    rows = "".join(
        f"{number},{city},{'no' if number % 2 else 'yes'}\n"
        for number, city in enumerate(["Oslo", "Bern"] * 20)
    )
    (tmp_path / "own.csv").write_text("age,city,ill\n" + rows)
    (tmp_path / "shown.csv").write_text("age,city,ill\n3,Bern,no\n7,Rome,yes\n")
    data = {"dataset": str(tmp_path / "own.csv"), "public": str(tmp_path / "shown.csv"), "target": "ill"}
    chosen = Config.read({"method": {"name": "standalone"}, "data": data, "federation": {"clients": 2}})
    public = load(chosen.source(tmp_path), CPU).public
    assert public is not None
    assert public.inputs.numbers.tolist() == [[3, 1, 0], [7, 0, 0]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("last", ["false", "unsure"])
def test_spellings_of_truth_values_are_alike_whatever_a_row_has_that_nobody_trains_on(
    last: str, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(f"x,ill\nTRUE,no\ntrue,yes\nFALSE,no\n{last},yes\n")
    rows = datasets.load(str(tmp_path / "t.csv"), tmp_path, config=DataConfig(target="ill"))
    found = federations.formed(rows, np.array([0, 1, 2]))
    assert found.names == ("x = False", "x = True")
    assert found.values[:3].tolist() == [[0, 1], [0, 1], [1, 0]]


def test_public_tokens_that_nobody_trains_on_are_refused(tmp_path: Path) -> None:
    labels = np.arange(40) % 2
    np.savez(tmp_path / "own.npz", tokens=np.arange(80).reshape(40, 2) % 9, labels=labels)
    np.savez(tmp_path / "shown.npz", tokens=np.full((40, 2), 12), labels=labels)
    data = {"dataset": str(tmp_path / "own.npz"), "public": str(tmp_path / "shown.npz")}
    chosen = Config.read({"method": {"name": "standalone"}, "data": data, "federation": {"clients": 2}})
    with pytest.raises(ConfigError, match="has token 12, which no client trains on"):
        load(chosen.source(tmp_path), CPU)


class TestUnknownValues:
    """Values that no sample has that is trained on."""

    def test_a_text_is_zero_in_all_columns_of_its_own(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text("city,ill\nOslo,no\nBern,yes\nLima,no\nLima,yes\n")
        rows = datasets.load(str(tmp_path / "t.csv"), tmp_path, config=DataConfig(target="ill"))
        found = federations.formed(rows, np.array([0, 1]))
        assert found.names == ("city = Bern", "city = Oslo")
        assert found.values.tolist() == [[0, 1], [1, 0], [0, 0], [0, 0]]
        assert found.unknown == (("city = Lima", 2),)

    def test_by_the_older_rule_a_text_in_a_column_of_numbers_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text("age,ill\n31,no\n4.5,yes\nold,no\n")
        columns = DataConfig(target="ill", numbers="inferred")
        rows = datasets.load(str(tmp_path / "t.csv"), tmp_path, config=columns)
        with pytest.raises(
            DataError, match=r"t\.csv: column 'age' has 'old', and all rows that clients train on"
        ):
            federations.formed(rows, np.array([0, 1]))
        assert federations.formed(rows, np.array([0, 2])).names == ("age = 31", "age = old")

    def test_a_larger_token_is_padding(self, tmp_path: Path) -> None:
        tokens = np.array([[1, 2], [3, 0], [7, 1], [9, 7]])
        np.savez(tmp_path / "t.npz", tokens=tokens, labels=np.array([0, 1, 0, 1]))
        found = federations.formed(datasets.load(str(tmp_path / "t.npz"), tmp_path), np.array([0, 1]))
        assert found.spec.vocabulary == 4
        assert found.values.tolist() == [[1, 2], [3, 0], [0, 1], [0, 0]]
        assert found.unknown == (("token 7", 2), ("token 9", 1))

    def test_a_sample_with_a_token_twice_counts_once_and_padding_is_in_the_vocabulary(
        self, tmp_path: Path
    ) -> None:
        tokens = np.array([[1, 2], [3, 0], [9, 9], [5, 5]])
        np.savez(tmp_path / "t.npz", tokens=tokens, labels=np.array([0, 1, 0, 1]), padding=5)
        found = federations.formed(datasets.load(str(tmp_path / "t.npz"), tmp_path), np.array([0, 1]))
        assert (found.spec.vocabulary, found.unknown) == (6, (("token 9", 1),))

    def test_a_session_records_them(self, tmp_path: Path) -> None:
        rows = columns()
        rows["city"][others(config(tmp_path, {}))] = "Rome"
        chosen = config(tmp_path, as_table("csv")(tmp_path, rows), federation={"group": "tiny_table"})
        with Session.create(chosen, tmp_path / "s", tmp_path) as session:
            session.run()
        document = json.loads((tmp_path / "s" / "session.json").read_text())
        assert document["unknown"] == {"city = Rome": len(others(chosen))}


class TestClientsOwnStatistics:
    def test_tokens_have_no_means(self, tmp_path: Path) -> None:
        chosen = config(tmp_path, {"dataset": federations.saved("tokens", tmp_path), "statistics": "client"})
        with pytest.raises(ConfigError, match=r"data\.statistics = 'client' .* are tokens\. Leave it out"):
            load(chosen.source(tmp_path), CPU)

    def test_each_clients_training_samples_have_mean_zero_and_deviation_one(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "own.npz", signals=numbers((2, 9)), labels=labels())
        chosen = config(tmp_path, {"dataset": str(tmp_path / "own.npz"), "statistics": "client"})
        data = load(chosen.source(tmp_path), CPU)
        for number, client in enumerate(data.clients):
            samples = data.batch(client.train)[0]
            own = data.inputs.of_client(number).batch(data.places(client.train))
            torch.testing.assert_close(own, samples)
            x = samples.transpose(0, 1).flatten(1)
            torch.testing.assert_close(x.mean(1), torch.zeros(2), atol=1e-5, rtol=0)
            torch.testing.assert_close(x.std(1, correction=0), torch.ones(2), atol=1e-5, rtol=0)

    def test_images_have_them_too_in_place_of_their_data_sets_constants(self) -> None:
        pixels = np.array([51, 153, 204, 10, 20, 30], np.uint8).repeat(4).reshape(6, 2, 2, 1)
        images = joined((pixels, np.arange(6) % 2), None, ("a", "b"), (0.5,), (0.5,))
        data = FederatedData.build(DataConfig(statistics="client"), 1, 0, images, CPU)
        x, _ = data.batch(data.clients[0].train)
        torch.testing.assert_close(x.mean(), torch.tensor(0.0), atol=1e-6, rtol=0)
        torch.testing.assert_close(x.std(correction=0), torch.tensor(1.0), atol=1e-6, rtol=0)

    def test_a_common_test_set_is_normalized_for_each_client(self) -> None:
        """Both train on other images, and are tested on the same two."""
        pixels = np.arange(10, 90, 10, dtype=np.uint8)[:, None, None, None] * np.ones((8, 2, 2, 1), np.uint8)
        labels = np.arange(8) % 2
        images = joined((pixels[:6], labels[:6]), (pixels[6:], labels[6:]), ("a", "b"))
        chosen = DataConfig(statistics="client", split="global", partition="iid", quantity="equal")
        data = FederatedData.build(chosen, 2, 0, images, CPU)
        for number, client in enumerate(data.clients):
            held = images.images[data.places(client.train).numpy()].astype(np.float64)
            x, y = data.batch(client.test)
            torch.testing.assert_close(data.inputs.of_client(number).batch(data.places(client.test)), x)
            expected = (images.images[6:].astype(np.float64) - held.mean()) / held.std()
            torch.testing.assert_close(x, torch.from_numpy(expected).float().permute(0, 3, 1, 2))
            assert y.tolist() == [0, 1]

    def test_permuted_labels_and_samples_keep_their_places(self) -> None:
        images = federations.generated()
        chosen = Config.read(
            {
                "method": {"name": "standalone"},
                "data": {"statistics": "client"},
                "federation": {
                    "clients": 4,
                    "group": "tiny",
                    "timeline": [{"round": 2, "event": "data", "labels": "permuted", "clients": [1]}],
                },
            }
        )
        own, pooled = (
            FederatedData.build(each, 4, 0, images, CPU, chosen.timeline.data).at(2)
            for each in (chosen.data, DataConfig())
        )
        for one, other in zip(own.clients, pooled.clients, strict=True):
            assert torch.equal(own.places(one.test), pooled.places(other.test))
            assert torch.equal(own.labels_of(one.test), pooled.labels_of(other.test))
            assert one.class_counts == other.class_counts

    @pytest.mark.parametrize("runner", ["sequential", "stacked"])
    @pytest.mark.long
    def test_runs_resume_to_the_same_bits(self, runner: str, tmp_path: Path) -> None:
        """With CKA, whose samples each model sees with its client's normalization."""
        data = {"dataset": federations.saved("signal", tmp_path), "statistics": "client"}
        more = {"runtime": {"runner": runner}, "cka": {"every": 1}, "federation": {"group": "tiny_signal"}}
        chosen = federations.config("fedavg", data=data, rounds=2, **more)
        federations.assert_a_stop_changes_nothing(chosen, tmp_path, lambda session: session.round == 1)


def test_images_with_published_constants_keep_them() -> None:
    images = joined((images_of(9), np.arange(9) % 2), None, ("a", "b"), (0.2860,), (0.3530,))
    data = FederatedData.build(DataConfig(partition="iid"), 1, 0, images, CPU)
    expected = (images.images[data.clients[0].train[0]].astype(np.float64) / 255 - 0.2860) / 0.3530
    x, _ = data.batch(data.clients[0].train[:1])
    torch.testing.assert_close(x[0].permute(1, 2, 0), torch.from_numpy(expected).float())


def images_of(count: int) -> np.ndarray:
    return rng.numpy_stream(0, "tests/peeking").integers(0, 256, (count, 4, 4, 1)).astype(np.uint8)


def test_the_clients_of_the_first_round_are_measured() -> None:
    def event(round: int, kind: str, *clients: int) -> dict[str, Any]:
        return {"round": round, "event": kind, "clients": [*clients]}

    for events, measured in (
        ([], (0, 1, 2)), ([event(1, "join", 1)], (0, 1, 2)), ([event(2, "join", 1)], (0, 2)),
        ([event(2, "leave", 1)], (0, 1, 2)), ([event(3, "join", 0, 1), event(5, "join", 2)], (0, 1)),
    ):  # fmt: skip
        federation = {"clients": 3, "timeline": events}
        chosen = Config.read({"method": {"name": "fedavg"}, "federation": federation})
        assert chosen.measured_clients == measured


def test_older_sessions_keep_their_rule() -> None:
    assert completed({"method": {"name": "fedavg"}, "data": {"alpha": 0.3}})["data"] == {
        "alpha": 0.3,
        "statistics": "all",
    }


def test_other_clients_that_take_part_are_other_data() -> None:
    """Signals of the same clients, normalized on other ones."""
    samples = ArraySet.of(SignalSpec(2, 9), (numbers((2, 9)), labels()))
    chosen = DataConfig(partition="iid")
    all_of_them, without, other = (
        FederatedData.build(chosen, 3, 0, samples, CPU, measured=measured).fingerprint
        for measured in ([0, 1, 2], [0, 1], [0, 2])
    )
    assert all_of_them == FederatedData.build(chosen, 3, 0, samples, CPU).fingerprint
    assert len({all_of_them, without, other}) == 3
    old = DataConfig(partition="iid", statistics="all")
    assert FederatedData.build(old, 3, 0, samples, CPU, measured=[0, 1]).fingerprint == all_of_them
