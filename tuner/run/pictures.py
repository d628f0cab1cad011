"""Pictures as plain data: panels of lines against bytes, of values by name, or maps of values.

They are stored in --json files, so that those of several MPI libraries can be joined; cli/plots.py draws them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import msgspec

from collforge.tuner.decide.evidence import Interval
from collforge.units import format_about


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


class Picture(msgspec.Struct, frozen=True, tag_field="kind"):
    """Panels by their titles."""

    panels: Mapping[str, Any]


class LinePicture(Picture, frozen=True, tag="lines"):
    """A panel of lines for each title."""

    panels: Mapping[str, Sequence[Line]]
    across: str = "bytes"
    """What the points' first number is."""
    unit: str = "ms"
    scale: float = 1e3
    """Values are multiplied by it to be in ``unit``."""
    title: str = ""


class DotPicture(Picture, frozen=True, tag="dots"):
    """A panel for each title: a row for each name, with its dots and intervals."""

    panels: Mapping[str, Sequence[Dots]]
    """By the axis, which is the unit of the values."""
    title: str = ""
    mark: float = 0.0
    """The position of a reference line in all panels, such as 1 for native; 0 for none."""


class MapPicture(Picture, frozen=True, tag="maps"):
    """A heat map for each title: a cell for each point, with its value."""

    panels: Mapping[str, Sequence[tuple[float, float, float]]]
    """(across, up, value) of each cell."""
    across: str
    up: str
    unit: str
    """What the values are."""
    title: str = ""


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
