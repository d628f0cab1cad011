"""The plot of `collforge report`: bandwidth of the busiest node's links against the bytes that they move."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from collforge import units
from collforge.tuner.cli import plots
from collforge.tuner.decide.bandwidth import Series, label

COLUMNS = 5
MARKERS = "osDv"
MOST_TICKS = 5
NARROWEST = 4.8
"""Inches: room for a legend."""
FRACTION = "fraction of link bandwidth"


def draw(panels: Mapping[str, Sequence[Series]], path: Path) -> None:
    """Draws a panel for each collective of each system, on shared axes; the file's ending gives its format.

    The unit is the fraction of link bandwidth if the link rates of all places (database keys) are known,
    else MB/s.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = by_system(panels)
    panels = {name: [one for one in found if one.points] for name, found in panels.items()}
    everything = [one for series in panels.values() for one in series]
    places = sorted({one.place for one in everything})
    labels = list(dict.fromkeys(label(one, places) for one in everything))
    known = all(one.rate for one in everything)
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    width = max(NARROWEST, 2.4 * columns)
    room = int(plots.LETTERS_PER_INCH * width)
    across = max(1, min(4, room // (6 + max(map(len, labels)))))  # 6: a line, and space
    figure, grid = pyplot.subplots(
        *(rows, columns),
        figsize=(width, 2.1 * rows + 0.8 + 0.18 * -(-len(labels) // across)),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    shown: dict[str, Any] = {}
    for (name, series), axes in zip(panels.items(), grid.flat):
        for one in series:
            number = places.index(one.place)
            drawn = _draw_series(axes, one, number, 1 / one.rate if known and one.rate else 1e-6)
            shown.setdefault(label(one, places), drawn)
        _label(axes, textwrap.fill(name, room // columns - 6), known)
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    last = "; vertical bars: 95\N{NO-BREAK SPACE}% intervals" + (
        "; black line: rate of the links" if known else ""
    )
    below = f"bytes through the links of the busiest node{last}"
    figure.supxlabel(textwrap.fill(below, room), fontsize=8)
    figure.supylabel(FRACTION if known else "bandwidth, MB/s", fontsize=8)
    legend = figure.legend(
        shown.values(), shown.keys(), loc="outside upper center", ncols=across, fontsize=8
    )
    legend.set_frame_on(False)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _label(axes: Any, title: str, known: bool) -> None:
    from matplotlib.ticker import LogLocator

    if known:
        axes.axhline(1, color="black", linewidth=0.6)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=MOST_TICKS))
    axes.xaxis.set_major_formatter(lambda size, _: units.format_size(int(size)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.tick_params(which="both", labelsize=6.5)
    axes.set_title(title, fontsize=8)


def by_system(panels: Mapping[str, Sequence[Series]]) -> dict[str, list[Series]]:
    """The panels, divided by system where there are several."""
    systems = sorted({one.place.system for series in panels.values() for one in series})
    found: dict[str, list[Series]] = {}
    for system in systems:
        for name, series in panels.items():
            title = f"{name}, {system}" if len(systems) > 1 else name
            here = [one for one in series if one.place.system == system]
            found.update({title: here} if here else {})
    return found


def _draw_series(axes: Any, one: Series, number: int, scale: float) -> Any:
    """Draws a line for the place (database key) with this number; returns its entry for the legend."""
    values = list(one.points.values())
    below = [(value.median - value.low) * scale for value in values]
    above = [(value.high - value.median) * scale for value in values]
    return axes.errorbar(
        list(one.points),
        [value.median * scale for value in values],
        [below, above],
        fmt=MARKERS[number % len(MARKERS)],
        color=f"C{number}",
        linestyle="-" if one.tuned else "--",
        markerfacecolor=f"C{number}" if one.tuned else "white",
        markersize=3.5,
        linewidth=1,
        capsize=2,
    )
