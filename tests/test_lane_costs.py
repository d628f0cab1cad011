"""What lane algorithms state of their costs, against the messages that they send."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import pytest
from conftest import Installation, Launch
from hazards.build import compiled
from support import mostly_wide

from collforge.generator.load import load_specs
from collforge.generator.manifest import Manifest
from collforge.variant import Variant

RANKS, BYTES, SEGMENT = 2, 7680, 1024
"""Ranks of a node, bytes of a whole call."""
COLLECTIVES = {
    "bcast": "bcast",
    "reduce": "reduce",
    "allreduce": "allreduce",
    "exscan": "exscan",
    "gather": "gather",
    "scatter": "scatter",
    "allgather": "allgather",
    "alltoall": "alltoall",
    "reduce_scatter_block": "reduce_scatter",
}
"""And the component collective between the leaders."""

Event = tuple[str, int, int]
"""Send or got, the other rank, bytes."""


def forced() -> dict[str, list[str]]:
    """Collective -> the variants with each lane algorithm, and radix 2 to 4."""
    found: dict[str, list[str]] = {}
    for collective, call in COLLECTIVES.items():
        for algorithm in load_specs().algorithms.values():
            keys = {one.name for one in algorithm.parameters}
            segment = f",segment_bytes={SEGMENT}" * ("segment_bytes" in keys)
            for radix in (2, 3, 4) if "radix" in keys else (0,):
                name = f"lane_algorithm={algorithm.name}{segment}{f',radix={radix}' * bool(radix)}"
                if call in algorithm.calls:
                    found.setdefault(collective, []).append(f"{name},node_phase=shared")
    return {key: [f"hierarchical[{one}]" for one in names] for key, names in found.items()}


def replay(ranks: Sequence[Sequence[Event]], latency: float, each: float) -> float:
    """When the last message has come, if it takes a latency, and time at its ends for each byte."""
    sent: dict[tuple[int, int], deque[tuple[float, int]]] = defaultdict(deque)
    now, leaves, comes = ([0.0] * len(ranks) for _ in range(3))
    left = [deque(events) for events in ranks]
    while any(left):
        before = sum(map(len, left))
        for own, events in enumerate(left):
            while events and (events[0][0] == "send" or sent[events[0][1], own]):
                kind, other, nbytes = events.popleft()
                if kind == "send":
                    leaves[own] = max(now[own], leaves[own]) + each * nbytes
                    sent[own, other].append((leaves[own] + latency, nbytes))
                else:
                    at, nbytes = sent[other, own].popleft()
                    now[own] = comes[own] = max(at, comes[own] + each * nbytes)
        assert sum(map(len, left)) < before, "a message was never sent"
    return max(now)


def traces(folder: Path) -> list[list[list[Event]]]:
    """Of each call, the events of each rank."""
    ranks = []
    for file in sorted(folder.iterdir()):
        calls: list[list[Event]] = []
        for line in file.read_text().splitlines():
            kind, *numbers = line.split()
            if kind == "call":
                calls.append([])
            else:
                calls[-1].append((kind, int(numbers[0]), int(numbers[-1])))
        ranks.append(calls)
    return [list(call) for call in zip(*ranks)]


def block(made: Manifest, collective: str, ranks: int) -> int:
    nbytes = BYTES // made.collective(collective).total_bytes(ranks, 1)
    return nbytes // 8 * 8


@pytest.mark.either
@pytest.mark.parametrize("nodes", mostly_wide((3, 4, 5, 8, 9), 4, 5))
def test_costs_are_those_of_the_messages(
    made: Manifest, built: Installation, launch: Launch, tmp_path: Path, nodes: int
) -> None:
    program = compiled(built, "traced", "-rdynamic", "-ldl")
    everything, found = forced(), []
    for turn, names in enumerate(zip_longest(*everything.values())):
        chosen = {key: name for key, name in zip(everything, names) if name}
        sizes = {key: block(made, key, nodes * RANKS) for key in chosen}
        folder = tmp_path / str(turn)
        folder.mkdir()
        env = {
            "LD_PRELOAD": str(built.built.library_path),
            "COLLFORGE_NODE_MAP": str(RANKS),
            "COLLFORGE_FORCE": ";".join(f"{key}={name}" for key, name in chosen.items()),
        }
        words = [str(program), str(folder), *(f"{key}:{size}" for key, size in sizes.items())]
        assert launch(built.library.name, nodes * RANKS, words, env, timeout=60).returncode == 0
        for call, (collective, name) in zip(traces(folder), chosen.items()):
            found += wrong(made, collective, name, nodes, sizes[collective], call)
    assert not found


def wrong(
    made: Manifest,
    collective: str,
    name: str,
    nodes: int,
    size: int,
    call: Sequence[Sequence[Event]],
) -> list[str]:
    """What is stated is rounded up, and in the replay messages queue at a rank."""
    family = name.partition("[")[0]
    (entry,) = [v for v in made.variants_of(collective) if v.family == family]
    variant = Variant.from_name(collective, entry.completed(name), entry.fingerprint)
    counts = made.counts(variant, nodes, RANKS, size)
    assert counts is not None
    kinds = [Counter(kind for kind, *_ in events) for events in call]
    busiest = max(number for kind in kinds for number in kind.values())
    found = replay(call, 1, 0), replay(call, 0, 1), busiest
    stated = counts.lane_rounds, counts.lane_bytes, counts.lane_messages
    return [
        f"{collective} by {name} on {nodes} nodes: {what} {one}, stated {other}"
        for what, one, other in zip(("rounds", "bytes", "messages"), found, stated)
        if not 0.5 <= one / other <= (1.7 if "radix=4" in name else 1.6)
    ]
