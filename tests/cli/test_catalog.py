"""`presets`, `methods`, `models`, `datasets`, `doctor`: what there is."""

import io
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import htfl_sim as hs
import presets
from simulator import methods
from simulator.base.nested import as_toml
from simulator.config import Config, cautions, idle, keys
from tests.analysis.runs import record
from tests.cli.conftest import Cli
from tui.cli import output
from tui.cli.machine import _terminal
from tui.cli.running import diverged


def test_presets_are_listed_under_every_table_that_printed_them(cli: Cli) -> None:
    page = cli("presets").out
    sections = {part.splitlines()[0]: part for part in page.strip().split("\n\n")}
    table = sections["FedLoRA, Table 3"].splitlines()
    assert "96.66 %" in next(line for line in table if "fedlora_htm5 " in line)
    assert {word for line in page.splitlines() for word in line.split()[:1]} >= set(presets.names())
    listed = {each["name"]: each for each in cli("presets", "--json").json()}
    assert list(listed) == presets.names()
    assert listed["fedlora_htm5"]["paper"][0]["accuracy"] == 96.66


def test_a_preset_is_shown_as_a_file_that_run_takes_in_the_profile_asked_for(cli: Cli) -> None:
    page = cli("presets", "fedlora_htm5").out
    assert "# FedLoRA, Table 3, FedLoRA, N=10 C=100%, CIFAR-10: 96.66 %" in page
    assert "\n# limit is not set\n" in page
    shown = Config.read(tomllib.loads(page))
    assert shown == Config.read(presets.load("fedlora_htm5").config | {"preset": "fedlora_htm5"})
    page = cli("presets", "fedssa_htm5", "--profile=authors").out
    assert "# --profile authors: LipingYi/FedSSA@0c53d04" in page
    named = {"preset": "fedssa_htm5", "profile": "authors"}
    expected = Config.read(presets.load("fedssa_htm5", "authors").config | named)
    assert Config.read(tomllib.loads(page)) == expected


PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    PLAIN | NUMBERS | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=8
)


@pytest.mark.long
@settings(max_examples=40)
@given(st.dictionaries(TEXT, VALUES))
def test_any_configuration_survives_toml_but_for_what_is_not_set(config: dict[str, Any]) -> None:
    config = without_null(config)
    assert tomllib.loads(as_toml(config)) == config


def without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_null(each) for key, each in value.items() if each is not None}
    return [without_null(each) for each in value if each is not None] if isinstance(value, list) else value


@pytest.mark.long
def test_methods_are_listed_with_their_needs_and_traffic(cli: Cli) -> None:
    listed = {each["name"]: each for each in cli("methods", "--json").json()}
    assert list(listed) == methods.names()
    assert listed["lg_fedavg"]["needs"] == methods.get("lg_fedavg").card.needs
    assert all(any(line.startswith(name) for line in cli("methods").out.splitlines()) for name in listed)


def test_a_method_is_shown_with_its_hyper_parameters_and_the_ranges_that_tuning_searches(cli: Cli) -> None:
    page, _, ranges = cli("methods", "fedlora").out.partition("htfl-sim tune")
    lines = {line.split()[0]: line for line in page.splitlines() if line}
    assert lines["mu"].split()[1] == "0.9" and "eq. 5" in lines["mu"]
    assert "(decomposed, direct)" in lines["structure"]
    found = {line.split()[0]: " ".join(line.split()[1:]) for line in ranges.splitlines()[1:] if line}
    assert found["training.lr"] == "log 0.001 … 0.3" and found["method.mu"] == "0.5 … 0.95"
    space = cli("methods", "fedlora", "--json").json()["space"]
    assert space["training.lr"] == {"kind": "log", "low": 0.001, "high": 0.3}
    assert space["method.mu"] == {"kind": "linear", "low": 0.5, "high": 0.95}
    assert space["method.hidden"] == {"kind": "choice", "options": [None, 20, 60, 120]}


def test_models_have_the_sizes_of_the_papers_table(cli: Cli) -> None:
    sizes = {each["name"]: each["bytes"] / 2**20 for each in cli("models", "htm5", "--json").json()["models"]}
    assert {name: round(size, 2) for name, size in sizes.items()} == {
        "cnn1": 10.00, "cnn2": 6.92, "cnn3": 5.04, "cnn4": 4.04, "cnn5": 2.56,
    }  # fmt: skip


def test_datasets_say_what_is_here(cli: Cli, tmp_path: Path) -> None:
    here = {each["name"]: each["here"] for each in cli("datasets", "--json").json()}
    assert here["digits"] and not here["cifar10"]
    assert cli("datasets", "digits", "--json").json()["train"] == 1442
    unknown = cli("datasets", "pamap2", "--json").json()
    assert unknown["train"] is None and unknown["test"] is None
    [row] = [line for line in cli("datasets").out.splitlines() if "PAMAP2" in line]
    assert " Monitoring – – 12 27×256 " in " ".join(row.split())
    assert cli("data", "check", "digits", "--json").json() == {"name": "digits", "sound": True, "files": []}
    assert "sound" in cli("data", "fetch", "digits").out


def test_doctor_says_what_is_there_and_what_is_missing(cli: Cli, tmp_path: Path) -> None:
    found = {each["what"]: each for each in cli("doctor", "--json").json()}
    assert found["torch"]["status"] == found["sessions folder"]["status"] == "ok"
    cifar10 = found["data cifar10"]
    assert cifar10["status"] == "missing" and "data fetch cifar10" in cifar10["detail"]
    (tmp_path / "file").write_text("")
    listed = cli("doctor", "--json", "--sessions-dir", tmp_path / "file").json()
    assert {each["what"]: each["status"] for each in listed}["sessions folder"] == "fault"


@pytest.mark.parametrize(
    ("offered", "status", "said"),
    [
        ({"color_system": "truecolor"}, "ok", "all of them"),
        ({"color_system": "256"}, "ok", "COLORTERM=truecolor says where a terminal has all"),
        ({"color_system": "standard"}, "ok", "TERM=xterm-256color"),
        ({"color_system": None}, "missing", "none (TERM=vt100)"),
        ({"color_system": "256", "no_color": True}, "missing", "none (NO_COLOR is set)"),
    ],
)
def test_doctor_says_which_colours_the_terminal_offers(
    offered: dict[str, Any], status: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "vt100")
    monkeypatch.setenv("NO_COLOR", "1" if offered.get("no_color") else "")
    console = Console(file=io.StringIO(), force_terminal=True, width=50, height=40, **offered)
    monkeypatch.setattr(output, "stderr", lambda: console)
    found = {each.what: each for each in _terminal()}
    assert found["colours"].status == status and said in found["colours"].detail
    assert found["terminal"].status == "missing"  # 50 columns are too few
    assert found["terminal"].detail.startswith("50×40; the app needs 60×16")


PATIENTS = "age,city,id,patient,sick\n" + "".join(
    f"{30 + n * 7 % 40},{'Oslo' if n % 2 else 'Rome'},{n * 5 % 13},p{n % 3},{'yes' if n % 2 else 'no'}\n"
    for n in range(12)
)


def test_a_path_shows_what_a_run_would_read(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(PATIENTS)
    given = ("--set=data.target=sick", "--set=data.client=patient", "--set=data.ignore=[id]")
    page = cli("datasets", str(tmp_path / "t.csv"), *given).out
    lines = [line.split(maxsplit=1) for line in page.splitlines()]
    assert lines == [
        ["samples", "12"],
        ["classes", "2: no (6), yes (6)"],
        ["users", "3: p0 (4), p1 (4), p2 (4)"],
        ["features", "2: age (numbers), city (2 texts)"],
        ["read", "separated by commas"],
        ["left", "out  id: data.ignore names it"],
    ]
    report = cli("datasets", str(tmp_path / "t.csv"), *given, "--json").json()
    assert report["classes"] == {"no": 6, "yes": 6} and report["left_out"] == {"id": "data.ignore names it"}


@pytest.mark.long
def test_the_table_of_models_is_what_their_code_gives() -> None:
    """After a change: write the rows that this finds into simulator/models/cards.csv."""
    from htfl_sim.catalog import _of_model, model_table
    from simulator import models

    table = model_table()
    assert [_of_model(each.name) for each in table] == table
    assert [each for each in models.names() if ":" not in each][: len(table)] == [each.name for each in table]


# `config`, `partition`, `run --dry-run`, filters, hints, and settings that cannot act


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


def test_clients_of_the_quickstart_have_enough_test_samples_to_be_judged(cli: Cli) -> None:
    for seed in range(3):
        rows = cli("partition", "quickstart", "--set", f"seed={seed}", "--json").json()
        tested = [sum(row["test"] for row in rows if row["client"] == client) for client in range(10)]
        assert sum(each >= 20 for each in tested) >= 8 and sum(tested) > 500  # of 1,797


def test_a_setting_that_cannot_act_is_said_aloud_when_a_program_or_file_has_it() -> None:
    config = hs.preset(data__partition="iid", data__alpha=0.1)
    assert [each.split(" =")[0] for each in idle(config)] == ["data.alpha"]
    assert idle(config.with_(data__partition="dirichlet")) == []
    assert idle(hs.preset("fedlora_htm5")) == []
    config = hs.preset(data__partition="iid", data__shards_per_client=1)
    assert [each.split(" =")[0] for each in idle(config)] == ["data.shards_per_client"]
    divided = [{"round": 2, "event": "data", "partition": "shards"}]  # an event may read it
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


def test_a_run_in_which_every_client_diverged_says_so() -> None:
    def said(*rounds: list[int]) -> str:
        named = {"participants": [0, 1]}
        return str(diverged([record(n, 0.5, **named, diverged=each) for n, each in enumerate(rounds, 1)]))

    assert said([], []) == "None"
    assert "1 client in 1 round of 2" in said([1], [])
    assert "every client in the last round, and in 1 of 2" in said([], [0, 1])
    assert "every client in every round" in said([0, 1], [0, 1])
