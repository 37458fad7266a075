"""A user's own table: numbers, texts as columns, classes, and users. Bad files end in a sentence."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from htfl_sim.configuring import Choices
from simulator.base.data_section import DataConfig
from simulator.base.errors import ConfigError, DataError
from simulator.data import datasets, partition, words
from simulator.data.samples import ArraySet
from tests import federations

ROWS = "age,city,sick,patient\n30,Rome,yes,b\n41,Oslo,no,a\n5,Rome,no,b\n"
OF_ROWS = DataConfig(target="sick", client="patient")


def read(folder: Path, text: str | bytes, columns: DataConfig = OF_ROWS, name: str = "t.csv") -> ArraySet:
    file = folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    samples = federations.formed(datasets.load(str(file), folder, config=columns))
    assert isinstance(samples, ArraySet)
    return samples


def test_numbers_stay_and_texts_become_a_column_for_each_value(tmp_path: Path) -> None:
    samples = read(tmp_path, ROWS)
    assert samples.names == ("age", "city = Oslo", "city = Rome")
    assert samples.values.tolist() == [[30, 0, 1], [41, 1, 0], [5, 0, 1]]
    assert samples.classes == ("no", "yes") and samples.labels.tolist() == [1, 0, 0]
    assert samples.users == ("b", "a") and samples.user is not None and samples.user.tolist() == [0, 1, 0]


def test_columns_can_be_left_out(tmp_path: Path) -> None:
    samples = read(tmp_path, ROWS, DataConfig(target="sick", ignore=("city", "patient")))
    assert samples.values.tolist() == [[30], [41], [5]] and samples.user is None


def test_classes_that_are_numbers_keep_their_order(tmp_path: Path) -> None:
    samples = read(tmp_path, "x,y\n1,10\n2,9\n3,10\n", DataConfig(target="y"))
    assert samples.classes == ("9", "10") and samples.labels.tolist() == [1, 0, 1]


def test_wrong_columns_are_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for case, (columns, message) in enumerate(
        [
            (
                DataConfig(),
                "nothing says which column holds the classes. Set data.target to one of age, city, sick, patient",
            ),
            (
                DataConfig(target="sik"),
                "data.target is 'sik', and .* has no such column. Did you mean 'sick'",
            ),
            (DataConfig(target="sick", client="who"), "data.client is 'who'"),
            (DataConfig(target="sick", ignore=("none",)), "data.ignore is 'none'"),
            (DataConfig(target="sick", client="sick"), "both 'sick'"),
        ]
    ):
        with subtests.test(case=case):
            place = tmp_path / str(case)
            place.mkdir()
            with pytest.raises(ConfigError, match=message):
                read(place, ROWS, columns)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a," * 1_000_000 + "sick\n", "more than 10,000 columns"),
        (b"PAR1\x00\x00,\x00sick\n1,2\n", "zero bytes"),
    ],
)
def test_a_damaged_table_ends_in_a_sentence(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as refused:
        read(tmp_path, text, DataConfig(target="sick"))
    assert str(tmp_path / "t.csv") in str(refused.value)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_end_in_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    for name in ("t.csv", "t.parquet"):
        try:
            read(tmp_path_factory.mktemp("any"), data, DataConfig(target="sick"), name)
        except (DataError, ConfigError) as sentence:
            assert str(sentence).endswith(".")


# One user per client


def test_small_users_are_joined_with_the_next_small_ones() -> None:
    # Users 1, 2, and 4 have fewer than 5: 1 and 2 reach 5 together, and 4 is left over and joins them.
    assert partition.groups_of_users([7, 2, 3, 9, 4], 5) == [[0], [1, 2, 4], [3]]
    assert partition.groups_of_users([7, 2], 5) == [[0, 1]]
    assert partition.groups_of_users([2, 2], 5) == []


def test_each_client_holds_one_user() -> None:
    user = np.array([0, 1, 0, 1, 2, 2, 0])
    held = partition.natural(user, 3, 2, np.random.default_rng(0))
    assert [each.tolist() for each in held] == [[0, 2, 6], [1, 3], [4, 5]]


def test_random_users_are_chosen_if_there_are_more_than_clients() -> None:
    user = np.repeat(np.arange(20), 3)
    held = [partition.natural(user, 2, 3, np.random.default_rng(seed)) for seed in range(20)]
    assert all(len(set(user[each])) == 1 for pair in held for each in pair)
    assert len({tuple(each.tolist()) for pair in held for each in pair}) > 10


def test_more_clients_than_users_are_refused_with_the_number_that_works() -> None:
    with pytest.raises(DataError, match="Use `clients=3`"):
        partition.natural(np.array([0, 0, 1, 1, 2, 2]), 4, 2, np.random.default_rng(0))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(1, 20))
def test_groups_hold_every_user_once_and_enough_samples(sizes: list[int], least: int) -> None:
    groups = partition.groups_of_users(sizes, least)
    members = [user for group in groups for user in group]
    assert len(members) == len(set(members))
    assert all(sum(sizes[user] for user in group) >= least for group in groups)
    if sum(sizes) >= least:
        assert sorted(members) == list(range(len(sizes)))


# A column of texts

REVIEWS = "review,stars,verdict,who\nGood film,5,good,b\nBad bad film,1,bad,a\n"


def test_a_column_of_texts_becomes_tokens(tmp_path: Path) -> None:
    samples = read(tmp_path, REVIEWS, DataConfig(target="verdict", client="who", text="review"))
    # The most frequent words first, then in the order of the alphabet: bad 2, film 3, good 4.
    assert samples.spec == words.SPEC and samples.names == ("", "<?>", "bad", "film", "good")
    assert samples.values[:, :4].tolist() == [[4, 3, 0, 0], [2, 2, 3, 0]]
    assert samples.classes == ("bad", "good") and samples.labels.tolist() == [1, 0]
    assert samples.users == ("b", "a")


def test_the_kind_follows_from_the_column_of_texts(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(REVIEWS)
    assert datasets.kind_of(str(file)) == "table"
    assert datasets.kind_of(str(file), DataConfig(target="verdict", text="review")) == "tokens"
    assert datasets.declared(str(file), DataConfig(target="verdict", text="review")) == words.SPEC


def test_a_wrong_column_of_texts_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for case, (columns, message) in enumerate(
        [
            (
                DataConfig(target="verdict", text="reviews"),
                "data.text is 'reviews', .* Did you mean 'review'",
            ),
            (DataConfig(target="verdict", text="verdict"), "data.text and data.target are both 'verdict'"),
            (
                DataConfig(target="verdict", client="who", text="who"),
                "data.text and data.client are both 'who'",
            ),
            (DataConfig(target="verdict", text="review", ignore=("stars",)), "data.ignore changes nothing"),
        ]
    ):
        with subtests.test(case=case):
            place = tmp_path / str(case)
            place.mkdir()
            with pytest.raises(ConfigError, match=message):
                read(place, REVIEWS, columns)


def test_a_run_without_a_preset_takes_the_models_of_texts_and_one_client_per_user(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("review,verdict,who\n" + "".join(f"text {n},{n % 2},user{n % 3}\n" for n in range(30)))
    given = [f"data.{key}" for key in ("text=review", "target=verdict", "client=who", "min_samples=10")]
    config = Choices(dataset=str(file), assignments=given).read()
    assert config.preset == "quickstart_text" and config.data.text == "review"
    assert config.data.partition == "natural" and config.federation.clients == 3
