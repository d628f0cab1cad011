"""The rows of a figure: what the --json files of its command hold, each with keys and quantities.

A key is a name, a number or a truth that says what was measured (``setting.mode``, ``bytes``). A quantity is a
list with one number a launch. Launches with the same index were measured near each other in time, so ratios of
two rows are made launch by launch.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from collforge.layout import from_name
from collforge.variant import NATIVE, split_name

LEAST, MOST = 1e-30, 1e30
"""What is nearer to 0 or further from it was not measured."""

Key = Union[str, int, float, bool]
Wanted = Mapping[str, Union[Key, Sequence[Key]]]
"""What the keys of a row must be: a value, one of several words, or a number of a range [from, to]."""


@dataclass(frozen=True)
class Row:
    keys: Mapping[str, Key]
    quantities: Mapping[str, Sequence[float]]
    doubt: str = ""
    """Why the row must not certify anything; '' if nothing is known against it."""
    exact: bool = False
    """Whether another launch would give the same: in a simulation."""

    def matches(self, wanted: Wanted) -> bool:
        return all(_is(self.keys.get(name), value) for name, value in wanted.items())

    def at(self, names: Sequence[str]) -> tuple[Key | None, ...]:
        return tuple(self.keys.get(name) for name in names)

    def places(self, names: Sequence[str]) -> dict[str, Key]:
        """Its values of these keys, as far as it has them and they are not empty."""
        return {name: self.keys[name] for name in names if self.keys.get(name, "") != ""}


def _is(key: Key | None, wanted: Key | Sequence[Key]) -> bool:
    if isinstance(wanted, (str, int, float)):
        return key == wanted
    if isinstance(wanted[0], str):
        return key in wanted
    low, high = wanted
    return isinstance(key, (int, float)) and low <= key <= high  # type: ignore[operator]


def read(document: Mapping[str, Any], layout: str) -> list[Row]:
    """The rows of a --json file. ``layout``: of the command, if it had one."""
    at: dict[str, Key] = {}
    if layout and "," not in layout:
        placed = from_name(layout).launched
        at = {"layout": layout, "nodes": placed.nodes, "ranks": placed.size}
    found = []
    for stored in document["rows"]:
        each = _variants(stored) if isinstance(stored.get("samples"), Mapping) else [stored]
        found += [_row({**at, **one}) for one in each]
    return found


def _variants(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row of `bench` as one for each variant, whose parameters are keys."""
    natives_first = sorted(row["samples"].items(), key=lambda item: item[0] != NATIVE)
    for name, launches in natives_first:
        family, text = split_name(name)
        words = [word.partition("=") for word in text.split(",")] if "=" in text else []
        seconds = [statistics.median(one) if one else math.nan for one in launches]
        yield {
            **{key: row[key] for key in ("collective", "bytes", "doubt") if key in row},
            **{key: int(value) if value.isdecimal() else value for key, _, value in words},
            "family": family,
            "variant": name,
            "seconds": seconds,
        }


def _row(stored: Mapping[str, Any]) -> Row:
    keys: dict[str, Key] = {}
    quantities: dict[str, Sequence[float]] = {}
    for name, value in _flat(stored, ""):
        if isinstance(value, list):
            if value and all(one is None or isinstance(one, (int, float)) for one in value):
                quantities[name] = [_finite(one) for one in value]
        elif value is not None and name != "doubt":
            keys[name] = value
    return Row(keys, quantities, str(stored.get("doubt", "")))


def _finite(value: float | None) -> float:
    return value if value == 0 or (value and LEAST < abs(value) < MOST) else math.nan


def _flat(stored: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in stored.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def table(rows: Sequence[Row]) -> list[dict[str, Key]]:
    """Plain rows for CSV: one for each row and launch."""
    found = []
    for row in rows:
        launches = max((len(each) for each in row.quantities.values()), default=0)
        for number in range(launches):
            values = {n: each[number] for n, each in row.quantities.items() if number < len(each)}
            found.append({**row.keys, "doubt": row.doubt, "launch": number + 1, **values})
    return found
