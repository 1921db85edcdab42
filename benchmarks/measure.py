"""Figures, their bounds, and the table they are printed in."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One measured figure. `hold` must be kept, `reach` is aimed at; `higher` says which way is better."""

    name: str
    value: float
    unit: str
    hold: float
    reach: float
    higher: bool
    #: what it was made of, for whoever doubts it
    basis: str = ""

    @property
    def holds(self) -> bool:
        return self.value >= self.hold if self.higher else self.value <= self.hold


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def table(figures: Sequence[Figure]) -> str:
    """The figures as an aligned table, one line each."""
    rows = [("figure", "measured", "hold", "reach", "", "basis")]
    for one in figures:
        sign = "≥" if one.higher else "≤"
        rows.append(
            (
                one.name,
                f"{one.value:.3g} {one.unit}".strip(),
                f"{sign} {one.hold:g}",
                f"{sign} {one.reach:g}",
                "holds" if one.holds else "MISSED",
                one.basis,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[5]])
        for row in rows
    )
