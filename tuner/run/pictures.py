"""Pictures as plain data in panels: lines, dots, bars, maps, histograms, tables. cli/plots.py draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from collforge.tuner.decide.evidence import Interval


@dataclass(frozen=True)
class Line:
    """A line of a panel; ``style`` is matplotlib's, e.g. ``o-``. A label has one colour in all panels."""

    label: str
    style: str
    points: Sequence[tuple[float, float]]
    """(across, value), e.g. bytes and seconds"""
    intervals: Sequence[Interval] = ()
    """One for each point, in the same unit; empty: none are drawn."""
    doubted: Sequence[int] = ()
    """The numbers of points that certify nothing; they are hollow."""


@dataclass(frozen=True)
class Dots:
    """A value with its interval for each name of a panel. A label has one colour in all panels."""

    label: str
    values: Mapping[str, Interval]
    """Name -> value"""


class Picture(msgspec.Struct, frozen=True):
    """Panels by their titles."""

    panels: Mapping[str, Any]


class LinePicture(Picture, frozen=True):
    """A panel of lines for each title."""

    panels: Mapping[str, Sequence[Line]]
    across: str = "bytes"
    """What the points' first number is."""
    unit: str = "ms"
    scale: float = 1e3
    """Values are multiplied by it to be in ``unit``."""
    title: str = ""
    linear: bool = False
    """The axis of the values is linear, as for differences, and not logarithmic."""


class DotPicture(Picture, frozen=True):
    """A panel for each title: a row for each name, with its dots and intervals."""

    panels: Mapping[str, Sequence[Dots]]
    """By the axis, which is the unit of the values."""
    title: str = ""
    mark: float = 0.0
    """The position of a reference line in all panels, such as 1 for native; 0 for none."""


class MapPicture(Picture, frozen=True):
    """A heat map for each title: a cell for each point, with its value."""

    panels: Mapping[str, Sequence[tuple[float, float, float, bool]]]
    """(across, up, value) of each cell, and whether it is doubted."""
    across: str
    up: str
    unit: str
    """What the values are."""
    title: str = ""


@dataclass(frozen=True)
class Bar:
    group: str
    """The place of the axis."""
    label: str
    """Of the bar; one label has one colour."""
    parts: Mapping[str, float]
    """From the bottom; '' alone for a bar without parts."""
    interval: Interval
    """Of the whole."""
    is_doubted: bool = False
    """It certifies nothing, and is pale."""


class BarPicture(Picture, frozen=True):
    """A panel of groups of bars for each title."""

    panels: Mapping[str, Sequence[Bar]]
    across: str
    unit: str
    title: str = ""


class HistogramPicture(Picture, frozen=True):
    """A panel for each title: how often each label's values fall where."""

    panels: Mapping[str, Mapping[str, Sequence[float]]]
    unit: str
    title: str = ""


class TablePicture(Picture, frozen=True):
    """A table for each title: rows of cells, the first row being the heading."""

    panels: Mapping[str, Sequence[Sequence[str]]]
    title: str = ""
