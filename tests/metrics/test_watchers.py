"""Watchers: each tells once, in the very round in which its condition is met, and again after it has ended."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.base.record import Notice, Record
from simulator.base.sections import EVERY, WatchConfig
from simulator.metrics.watchers import Watchers
from tests.analysis import runs


def watchers(name: str, tested: Sequence[int] | None = None, **options: Any) -> Watchers:
    of_it = {f"{name}_{key}": value for key, value in options.items()}
    return Watchers(WatchConfig(watchers=(name,), **of_it), tested)


def of_means(*means: float | None) -> list[Record]:
    return [runs.record(round, mean) for round, mean in enumerate(means, 1)]


def of_losses(*losses: float | None, **changes: Any) -> list[Record]:
    """One client, whose loss is the mean; None: it diverged."""
    return [
        runs.record(round, 0.5, loss={"mean": loss, "per_client": [loss]}, participants=[0])
        | {"diverged": [] if loss is not None else [0]}
        | changes
        for round, loss in enumerate(losses, 1)
    ]


def of_clients(*rounds: Sequence[float | None] | Mapping[str, float]) -> list[Record]:
    """The accuracies of clients in each round: of all, or of those that are named."""
    found = []
    for round, each in enumerate(rounds, 1):
        made = runs.record(round, 0.5, clients=[None] * 2)
        made["accuracy"] |= {"per_client": each}
        found.append(made | {"clients": 2})
    return found


def answering(*rounds: Mapping[int, Sequence[Sequence[int]]]) -> list[Record]:
    """The rows [class, samples, correct, answered] of the clients that are named in each round."""
    return [
        runs.record(round, 0.5)
        | {
            "evaluation": {
                "test": {"classes": {"per_client": {str(client): each[client] for client in each}}}
            }
        }
        for round, each in enumerate(rounds, 1)
    ]


def told(watching: Watchers, records: Sequence[Record]) -> dict[int, list[Notice]]:
    """The rounds with a notice."""
    found = {record["round"]: watching.after(record) for record in records}
    return {round: notices for round, notices in found.items() if notices}


def notice(watcher: str, message: str, *clients: int) -> Notice:
    return {"watcher": watcher, "message": message, "clients": list(clients)}


# The mean falls


def test_the_mean_falls_three_rounds_in_a_row_and_again_after_a_rise() -> None:
    """Falls: rounds 2, 3 | 5, 6, 7, 8 | 10, 11, 12."""
    records = of_means(0.5, 0.4, 0.3, 0.6, 0.5, 0.4, 0.3, 0.2, 0.3, 0.2, 0.1, 0.05)
    found = told(watchers("falling", rounds=3), records)
    assert found == {
        7: [notice("falling", "mean accuracy fell in 3 rounds in a row, from 60.0 % to 30.0 %")],
        12: [notice("falling", "mean accuracy fell in 3 rounds in a row, from 30.0 % to 5.0 %")],
    }


def test_a_single_fall_is_told_without_a_number() -> None:
    ((one,),) = told(watchers("falling", rounds=1), of_means(0.5, 0.4)).values()
    assert one["message"] == "mean accuracy fell from 50.0 % to 40.0 %"
    ((one,),) = told(watchers("losing", [100], rounds=1), of_means(0.5, 0.3)).values()
    assert one["message"] == "client 0 fell from 50.0 % to 30.0 %"


def test_an_equal_mean_ends_a_series_of_falls_and_a_round_without_a_mean_does_not() -> None:
    assert list(told(watchers("falling", rounds=2), of_means(0.5, 0.4, 0.4, 0.3))) == []
    assert list(told(watchers("falling", rounds=2), of_means(None, 0.5, 0.4, None, 0.3))) == [5]


# Divergence


def test_a_client_whose_loss_is_not_finite_is_told_until_it_trains_again() -> None:
    found = told(watchers("divergence"), of_losses(1.0, None, None, 1.0, None))
    notices = [notice("divergence", "client 0: its loss is not finite", 0)]
    assert found == {2: notices, 5: notices}


def test_the_loss_explodes_above_its_first_value_and_three_times_its_lowest() -> None:
    """6.0 is 3 times the lowest loss of 2, 6.1 is above that. 1.9 is far above 0.5, but below the first loss."""
    assert list(told(watchers("divergence"), of_losses(2.0, 6.0))) == []
    assert list(told(watchers("divergence"), of_losses(2.0, 0.5, 1.9))) == []
    found = told(watchers("divergence"), of_losses(2.0, 6.0, 6.1, 9.0, 2.0, 7.0))
    assert list(found) == [3, 6]
    words = "mean training loss is 6.1: above the first round (2) and above 3 times the lowest (2)"
    assert found[3][0] == notice("divergence", words)


def test_another_method_has_another_loss() -> None:
    records = [*of_losses(0.1, 0.1), *of_losses(0, 0, 5.0, 5.0, method="fedgh")[2:]]
    assert told(watchers("divergence"), records) == {}


# Plateau


def test_a_plateau_is_told_so_many_rounds_after_the_last_gain() -> None:
    """The last gain above 1 pp is in round 2: 50.9 % and 51.0 % are not more than 1 pp above 50.0 %."""
    records = of_means(0.4, 0.5, 0.509, 0.3, 0.51, 0.505)
    found = told(watchers("plateau", rounds=3, gain=0.0101), records)
    words = "mean accuracy has not exceeded 50.0 % (round 2) by more than 1.01 pp for 3 rounds"
    assert found == {5: [notice("plateau", words)]}


def test_small_gains_add_up_to_a_new_best() -> None:
    """Each round gains 0.4 pp, so that every third round is more than 1 pp above the last best."""
    rising = [0.3 + 0.004 * round for round in range(30)]
    assert told(watchers("plateau", rounds=3, gain=0.01), of_means(*rising)) == {}
    assert list(told(watchers("plateau", rounds=2, gain=0.01), of_means(*rising[:4]))) == [3]


def test_a_plateau_counts_from_the_round_in_which_the_method_began() -> None:
    records = [each | {"method": "fedgh"} if each["round"] > 2 else each for each in of_means(*[0.5] * 6)]
    assert list(told(watchers("plateau", rounds=3), records)) == [6]


# Collapse


def test_a_client_collapses_if_it_answers_a_minority_class_for_90_percent() -> None:
    """20 samples, 9 of class 1: 18 answers are 90 %. In round 3, half of the samples have the class."""
    nearly, rows = [[0, 11, 2, 3], [1, 9, 9, 17]], [[0, 11, 2, 2], [1, 9, 9, 18]]
    majority, few = [[0, 10, 0, 0], [1, 10, 10, 20]], [[0, 11, 0, 0], [1, 8, 8, 19]]
    records = answering({3: nearly}, {3: rows, 4: few}, {3: majority}, {3: rows}, {4: rows}, {3: rows})
    found = told(watchers("collapse"), records)
    assert list(found) == [2, 4, 5]
    words = "client 3 answers class 1 for 18 of 20 test samples, 9 of which have it"
    assert found[2] == [notice("collapse", words, 3)]
    assert found[5][0]["clients"] == [4]


def test_a_notice_describes_three_clients_and_lists_all() -> None:
    rows = [[0, 30, 0, 0], [1, 10, 10, 40]]
    ((one,),) = told(watchers("collapse"), answering(dict.fromkeys(range(5), rows))).values()
    assert one["clients"] == [0, 1, 2, 3, 4]
    words = "client 2 answers class 1 for 40 of 40 test samples, 10 of which have it; and 2 more"
    assert one["message"].endswith(words)


# A client that only loses


def test_a_client_that_stays_below_its_first_evaluation_is_told_when_that_is_significant() -> None:
    """0.6 → 0.4 of 40: −0.2 / √(2 · 0.25 / 40) = −1.79 errors. Of 60: −2.19."""
    records = of_clients([0.6, 0.6], [0.4, 0.4], [0.4, 0.4], [0.4, 0.4], [0.4, 0.7])
    assert told(watchers("losing", [40, 19], rounds=3), records) == {}
    found = told(watchers("losing", [60, 60], rounds=3), records)
    assert list(found) == [4]
    assert found[4][0] == notice(
        "losing",
        "client 0 is below its first evaluation for 3 rounds: 40.0 % after 60.0 %; "
        "client 1 is below its first evaluation for 3 rounds: 40.0 % after 60.0 %",
        0,
        1,
    )


def test_a_client_that_falls_in_each_of_three_evaluations_is_told_although_it_is_above_its_first() -> None:
    """Client 0 falls from 0.9 in rounds 3, 5, and 6. Round 4 repeats an evaluation. Client 1 rises in between."""
    records = of_clients([0.2, 0.2], [0.9, 0.9], [0.8, 0.8], [0.8, 0.8], [0.7, 0.85], [0.6, 0.6])
    found = told(watchers("losing", [100, 100], rounds=3), records)
    words = "client 0 fell in 3 evaluations in a row, from 90.0 % to 60.0 %"
    assert found == {6: [notice("losing", words, 0)]}


def test_it_is_told_again_only_after_the_client_has_recovered() -> None:
    """Client 0 is at its first evaluation in round 4."""
    lost = [0.2, 0.5]
    records = of_clients([0.6, 0.5], lost, lost, [0.6, 0.5], lost, [0.3, 0.5], lost)
    assert list(told(watchers("losing", [100, 100], rounds=2), records)) == [3, 6]


def test_records_may_name_only_the_clients_that_changed() -> None:
    records = of_clients({"1": 0.6}, {"0": 0.1, "1": 0.3}, {"0": 0.1}, {"1": 0.3})
    assert list(told(watchers("losing", [100, 100], rounds=2), records)) == [4]


def test_a_client_whose_data_change_begins_anew_and_counts_by_class_say_how_much_it_is_tested_on() -> None:
    """Round 3 changes client 0's data: it is tested on 30 samples from then on."""
    records = of_clients([0.9, 0.5], [0.9, 0.5], [0.5, 0.5], [0.5, 0.5], [0.1, 0.5])
    records[2] = records[2] | {"timeline": {"joined": [], "left": [], "data": [0], "present": 2}}
    watching = watchers("losing", [100, 100], rounds=1)
    assert told(watching, records) == {}
    classes = {"per_client": {"0": [[0, 30, 15, 15]]}}
    counted = [record | {"evaluation": {"test": {"classes": classes}}} for record in records]
    assert list(told(watchers("losing", [100, 100], rounds=1), counted)) == [5]


# All of them


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=60, unique=True))
def test_a_strictly_rising_run_with_falling_losses_is_left_alone(steps: list[int]) -> None:
    at_once = {"plateau_rounds": 1, "plateau_gain": 0.0, "falling_rounds": 1, "losing_rounds": 1}
    settings = EVERY.model_copy(update=at_once)
    records = of_means(*(step / 1000 for step in sorted(steps)))
    for record in records:
        loss = 1 / record["round"]
        record["loss"] = {"mean": loss, "per_client": [loss]}
    assert told(Watchers(settings, [1000]), records) == {}


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(1, 40))
def test_what_is_told_does_not_depend_on_where_the_run_was_resumed(means: list[float], at: int) -> None:
    settings = EVERY.model_copy(update={"plateau_rounds": 2, "falling_rounds": 2, "losing_rounds": 2})
    records = of_means(*means)
    whole = told(Watchers(settings, [50]), records)
    resumed = Watchers(settings, [50])
    told(resumed, records[:at])
    assert told(resumed, records[at:]) == {round: each for round, each in whole.items() if round > at}


def test_what_goes_on_is_told_again_to_whoever_asks_only_now() -> None:
    watching = Watchers(WatchConfig(watchers=("falling", "plateau"), falling_rounds=2, plateau_rounds=2))
    records = of_means(0.9, 0.8, 0.7, 0.6, 0.5)
    assert list(told(watching, records[:3])) == [3]
    watching.forget()
    (falling, plateau) = told(watching, records[3:4])[4]
    assert falling["message"] == "mean accuracy fell in 3 rounds in a row, from 90.0 % to 60.0 %"
    assert plateau["message"].endswith("for 3 rounds")
    assert told(watching, records[4:]) == {}


# Settings


def test_settings_without_effect_are_refused() -> None:
    for settings, fault in [
        ({"watchers": ["plateau"], "pause": ["falling"]}, "pause names 'falling', which does not watch"),
        (
            {"watchers": ["plateau"], "pause": ["plateau"], "stop": ["plateau"]},
            "'plateau' is in watch.pause and",
        ),
        ({"plateau_rounds": 3}, "plateau_rounds is for watcher 'plateau', which is off"),
        ({"watchers": ["nothing"]}, "should be 'falling'"),
    ]:
        with pytest.raises(ValueError, match=fault):
            WatchConfig(**settings)


def test_watchers_have_one_order_and_an_action_each() -> None:
    settings = WatchConfig(
        watchers=("collapse", "falling", "plateau"), pause=("collapse",), stop=("plateau",)
    )
    assert settings.watchers == ("falling", "plateau", "collapse")
    assert [settings.action(name) for name in settings.watchers] == ["log", "stop", "pause"]
