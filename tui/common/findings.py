"""What was found, in words and tables: what a switch changed, a confusion matrix, and what was read of a data set."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from tui.common.cells import cell_count, head, padded
from tui.common.formatting import NONE, duration, percent, points, size

if TYPE_CHECKING:
    from simulator.base.documents import Report
    from simulator.results.analysis.classes import Confusion
    from simulator.results.analysis.events import Effect, Window

NO_EFFECT = "No switch and no fork yet. Press m to switch the method, or f to fork the round shown."


def effect_title(effect: "Effect") -> str:
    """'After round 12: method fedlora → fedssa', or 'Fork of main after round 12: …'."""
    begin = f"Fork of {effect.parent} after" if effect.kind == "fork" else "After"
    return f"{begin} round {effect.round}: {'; '.join(effect.changes) or 'nothing changed'}"


def effect_table(effect: "Effect") -> tuple[list[str], list[list[str]]]:
    """Titles, with > before those of numbers, and rows: before, after, their difference, and the fork's parent then."""
    before, after, beside = effect.before, effect.after, effect.beside
    clocked = any(each and each.simulated is not None for each in (before, after, beside))
    titles = ["", "rounds", ">accuracy", ">per round", ">bytes", ">time", *[">simulated"] * clocked]
    found = [_row("before", before, clocked), _row("after", after, clocked)]
    if before and after:
        found.append(_difference("after − before", before, after, clocked))
    if beside:
        found.append(_row(f"{beside.session}, {beside.method}", beside, clocked))
        if after:
            found.append(_difference(f"after − {beside.session}", beside, after, clocked))
    return titles, found


def effect_notes(effect: "Effect") -> Iterator[str]:
    """What a reader must know: few rounds, and what before and after cannot show."""
    few = [
        f"{window.rounds if window else 0} {name}"
        for name, window in (("before", effect.before), ("after", effect.after))
        if window is None or window.rounds < 10
    ]
    if few:
        yield f"Fewer than 10 rounds to compare: {', '.join(few)}."
    longer = "Later rounds have also trained longer"
    if effect.beside is not None:
        name, when = effect.beside.session, _span(effect.beside)
        yield f"{longer}. {name} did so too, without the change. So compare with its rounds {when}."
        return
    yield f"{longer}, so this is no causal comparison."
    if effect.kind == "fork":
        yield f"{effect.parent} has no round {effect.round + 1} in this folder. Resume it to compare the same rounds."
    else:
        yield f"To compare the same rounds, fork round {effect.round} without the change."


def _span(window: "Window") -> str:
    return f"{window.first}" if window.rounds == 1 else f"{window.first}–{window.last}"


def _row(name: str, window: "Window | None", clocked: bool) -> list[str]:
    if window is None:
        return [name, "none", *[NONE] * (4 + clocked)]
    change = NONE if window.change is None else f"{points(window.change)} pp"
    rounds = f"{_span(window)} ({window.rounds})"
    found = [name, rounds, percent(window.accuracy), change, size(window.bytes), _seconds(window.seconds)]
    simulated = NONE if window.simulated is None else _seconds(window.simulated)
    return [*found, simulated] if clocked else found


def _seconds(seconds: float) -> str:
    """With two decimals below 10 s, because a change of a round's time is to be seen."""
    return f"{seconds:.2f} s" if seconds < 10 else duration(seconds)


def _difference(name: str, one: "Window", other: "Window", clocked: bool) -> list[str]:
    accuracy = NONE
    if one.accuracy is not None and other.accuracy is not None:
        accuracy = f"{points(other.accuracy - one.accuracy)} pp"
    times = [(one.bytes, other.bytes), (one.seconds, other.seconds)]
    if clocked:
        times.append((one.simulated or 0.0, other.simulated or 0.0))
    return [name, "", accuracy, "", *(_factor(*each) for each in times)]


def _factor(before: float, after: float) -> str:
    """'×0.33': `after` is a third of `before`."""
    return f"×{after / before:.2f}" if before > 0 else "" if after == before else NONE


def effect_lines(effect: "Effect", width: int) -> list[str]:
    """The table as lines of at most `width` cells. Without room, columns are left out, changes per round first."""
    titles, rows = effect_table(effect)
    columns = list(zip(titles, *rows, strict=True))
    while True:
        filled = []
        for title, *cells in columns:
            each = [title.removeprefix(">"), *cells]
            room = max(map(len, each))
            filled.append([cell.rjust(room) if title.startswith(">") else cell.ljust(room) for cell in each])
        lines = ["  ".join(row).rstrip() for row in zip(*filled, strict=True)]
        if max(map(len, lines)) <= width or len(columns) <= 3:
            return [line[:width] for line in lines]
        named = [title for title, *_ in columns]
        columns.pop(named.index(">per round") if ">per round" in named else -1)


NAME = 16  # cells of a class's name
RECALL = 9  # cells of a row's recall
SHORT = 3  # cells of a name that stands above a column; longer ones are numbered
ORDER = "Rows are the true classes, columns the answers."


class Cell(NamedTuple):
    """A count. share: of its row, 0…1. correct: on the diagonal."""

    text: str
    share: float
    correct: bool


Line = list[Cell | str]


def confusion_summary(found: "Confusion") -> str:
    """How many samples are correct, and how to read the grid."""
    return (
        f"After round {found.round}, client {found.client} answers {found.correct} of {found.samples} test samples "
        f"correctly. {ORDER}"
    )


def confusion_notes(found: "Confusion") -> Iterator[str]:
    """The largest confusions, and whether the ledger has other counts."""
    wrong = [
        (count, true, answer)
        for true, row in enumerate(found.counts)
        for answer, count in enumerate(row)
        if count and answer != true
    ]
    wrong.sort(key=lambda each: (-each[0], *each[1:]))
    if wrong:
        names, counts = found.classes, found.counts
        said = (
            f"{names[true]} as {names[answer]} ({count} of {sum(counts[true])})"
            for count, true, answer in wrong[:3]
        )
        yield f"Most frequent mistakes: {', '.join(said)}."
    if found.as_recorded is False:
        yield (
            "The ledger has other counts for this round: the run last evaluated the client with an earlier model, or "
            "on another machine."
        )


def confusion_grid(found: "Confusion", width: int, empty: str = "·") -> Iterator[Line]:
    """The counts in lines of at most `width` cells. If the columns do not fit, the next ones follow below.

    Classes without samples have no row. Those that are not answered either have no column. Zero is `empty`.
    """
    shown = found.by_class()
    rows = [label for label, each in shown.items() if each.samples]
    if not rows:
        yield ["The client has no test samples."]
        return
    short = all(cell_count(found.classes[label]) <= SHORT for label in shown)
    marks = {label: found.classes[label] if short else str(label) for label in shown}
    names = {label: marks[label] if short else f"{marks[label]} {found.classes[label]}" for label in rows}
    names = {label: name if cell_count(name) <= NAME else head(name, NAME) for label, name in names.items()}
    first = max(cell_count(name) for name in ("class", *names.values()))
    most = max(map(max, found.counts))
    room = 1 + max(len(str(most)), *map(cell_count, marks.values()))
    columns = list(shown)
    at_once = max((width - first - RECALL) // room, 1)
    for start in range(0, len(columns), at_once):
        block = columns[start : start + at_once]
        last = start + at_once >= len(columns)
        if start:
            yield [""]
        header = padded("class", first) + "".join(padded(marks[label], room, right=True) for label in block)
        yield [header + (padded("recall", RECALL, right=True) if last else "")]
        for label in rows:
            line: Line = [padded(names[label], first)]
            samples = shown[label].samples
            for answer in block:
                count = found.counts[label][answer]
                text = padded(str(count) if count else empty, room, right=True)
                line.append(Cell(text, count / samples, answer == label))
            if last:
                line.append(padded(percent(shown[label].recall), RECALL, right=True))
            yield line


def plain(line: Line) -> str:
    return "".join(each.text if isinstance(each, Cell) else each for each in line)


SHOWN = 12
"""Names that are listed of one kind."""


def data_summary(report: "Report") -> str:
    parts = [f"{report['samples']:,} samples", _number(report, "classes", "class", "classes")]
    parts += [
        _number(report, key, noun)
        for key, noun in (("domains", "domain"), ("clients", "user"), ("features", "feature"))
        if report[key]  # type: ignore[literal-required]
    ]
    if report["left_out"]:
        names = {name: name for name in report["left_out"]}
        parts.append(f"left out: {_listed(report, 'left_out', names, 3)}")
    return ", ".join(parts)


def data_facts(report: "Report") -> Iterator[tuple[str, str]]:
    """The report line by line. Warnings are left out."""
    test = f", {report['test']:,} of them for testing" if report["test"] else ""
    yield "samples", f"{report['samples']:,}{test}"
    for key, label in (("classes", "classes"), ("domains", "domains"), ("clients", "users")):
        if counts := report[key]:  # type: ignore[literal-required]
            yield label, _listed(report, key, {name: f"{name} ({count:,})" for name, count in counts.items()})
    if kinds := report["features"]:
        said = {name: f"{name} ({_texts(texts)})" for name, texts in kinds.items()}
        yield "features", _listed(report, "features", said)
    for note in report["notes"]:
        yield "read", note
    for name, why in list(report["left_out"].items())[:SHOWN]:
        yield "left out", f"{name}: {why}"
    if (more := _count(report, "left_out") - SHOWN) > 0:
        yield "left out", f"and {more:,} more"


def _texts(number: int) -> str:
    return f"{number:,} text{'s' * (number > 1)}" if number else "numbers"


def _count(report: "Report", key: str) -> int:
    held: Mapping[str, object] = report[key]  # type: ignore[literal-required]
    return report.get("numbers", {}).get(key, len(held))


def _number(report: "Report", key: str, noun: str, plural: str = "") -> str:
    count = _count(report, key)
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def _listed(report: "Report", key: str, names: Mapping[str, str], most: int = SHOWN) -> str:
    count = _count(report, key)
    number = f"{count:,}: " if most == SHOWN else ""
    more = f", and {count - most:,} more" if count > most else ""
    return number + ", ".join(list(names.values())[:most]) + more
