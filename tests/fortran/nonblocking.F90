! Nonblocking collectives through one of Fortran's three interfaces to MPI (interface.h); results are checked, and rank 0
! prints `done`. The odd ranks call one of them in C (nonblocking_c.c).
#include "interface.h"
#if INTERFACE == 3
#define REQUEST type(MPI_Request)
#else
#define REQUEST integer
#endif

program nonblocking
    USE_MPI
    implicit none
    INCLUDE_MPI
    interface
        subroutine allreduce_in_c(values, n) bind(c)
            integer :: values(*)
            integer, value :: n
        end subroutine
    end interface
    integer, parameter :: n = 4096
    integer :: rank, ranks, total, i, ierr
    integer :: sums(n), copies(n)
    integer, allocatable :: all_ranks(:)
    REQUEST :: requests(4)

    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank IERR)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks IERR)
    total = ranks * (ranks - 1) / 2
    allocate (all_ranks(n * ranks))
    sums = rank
    copies = merge(7, 0, rank == 1)
    call MPI_Iallreduce(MPI_IN_PLACE, sums, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(1) IERR)
    call MPI_Ibcast(copies, n, MPI_INTEGER, 1, MPI_COMM_WORLD, requests(2) IERR)
    call MPI_Iallgather(copies, n, MPI_INTEGER, all_ranks, n, MPI_INTEGER, MPI_COMM_WORLD, requests(3) IERR)
    call MPI_Ibarrier(MPI_COMM_WORLD, requests(4) IERR)
    call MPI_Wait(requests(4), MPI_STATUS_IGNORE IERR)
    call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE IERR)
    if (any(sums /= total) .or. any(copies /= 7)) stop 1
    ! Ranks in other languages take part in the same collective.
    sums = rank
    if (mod(rank, 2) == 1) then
        call allreduce_in_c(sums, n)
    else
        call MPI_Iallreduce(MPI_IN_PLACE, sums, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(1) IERR)
        call MPI_Wait(requests(1), MPI_STATUS_IGNORE IERR)
    end if
    if (any(sums /= total)) stop 2
    call MPI_Barrier(MPI_COMM_WORLD IERR)
    if (rank == 0) print '(a)', 'done'
    call MPI_Finalize(ierr)
end program
