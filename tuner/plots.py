"""Plots: small panels of time, or something else, against bytes, both on logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COLUMNS = 5


@dataclass(frozen=True)
class Line:
    """A line of a panel; ``style`` is matplotlib's, e.g. ``o-``. A label has one colour in all panels."""

    label: str
    style: str
    points: Sequence[tuple[int, float]]
    """(bytes, seconds), or whatever `draw` is told that it is"""


def draw(
    panels: Mapping[str, Sequence[Line]], path: Path, scale: float = 1e3, unit: str = "ms"
) -> None:
    """Writes a panel for each title into one picture; the file's ending tells its format.

    What the lines have beside the bytes is shown times ``scale``, in this unit.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = min(COLUMNS, max(1, len(panels)))
    rows = -(-len(panels) // columns)
    figure, grid = pyplot.subplots(
        max(1, rows),
        columns,
        figsize=(3.2 * columns, 2.8 * max(1, rows)),
        squeeze=False,
        layout="constrained",
    )
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    labels = dict.fromkeys(line.label for lines in panels.values() for line in lines)
    colours = {label: f"C{number}" for number, label in enumerate(labels)}
    shown: dict[str, Any] = {}
    for (title, lines), axes in zip(panels.items(), grid.flat):
        for line in lines:
            values = [value * scale for _, value in line.points]
            sizes = [nbytes for nbytes, _ in line.points]
            drawn = axes.loglog(sizes, values, line.style, color=colours[line.label])
            shown.setdefault(line.label, drawn[0])
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("bytes", fontsize=8)
        axes.set_ylabel(unit, fontsize=8)
        axes.tick_params(labelsize=7)
    if panels:
        grid.flat[0].legend(shown.values(), shown.keys(), fontsize=8)
    figure.savefig(path, dpi=80)
    pyplot.close(figure)
