"""The contents of the wrappers of MPI-4's large-count functions (MPI_Bcast_c, ...)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ..model import Argument, Collective

_COUNTS = ("count", "send_count", "recv_count")
_ARRAYS = ("counts", "send_counts", "recv_counts")
_DISPLACEMENTS = ("send_displs", "recv_displs")


@dataclass(frozen=True)
class LargeFunction:
    """The large-count form of a collective; every field is C code."""

    name: str
    parameters: str
    arguments: str
    collective: str
    choose: str  # the call that chooses a variant; empty where block sizes differ
    fields: str  # the initializers of struct cf_args, without arrays of counts
    send_counts: str
    recv_counts: str


def large_functions(
    collectives: Iterable[Collective],
    fields: Mapping[str, tuple[str, ...]],
    choose: Callable[[Collective], str],
) -> list[LargeFunction]:
    """The large-count functions of all collectives that have counts.

    ``fields``: the members of struct cf_args that each role fills in the plain function. ``choose``: the call
    by which the plain function chooses a variant.
    """
    return [_function(c, fields, choose) for c in collectives if has_large_form(c)]


def has_large_form(collective: Collective) -> bool:
    """Whether MPI-4 has a large-count form: it has one for every function of the standard with counts."""
    counts = any(argument.role in (*_COUNTS, *_ARRAYS) for argument in collective.arguments)
    return counts and collective.function.startswith("MPI_")


def _function(
    collective: Collective,
    fields: Mapping[str, tuple[str, ...]],
    choose: Callable[[Collective], str],
) -> LargeFunction:
    arguments = collective.arguments
    arrays = {a.role: a.name for a in arguments if a.role in _ARRAYS}
    return LargeFunction(
        name=f"{collective.function}_c",
        parameters=", ".join(f"{_ctype(a)}{a.name}" for a in arguments),
        arguments=", ".join(a.name for a in arguments),
        collective=f"CF_{collective.name.upper()}",
        choose="" if arrays else choose(collective).replace("cf_choose(", "cf_choose_large(", 1),
        fields=", ".join(f".{f} = {_value(a)}" for a in arguments for f in _members(a, fields)),
        send_counts=arrays.get("send_counts", "NULL"),
        recv_counts=arrays.get("recv_counts", arrays.get("counts", "NULL")),
    )


def _ctype(argument: Argument) -> str:
    if argument.role in _COUNTS:
        return "MPI_Count "
    if argument.role in _ARRAYS:
        return "const MPI_Count *"
    if argument.role in _DISPLACEMENTS:
        return "const MPI_Aint *"
    return argument.ctype if argument.ctype.endswith("*") else f"{argument.ctype} "


def _members(argument: Argument, fields: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    if argument.role in _ARRAYS:
        return ()
    prefix = "large_" if argument.role in _DISPLACEMENTS else ""
    return tuple(prefix + name for name in fields[argument.role])


def _value(argument: Argument) -> str:
    return f"cf_narrow({argument.name})" if argument.role in _COUNTS else argument.name
