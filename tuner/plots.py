"""Plots: small panels of lines against bytes, of values by name, or maps of values; logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collforge.tuner.evidence import Interval

COLUMNS = 5


@dataclass(frozen=True)
class Line:
    """A line of a panel; ``style`` is matplotlib's, e.g. ``o-``. A label has one colour in all panels."""

    label: str
    style: str
    points: Sequence[tuple[int, float]]
    """(bytes, value); `draw` gives the axis and the unit of the value, usually seconds"""
    intervals: Sequence[Interval] = ()
    """One for each point, in the same unit; empty: none are drawn."""


@dataclass(frozen=True)
class Dots:
    """A value with its interval for each name of a panel. A label has one colour in all panels."""

    label: str
    values: Mapping[str, Interval]
    """Name -> value; `draw_dots` gives the unit"""


Map = Mapping[tuple[float, float], float]
"""(across, up) -> value. `draw_maps` gives the axes."""

SCALE = {-1.0: "#08306b", 0.0: "#009e73", 1.0: "#f0e442", 2.0: "#d55e00", 3.0: "#7f0000"}
"""Value -> colour of a map, values between them mixed: blue, green, yellow, red, dark red.

The order is that of Denis et al. (2022), section 5.2; the lightness tells 0 from 1 and 1 from 2 without hues.
"""


def draw(
    panels: Mapping[str, Sequence[Line]],
    path: Path,
    scale: float = 1e3,
    unit: str = "ms",
    across: str = "bytes",
) -> None:
    """Writes a panel for each title into one picture; the file's ending gives its format.

    ``across``: the axis of the points' first number. Values are multiplied by ``scale`` and shown in ``unit``.
    """
    colours = _colours(line.label for lines in panels.values() for line in lines)
    with _figure(panels, path, COLUMNS, (3.2, 2.8)) as (grid, shown):
        for (title, lines), axes in zip(panels.items(), grid):
            for line in lines:
                values = [value * scale for _, value in line.points]
                sizes = [nbytes for nbytes, _ in line.points]
                drawn = axes.loglog(sizes, values, line.style, color=colours[line.label])
                shown.setdefault(line.label, drawn[0])
                low = [one.low * scale for one in line.intervals]
                high = [one.high * scale for one in line.intervals]
                axes.vlines(sizes[: len(low)], low, high, color=colours[line.label])
            _label_ticks(axes, across != "bytes", [n for line in lines for n, _ in line.points])
            axes.set_title(title, fontsize=9)
            axes.set_xlabel(across, fontsize=8)
            axes.set_ylabel(unit, fontsize=8)


def _label_ticks(axes: Any, few: bool, numbers: Iterable[int]) -> None:
    """Plain numbers instead of powers; ``few``: one for each point."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    plain = FuncFormatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(plain)
    axes.yaxis.set_minor_formatter(plain)
    if few:
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(sorted(set(numbers)))
        axes.xaxis.set_major_formatter(plain)


def draw_dots(
    panels: Mapping[str, Sequence[Dots]], path: Path, title: str, mark: float | None = None
) -> None:
    """Writes a panel for each unit into one picture: a row for each name, with its dots and intervals.

    ``mark``: the position of a reference line in all panels, such as 1 for native.
    """
    colours = _colours(dots.label for series in panels.values() for dots in series)
    most = max((len(dots.values) for series in panels.values() for dots in series), default=1)
    with _figure(panels, path, 3, (6.0, 1.2 + 0.25 * most)) as (grid, shown):
        for (unit, series), axes in zip(panels.items(), grid):
            names = list(dict.fromkeys(name for dots in series for name in dots.values))
            for dots in series:
                known = list(dots.values.values())
                errors = [
                    [one.median - one.low for one in known],
                    [one.high - one.median for one in known],
                ]
                drawn = axes.errorbar(
                    [one.median for one in known],
                    [names.index(name) for name in dots.values],
                    xerr=errors,
                    fmt="o",
                    capsize=3,
                    color=colours[dots.label],
                )
                shown.setdefault(dots.label, drawn)
            axes.set_yticks(range(len(names)), names)
            axes.invert_yaxis()
            axes.set_xscale("log")
            axes.set_xlabel(unit, fontsize=8)
            axes.figure.suptitle(title, fontsize=9)
            if mark is not None:
                axes.axvline(mark, color="black", linewidth=0.8)


def draw_maps(
    panels: Mapping[str, Map], path: Path, title: str, across: str, up: str, unit: str
) -> None:
    """Writes a heat map for each title into one picture: a cell for each point, with its value.

    ``across``, ``up``: the axes of the points' numbers. ``unit``: what the values are. The scale is SCALE.
    """
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    norm = Normalize(min(SCALE), max(SCALE))
    stops = [(float(norm(value)), colour) for value, colour in SCALE.items()]
    colours = LinearSegmentedColormap.from_list("overhead", stops)
    image = None
    with _figure(panels, path, 3, (3.6, 3.0)) as (grid, _):
        for (name, cells), axes in zip(panels.items(), grid):
            columns = sorted({column for column, _ in cells})
            rows = sorted({row for _, row in cells})
            values = [[cells.get((column, row), math.nan) for column in columns] for row in rows]
            image = axes.imshow(values, cmap=colours, norm=norm, origin="lower", aspect="auto")
            for (column, row), value in cells.items():
                dark = value < -0.25 or value > 2
                at = (columns.index(column), rows.index(row))
                colour = "white" if dark else "black"
                axes.text(*at, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=8)
            axes.set_xticks(range(len(columns)), [f"{column:g}" for column in columns])
            axes.set_yticks(range(len(rows)), [f"{row:g}" for row in rows])
            axes.set_title(name, fontsize=9)
            axes.set_xlabel(across, fontsize=8)
            axes.set_ylabel(up, fontsize=8)
            axes.figure.suptitle(title, fontsize=9)
        if image is not None:
            bar = grid[0].figure.colorbar(image, ax=list(grid), extend="both")
            bar.set_label(unit, fontsize=8)


def _colours(labels: Iterable[str]) -> dict[str, str]:
    return {label: f"C{number}" for number, label in enumerate(dict.fromkeys(labels))}


@contextmanager
def _figure(
    panels: Mapping[str, object], path: Path, most_columns: int, size: tuple[float, float]
) -> Iterator[tuple[Sequence[Any], dict[str, Any]]]:
    """Yields the axes of the panels (size in inches) and a dict for the legend; then writes the file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = min(most_columns, max(1, len(panels)))
    rows = max(1, -(-len(panels) // columns))
    figure, grid = pyplot.subplots(
        rows,
        columns,
        figsize=(size[0] * columns, size[1] * rows),
        squeeze=False,
        layout="constrained",
    )
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    shown: dict[str, Any] = {}
    yield list(grid.flat[: len(panels)]), shown
    for axes in grid.flat[: len(panels)]:
        axes.tick_params(which="both", labelsize=7)
    if shown:
        grid.flat[0].legend(shown.values(), shown.keys(), fontsize=8)
    figure.savefig(path, dpi=80)
    pyplot.close(figure)
