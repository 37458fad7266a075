"""A list that typed letters narrow."""

import pytest
from textual.widgets.option_list import Option

from tests.app.widgets.stage import on_stage
from tui.app.dialogs.base import Options

METHODS = [
    Option("FedGH", id="fedgh"),
    Option("FedGen", id="fedgen", disabled=True),
    Option("FedProto", id="fedproto"),
    Option("FedProx", id="fedprox"),
    Option("Standalone", id="standalone"),
]
ALL = [option.id for option in METHODS]
NARROWED = {
    "f e d p": ["fedproto", "fedprox"],  # the best fits
    "backspace": ["fedgh", "fedproto", "fedprox"],
    "backspace backspace backspace": ALL,
    "f x": ["fedprox"],  # spread letters
    "S": ["standalone"],  # anew, as nothing has fxs; a capital
    "backspace f g": ["fedgh"],
    "backspace backspace q": ALL,  # nothing has it
}


@pytest.mark.long
def test_letters_narrow_a_list_and_backspace_takes_them_back():
    listed = Options(*METHODS)

    async def act(pilot):
        listed.focus()
        listed.highlighted = 0
        for keys, left in NARROWED.items():
            await pilot.press(*keys.split())
            assert [option.id for option in listed.options] == left, keys
        await pilot.press("s")
        assert listed.highlighted_option.id == "standalone"
        await pilot.press("backspace")
        assert listed.highlighted_option.id == "standalone"  # also among all

    on_stage(listed, act)
