"""The contents of a collective's wrappers: how a variant is chosen, and the arguments by role."""

from __future__ import annotations

from collections.abc import Iterable

from ..model import Collective


def block_argument(collective: Collective, what: str, in_place: bool) -> str | None:
    """The argument that gives a block's ``what`` ("count", "counts" or "type") on this rank."""
    plain = {"count": "count", "counts": "counts", "type": "datatype"}[what]
    side = collective.block_side
    if in_place:
        side = "recv" if side == "send" else "send"
    for argument in collective.arguments:
        if argument.role.name in (plain, f"{side}_{what}"):
            return argument.name
    return None


def choose(collective: Collective, large: bool = False) -> str:
    """The C call that chooses a variant, by values that the standard makes equal on all ranks.

    ``large``: in a large-count function; empty if that has arrays of counts, which it narrows first.
    """
    suffix, arguments = _chosen_by(collective)
    if large:
        return "" if suffix else f"cf_choose_large({arguments}, &call)"
    return f"cf_choose{suffix}({arguments}, &call)"


def is_native(collective: Collective) -> str:
    """The C call that is true only if `choose` would choose native."""
    suffix, arguments = _chosen_by(collective)
    return f"cf_is_native{suffix}({arguments})"


def have_nonblocking(collectives: Iterable[Collective]) -> list[Collective]:
    return [one for one in collectives if one.has_nonblocking]


def nonblocking(collective: Collective) -> str:
    """MPI_Ibcast of MPI_Bcast."""
    return f"MPI_I{collective.name}"


def count(collective: Collective, large: bool = False) -> str:
    """The C call that adds a nonblocking call to the profile; ``large``: in a large-count function."""
    suffix, arguments = _chosen_by(collective)
    if large and suffix == "_mean":
        suffix = "_mean_large"
    elif large and not suffix:
        number, datatype = _size(collective)
        arguments = f"CF_{collective.name.upper()}, comm, cf_narrow({number}), {datatype}"
    return f"cf_count{suffix}({arguments})"


def starting(collective: Collective, large: bool = False) -> str:
    """The initializers of struct cf_starting; ``large``: in a large-count function."""
    name = collective.name
    found = [".args = &args", f".collective = CF_{name.upper()}", f".native = native_{name}"]
    size = _size(collective)
    if len(size) == 2:
        count, datatype = size
        counts = "counts" if collective.sized == "mean" else "count"
        if not large:
            found.append(f".{counts} = {count}")
        elif counts == "count":
            found.append(f".count = cf_narrow({count})")
        found.append(f".type = {datatype}")
    else:
        found.append(".type = MPI_DATATYPE_NULL")
    if large and collective.sized != "block":
        found.append(".large = &large")
    return ", ".join(found)


def _chosen_by(collective: Collective) -> tuple[str, str]:
    """The end of a function's name and its arguments."""
    suffix = {"exchanged": "_unsized", "none": "_unsized", "mean": "_mean"}
    arguments = (f"CF_{collective.name.upper()}", "comm", *_size(collective))
    return suffix.get(collective.sized, ""), ", ".join(arguments)


def _size(collective: Collective) -> tuple[str, ...]:
    """The count or the counts of a block in C, and their type; empty where no rank knows them all."""
    if collective.sized in ("exchanged", "none"):
        return ()
    if collective.sized == "mean":
        counts, datatype = (block_argument(collective, what, False) for what in ("counts", "type"))
        return f"{counts}", f"{datatype}"
    count, datatype = (block_argument(collective, what, False) for what in ("count", "type"))
    guard = _in_place_guard(collective)
    if guard:
        # If this rank passes MPI_IN_PLACE, the other side's arguments give the size of its block.
        count = f"{guard} ? {block_argument(collective, 'count', True)} : {count}"
        datatype = f"{guard} ? {block_argument(collective, 'type', True)} : {datatype}"
    return f"{count}", f"{datatype}"


def _in_place_guard(collective: Collective) -> str:
    if collective.in_place == "send_root" and not collective.has_op:
        return "sendbuf == MPI_IN_PLACE"
    return "recvbuf == MPI_IN_PLACE" if collective.in_place == "recv_root" else ""


def initializer(collective: Collective) -> str:
    pairs = [(field, a.name) for a in collective.arguments for field in a.role.members]
    return ", ".join(f".{field} = {name}" for field, name in pairs)


def from_args(collective: Collective) -> str:
    return ", ".join(f"args->{a.role.members[-1]}" for a in collective.arguments)


PLACES = ("rank", "root", "size")


def in_place(collective: Collective, at_root: str) -> tuple[str, str]:
    """C conditions on which this rank may pass MPI_IN_PLACE to send from, and to receive in; empty: never."""
    send = {"send_all": "true", "send_root": at_root}.get(collective.in_place, "")
    return send, at_root if collective.in_place == "recv_root" else ""


def part(collective: Collective) -> list[tuple[str, str]]:
    """The fields of struct cf_part in C. A rank whose combination is empty gets no blocks."""
    result = collective.result
    send_in_place, recv_in_place = in_place(collective, "rank == root")
    names = {**{name: name for name in PLACES}, "block": "0"}
    first, last = result.first.to_c(names), result.last.to_c(names)
    blocks = result.out_blocks.to_c(names)
    return [
        ("in_blocks", result.in_blocks.to_c(names)),
        ("out_blocks", f"({first}) < ({last}) ? ({blocks}) : 0"),
        ("in_place_block", result.in_place_block.to_c(names)),
        ("send_in_place", send_in_place or "false"),
        ("recv_in_place", recv_in_place or "false"),
    ]


def part_unused(collective: Collective) -> list[str]:
    """The parameters that the functions of `part` do not read."""
    return [name for name in PLACES if all(name not in text for _, text in part(collective))]


def plain_arguments(collective: Collective) -> str:
    return ", ".join(argument.role.plain for argument in collective.arguments)
