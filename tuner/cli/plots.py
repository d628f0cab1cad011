"""Draws pictures (collforge.tuner.run.pictures) by matplotlib; times and sizes on logarithmic axes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import singledispatch
from pathlib import Path
from typing import Any

from collforge.tuner.run.pictures import (
    Bar,
    BarPicture,
    DotPicture,
    HistogramPicture,
    LinePicture,
    MapPicture,
    Picture,
    TablePicture,
)
from collforge.units import format_about

LETTERS_PER_INCH = 13
"""Of a legend, about."""
COLUMNS = 5
ROOM = 3
"""Factor between the least or greatest value of a panel and its frame."""
MOST_LABELS = 6
BINS = 12
PALE = 0.4
BARS_APART = 50
"""Bars that differ by more than this factor have a logarithmic axis."""
MARKERS = "os^Dv<>P*X"
HATCHES = ("", "///", "...", "xxx", "ooo", "---")

SCALE = {-1.0: "#08306b", 0.0: "#009e73", 1.0: "#f0e442", 2.0: "#d55e00", 3.0: "#7f0000"}
"""Value -> colour of a map, values between them mixed: blue, green, yellow, red, dark red.

The order is that of Denis et al. (2022), section 5.2; the lightness tells 0 from 1 and 1 from 2 without hues.
"""


@singledispatch
def draw(picture: Picture, path: Path) -> None:
    """Writes the picture; the file's ending gives its format."""
    raise NotImplementedError(type(picture).__name__)


@draw.register
def _line(picture: LinePicture, path: Path) -> None:
    colours = _colours(line.label for lines in picture.panels.values() for line in lines)
    markers = {label: MARKERS[i % len(MARKERS)] for i, label in enumerate(colours)}
    size = (3.2, 2.8) if len(picture.panels) > 1 else (5.2, 4.6)
    with _figure(picture.panels, path, COLUMNS, size) as (grid, shown):
        for (title, lines), axes in zip(picture.panels.items(), grid):
            for line in (line for line in lines if line.points):
                values = [value * picture.scale for _, value in line.points]
                numbers = [number for number, _ in line.points]
                style = line.style.replace("o", markers[line.label])
                drawn = axes.loglog(numbers, values, style, markersize=5, color=colours[line.label])
                hollow = [(numbers[i], values[i]) for i in line.doubted]
                axes.loglog(
                    [number for number, _ in hollow],
                    [value for _, value in hollow],
                    markers[line.label],
                    markersize=5,
                    color=colours[line.label],
                    markerfacecolor="white",
                )
                shown.setdefault(line.label, drawn[0])
                low = [one.low * picture.scale for one in line.intervals]
                high = [one.high * picture.scale for one in line.intervals]
                axes.vlines(numbers[: len(low)], low, high, color=colours[line.label])
            numbers = [number for line in lines for number, _ in line.points]
            values = [value * picture.scale for line in lines for _, value in line.points]
            if picture.linear:
                axes.set_yscale("linear")
                axes.axhline(0, color="black", linewidth=0.8)
            elif values:  # an interval of two launches may span decades, and goes on outside
                axes.set_ylim(min(values) / ROOM, max(values) * ROOM)
            _label_bytes(axes, numbers, plain=picture.across != "bytes")
            if not picture.linear:
                _label_values(axes.yaxis)
            _name(axes, picture.title, title, picture.across, picture.unit)


@draw.register
def _dot(picture: DotPicture, path: Path) -> None:
    colours = _colours(dots.label for series in picture.panels.values() for dots in series)
    counts = (len(dots.values) for series in picture.panels.values() for dots in series)
    size = (6.0, 1.2 + 0.25 * max(counts, default=1))
    with _figure(picture.panels, path, 3, size) as (grid, shown):
        for (unit, series), axes in zip(picture.panels.items(), grid):
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
            axes.figure.suptitle(picture.title, fontsize=9)
            if picture.mark > 0:
                axes.axvline(picture.mark, color="black", linewidth=0.8)


@draw.register
def _map(picture: MapPicture, path: Path) -> None:
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    norm = Normalize(min(SCALE), max(SCALE))
    stops = [(float(norm(value)), colour) for value, colour in SCALE.items()]
    colours = LinearSegmentedColormap.from_list("overhead", stops)
    image = None
    with _figure(picture.panels, path, 3, (3.6, 3.0)) as (grid, _):
        for (name, cells), axes in zip(picture.panels.items(), grid):
            image = axes.imshow(
                _matrix(cells), cmap=colours, norm=norm, origin="lower", aspect="auto"
            )
            columns = sorted({cell[0] for cell in cells})
            rows = sorted({cell[1] for cell in cells})
            for column, row, value, is_doubted in cells:
                colour = "white" if value < -0.25 or value > 2 else "black"
                at = (columns.index(column), rows.index(row))
                axes.text(
                    *at,
                    f"{value:.2f}{'?' * is_doubted}",
                    ha="center",
                    va="center",
                    color=colour,
                    fontsize=6 if len(columns) > 6 else 8,
                )
            axes.set_xticks(range(len(columns)), [f"{column:g}" for column in columns])
            axes.set_yticks(range(len(rows)), [f"{row:g}" for row in rows])
            _name(axes, picture.title, name, picture.across, picture.up)
        if image is not None:
            bar = grid[0].figure.colorbar(image, ax=list(grid), extend="both")
            bar.set_label(picture.unit, fontsize=8)


@draw.register
def _bar(picture: BarPicture, path: Path) -> None:
    bars = [bar for panel in picture.panels.values() for bar in panel]
    colours = _colours(bar.label for bar in bars)
    hatches = dict(zip(dict.fromkeys(part for bar in bars for part in bar.parts), HATCHES))
    with _figure(picture.panels, path, 3, (5.2, 4.0)) as (grid, shown):
        shown.update(_bar_legend(colours, hatches))
        for (title, panel), axes in zip(picture.panels.items(), grid):
            groups = list(dict.fromkeys(bar.group for bar in panel))
            labels = list(dict.fromkeys(bar.label for bar in panel))
            width = 0.8 / max(1, len(labels))
            for bar in panel:
                at = groups.index(bar.group) + (labels.index(bar.label) + 0.5) * width - 0.4
                _stack(axes, at, width, bar, colours[bar.label], hatches)
            axes.set_xticks(range(len(groups)), groups)
            heights = [
                height for bar in panel for height in bar.parts.values() if len(bar.parts) == 1
            ]
            if heights and 0 < min(heights) < max(heights) / BARS_APART:
                axes.set_yscale("log")
            _name(axes, picture.title, title, picture.across, picture.unit)


def _bar_legend(colours: Mapping[str, str], hatches: Mapping[str, str]) -> dict[str, Any]:
    """The bars by their colours, then the parts of bars by their hatches."""
    from matplotlib.patches import Patch

    bars = {label: Patch(facecolor=colour) for label, colour in colours.items() if label}
    parts = {
        part.rpartition(".")[2].replace("_", " "): Patch(
            facecolor="grey", hatch=hatch, edgecolor="white"
        )
        for part, hatch in hatches.items()
        if part
    }
    return {**bars, **parts}


def _stack(
    axes: Any, at: float, width: float, bar: Bar, colour: str, hatches: Mapping[str, str]
) -> None:
    bottom = 0.0
    for part, height in bar.parts.items():
        style = {"facecolor": colour, "hatch": hatches[part], "edgecolor": "white"}
        pale = PALE if bar.is_doubted else 1.0
        axes.bar(at, height, 0.9 * width, bottom=bottom, alpha=pale, **style)
        bottom += height
    axes.vlines(at, bar.interval.low, bar.interval.high, color="black")


@draw.register
def _histogram(picture: HistogramPicture, path: Path) -> None:
    colours = _colours(label for panel in picture.panels.values() for label in panel)
    with _figure(picture.panels, path, 3, (5.2, 4.0)) as (grid, shown):
        for (title, panel), axes in zip(picture.panels.items(), grid):
            every = [one for found in panel.values() for one in found]
            edges = _edges(min(every), max(every)) if every else []
            for label, found in panel.items():
                _, _, drawn = axes.hist(found, edges, alpha=0.6, color=colours[label])
                shown.setdefault(label or picture.unit, drawn)
            _name(axes, picture.title, title, picture.unit, "launches")


def _edges(least: float, most: float) -> list[float]:
    width = (most - least or 0.1 * abs(most) or 1.0) / BINS
    return [least + width * (number - 0.5) for number in range(BINS + 2)]


@draw.register
def _table(picture: TablePicture, path: Path) -> None:
    most = max((len(rows) for rows in picture.panels.values()), default=1)
    wide = max((len(rows[0]) for rows in picture.panels.values()), default=1)
    with _figure(picture.panels, path, 1, (2.6 + 1.9 * wide, 0.6 + 0.28 * most)) as (grid, _):
        for (title, rows), axes in zip(picture.panels.items(), grid):
            axes.axis("off")
            made = axes.table([*rows], loc="center", cellLoc="right", edges="horizontal")
            made.auto_set_font_size(False)
            made.set_fontsize(8)
            made.auto_set_column_width(list(range(len(rows[0]))))
            _name(axes, picture.title, title, "", "")


def _name(axes: Any, whole: str, panel: str, across: str, up: str) -> None:
    axes.set_title(textwrap.fill(panel, 44), fontsize=9)
    axes.set_xlabel(across, fontsize=8)
    axes.set_ylabel(up, fontsize=8)
    axes.figure.suptitle(whole, fontsize=9)


def _matrix(cells: Sequence[tuple[float, float, float, bool]]) -> list[list[float]]:
    """Rows from the lowest up; nan where there is no cell."""
    known = {(column, row): value for column, row, value, _ in cells}
    columns, rows = (sorted({cell[i] for cell in cells}) for i in range(2))
    return [[known.get((column, row), math.nan) for column in columns] for row in rows]


def _label_bytes(axes: Any, sizes: Sequence[float], plain: bool) -> None:
    """Labels at sizes that are not too near to each other, as ``16 KiB``, or as they are if ``plain``."""
    from matplotlib.ticker import FixedLocator, NullLocator

    found = sorted(set(sizes))
    at = dict(zip(found, axes.xaxis.get_transform().transform(found)))
    shown: list[float] = []
    for one in found:
        if not shown or at[one] - at[shown[-1]] >= (at[found[-1]] - at[found[0]]) / MOST_LABELS:
            shown.append(one)
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
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain_number(value)))
    axis.set_minor_formatter(NullFormatter())


def plain_number(value: float) -> str:
    """Without an exponent where that is readable: 0.00001, 250, 1e+09."""
    return f"{value:.6f}".rstrip("0").rstrip(".") if 1e-6 <= value < 1e6 else f"{value:g}"


def _colours(labels: Iterable[str]) -> dict[str, str]:
    """No colour twice: of matplotlib's palettes the one that has enough."""
    import matplotlib
    from matplotlib.colors import to_hex

    names = list(dict.fromkeys(labels))
    if len(names) <= 10:
        return {label: f"C{number}" for number, label in enumerate(names)}
    palette = matplotlib.colormaps["tab20" if len(names) <= 20 else "turbo"]
    steps = range(20) if len(names) <= 20 else [n / len(names) for n in range(len(names))]
    return {label: to_hex(palette(step)) for label, step in zip(names, steps)}


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
    if any(shown):  # outside the panels, where it covers no data
        room = int(LETTERS_PER_INCH * figure.get_figwidth()) - 6  # a line and space before a label
        labels = [textwrap.fill(label, room) for label in shown]
        across = max(1, room // (max(map(len, shown)) + 6))
        figure.legend(
            list(shown.values()), labels, loc="outside lower center", fontsize=8, ncols=across
        )
    figure.savefig(path, dpi=80)
    pyplot.close(figure)
