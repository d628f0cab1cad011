"""The Fortran entry points: their names, their arguments and the C call behind each.

The symbols that a Fortran program calls depend on the MPI library (`nm -D` on the libraries shows them):

* Open MPI: mpif.h and ``use mpi`` call ``mpi_bcast_``, an alias of ``ompi_bcast_f``, which ``use mpi_f08``
  calls. That function calls PMPI_Bcast, which cannot be interposed, so both names are defined here.
* MPICH: every routine with a buffer calls the C function MPI_Bcast (or MPI_Bcast_c), which the C wrapper
  serves. Only routines of ``use mpi_f08`` without a buffer, such as ``mpi_barrier_f08_``, call PMPI directly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..model import Argument, Collective
from ..roles import HANDLES, HYBRID, declaration, from_fortran
from .wrappers import have_nonblocking, nonblocking

# By the spec's in_place: the sides whose buffer may be MPI_IN_PLACE on some rank.
_IN_PLACE = {
    "send_all": ("send_buffer",),
    "send_root": ("send_buffer",),
    "recv_root": ("recv_buffer",),
}


@dataclass(frozen=True)
class Routine:
    """One Fortran routine that the library defines; ``call`` is the C call that it makes.

    ``parameters`` are C declarations of pointers, without the trailing ``MPI_Fint *ierror``.
    """

    stem: str  # the name in lower case, "mpi_bcast"
    parameters: tuple[str, ...]
    names: tuple[str, ...]
    call: str
    openmpi_only: bool  # MPICH's routine calls a wrapped C function, or needs no wrapper
    starts: bool = False  # its last parameter is a request, ``made`` in C

    @property
    def openmpi_name(self) -> str:
        """Open MPI's internal name, which `use mpi_f08` calls."""
        return f"o{self.stem}_f"

    @property
    def fortran_name(self) -> str:
        """The symbol that mpif.h and `use mpi` call, as gfortran and most compilers spell it."""
        return f"{self.stem}_"

    @property
    def mpich_name(self) -> str:
        """The symbol that MPICH's `use mpi_f08` calls for a routine without a buffer."""
        return f"{self.stem}_f08_"


def routines(collectives: Iterable[Collective]) -> list[Routine]:
    """The routines that start and end MPI, those that free communicators, and the collectives."""
    start = Routine("mpi_init", (), (), "MPI_Init(NULL, NULL)", False)
    start_thread = Routine(
        "mpi_init_thread",
        ("const MPI_Fint *required", "MPI_Fint *provided"),
        ("required", "provided"),
        "MPI_Init_thread(NULL, NULL, *required, provided)",
        False,
    )
    level = Routine(
        "mpi_query_thread",
        ("MPI_Fint *provided",),
        ("provided",),
        "MPI_Query_thread(provided)",
        False,
    )
    end = Routine("mpi_finalize", (), (), "MPI_Finalize()", False)
    freed = [
        Routine(
            f"mpi_{name.lower()}",
            ("MPI_Fint *comm",),
            ("comm",),
            f"cf_leave(MPI_{name}, comm)",
            False,
        )
        for name in ("Comm_free", "Comm_disconnect")
    ]
    known = list(collectives)
    return [
        start,
        start_thread,
        level,
        end,
        *freed,
        *map(_routine, known),
        *map(_nonblocking_routine, have_nonblocking(known)),
    ]


def exported(collectives: Iterable[Collective], flavor: str) -> set[str]:
    """The Fortran names in libcollforge.so for every library of this flavor (MpiLibrary)."""
    known = routines(collectives)
    if flavor == "openmpi":
        return {name for r in known for name in (r.openmpi_name, r.fortran_name)}
    if flavor == "mpich":
        return {r.mpich_name for r in known if not r.openmpi_only}
    return set()


def _routine(collective: Collective) -> Routine:
    arguments = collective.arguments
    values = ", ".join(_value(collective, argument) for argument in arguments)
    return Routine(
        stem=collective.function.lower(),
        parameters=tuple(map(_parameter, arguments)),
        names=tuple(argument.name for argument in arguments),
        call=f"{collective.function}({values})",
        openmpi_only=not collective.moves_nothing,
    )


def _nonblocking_routine(collective: Collective) -> Routine:
    blocking = _routine(collective)
    name = nonblocking(collective)
    return replace(
        blocking,
        stem=name.lower(),
        parameters=(*blocking.parameters, "MPI_Fint *request"),
        names=(*blocking.names, "request"),
        call=blocking.call.replace(collective.function, name)[:-1] + ", &made)",
        starts=True,
    )


def _parameter(argument: Argument) -> str:
    ctype = "void *" if argument.role.kind == "buffer" else "const MPI_Fint *"
    return f"{ctype}{argument.name}"


def _value(collective: Collective, argument: Argument) -> str:
    if argument.role.kind == "buffer":
        place = argument.role.name in _IN_PLACE.get(collective.in_place, ())
        return f"{'data_or_in_place' if place else 'data'}({argument.name})"
    # INTEGER arrays are passed as int arrays; the template asserts that both have the same size.
    ctype, name = argument.role.type, argument.name
    return name if ctype.endswith("*") else from_fortran(ctype, f"*{name}")


@dataclass(frozen=True)
class HybridRoutine:
    """A function of collforge_hybrid.h, for templates/hybrid.c.j2 and collforge_hybrid.f90.j2."""

    name: str
    names: tuple[str, ...]
    c_parameters: tuple[str, ...]
    c_arguments: tuple[str, ...]
    declarations: tuple[str, ...]  # in Fortran


_REQUEST = "struct collforge_hybrid_request *"
_VALUE = "type(c_ptr), value"
# The arguments of the routines that make and free packages and requests: name, C type, Fortran declaration.
_NEW_HYBRID = ("hybrid", f"{HYBRID}*", "type(c_ptr), intent(out)")
_OLD_HYBRID = ("hybrid", f"{HYBRID}*", "type(c_ptr), intent(inout)")
_NEW_REQUEST = ("request", f"{_REQUEST}*", "type(c_ptr), intent(out)")
_OLD_REQUEST = ("request", f"{_REQUEST}*", "type(c_ptr), intent(inout)")
_THE_HYBRID = ("hybrid", HYBRID, _VALUE)
_COMM = ("comm", "MPI_Comm", "integer(c_int), value")
_BYTES = ("bytes", "MPI_Aint", "integer(c_intptr_t), value")
Row = tuple[str, str, str]
_LIFE: dict[str, tuple[Row, ...]] = {
    "create": (_COMM, _NEW_HYBRID),
    "create_numa": (_COMM, _NEW_HYBRID),
    "free": (_OLD_HYBRID,),
    "alloc": (_THE_HYBRID, _BYTES, ("address", "void **", "type(c_ptr), intent(out)")),
    "release": (_THE_HYBRID, ("address", "void *", _VALUE)),
    "sync": (_THE_HYBRID,),
    "barrier": (_THE_HYBRID,),
    "start": (("request", _REQUEST, _VALUE),),
    "request_free": (_OLD_REQUEST,),
}


def hybrid_routines(collectives: Iterable[Collective]) -> list[HybridRoutine]:
    """The routines that make and free packages, the hybrid collectives and their persistent forms."""
    found = [_hybrid_routine(f"collforge_hybrid_{name}", rows) for name, rows in _LIFE.items()]
    for collective in collectives:
        rows = tuple(map(_row, collective.arguments))
        found.append(_hybrid_routine(collective.function, rows))
        found.append(_hybrid_routine(f"{collective.function}_init", (*rows, _NEW_REQUEST)))
    return found


def _row(argument: Argument) -> Row:
    ctype = argument.role.type
    if argument.role.kind in ("counts", "displs"):
        return argument.name, ctype, "integer(c_int), intent(in)"
    return argument.name, ctype, _VALUE if ctype.endswith("*") else "integer(c_int), value"


def _hybrid_routine(name: str, rows: tuple[Row, ...]) -> HybridRoutine:
    return HybridRoutine(
        name=name,
        names=tuple(argument for argument, _, _ in rows),
        c_parameters=tuple(declaration(_fortran_type(c), n) for n, c, _ in rows),
        c_arguments=tuple(from_fortran(ctype, argument) for argument, ctype, _ in rows),
        declarations=tuple(
            f"{kind} :: {n}{'(*)' if c == 'const int *' else ''}" for n, c, kind in rows
        ),
    )


def _fortran_type(ctype: str) -> str:
    """The C type of a parameter that Fortran passes by value: of a handle, its number."""
    return "MPI_Fint" if ctype in HANDLES else ctype
