"""The finished rounds of a session: its records, and what takes a pass over all of them to know."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from simulator.base.record import Record, check_record, legible
from simulator.results.analysis import totals
from simulator.results.analysis.cka import CkaMeasurement
from simulator.results.analysis.curves import Curves, CurvesBuilder
from simulator.results.analysis.totals import Totals
from simulator.results.analysis.well_formed import well_formed


@dataclass(frozen=True, eq=False)
class Ledger:
    """The rounds up to one moment. It never changes."""

    records: tuple[Record, ...]
    """records[i] is round i + 1."""
    curves: Curves
    methods: tuple[tuple[int, str], ...]
    """The methods in order, each with the round from which on it was in force."""
    measured: tuple[CkaMeasurement, ...]
    """CKA where it was measured, in order of round."""

    @property
    def totals(self) -> Totals:
        """What a round has one number of."""
        return self.curves

    @classmethod
    def of(cls, records: Sequence[Record]) -> "Ledger":
        """Of the records of rounds 1, 2, …; raises like `LedgerBuilder.extend`."""
        builder = LedgerBuilder()
        builder.extend(records)
        return builder.ledger()


@dataclass(frozen=True, eq=False)
class Lines:
    """A ledger as text, decoded when more than its totals is asked for; then like `Ledger`.

    What it is asked for raises Damaged where the text is no session's.
    """

    folder: Path
    lines: tuple[bytes, ...]
    clients: int

    @cached_property
    def totals(self) -> Totals:
        with well_formed(self.folder):
            return totals.of_lines(self.lines)

    @cached_property
    def _whole(self) -> Ledger:
        with well_formed(self.folder):
            return Ledger.of(legible([check_record(json.loads(line), self.clients) for line in self.lines]))

    @property
    def records(self) -> tuple[Record, ...]:
        return self._whole.records

    @property
    def curves(self) -> Curves:
        return self._whole.curves

    @property
    def methods(self) -> tuple[tuple[int, str], ...]:
        return self._whole.methods

    @property
    def measured(self) -> tuple[CkaMeasurement, ...]:
        return self._whole.measured


class LedgerBuilder:
    """Takes in round after round; what was built earlier does not change."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._curves = CurvesBuilder()
        self._methods: list[tuple[int, str]] = []
        self._measured: list[CkaMeasurement] = []

    def extend(self, records: Sequence[Record]) -> None:
        """Take in more rounds.

        Raises KeyError, TypeError or ValueError for records that htfl-sim did not write, or when a round is missing.
        """
        self._curves.extend(records)
        for record in records:
            self._records.append(record)
            if record["round"] != len(self._records):
                raise ValueError(f"round {len(self._records)} is missing in the ledger")
            if not self._methods or self._methods[-1][1] != record["method"]:
                self._methods.append((record["round"], record["method"]))
            if measured := CkaMeasurement.of(record):
                self._measured.append(measured)

    def ledger(self) -> Ledger:
        return Ledger(
            tuple(self._records), self._curves.curves(), tuple(self._methods), tuple(self._measured)
        )
