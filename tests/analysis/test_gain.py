"""Gains over a baseline: a study that one can work out by hand, and ledgers recomputed by other means."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import htfl_sim as hs
from simulator import methods
from simulator.base.errors import ConfigError
from simulator.base.nested import flattened, merged, with_values
from simulator.config import OF_CLIENTS, decides_clients, keys
from simulator.results.analysis.axes import Difference, MeanStd
from simulator.results.analysis.caveats import defaults
from simulator.results.analysis.comparison import Pivot, table
from simulator.results.analysis.gain import evaluated, gains, holm, p_of_equivalence, p_of_gain
from simulator.results.analysis.run import SessionData
from simulator.results.analysis.tabular import _heading
from tests import sessions as made
from tests.analysis.runs import of, record, run

approx = pytest.approx


def session(
    name: str, method: str, seed: int, *rounds: list[float | None], **settings: object
) -> SessionData:
    """A session with these accuracies of three clients in each round; client 0 has the fewest samples, 1 the most."""
    records = []
    for number, clients in enumerate(rounds, 1):
        known = [each for each in clients if each is not None]
        records.append(record(number, math.fsum(known) / len(known), clients=clients))
    groups = {"group": ["cnn1", "cnn2"], "clients": 3}
    session = of(name, records, seed, method, federation=groups, **settings)
    samples = {"classes": ["a", "b"], "train": [[4, 6], [30, 0], [10, 10]], "test": [10, 10, 10]}
    return replace(session, document=session.document | {"samples": samples})


STUDY = [
    session("alone-0", "standalone", 0, [0.5, 0.6, 0.7]),
    session("alone-1", "standalone", 1, [0.4, 0.5, 0.6]),
    session("gh-0", "fedgh", 0, [0.6, 0.6, 0.6]),  # gains +0.1, 0, −0.1
    session("gh-1", "fedgh", 1, [0.6, 0.6, 0.7]),  # gains +0.2, +0.1, +0.1
]


def test_a_study_of_three_clients_and_two_seeds_worked_out_by_hand() -> None:
    [row] = gains(STUDY, "method").rows
    # Means over clients: 0 and 0.4/3. Their mean is 0.2/3. Their std is 0.4/3/√2, so the standard error is 0.2/3,
    # and t(0.975; 1) = 12.7062047.
    assert row.gain.mean == approx(0.2 / 3)
    assert row.gain.interval == (approx(0.2 / 3 * (1 - 12.7062047)), approx(0.2 / 3 * (1 + 12.7062047)))
    assert (row.sessions, row.clients) == (("gh-0", "gh-1"), 3)
    assert row.benefit.mean == approx((1 / 3 + 1) / 2)  # client 1 of seed 0 neither gains nor loses
    assert row.harm.mean == approx((1 / 3 + 0) / 2)
    assert row.worst.mean == approx((-0.1 + 0.1) / 2)  # a tenth of three clients is one client
    # Clients 0 and 2 have cnn1: (0 + 0.15) / 2. Client 1 has cnn2: (0 + 0.1) / 2.
    models = {"cnn1": approx(0.075), "cnn2": approx(0.05)}
    assert {name: each.mean for name, each in row.models.items()} == models
    # By samples the clients are 0 (10), 2 (20), 1 (30).
    assert [each.mean for each in row.sizes.values()] == [approx(0.15), approx(0), approx(0.05)]


def test_a_study_has_its_row_of_gains() -> None:
    both = [replace(each, studies=("t",)) for each in STUDY]
    [row] = gains(both, "study").rows
    assert row.sessions == ("gh-0", "gh-1")


def test_means_that_differ_by_rounding_alone_are_no_gain() -> None:
    up, down = ([value] * 3 for value in (0.1, 0.2, 0.3)), ([value] * 3 for value in (0.3, 0.2, 0.1))
    runs = [session("a", "standalone", 0, *down), session("b", "fedgh", 0, *up)]
    [row] = gains(runs, "method", last=3).rows
    assert (row.benefit.mean, row.harm.mean, row.gain.mean) == (0, 0, 0)


def test_a_client_without_an_accuracy_is_in_no_mean() -> None:
    runs = [session("a", "standalone", 0, [0.5, None, 0.5]), session("b", "fedgh", 0, [0.6, 0.9, 0.7])]
    [row] = gains(runs, "method").rows
    assert (row.clients, row.gain.mean) == (2, approx(0.15))
    assert "cnn2" not in row.models


def test_p_values_by_hand() -> None:
    # Differences 0 and 0.4/3: t = mean / standard error = 1, and P(|t₁| > 1) = 1/2. With a margin of 0.5 the larger
    # p value is P(t₁ < (0.2/3 − 0.5) / (0.2/3) = −6.5) = arctan(1/6.5) / π.
    differences = [0.0, 0.4 / 3]
    assert p_of_gain(differences, "t") == approx(0.5)
    assert p_of_equivalence(differences, 0.5) == approx(math.atan(1 / 6.5) / math.pi)
    assert p_of_gain([0.3, 0.2, 0.1], "wilcoxon") == approx(0.25)  # all of one sign: 2 / 2³
    assert p_of_gain([0.1], "t") is None and p_of_equivalence([0.2, 0.2], 0.5) is None


def test_wilcoxons_p_is_exact_also_with_equal_and_zero_differences() -> None:
    # Of +1, +1, +2 the ranks are 1.5, 1.5, and 3. Only all signs alike give as extreme a sum: 2 of 8.
    assert p_of_gain([0.1, 0.1, 0.2], "wilcoxon") == approx(0.25)
    # The zero says nothing. Two positive ones are 1 of 4 signs, and 2 · 1/4 = 1/2.
    assert p_of_gain([0.0, 0.1, 0.2], "wilcoxon") == approx(0.5)
    assert p_of_gain([0.0, 0.1, -0.1], "wilcoxon") == approx(1.0)
    for differences in ([0.3, -0.1, 0.2, 0.5, 0.4], [-0.3, -0.1, 0.2, -0.5, 0.4, 0.7]):  # neither
        assert p_of_gain(differences, "wilcoxon") == approx(stats.wilcoxon(differences).pvalue)


def test_the_smallest_p_of_wilcoxons_test_counts_only_pairs_that_differ() -> None:
    """The mean of gh-0 equals its partner's, so a single pair is left, and nothing is below 1."""
    [note] = [each for each in gains(STUDY, "method", test="wilcoxon").remarks() if "Wilcoxon" in each]
    assert note == "Wilcoxon's test ignores pairs of equal means. With 1 other, its smallest p value is 1."


def test_more_pairs_than_a_float_has_powers_of_two_have_their_remarks() -> None:
    found = gains(STUDY, "method", test="wilcoxon")
    many = replace(found, rows=tuple(replace(row, unequal=2000) for row in found.rows))
    assert "With 2000 others, its smallest p value is 0." in many.remarks()[-1]


def test_holm_by_hand() -> None:
    """Of four, the smallest is multiplied by 4, the next by 3, and so on; none falls below the one before it."""
    assert holm([0.04, 0.01, 0.03, 0.5]) == approx([0.09, 0.04, 0.09, 0.5])  # 3 · 0.03 exceeds 2 · 0.04
    assert holm([0.6, 0.7]) == [1.0, 1.0]


def test_only_the_same_seed_and_data_are_a_pair() -> None:
    skewed = session("more", "standalone", 1, [0.5] * 3, data={"dataset": "digits", "alpha": 0.1})
    for other, differs in (
        (session("alone-9", "standalone", 9, [0.5] * 3), "seed: 1 (fedgh), 0 (standalone)"),
        (skewed, "data.alpha: 0.5 (fedgh), 0.1 (standalone)"),
    ):
        found = gains([*STUDY[:1], other, *STUDY[2:]], "method")
        assert [row.sessions for row in found.rows] == [("gh-0",)]
        why = f"no session of standalone has its clients. The closest differs in {differs}."
        assert f"gh-1 is left out: {why}" in found.notes


def test_a_setting_that_decides_clients_refuses_the_pair_and_is_named_and_the_others_leave_it() -> None:
    one, other, faults = STUDY[2], STUDY[0], list[str]()
    for key in keys():
        if key == "rounds" or key.startswith("seed"):
            continue
        known = flattened(merged(defaults(), one.config)).get(key)
        value = "other" if known is None or isinstance(known, str) else None
        changed = replace(one, config=merged(one.config, with_values({}, [(key, value)])))
        try:
            found = gains([other, changed]).rows[0].sessions
        except ConfigError as refused:
            said = rf"gh-0 is left out.* differs in {key}: .*\(fedgh\), .*\(standalone\)"
            named = re.search(said, str(refused))
            faults += [] if decides_clients(key) and named else [f"{key}: {refused}"]
        else:
            faults += [f"{key}: {found}"] if decides_clients(key) or found != ("gh-0",) else []
    assert faults == []
    sections = {key.partition(".")[0] for key in keys()}
    assert [name for name in OF_CLIENTS if name not in {*keys(), *sections}] == []


def test_each_of_the_three_seeds_is_that_of_a_pair() -> None:
    for seed in ("data", "init", "training"):
        changed = STUDY[2].config | {"seed": {"all": 0, seed: 5}}
        with pytest.raises(ConfigError, match=rf"seed: .*{seed} 5.* \(fedgh\), 0 \(standalone\)"):
            gains([STUDY[0], replace(STUDY[2], config=changed)])


def test_a_method_that_evaluates_another_model_is_no_pair_until_both_evaluate_the_same() -> None:
    """FIARSE evaluates what a client receives by default, and Standalone what it has trained."""
    rounds = [0.6, 0.6, 0.6]
    with pytest.raises(ConfigError, match=r"evaluation.model: aggregated \(fiarse\), local \(standalone\)"):
        gains([STUDY[0], session("f", "fiarse", 0, rounds)])
    found = gains([STUDY[0], session("f", "fiarse", 0, rounds, evaluation={"model": "local"})])
    # Standalone evaluates local by default.
    assert found.rows and "evaluation.model" not in " ".join(found.notes)
    # FedProto evaluates with new prototypes, but the client's own trained model.
    assert gains([STUDY[0], session("p", "fedproto", 0, rounds)]).rows


def test_what_each_method_evaluates_is_read_as_its_class_has_it() -> None:
    for name in methods.names():
        method = methods.get(name)
        assert evaluated(name) == (method.answers if method.card.kind == "weights" else "local")


def test_a_fork_pairs_with_its_parent_and_with_forks_of_the_same_round() -> None:
    def forked(run: SessionData, parent: str, round: int) -> SessionData:
        about = {"id": parent, "name": "base", "round": round}
        return replace(run, document=run.document | {"parent": about})

    alone, other = STUDY[0], replace(STUDY[2], document=STUDY[2].document | {"id": "gh"})
    assert gains([forked(alone, "base", 1), forked(other, "base", 1)]).rows
    assert gains([forked(alone, "gh", 1), other]).rows
    with pytest.raises(ConfigError, match=r"parent: a session's round 1 \(fedgh\), none \(standalone\)"):
        gains([alone, forked(other, "base", 1)])


def test_sessions_that_are_left_out_for_one_reason_are_one_note() -> None:
    wide = [session(f"w-{seed}", "fedgh", seed, [0.6] * 3, models={"features": 64}) for seed in (0, 1)]
    alone = [STUDY[0], STUDY[1], STUDY[2]]
    notes = gains([*alone, *wide], "models.features").notes
    assert (
        "w-0 and w-1 are left out: no session of standalone has its clients. "
        "The closest differs in models.features: 64 (fedgh), not set (standalone)."
    ) in notes


def test_a_pair_with_other_training_settings_says_so() -> None:
    others = [session(f"gh-{seed}", "fedgh", seed, [0.6] * 3, training={"lr": 0.5}) for seed in (0, 1)]
    note = "Rows differ in training.lr: 0.01 (standalone), 0.5 (fedgh)."
    assert note in gains([*others, *STUDY[:2]]).notes


def test_rounds_that_only_one_has_do_not_count() -> None:
    longer = session("gh-0", "fedgh", 0, [0.6, 0.6, 0.6], [0.9, 0.9, 0.9])
    found = gains([STUDY[0], longer])
    assert found.rows[0].gain.mean == approx(0, abs=1e-12)
    assert "gh-0 is compared after round 1, the last that both have." in found.notes


def test_what_cannot_be_compared_is_refused_with_the_reason() -> None:
    refused: tuple[tuple[list[SessionData], dict[str, Any], str], ...] = (
        (STUDY[2:], {}, r"No session here is of the baseline 'standalone'.*fedgh"),
        ([STUDY[0], STUDY[3]], {}, "No session has a partner"),
        (STUDY, {"last": 0}, "`last=0`"),
        (STUDY, {"margin": 5}, "margin is an accuracy"),
    )
    for runs, options, said in refused:
        with pytest.raises(ConfigError, match=said):
            gains(runs, **options)


def test_the_table_shows_points_shares_intervals_and_the_answer_of_the_tests() -> None:
    text = gains(STUDY, "method", margin=0.5, test="t").to_markdown()
    assert "| fedgh | 2 | 3 | +6.7 [−78.0, +91.4] | 67 | 17 | 0.0 | 0.500 | equivalent (p = 0.049) |" in text
    assert "within 50 pp (TOST)" in text and "shares of clients that gain and that lose" in text
    chosen = gains(STUDY, "method", columns=("method", "benefit"))
    assert [column.name for column in chosen.columns()] == ["method", "benefit, %"]


def test_notes_explain_only_the_shown_columns() -> None:
    found = gains(STUDY, "method", test="wilcoxon")
    starts = {
        "benefit": "benefit and",
        "worst": "worst 10 %:",
        "gain": "[low,",
        "middle": "fewest,",
        "p (": "Wilcoxon's",
    }
    for column, start in starts.items():
        notes = replace(found, chosen=("method", column)).remarks()
        assert [each for each in starts.values() if any(note.startswith(each) for note in notes)] == [start]
    assert len(found.remarks()) == 1 + len(starts)


def accuracies(folder: Path) -> np.ndarray:
    """[rounds, clients] as the ledger's lines have them."""
    return np.array([line["accuracy"]["per_client"] for line in _lines(folder)])


def _lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]


def _thirds_by_size(folder: Path, gains: np.ndarray) -> list[float]:
    """23 clients from the fewest training samples to the most, equal ones in their order: 8, 8, and 7."""
    train = json.loads((folder / "session.json").read_text())["samples"]["train"]
    sizes = [sum(each) for each in train]
    order = sorted(range(len(sizes)), key=lambda client: (sizes[client], client))
    return [
        float(np.mean([gains[client] for client in part])) for part in (order[:8], order[8:16], order[16:])
    ]


def _check(found: MeanStd | Difference | None, each: Any) -> None:
    """Its mean, standard deviation and interval are those of one value per seed, by numpy and scipy."""
    assert found is not None
    reach = stats.t.ppf(0.975, len(each) - 1) * stats.sem(each)
    assert found.mean == approx(np.mean(each), abs=1e-9)
    assert found.interval == approx((np.mean(each) - reach, np.mean(each) + reach), abs=1e-9)
    if isinstance(found, MeanStd):
        assert found.std == approx(np.std(each, ddof=1), abs=1e-9)


def test_every_number_equals_that_of_an_independent_script(tmp_path: Path) -> None:
    clients, rounds, last = 23, 6, 3
    methods = {"standalone": (0.80, 0.82, 0.70), "fedgh": (0.83, 0.80, 0.84), "fedlora": (0.9, 0.97, 0.92)}
    for method, ceilings in methods.items():
        for seed, ceiling in enumerate(ceilings):
            document = made.config(clients, rounds, method) | {"seed": seed}
            folder, samples = tmp_path / f"{method}-{seed}", made.samples(clients)
            made.make(folder, clients=clients, rounds=rounds, method=method, ceiling=ceiling, document=document,
                      samples=samples)  # fmt: skip
    options = {"last": last, "sessions_dir": tmp_path}
    gained = hs.gains("*", "method", margin=0.05, test="t", correct=True, **options)
    by_rank = hs.gains("*", "method", test="wilcoxon", **options)
    extras = ["area", "10", "median", "90", "std", "traffic", "FLOPs"]
    plain = hs.compare("*", "method", baseline="standalone", columns=["method", *extras], **options)
    final = {
        (method, seed): accuracies(tmp_path / f"{method}-{seed}")[-last:].mean(axis=0)
        for method in methods
        for seed in range(3)
    }
    p_values, tost = [], []
    for method in ("fedgh", "fedlora"):
        [row] = [row for row in gained.rows if row.key == (method,)]
        each = np.array([final[method, seed] - final["standalone", seed] for seed in range(3)])
        means = each.mean(axis=1)
        _check(row.gain, means)
        _check(row.benefit, (each > 0).mean(axis=1))
        _check(row.harm, (each < 0).mean(axis=1))
        _check(row.worst, np.sort(each, axis=1)[:, :3].mean(axis=1))  # ⌈2.3⌉ clients
        for place, value in enumerate(row.models.values()):
            _check(value, each[:, place::5].mean(axis=1))
        thirds = np.array([_thirds_by_size(tmp_path / f"{method}-{seed}", each[seed]) for seed in range(3)])
        for value, third in zip(row.sizes.values(), thirds.T, strict=True):
            _check(value, third)
        [ranked] = [other for other in by_rank.rows if other.key == (method,)]
        assert ranked.p == approx(stats.wilcoxon(means).pvalue, abs=1e-9)
        sides = ((0.05, "greater"), (-0.05, "less"))
        p_values.append(stats.ttest_1samp(means, 0).pvalue)
        tost.append(max(stats.ttest_1samp(means + by, 0, alternative=side).pvalue for by, side in sides))
    for name, values in (("p", p_values), ("p_equivalent", tost)):
        small, large = sorted(values)
        expected = {small: min(1, 2 * small), large: min(1, max(2 * small, large))}
        corrected = [expected[value] for value in values]
        assert [getattr(row, name) for row in gained.rows] == approx(corrected, abs=1e-9)
    for row in plain.rows:
        folders = [tmp_path / f"{row.key[0]}-{seed}" for seed in range(3)]
        own = np.array([final[row.key[0], seed] for seed in range(3)])
        _check(row.last, own.mean(axis=1))
        if row.key != ("standalone",):
            _check(row.difference, own.mean(axis=1) - [final["standalone", s].mean() for s in range(3)])
        expected = {
            "area under curve": [accuracies(folder).mean() for folder in folders],
            "10 % quantile": np.percentile(own, 10, axis=1),
            "median client": np.percentile(own, 50, axis=1),
            "90 % quantile": np.percentile(own, 90, axis=1),
            "std over clients": own.std(axis=1),
            "traffic per round": [
                sum(line["bytes"]["up"] + line["bytes"]["down"] for line in _lines(folder)) / rounds
                for folder in folders
            ],
            "FLOPs per round": [
                sum(line["flops"]["total"] for line in _lines(folder)) / rounds for folder in folders
            ],
        }
        assert {name for name, each in row.extras.items() if each} == set(expected)
        for name, values in expected.items():
            _check(row.extras[name], values)


def test_a_pivot_has_a_row_for_each_method_and_a_column_for_each_value() -> None:
    means = {("fedgh", 0.1): 0.5, ("fedgh", 1.0): 0.6, ("fedlora", 0.1): 0.7, ("fedlora", 1.0): 0.8}
    runs = [run(f"{key}", [mean], method=key[0], data={"alpha": key[1]}) for key, mean in means.items()]
    pivot = Pivot(table(runs, ("method", "data.alpha")))
    assert [column.name for column in pivot.columns()] == ["method", "alpha 0.1, %", "alpha 1, %"]
    assert "| fedgh | 50.00 | 60.00 |\n| fedlora | 70.00 | 80.00 |" in pivot.to_markdown()
    assert "n = 1 sessions in a cell" in pivot.remarks()[0]


def test_latex_has_the_display_names_of_settings() -> None:
    names = {
        "method": "method", "training.lr": "learning rate", "data.alpha": r"$\alpha$", "method.mu_0": r"$\mu_{0}$",
        "method.eta_theta": r"$\eta_{\theta}$", "alpha 0.1, %": r"$\alpha$ = 0.1, \%", "last, %": r"last, \%",
        "data.classes_per_client": "classes per client", "traffic per round": "traffic per round",
        "mu": "mu",  # a column of somebody's own
    }  # fmt: skip
    assert {name: _heading(name) for name in names} == names


def test_latex_marks_the_best_where_the_intervals_are_apart() -> None:
    runs = [
        run(f"{method}-{seed}", [mean + seed / 1000], seed, method)
        for method, mean in (("fedgh", 0.5), ("fedlora", 0.9), ("fedproto", 0.3))
        for seed in (0, 1)
    ]
    text = table(runs, "method", columns=["method", "last, %"]).to_latex()
    lines = {line.split(" & ")[0]: line for line in text.splitlines() if " & " in line}
    assert r"\textbf{" in lines["FedLoRA"] and r"\underline{" in lines["FedGH"]
    assert r"\textbf" not in lines["FedProto"] and r"\underline" not in lines["FedProto"]
    assert text.splitlines()[-1].startswith(r"\par{\footnotesize") and r"\toprule" in text
