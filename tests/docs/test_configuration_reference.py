"""The reference made from the code: nothing missing, nothing misread."""

from typing import Literal

import pytest
from pydantic import Field

from docsite import configuration
from simulator import methods
from simulator.base.nested import flattened
from simulator.base.sections import Section
from simulator.config import Config


@pytest.fixture(scope="module")
def reference() -> str:
    return configuration.reference()


class Example(Section):
    """What it is.

    More of it.
    """

    share: float = Field(0.5, gt=0, le=1, description="of |x|")
    many: int | None = Field(None, ge=1, description="how many; default: all")
    kind: Literal["a", "b"] | tuple[str, ...] = Field("a", description="which")
    seed: int = Field(0, ge=0, lt=2**63, description="of draws")


def test_a_section_is_written_as_a_table_of_keys_types_defaults_and_meanings() -> None:
    assert configuration.table(configuration.rows(Example, "example")) == (
        "| key | type | default | meaning |\n"
        "|---|---|---|---|\n"
        "| `example.share` | number > 0 and ≤ 1 | `0.5` | of \\|x\\| |\n"
        "| `example.many` | whole number ≥ 1 | not set | how many; default: all |\n"
        '| `example.kind` | `"a"`, `"b"` or list of text | `"a"` | which |\n'
        "| `example.seed` | whole number ≥ 0 | `0` | of draws |\n"
    )


def test_a_section_whose_source_does_not_stand_alone_has_no_texts() -> None:
    class Inside(Section):
        """Its text goes on
at the margin."""  # fmt: skip

        share: float = 0.5
        """Of all."""

    assert Inside.meanings() == {"share": ""}


def test_every_key_of_a_run_is_in_it(reference: str) -> None:
    keys = flattened(Config.read({"method": {"name": "standalone"}}).to_json())
    assert [key for key in keys if f"`{key}`" not in reference] == ["preset", "profile"]


@pytest.mark.parametrize("name", methods.names())
def test_every_option_of_every_method_is_under_its_name(name: str, reference: str) -> None:
    section = reference.partition(f"### [{name}](methods/{name}.md)\n")[2].partition("###")[0]
    options = [key for key in methods.get(name).Config.model_fields if key != "name"]
    assert [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")] == [
        f"method.{key}" for key in options
    ]


def test_every_key_says_what_it_means() -> None:
    own = [row for name in methods.names() for row in configuration.rows(methods.get(name).Config, name)]
    shared = [row for name, section in configuration.sections() for row in configuration.rows(section, name)]
    assert [key for key, *_, meaning in [*configuration.whole_run(), *shared, *own] if not meaning] == []


def test_the_ranges_that_tuning_searches_are_below_the_keys(reference: str) -> None:
    section = reference.partition("### [fedproto](methods/fedproto.md)\n")[2].partition("###")[0]
    assert section.rstrip().endswith("[`htfl-sim tune`](tuning.md) searches `method.lam` log 0.01 … 10.")
    training = reference.partition("## training\n")[2].partition("## ")[0]
    assert "`training.lr` log 0.001 … 0.3; `training.clip` none | 1.0 | 10.0" in training
    assert reference.count("[`htfl-sim tune`]") == 1 + sum(
        bool(methods.get(name).Config.space) for name in methods.names()
    )


def test_the_page_of_a_method_gets_its_needs_messages_and_options() -> None:
    made = configuration.method("fedrep").splitlines()
    assert made[2:5] == [
        "| needs | nothing; groups of one architecture average apart |",
        "| downlink | model without its head |",
        "| uplink | model without its head |",
    ]
    assert any(line.startswith("| `method.head_epochs` | whole number ≥ 1 | `10` |") for line in made)
    assert "[`htfl-sim tune`](../tuning.md) searches `method.head_epochs`" in made[-1]
