"""Typing in a list leads to the first line that can be chosen and begins so."""

import pytest
from textual.widgets.option_list import Option

from tests.app.widgets.stage import on_stage
from tui.app.dialogs import choose
from tui.app.dialogs.choose import Options

METHODS = [
    Option("FedGH", id="fedgh"),
    Option("FedGen", id="fedgen", disabled=True),
    Option("FedProto", id="fedproto"),
    Option("FedProx", id="fedprox"),
    Option("Standalone", id="standalone"),
]


@pytest.mark.parametrize(
    ("keys", "led_to"),
    [
        ("fedprox", "fedprox"),
        ("fedp", "fedproto"),
        ("s", "standalone"),
        ("S", "standalone"),
        ("fedpross", "standalone"),
        ("q", "fedgh"),
        ("fedge", "fedgh"),
    ],
    ids=["all_of_it", "the_first", "one", "capital", "anew", "nothing", "not_one_that_cannot_be_chosen"],
)
def test_letters_lead_to_the_first_line_that_begins_with_them(keys, led_to):
    listed = Options(*METHODS)

    async def act(pilot):
        listed.focus()
        listed.highlighted = 0
        await pilot.press(*keys)
        assert listed.highlighted_option.id == led_to

    on_stage(listed, act)


def test_after_a_pause_a_letter_begins_anew(monkeypatch):
    monkeypatch.setattr(choose, "PAUSE", 0.0)
    listed = Options(*METHODS)

    async def act(pilot):
        listed.focus()
        await pilot.press(*"fs")
        assert listed.highlighted_option.id == "standalone"
        await pilot.press(*"st")
        assert listed.highlighted_option.id == "standalone"

    on_stage(listed, act)
