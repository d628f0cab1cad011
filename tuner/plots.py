"""Pictures: small panels of lines against bytes, of values by name, or maps of values; logarithmic axes.

A picture is plain data, stored in --json files, so that pictures of several MPI libraries can be joined.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

import msgspec

from collforge.tuner.evidence import Interval
from collforge.tuner.request import format_about

LETTERS_PER_INCH = 13
"""Of a legend, about."""
COLUMNS = 5
MOST_LABELS = 5


@dataclass(frozen=True)
class Line:
    """A line of a panel; ``style`` is matplotlib's, e.g. ``o-``. A label has one colour in all panels."""

    label: str
    style: str
    points: Sequence[tuple[float, float]]
    """(across, value), e.g. bytes and seconds"""
    intervals: Sequence[Interval] = ()
    """One for each point, in the same unit; empty: none are drawn."""


@dataclass(frozen=True)
class Dots:
    """A value with its interval for each name of a panel. A label has one colour in all panels."""

    label: str
    values: Mapping[str, Interval]
    """Name -> value"""


SCALE = {-1.0: "#08306b", 0.0: "#009e73", 1.0: "#f0e442", 2.0: "#d55e00", 3.0: "#7f0000"}
"""Value -> colour of a map, values between them mixed: blue, green, yellow, red, dark red.

The order is that of Denis et al. (2022), section 5.2; the lightness tells 0 from 1 and 1 from 2 without hues.
"""


class Picture(msgspec.Struct, frozen=True, tag_field="kind"):
    """Panels by their titles."""

    panels: Mapping[str, Any]

    def draw(self, path: Path) -> None:
        """Writes the picture; the file's ending gives its format."""
        raise NotImplementedError


class LinePicture(Picture, frozen=True, tag="lines"):
    """A panel of lines for each title."""

    panels: Mapping[str, Sequence[Line]]
    across: str = "bytes"
    """What the points' first number is."""
    unit: str = "ms"
    scale: float = 1e3
    """Values are multiplied by it to be in ``unit``."""
    title: str = ""

    def draw(self, path: Path) -> None:
        colours = _colours(line.label for lines in self.panels.values() for line in lines)
        with _figure(self.panels, path, COLUMNS, (3.2, 2.8)) as (grid, shown):
            for (title, lines), axes in zip(self.panels.items(), grid):
                for line in (line for line in lines if line.points):
                    values = [value * self.scale for _, value in line.points]
                    numbers = [number for number, _ in line.points]
                    drawn = axes.loglog(numbers, values, line.style, color=colours[line.label])
                    shown.setdefault(line.label, drawn[0])
                    low = [one.low * self.scale for one in line.intervals]
                    high = [one.high * self.scale for one in line.intervals]
                    axes.vlines(numbers[: len(low)], low, high, color=colours[line.label])
                numbers = [number for line in lines for number, _ in line.points]
                _label_bytes(axes, numbers, plain=self.across != "bytes")
                _label_values(axes.yaxis)
                axes.set_title(textwrap.fill(title, 36), fontsize=9)
                axes.set_xlabel(self.across, fontsize=8)
                axes.set_ylabel(self.unit, fontsize=8)
                axes.figure.suptitle(self.title, fontsize=9)


class DotPicture(Picture, frozen=True, tag="dots"):
    """A panel for each title: a row for each name, with its dots and intervals."""

    panels: Mapping[str, Sequence[Dots]]
    """By the axis, which is the unit of the values."""
    title: str = ""
    mark: float = 0.0
    """The position of a reference line in all panels, such as 1 for native; 0 for none."""

    def draw(self, path: Path) -> None:
        colours = _colours(dots.label for series in self.panels.values() for dots in series)
        counts = (len(dots.values) for series in self.panels.values() for dots in series)
        size = (6.0, 1.2 + 0.25 * max(counts, default=1))
        with _figure(self.panels, path, 3, size) as (grid, shown):
            for (unit, series), axes in zip(self.panels.items(), grid):
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
                _label_values(axes.xaxis)
                axes.set_xlabel(unit, fontsize=8)
                axes.figure.suptitle(self.title, fontsize=9)
                if self.mark > 0:
                    axes.axvline(self.mark, color="black", linewidth=0.8)


class MapPicture(Picture, frozen=True, tag="maps"):
    """A heat map for each title: a cell for each point, with its value. The colours are SCALE."""

    panels: Mapping[str, Sequence[tuple[float, float, float]]]
    """(across, up, value) of each cell."""
    across: str
    up: str
    unit: str
    """What the values are."""
    title: str = ""

    def draw(self, path: Path) -> None:
        from matplotlib.colors import LinearSegmentedColormap, Normalize

        norm = Normalize(min(SCALE), max(SCALE))
        stops = [(float(norm(value)), colour) for value, colour in SCALE.items()]
        colours = LinearSegmentedColormap.from_list("overhead", stops)
        image = None
        with _figure(self.panels, path, 3, (3.6, 3.0)) as (grid, _):
            for (name, cells), axes in zip(self.panels.items(), grid):
                image = axes.imshow(
                    _matrix(cells), cmap=colours, norm=norm, origin="lower", aspect="auto"
                )
                columns = sorted({column for column, _, _ in cells})
                rows = sorted({row for _, row, _ in cells})
                for column, row, value in cells:
                    colour = "white" if value < -0.25 or value > 2 else "black"
                    at = (columns.index(column), rows.index(row))
                    axes.text(
                        *at, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=8
                    )
                axes.set_xticks(range(len(columns)), [f"{column:g}" for column in columns])
                axes.set_yticks(range(len(rows)), [f"{row:g}" for row in rows])
                axes.set_title(name, fontsize=9)
                axes.set_xlabel(self.across, fontsize=8)
                axes.set_ylabel(self.up, fontsize=8)
                axes.figure.suptitle(self.title, fontsize=9)
            if image is not None:
                bar = grid[0].figure.colorbar(image, ax=list(grid), extend="both")
                bar.set_label(self.unit, fontsize=8)


def read(stored: object) -> Picture:
    """A picture of a --json file. Raises msgspec.ValidationError if it is none."""
    picture: Picture = msgspec.convert(stored, Union[LinePicture, DotPicture, MapPicture])
    return picture


def join(pictures: Mapping[str, Picture]) -> Picture:
    """The panels of pictures of one kind, each under its picture's name, e.g. that of an MPI library."""
    first = next(iter(pictures.values()))
    panels: dict[str, Any] = {
        f"{name}: {title}": panel
        for name, picture in pictures.items()
        for title, panel in picture.panels.items()
    }
    return msgspec.structs.replace(first, panels=panels, title="")


def across(name: str, pictures: Mapping[int, Picture]) -> LinePicture:
    """One picture over another axis: a panel for each position of the pictures' own axis, or each row of dots.

    ``name``: of the new axis, e.g. nodes; ``pictures``: by their position on it, all of one kind.
    """
    panels: dict[str, dict[str, Line]] = {}
    for position, picture in pictures.items():
        for title, line in _pieces(picture):
            named = panels.setdefault(title, {})
            old = named.get(line.label, Line(line.label, line.style, []))
            points = [*old.points, *((position, value) for _, value in line.points)]
            intervals = [*old.intervals, *line.intervals]
            named[line.label] = Line(line.label, line.style, points, intervals)
    found = {title: list(lines.values()) for title, lines in panels.items()}
    if any(isinstance(picture, DotPicture) for picture in pictures.values()):
        return LinePicture(found, name, unit="", scale=1.0)
    return LinePicture(found, name)


def _pieces(picture: Picture) -> Iterator[tuple[str, Line]]:
    """Every value of a picture of lines or dots, as a line of one point, with the title of its panel."""
    assert isinstance(picture, (LinePicture, DotPicture)), "maps have no lines over another axis"
    for title, series in picture.panels.items():
        for one in series:
            if isinstance(one, Dots):
                for name, interval in one.values.items():
                    point = [(0.0, interval.median)]
                    yield f"{name}, {title}", Line(one.label, "o-", point, [interval])
                continue
            for i, (number, value) in enumerate(one.points):
                at = f"{title}, {_position(number, picture.across)}"  # type: ignore[union-attr]
                yield at, Line(one.label, one.style, [(0, value)], one.intervals[i : i + 1])


def _position(number: float, across: str) -> str:
    return format_about(int(number)) if across == "bytes" else f"{number:g} {across}"


def _matrix(cells: Sequence[tuple[float, float, float]]) -> list[list[float]]:
    """Rows from the lowest up; nan where there is no cell."""
    known = {(column, row): value for column, row, value in cells}
    columns, rows = (sorted({cell[i] for cell in cells}) for i in range(2))
    return [[known.get((column, row), math.nan) for column in columns] for row in rows]


def _label_bytes(axes: Any, sizes: Sequence[float], plain: bool) -> None:
    """Labels at up to MOST_LABELS of the sizes, as ``16 KiB``, or as they are if ``plain``."""
    from matplotlib.ticker import FixedLocator, NullLocator

    found = sorted(set(sizes))
    shown = found[:: -(-len(found) // MOST_LABELS)] if found else []
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.set_xticklabels([f"{n:g}" if plain else format_about(int(n)) for n in shown])
    if len(found) == 1:
        axes.set_xlim(found[0] / 2, found[0] * 2)


def _label_values(axis: Any) -> None:
    """Plain numbers: at 1, 2 and 5 of each power of ten, at the powers alone, or some within one power."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    low, high = axis.get_view_interval()
    digits = (1.0, 2.0, 5.0) if high < 1000 * low else (1.0,)
    near = high < 10 * low
    axis.set_major_locator(MaxNLocator(5) if near else LogLocator(subs=digits, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


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

    rows = max(1, -(-len(panels) // most_columns))
    columns = max(1, -(-len(panels) // rows))
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
    if len(panels) == 1 and shown:
        grid.flat[0].legend(shown.values(), shown.keys(), fontsize=8)
    elif shown:
        room = int(LETTERS_PER_INCH * figure.get_figwidth()) - 6  # a line and space before a label
        labels = [textwrap.fill(label, room) for label in shown]
        across = max(1, room // (max(map(len, shown)) + 6))
        figure.legend(
            list(shown.values()), labels, loc="outside lower center", fontsize=8, ncols=across
        )
    figure.savefig(path, dpi=80)
    pyplot.close(figure)
