"""Addresses of an emulated cluster, and the ip(8) and tc(8) commands that build its network.

Every network is a bridge in the namespace of the *switch*, with a cable (a pair of veth devices) to
each node:

======== ============= ============= ===========================================================
bridge   node's device address       carries
======== ============= ============= ===========================================================
mgmt     ethm          10.255.0.n/16 process management, unshaped
rail<r>  eth<r>        10.r.0.n/16   messages; both ends of the cable send at the rail's rate
(none)   bond0         10.254.0.n/16 with hashed rails: routed over all rails, by connection
======== ============= ============= ===========================================================

With tied rails, a message between ranks of different rails uses the receiver's rail.

The functions are pure; they return lines for ``ip -batch`` and ``tc -batch``.
"""

from __future__ import annotations

from collforge.reframe_checks.systems.emulated.spec import ClusterSpec

MANAGEMENT_DEVICE = "ethm"

_MANAGEMENT_NETWORK = 255
_BOND_NETWORK = 254

# The switch's network namespace, named by the cluster's process 1, which runs in it.
_SWITCH = "netns 1"

# With a larger burst, small messages exceed the rate. With a shorter queue, packets are dropped when several
# nodes send to one, which causes outliers of two to three times the usual time.
_BUCKET = "burst 16kb latency 400ms"

# Less than the burst, with room for headers. The token bucket would cut a larger send into packets, which a
# real network adapter does in hardware. On this machine's cores that halves a rail's rate with deep queues.
_SEND_OFFLOAD_BYTES = 15000


def rail_devices(spec: ClusterSpec) -> tuple[str, int]:
    """The network devices over which a node's ranks are distributed: the name without its number, and how
    many there are."""
    return ("eth", spec.rails) if spec.rail_model == "tied" else ("bond", 1)


def hosts_file(spec: ClusterSpec) -> str:
    """The text of /etc/hosts on every node."""
    nodes = [
        f"{_address(_MANAGEMENT_NETWORK, node)} {host}" for node, host in enumerate(spec.hosts)
    ]
    return "\n".join(["127.0.0.1 localhost", *nodes, ""])


def node_sysctls(spec: ClusterSpec) -> dict[str, str]:
    """Settings of a node's kernel, as file under /proc/sys -> value."""
    sysctls = {
        # A rank may receive packets on another rail than the one on which it sends.
        "net/ipv4/conf/all/rp_filter": "0",
        "net/ipv4/conf/default/rp_filter": "0",
    }
    if spec.rail_model == "hashed":
        sysctls["net/ipv4/fib_multipath_hash_policy"] = "1"
    return sysctls


def node_links(spec: ClusterSpec, node: int) -> list[str]:
    """``ip`` lines for a node, which connect it to the switch and set its routes."""
    lines = ["link set lo up"]
    lines += _cable(MANAGEMENT_DEVICE, f"m{node}", _address(_MANAGEMENT_NETWORK, node))
    for rail in range(spec.rails):
        lines += _cable(f"eth{rail}", f"r{rail}n{node}", _address(rail, node))
    if spec.rail_model == "hashed":
        lines += _bond(spec, node)
    return lines


def node_shaping(spec: ClusterSpec) -> list[str]:
    """``tc`` lines that limit what a node sends."""
    return [shape(f"eth{rail}", spec.rate) for rail in range(spec.rails)]


def switch_links(spec: ClusterSpec) -> list[str]:
    """``ip`` lines for the switch, which make the bridges and attach all nodes' cables."""
    lines = ["link set lo up"]
    for bridge in ["mgmt", *(f"rail{rail}" for rail in range(spec.rails))]:
        lines += [f"link add {bridge} type bridge", f"link set {bridge} up"]
    for node in range(spec.nodes):
        lines.append(f"link set m{node} master mgmt up")
        lines += [f"link set r{rail}n{node} master rail{rail} up" for rail in range(spec.rails)]
    return lines


def switch_shaping(spec: ClusterSpec) -> list[str]:
    """``tc`` lines that limit what the switch sends to each node."""
    return [
        shape(f"r{rail}n{node}", spec.rate)
        for node in range(spec.nodes)
        for rail in range(spec.rails)
    ]


def shape(device: str, rate: str) -> str:
    """The ``tc`` line that limits what `device` sends."""
    return f"qdisc add dev {device} root tbf rate {rate} {_BUCKET}"


def _address(network: int, node: int) -> str:
    return f"10.{network}.0.{node + 1}"


def _cable(device: str, port: str, address: str) -> list[str]:
    return [
        f"link add {device} type veth peer name {port} {_SWITCH}",
        f"address add {address}/16 dev {device}",
        f"link set {device} gso_max_size {_SEND_OFFLOAD_BYTES} up",
    ]


def _bond(spec: ClusterSpec, node: int) -> list[str]:
    """``ip`` lines that give the node a common address, and routes over all rails to the other nodes'.

    The address is on one end of a veth pair inside the node, because UCX does not find addresses on lo.
    """
    own = _address(_BOND_NETWORK, node)
    lines = [
        "link add bond0 type veth peer name bond0peer",
        "link set bond0peer up",
        f"address add {own}/16 dev bond0",
        "link set bond0 up",
    ]
    for other in range(spec.nodes):
        if other != node:
            hops = " ".join(
                f"nexthop via {_address(rail, other)} dev eth{rail}" for rail in range(spec.rails)
            )
            lines.append(f"route add {_address(_BOND_NETWORK, other)} src {own} {hops}")
    return lines
