"""All settings of a session beside those of another."""

from simulator.results.analysis.comparison import Setting, described

OWN = {"rounds": 20, "training": {"lr": 0.01, "epochs": 5}, "method": {"name": "fedlora", "mu": 0.9}}


def test_settings_that_differ_come_first_and_the_others_in_their_order() -> None:
    other = {"rounds": 20, "training": {"lr": 0.05, "epochs": 5}, "method": {"name": "fedssa", "rank": 4}}
    assert described(OWN, other) == [
        Setting("training.lr", 0.01, 0.05, True),
        Setting("method.name", "fedlora", "fedssa", True),
        Setting("method.mu", 0.9, None, True),
        Setting("method.rank", None, 4, True),
        Setting("rounds", 20, 20, False),
        Setting("training.epochs", 5, 5, False),
    ]


def test_without_another_nothing_differs() -> None:
    found = described(OWN)
    assert [each.name for each in found] == [
        "rounds", "training.lr", "training.epochs", "method.name", "method.mu",
    ]  # fmt: skip
    assert not any(each.differs for each in found)
