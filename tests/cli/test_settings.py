"""`config`, `partition`, `run --dry-run`, filters, hints, and settings that cannot act."""

from pathlib import Path

import pytest

import htfl_sim as hs
from simulator.config import cautions, idle, keys
from tests.cli.conftest import TINY, Cli
from tests.cli.test_bad_input import assert_refused
from tui.cli.running import diverged

TINY_PARTITION = ("--set=data.limit=200", "--set=federation.clients=2", "--set=data.partition=pathological")


def test_every_key_is_listed_with_what_it_takes_and_its_default(cli: Cli) -> None:
    listed = {each["key"]: each for each in cli("config", "--json").json()}
    assert list(listed) == keys()
    assert listed["training.lr"]["takes"] == "number, > 0" and listed["training.lr"]["default"] == 0.01
    assert listed["data.partition"]["takes"].startswith("pathological | dirichlet | iid")
    assert listed["training.clip"]["default"] is None


@pytest.mark.long
def test_a_key_of_methods_is_shown_for_each_meaning_it_has(cli: Cli) -> None:
    found = {tuple(each["methods"]): each for each in cli("config", "method.mu", "--json").json()}
    assert found[("fedlora",)]["default"] == 0.9
    assert ("fedprox", "inco_prox") in found


def test_a_key_that_is_not_there_names_the_one_that_is(cli: Cli) -> None:
    assert_refused(cli("config", "lr"), 2, "'lr'", "'training.lr'")


def test_the_partition_of_a_session_is_a_table_of_class_by_client(cli: Cli, done: Path) -> None:
    header, *rows = cli("partition", "done").out.splitlines()
    assert header.split() == ["class", "0", "1", "2", "3", "all"]
    sizes = {" ".join(row.split()[:2]): [int(each) for each in row.split()[2:]] for row in rows[-3:]}
    assert sum(sizes[f"all {part}"][-1] for part in ("train", "eval", "test")) == 200
    assert all(sum(counts[:-1]) == counts[-1] for counts in sizes.values())


def test_the_partition_of_a_preset_is_that_of_its_settings(cli: Cli) -> None:
    rows = cli("partition", "quickstart", *TINY_PARTITION, "--json").json()
    held = [{row["label"] for row in rows if row["client"] == k and row["train"]} for k in (0, 1)]
    assert [len(classes) for classes in held] == [2, 2]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_clients_of_the_quickstart_have_enough_test_samples_to_be_judged(cli: Cli, seed: int) -> None:
    rows = cli("partition", "quickstart", "--set", f"seed={seed}", "--json").json()
    tested = [sum(row["test"] for row in rows if row["client"] == client) for client in range(10)]
    assert sum(each >= 20 for each in tested) >= 8 and sum(tested) > 500  # of 1,797


def test_a_dry_run_checks_everything_and_writes_nothing(cli: Cli, sessions: Path) -> None:
    result = cli("run", *TINY, "--session=mine", "--dry-run")
    assert result.code == 0 and "data, models and method fit" in result.out
    refused = cli(
        "run", *TINY, "--dry-run", "--method=lg_fedavg", '--set=federation.group=["cnn5", "tiny_cnn"]'
    )
    assert_refused(refused, 2, "lg_fedavg", "client 1 (tiny_cnn)")
    assert not sessions.exists()


def test_an_option_that_is_a_setting_is_answered_with_the_set_that_does_it(cli: Cli) -> None:
    for key in ("training.lr", "training.epochs", "federation.participation"):
        assert_refused(cli("run", f"--{key.split('.')[1]}=1"), 2, f"--set {key}=VALUE")


def test_rounds_that_are_done_already_are_answered_with_an_option_that_exists(cli: Cli, done: Path) -> None:
    assert_refused(cli("resume", "done", "--rounds=2"), 2, "has 3 rounds already", "--rounds 13")


def test_a_setting_that_cannot_act_is_refused_when_it_is_asked_for(cli: Cli, sessions: Path) -> None:
    assert_refused(
        cli("run", *TINY, "--set=data.alpha=0.1"),
        2,
        "data.alpha = 0.1 changes nothing",
        "'dirichlet'",
        "'iid'",
    )
    assert not sessions.exists()


def test_a_setting_that_cannot_act_is_said_aloud_when_a_program_or_file_has_it() -> None:
    config = hs.preset(data__partition="iid", data__alpha=0.1)
    assert [each.split(" =")[0] for each in idle(config)] == ["data.alpha"]
    assert idle(config.with_(data__partition="dirichlet")) == []
    assert idle(hs.preset("fedlora_htm5")) == []


@pytest.mark.parametrize(("set_", "read"), [("data.quantity", "lognormal"), ("data.partition", "shards")])
def test_keys_of_a_partition_or_quantity_are_refused_without_it_even_with_their_default(
    cli: Cli, set_: str, read: str
) -> None:
    given = {"lognormal": "--set=data.sigma=0.3", "shards": "--set=data.shards_per_client=2"}[read]
    assert_refused(cli("run", *TINY, given, "--dry-run"), 2, f"changes nothing: it is for {set_} = '{read}'")
    assert cli("run", *TINY, given, f"--set={set_}={read}", "--dry-run").code == 0


def test_a_key_that_only_an_event_reads_can_act() -> None:
    config = hs.preset(data__partition="iid", data__shards_per_client=1)
    assert [each.split(" =")[0] for each in idle(config)] == ["data.shards_per_client"]
    divided = [{"round": 2, "event": "data", "partition": "shards"}]
    assert idle(config.with_(federation__timeline=divided)) == []


@pytest.mark.parametrize("method", ["heterofl", "fedrolex"])
def test_masked_answers_on_test_images_of_all_classes_are_warned_of_with_what_to_type(method: str) -> None:
    config = hs.preset("widths_heterofl_two_labels").with_(method={"name": method, "mask_answers": True})
    (sentence,) = cautions(config)
    assert "method.mask_answers = true" in sentence and "method.mask_answers=false" in sentence
    assert cautions(config.with_(method__mask_answers=False)) == []
    assert cautions(config.with_(data__split="8:1:1")) == []


def test_sessions_are_listed_by_method_data_and_state(cli: Cli, done: Path) -> None:
    assert [each["name"] for each in cli("sessions", "--method=fedlora", "--json").json()] == ["done"]
    assert cli("sessions", "--method=fedgh", "--json").json() == []
    assert cli("sessions", "--state=stopped", "--json").json() == []
    assert "None of the 1 sessions" in cli("sessions", "--dataset=cifar10").err


def test_presets_are_listed_by_paper_method_and_data(cli: Cli) -> None:
    listed = cli("presets", "--paper=fedgh", "--method=fedgh", "--dataset=cifar10", "--json").json()
    assert "fedgh_htm5" in {each["name"] for each in listed}
    assert all("FedGH" in {place["paper"] for place in each["paper"]} for each in listed)
    page = cli("presets", "--paper=fedgh", "--method=fedgh").out
    assert "fedgh_htm5" in page and "fedlora_htm5" not in page and "Of no paper" not in page


def record(round: int, diverged: list[int]) -> dict[str, object]:
    return {"round": round, "participants": [0, 1], "diverged": diverged}


def test_a_run_in_which_every_client_diverged_says_so() -> None:
    assert diverged([record(1, []), record(2, [])]) is None
    assert "1 client in 1 round of 2" in str(diverged([record(1, [1]), record(2, [])]))
    assert "every client in the last round, and in 1 of 2" in str(
        diverged([record(1, []), record(2, [0, 1])])
    )
    assert "every client in every round" in str(diverged([record(1, [0, 1]), record(2, [0, 1])]))
