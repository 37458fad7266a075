"""Pages, help, keys, errors, and screens are in plain English: short sentences, American spelling, no odd phrases."""

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import click
import typer

from simulator import config, methods
from tests.docs.pages import AT_THE_TOP, PAGES, ROOT
from tui.app.keys import GROUPS, KEYS, PANEL_TITLES, PANELS_SHOW
from tui.cli import app

LONGEST = 28
"""Words in a sentence."""
BANNED = [
    r"whom?\b a round",
    r"\bof (?:which|whom|whose)\b",
    r"\bthat there (?:is|are) (?:not|none)\b",
    r"\bnothing but\b",
    r"\bnobody's\b",
    r"\b(?:is|are) said (?:once|in|of)\b",
    r"\bhas news\b|\bnews of\b",
    r"\bset back\b",
    r"\bas it (?:lies|stands) there\b",
    r"\blaid over\b",
    r"\bwhat was printed\b",
    r"\bless standalone\b",
    r"\basked for (?:otherwise|again)\b",
    r"\bgoes? on (?:with|there|from)\b",
    r"\bmade up\b",
    r"\btakes? hold\b",
    r"\bas ever\b",
    r"\bwhoever\b",
    r"\bsaid aloud\b",
    r"\bnot (?:yet )?seen\b|\bbeen seen\b",
    r"\bhave it \w+(?:ed|n)\b",
    r"\bhow alike\b|\bleast alike\b",
    r"\bbrought back\b",
    r"\ball the same\b",
    r"\bwants? (?:no|a|the) \w+ (?:to|for)\b",
]
ROOMS = ("simulator", "checkpoints", "htfl_sim", "tui")
SHOWN = (
    "tui",
    "htfl_sim",
    "simulator/results",
    "simulator/engine",
    "simulator/sessions",
    "simulator/studies",
)
"""Folders with texts that the app and the commands show: the app's own, and what runs and their analysis say."""
EVERY_PAGE = [*AT_THE_TOP, *PAGES]


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page, without code and addresses. Cells, headings, and points of lists stand by themselves."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "Code", text)
    text = re.sub(r"^\s*(?:[-*>#]+|\d+\.)\s", "\n\n", text, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n|\||·", text):
        words = " ".join(block.split())
        yield from (each for each in re.split(r"(?<=[.!?:])[*_)]*\s+(?=[*_(]*[A-Z0-9])", words) if each)


def faults(text: str) -> list[str]:
    """Sentences of a page that are too long, or hold a banned phrase."""
    found = []
    for sentence in sentences(text):
        if (length := sum(any(map(str.isalpha, word)) for word in sentence.split())) > LONGEST:
            found.append(f"{length} words: {sentence}")
        found += [f"'{match[0]}': {sentence}" for phrase in BANNED if (match := re.search(phrase, sentence))]
    return found


def commands(command: click.Command, name: str = "htfl-sim") -> Iterator[tuple[str, click.Command]]:
    """Every command below this one, and itself, by its words."""
    yield name, command
    for word, each in getattr(command, "commands", {}).items():
        yield from commands(each, f"{name} {word}")


def own_help(command: click.Command) -> str:
    """What a command's help says before its examples."""
    return inspect.cleandoc(command.help or "").partition("Examples\n")[0].replace("\b", "").strip()


def option_texts() -> list[tuple[str, str]]:
    """The help of every option and argument, by its command and name."""
    found = commands(typer.main.get_command(app))
    return [
        (f"{name} {each.name}", getattr(each, "help", None) or "")
        for name, one in found
        for each in one.params
    ]


def key_texts() -> list[tuple[str, str]]:
    """The meaning of every configuration key, those of methods included."""
    own = [setting for name in methods.names() for setting in config.settings_of(name)]
    return [(setting.key, setting.description) for setting in [*config.settings(), *own]]


def written(node: ast.expr) -> str | None:
    """The text of a string; each value that is put into it counts as one word. None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            (written(part) or "") if isinstance(part, ast.Constant) else "x" for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = written(node.left), written(node.right)
        return None if left is right is None else f"{left or 'x'}{right or 'x'}"
    return None


def error_texts(source: str) -> Iterator[tuple[int, str]]:
    """The texts of the errors that a module raises, with their lines."""

    def texts(node: ast.AST) -> Iterator[tuple[int, str]]:
        if isinstance(node, ast.expr) and (text := written(node)) is not None:
            yield node.lineno, text
        else:
            for each in ast.iter_child_nodes(node):
                yield from texts(each)

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield from texts(node.exc)


def screen_texts(source: str) -> Iterator[tuple[int, str]]:
    """The texts of more than one word in a module, with their lines. Docstrings and style sheets are none of them."""
    tree = ast.parse(source)
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    skipped |= {id(node.value) for node in ast.walk(tree) if is_style(node)}
    skipped |= {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in skipped:
            text = written(node)
            if text is not None and " " in text:
                yield node.lineno, text


def is_style(node: ast.AST) -> TypeGuard[ast.Assign | ast.AnnAssign]:
    """Whether a node gives a widget or a screen its style sheet."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return isinstance(node, ast.Assign | ast.AnnAssign) and any(
        isinstance(target, ast.Name) and target.id.endswith("CSS") for target in targets
    )


def shown_modules() -> list[Path]:
    """The modules whose texts a screen shows: those of the app and the commands, and what they tell of runs."""
    return [path for room in SHOWN for path in sorted((ROOT / room).rglob("*.py"))]


def table_texts() -> list[str]:
    """The texts of the app's table of keys and panels, also those of one word: footer, tabs, help, and palette."""
    of_keys = (text for key in KEYS for text in (key.label, key.about))
    return [*of_keys, *GROUPS, *PANEL_TITLES.values(), *PANELS_SHOW.values()]


def stands_alone(text: str) -> bool:
    """Whether a text begins as a sentence does, and ends as one."""
    return bool(re.match(r"[A-Z`\d]", text)) and text.endswith(".")


def misspelled(*pages: Path) -> str:
    """What codespell finds outside of code in a line, British spellings included."""
    command = [
        sys.executable,
        "-m",
        "codespell_lib",
        "--builtin",
        "clear,rare,en-GB_to_en-US",
        "--ignore-regex",
        "`[^`\n]+`",
        *map(str, pages),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_pages_have_short_sentences_plain_phrases_and_american_spelling() -> None:
    texts = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in EVERY_PAGE}
    assert {name: found for name, text in texts.items() if (found := faults(text))} == {}
    assert misspelled(*EVERY_PAGE) == ""


def test_help_and_keys_are_plain_stand_alone_and_are_spelled_as_in_american_english(tmp_path: Path) -> None:
    helps = [(name, own_help(each)) for name, each in commands(typer.main.get_command(app))]
    of_app = [(key.print, key.about) for key in KEYS]
    every = [*helps, *option_texts(), *key_texts(), *((text, text) for text in table_texts())]
    assert {name: found for name, text in every if (found := faults(text))} == {}
    of_runs = [(each.key, each.description) for each in config.settings()]
    alone = [*helps, *option_texts(), *of_runs, *of_app]
    assert [(name, text) for name, text in alone if not stands_alone(text)] == []
    page = tmp_path / "texts.md"
    page.write_text("\n".join(text for _, text in every), encoding="utf-8")
    assert misspelled(page) == ""


def test_errors_and_screens_are_in_plain_sentences_and_american_spelling(tmp_path: Path) -> None:
    modules = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    texts = {
        f"{path.relative_to(ROOT)}:{line}": text
        for paths, texts_of in ((modules, error_texts), (shown_modules(), screen_texts))
        for path in paths
        for line, text in texts_of(path.read_text(encoding="utf-8"))
    }
    assert {where: found for where, text in texts.items() if (found := faults(text))} == {}
    page = tmp_path / "texts.md"
    page.write_text("\n".join(texts.values()), encoding="utf-8")
    assert misspelled(page) == ""


def test_what_is_to_be_found_is_found(tmp_path: Path) -> None:
    """A style sheet and a docstring are no texts of a screen. A value in an error counts as one word."""
    source = """
class Part:
    'A part of it.'
    DEFAULT_CSS = 'Part { width: 1fr; }'
    CSS: str = 'Part { height: 1; } .b'
    SAID = 'No session.'
"""
    assert list(screen_texts(source)) == [(6, "No session.")]
    source = "def f(a):\n    raise ValueError(f'{len(a) + 1} of ' + str(a) + ' are as ever.', 'a')\n"
    assert list(error_texts(source)) == [(2, "x of x are as ever."), (2, "a")]
    assert list(map(stands_alone, ("Number of rounds.", "rounds.", "Number of rounds"))) == [
        True,
        False,
        False,
    ]
    for text, fault in (
        ("Clients whom a round set back.", "'whom a round'"),
        (" ".join(["word"] * 29) + ".", "29 words"),
        ("| a cell | " + " ".join(["word"] * 28) + " |", None),
        ("```\n" + " ".join(["word"] * 40) + "\n```", None),
        ("One sentence of four. " * 8, None),
    ):
        found = faults(text)
        assert [each.startswith(str(fault)) for each in found[:1]] == [True] * (fault is not None), text
    page = tmp_path / "page.md"
    page.write_text("The colour of a licence.", encoding="utf-8")
    assert "colour ==> color" in misspelled(page)
