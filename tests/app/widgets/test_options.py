"""Typing in a list narrows it to the lines that fit, the best first."""

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


@pytest.mark.parametrize(
    ("keys", "left"),
    [
        (["fedprox"], ["fedprox"]),
        (["fedp"], ["fedproto", "fedprox"]),
        (["fx"], ["fedprox"]),
        (["S"], ["standalone"]),
        (["fedpross"], ["standalone"]),
        (["fg"], ["fedgh"]),
        (["fedp", "backspace"], ["fedgh", "fedproto", "fedprox"]),
    ],
    ids=["all_of_it", "the_best", "spread", "capital", "anew", "no_disabled_one", "one_letter_less"],
)
def test_letters_narrow_a_list(keys: list[str], left: list[str]) -> None:
    listed = Options(*METHODS)

    async def act(pilot):
        listed.focus()
        listed.highlighted = 0
        for each in keys:
            await pilot.press(*([each] if each == "backspace" else each))
        assert [option.id for option in listed.options] == left
        assert listed.highlighted == 0

    on_stage(listed, act)


def test_letters_that_fit_nothing_change_nothing_and_backspace_returns_to_all() -> None:
    listed = Options(*METHODS)

    async def act(pilot):
        listed.focus()
        listed.highlighted = 0
        await pilot.press("q")
        assert [option.id for option in listed.options] == [option.id for option in METHODS]
        await pilot.press("s")
        assert listed.highlighted_option.id == "standalone"
        await pilot.press("backspace")
        assert [option.id for option in listed.options] == [option.id for option in METHODS]
        assert listed.highlighted_option.id == "standalone"

    on_stage(listed, act)
