"""The roles of arguments of collectives (generator/specs/roles.toml), and what follows from a role alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

HYBRID = "struct collforge_hybrid *"
HANDLES = {
    "MPI_Datatype": "Type",
    **{f"MPI_{name}": name for name in ("Op", "Comm", "Group", "Info", "Win", "Request")},
}
"""The handles that an argument may be, and their names in MPI's conversions from Fortran (PMPI_Type_f2c)."""

TYPES = {
    "buffer": ("void *", "const void *"),
    "count": ("int",),
    "counts": ("const int *",),
    "displs": ("const int *",),
    "value": ("int", *HANDLES, HYBRID),
}
"""The kinds of roles, each with the C types that it may have."""

_LARGE = {"count": "MPI_Count", "counts": "const MPI_Count *", "displs": "const MPI_Aint *"}


@dataclass(frozen=True)
class Role:
    """What an argument is for; generator/specs/roles.toml describes the fields."""

    name: str
    kind: str
    type: str
    members: tuple[str, ...]
    plain: str

    @property
    def large_type(self) -> str:
        """The C type in MPI-4's large-count functions."""
        return _LARGE.get(self.kind, self.type)

    @property
    def large_members(self) -> tuple[str, ...]:
        """The members of struct cf_args that a large-count function sets. It passes arrays of counts apart."""
        if self.kind == "counts":
            return ()
        return tuple(f"large_{m}" for m in self.members) if self.kind == "displs" else self.members


def declaration(ctype: str, name: str) -> str:
    """In C: of a member, a parameter or a variable."""
    return f"{ctype}{name}" if ctype.endswith("*") else f"{ctype} {name}"


def from_fortran(ctype: str, value: str) -> str:
    """The C expression of a Fortran value: of a handle, its number in Fortran."""
    return f"PMPI_{HANDLES[ctype]}_f2c({value})" if ctype in HANDLES else value


def members(roles: Iterable[Role]) -> list[str]:
    """The declarations of the members of struct cf_args, in the order of the roles."""
    found: dict[str, str] = {}
    for role in roles:
        found.update(dict.fromkeys(role.members, role.type))
        if role.kind == "displs":
            found.update(dict.fromkeys(role.large_members, role.large_type))
    return [declaration(ctype, name) for name, ctype in found.items()]


def plain_values(roles: Iterable[Role]) -> dict[str, str]:
    """The members of struct cf_args that are no buffers, counts or arrays, each with a legal value in C."""
    return {m: role.plain for role in roles if role.kind == "value" for m in role.members}
