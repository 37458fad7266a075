"""`htfl-sim why`: the findings on a client, as a page and as JSON."""

from pathlib import Path

from tests.cli.conftest import TINY, Cli
from tests.cli.test_bad_input import assert_refused


def test_it_explains_a_client_after_a_round(cli: Cli, done: Path) -> None:
    page = cli("why", "done", "--client", "1", "--round", "2")
    assert page.code == 0
    found = cli("why", "done", "--client", "1", "--round", "2", "--json").json()
    record = cli("show", "done", "--round", "2", "--json").json()["record"]
    rows = record["evaluation"]["test"]["classes"]["per_client"][1]
    tested, correct = (sum(row[column] for row in rows) for column in (1, 2))
    first = found["findings"][0]
    assert first["facts"]["accuracy"] == record["accuracy"]["per_client"][1] == correct / tested
    assert f"({correct} of {tested} test samples)" in first["text"]
    assert f"{first['facts']['parameters']:,} parameters" in first["text"]
    assert first["text"] in " ".join(page.out.split())
    assert {row["label"]: (row["samples"], row["correct"]) for row in found["classes"]} == {
        label: (samples, correct) for label, samples, correct, _ in rows
    }
    assert "Classes" in page.out and "`--method standalone`" in " ".join(page.out.split())


def test_the_gain_is_over_a_session_of_standalone_in_the_folder(cli: Cli, sessions: Path) -> None:
    for method in ("standalone", "lg_fedavg"):
        cli("run", f"--method={method}", "--session", method, "--rounds=1", *TINY)
    found = cli("why", "lg_fedavg", "--client=0", "--json").json()
    [gain] = [each["facts"] for each in found["findings"] if each["topic"] == "baseline"]
    own, alone = (
        cli("show", name, "--json").json()["record"]["accuracy"]["per_client"][0]
        for name in ("lg_fedavg", "standalone")
    )
    assert gain == {
        "session": "standalone", "method": "standalone", "round": 1, "gain": own - alone, "accuracy": alone,
        "significant": False,
    }  # fmt: skip
    alone = cli("why", "standalone", "--client=0", "--json").json()
    assert not [each for each in alone["findings"] if each["topic"] == "baseline"]
    assert not [each for each in alone["missing"] if "gain" in each]


def test_what_does_not_exist_is_refused(cli: Cli, done: Path) -> None:
    assert_refused(cli("why", "done", "--client", "9"), 2, "done has no client 9", "clients 0 to 3")
    assert_refused(cli("why", "done", "--client", "1", "--round", "9"), 2, "rounds 1 to 3")


def test_the_confusion_matrix_is_printed_and_adds_up_to_the_ledger(cli: Cli, done: Path) -> None:
    page = cli("why", "done", "--client", "1", "--round", "3", "--confusion")
    assert page.code == 0 and "Confusion matrix" in page.out
    matrix = cli("why", "done", "--client", "1", "--round", "3", "--confusion", "--json").json()["confusion"]
    record = cli("show", "done", "--round", "3", "--json").json()["record"]
    for label, samples, correct, answered in record["evaluation"]["test"]["classes"]["per_client"][1]:
        row, column = matrix["counts"][label], [row[label] for row in matrix["counts"]]
        assert (sum(row), row[label], sum(column)) == (samples, correct, answered)
    assert f"answers {sum(row[i] for i, row in enumerate(matrix['counts']))} of" in page.out
