"""The Fortran entry points: their names, their arguments and the C call behind each.

The symbols that a Fortran program calls depend on the MPI library (`nm -D` on the libraries shows them):

* Open MPI: mpif.h and ``use mpi`` call ``mpi_bcast_``, an alias of ``ompi_bcast_f``, which ``use mpi_f08``
  calls. That function calls PMPI_Bcast, which cannot be interposed, so both names are defined here.
* MPICH: every routine with a buffer calls the C function MPI_Bcast (or MPI_Bcast_c), which the C wrapper
  serves. Only routines of ``use mpi_f08`` without a buffer, such as ``mpi_barrier_f08_``, call PMPI directly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..model import Argument, Collective

_BUFFERS = ("buffer", "send_buffer", "recv_buffer")
_CONVERSIONS = {
    **dict.fromkeys(("count", "send_count", "recv_count", "root"), "*{name}"),
    **dict.fromkeys(("datatype", "send_type", "recv_type"), "PMPI_Type_f2c(*{name})"),
    "op": "PMPI_Op_f2c(*{name})",
    "comm": "PMPI_Comm_f2c(*{name})",
}
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
    return [start, start_thread, end, *freed, *map(_routine, collectives)]


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
        openmpi_only=any(argument.role in _BUFFERS for argument in arguments),
    )


def _parameter(argument: Argument) -> str:
    ctype = "void *" if argument.role in _BUFFERS else "const MPI_Fint *"
    return f"{ctype}{argument.name}"


def _value(collective: Collective, argument: Argument) -> str:
    if argument.role in _BUFFERS:
        place = argument.role in _IN_PLACE.get(collective.in_place, ())
        return f"{'data_or_in_place' if place else 'data'}({argument.name})"
    # INTEGER arrays are passed as int arrays; the template asserts that both have the same size.
    return _CONVERSIONS.get(argument.role, "{name}").format(name=argument.name)


@dataclass(frozen=True)
class HybridRoutine:
    """A function of collforge_hybrid.h, for templates/hybrid.c.j2 and collforge_hybrid.f90.j2."""

    name: str
    names: tuple[str, ...]
    c_parameters: tuple[str, ...]
    c_arguments: tuple[str, ...]
    declarations: tuple[str, ...]  # in Fortran


_POINTER = "type(c_ptr), value :: {name}"
_INTEGER = "integer(c_int), value :: {name}"
_NEW = "type(c_ptr), intent(out) :: {name}"
_HYBRID = "struct collforge_hybrid *"
_REQUEST = "struct collforge_hybrid_request *"
# kind of an argument -> its C parameter, the expression passed on, its Fortran declaration
_KINDS = {
    "buffer": ("void *{name}", "{name}", _POINTER),
    "send_buffer": ("const void *{name}", "{name}", _POINTER),
    "recv_buffer": ("void *{name}", "{name}", _POINTER),
    "count": ("int {name}", "{name}", _INTEGER),
    "counts": ("const int *{name}", "{name}", "integer(c_int), intent(in) :: {name}(*)"),
    "datatype": ("MPI_Fint {name}", "PMPI_Type_f2c({name})", _INTEGER),
    "op": ("MPI_Fint {name}", "PMPI_Op_f2c({name})", _INTEGER),
    "root": ("int {name}", "{name}", _INTEGER),
    "comm": ("MPI_Fint {name}", "PMPI_Comm_f2c({name})", _INTEGER),
    "hybrid": (_HYBRID + "{name}", "{name}", _POINTER),
    "new_hybrid": (_HYBRID + "*{name}", "{name}", _NEW),
    "freed_hybrid": (_HYBRID + "*{name}", "{name}", "type(c_ptr), intent(inout) :: {name}"),
    "bytes": ("MPI_Aint {name}", "{name}", "integer(c_intptr_t), value :: {name}"),
    "new_memory": ("void **{name}", "{name}", _NEW),
    "request": (_REQUEST + "{name}", "{name}", _POINTER),
    "new_request": (_REQUEST + "*{name}", "{name}", _NEW),
    "freed_request": (_REQUEST + "*{name}", "{name}", "type(c_ptr), intent(inout) :: {name}"),
}
_LIFE: dict[str, tuple[tuple[str, str], ...]] = {
    "create": (("comm", "comm"), ("hybrid", "new_hybrid")),
    "create_numa": (("comm", "comm"), ("hybrid", "new_hybrid")),
    "free": (("hybrid", "freed_hybrid"),),
    "alloc": (("hybrid", "hybrid"), ("bytes", "bytes"), ("address", "new_memory")),
    "release": (("hybrid", "hybrid"), ("address", "buffer")),
    "sync": (("hybrid", "hybrid"),),
    "barrier": (("hybrid", "hybrid"),),
    "start": (("request", "request"),),
    "request_free": (("request", "freed_request"),),
}


def hybrid_routines(collectives: Iterable[Collective]) -> list[HybridRoutine]:
    """The routines that make and free packages, the hybrid collectives and their persistent forms."""
    found = [_hybrid_routine(f"collforge_hybrid_{name}", rows) for name, rows in _LIFE.items()]
    for collective in collectives:
        rows = tuple((argument.name, argument.role) for argument in collective.arguments)
        found.append(_hybrid_routine(collective.function, rows))
        persistent = (*rows, ("request", "new_request"))
        found.append(_hybrid_routine(f"{collective.function}_init", persistent))
    return found


def _hybrid_routine(name: str, rows: tuple[tuple[str, str], ...]) -> HybridRoutine:
    forms = [[text.format(name=argument) for text in _KINDS[kind]] for argument, kind in rows]
    parameters, arguments, declarations = zip(*forms)
    return HybridRoutine(name, tuple(n for n, _ in rows), parameters, arguments, declarations)
