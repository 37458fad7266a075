"""The table's numbers, derived by hand."""

import csv
import json
from dataclasses import replace
from typing import Any

import pytest

import presets
from simulator.base.errors import ConfigError
from simulator.base.nested import merged
from simulator.base.sections import SelectionConfig
from simulator.results.analysis.axes import Difference, MeanStd, group_label, paired
from simulator.results.analysis.caveats import defaults, rows_differ
from simulator.results.analysis.comparison import STD, Row, table
from simulator.results.analysis.run import SessionData
from tests.analysis.runs import chosen, clocked, of, record, run

approx = pytest.approx

THREE = [
    *(run(f"a{seed}", [0.5 + seed / 10, best, last], seed) for seed, best, last in (
        (0, 0.90, 0.80), (1, 0.70, 0.84), (2, 0.60, 0.88),
    )),
    *(run(f"b{seed}", [0.3, last], seed, "standalone") for seed, last in enumerate((0.78, 0.80, 0.82))),
]  # fmt: skip


def row(runs: list[SessionData], label: str = "fedlora", **options: object) -> Row:
    return next(each for each in table(runs, "method", **options).rows if each.label == label)


def test_mean_and_sample_standard_deviation_are_over_seeds() -> None:
    last = row(THREE).last
    assert last is not None and last.n == 3
    assert (last.mean, last.std) == (approx(0.84), approx(0.04))  # √((0.04² + 0 + 0.04²) / 2), n − 1 below
    best = row(THREE).best
    assert best is not None and best.mean == approx((0.90 + 0.84 + 0.88) / 3)


def test_the_difference_is_paired_by_seed_with_students_interval() -> None:
    # 0.02, 0.04, 0.06: mean 0.04, std 0.02; t(0.975; 2) = 4.302653; 4.302653 · 0.02 / √3 = 0.0496828
    found = row(THREE, baseline="standalone").difference
    assert found is not None and found.pairs == 3
    assert found.mean == approx(0.04)
    assert found.interval == (approx(-0.0096828, abs=1e-7), approx(0.0896828, abs=1e-7))
    assert row(THREE, "standalone", baseline="standalone").difference is None


def test_only_seeds_that_both_have_are_paired_and_one_pair_has_no_interval() -> None:
    assert paired({0: 0.5, 7: 0.9}, {0: 0.25, 8: 0.1}) == Difference(0.25, None, 1)
    assert paired({0: 0.5}, {1: 0.5}) is None
    # Two sessions of one seed are not paired.
    assert row([*THREE, run("again", [0.5, 0.5, 0.5], 0)], baseline="standalone").difference is None


def test_a_target_costs_what_was_spent_until_it_or_at_least_that_where_some_seeds_missed_it() -> None:
    """Round 2 of a0 has 0.9. a1 and a2 reach 0.84 in round 3, and 0.89 never. A round is 150 B, 7 operations, 2 s."""
    for target, reached in ((0.84, 3), (0.89, 1)):
        found = row(THREE, target=target)
        assert (found.reached, found.n, found.at_least) == (reached, 3, reached < 3)
        for name, each in {"rounds": 1, "bytes": 150, "flops": 7, "seconds": 2}.items():
            std = approx(each * 3**-0.5) if reached == 3 else None
            assert found.costs[name] == MeanStd(approx(each * 8 / 3), std, 3)


def test_a_lower_bound_is_marked_in_every_form_of_the_table() -> None:
    result = table(THREE[:3], "method", target=0.89)
    assert "| 1 of 3 | ≥ 2.6 | ≥ 400 B | ≥ 19 | ≥ 5 s |" in result.to_markdown()
    assert r"1 of 3 & $\geq$ 2.6 & $\geq$ 400 B & $\geq$ 19 & $\geq$ 5 s" in result.to_latex()
    assert result.to_json()["rows"][0]["at_least"] is True
    assert next(csv.DictReader(result.to_csv().splitlines()))["at_least"] == "True"
    assert result.remarks()[0].startswith("≥ is a lower bound")
    reached = table(THREE[:3], "method", target=0.84)
    assert not reached.rows[0].at_least and "≥" not in reached.to_markdown()
    assert "| 0 of 3 | ≥ 3 | ≥ 450 B | ≥ 21 | ≥ 6 s |" in table(THREE, "method", target=0.99).to_markdown()


def test_a_difference_is_in_percentage_points_with_a_true_minus() -> None:
    """standalone less fedlora: −0.02, −0.04, −0.06, the interval as above."""
    text = table(THREE, "method", baseline="fedlora").to_markdown()
    assert "| Δ vs fedlora (pp) |" in text
    assert "| −4.0 [−9.0, +1.0] |" in text
    latex = table(THREE, "method", baseline="fedlora").to_latex()
    assert r"$\Delta$ vs fedlora (pp)" in latex and "$-$4.0 [$-$9.0, +1.0]" in latex


def test_eval_selects_the_round_and_test_is_reported_at_it() -> None:
    # best on eval in round 2 (0.6, the first of two), where test is 0.55; best on test would be 0.90
    found = row([chosen("s", [(0.90, 0.5), (0.55, 0.6), (0.70, 0.6)])], select="eval")
    assert found.selected == MeanStd(0.55, None, 1)
    assert found.best == MeanStd(0.90, None, 1)


def test_eval_selects_the_settings_of_a_row_by_their_mean_over_seeds() -> None:
    runs = [
        chosen("low-s0", [(0.9, 0.4)], 0, method_settings={"mu": 0.1}),
        chosen("low-s1", [(0.9, 0.7)], 1, method_settings={"mu": 0.1}),  # mean on eval 0.55
        chosen("high-s0", [(0.5, 0.6)], 0, method_settings={"mu": 0.9}),
        chosen("high-s1", [(0.7, 0.6)], 1, method_settings={"mu": 0.9}),  # mean on eval 0.60
    ]
    found = row(runs, select="eval")
    assert found.chosen == "method.mu=0.9"
    assert found.sessions == ("high-s0", "high-s1")
    assert found.selected is not None and found.selected.mean == approx(0.6)


def test_the_selected_value_is_what_a_baseline_is_compared_with() -> None:
    runs = [
        chosen("a", [(0.9, 0.1), (0.6, 0.2)]),
        of("b", [record(1, 0.2, 0.3), record(2, 0.8, 0.1)], 0, "standalone"),
    ]
    found = row(runs, baseline="standalone", select="eval").difference
    assert found is not None and found.mean == approx(0.6 - 0.2)


def test_a_ledger_without_eval_values_is_not_measured() -> None:
    result = table([*THREE[:2], chosen("a2", [(0.9, 0.9)], 2)], "method", select="eval")
    assert result.rows[0].selected is None
    assert result.notes[0] == "fedlora: not measured on eval: a0, a1."
    assert "| not measured |" in result.to_markdown()
    both = table([*THREE[:2], THREE[3]], "method", select="eval").notes
    assert "Not measured on eval: fedlora (a0, a1) and standalone (b0)." in both


def test_weighted_and_worst_client_are_of_the_last_or_the_selected_round() -> None:
    records = [
        record(1, 0.5, 0.9, clients=[0.2, 0.8], weighted=0.6),
        record(2, 0.7, 0.1, clients=[0.6, 0.8], weighted=0.75),
    ]
    by_last, by_eval = row([of("s", records)]), row([of("s", records)], select="eval")
    assert (by_last.last_weighted, by_last.worst) == (MeanStd(0.75, None, 1), MeanStd(0.6, None, 1))
    assert (by_eval.selected_weighted, by_eval.worst) == (MeanStd(0.6, None, 1), MeanStd(0.2, None, 1))


def test_sessions_are_grouped_by_what_they_differ_in_when_nothing_is_said() -> None:
    runs = [
        run(f"mu{mu}-s{seed}", [0.5], seed, method_settings={"mu": mu})
        for mu in (0.5, 0.7)
        for seed in (0, 1)
    ]
    result = table(runs)
    assert result.by == ("method.mu",)
    assert [(each.key, each.n) for each in result.rows] == [((0.5,), 2), ((0.7,), 2)]
    assert table(runs[:1]).by == ("session",)
    assert table(THREE).by == ("method", "rounds")


CLOCK = {
    "devices": "phone",
    "schedule": "synchronous",
    "availability": "always",
    "alpha": 0.5,
    "buffer": None,
}


def clock(name: str, method: str, **changes: object) -> SessionData:
    return run(name, [0.5], method=method, system=CLOCK | changes, until_time=0.0)


def by_methods(*rates: float, methods: str = "fedlora fedgh fd", key: str = "lr") -> list[SessionData]:
    return [
        run(f"{method}-{rate}", [0.5], method=method, training={key: rate})
        for method in methods.split() for rate in rates
    ]  # fmt: skip


PLAIN = run("a", [0.5])
SVHN = run("b", [0.5], method="fedgh", data={"dataset": "svhn"})
OTHER = SelectionConfig().model_dump(mode="json") | {"strategy": "loss"}
MEAN = "a mean over 2 settings of training.lr. Group by these to separate them, or select the best on eval."
SWITCHED = replace(
    run("a", [0.5], method="fedssa"),
    history=({"method": {"name": "fedlora"}}, {"method": {"name": "fedssa"}}),
)
OF_OTHER_IMAGES = replace(run("b", [0.5], method="fedgh"), document={"data_fingerprint": "another"})
IMAGES = "Sessions of one seed and the same data settings have different images or another partition."
CLOCKS = "Rows differ in clock: none (fedlora), simulated"
SEVERAL_SEEDS = "fedlora: several sessions of seed 0; nothing is paired."
SIZES = [
    run(method, [0.5], method=method, training={"batch_size": size})
    for method, size in {"fedlora": 64, "fedgh": 32, "standalone": 64}.items()
]
NOTES: list[tuple[list[SessionData], Any, tuple[str, ...]]] = [
    ([PLAIN, SVHN], "method", ("Rows differ in dataset: digits (fedlora), svhn (fedgh).",)),
    ([PLAIN, SVHN], ("method", "dataset"), ()),
    ([PLAIN, SVHN], ("method", "data.dataset"), ()),
    ([run("a", [0.5], method_settings={"mu": 0.9}), run("b", [0.5], method="fedgh")], "method", ()),
    ([run(str(mu), [0.5], method_settings={"mu": mu}) for mu in (0.5, 0.7)], "session",
     ("Rows differ in method.mu: 0.5 (0.5), 0.7 (0.7).",)),
    ([PLAIN, clock("b", "fedgh")], "method", (f"{CLOCKS} (fedgh).",)),
    ([PLAIN, clock("b", "fedgh"), clock("c", "fd", schedule="deadline")], "method",
     (f"{CLOCKS} (others); system.schedule: deadline (fd), synchronous (fedgh).",)),
    ([PLAIN, run("b", [0.5], method="fedgh", selection=OTHER)], "method",
     ("Rows differ in selection.strategy: loss (fedgh), random (fedlora).",)),
    (by_methods(0.5, 0.7, methods="fedlora"), "method", (f"fedlora is {MEAN}",)),
    (by_methods(0.5, 0.7), "method", (f"fedlora, fedgh, and fd are each {MEAN}",)),
    ([PLAIN, *by_methods(64, methods="fedgh", key="batch_size")], "method", ()),  # the default, which older ones lack
    ([PLAIN, OF_OTHER_IMAGES], "method", (IMAGES,)),
    ([replace(run("a", [0.5], rounds=3), state="stopped")], "method", ("Not finished: a (1 of 3 rounds).",)),
    ([run("a", [0.5], rounds=3)], "method", ()),  # its goal ended it
    ([SWITCHED], "method", ("Not of one method: a (fedlora → fedssa).",)),
    (SIZES, "method", ("Rows differ in training.batch_size: 32 (fedgh), 64 (others).",)),
    (SIZES, ("method", "training.batch_size"), ()),
    ([PLAIN, run("again", [0.5])], "method", (SEVERAL_SEEDS,)),
]  # fmt: skip


def test_what_rows_differ_in_and_what_they_are_means_over_is_said() -> None:
    assert [
        (found, expected)
        for runs, by, expected in NOTES
        if (found := table(runs, by).notes) != expected
    ] == []  # fmt: skip
    assert table([PLAIN, run("b", [0.5], system=CLOCK)]).by == ("clock",)


def test_sessions_with_a_timeline_are_grouped_by_its_events_in_words() -> None:
    leave = {"timeline": [{"round": 2, "event": "leave", "clients": [1, 2]}]}
    runs = [run("a", [0.5], federation=leave), run("b", [0.6], federation={"timeline": []})]
    found = table(runs, "federation.timeline")
    assert [row.label for row in found.rows] == ["timeline round=2 event=leave clients=1+2", "timeline none"]


def test_differences_from_papers_are_said_once_for_all_rows() -> None:
    def as_printed(preset: str, **changes: object) -> SessionData:
        known = merged(defaults(), presets.load(preset, "paper").config) | {"preset": preset}
        return of(f"{preset}-run", [record(1, 0.9)], **merged(known, changes))

    runs = [as_printed("fedlora_htm5", rounds=7), as_printed("fedgh_htm5", rounds=7, training={"lr": 0.5})]
    notes = [note for note in table(runs, "method").remarks() if "comparable" in note]
    assert len(notes) == 2
    assert notes[0].startswith("fedlora and fedgh are not comparable with printed values (")
    assert notes[0].endswith("): rounds 7 (paper: 100).")
    assert notes[1].startswith("fedgh is not comparable") and "training.lr 0.5" in notes[1]


def test_joules_until_the_target_and_of_all_rounds_have_their_own_columns_and_fields() -> None:
    runs = [clocked("a", [(10, 0.4), (20, 0.6), (30, 0.7)])]
    made = table(runs, "method", target=0.5, columns=["joules", "joules of", "simulated time", "FLOPs per"])
    headings = ["joules to 50 %", "joules of all rounds", "simulated time to 50 %", "FLOPs per round"]
    assert [each.name for each in made.columns()] == headings
    [line] = csv.DictReader(made.to_csv().splitlines())
    assert (float(line["joules"]), float(line["joules of all rounds"])) == (approx(6), approx(9))


def test_more_than_three_values_are_counted() -> None:
    rates = (0.1, 0.001, 0.01, 0.2)
    runs = [run(f"{rate}", [0.5], training={"lr": rate, "epochs": 1 if rate < 0.1 else 2}) for rate in rates]
    assert rows_differ({one.name: [one.config] for one in runs}, ()) == [
        "Rows differ in training.epochs: 1 (0.001; 0.01), 2 (others); "
        "training.lr: 4 values from 0.001 to 0.2. Group by such a setting too to see each value."
    ]


def test_notes_explain_only_the_signs_of_the_shown_columns() -> None:
    result = table(THREE[:3], "method", target=0.89, columns=["method", "n"])
    assert result.remarks() == []
    assert table(THREE[:3], "method", columns=["last"]).remarks() == [STD]


def test_a_setting_chosen_on_eval_stands_in_its_column_and_not_above_the_table() -> None:
    runs = [
        chosen(f"{method}-{lr}", [(0.5, 0.9 if lr == best else 0.1)], 0, method=method, training={"lr": lr})
        for method, best in (("fedlora", 0.1), ("fedgh", 0.2))
        for lr in (0.1, 0.2)
    ]
    assert not [note for note in table(runs, "method", select="eval").notes if "differ" in note]
    (fixed,) = [run for run in runs if run.name == "fedgh-0.2"]
    notes = table([*runs[:2], fixed], "method", select="eval").notes
    assert notes[0] == "Rows differ in training.lr: 0.1 (fedlora), 0.2 (fedgh)."


def forked(name: str, seed: int, method: str, parent: str, round: int) -> SessionData:
    made = run(name, [0.5, 0.6, 0.7], seed, method)
    about = {"id": f"id-{parent}", "name": parent, "round": round}
    return replace(made, document=made.document | {"id": f"id-{name}", "parent": about})


def test_seeds_that_go_on_from_one_checkpoint_say_what_they_share() -> None:
    runs = [
        forked(f"{method}-{seed}", seed, method, "base", 2)
        for method in ("fedlora", "fedgh")
        for seed in (0, 1, 2)
    ]
    share = "share the data, the first weights, and rounds 1 to 2 of base."
    note = f"Within fedlora and fedgh, sessions {share} So the true spread is larger than ± says."
    assert note in table(runs, "method").notes
    mixed = [*runs[:2], run("alone", [0.5], 7)]
    assert any(
        note.startswith(f"Within fedlora, 2 of 3 sessions {share}") for note in table(mixed, "method").notes
    )


def test_forks_of_different_rounds_share_the_rounds_of_the_earlier_one() -> None:
    runs = [forked("a", 0, "fedgh", "base", 3), forked("b", 1, "fedgh", "base", 1)]
    assert any("rounds 1 to 1 of base" in note for note in table(runs, "method").notes)


def test_seeds_of_which_a_part_is_the_same_say_which() -> None:
    common = "the data (seed.data 0) and the first weights (seed.init 0)"
    crossed = (
        "the data in part (2 values of seed.data), the first weights in part (2 values of seed.init), and "
    )
    for seeds, said in (
        ([{"training": 0}, {"training": 1}], common),
        ([{"data": data, "init": init} for data in (0, 1) for init in (0, 1)],
         f"{crossed}the draws of training (seed.training 0)"),
    ):  # fmt: skip
        runs = [
            replace(run(f"{each}", [0.5], seed={"all": 0, **each}), document={})  # type: ignore[arg-type,typeddict-item]
            for each in seeds
        ]
        note = f"Within fedlora, sessions share {said}. So the true spread is larger than ± says."
        assert table(runs, "method").notes == (note,)


def test_a_label_leaves_out_axes_without_a_value_unless_all_are() -> None:
    assert group_label(("method", "trial"), ("fedproto", None)) == "fedproto"
    assert group_label(("trial", "method.lam"), (3, None)) == "trial 3"
    assert group_label(("method.lam",), (None,)) == "lam –"


def test_a_baseline_is_the_one_with_the_same_values_on_the_other_axes() -> None:
    runs = [
        run(f"{method}-{data}", [value], 0, method, data={"dataset": data})
        for method, data, value in [
            ("fedgh", "digits", 0.7), ("standalone", "digits", 0.5),
            ("fedgh", "svhn", 0.4), ("standalone", "svhn", 0.3),
        ]
    ]  # fmt: skip
    for by, baseline in ((("method", "dataset"), "standalone"), (("dataset", "method"), "method=standalone")):
        found = [each.difference for each in table(runs, by, baseline=baseline).rows]
        assert [each and round(each.mean, 9) for each in found] == [0.2, None, 0.1, None]


def test_what_cannot_be_is_refused() -> None:
    for options, said in (
        ({"by": "metod"}, r"no session here has a setting 'metod'. Did you mean 'method'\?"),
        ({"by": "clients"}, r"Did you mean 'federation.clients'\?"),
        ({"by": "method", "baseline": "fedgh"}, "'fedgh': method is one of fedlora, standalone."),
        ({"by": "method", "baseline": "data.alpha=1"}, "no group is the baseline 'data.alpha=1'"),
        ({"by": "method", "target": 90.0}, "the target is an accuracy from 0 to 1, as 0.9; it is 90."),
    ):
        with pytest.raises(ConfigError, match=said):
            table(THREE, **options)  # type: ignore[arg-type]


def test_beside_it_stands_what_the_paper_printed_and_a_word_where_it_is_of_something_else() -> None:
    as_printed = merged(defaults(), {"rounds": 100, "preset": "fedlora_htm5"})
    as_printed = merged(as_printed, {
        "data": {"dataset": "cifar10", "partition": "pathological", "quantity": "varied", "classes_per_client": 2},
        "federation": {"group": "htm5", "clients": 10},
        "method": {"name": "fedlora", "mu": 0.9, "hidden": 20, "structure": "decomposed"},
    })  # fmt: skip
    same = of("same", [record(1, 0.9)], **as_printed)
    other = of(
        "other", [record(1, 0.9)], **merged(as_printed, {"rounds": 7, "data": {"dataset": "fashion_mnist"}})
    )
    (told,) = row([same]).paper
    assert (told.accuracy, told.place) == (approx(0.9666), "FedLoRA, Table 3, FedLoRA, N=10 C=100%, CIFAR-10")
    assert (told.other, told.details) == ("", ())
    (told,) = row([other]).paper
    assert told.other == "other data set and settings"
    assert told.details == ("rounds 7 (paper: 100)", "data.dataset fashion_mnist (paper: cifar10)")
    timed, late = (of(name, [record(1, 0.9)], **as_printed, system=CLOCK | {"schedule": name})
                   for name in ("synchronous", "deadline"))  # fmt: skip
    assert row([timed]).paper[0].details == ()  # it has the same bits
    assert row([late]).paper[0].details == ("system.schedule deadline (paper: not set)",)
    assert "96.66 (other data set and settings)" in table([other], "method").to_markdown()
    other = merged(as_printed, {"method": {"name": "fedgh"}})
    assert row([run("switched", [0.9], **other)], "fedgh").paper == ()


def test_json_and_csv_have_every_digit() -> None:
    result = table(THREE, "method", target=0.84, baseline="standalone")
    first = json.loads(json.dumps(result.to_json()))["rows"][0]
    assert first["key"] == {"method": "fedlora"}
    assert first["last"] == {"mean": approx(0.84), "std": approx(0.04), "n": 3}
    line = next(csv.DictReader(result.to_csv().splitlines()))
    assert (line["method"], line["n"], line["reached"], line["pairs"]) == ("fedlora", "3", "3", "3")
    assert float(line["last_std"]) == approx(0.04)
    assert float(line["difference_low"]) == approx(-0.0096828, abs=1e-7)


def test_latex_is_a_tabular_in_which_nothing_is_left_to_escape() -> None:
    text = table([run("a_1", [0.5], 0), run("b", [0.7], 1)], "session").to_latex()
    assert r"\begin{tabular}{lrrrrrr}" in text
    assert r"a\_1 & 1 & 50.00 & 50.00 & 50.00 & 50.00 & 50.00 \\" in text
    over_seeds = table([run("a", [0.5], 0), run("b", [0.7], 1)], "method").to_latex()
    assert r"FedLoRA & 2 & 60.00 $\pm$ 14.14 &" in over_seeds
