"""`htfl-sim plot`: every kind becomes a file, and what a kind cannot be asked is refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import sessions as made
from tests.cli.conftest import TINY, Cli


@pytest.fixture
def three(sessions: Path) -> Path:
    """Two settings of fedlora with CKA, and a session of standalone, of four clients and six rounds."""
    for name, method, mu in [("a", "fedlora", 0.5), ("b", "fedlora", 0.7), ("c", "standalone", 0.7)]:
        document = made.config(4, 6, method) | {"method": {"name": method, "mu": mu}}
        made.make(sessions / name, clients=4, rounds=6, method=method, cka_every=3, document=document)
    return sessions


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [
        ["accuracy", "*", "--by", "method", "--x", "flops"],
        ["box", "*", "--by", "session", "--round", "2"],
        ["tradeoff", "*", "--target", "0.3", "--width", "page"],
        ["loss", "*", "--by", "method", "--x", "bytes"],
        ["loss", "*", "--metric", "objective", "--metric", "cross_entropy"],
        ["cka", "a", "--layer", "conv1", "--round", "4"],
        ["cka-curves", "a", "b", "--by", "method"],
        ["sensitivity", "a", "b", "--axis", "method.mu"],
        ["heatmap", "*", "--axis", "method.mu", "--axis", "method"],
    ],
    ids=lambda each: each[0],
)
def test_a_kind_becomes_a_file_and_a_line_says_how_large(cli: Cli, three: Path, arguments: list[str]) -> None:
    out = three.parent / "figure.svg"
    result = cli("plot", *arguments, "--out", out)
    assert (result.code, result.out) == (0, "")
    assert f"{out}: " in result.err and "inches" in result.err
    assert out.read_text().startswith("<?xml")


def test_a_figure_that_averages_over_settings_says_so(cli: Cli, three: Path) -> None:
    line = ("plot", "accuracy", "*", "--by", "method")
    result = cli(*line, "--out", three.parent / "figure.svg")
    assert "FedLoRA is a mean over 2 settings of method.mu. Group by these to separate them." in result.err
    again = cli(*line, "--by", "method.mu", "--out", three.parent / "figure.svg")
    assert "is a mean over" not in again.err


def test_a_figure_over_an_axis_averages_over_the_others_alone(cli: Cli, three: Path) -> None:
    line = ("plot", "sensitivity", "a", "b", "--axis", "method.mu", "--out", three.parent / "figure.svg")
    assert "is a mean over" not in cli(*line).err
    document = made.config(4, 6) | {"method": {"name": "fedlora", "mu": 0.7, "hidden": 5}}
    made.make(three / "d", clients=4, rounds=6, document=document)
    said = "mu 0.7 is a mean over 2 settings of method.hidden."
    assert said in cli(*line[:4], "d", *line[4:]).err


def test_a_figure_says_which_training_settings_its_groups_differ_in(cli: Cli, three: Path) -> None:
    document = made.config(4, 6, "fedgh") | {"training": {"lr": 0.5}}
    made.make(three / "d", clients=4, rounds=6, method="fedgh", document=document)
    result = cli("plot", "box", "c", "d", "--by", "method", "--out", three.parent / "figure.svg")
    assert (
        "Groups differ in training.epochs: 1 (FedGH), 5 (Standalone); training.lr: 0.01 (Standalone)"
        in result.err
    )


@pytest.mark.long
def test_partition_and_the_plane_are_drawn_from_a_real_session(cli: Cli, sessions: Path) -> None:
    assert (
        cli("run", *TINY, "--method", "fedproto", "--rounds", "1", "--session", "s", "--no-progress").code
        == 0
    )
    for kind, more in [("partition", []), ("tsne", ["--images", "4"])]:
        out = sessions.parent / f"{kind}.png"
        result = cli("plot", kind, "s", *more, "--out", out)
        assert (result.code, result.out) == (0, ""), result.err
        assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["pie", "a"], 2, "'pie'"),
        (
            ["accuracy", "a", "--axis", "seed"],
            2,
            "--axis changes nothing of 'accuracy', which takes --by, --x.",
        ),
        (["partition", "a", "--by", "seed"], 2, "which takes none of them"),
        (["tsne", "a", "b"], 2, "tsne is of one session; these are 2: a, b."),
        (["sensitivity", "*"], 2, "takes one --axis"),
        (["heatmap", "*", "--axis", "method.mu"], 2, "takes two"),
        (["accuracy", "nothing"], 4, "no session and no study 'nothing'"),
        (["accuracy", "*", "--by", "methd"], 2, "Did you mean 'method'?"),
        (["inco", "a"], 2, "InCo Aggregation"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(
    cli: Cli, three: Path, arguments: list[str], code: int, said: str
) -> None:
    out = three.parent / "f.png"
    result = cli("plot", *arguments, "--out", out)
    assert (result.code, result.out) == (code, "")
    assert said in result.err and result.err.count("\n") == 1
    assert not out.exists()


def test_a_file_that_is_no_figure_or_cannot_be_written_is_refused(cli: Cli, three: Path) -> None:
    assert "A figure is written as .pdf, .svg, .png" in cli("plot", "accuracy", "a", "--out", "f.jpg").err
    result = cli("plot", "accuracy", "a", "--out", three.parent / "no" / "f.png")
    assert result.code == 2 and "f.png cannot be written" in result.err


@pytest.mark.long
def test_drawing_from_ledgers_does_not_import_torch(three: Path) -> None:
    script = """
import sys
from tui.cli import main
code = main(["plot", "accuracy", "a", "--out", "f.png"])
sys.exit(code or ("torch" in sys.modules) * 99)
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=three.parent)
