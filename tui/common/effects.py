"""What a switch or a fork changed, as a title, a table, and sentences."""

from collections.abc import Iterator, Sequence

from simulator.results.analysis.events import Effect, Window
from tui.common.formatting import NONE, duration, percent, points, size

NOTHING = "No switch and no fork yet. Press m to switch the method, or f to fork the round shown."
COLUMNS = ("", "rounds", ">accuracy", ">per round", ">bytes", ">time")
SIMULATED = ">simulated"


def title(effect: Effect) -> str:
    """'After round 12: method fedlora → fedssa', or 'Fork of main after round 12: …'."""
    begin = f"Fork of {effect.parent} after" if effect.kind == "fork" else "After"
    return f"{begin} round {effect.round}: {'; '.join(effect.changes) or 'nothing changed'}"


def columns(effect: Effect) -> tuple[str, ...]:
    """The titles of the table's columns; > before those of numbers."""
    return (*COLUMNS, SIMULATED) if _clocked(effect) else COLUMNS


def rows(effect: Effect) -> list[list[str]]:
    """The rounds before and after, their difference, and the same rounds of the fork's parent. Values are means."""
    before, after, beside = effect.before, effect.after, effect.beside
    clocked = _clocked(effect)
    found = [_row("before", before, clocked), _row("after", after, clocked)]
    if before and after:
        found.append(_difference("after − before", before, after, clocked))
    if beside:
        found.append(_row(f"{beside.session}, {beside.method}", beside, clocked))
        if after:
            found.append(_difference(f"after − {beside.session}", beside, after, clocked))
    return found


def notes(effect: Effect) -> Iterator[str]:
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


def _clocked(effect: Effect) -> bool:
    return any(each and each.simulated is not None for each in (effect.before, effect.after, effect.beside))


def _span(window: Window) -> str:
    return f"{window.first}" if window.rounds == 1 else f"{window.first}–{window.last}"


def _row(name: str, window: Window | None, clocked: bool) -> list[str]:
    if window is None:
        return [name, "none", *[NONE] * (4 + clocked)]
    simulated = [NONE if window.simulated is None else _seconds(window.simulated)] if clocked else []
    change = NONE if window.change is None else f"{points(window.change)} pp"
    return [
        name,
        f"{_span(window)} ({window.rounds})",
        percent(window.accuracy),
        change,
        size(window.bytes),
        _seconds(window.seconds),
        *simulated,
    ]


def _seconds(seconds: float) -> str:
    """With two decimals below 10 s, because a change of a round's time is to be seen."""
    return f"{seconds:.2f} s" if seconds < 10 else duration(seconds)


def _difference(name: str, one: Window, other: Window, clocked: bool) -> list[str]:
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


def lines(effect: Effect, width: int) -> list[str]:
    """The table as lines of at most `width` cells. Without room, columns are left out, changes per round first."""
    titles, cells = list(columns(effect)), rows(effect)
    while max(map(len, found := _aligned(titles, cells))) > width and len(titles) > 3:
        at = titles.index(">per round") if ">per round" in titles else len(titles) - 1
        titles.pop(at)
        for row in cells:
            row.pop(at)
    return [line[:width] for line in found]


def _aligned(titles: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """A table as lines of text, with two spaces between columns."""
    names = [name.removeprefix(">") for name in titles]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    right = [title.startswith(">") for title in titles]
    return [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in (names, *cells)
    ]
