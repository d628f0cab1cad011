"""The picture of a figure, from the rows of each MPI library."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from collforge.papers.figures import Drawn, values
from collforge.papers.figures.rows import Key, Row
from collforge.papers.figures.values import Value
from collforge.tuner.decide.evidence import Interval
from collforge.tuner.run.pictures import (
    Bar,
    BarPicture,
    HistogramPicture,
    Line,
    LinePicture,
    MapPicture,
    Picture,
    TablePicture,
)


@dataclass(frozen=True)
class _Point:
    row: Row
    interval: Interval
    samples: Sequence[float]
    is_doubted: bool


Panels = Mapping[str, Sequence[_Point]]


def draw(drawn: Drawn, rows: Mapping[str, Sequence[Row]]) -> Picture:
    """``rows``: by the library's name. Raises CollforgeError if the picture does not fit the rows."""
    panels: dict[str, list[_Point]] = {}
    for library, of_library in rows.items():
        for point in _points(drawn, of_library):
            words = [library, *(_text(name, point.row) for name in drawn.panels)]
            panels.setdefault(", ".join(filter(None, words)), []).append(point)
    return _DRAWERS[drawn.kind](drawn, panels)


def _points(drawn: Drawn, rows: Sequence[Row]) -> list[_Point]:
    axes = {"map": (drawn.across, drawn.up), "lines": (drawn.across,)}
    numbers = axes.get(drawn.kind, ())
    shown = [
        row
        for row in rows
        if row.matches(drawn.where)
        and all(isinstance(row.keys.get(name), (int, float)) for name in numbers)
    ]
    found: list[Value] = []
    for row in shown:
        if not drawn.over:
            found.append(values.total(row, drawn.values or [drawn.value]))
            continue
        base = values.over(rows, row, drawn.over, drawn.names)
        if base is not None and base is not row:
            found.append(values.ratio(row, base, drawn.value))
    # Launches differ alike in what has one unit. Of a table, only the values of a column have.
    columns: dict[Key | None, list[Value]] = {}
    for one in found:
        if one.samples:
            at = one.row.keys.get(drawn.across) if drawn.kind == "table" else None
            columns.setdefault(at, []).append(one)
    points = []
    for each in (values.alike(one, drawn.value) for one in columns.values()):
        shared = values.spread(each)
        points += [
            _Point(
                one.row, _scaled(drawn, values.interval(one, shared)), one.samples, bool(one.doubt)
            )
            for one in each
        ]
    return points


def _scaled(drawn: Drawn, one: Interval) -> Interval:
    if math.isinf(one.high):  # of one launch
        one = Interval(one.median, one.median, one.median)
    shift = 1.0 if drawn.gap else 0.0
    scale = 100.0 if drawn.gap else drawn.scale
    return Interval(*((end - shift) * scale for end in (one.median, one.low, one.high)))


def _text(name: str, row: Row) -> str:
    """A key's value, with the name's last part for numbers: ``4 nodes``, ``1 node``."""
    value = row.keys.get(name)
    if value is None or value == "":
        return ""
    if isinstance(value, str):
        return value
    unit = name.rpartition(".")[2]
    return f"{value:g} {unit[:-1] if value == 1 and unit.endswith('s') else unit}"


def _label(drawn: Drawn, row: Row) -> str:
    return ", ".join(filter(None, (_text(name, row) for name in drawn.series)))


def _place(row: Row, name: str) -> Key:
    return row.keys.get(name, "")


def _lines(drawn: Drawn, panels: Panels) -> Picture:
    found = {}
    for name, points in panels.items():
        lines: dict[str, list[_Point]] = {}
        for point in points:
            lines.setdefault(_label(drawn, point.row), []).append(point)
        found[name] = [_line(label, each, drawn.across) for label, each in lines.items()]
    unit = "% more than native" if drawn.gap and not drawn.unit else drawn.unit
    return LinePicture(found, drawn.axis, unit, scale=1.0, linear=drawn.gap)


def _line(label: str, points: Sequence[_Point], across: str) -> Line:
    ordered = sorted(points, key=lambda point: float(_place(point.row, across)))
    at = [(float(_place(point.row, across)), point.interval.median) for point in ordered]
    doubted = [number for number, point in enumerate(ordered) if point.is_doubted]
    return Line(label, "o-", at, [point.interval for point in ordered], doubted)


def _bars(drawn: Drawn, panels: Panels) -> Picture:
    found = {name: [_bar(drawn, point) for point in points] for name, points in panels.items()}
    return BarPicture(found, drawn.axis, drawn.unit)


def _bar(drawn: Drawn, point: _Point) -> Bar:
    parts = {"": point.interval.median}
    if drawn.values:
        parts_of = {name: values.value(point.row, name) for name in drawn.values}
        parts = {name: one.mean * drawn.scale for name, one in parts_of.items() if one.samples}
    group, label = str(_place(point.row, drawn.across)), _label(drawn, point.row)
    return Bar(group, label, parts, point.interval, point.is_doubted)


def _maps(drawn: Drawn, panels: Panels) -> Picture:
    found = {
        name: [
            (
                float(_place(point.row, drawn.across)),
                float(_place(point.row, drawn.up)),
                point.interval.median,
                point.is_doubted,
            )
            for point in points
        ]
        for name, points in panels.items()
    }
    return MapPicture(found, drawn.axis, drawn.up.replace("_ms", " (ms)"), drawn.unit)


def _histograms(drawn: Drawn, panels: Panels) -> Picture:
    found: dict[str, dict[str, list[float]]] = {}
    for name, points in panels.items():
        for point in points:
            series = found.setdefault(name, {}).setdefault(_label(drawn, point.row), [])
            series += [one * drawn.scale for one in point.samples]
    return HistogramPicture(found, drawn.unit)


def _tables(drawn: Drawn, panels: Panels) -> Picture:
    found = {}
    for name, points in panels.items():
        columns = list(dict.fromkeys(_place(point.row, drawn.across) for point in points))
        cells = {
            (_label(drawn, p.row), _place(p.row, drawn.across)): values.shown(p.interval)
            + "?" * p.is_doubted
            for p in points
        }
        labels = list(dict.fromkeys(label for label, _ in cells))
        words = [c if isinstance(c, str) else f"{c} {drawn.across}" for c in columns]
        heading = [drawn.unit, *words]
        rows = [
            [label, *(cells.get((label, column), "") for column in columns)] for label in labels
        ]
        found[name] = [heading, *rows]
    return TablePicture(found)


_DRAWERS: Mapping[str, Callable[[Drawn, Panels], Picture]] = {
    "lines": _lines,
    "bars": _bars,
    "stacked": _bars,
    "map": _maps,
    "histogram": _histograms,
    "table": _tables,
}
