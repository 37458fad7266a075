"""`presets`, `methods`, `models`, `datasets`, `doctor`: what there is."""

import io
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import presets
from simulator import methods
from simulator.base.nested import as_toml
from simulator.config import Config
from tests.cli.conftest import Cli
from tui.cli import output
from tui.cli.machine import _terminal


def test_presets_are_listed_under_every_table_that_printed_them(cli: Cli) -> None:
    page = cli("presets").out
    sections = {part.splitlines()[0]: part for part in page.strip().split("\n\n")}
    assert "96.66 %" in next(
        line for line in sections["FedLoRA, Table 3"].splitlines() if "fedlora_htm5 " in line
    )
    assert {word for line in page.splitlines() for word in line.split()[:1]} >= set(presets.names())


def test_presets_as_json_are_all_presets_with_the_papers_numbers(cli: Cli) -> None:
    listed = {each["name"]: each for each in cli("presets", "--json").json()}
    assert list(listed) == presets.names()
    assert listed["fedlora_htm5"]["paper"][0]["accuracy"] == 96.66


def test_a_preset_is_shown_as_a_file_that_run_takes(cli: Cli) -> None:
    page = cli("presets", "fedlora_htm5").out
    assert "# FedLoRA, Table 3, FedLoRA, N=10 C=100%, CIFAR-10: 96.66 %" in page
    shown = Config.read(tomllib.loads(page))
    assert shown == Config.read(presets.load("fedlora_htm5").config | {"preset": "fedlora_htm5"})


def test_a_preset_is_shown_in_the_profile_asked_for_with_its_source(cli: Cli) -> None:
    page = cli("presets", "fedssa_htm5", "--profile=authors").out
    assert "# --profile authors: LipingYi/FedSSA@0c53d04" in page
    shown = Config.read(tomllib.loads(page))
    named = {"preset": "fedssa_htm5", "profile": "authors"}
    assert shown == Config.read(presets.load("fedssa_htm5", "authors").config | named)


PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    PLAIN | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=8
)


@pytest.mark.long
@settings(max_examples=40)
@given(st.dictionaries(TEXT, VALUES))
def test_any_configuration_survives_toml_but_for_what_is_not_set(config: dict[str, Any]) -> None:
    config = without_null(config)
    assert tomllib.loads(as_toml(config)) == config


def test_a_key_that_is_not_set_is_a_comment() -> None:
    text = as_toml({"data": {"limit": None, "alpha": 0.5}})
    assert text.splitlines() == ["", "[data]", "# limit is not set", "alpha = 0.5"]


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


def test_a_method_is_shown_with_its_hyper_parameters(cli: Cli) -> None:
    page = cli("methods", "fedlora").out
    mu = next(line for line in page.splitlines() if line.startswith("mu "))
    assert mu.split()[1] == "0.9" and "eq. 5" in mu
    assert "(decomposed, direct)" in next(line for line in page.splitlines() if line.startswith("structure "))


def test_a_method_is_shown_with_the_ranges_that_tuning_searches(cli: Cli) -> None:
    ranges = cli("methods", "fedlora").out.partition("htfl-sim tune")[2]
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


def test_an_unknown_name_is_refused_with_the_nearest(cli: Cli) -> None:
    for command, wrong, near in (
        ("presets", "fedgh_htm", "fedgh_htm5"),
        ("methods", "fedhg", "fedgh"),
        ("models", "cnn9", "cnn"),
        ("datasets", "cifar11", "cifar1"),
        ("data", "fetch cifar11", "cifar1"),
    ):
        result = cli(command, *wrong.split())
        assert result.code == 2 and near in result.err, command


def test_datasets_say_what_is_here(cli: Cli, tmp_path: Path) -> None:
    here = {each["name"]: each["here"] for each in cli("datasets", "--json").json()}
    assert here["digits"] and not here["cifar10"]
    assert cli("datasets", "digits", "--json").json()["train"] == 1442
    unknown = cli("datasets", "pamap2", "--json").json()
    assert unknown["train"] is None and unknown["test"] is None
    [row] = [line for line in cli("datasets").out.splitlines() if "PAMAP2" in line]
    assert " Monitoring – – 12 27×256 " in " ".join(row.split())


def test_checking_digits_finds_them_sound(cli: Cli) -> None:
    assert cli("data", "check", "digits", "--json").json() == {"name": "digits", "sound": True, "files": []}
    assert "sound" in cli("data", "fetch", "digits").out


def test_doctor_says_what_is_there_and_what_is_missing(cli: Cli, tmp_path: Path) -> None:
    found = {each["what"]: each for each in cli("doctor", "--json").json()}
    assert found["torch"]["status"] == found["sessions folder"]["status"] == "ok"
    assert (
        found["data cifar10"]["status"] == "missing"
        and "data fetch cifar10" in found["data cifar10"]["detail"]
    )


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


def test_doctor_finds_a_sessions_folder_that_cannot_be(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = {
        each["what"]: each for each in cli("doctor", "--json", "--sessions-dir", tmp_path / "file").json()
    }
    assert found["sessions folder"]["status"] == "fault"


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


def test_settings_of_a_named_data_set_are_refused(cli: Cli) -> None:
    result = cli("datasets", "digits", "--set=data.target=y")
    assert result.code == 2 and "--set describes your own data" in result.err


@pytest.mark.long
def test_the_table_of_models_is_what_their_code_gives() -> None:
    """After a change: write the rows that this finds into simulator/models/cards.csv."""
    from htfl_sim.catalog import _of_model, model_table
    from simulator import models

    table = model_table()
    assert [_of_model(each.name) for each in table] == table
    assert [each for each in models.names() if ":" not in each][: len(table)] == [each.name for each in table]
