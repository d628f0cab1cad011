"""The contents of the wrappers of MPI-4's large-count functions (MPI_Bcast_c, ...)."""

from __future__ import annotations

from ..model import Argument, Collective
from ..roles import declaration


def has_large_form(collective: Collective) -> bool:
    """Whether MPI-4 has a large-count form: it has one for every function of the standard with counts."""
    counts = any(argument.role.kind in ("count", "counts") for argument in collective.arguments)
    return counts and collective.function.startswith("MPI_")


def large_formals(collective: Collective) -> str:
    return ", ".join(declaration(a.role.large_type, a.name) for a in collective.arguments)


def large_initializer(collective: Collective) -> str:
    """The initializers of struct cf_args, without arrays of counts."""
    pairs = [(m, _value(a)) for a in collective.arguments for m in a.role.large_members]
    return ", ".join(f".{member} = {value}" for member, value in pairs)


def _value(argument: Argument) -> str:
    return f"cf_narrow({argument.name})" if argument.role.kind == "count" else argument.name


def large_values(collective: Collective) -> str:
    """The initializers of struct cf_large_counts."""
    return ", ".join(
        f".{a.role.members[-1]} = {a.name}"
        for a in collective.arguments
        if a.role.kind in ("count", "counts")
    )


def from_large(collective: Collective) -> str:
    """The arguments of a large-count function, from struct cf_args and struct cf_large_counts."""
    return ", ".join(
        f"large->{a.role.members[-1]}"
        if a.role.kind in ("count", "counts")
        else f"args->{a.role.large_members[-1]}"
        for a in collective.arguments
    )


def large_counts(collective: Collective) -> str:
    """The arrays of counts: of what is sent, and of what is received."""
    names = {
        member: argument.name
        for argument in collective.arguments
        if argument.role.kind == "counts"
        for member in argument.role.members
    }
    return ", ".join(names.get(member, "NULL") for member in ("sendcounts", "recvcounts"))
