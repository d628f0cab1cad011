"""Whether measurements fulfil what a paper says of a figure.

A claim speaks of cells: rows, or ratios of two rows. It holds if enough of them are surely inside its bounds,
and does not hold if too many are surely outside. Surely is by intervals over launches, corrected for the number
of cells. Otherwise it cannot be told. Never does the best cell of many decide.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Optional

import msgspec

from collforge.errors import CollforgeError
from collforge.papers.figures import values
from collforge.papers.figures.rows import Key, Row, Wanted
from collforge.papers.figures.values import LEAST_LAUNCHES, Value
from collforge.tuner.decide.evidence import CONFIDENCE, Interval

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
DOWN = "down"
FAR = 8
"""A crossing is not known where the sure places on both sides are further than this factor from the paper's."""

RDMA, SOFTWARE = "rdma", "software"
"""What a claim can need: a network that does puts and gets itself, or one that leaves them to the target."""


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that a paper says of a figure."""

    says: str
    """In our words."""
    value: str
    """A quantity of the rows."""
    of: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Of which rows (rows.Wanted) ..."""
    over: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """... divided by those of which rows, with the same other keys of the picture; empty: the value itself."""
    order: tuple[Mapping[str, Any], ...] = ()
    """Instead of both: the value of each of these rows over that of the next."""
    where: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The part of the figure of which the claim speaks."""
    at_least: Optional[float] = None  # noqa: UP045 (msgspec evaluates it, on Python 3.9, too)
    at_most: Optional[float] = None  # noqa: UP045 (likewise)
    along: str = ""
    """A key: the value at its greatest place over that at its least one is bounded instead, or crosses 1."""
    crosses: Literal["", "up", "down"] = ""
    """Below 1 at the least place, above it at the greatest one (up), or the reverse (down)."""
    within: Optional[tuple[float, float]] = None  # noqa: UP045 (likewise)
    """The places between which it crosses in the paper."""
    share: float = 1.0
    """Of the cells. It must be so for all of them, or for more than this share, at least half."""
    needs: str = ""
    """RDMA or SOFTWARE; empty: any network."""
    mpi: str = ""
    """The MPI library that the claim is about, openmpi or mpich; empty: any."""


class Verdict(msgspec.Struct, frozen=True):
    claim: str
    """Its words."""
    word: str
    """HOLDS, FAILS or OPEN."""
    reason: str
    """The cell that decides, with its interval, and how many cells are so; or why it cannot be told."""


@dataclass(frozen=True)
class Cell:
    """What is judged as one: a value, or those along an axis."""

    is_so: bool | None
    """None: it cannot be told."""
    says: str
    """Its value and place."""
    doubt: str = ""
    distance: float = 0.0
    """Of the value from the bound, negative outside: the least decides what is shown."""


@dataclass(frozen=True)
class Grid:
    """The rows of a figure with one MPI library, and the keys that tell its cells apart."""

    rows: Sequence[Row]
    names: Sequence[str] = field(default_factory=tuple)
    network: str = ""
    """RDMA or SOFTWARE; empty: not known, so what only one of them has is not refuted."""


def judge(claim: Claim, grid: Grid) -> Verdict:
    """Raises CollforgeError if the claim does not fit the rows."""
    if grid.network and claim.needs not in ("", grid.network):
        return Verdict(claim.says, OPEN, "the network here is not of that kind")
    verdict = _judge(claim, grid)
    if claim.needs and not grid.network and verdict.word == FAILS:
        said = f"so it is not, or the network is not of that kind: {verdict.reason}"
        return Verdict(claim.says, OPEN, said)
    return verdict


def _judge(claim: Claim, grid: Grid) -> Verdict:
    found = values.alike(list(_values(claim, grid)), claim.value)
    if not claim.along:
        return _verdict(claim, _Test.of(claim, found, grid).bounded(found))
    groups = _groups(claim, found, grid.names)
    if claim.crosses:
        test = _Test.of(claim, found, grid)
        return _verdict(claim, [test.crossing(each) for each in groups])
    growths = [_growth(each, claim.along) for each in groups]
    return _verdict(claim, _Test.of(claim, growths, grid).bounded(growths))


def _values(claim: Claim, grid: Grid) -> Iterator[Value]:
    pairs = list(zip(claim.order, claim.order[1:])) or [(claim.of, claim.over)]
    for of, base in pairs:
        names = [name for name in grid.names if name not in of]
        for row in grid.rows:
            if not row.matches(of) or not row.matches(claim.where):
                continue
            if not base:
                yield values.value(row, claim.value)
                continue
            below = values.over(grid.rows, row, base, names)
            if below is None:
                yield Value(row, [], True, f"nothing was measured of {_words(base)} there")
            else:
                yield values.ratio(row, below, claim.value)


def _groups(claim: Claim, found: Sequence[Value], names: Sequence[str]) -> list[list[Value]]:
    """The values along the claim's axis, for each place on the others; in ascending order."""
    groups: dict[tuple[Key | None, ...], list[Value]] = {}
    axes = [claim.along, *(["layout"] if claim.along in ("nodes", "ranks") else [])]
    for one in found:
        groups.setdefault(one.row.at([n for n in names if n not in axes]), []).append(one)
    for each in groups.values():
        missing = [one for one in each if claim.along not in one.row.keys]
        if missing:
            raise CollforgeError(f"a row has no {claim.along}")
        if any(isinstance(one.row.keys[claim.along], str) for one in each):
            raise CollforgeError(f"{claim.along} is no number")
        each.sort(key=lambda one: float(one.row.keys[claim.along]))
    return list(groups.values())


def _growth(group: Sequence[Value], along: str) -> Value:
    """The value at the end of an axis over that at its begin."""
    first, last = group[0], group[-1]
    if first.row.keys.get(along) == last.row.keys.get(along):
        return Value(last.row, [], True, f"only one place of {along} was measured")
    end, begin = (
        replace(one.row, quantities={"": one.samples}, doubt=one.doubt) for one in (last, first)
    )
    return values.ratio(end, begin, "")


@dataclass(frozen=True)
class _Test:
    claim: Claim
    shared: tuple[float, int]
    confidence: float
    names: Sequence[str]

    @classmethod
    def of(cls, claim: Claim, judged: Sequence[Value], grid: Grid) -> _Test:
        shared = values.spread([one for one in judged if not one.doubt])
        confidence = 1 - (1 - CONFIDENCE) / max(1, len(judged))
        return cls(claim, shared, confidence, grid.names)

    def bounded(self, judged: Sequence[Value]) -> list[Cell]:
        return [self._bounded(one) for one in judged]

    def _interval(self, one: Value) -> tuple[Interval | None, str]:
        """The value's interval, or why there is none."""
        if one.doubt or not one.samples:
            return None, one.doubt or "nothing was measured"
        if len(one.samples) < LEAST_LAUNCHES and not one.row.exact:
            number = len(one.samples)
            return None, f"{number} launch{'es' if number > 1 else ''}, {LEAST_LAUNCHES} are needed"
        return values.interval(one, self.shared, self.confidence), ""

    def _bounded(self, one: Value) -> Cell:
        found, doubt = self._interval(one)
        place = _words(one.row.places(self.names))
        if found is None:
            return Cell(None, f"{values.text(one.mean)} at {place}" if one.samples else "", doubt)
        least = -math.inf if self.claim.at_least is None else self.claim.at_least
        most = math.inf if self.claim.at_most is None else self.claim.at_most
        inside = least < found.low and found.high < most
        outside = found.high < least or found.low > most
        says = f"{values.shown(found)} at {place}"
        distance = min(found.median - least, most - found.median)
        doubt = "" if inside or outside else "the interval has the bound in it"
        return Cell(True if inside else False if outside else None, says, doubt, distance)

    def crossing(self, group: Sequence[Value]) -> Cell:
        """Decided by the places that are surely below or above 1; there must be one of each."""
        sides: list[tuple[float, bool]] = []
        doubts = []
        for one in group:
            found, doubt = self._interval(one)
            if found is None or found.low <= 1 <= found.high:
                doubts.append(doubt or "intervals have 1 in them")
            else:
                sides.append((float(one.row.keys[self.claim.along]), found.low > 1))
        low_is_above = self.claim.crosses == DOWN
        begins = [place for place, above in sides if above == low_is_above]
        ends = [place for place, above in sides if above != low_is_above]
        says = f"{'above' if low_is_above else 'below'} 1 at {self.claim.along} {_list(begins)}, "
        says += f"{'below' if low_is_above else 'above'} at {_list(ends)}"
        if begins and ends:
            crossed = max(begins) < min(ends)
            low, high = self.claim.within or (max(begins), min(ends))
            if crossed and (max(begins) < low / FAR or min(ends) > high * FAR):
                return Cell(None, says, "it is not sure where it crosses")
            return Cell(crossed and max(begins) < high and min(ends) > low, says)
        if doubts or len(sides) < 2:
            return Cell(
                None, says, Counter(doubts).most_common(1)[0][0] if doubts else "few places"
            )
        return Cell(False, says)


def _verdict(claim: Claim, cells: Sequence[Cell]) -> Verdict:
    total = len(cells)
    yes = sum(cell.is_so is True for cell in cells)
    no = sum(cell.is_so is False for cell in cells)
    need = total if claim.share == 1 else math.floor(claim.share * total + 1e-9) + 1
    count = f"; so in {yes} of {total} cells, not in {no}" if total > 1 else ""
    if not cells:
        return Verdict(claim.says, OPEN, "no such row was measured")
    if yes >= need:
        worst = min((c for c in cells if c.is_so), key=lambda c: c.distance)
        return Verdict(claim.says, HOLDS, worst.says + count)
    if no > total - need:
        worst = min((c for c in cells if c.is_so is False), key=lambda c: c.distance)
        return Verdict(claim.says, FAILS, worst.says + count)
    unsure = [cell for cell in cells if cell.is_so is None]
    doubt, _ = Counter(cell.doubt for cell in unsure).most_common(1)[0]
    said = next((f": {c.says}" for c in unsure if c.doubt == doubt and c.says), "")
    return Verdict(claim.says, OPEN, doubt + said + count)


def _words(keys: Wanted) -> str:
    return ", ".join(f"{name} {value}" for name, value in keys.items())


def _list(places: Sequence[float]) -> str:
    return ", ".join(f"{place:g}" for place in places) or "no place"
