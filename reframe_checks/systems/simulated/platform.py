"""The files that describe a machine to SimGrid.

Each core is one of SimGrid's hosts, so that no rank can fill the lanes of its node alone.
In a zone, SimGrid wants hosts, routers, all links and then the routes. No link is that of all messages, not
even one that limits nothing: it would make all of them one problem to SimGrid's bandwidth solver.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from collforge.layout import PACKED, Layout
from collforge.reframe_checks.systems.simulated.machine import Machine

_HEAD = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
<zone id="cluster" routing="Full">
"""


def hosts(at: Layout) -> str:
    """The host of each rank, a line each."""
    used = [0] * at.nodes
    lines = []
    for node in at.node_of:
        lines.append(f"n{node}c{used[node]}\n")
        used[node] += 1
    return "".join(lines)


def platform(machine: Machine, at: Layout) -> str:
    """The machine's nodes and cores that a layout uses, as XML.

    Ranks lie on the sockets in turn, unless the layout has them packed.
    """
    return _HEAD + "\n".join(_zones(machine, at)) + "\n</zone>\n</platform>\n"


def _zones(machine: Machine, at: Layout) -> Iterator[str]:
    cores, lanes = max(at.node_sizes), int(machine.lanes)
    sockets = [
        core * lanes // cores if at.sockets == PACKED else core % lanes for core in range(cores)
    ]
    for node in range(at.nodes):
        yield from _node(machine, node, sockets)
    leaf = int(machine.leaf) or at.nodes
    for number in range(-(-at.nodes // leaf)):
        for name in ("up", "down"):
            yield _link(f"{name}{number}", leaf * machine.link * lanes / machine.taper)
    for start, end in permutations(range(at.nodes), 2):
        here, there = start // leaf, end // leaf
        beyond = [] if here == there else [f"up{here}", f"down{there}"]
        yield _between(start, end, [f"wire{start}", *beyond])


def _node(machine: Machine, node: int, sockets: list[int]) -> Iterator[str]:
    lanes, cores = range(int(machine.lanes)), range(len(sockets))
    yield f'<zone id="z{node}" routing="Full">'
    for core in cores:
        yield f'<host id="n{node}c{core}" speed="1Gf"/>'
    yield f'<router id="r{node}"/>'
    yield _link(f"wire{node}", 1e6, machine.latency)
    for lane in lanes:
        yield _link(f"tx{node}_{lane}", machine.link)
        yield _link(f"rx{node}_{lane}", machine.link)
        yield _link(f"mem{node}_{lane}", machine.memory)
        for other in lanes:
            if other != lane:
                yield _link(f"upi{node}_{lane}_{other}", machine.upi)
    for core in cores:
        for name, rate, latency in (
            ("ctx", machine.core, 0.0),
            ("crx", machine.core, 0.0),
            ("stx", machine.copy, 0.3),
            ("srx", machine.copy, 0.0),
        ):
            yield _link(f"{name}{node}_{core}", rate, latency)
    for core, socket in enumerate(sockets):
        host = f"n{node}c{core}"
        yield _route(host, f"r{node}", [f"ctx{node}_{core}", f"tx{node}_{socket}"])
        yield _route(f"r{node}", host, [f"rx{node}_{socket}", f"crx{node}_{core}"])
        for other, far in enumerate(sockets):
            if other != core:
                shared = f"mem{node}_{socket}" if far == socket else f"upi{node}_{socket}_{far}"
                links = [f"stx{node}_{core}", shared, f"srx{node}_{other}"]
                yield _route(host, f"n{node}c{other}", links)
    yield "</zone>"


def _link(name: str, rate: float, latency: float = 0.0) -> str:
    return f'<link id="{name}" bandwidth="{rate * 1e9:.0f}Bps" latency="{latency * 1e3:.0f}ns"/>'


def _route(start: str, end: str, links: list[str]) -> str:
    return f'<route src="{start}" dst="{end}" symmetrical="NO">{_over(links)}</route>'


def _between(start: int, end: int, links: list[str]) -> str:
    ends = f'src="z{start}" dst="z{end}" gw_src="r{start}" gw_dst="r{end}"'
    return f'<zoneRoute {ends} symmetrical="NO">{_over(links)}</zoneRoute>'


def _over(links: list[str]) -> str:
    return "".join(f'<link_ctn id="{one}"/>' for one in links)
