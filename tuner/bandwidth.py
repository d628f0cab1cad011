"""The plot of `collforge report`: bandwidth of the busiest node's links against the bytes that they move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collforge.db import Lanes, Store
from collforge.generator.manifest import Manifest
from collforge.layout import from_name
from collforge.mpi_library import short_version
from collforge.place import Place
from collforge.reframe_checks.systems.emulated import ClusterSpec
from collforge.tuner import request
from collforge.tuner.evidence import Interval, median_interval

COLUMNS = 5
MARKERS = "osDv"
FRACTION = "fraction of link bandwidth"


@dataclass(frozen=True)
class Series:
    """One line of a panel: native or tuned, for one MPI library on one layout."""

    place: Place
    tuned: bool
    points: Mapping[float, Interval]
    """Bytes through the links of the busiest node -> bytes/s with a 95 % interval."""
    rate: float | None
    """Bytes/s of all links of a node in each direction; None if not known."""


def read_series(
    store: Store, made: Manifest, places: Sequence[Place], collectives: Sequence[str]
) -> dict[str, list[Series]]:
    """For each measured collective, the line of native and the line of the winners at decided sizes.

    Left out are collectives that move no data. Native's points use the samples of all launches.
    """
    found: dict[str, list[Series]] = {}
    for place in places:
        at, rate = from_name(place.layout), link_rate(place, store)
        ratios = {
            (one.choice.variant.collective, one.choice.bytes): one.choice
            for one in store.winners_at(place)
        }
        for name in collectives:
            entry = made.collective(name)
            samples: dict[int, list[float]] = {}
            for one in store.measurements(place, name):
                if one.variant.is_native:
                    samples.setdefault(one.bytes, []).extend(one.samples)
            if entry.sized == "none" or entry.hybrid or not samples:
                continue
            native, tuned = {}, {}
            for size in sorted(samples):
                moved = at.sharing * entry.least_bytes(at.nodes, max(at.node_sizes), size)
                time = median_interval(samples[size])
                now = [moved / seconds for seconds in (time.median, time.high, time.low)]
                if moved:
                    native[moved] = Interval(*now)
                if moved and (name, size) in ratios:
                    won = ratios[name, size]
                    tuned[moved] = Interval(*(now[0] * r for r in (won.ratio, won.low, won.high)))
            if native:
                found.setdefault(name, []).append(Series(place, False, native, rate))
                found[name].append(Series(place, True, tuned, rate))
    return found


def draw(panels: Mapping[str, Sequence[Series]], path: Path) -> None:
    """Draws a panel for each collective, on shared axes; the file's ending gives its format.

    The unit is the fraction of link bandwidth if the link rates of all places (database keys) are known,
    else MB/s.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    places = sorted({one.place for series in panels.values() for one in series})
    known = all(one.rate for series in panels.values() for one in series)
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure, grid = pyplot.subplots(
        *(rows, columns),
        figsize=(2.4 * columns, 2.1 * rows + 0.8),
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
        if known:
            axes.axhline(1, color="black", linewidth=0.6)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda size, _: request.format_size(int(size)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
        axes.tick_params(which="both", labelsize=6.5)
        axes.set_title(name, fontsize=9)
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    last = "; vertical bars: 95 % intervals" + ("; black line: rate of the links" if known else "")
    figure.supxlabel(f"bytes through the links of the busiest node{last}", fontsize=8)
    figure.supylabel(FRACTION if known else "bandwidth, MB/s", fontsize=8)
    legend = figure.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=4)
    legend.set_frame_on(False)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


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


def label(series: Series, places: Sequence[Place]) -> str:
    """``Open MPI v4.1.4, tuned``, with system and layout if the places (database keys) differ in these."""
    place = series.place
    name = short_version(place.mpi_version)
    several = len({(one.system, one.layout) for one in places}) > 1
    where = f", {place.system} {place.layout}" if several else ""
    return f"{name}{where}, {'tuned' if series.tuned else 'native'}"


def link_rate(place: Place, store: Store | None = None) -> float | None:
    """Bytes/s of all links of a node in each direction; None if not known.

    For an emulated cluster it follows from the system's name, else `collforge probe lanes` has stored it.
    """
    found = lanes(place, store)
    return found.number * found.rate if found else None


def lanes(place: Place, store: Store | None = None) -> Lanes | None:
    """The physical lanes of a node; None if not known. As link_rate."""
    spec = ClusterSpec.of_system(place.system)
    if spec is not None:
        return Lanes(spec.rails, spec.bits_per_second / 8)
    return store.lanes(place) if store else None
