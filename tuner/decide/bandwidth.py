"""What the links allow: the bandwidth that native and the winners reach, and the least time of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collforge.db import Lanes, Store
from collforge.generator.manifest import Manifest
from collforge.layout import Layout, from_name
from collforge.mpi_library import short_version
from collforge.place import Place
from collforge.reframe_checks.systems.emulated import ClusterSpec
from collforge.reframe_checks.systems.simulated import Machine
from collforge.toolchain import simgrid
from collforge.tuner.decide.evidence import Interval, median_interval


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

    Left out are collectives that move no data, and nonblocking ones, which are timed with a computation.
    Native's points use the samples of all launches.
    """
    found: dict[str, list[Series]] = {}
    for place in places:
        at, rate = from_name(place.layout), link_rate(place, store)
        ratios = {
            (one.choice.variant.collective, one.choice.bytes): one.choice
            for one in store.winners_at(place)
        }
        for name in collectives if at.nodes > 1 else ():
            entry = made.collective(name)
            samples: dict[int, list[float]] = {}
            for one in store.measurements(place, name):
                if one.variant.is_native:
                    samples.setdefault(one.bytes, []).extend(one.samples)
            if entry.sized == "none" or entry.hybrid or entry.blocking or not samples:
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


def label(series: Series, places: Sequence[Place]) -> str:
    """``Open MPI v4.1.4, tuned``, with system and layout if the places (database keys) differ in these."""
    place = series.place
    name = short_version(place.mpi_version)
    several = len({(one.system, one.layout) for one in places}) > 1
    where = f", {place.system} {place.layout}" if several else ""
    return f"{name}{where}, {'tuned' if series.tuned else 'native'}"


def link_rate(place: Place, store: Store | None = None) -> float | None:
    """Bytes/s of all links of a node in each direction; None if not known.

    For emulated and simulated clusters it follows from the system's name, else `probe lanes` has stored it.
    """
    found = lanes(place, store)
    return found.number * found.rate if found else None


def lanes(place: Place, store: Store | None = None) -> Lanes | None:
    """The physical lanes of a node; None if not known. As link_rate."""
    spec = ClusterSpec.of_system(place.system)
    if spec is not None:
        return Lanes(spec.rails, spec.bits_per_second / 8)
    machine = Machine.of_system(place.system) if place.mpi in simgrid.RULES else None
    if machine is not None:
        return Lanes(int(machine.lanes), machine.link * 1e9)
    return store.lanes(place) if store else None


def lower_bound(manifest: Manifest, collective: str, at: Layout, nbytes: int, rate: float) -> float:
    """The least seconds of what is timed for a call if each node's links have ``rate`` bytes/s each way.

    0 if the nodes differ in size, for which the specs have no bound.
    """
    sizes: Sequence[int] = at.node_sizes
    if len(set(sizes)) > 1:
        return 0.0
    entry = manifest.collective(collective)
    calls = 2 if entry.blocking else 1  # the program that is timed makes
    return at.sharing * calls * entry.least_bytes(at.nodes, sizes[0], nbytes) / rate
