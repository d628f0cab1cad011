"""How much the times of native and of the winners spread, over launches, days and nodes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from collforge.db import Measurement, Store, StoredRun
from collforge.place import Place
from collforge.tuner.site.rebuild import choices_at
from collforge.units import format_seconds, format_size
from collforge.variant import Variant

CAPTION = (
    "percentiles of all samples; ±: the relative standard deviation of launches' medians, of their means over "
    "a day, and of their means over launches on the same nodes"
)


@dataclass(frozen=True)
class Spread:
    """The times of a variant on a problem. Relative spreads are NaN for fewer than two groups."""

    problem: str
    bytes: int
    variant: Variant
    launches: int
    p50: float
    """Seconds; of all samples, as the other percentiles."""
    p90: float
    p99: float
    between_launches: float
    """Relative standard deviation of the medians of launches; in the next two, of their means over the launches
    of a day, or on the same nodes."""
    between_days: float
    between_nodes: float


def launches(store: Store, since: str) -> dict[str, StoredRun]:
    """The launches from a date on (ISO 8601; '': all), by uuid."""
    return {one.uuid: one for one in store.runs() if one.started >= since}


def read(store: Store, place: Place, runs: Mapping[str, StoredRun]) -> list[Spread]:
    """The spreads at a place (database key), of these launches."""
    chosen = choices_at(store, place)
    groups: dict[tuple[str, Variant], list[Measurement]] = {}
    for one in store.measurements(place, whole=True):
        choice = chosen.get((one.variant.collective, one.bytes))
        serves = one.variant.is_native or (choice is not None and choice.variant == one.variant)
        if one.run in runs and one.samples and serves:
            groups.setdefault((one.problem, one.variant), []).append(one)
    return [_spread(found, runs) for found in groups.values()]


def _spread(found: Sequence[Measurement], runs: Mapping[str, StoredRun]) -> Spread:
    samples = [value for one in found for value in one.samples]

    def between(group: Callable[[StoredRun], object]) -> float:
        medians: dict[object, list[float]] = {}
        for one in found:
            medians.setdefault(group(runs[one.run]), []).append(math.log(one.median))
        return relative_spread(map(statistics.fmean, medians.values()))

    first = found[0]
    return Spread(
        first.problem,
        first.bytes,
        first.variant,
        len(found),
        p50=percentile(samples, 0.5),
        p90=percentile(samples, 0.9),
        p99=percentile(samples, 0.99),
        between_launches=between(lambda run: run.uuid),
        between_days=between(lambda run: run.started[:10]),
        between_nodes=between(lambda run: run.hosts),
    )


def percentile(values: Sequence[float], share: float) -> float:
    """By linear interpolation."""
    import numpy as np

    return float(np.quantile(values, share))


def relative_spread(logs: Iterable[float]) -> float:
    """The relative standard deviation of values with these logarithms; NaN for fewer than two."""
    values = list(logs)
    return math.expm1(statistics.stdev(values)) if len(values) > 1 else math.nan


def table(title: str, rows: Iterable[Spread]) -> Table:
    made = Table(title=title, caption=CAPTION)
    made.add_column("what", overflow="fold")
    for name in ("launches", "P50", "P90", "P99", "± launch", "± day", "± nodes"):
        made.add_column(name, justify="right", no_wrap=True)
    for one in sorted(rows, key=lambda row: (row.variant.collective, row.bytes, row.problem)):
        made.add_row(*_cells(one))
    return made


def _cells(one: Spread) -> Iterator[str]:
    yield escape(f"{one.variant.collective} {format_size(one.bytes)}: {one.variant.name}")
    yield str(one.launches)
    for seconds in (one.p50, one.p90, one.p99):
        yield format_seconds(seconds)
    for share in (one.between_launches, one.between_days, one.between_nodes):
        yield "" if math.isnan(share) else f"{share:.1%}"
