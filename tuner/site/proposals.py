"""What to measure next: what the page of a report tells, and what the queue of the service hands out."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from collforge import case
from collforge.db import Store, Winner
from collforge.errors import CollforgeError
from collforge.generator.manifest import Manifest
from collforge.layout import Layout, LayoutError, from_name
from collforge.place import Place
from collforge.reframe_checks.systems.emulated import ClusterSpec
from collforge.serving import bucket
from collforge.tuner.decide import learning, profile
from collforge.tuner.decide.next_layouts import next_layouts
from collforge.tuner.decide.profile import Profile
from collforge.tuner.site.rebuild import Rules

REGRESSION, REFUTED, STALE, PROFILE, OPEN, LAYOUT = KINDS = (
    *("regression", "refuted", "stale", "profile", "open", "layout"),
)
"""The order in which kinds are measured. What is wrong goes before what is missing."""
LEAST_PART = 0.02
"""Of a profile's time in collectives; less is not worth a launch."""

Problem = tuple[str, int]
"""Collective and bytes."""


@dataclass(frozen=True)
class Proposal:
    """Something that is worth a tuning."""

    place: Place
    kind: str
    problems: frozenset[Problem]
    """Empty: every collective and size."""
    why: str
    gain: float = 0.0
    """Seconds of the stored profiles in such calls, waiting apart: what can be shortened."""
    since: str = ""
    """The machine was another one before; '': it was not."""

    @property
    def words(self) -> list[str]:
        """The command that measures it, without the configuration of the site."""
        place, spec = self.place, ClusterSpec.of_system(self.place.system)
        system = "emulated" if spec else place.system
        words = ["collforge", "tune", "--system", system, "--mpi", place.mpi]
        words += ["--layout", place.layout]
        if spec and place.system != system:
            words += spec.options
        return [*words, *self.choice]

    @property
    def choice(self) -> list[str]:
        """The options of `collforge tune` that choose the problems; [] for all."""
        if not self.problems:
            return []
        names = sorted({name for name, _ in self.problems})
        sizes = sorted({size for _, size in self.problems})
        since = ["--since", self.since] if self.since else []
        return ["--collective", ",".join(names), "--sizes", ",".join(map(str, sizes)), *since]

    @property
    def command(self) -> str:
        return shlex.join(self.words)


def read(store: Store, made: Manifest, places: Sequence[Place]) -> list[Proposal]:
    """The proposals for these places (database keys), in the order in which to measure them."""
    known = frozenset(places)
    profiles = {
        system: profile.parse(one.content for one in store.profiles(system))
        for system in {place.system for place in places}
    }
    found = [
        *_regressions(store, known),
        *_refuted(store, known),
        *_stale(store, made, known),
        *_profiled(store, made, known, profiles),
        *_open(store, known),
        *_layouts(known),
    ]
    weighed = [replace(one, gain=_gain(one, profiles[one.place.system])) for one in found]
    return sorted(weighed, key=lambda one: (KINDS.index(one.kind), -one.gain, one.place))


def readable(layout: str) -> Layout | None:
    """None for a name that is a hash."""
    try:
        return from_name(layout)
    except LayoutError:
        return None


def _libraries(places: Iterable[Place]) -> list[Place]:
    return sorted({one.library for one in places})


def _regressions(store: Store, places: Collection[Place]) -> Iterator[Proposal]:
    """Values that failed in a check's newest night, and winners that jobs dropped, since the last launch."""
    newest = _newest(store)
    groups: dict[Place, dict[Problem, str]] = {}
    systems = {place.system for place in places}
    for one in (one for system in systems for one in store.failing(system) if one.problem):
        at = _place_of(one.problem, one.system, one.environment, places)
        if at and one.found > newest.get(at[0], ""):
            groups.setdefault(at[0], {}).setdefault(at[1], one.found)
    for library in _libraries(places):
        for drop in learning.dropped(store, library):
            if drop.place in places and drop.last > newest.get(drop.place, ""):
                problem = drop.variant.collective, drop.bytes
                groups.setdefault(drop.place, {}).setdefault(problem, drop.last)
    for place, problems in groups.items():
        last = max(problems.values())
        what = f"{len(problems)} winners slower than they were, last on {last[:10]}"
        yield Proposal(place, REGRESSION, frozenset(problems), what, since=last)


def _newest(store: Store) -> dict[Place, str]:
    """When the last launch at each place (database key) started."""
    found: dict[Place, str] = {}
    for run in store.runs(counted=False):
        found[run.place] = max(run.started, found.get(run.place, ""))
    return found


def _place_of(
    problem: str, system: str, environment: str, places: Collection[Place]
) -> tuple[Place, Problem] | None:
    """Of a case string; the library of ReFrame's environment that ran there last. None: none did."""
    try:
        one = case.parse(problem)
    except (CollforgeError, ValueError):
        return None
    at = [
        p
        for p in sorted(places)
        if (p.system, p.mpi, p.layout) == (system, environment, one.layout)
    ]
    return (at[-1], (one.collective, one.bytes)) if at else None


def _refuted(store: Store, places: Collection[Place]) -> Iterator[Proposal]:
    """What the map serves, and jobs did not find fast."""
    for library in _libraries(places):
        groups: dict[str, dict[Problem, str]] = {}
        for one in store.learnt(library):
            if not one.confirmed and replace(library, layout=one.layout) not in places:
                problem = one.variant.collective, profile.measurable(one.bytes)
                groups.setdefault(one.layout, {})[problem] = learning.told(one)
        for layout, problems in groups.items():
            what = f"{len(problems)} expected winners {max(problems.values())}"
            yield Proposal(replace(library, layout=layout), REFUTED, frozenset(problems), what)


def _stale(store: Store, made: Manifest, places: Collection[Place]) -> Iterator[Proposal]:
    current = Rules(made).fingerprints
    groups: dict[Place, list[Winner]] = {}
    for one in store.winners():
        if one.place in places and one.choice.variant.fingerprint not in current:
            groups.setdefault(one.place, []).append(one)
    for place, winners in groups.items():
        problems = frozenset((one.choice.variant.collective, one.choice.bytes) for one in winners)
        what = f"{len(winners)} winners stale: their C code has changed since they were verified"
        yield Proposal(place, STALE, problems, what)


def _open(store: Store, places: Collection[Place]) -> Iterator[Proposal]:
    groups: dict[Place, set[Problem]] = {}
    for place, one in store.undecided():
        if place in places:
            groups.setdefault(place, set()).add((one.collective, one.bytes))
    for place, problems in groups.items():
        what = f"{len(problems)} measured sizes undecided"
        yield Proposal(place, OPEN, frozenset(problems), what)


def _layouts(places: Collection[Place]) -> Iterator[Proposal]:
    """What would bring the map nearest to layouts of up to twice the nodes."""
    for library in _libraries(places):
        shapes = []
        for place in sorted(places):
            at = readable(place.layout) if place.library == library else None
            if at and at.regular and not (at.job or at.sockets or at.threads > 1):
                shapes.append((at.nodes, at.node_sizes[0]))
        if shapes:
            most = 2 * max(nodes for nodes, _ in shapes), max(ranks for _, ranks in shapes)
            for nodes, ranks in next_layouts(shapes, most, 1):
                what = "the layout that would tell most about those not measured"
                there = replace(library, layout=f"{nodes}x{ranks}")
                yield Proposal(there, LAYOUT, frozenset(), what)


# ---- what applications call ----------------------------------------------------------------------


def _profiled(
    store: Store, made: Manifest, places: Collection[Place], profiles: Mapping[str, Profile]
) -> Iterator[Proposal]:
    """What applications spend time in, and nobody measured. ``profiles``: of each system."""
    if not any(one.rows for one in profiles.values()):
        return
    known: dict[Place, set[Problem]] = {}
    for one in store.winners():
        choice = one.choice
        known.setdefault(one.place, set()).add((choice.variant.collective, choice.bytes))
    for place, open_ in store.undecided():
        known.setdefault(place, set()).add((open_.collective, open_.bytes))
    for library in _libraries(places):
        worth, _ = profile.worth_tuning(profiles[library.system], made, LEAST_PART)
        for wanted in worth:
            at = replace(library, layout=wanted.layout)
            problems = wanted.problems - known.get(at, set())
            if problems:
                what = f"{wanted.part:.0%} of the time in collectives of the stored profiles"
                yield Proposal(at, PROFILE, frozenset(problems), what)


def _gain(one: Proposal, called: Profile) -> float:
    buckets = {(name, bucket(max(1, size))) for name, size in one.problems}
    return sum(
        row.moving
        for row in called.rows
        if row.layout == one.place.layout
        and (not buckets or (row.collective, bucket(max(1, row.size))) in buckets)
    )
