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

With tied rails a message between ranks of different rails travels on the receiver's.

The functions are pure; their lines are for ``ip -batch`` and ``tc -batch``.
"""

from __future__ import annotations

from collforge.reframe_checks.systems.emulated.spec import ClusterSpec

MANAGEMENT_DEVICE = "ethm"

_MANAGEMENT_NETWORK = 255
_BOND_NETWORK = 254

# In network namespaces that see the cluster's process numbers, the switch is where process 1 is.
_SWITCH = "netns 1"

# A larger burst lets small messages beat the limit; a shorter queue drops packets when several
# nodes send to one, which makes outliers of two to three times.
_BUCKET = "burst 16kb latency 400ms"

# Below the burst, with room for the headers: the bucket would cut a larger send into packets. That is
# the work of a network adapter, and takes these cores so long that deep queues run at half a rail's rate.
_SEND_OFFLOAD_BYTES = 15000


def rail_devices(spec: ClusterSpec) -> tuple[str, int]:
    """The devices between which a node's ranks take turns: a name without its number, and how
    many of them there are."""
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
        # A rank's packets may come in on another rail than the one its own leave by.
        "net/ipv4/conf/all/rp_filter": "0",
        "net/ipv4/conf/default/rp_filter": "0",
    }
    if spec.rail_model == "hashed":
        sysctls["net/ipv4/fib_multipath_hash_policy"] = "1"
    return sysctls


def node_links(spec: ClusterSpec, node: int) -> list[str]:
    """``ip`` lines that, run on a node, lay its cables to the switch and set its routes."""
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
    """``ip`` lines that, run on the switch, make the bridges and plug all nodes' cables in."""
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
    """An address of the node as a whole, and routes over all rails to those of the others.

    The address sits on one end of a cable within the node: UCX does not find one on lo.
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
